// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package persistentpodstate remembers where the pods of a workload were ready, and makes new ones return there.
package persistentpodstate
