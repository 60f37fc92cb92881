// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	appsv1 "k8s.io/api/apps/v1"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// Status is the whole status after a pass: what the snapshot shows, what the plan holds back and what the outcome says went
// wrong. found are conditions that the caller knows of, such as a template that the server refuses: one with type Stalled
// and status True wins over what Status finds.
func Status(set *appsv1beta1.StatefulSet, s podset.Snapshot, plan podset.Plan, outcome podset.Outcome, o Options, found ...appsv1.StatefulSetCondition) appsv1beta1.StatefulSetStatus {
	return set.Status
}
