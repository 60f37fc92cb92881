// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/policy/v1beta1"
)

// phase is how it is with a pod, or with its place.
type phase int8

const (
	isReady phase = iota
	// failed pods are not ready by themselves.
	failed
	// restarting pods restart, leaving ones terminate, starting ones replace them. Each of them was disrupted, and counts as such until it is ready.
	restarting
	leaving
	starting
)

// place is a pod of its generation: replacements count up.
type place struct {
	is         phase
	generation int8
	// disrupted: somebody made it unavailable, who had to ask.
	disrupted bool
	// linked: the controller has written the budget's name to it.
	linked bool
}

// recordOf is an entry of a status: the generation of its pod plus one, 0 for none; overdue: its time is over.
type recordOf struct {
	generation int8
	overdue    bool
}

// cluster has two pods, one of which may be unavailable. seen is what the controller's cache shows, flight the generation plus one
// of pods on which an allowed operation has not been carried out. One client evicts, the other rolls out.
type cluster struct {
	pods, seen                    [2]place
	allowed                       int8
	disrupted, updated            [2]recordOf
	flight                        [2][2]int8
	evictions, updates, accidents int8
}

const (
	evicting = iota
	rollingOut
)

// theTime is the time of every question. Records are a second old, or overdue.
var theTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) // one time for all states

// explored runs a model: names are reused as by StatefulSets, or new as by Deployments.
type explored struct{ reuse bool }

func (e explored) name(at int, generation int8) string {
	if e.reuse {
		return fmt.Sprint("web-", at)
	}
	return fmt.Sprint("web-", at, "-", generation)
}

func (e explored) pod(c *cluster, at int, of place) *corev1.Pod {
	p := pod(e.name(at, of.generation))
	for _, r := range []recordOf{c.disrupted[at], c.updated[at]} {
		if r.generation != 0 && r.generation != of.generation+1 {
			p.CreationTimestamp = metav1.NewTime(theTime) // after what is recorded of its predecessor
		}
	}
	if !of.linked {
		p.Annotations = nil
	}
	switch of.is {
	case leaving:
		terminating(p)
	case failed, restarting, starting:
		unready(p)
	}
	return p
}

func (e explored) budget(c *cluster) *Budget {
	b := budgetOf(maxUnavailable("1"))
	b.Status.UnavailableAllowed, b.Status.DesiredAvailable, b.Status.TotalReplicas = int32(c.allowed), 1, 2
	b.Status.DisruptedPods, b.Status.UnavailablePods = e.records(c.disrupted), e.records(c.updated)
	return b
}

func (e explored) records(all [2]recordOf) map[string]metav1.Time {
	m := map[string]metav1.Time{}
	for at, r := range all {
		if r.generation != 0 {
			age := time.Second
			if r.overdue {
				age = time.Minute
			}
			m[e.name(at, r.generation-1)] = metav1.NewTime(theTime.Add(-age))
		}
	}
	return m
}

// kept are the records that a status still has.
func (e explored) kept(before [2]recordOf, after map[string]metav1.Time) [2]recordOf {
	for at, r := range before {
		if _, found := after[e.name(at, r.generation-1)]; !found {
			before[at] = recordOf{}
		}
	}
	return before
}

// count is a pass of the controller, which sees what its cache shows. Its write is tied to the version of the budget.
func (e explored) count(c cluster) cluster {
	var pods []*corev1.Pod
	for at, of := range c.seen {
		pods = append(pods, e.pod(&c, at, of))
	}
	s := Count(e.budget(&c), Observed{Now: theTime, Pods: pods, Total: 2, LinkedOnly: true}).Status
	c.allowed = int8(s.UnavailableAllowed) //nolint:gosec // it is 0 to 2
	c.disrupted, c.updated = e.kept(c.disrupted, s.DisruptedPods), e.kept(c.updated, s.UnavailablePods)
	for at := range c.pods {
		c.pods[at].linked = c.pods[at].linked || c.seen[at].generation == c.pods[at].generation && c.seen[at].is != leaving
	}
	return c
}

// ask is a client's question about a pod. What is allowed is in flight; pods that are not ready are free.
func (e explored) ask(c cluster, client, at int) (cluster, bool) {
	op := v1beta1.PubEvictOperation
	if client == rollingOut {
		op = v1beta1.PubUpdateOperation
	}
	answers, after := Decide(e.budget(&c), []Ask{{Pod: e.pod(&c, at, c.pods[at]), Operation: op, Gates: on()}}, theTime)
	if answers[0].Denied != "" {
		return c, false
	}
	c.flight[client][at] = c.pods[at].generation + 1
	if c.pods[at].is != isReady {
		return carryOut(c, client, at), true // the API server asks about the pod that it then changes
	}
	if after != nil {
		c.allowed = int8(after.UnavailableAllowed) //nolint:gosec // it is 0 to 2
		c.disrupted, c.updated = e.written(at, &c, c.disrupted, after.DisruptedPods), e.written(at, &c, c.updated, after.UnavailablePods)
	}
	return c, true
}

// written are the records after one of a place was written.
func (e explored) written(at int, c *cluster, before [2]recordOf, after map[string]metav1.Time) [2]recordOf {
	if when, found := after[e.name(at, c.pods[at].generation)]; found && when.Time.Equal(theTime) {
		before[at] = recordOf{generation: c.pods[at].generation + 1}
	}
	return before
}

// carryOut ends a flight: the pod leaves or restarts, unless it is another one by now.
func carryOut(c cluster, client, at int) cluster {
	p := &c.pods[at]
	if p.generation+1 == c.flight[client][at] && (p.is == isReady || p.is == failed) {
		p.disrupted = p.disrupted || p.is == isReady
		p.is = leaving
		if client == rollingOut {
			p.is = restarting
		}
	}
	c.flight[client][at] = 0
	return c
}

// alone are the steps of a place that nobody asks for: pods fail, recover, get ready and are replaced; the cache learns of it.
func alone(c cluster, at int) (next []cluster) {
	step := func(change func(*cluster)) {
		n := c
		change(&n)
		next = append(next, n)
	}
	switch p := c.pods[at]; p.is {
	case isReady:
		if c.accidents > 0 {
			step(func(n *cluster) { n.pods[at].is, n.accidents = failed, n.accidents-1 })
		}
	case failed, restarting, starting:
		step(func(n *cluster) { n.pods[at].is, n.pods[at].disrupted = isReady, false })
	case leaving:
		step(func(n *cluster) {
			n.pods[at] = place{is: starting, generation: p.generation + 1, disrupted: p.disrupted}
		})
	}
	if c.seen[at] != c.pods[at] {
		step(func(n *cluster) { n.seen[at] = n.pods[at] })
	} else if c.flight[evicting][at]+c.flight[rollingOut][at] == 0 {
		// Caches lag less than records last.
		if r := c.disrupted[at]; r.generation != 0 && !r.overdue {
			step(func(n *cluster) { n.disrupted[at].overdue = true })
		}
		if r := c.updated[at]; r.generation != 0 && !r.overdue {
			step(func(n *cluster) { n.updated[at].overdue = true })
		}
	}
	return next
}

// next are the states one step further.
func (e explored) next(c cluster) []cluster {
	next := []cluster{e.count(c)}
	for at := range c.pods {
		next = append(next, alone(c, at)...)
		for client := range c.flight {
			left := []*int8{&c.evictions, &c.updates}[client]
			switch {
			case c.flight[client][at] != 0:
				given := c
				given.flight[client][at] = 0
				next = append(next, carryOut(c, client, at), given)
			case *left > 0 && c.pods[at].is != leaving && c.pods[at].is != starting:
				if asked, allowed := e.ask(c, client, at); allowed {
					*[]*int8{&asked.evictions, &asked.updates}[client]--
					next = append(next, asked)
				}
			}
		}
	}
	return next
}

// disruptions are the pods that somebody has made unavailable, or may make so at any moment.
func disruptions(c cluster) int {
	n := 0
	for at, p := range c.pods {
		flies := p.is == isReady && (c.flight[evicting][at] == p.generation+1 || c.flight[rollingOut][at] == p.generation+1)
		if p.disrupted || flies {
			n++
		}
	}
	return n
}

// atRest lets everything end: nothing is in flight, all pods are ready and seen so, and all records are overdue.
func (e explored) atRest(c cluster) cluster {
	c.flight = [2][2]int8{}
	for at := range c.pods {
		c.pods[at].is, c.pods[at].disrupted, c.pods[at].linked = isReady, false, true
		c.seen[at] = c.pods[at]
		c.disrupted[at].overdue, c.updated[at].overdue = true, true
	}
	return e.count(c)
}

// way is how a state was reached.
func way(from map[cluster]cluster, to cluster) string {
	text := fmt.Sprintf("\n%+v", to)
	if before := from[to]; before != to {
		return way(from, before) + text
	}
	return text
}

// TestExplore visits each state of two clients, of which one evicts and one rolls out, with a failing pod, a controller whose cache lags, and operations
// that are allowed and given up. Never are more pods disrupted than the budget allows, and in the end all room is there again.
func TestExplore(t *testing.T) {
	for _, reuse := range []bool{false, true} {
		t.Run(fmt.Sprintf("names are reused %v", reuse), func(t *testing.T) {
			e := explored{reuse: reuse}
			start := cluster{allowed: 1, evictions: 2, updates: 1, accidents: 1}
			for at := range start.pods {
				start.pods[at].linked, start.seen[at].linked = true, true
			}
			visited, todo := map[cluster]cluster{start: start}, []cluster{start}
			for len(todo) > 0 {
				c := todo[0]
				todo = todo[1:]
				if n := disruptions(c); n > 1 {
					t.Fatalf("%d pods are disrupted:%s", n, way(visited, c))
				}
				if rest := e.atRest(c); rest.allowed != 1 || rest.disrupted != [2]recordOf{} || rest.updated != [2]recordOf{} {
					t.Fatalf("from %+v all room comes not back: %+v", c, rest)
				}
				for _, n := range e.next(c) {
					if _, seen := visited[n]; !seen {
						visited[n] = c
						todo = append(todo, n)
					}
				}
			}
			t.Logf("%d states", len(visited))
		})
	}
}
