// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
)

// beside is the spec of a set in a blue-green release: it has room for new pods, and its partition has the old ones.
// With another template, or with the note of OpenKruise, pods stay as they are, until the release has decided.
func (s *Spec) beside(snapshot *podset.Snapshot) *Spec {
	if _, found := s.Set.Annotations[shared.AnnotationOriginal]; !found {
		return s
	}
	twin, _ := rollable.TwinOf(s.Set.Annotations)
	both := *s
	if twin.Revision == snapshot.Update.Name && twin.Revision != snapshot.Current.Name {
		both.Partition, both.Replicas = s.Replicas, s.Replicas+min(twin.Pods, s.Replicas)
		return &both
	}
	for i := range snapshot.Pods {
		if pod := &snapshot.Pods[i]; counts(pod) && pod.Revision != snapshot.Current.Name {
			both.Replicas++
		}
	}
	both.Partition = both.Replicas
	return &both
}
