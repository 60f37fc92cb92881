// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/united"
)

// Memory is what is remembered of the workloads of one UnitedDeployment between passes, and of no others. Without it the plan is the same, but
// for applies that make no difference.
type Memory struct {
	// tried are the generations of workloads at which an apply made no difference.
	tried map[types.UID]int64
	// compared are the workloads that are what they should be.
	compared map[types.UID]compared
}

// compared is a workload that is what it should be, as long as nothing changes of it but its status, and nothing of the spec of the
// UnitedDeployment. Rendering and comparing hundreds of workloads is most of what a pass costs.
type compared struct {
	// target is what it should be.
	target united.Target
	// spec is the generation of the UnitedDeployment, generation that of the workload.
	spec, generation    int64
	labels, annotations map[string]string
}

// NewMemory remembers nothing.
func NewMemory() *Memory {
	return &Memory{tried: map[types.UID]int64{}, compared: map[types.UID]compared{}}
}

// Recall returns what is remembered about a workload. spec is the generation of the UnitedDeployment.
func (m *Memory) Recall(spec int64, c *Child) {
	generation := c.Object.GetGeneration()
	if generation == 0 {
		return
	}
	tried, found := m.tried[c.Object.GetUID()]
	c.Tried = found && tried == generation
	known, found := m.compared[c.Object.GetUID()]
	if found && known.spec == spec && known.generation == generation &&
		maps.Equal(known.labels, c.Object.GetLabels()) && maps.Equal(known.annotations, c.Object.GetAnnotations()) {
		c.InSync = &known.target
	}
}

// Note remembers what a pass has found out about workloads. One that was applied in a generation and still differs in that generation is not
// applied again: the server has its own way to write a value.
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
	for uid := range m.tried {
		if _, found := present[uid]; !found {
			delete(m.tried, uid)
		}
	}
	failed := map[planning.Slot]bool{}
	for _, failure := range outcome.Failures {
		failed[failure.Slot] = true
	}
	for i := range todo.Actions {
		a := &todo.Actions[i]
		if a.Step == StepUpdateSubset && outcome.Left == 0 && !failed[a.Slot] {
			m.tried[a.Object.GetUID()] = present[a.Object.GetUID()]
		}
	}
}
