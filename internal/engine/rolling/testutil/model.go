// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package testutil is a model of the Deployment and ReplicaSet controllers, for tests of package rolling. A test with a control plane
// compares it with the real ones.
package testutil

import (
	"math"
	"slices"
)

// Versions is how many templates there can be.
const Versions = 3

// Deployment is the part of a Deployment's spec that counts.
type Deployment struct {
	Replicas, Surge, Unavailable int
	Paused                       bool
	// Huge: minReadySeconds is so large that no new pod is ever available.
	Huge bool
	// Version is the index of the template.
	Version int
}

// Total are the numbers of a status.
type Total struct{ Replicas, Ready, Available int }

func (t *Total) add(other Total) {
	t.Replicas += other.Replicas
	t.Ready += other.Ready
	t.Available += other.Available
}

// Set is a ReplicaSet; its version is its index.
type Set struct {
	Exists   bool
	Replicas int
	// Desired and Max are its annotations desired-replicas and max-replicas.
	Desired, Max int
	Huge         bool
	// Status is its status. Managed: it is about the present spec.
	Status  Total
	Managed bool
	// Ready and Unready are its pods.
	Ready, Unready int
}

// Controllers are a Deployment, what belongs to it, and what its controller has seen of that. It is comparable.
type Controllers struct {
	Deployment Deployment
	Sets       [Versions]Set
	// Total is the Deployment's status. Observed: it is about the present spec.
	Total    Total
	Observed bool
	// Seen and SeenSets are what the cache of the Deployment controller holds, and Fresh and FreshSets say where that is the present.
	Seen      Deployment
	SeenSets  [Versions]Set
	Fresh     bool
	FreshSets [Versions]bool
	// Scaled: the controller has scaled sets in proportion. Sharing: it did in the last step.
	Scaled, Sharing bool
}

// Write changes the spec of the Deployment.
func (c *Controllers) Write(d Deployment) {
	if d != c.Deployment {
		c.Deployment, c.Fresh, c.Observed = d, false, false
	}
}

// WriteSet changes a ReplicaSet.
func (c *Controllers) WriteSet(i int, s Set) {
	if s == c.Sets[i] {
		return
	}
	s.Managed = s.Managed && s.Replicas == c.Sets[i].Replicas && s.Huge == c.Sets[i].Huge
	c.Sets[i], c.FreshSets[i] = s, false
}

// See brings the Deployment to the cache of its controller.
func (c *Controllers) See() { c.Seen, c.Fresh = c.Deployment, true }

// SeeSet brings a ReplicaSet there.
func (c *Controllers) SeeSet(i int) { c.SeenSets[i], c.FreshSets[i] = c.Sets[i], true }

// Manage is the ReplicaSet controller making and deleting pods.
func (c *Controllers) Manage(i int) {
	s := &c.Sets[i]
	surplus := s.Ready + s.Unready - s.Replicas
	if surplus < 0 {
		s.Unready -= surplus
		return
	}
	unready := min(surplus, s.Unready)
	s.Unready -= unready
	s.Ready -= surplus - unready
}

// Report is the ReplicaSet controller writing the status.
func (c *Controllers) Report(i int) {
	s := c.Sets[i]
	s.Status = Total{s.Ready + s.Unready, s.Ready, s.Ready}
	if s.Huge {
		s.Status.Available = 0
	}
	s.Managed = true
	c.WriteSet(i, s)
}

// Sync is one call of the Deployment controller, by what it has seen.
func (c *Controllers) Sync() {
	c.Sharing = false
	s := sync{Controllers: c, d: c.Seen, sets: c.SeenSets}
	if s.run() && c.Fresh {
		c.Observed, c.Total = true, Total{}
		for _, set := range s.sets {
			c.Total.add(set.Status)
		}
	}
}

// sync is one call of the Deployment controller; sets are what it holds.
type sync struct {
	*Controllers
	d    Deployment
	sets [Versions]Set
	// own are the sets that this call has written.
	own [Versions]bool
}

// write fails where the set is not the present one.
func (s *sync) write(i int, set Set) bool {
	if set == s.sets[i] {
		return true
	}
	if !s.FreshSets[i] && !s.own[i] {
		return false
	}
	// Its pods are no part of the object.
	set.Ready, set.Unready = s.Sets[i].Ready, s.Sets[i].Unready
	s.WriteSet(i, set)
	s.sets[i], s.own[i] = s.Sets[i], true
	return true
}

// resize writes a size with its annotations.
func (s *sync) resize(i, replicas int) bool {
	set := s.sets[i]
	set.Replicas, set.Desired, set.Max = replicas, s.d.Replicas, s.d.Replicas+s.d.Surge
	return s.write(i, set)
}

func (s *sync) total() (n int) {
	for _, set := range s.sets {
		n += set.Replicas
	}
	return n
}

// old are the active old sets, the oldest first.
func (s *sync) old() (indexes []int) {
	for i, set := range s.sets {
		if i != s.d.Version && set.Replicas > 0 {
			indexes = append(indexes, i)
		}
	}
	return indexes
}

// run says whether the call ended without an error.
func (s *sync) run() bool {
	if !s.adopt() {
		return false
	}
	scaling := false
	for _, set := range s.sets {
		scaling = scaling || set.Replicas > 0 && set.Desired != s.d.Replicas
	}
	if s.d.Paused || scaling {
		return s.scale()
	}
	return s.roll()
}

// adopt copies annotations and minReadySeconds to the set of the template.
func (s *sync) adopt() bool {
	set := s.sets[s.d.Version]
	if !set.Exists {
		return true
	}
	set.Desired, set.Max, set.Huge = s.d.Replicas, s.d.Replicas+s.d.Surge, s.d.Huge
	return s.write(s.d.Version, set)
}

// scale is for paused Deployments and changes of replicas.
func (s *sync) scale() bool {
	active := s.old()
	newest := s.sets[s.d.Version]
	if newest.Replicas > 0 {
		active = append(active, s.d.Version)
	}
	if len(active) == 0 {
		active = s.latest()
	}
	switch {
	case len(active) == 0:
		return true
	case len(active) == 1:
		s.Scaled = s.Scaled || s.sets[active[0]].Replicas != s.d.Replicas
		return s.sets[active[0]].Replicas == s.d.Replicas || s.resize(active[0], s.d.Replicas)
	}
	if newest.Exists && newest.Replicas == s.d.Replicas && newest.Desired == s.d.Replicas && newest.Status.Available == s.d.Replicas {
		for _, i := range s.old() {
			if !s.resize(i, 0) {
				return false
			}
		}
		return true
	}
	return s.share(active)
}

// latest is the set of the template, or the newest one.
func (s *sync) latest() []int {
	if s.sets[s.d.Version].Exists {
		return []int{s.d.Version}
	}
	for i := Versions - 1; i >= 0; i-- {
		if s.sets[i].Exists {
			return []int{i}
		}
	}
	return nil
}

// share brings the sum to replicas and surge, in proportion.
func (s *sync) share(active []int) bool {
	allowed := 0
	if s.d.Replicas > 0 {
		allowed = s.d.Replicas + s.d.Surge
	}
	add := allowed - s.total()
	slices.Sort(active)
	if add > 0 {
		slices.Reverse(active)
	}
	if add != 0 {
		slices.SortStableFunc(active, func(a, b int) int { return s.sets[b].Replicas - s.sets[a].Replicas })
		s.Scaled, s.Sharing = true, true
	}
	sizes, added := map[int]int{}, 0
	for _, i := range active {
		part := s.proportion(s.sets[i], add, added)
		sizes[i] = s.sets[i].Replicas + part
		added += part
	}
	sizes[active[0]] = max(0, sizes[active[0]]+add-added)
	for _, i := range active {
		if !s.resize(i, sizes[i]) {
			return false
		}
	}
	return true
}

func (s *sync) proportion(set Set, add, added int) int {
	if add == 0 || add == added {
		return 0
	}
	part := -set.Replicas
	if s.d.Replicas > 0 {
		part += int(math.Round(float64(set.Replicas*(s.d.Replicas+s.d.Surge)) / float64(set.Max)))
	}
	if add > 0 {
		return min(part, add-added)
	}
	return max(part, add-added)
}

// roll is the rolling update.
func (s *sync) roll() bool {
	v := s.d.Version
	grown := s.sets[v].Replicas + max(0, min(s.d.Replicas+s.d.Surge-s.total(), s.d.Replicas-s.sets[v].Replicas))
	if !s.sets[v].Exists {
		if s.Sets[v].Exists {
			return false
		}
		s.own[v] = true
		return s.write(v, Set{Exists: true, Replicas: grown, Desired: s.d.Replicas, Max: s.d.Replicas + s.d.Surge, Huge: s.d.Huge})
	}
	if s.sets[v].Replicas > s.d.Replicas {
		return s.resize(v, s.d.Replicas)
	}
	if grown != s.sets[v].Replicas {
		return s.resize(v, grown)
	}
	s.shrink()
	return true
}

// shrink takes old pods, the unhealthy ones first. It drops errors, as the controller does.
func (s *sync) shrink() {
	least := s.d.Replicas - s.unavailable()
	may := s.total() - least - (s.sets[s.d.Version].Replicas - s.sets[s.d.Version].Status.Available)
	if may <= 0 {
		return
	}
	left := may
	for _, i := range s.old() {
		gone := min(left, s.sets[i].Replicas-s.sets[i].Status.Available)
		if gone > 0 {
			if !s.resize(i, s.sets[i].Replicas-gone) {
				return
			}
			left -= gone
		}
	}
	available := 0
	for _, set := range s.sets {
		available += set.Status.Available
	}
	left = available - least
	for _, i := range s.old() {
		if gone := min(left, s.sets[i].Replicas); gone > 0 {
			if !s.resize(i, s.sets[i].Replicas-gone) {
				return
			}
			left -= gone
		}
	}
}

// unavailable is the maxUnavailable as it is used.
func (s *sync) unavailable() int {
	if s.d.Surge == 0 && s.d.Unavailable == 0 && s.d.Replicas > 0 {
		return 1
	}
	return min(s.d.Unavailable, s.d.Replicas)
}
