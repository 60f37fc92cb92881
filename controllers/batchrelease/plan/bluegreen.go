// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
	"github.com/kruise-operator/kruise-operator/internal/engine/rolling"
)

// beside: new pods come beside all old ones, and these go when the release ends.
func (p *pass) beside() bool {
	return p.release.Spec.ReleasePlan.RollingStyle == v1beta1.BlueGreenRollingStyle
}

// keepOld makes sure that nobody takes old pods, and says whether there was something to do. It comes before anything else.
func (p *pass) keepOld() bool {
	if !p.beside() {
		return false
	}
	if p.Scaling {
		p.Act.Hold = true
		return true
	}
	return p.onSets(rolling.Slowed)
}

// onSets is the next write to a ReplicaSet, if there is one.
func (p *pass) onSets(next func(rolling.View) rolling.Step) bool {
	if p.Workload.Rolling == nil {
		return false
	}
	step := next(*p.Workload.Rolling)
	if step.Verb == rolling.Reached {
		return false
	}
	p.Act.Rolling = &step
	return true
}

// beside adds new pods by package rolling.
func beside(v rolling.View, desired int) Act {
	v.Limit = desired
	step := rolling.Beside(v)
	if step.Verb == rolling.Wait || step.Verb == rolling.Reached {
		return Act{}
	}
	return Act{Rolling: &step}
}

// twins adds new pods to a CloneSet. Pods of a version in the middle go first; requests have left them.
func (w *Workload) twins(desired int) Act {
	want := max(desired, min(w.Updated, w.Replicas))
	switch {
	case len(w.Middle) > 0:
		return Act{Delete: w.Middle}
	case w.Twin != rollable.Twin{Revision: w.Revision, Pods: want}:
		return Act{Beside: &want}
	}
	return Act{}
}

// kept: all old pods are there, too.
func (p *pass) kept(desired int) bool {
	switch w := p.Workload; {
	case !p.beside():
		return true
	case w.Rolling == nil:
		return len(w.Middle) == 0 && (w.Old >= w.Replicas || w.Revision == p.Status.StableRevision)
	}
	v := *p.Workload.Rolling
	v.Limit = desired
	return rolling.Beside(v).Verb == rolling.Reached
}

// served: the new pods have all requests, so they stay whatever comes next.
func (p *pass) served() bool { return p.beside() && !p.early() }

// withdraw takes the new pods when the template was set back, and says whether any are left.
func (p *pass) withdraw() bool {
	if !p.beside() || p.served() || p.Workload.Revision != p.Status.StableRevision {
		return false
	}
	p.Act.Delete = p.Workload.Middle
	return len(p.Workload.Middle) > 0 || p.onSets(rolling.Withdraw)
}

// tidy takes what is left of the release from old ReplicaSets.
func (p *pass) tidy() bool { return p.beside() && !p.keeps() && p.onSets(rolling.Ended) }

// free lets autoscalers take pods again.
func (p *pass) free() bool {
	p.Act.Free = p.Held
	p.Moving = p.Moving || p.Held
	return p.Held
}

// alone: no old pod is left.
func (w *Workload) alone() bool {
	return w.Rolling == nil && w.Old == 0 && len(w.Middle) == 0 || w.Rolling != nil && w.Rolling.Alone()
}
