// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"time"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic"
)

const (
	// gateways is when to look again at gateways: nobody tells what they do.
	gateways = 2 * time.Second
	// stuck is the same while the user has to do something.
	stuck = 10 * time.Second
)

// Wanted is a World with what a stored status needs of requests; nil: nothing, and nobody has to look. w is nil when the workload is not there.
func Wanted(r *v1beta1.Rollout, w *Workload, release *v1beta1.BatchRelease) *traffic.World {
	p := &pass{rollout: r, Snapshot: Snapshot{Workload: w, Release: release}}
	p.Status = r.Status
	sub := r.Status.CanaryStatus
	if sub == nil || !p.routed() {
		return nil
	}
	if goal, ends := traffic.GoalOf(sub.FinalisingStep); ends {
		want := &traffic.World{Goal: goal}
		if goal == traffic.Finish {
			everything := int32(100)
			want.Share.Weight = &everything
		}
		return want
	}
	i := int(sub.CurrentStepIndex)
	if w == nil || r.Status.Phase != v1beta1.RolloutPhaseProgressing || p.reason() != v1beta1.ReasonInRolling || i < 1 || i > len(p.steps()) {
		return nil
	}
	want := &traffic.World{Share: p.share(i), Empties: p.empties(i), Ahead: p.ahead(i)}
	switch sub.CurrentStepState {
	case v1beta1.CanaryStepStateInit:
		if want.Goal = traffic.Prepare; want.Share.None() {
			want.Goal = traffic.Open
		}
	case v1beta1.CanaryStepStateTrafficRouting:
		want.Goal = traffic.Route
	default:
		return nil
	}
	return want
}

// routed: the Rollout is about requests, too.
func (p *pass) routed() bool { return len(p.strategy().TrafficRoutings) > 0 }

func (p *pass) share(step int) traffic.Share {
	return traffic.ShareOf(p.steps()[step-1].TrafficRoutingStrategy)
}

// empties: after a step no pod of the old version is left.
func (p *pass) empties(step int) bool {
	return !p.extra() && !p.beside() && p.limit(p.steps()[step-1].Replicas) >= p.Workload.Replicas
}

// ahead: more pods are or may become new than a step allows.
func (p *pass) ahead(step int) bool {
	if p.Release == nil || p.extra() || p.beside() {
		return false
	}
	limit, plan := p.limit(p.steps()[step-1].Replicas), p.Release.Spec.ReleasePlan
	if at := plan.BatchPartition; at != nil && int(*at) < len(plan.Batches) && p.limit(&plan.Batches[*at].CanaryReplicas) > limit {
		return true
	}
	return p.Release.Status.UpdateRevision == p.Workload.Revision && int(p.Release.Status.CanaryStatus.UpdatedReplicas) > limit
}

// routes: requests are routed after the pods of a step. Where the old version ends, its Service has all pods.
func (p *pass) routes(step int32) bool {
	return p.routed() && !p.share(int(step)).None() && !p.empties(int(step))
}

func (p *pass) style() v1beta1.RollingStyleType {
	switch {
	case p.beside():
		return v1beta1.BlueGreenRollingStyle
	case p.Workload != nil && p.extra():
		return v1beta1.CanaryRollingStyle
	}
	return v1beta1.PartitionRollingStyle
}

// reach takes requests one step further, and says whether they are as the status needs them. about says what for.
func (p *pass) reach(sub *v1beta1.CanaryStatus, about string) bool {
	if !p.routed() {
		return true
	}
	if p.World == nil {
		p.soon(unsettled) // it was read for another state
		return false
	}
	act, why := traffic.Next(*p.World)
	switch act {
	case traffic.Done:
		return true
	case traffic.Stuck:
		p.blocked = why
		p.soon(stuck)
	case traffic.Wait:
		p.waits = why
		p.soon(gateways)
	default:
		p.Act, sub.LastUpdateTime = act, p.time()
		p.soon(gateways)
		if act == traffic.SetRoutes && p.Corrected != "" {
			p.warn(v1beta1.ReasonRouteCorrected, p.Corrected+" was changed by somebody else, and gets the share of the step again")
		}
	}
	if why != "" {
		about += ": " + why
	}
	p.say(sub, about)
	return false
}

// ending is the order of ending the release, and why it ends.
func (p *pass) ending() []v1beta1.FinalisingStep {
	if !p.routed() {
		return []v1beta1.FinalisingStep{
			v1beta1.FinalisingStepResumeWorkload, v1beta1.FinalisingStepReleaseWorkloadControl, v1beta1.FinalisingStepTypeEnd,
		}
	}
	reason := traffic.Leave
	switch why := p.reason(); {
	case why == v1beta1.ReasonCancelling:
		reason = traffic.Rollback
	case p.Status.Phase != v1beta1.RolloutPhaseProgressing:
	case why == v1beta1.ReasonInitializing:
		reason = traffic.Again
	case why == v1beta1.ReasonFinalising:
		reason = traffic.Success
	}
	return traffic.Ending(p.style(), reason)
}

// returned puts Services and routes right when nobody goes on with the release. It says whether they are.
func (p *pass) returned() bool {
	sub := p.Status.CanaryStatus
	if sub == nil || !p.routed() || sub.FinalisingStep == v1beta1.FinalisingStepTypeEnd {
		return true
	}
	order := slices.DeleteFunc(traffic.Ending(v1beta1.PartitionRollingStyle, traffic.Leave), func(s v1beta1.FinalisingStep) bool {
		_, requests := traffic.GoalOf(s)
		return !requests && s != v1beta1.FinalisingStepTypeEnd
	})
	switch at := slices.Index(order, sub.FinalisingStep); {
	case at < 0, at == len(order)-2 && p.World != nil && p.World.Stable.Pinned: // it was in the middle of another order
		sub.FinalisingStep, sub.LastUpdateTime = order[0], p.time()
	case p.reach(sub, "requests go as before the release"):
		sub.FinalisingStep, sub.LastUpdateTime = order[at+1], p.time()
	}
	return false
}

// again ends the release of a version that another one follows. The Service of the user keeps the pods of the old version.
func (p *pass) again(sub *v1beta1.CanaryStatus) bool {
	if sub.FinalisingStep == "" {
		return true
	}
	_, requests := traffic.GoalOf(sub.FinalisingStep)
	switch {
	case requests && p.reach(sub, "requests leave the version before"), !requests && p.Release == nil:
		if p.finalised(sub); sub.FinalisingStep == v1beta1.FinalisingStepTypeEnd {
			sub.FinalisingStep = "" // END is for releases that are over
		}
	case !requests:
		p.Drop = !p.leaving()
	}
	return false
}
