// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package image decides about pulling images ahead of need.
//
// Before pods are updated in place their new images can be pulled to the nodes on which they run: for each container whose image
// changes there is an ImagePullJob, which the workload owns. Decide says which jobs there should be. It decides only about jobs: neither this
// package nor the result of a job holds back a rollout.
package image
