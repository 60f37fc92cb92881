// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
)

const (
	// checkEvery is the interval between checks: an API server may have restarted without policies.
	checkEvery = 10 * time.Minute
	// firstCheck and lastCheck bound the pause between two checks of a set not in force.
	firstCheck, lastCheck = 200 * time.Millisecond, 30 * time.Second
	// checkTimeout is how long one check may take.
	checkTimeout = 5 * time.Second
	// settling keeps the webhook beside a new policy: requests past the policies may still reach the webhooks.
	settling = 2 * time.Second
	// soon is the time to come into force before it counts as a fault.
	soon = 10 * time.Second
)

// check is the result of dry runs at all API servers.
type check struct {
	// shown is the expected result, first and last the times of the search for it.
	shown       string
	first, last time.Time
	tries       int
	// policy: it injects some revision at each server. policyCurrent: the wanted one. current: pods get it either way.
	policy, policyCurrent, current bool
	// servers is how many there are.
	servers int
	// message is why nothing is known.
	message string
}

// inForce reports whether all servers show the wanted result.
func (c *check) inForce(set *injectedSet) bool { return c.shown == set.shown && c.current }

// look has every API server create a probe in a dry run.
func (i *Injection) look(ctx context.Context, set *injectedSet) check {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	c := check{shown: set.shown, policy: true, policyCurrent: true, current: true}
	var mutex sync.Mutex
	err := i.options.Servers.Each(ctx, func(ctx context.Context, server client.Client) error {
		policy, webhook, err := set.marksOf(ctx, server)
		mutex.Lock()
		defer mutex.Unlock()
		c.servers++
		c.policy, c.policyCurrent = c.policy && policy != "", c.policyCurrent && policy == set.revision
		c.current = c.current && cmp.Or(webhook, policy) == set.revision // The webhook comes after the policy.
		return err
	})
	if err != nil {
		return check{shown: set.shown, message: err.Error()}
	}
	return c
}

// errNoLabels means a selector contradicts itself.
var errNoLabels = errors.New("no labels match the selector")

// marksOf returns the revisions policy and webhook of the set inject at a server; empty: none.
func (set *injectedSet) marksOf(ctx context.Context, server client.Client) (policy, webhook string, err error) {
	probe, possible := set.parsed.Match.Probe()
	if !possible {
		return "", "", errNoLabels
	}
	if err := server.Create(ctx, probe, client.DryRunAll); err != nil {
		return "", "", fmt.Errorf("asking whether it is in force: %w", err)
	}
	policy, webhook = sidecar.Marks(probe, set.name)
	return policy, webhook, nil
}

// calledBy says why a server does not call the webhook of the set; nil: it does.
func (set *injectedSet) calledBy(ctx context.Context, server client.Client) error {
	_, webhook, err := set.marksOf(ctx, server)
	if err == nil && webhook != set.revision {
		err = errNotShown
	}
	return err
}

// errNotShown means nothing is in force, or another revision.
var errNotShown = errors.New("the revision is not in force")

// nextCheck is when the set has to be checked, from now on.
func (i *Injection) nextCheck(set *injectedSet) time.Duration {
	k, now := i.knownOf(set), i.options.Clock.Now()
	c := &k.check
	if c.shown != set.shown || c.tries == 0 {
		return 0
	}
	pause := firstCheck << min(c.tries-1, 12)
	switch {
	case !c.current:
		pause = min(pause, lastCheck)
	case !i.byPolicy(set) || k.byPolicy:
		pause = checkEvery
	case !k.policySince.IsZero():
		pause = settling
	default: // The webhook injects until the policy does.
		pause = min(pause, checkEvery)
	}
	return max(0, c.last.Add(pause).Sub(now))
}

// checked notes what a check has found.
func (i *Injection) checked(set *injectedSet, now check) {
	k := i.knownOf(set)
	now.last, now.first, now.tries = i.options.Clock.Now(), k.check.first, k.check.tries+1
	if k.check.shown != set.shown || k.check.tries == 0 || now.current && !k.check.current {
		now.first, now.tries = now.last, 1
	}
	k.check = now
	switch {
	case now.message != "":
	case !now.policy:
		k.byPolicy, k.policySince = false, time.Time{}
	case !now.policyCurrent:
	case k.policySince.IsZero():
		k.policySince = now.last
	case now.last.Sub(k.policySince) >= settling:
		k.byPolicy = true
	}
}
