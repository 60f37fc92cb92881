// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import "time"

// Answers remembers which nodes have answered a job, so that each answer is measured once. Answers from before the start of the operator are not
// measured: the earlier process has done that.
type Answers struct {
	begun bool
	// versions are the rounds that have ended, by node.
	versions map[string]int64
}

// Answer is that of a node: succeeded or failed, and how long after the node was asked it came.
type Answer struct {
	Result string
	Took   time.Duration
}

// New are the answers that have come since the last time.
func (a *Answers) New(spec *Spec, d Decision) []Answer {
	ended := make(map[string]int64, len(a.versions))
	var fresh []Answer
	for i := range d.nodes {
		node := &d.nodes[i]
		if node.stage != succeeded && node.stage != failed {
			continue
		}
		answer := spec.answer(node.Node)
		before, known := a.versions[node.Name]
		ended[node.Name] = answer.Version
		if a.begun && (!known || before != answer.Version) && answer.CompletionTime != nil && !node.since.IsZero() {
			fresh = append(fresh, Answer{Result: string(node.stage), Took: max(0, answer.CompletionTime.Sub(node.since))})
		}
	}
	a.begun, a.versions = true, ended
	return fresh
}
