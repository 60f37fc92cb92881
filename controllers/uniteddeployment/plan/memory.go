// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/united"
)

// Memory is the memory of one UnitedDeployment's workloads between passes, and of no others.
// Without it the plan is the same, except for applies without a difference, and the status counts a
// workload's pods as updated only after its report on its present spec.
type Memory struct {
	// tried are the generations of workloads after an apply without a difference.
	tried map[types.UID]int64
	// compared are the workloads in sync.
	compared map[types.UID]compared
	// alike are the generations of workloads with specs that differ in numbers alone.
	alike map[types.UID]alike
	// lacking are the silent workloads short of ready pods.
	lacking map[types.UID]lacking
	// first counts the passes without time for all subsets.
	first int
}

// lacking is how many pods of a workload are ready, and since when no further one has become so.
type lacking struct {
	ready int
	since time.Time
}

// silence is for how long a silent workload may lack ready pods until its pods are read, and how
// often they are.
const silence = 30 * time.Second

// alike are seen generations of a workload, from first to last, with specs that differ only in
// sizes, partition and limit of updates. A status about any of them holds for the last one.
type alike struct {
	first, last int64
	spec        uint64
}

// compared is a workload in sync, until its spec or the UnitedDeployment's changes. Rendering and
// comparing hundreds of workloads is most of a pass's cost.
type compared struct {
	// target is its wanted state.
	target united.Target
	// spec is the generation of the UnitedDeployment, generation the workload's.
	spec, generation    int64
	labels, annotations map[string]string
}

// NewMemory remembers nothing.
func NewMemory() *Memory {
	return &Memory{tried: map[types.UID]int64{}, compared: map[types.UID]compared{}, alike: map[types.UID]alike{}, lacking: map[types.UID]lacking{}}
}

// Look sees whether a silent workload has lacked ready pods for a while, and returns when to look
// again. No event of a pod tells.
func (m *Memory) Look(c *Child, now time.Time) time.Duration {
	uid := c.Object.GetUID()
	if !c.Adapter.Silent || c.Terminating || c.Ready >= c.Size {
		delete(m.lacking, uid)
		return 0
	}
	known, found := m.lacking[uid]
	if !found || c.Ready > known.ready {
		known.since = now
	}
	known.ready = c.Ready
	m.lacking[uid] = known
	left := known.since.Add(silence).Sub(now)
	if c.Lacks = left <= 0; c.Lacks {
		return silence
	}
	return left
}

// Recall returns the memory of a workload. spec is the generation of the UnitedDeployment.
func (m *Memory) Recall(spec int64, c *Child) {
	generation := c.Object.GetGeneration()
	if generation == 0 {
		return
	}
	m.see(c)
	tried, found := m.tried[c.Object.GetUID()]
	c.Tried = found && tried == generation
	known, found := m.compared[c.Object.GetUID()]
	if found && known.spec == spec && known.generation == generation &&
		maps.Equal(known.labels, c.Object.GetLabels()) && maps.Equal(known.annotations, c.Object.GetAnnotations()) {
		c.InSync = &known.target
	}
}

// see remembers the spec of a workload, and counts its updated pods after a status about an earlier
// spec with other numbers alone. An unseen generation could have had another template, with pods
// updated to that.
func (m *Memory) see(c *Child) {
	uid, generation := c.Object.GetUID(), c.Object.GetGeneration()
	known, found := m.alike[uid]
	if !found || known.last != generation {
		spec := c.Adapter.Fingerprint(c.spec())
		if !found || known.spec != spec || known.last+1 != generation {
			known.first = generation
		}
		known.last, known.spec = generation, spec
		m.alike[uid] = known
	}
	if about := int64(united.Number(c.Object.Object, "status", "observedGeneration")); !c.Observed && about >= known.first {
		c.countUpdated()
	}
}

// First is the subset to begin with, as long as no pass had time for all of them.
func (m *Memory) First() int { return m.first }

// Note remembers a pass's findings about workloads. One with a difference after an apply is not
// applied again in that generation: the server has its own way to write a value.
func (m *Memory) Note(spec int64, children []Child, todo Decision, outcome planning.Outcome) {
	inSync := make(map[types.UID]compared, len(todo.InSync))
	present := make(map[types.UID]int64, len(children))
	for i := range children {
		c := &children[i]
		uid := c.Object.GetUID()
		present[uid] = c.Object.GetGeneration()
		target, found := todo.InSync[uid]
		switch {
		case !found:
		case c.InSync != nil && *c.InSync == target:
			inSync[uid] = m.compared[uid]
		default:
			inSync[uid] = compared{target: target, spec: spec, generation: present[uid], labels: c.Object.GetLabels(), annotations: c.Object.GetAnnotations()}
		}
	}
	m.compared = inSync
	gone := func(uid types.UID) bool { _, found := present[uid]; return !found }
	maps.DeleteFunc(m.tried, func(uid types.UID, _ int64) bool { return gone(uid) })
	maps.DeleteFunc(m.alike, func(uid types.UID, _ alike) bool { return gone(uid) })
	maps.DeleteFunc(m.lacking, func(uid types.UID, _ lacking) bool { return gone(uid) })
	failed := map[planning.Slot]bool{}
	for _, failure := range outcome.Failures {
		failed[failure.Slot] = true
	}
	left := make(map[int]bool, len(outcome.Left))
	for _, i := range outcome.Left {
		left[i] = true
	}
	if m.first++; len(left) == 0 {
		m.first = 0
	}
	for i := range todo.Actions {
		a := &todo.Actions[i]
		if a.Step == StepUpdateSubset && !left[i] && !failed[a.Slot] {
			m.tried[a.Object.GetUID()] = present[a.Object.GetUID()]
		}
	}
}
