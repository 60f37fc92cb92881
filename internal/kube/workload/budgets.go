// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1beta1 "github.com/kruise-operator/kruise-operator/api/policy/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/disruption"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/kube/budgets"
)

// budgetRecheck is when to ask again for held actions.
const budgetRecheck = time.Second

// BudgetKind is the kind of PodUnavailableBudgets.
func BudgetKind() schema.GroupVersionKind {
	return policyv1beta1.GroupVersion().WithKind("PodUnavailableBudget")
}

// Budgets are asked before a pod is deleted or updated. They are the pods' own, whoever controls these.
type Budgets struct {
	Ledger *budgets.Ledger
	Gates  disruption.Gates
}

// BudgetsOf are the budgets of a namespace.
func (b *Base) BudgetsOf(ctx context.Context, namespace string) ([]*disruption.Budget, error) {
	stored, err := b.List(ctx, BudgetKind(), client.InNamespace(namespace))
	if err != nil {
		return nil, err
	}
	var all []*disruption.Budget
	for i := range stored {
		budget, err := decode[policyv1beta1.PodUnavailableBudget](&stored[i])
		if err == nil && budget.DeletionTimestamp == nil {
			all = append(all, disruption.Parse(budget))
		}
	}
	return all, nil
}

// asked are actions, by their place in a plan, that need the room of one budget.
type asked struct {
	budget *disruption.Budget
	at     []int
	asks   []disruption.Ask
}

// Budgeted takes the actions out of a plan that the budgets of their pods deny now, and notes why. What it leaves is recorded.
func (p *Pass) Budgeted(ctx context.Context, plan planning.Plan) planning.Plan {
	if p.Budgets == nil {
		return plan
	}
	needs, err := p.needs(ctx, plan)
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("PodUnavailableBudgets cannot be read", "err", err.Error())
		return holdAll(plan, err)
	}
	held := map[int]bool{}
	for _, need := range needs {
		denied, why := p.ask(ctx, need)
		if len(denied) == 0 {
			continue
		}
		note := planning.Note{Reason: podset.ReasonBudget, Message: fmt.Sprintf("%s: %s", podset.Waits(len(denied)), why)}
		for _, at := range denied {
			held[at] = true
			note.Slots = append(note.Slots, plan.Actions[at].Slot)
		}
		slices.Sort(note.Slots)
		plan.Held = append(slices.Clip(plan.Held), note)
	}
	return without(plan, held)
}

// BudgetHolds says why the budget of a pod denies an operation on it now; empty: the operation may begin, and is recorded.
func (b *Base) BudgetHolds(ctx context.Context, pod *corev1.Pod, op policyv1beta1.PubOperation) (string, error) {
	if b.Budgets == nil {
		return "", nil
	}
	all, err := b.BudgetsOf(ctx, pod.Namespace)
	if err != nil {
		return "", err
	}
	budget := disruption.Of(all, pod)
	if budget == nil {
		return "", nil
	}
	_, why := b.ask(ctx, &asked{budget: budget, at: []int{0}, asks: []disruption.Ask{{Pod: pod, Operation: op, Gates: b.Budgets.Gates}}})
	return why, nil
}

// needs are the actions of a plan that are not free, by budget. Budgets are read only for plans that disrupt pods.
func (b *Base) needs(ctx context.Context, plan planning.Plan) ([]*asked, error) {
	known := map[string][]*disruption.Budget{}
	byName := map[types.NamespacedName]*asked{}
	var needs []*asked
	for at := range plan.Actions {
		action := &plan.Actions[at]
		op := disruption.OperationOf(action)
		if op == "" || plan.Aside[action.RetryKey()] {
			continue
		}
		pod := podset.PodOf(*action)
		all, read := known[pod.Namespace]
		if !read {
			var err error
			if all, err = b.BudgetsOf(ctx, pod.Namespace); err != nil {
				return nil, err
			}
			known[pod.Namespace] = all
		}
		budget := disruption.Of(all, pod)
		if budget == nil || budget.Free(pod, op, b.Budgets.Gates, b.Clock.Now()) {
			continue
		}
		name := client.ObjectKeyFromObject(budget)
		if byName[name] == nil {
			byName[name] = &asked{budget: budget}
			needs = append(needs, byName[name])
		}
		byName[name].at, byName[name].asks = append(byName[name].at, at), append(byName[name].asks, disruption.Ask{Pod: pod, Operation: op, Gates: b.Budgets.Gates})
	}
	return needs, nil
}

// ask returns the denied actions. The cache's view denies without a request; what it allows is asked for and recorded.
func (b *Base) ask(ctx context.Context, need *asked) (denied []int, why string) {
	answers, _ := disruption.Decide(need.budget, need.asks, b.Clock.Now())
	var at []int
	var asks []disruption.Ask
	for i, answer := range answers {
		if answer.Denied == "" {
			at, asks = append(at, need.at[i]), append(asks, need.asks[i])
			continue
		}
		denied, why = append(denied, need.at[i]), answer.Denied
	}
	if len(asks) == 0 {
		return denied, why
	}
	answers, err := b.Budgets.Ledger.Ask(ctx, client.ObjectKeyFromObject(need.budget), false, asks...)
	if err != nil {
		if need.budget.FailurePolicy() != "" {
			return denied, why
		}
		return append(denied, at...), "PodUnavailableBudget " + need.budget.Name + " cannot be asked now"
	}
	for i, answer := range answers {
		if answer.Denied != "" {
			denied, why = append(denied, at[i]), answer.Denied
		}
	}
	return denied, why
}

// holdAll holds every disruption, since nobody knows the budgets.
func holdAll(plan planning.Plan, err error) planning.Plan {
	held := map[int]bool{}
	for at := range plan.Actions {
		held[at] = disruption.OperationOf(&plan.Actions[at]) != ""
	}
	plan.Held = append(slices.Clip(plan.Held), planning.Note{Reason: podset.ReasonBudget, Message: "PodUnavailableBudgets cannot be read: " + err.Error()})
	return without(plan, held)
}

// without is a plan without the held actions. It is looked at again soon.
func without(plan planning.Plan, held map[int]bool) planning.Plan {
	if len(held) == 0 {
		return plan
	}
	var left []planning.Action
	for at := range plan.Actions {
		if !held[at] {
			left = append(left, plan.Actions[at])
		}
	}
	plan.Actions = left
	plan.Recheck(budgetRecheck)
	return plan
}
