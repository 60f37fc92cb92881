// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/united"
)

// Memory is the memory of one UnitedDeployment's workloads between passes, and of no others.
// Without it the plan is the same, except for applies without a difference, and the status counts a
// workload's pods as updated only after its report on its present spec.
type Memory struct {
	workloads map[types.UID]*known
	// first counts the passes without time for all subsets.
	first int
}

// known is the memory of one workload.
type known struct {
	// first and last are the generations seen with specs that differ only in sizes, partition and
	// limit of updates; spec stands for the rest. A status about any of them holds for the last one.
	first, last int64
	spec        uint64
	// ready is how many pods of a silent workload are ready, since when no further one has become
	// so. Zero: it lacks none.
	ready int
	since time.Time
	// met is the wanted state it has reached; nil: none.
	met *met
}

// met is a workload in sync, or after an apply, until its spec or the UnitedDeployment's changes.
// Rendering and comparing hundreds of workloads is most of a pass's cost, and the server may have
// its own way to write a value.
type met struct {
	// target is its wanted state.
	target united.Target
	// spec is the generation of the UnitedDeployment, generation the workload's.
	spec, generation    int64
	labels, annotations map[string]string
}

// silence is for how long a silent workload may lack ready pods until its pods are read, and how
// often they are.
const silence = 30 * time.Second

// NewMemory remembers nothing.
func NewMemory() *Memory { return &Memory{workloads: map[types.UID]*known{}} }

func (m *Memory) of(c *Child) *known {
	uid := c.Object.GetUID()
	if m.workloads[uid] == nil {
		m.workloads[uid] = &known{}
	}
	return m.workloads[uid]
}

// Look sees whether a silent workload has lacked ready pods for a while, and returns when to look
// again. No event of a pod tells.
func (m *Memory) Look(c *Child, now time.Time) time.Duration {
	k := m.of(c)
	if !c.Adapter.Silent || c.Terminating || c.Ready >= c.Size {
		k.since = time.Time{}
		return 0
	}
	if k.since.IsZero() || c.Ready > k.ready {
		k.since = now
	}
	k.ready = c.Ready
	left := k.since.Add(silence).Sub(now)
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
	k := m.of(c)
	k.see(c)
	if is := k.met; is != nil && is.spec == spec && is.generation == generation &&
		maps.Equal(is.labels, c.Object.GetLabels()) && maps.Equal(is.annotations, c.Object.GetAnnotations()) {
		c.InSync = &is.target
	}
}

// see remembers the spec of a workload, and counts its updated pods after a status about an earlier
// spec with other numbers alone. An unseen generation could have had another template, with pods
// updated to that.
func (k *known) see(c *Child) {
	if generation := c.Object.GetGeneration(); k.last != generation {
		spec := c.Adapter.Fingerprint(c.spec())
		if k.spec != spec || k.last+1 != generation {
			k.first = generation
		}
		k.last, k.spec = generation, spec
	}
	if about := int64(united.Number(c.Object.Object, "status", "observedGeneration")); !c.Observed && about >= k.first {
		c.countUpdated()
	}
}

// First is the subset to begin with, as long as no pass had time for all of them.
func (m *Memory) First() int { return m.first }

// Note remembers a pass's findings about workloads. One that differs after an apply of the same
// fields is not applied again.
func (m *Memory) Note(spec int64, children []Child, todo Decision, outcome planning.Outcome) {
	undone, failed := sets.New[types.UID](), sets.New[planning.Slot]()
	for _, i := range outcome.Left {
		undone.Insert(todo.Actions[i].Object.GetUID())
	}
	for _, failure := range outcome.Failures {
		if failure.Step == StepUpdateSubset {
			failed.Insert(failure.Slot)
		}
	}
	present := map[types.UID]*known{}
	for i := range children {
		c := &children[i]
		k, uid := m.of(c), c.Object.GetUID()
		present[uid] = k
		target, found := todo.Targets[uid]
		switch {
		case !found, undone.Has(uid), failed.Has(planning.Slot(c.Subset)):
			k.met = nil
		case c.InSync == nil || *c.InSync != target:
			k.met = &met{target: target, spec: spec, generation: c.Object.GetGeneration(), labels: c.Object.GetLabels(), annotations: c.Object.GetAnnotations()}
		}
	}
	m.workloads = present
	if m.first++; len(outcome.Left) == 0 {
		m.first = 0
	}
}
