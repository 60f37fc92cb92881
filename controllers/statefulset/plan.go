// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/inplace"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
)

// Options are the feature gates as far as they concern this kind.
type Options struct {
	// StartOrdinal honors spec.ordinals.start (feature gate StatefulSetStartOrdinal).
	StartOrdinal bool
	// AutoDeletePVC honors the claim retention policy (StatefulSetAutoDeletePVC).
	AutoDeletePVC bool
	// AutoResizePVC honors the claim update strategy (StatefulSetAutoResizePVCGate).
	AutoResizePVC bool
	// PodIndexLabel gives new pods their ordinal as a label (PodIndexLabel).
	PodIndexLabel bool
	// InPlace says what may change in place.
	InPlace inplace.Options
}

// Pods derives the facts about the pods of the set, for Snapshot.Pods. Objects whose name is not that of a slot are left out.
func Pods(set *appsv1beta1.StatefulSet, objects []*corev1.Pod, now time.Time, o Options) []podset.Pod {
	return nil
}

// CurrentRevision is the revision the fleet was last completely on: the one the status names if it is still stored, else update.
func CurrentRevision(set *appsv1beta1.StatefulSet, update revision.Revision, stored map[string]revision.Revision) revision.Revision {
	if current, ok := stored[set.Status.CurrentRevision]; ok {
		return current
	}
	return update
}

// Plan decides the next step of a StatefulSet.
func Plan(set *appsv1beta1.StatefulSet, s podset.Snapshot, o Options) podset.Plan {
	return podset.Plan{}
}
