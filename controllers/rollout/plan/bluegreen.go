// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import "github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"

// beside: new pods come beside all old ones, and these stay until the release ends.
func (p *pass) beside() bool { return p.rollout.Spec.Strategy.BlueGreen != nil }

// Unify gives a Rollout of either strategy the form of one of them: what its steps are, and where it is, stands under canary.
func Unify(r *v1beta1.Rollout) {
	if b := r.Spec.Strategy.BlueGreen; b != nil {
		r.Spec.Strategy.Canary = &v1beta1.CanaryStrategy{
			Steps: b.Steps, TrafficRoutings: b.TrafficRoutings, TrafficRoutingRef: b.TrafficRoutingRef, DisableGenerateCanaryService: b.DisableGenerateCanaryService,
		}
	}
	if s := r.Status.BlueGreenStatus; s != nil && (r.Spec.Strategy.BlueGreen != nil || r.Status.CanaryStatus == nil) {
		r.Status.CanaryStatus = &v1beta1.CanaryStatus{
			CommonStatus: s.CommonStatus, CanaryRevision: s.UpdatedRevision, CanaryReplicas: s.UpdatedReplicas, CanaryReadyReplicas: s.UpdatedReadyReplicas,
		}
	}
	r.Status.BlueGreenStatus = nil
}

// Divide gives a status the form that belongs to the strategy of a Rollout.
func Divide(r *v1beta1.Rollout, s v1beta1.RolloutStatus) v1beta1.RolloutStatus {
	if c := s.CanaryStatus; c != nil && r.Spec.Strategy.BlueGreen != nil {
		s.BlueGreenStatus = &v1beta1.BlueGreenStatus{
			CommonStatus: c.CommonStatus, UpdatedRevision: c.CanaryRevision, UpdatedReplicas: c.CanaryReplicas, UpdatedReadyReplicas: c.CanaryReadyReplicas,
		}
		s.CanaryStatus = nil
	}
	return s
}
