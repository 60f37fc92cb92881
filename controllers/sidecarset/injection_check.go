// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
)

const (
	// checkEvery is how often it is checked that what is registered is in force: an API server may have been restarted without policies.
	checkEvery = 10 * time.Minute
	// firstCheck and lastCheck bound the pause between two checks of a set that is not in force.
	firstCheck, lastCheck = 200 * time.Millisecond, 30 * time.Second
	// checkTimeout is how long one check may take.
	checkTimeout = 5 * time.Second
	// soon is how long a set may take to be in force before that counts as a fault.
	soon = 10 * time.Second
)

// check is what dry runs of a probe have shown at all API servers.
type check struct {
	// shown is what they were to show, first and last when that was looked for.
	shown       string
	first, last time.Time
	tries       int
	// policy and webhook say that each server marks the probe with some revision, and in which way. A webhook leaves what the policy has marked.
	policy, webhook bool
	// current says that all mark the revision that is wanted, servers how many there are.
	current bool
	servers int
	// message is why nothing is known.
	message string
}

// inForce says that the set is in force as it is wanted.
func (c *check) inForce(set *injectedSet) bool { return c.shown == set.shown && c.current }

// look has every API server create a probe in a dry run.
func (i *Injection) look(ctx context.Context, set *injectedSet) check {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	c := check{shown: set.shown, policy: true, webhook: true, current: true}
	var mutex sync.Mutex
	err := i.options.Servers.Each(ctx, func(ctx context.Context, server client.Client) error {
		mark, err := set.markOf(ctx, server)
		mutex.Lock()
		defer mutex.Unlock()
		c.servers++
		if err != nil {
			return err
		}
		webhook := strings.HasSuffix(mark, sidecar.MarkedByWebhook)
		c.policy, c.webhook = c.policy && mark != "" && !webhook, c.webhook && mark != ""
		c.current = c.current && (mark == set.revision || mark == set.revision+sidecar.MarkedByWebhook)
		return nil
	})
	if err != nil {
		return check{shown: set.shown, message: err.Error()}
	}
	return c
}

// errNoLabels means that a selector contradicts itself.
var errNoLabels = errors.New("no labels match the selector")

// markOf is how a server marks a probe for the set; empty: nothing is in force there.
func (set *injectedSet) markOf(ctx context.Context, server client.Client) (string, error) {
	probe, possible := set.parsed.Match.Probe()
	if !possible {
		return "", errNoLabels
	}
	if err := server.Create(ctx, probe, client.DryRunAll); err != nil {
		return "", fmt.Errorf("asking whether it is in force: %w", err)
	}
	return probe.Annotations[sidecar.ProbeMark(set.name)], nil
}

// shownBy says why a server does not inject the set as it is wanted; nil: it does.
func (set *injectedSet) shownBy(ctx context.Context, server client.Client) error {
	mark, err := set.markOf(ctx, server)
	if err == nil && strings.TrimSuffix(mark, sidecar.MarkedByWebhook) != set.revision {
		err = errNotShown
	}
	return err
}

// errNotShown means that something else is in force, or nothing.
var errNotShown = errors.New("the revision is not in force")

// checkDue says that the set has to be checked now.
func (i *Injection) checkDue(set *injectedSet) bool {
	return set.injects() && i.nextCheck(set) == 0
}

// nextCheck is when the set has to be checked, from now on.
func (i *Injection) nextCheck(set *injectedSet) time.Duration {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	c, now := &i.knownOf(set.name).check, i.options.Clock.Now()
	if c.shown != set.shown || c.tries == 0 {
		return 0
	}
	pause := min(firstCheck<<min(c.tries-1, 12), lastCheck)
	if c.current {
		pause = checkEvery
		if i.byPolicy(set) && !c.policy { // The webhook injects until the policy does.
			pause = min(firstCheck<<min(c.tries-1, 12), checkEvery)
		}
	}
	return max(0, c.last.Add(pause).Sub(now))
}

// checked notes what a check has shown.
func (i *Injection) checked(set *injectedSet, now check) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	k := i.knownOf(set.name)
	now.last, now.first, now.tries = i.options.Clock.Now(), k.check.first, k.check.tries+1
	if k.check.shown != set.shown || k.check.tries == 0 || now.current && !k.check.current {
		now.first, now.tries = now.last, 1
	}
	k.check = now
	if now.message == "" {
		k.byPolicy = now.policy
	}
}
