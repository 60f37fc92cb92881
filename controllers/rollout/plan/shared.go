// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
)

// returning is how long an end waits for a TrafficRouting. It may have nobody who acts.
const returning = time.Minute

// Shared is what was read of the TrafficRouting that a Rollout names.
type Shared struct {
	Name string
	// Fault says why it cannot be used; empty: it can.
	Fault string
	// Held: a finalizer says that the Rollout uses it.
	Held bool
	// Routing: requests are routed, and no other Rollout uses it.
	Routing bool
}

// uses: the release is one that needs its TrafficRouting.
func (p *pass) uses() bool {
	if p.rollout.DeletionTimestamp != nil || p.rollout.Spec.Disabled || p.Workload == nil || p.Status.Phase != v1beta1.RolloutPhaseProgressing {
		return false
	}
	switch p.reason() {
	case v1beta1.ReasonInitializing, v1beta1.ReasonInRolling, v1beta1.ReasonPaused:
		return true
	}
	return false
}

// holds says by a finalizer whether the release uses its TrafficRouting. One that came back in the middle is used again.
func (p *pass) holds() {
	switch s := p.Shared; {
	case s == nil:
	case !p.uses():
		p.LetGo = s.Held
	case p.reason() != v1beta1.ReasonInitializing:
		p.Hold = !s.Held && s.Fault == ""
	}
}

// shared begins to use the TrafficRouting, and says whether the release may begin.
func (p *pass) shared(sub *v1beta1.CanaryStatus) bool {
	s := p.Shared
	if s == nil || s.Held {
		return true
	}
	p.blocked, p.Hold = s.Fault, s.Fault == ""
	message := "the release waits for TrafficRouting " + s.Name
	if s.Fault != "" {
		message += ": " + s.Fault
	}
	p.say(sub, message)
	return false
}

// unshared: no route of the TrafficRouting leads to the release any more. What is gone is done.
func (p *pass) unshared(sub *v1beta1.CanaryStatus) bool {
	s := p.Shared
	if s == nil || !s.Held && (!s.Routing || sub == nil || p.since(sub.LastUpdateTime) >= returning) {
		return true
	}
	if sub != nil {
		p.say(sub, "TrafficRouting "+s.Name+" sets its routes back")
	}
	p.soon(stuck)
	return false
}
