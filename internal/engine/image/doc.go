// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package image decides about pulling images ahead of need.
//
// Before pods are updated in place their new images can be pulled to their nodes: for each changed
// image there is an ImagePullJob of the workload. Decide names these jobs. It decides only about
// jobs: neither this package nor the result of a job holds back a rollout.
package image
