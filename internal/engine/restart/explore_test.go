// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package restart

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// small is a whole small simulation: one pod, two requests for it, and a daemon that may die between any two of its steps.
type small struct {
	*simulation
	requests [2]*v1beta1.ContainerRecreateRequest
	// next numbers instances, crashes is how often containers may still restart by themselves.
	next, crashes int
	// stops counts what each request has stopped of each container, by instance.
	stops map[string]map[string]bool
}

func (s *small) clone() *small {
	c := &small{next: s.next, crashes: s.crashes, stops: map[string]map[string]bool{}}
	for key, instances := range s.stops {
		c.stops[key] = map[string]bool{}
		for instance := range instances {
			c.stops[key][instance] = true
		}
	}
	c.simulation = &simulation{now: s.now, pod: s.pod.DeepCopy(), runs: map[string]Instance{}}
	for name, instance := range s.runs {
		c.runs[name] = instance
	}
	for i, r := range s.requests {
		c.requests[i] = r.DeepCopy()
	}
	return c
}

// key is what makes two worlds the same.
func (s *small) key(t *testing.T) string {
	t.Helper()
	text, err := json.Marshal([]any{s.runs, s.pod.Status, s.requests, s.next, s.crashes, s.stops})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// step is something that happens.
type step struct {
	name string
	do   func(*small) *small
}

// steps are all that can happen in a simulation. A death of the daemon is none of its own: between two steps it remembers nothing anyway. That it
// dies after the runtime has stopped something, before it hears of it, is the step "stop" with nothing after it.
func (s *small) steps(t *testing.T) []step {
	t.Helper()
	var all []step
	queue := Queue(s.requests[:])
	for _, waiting := range queue[min(1, len(queue)):] {
		if waiting.Status.Phase == "" {
			all = append(all, step{"wait " + waiting.Name, func(c *small) *small {
				c.named(waiting.Name).Status.Phase = v1beta1.RecreatePending
				return c
			}})
		}
	}
	if len(queue) > 0 {
		all = append(all, s.daemon(t, queue[0])...)
	}
	for name, instance := range s.runs {
		switch {
		case instance.Exited:
			all = append(all, step{"kubelet starts " + name, func(c *small) *small {
				c.next++
				c.start(name, fmt.Sprintf("%s-%d", name, c.next))
				return c
			}})
		case !StatusOf(s.pod, name).Ready:
			all = append(all, step{name + " becomes ready", func(c *small) *small { c.ready(name, true); return c }})
		}
		if instance.Running && s.crashes > 0 {
			all = append(all, step{name + " crashes", func(c *small) *small { c.crashes--; c.exit(name, 1); return c }})
		}
	}
	return all
}

// daemon is what the daemon can do for the request whose turn it is.
func (s *small) daemon(t *testing.T, r *v1beta1.ContainerRecreateRequest) []step {
	t.Helper()
	d := Plan(r, s.snapshot())
	switch {
	case d.Changed:
		return []step{{"write " + r.Name, func(c *small) *small { c.named(r.Name).Status = *d.Status; return c }}}
	case d.Kill == nil:
		return nil
	}
	container := d.Kill.Container.Name
	stop := step{"stop " + container, func(c *small) *small {
		of := r.Name + "/" + container
		if c.stops[of] == nil {
			c.stops[of] = map[string]bool{}
		}
		c.stops[of][d.Kill.ID] = true
		c.exit(container, 0)
		return c
	}}
	refused := step{"refuse to stop " + container, func(c *small) *small {
		c.named(r.Name).Status = *NotStopped(r, container, errRefused)
		return c
	}}
	return []step{stop, refused}
}

var errRefused = fmt.Errorf("refused")

func (s *small) named(name string) *v1beta1.ContainerRecreateRequest {
	for _, r := range s.requests {
		if r.Name == name {
			return r
		}
	}
	return nil
}

// faults are what must never be so.
func (s *small) faults() string {
	var faults []string
	begun := 0
	for _, r := range s.requests {
		if r.Status.Phase == v1beta1.RecreateRecreating {
			begun++
		}
		for _, state := range r.Status.ContainerRecreateStates {
			if state.Phase == v1beta1.RecreateSucceeded && s.runs[state.Name].ID == "" {
				faults = append(faults, state.Name+" succeeded without an instance")
			}
		}
	}
	if begun > 1 {
		faults = append(faults, "two requests are carried out at the same time")
	}
	for of, instances := range s.stops {
		if len(instances) > 1 {
			faults = append(faults, fmt.Sprintf("%s was stopped in %d instances", of, len(instances)))
		}
	}
	return strings.Join(faults, "; ")
}

// TestExploreRequests goes through every order of events in small worlds: two requests for two containers, a daemon that may stop anywhere,
// containers that crash, a runtime that refuses. Nothing is stopped twice, one request is carried out at a time, and from everywhere the
// queue drains when the kubelet does its work.
func TestExploreRequests(t *testing.T) {
	for _, strategy := range []v1beta1.ContainerRecreateRequestStrategy{
		{},
		{OrderedRecreate: true},
		{ForceRecreate: true, FailurePolicy: v1beta1.RecreateIgnore},
	} {
		t.Run(fmt.Sprintf("ordered %v forced %v", strategy.OrderedRecreate, strategy.ForceRecreate), func(t *testing.T) {
			first := &small{simulation: newSimulation("a", "b"), crashes: 1, stops: map[string]map[string]bool{}}
			for i, name := range []string{"one", "two"} {
				first.requests[i] = first.request(name, "a", "b")
				first.requests[i].Spec.Strategy = strategy.DeepCopy()
				first.requests[i].CreationTimestamp = metav1.NewTime(start)
			}
			seen := explore(t, first)
			if seen < 100 {
				t.Errorf("only %d worlds were seen", seen)
			}
			t.Logf("%d worlds", seen)
		})
	}
}

func explore(t *testing.T, first *small) int {
	t.Helper()
	const most = 100000
	seen := map[string]bool{first.key(t): true}
	pending := []*small{first}
	for len(pending) > 0 {
		s := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		if fault := s.faults(); fault != "" {
			t.Fatalf("%s in %s", fault, s.key(t))
		}
		steps := s.steps(t)
		if len(steps) == 0 {
			for _, r := range s.requests {
				if r.Status.Phase != v1beta1.RecreateCompleted {
					t.Fatalf("nothing can happen any more, and %s is %s: %s", r.Name, r.Status.Phase, s.key(t))
				}
			}
		}
		for _, next := range steps {
			c := next.do(s.clone())
			key := c.key(t)
			if seen[key] {
				continue
			}
			seen[key] = true
			if len(seen) > most {
				t.Fatalf("more than %d worlds", most)
			}
			pending = append(pending, c)
		}
	}
	return len(seen)
}
