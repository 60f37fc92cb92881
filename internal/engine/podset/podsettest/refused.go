// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podsettest

import (
	"fmt"
	"slices"
	"time"

	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
)

// Refused are the pods, by name, and the slots whose actions the server has refused. It is a part of what changes of a set that is explored, so that the
// server refuses, and the next try is due, at any time. The zero value is nothing.
type Refused struct {
	names [2]string
	// due says that their wait is over.
	due bool
}

// Waits says that one of the names waits for its next try.
func (r Refused) Waits(names ...string) bool {
	return !r.due && slices.ContainsFunc(names, r.has)
}

func (r Refused) has(name string) bool { return name != "" && slices.Contains(r.names[:], name) }

// Retries is what the executor knows of them.
func (r Refused) Retries() planning.Retries {
	return func(key planning.RetryKey) (planning.Retry, bool) {
		if !r.has(key.Name) {
			return planning.Retry{}, false
		}
		if r.due {
			return planning.Retry{}, true
		}
		return planning.Retry{Wait: time.Hour}, true
	}
}

// Tried is the plan with the actions alone that the executor carries out.
func (r Refused) Tried(plan planning.Plan) planning.Plan {
	plan.Actions = slices.DeleteFunc(slices.Clone(plan.Actions), func(a planning.Action) bool {
		key := a.RetryKey()
		return plan.Aside[key] || r.Waits(key.Name)
	})
	return plan
}

// Next is what can become of them: one more is refused, and their next try is due, or is refused.
func (r Refused) Next(names []string) map[string]Refused {
	all := map[string]Refused{}
	if r.names[0] != "" {
		turned := r
		turned.due = !r.due
		all[fmt.Sprintf("due %v", turned.due)] = turned
	}
	free := slices.Index(r.names[:], "")
	for _, name := range names {
		if free < 0 || r.has(name) {
			continue
		}
		more := Refused{names: r.names}
		more.names[free] = name
		slices.Sort(more.names[:free+1])
		all["refused "+name] = more
	}
	return all
}
