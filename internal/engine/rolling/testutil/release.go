// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"fmt"
	"slices"

	"github.com/kruise-operator/kruise-operator/internal/engine/rolling"
)

// Plan is what a user wants: limits in pods, and the percentages of the steps.
type Plan struct {
	Surge, Unavailable int
	Steps              []int
}

// Limit is how many pods a step allows to be new.
func (p Plan) Limit(step, replicas int) int {
	percent := p.Steps[step]
	n := (percent*replicas + 99) / 100
	if percent < 100 && replicas > 1 {
		n = min(n, replicas-1)
	}
	return n
}

// Last says that a step is the last one, and allows all pods.
func (p Plan) Last(step int) bool { return step == len(p.Steps)-1 && p.Steps[step] == 100 }

// Release is a Deployment in a release: the controllers, and who moves it. It is comparable.
type Release struct {
	Controllers
	// Step is the index of the step, and Done says that the user has his Deployment back.
	Step int
	Done bool
	// Back: the template is that of the start again.
	Back bool
	// Pending is a write that was decided; Valid says that its object has not changed since.
	Pending rolling.Step
	Valid   bool
	// Excused: too few pods are ready because a pod failed or replicas changed.
	Excused bool
	// Failed counts failed pods. New ones may take their places.
	Failed int
	// Oldest counts ready pods of the oldest version that went while one of a middle version was there.
	Oldest int
}

// Started is a Deployment at rest whose template has just changed, and which is braked.
func Started(p Plan, replicas int) Release {
	var r Release
	d := Deployment{Replicas: replicas, Surge: p.Surge, Unavailable: p.Unavailable, Paused: true, Version: 1}
	set := Set{
		Exists: true, Replicas: replicas, Desired: replicas, Max: replicas + p.Surge,
		Status: Total{replicas, replicas, replicas}, Managed: true, Ready: replicas,
	}
	r.Deployment, r.Seen = d, d
	r.Sets[0], r.SeenSets[0] = set, set
	r.Fresh, r.FreshSets, r.Observed, r.Total = true, [Versions]bool{true, true, true}, true, set.Status
	for i := 1; i < Versions; i++ {
		r.Sets[i].Managed, r.SeenSets[i].Managed = true, true
	}
	return r
}

// View is what the mover reads.
func (r *Release) View(p Plan) rolling.View {
	d := r.Deployment
	v := rolling.View{
		Replicas: d.Replicas, Limit: p.Limit(r.Step, d.Replicas), Surge: p.Surge, Unavailable: max(p.Unavailable, boolean(p.Surge == 0)),
		Moving: !d.Paused && d.Huge, Uncounting: d.Paused && d.Huge, InForce: d.Surge, Observed: r.Observed, CaughtUp: r.caughtUp(),
		Counted: r.Sets[d.Version].Status.Available > 0, Loose: !d.Paused && !d.Huge, Last: p.Last(r.Step),
	}
	v.Patient = r.Sets[d.Version].Status.Ready < v.Limit
	for i, s := range r.Sets {
		set := rolling.Set{Replicas: s.Replicas, Ready: s.Status.Ready, Desired: s.Desired, Slow: s.Huge}
		if i == d.Version {
			v.New = set
		} else {
			v.Old = append(v.Old, set)
		}
	}
	return v
}

// caughtUp is what the statuses show.
func (r *Release) caughtUp() bool {
	var sum Total
	for _, s := range r.Sets {
		if s.Status.Replicas != s.Replicas || !s.Managed {
			return false
		}
		sum.add(s.Status)
	}
	return r.Observed && sum == r.Total
}

// TakeBack gives the user the Deployment back after the template was set back.
func (r *Release) TakeBack(p Plan) {
	if r.Back && r.caughtUp() {
		r.Restore(p)
	}
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Decide is the mover reading everything and deciding on a write.
func (r *Release) Decide(p Plan) {
	r.Pending, r.Valid = rolling.Next(r.View(p)), true
	if r.Pending.Verb == rolling.Wait {
		r.Pending, r.Valid = rolling.Step{}, false
	}
}

// set is the index of the ReplicaSet that an index of the old ones means.
func (r *Release) set(old int) int {
	if old >= r.Deployment.Version {
		return old + 1
	}
	return old
}

// Act carries out what was decided. The server refuses it when the object has changed.
func (r *Release) Act(p Plan) {
	step, valid := r.Pending, r.Valid
	r.Pending, r.Valid = rolling.Step{}, false
	if !valid {
		return
	}
	d := r.Deployment
	switch step.Verb {
	case rolling.Uncount:
		d.Huge = true
		r.Write(d)
	case rolling.Move:
		d.Paused, d.Huge, d.Surge, d.Unavailable = false, true, step.Surge, rolling.MaxUnavailable(step.Surge)
		r.Write(d)
	case rolling.Note:
		i := r.set(step.Set)
		s := r.Sets[i]
		s.Desired, s.Max = d.Replicas, d.Replicas+d.Surge
		r.WriteSet(i, s)
	case rolling.Lower:
		i := r.set(step.Set)
		s := r.Sets[i]
		s.Replicas = step.Replicas
		r.WriteSet(i, s)
	case rolling.Reached:
		d.Paused, d.Huge, d.Surge, d.Unavailable = true, false, rolling.Parked(r.View(p)), max(p.Unavailable, 1)
		r.Write(d)
	case rolling.Free:
		d.Paused, d.Huge, d.Surge, d.Unavailable = false, false, p.Surge, p.Unavailable
		r.Write(d)
	case rolling.Stop:
		d.Paused = true
		r.Write(d)
	case rolling.Wait:
	}
}

// Approve begins the next step. After the last one, the user gets the Deployment back.
func (r *Release) Approve(p Plan) {
	if r.Step+1 < len(p.Steps) {
		r.Step++
		return
	}
	r.Restore(p)
}

// Restore gives the numbers back to the user: the rest rolls by them.
func (r *Release) Restore(p Plan) {
	d := r.Deployment
	d.Paused, d.Huge, d.Surge, d.Unavailable = false, false, p.Surge, p.Unavailable
	r.Done = true
	r.Write(d)
}

// Template is the user setting the template to a version. The brake pauses the Deployment and leaves the rest.
func (r *Release) Template(version int) {
	d := r.Deployment
	d.Version, d.Paused = version, true
	r.Step, r.Back = 0, version == 0
	r.Write(d)
}

// Scale is the user changing replicas.
func (r *Release) Scale(replicas int) {
	d := r.Deployment
	d.Replicas = replicas
	r.Excused = true
	r.Write(d)
}

// Machine is a step of somebody who is no user.
type Machine struct {
	Name string
	Do   func(*Release)
}

// Machines are all of them.
func Machines(p Plan) []Machine {
	all := []Machine{
		{"the Deployment controller acts", func(r *Release) { r.Sync() }},
		{"it sees the Deployment", func(r *Release) { r.See() }},
		{"we decide", func(r *Release) {
			if !r.Done && !r.Valid && !r.Back {
				r.Decide(p)
			}
		}},
		{"we act", func(r *Release) { r.Act(p) }},
		{"we take back", func(r *Release) {
			if !r.Done {
				r.TakeBack(p)
			}
		}},
	}
	for i := range Versions {
		all = append(all,
			Machine{fmt.Sprintf("it sees set %d", i), func(r *Release) { r.SeeSet(i) }},
			Machine{fmt.Sprintf("pods of set %d come and go", i), func(r *Release) { r.Manage(i) }},
			Machine{fmt.Sprintf("set %d reports", i), func(r *Release) { r.Report(i) }},
			Machine{fmt.Sprintf("a pod of set %d becomes ready", i), func(r *Release) {
				if r.Sets[i].Unready > 0 {
					r.Sets[i].Unready--
					r.Sets[i].Ready++
				}
			}},
		)
	}
	return all
}

// Settle takes turns until nothing changes. It says whether that came about.
func (r *Release) Settle(p Plan) bool {
	for range 300 {
		before := *r
		for _, m := range Machines(p) {
			m.Do(r)
		}
		if *r == before {
			return true
		}
	}
	return false
}

// Ends are what can come out when nobody but machines acts, in so many orders. Order gives numbers below another one.
func (r *Release) Ends(p Plan, orders int, order func(below int) int) []Release {
	machines := Machines(p)
	var ends []Release
	for range orders {
		one := *r
		for range order(80) {
			machines[order(len(machines))].Do(&one)
		}
		if one.Settle(p) && !slices.Contains(ends, one) {
			ends = append(ends, one)
		}
	}
	return ends
}

// Sizes are those of the ReplicaSets.
func (r *Release) Sizes() (sizes [Versions]int) {
	for i, s := range r.Sets {
		sizes[i] = s.Replicas
	}
	return sizes
}

// Do carries out a step of somebody. It returns what is broken then; empty when nothing is.
func (r *Release) Do(p Plan, step func(*Release)) string {
	before := *r
	step(r)
	if r.Deployment != before.Deployment || r.Observed != before.Observed || r.Total != before.Total {
		r.Valid = r.Valid && onSet(r.Pending)
	}
	if r.Valid && onSet(r.Pending) {
		i := r.set(r.Pending.Set)
		r.Valid = r.Deployment.Version == before.Deployment.Version && r.written(before, i)
	}
	return r.broken(p, before)
}

func onSet(s rolling.Step) bool { return s.Verb == rolling.Lower || s.Verb == rolling.Note }

// written says that nobody wrote a set. Pods are no part of the object.
func (r *Release) written(before Release, i int) bool {
	a, b := r.Sets[i], before.Sets[i]
	a.Ready, a.Unready, b.Ready, b.Unready = 0, 0, 0, 0
	return a == b
}

func (r *Release) replicas() (n int) {
	for _, s := range r.Sets {
		n += s.Replicas
	}
	return n
}

func (r *Release) ready() (n int) {
	for _, s := range r.Sets {
		n += s.Ready
	}
	return n
}

// broken compares with the state before.
func (r *Release) broken(p Plan, before Release) string {
	v := r.Deployment.Version
	r.Excused = r.Excused || r.Sharing
	// New pods are all there are: more replicas are more of them.
	r.Scaled = r.Scaled || before.Sets[v].Replicas == before.replicas()
	if grown := r.Sets[v].Replicas; !r.Done && !r.Scaled && grown > before.Sets[v].Replicas && grown > r.Failed+p.Limit(r.Step, max(r.Deployment.Replicas, r.Seen.Replicas)) {
		return fmt.Sprintf("%d new pods, and the step allows %d", grown, p.Limit(r.Step, r.Deployment.Replicas))
	}
	least := r.Deployment.Replicas - max(p.Unavailable, boolean(p.Surge == 0))
	gone := 0
	for i := range r.Sets {
		gone += max(0, before.Sets[i].Ready+before.Sets[i].Unready-r.Sets[i].Ready-r.Sets[i].Unready)
	}
	if gone > 0 && r.ready() < before.ready() && r.ready() < least && !r.Excused {
		return fmt.Sprintf("%d pods are ready, and %d have to be", r.ready(), least)
	}
	if !r.Done && !r.Scaled && v == 2 && before.Sets[1].Replicas > 0 && before.Sets[0].Replicas > r.Sets[0].Replicas && !r.Excused {
		// Unready pods go first, of each version.
		r.Oldest += max(0, before.Sets[0].Replicas-r.Sets[0].Replicas-before.Sets[0].Unready)
		if r.Oldest > 1 {
			return "more than one pod of the oldest version went before those of the middle one"
		}
	}
	r.Excused = r.Excused && !r.calm(least)
	return ""
}

// calm: what was excused is over.
func (r *Release) calm(least int) bool {
	sum := 0
	for _, s := range r.Sets {
		if s.Ready+s.Unready != s.Replicas || s.Status.Ready != s.Ready || s.Replicas > 0 && s.Desired != r.Deployment.Replicas {
			return false
		}
		sum += s.Replicas
	}
	d := r.Deployment
	// Without a surge the controller takes the first old pod whatever became of new ones.
	taken := d.Paused || !d.Huge || d.Surge > 0 || sum-r.Sets[d.Version].Replicas < d.Replicas
	return taken && !r.Valid && r.Observed && r.Fresh && r.ready() >= least && sum >= d.Replicas && r.FreshSets == [Versions]bool{true, true, true}
}
