// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import "time"

// Answers remembers the nodes that answered a job, to measure each answer once. The earlier process measured older answers.
type Answers struct {
	begun bool
	// versions are the ended rounds, by node.
	versions map[string]int64
}

// Answer is a node's: succeeded or failed, and how long after the request.
type Answer struct {
	Result string
	Took   time.Duration
}

// New are the answers since the last call.
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
