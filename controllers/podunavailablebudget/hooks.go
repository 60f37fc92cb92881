// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podunavailablebudget

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/policy/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/podunavailablebudget/podguard"
	"github.com/kruise-operator/kruise-operator/internal/engine/disruption"
	"github.com/kruise-operator/kruise-operator/internal/hooks"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
)

// GatesOf are the gates that budgets know.
func GatesOf(on features.Set) disruption.Gates {
	return disruption.Gates{
		Delete: on.Enabled(features.PodUnavailableBudgetDelete), Update: on.Enabled(features.PodUnavailableBudgetUpdate),
		Resize: on.Enabled(features.InPlacePodVerticalScaling),
	}
}

const (
	// linkedPod is a pod that names a budget: no other is asked about. availablePod leaves out pods whose deletion is free.
	linkedPod = `oldObject != null && (oldObject.metadata.?annotations[?'` + v1beta1.AnnotationRelatedBudget + `'].hasValue() || ` +
		`oldObject.metadata.?annotations[?'` + v1beta1.AnnotationRelatedBudgetLegacy + `'].hasValue())`
	availablePod = `!has(oldObject.metadata.deletionTimestamp) && oldObject.?status.?conditions.orValue([]).exists(c, c.type == 'Ready' && c.status == 'True')`
	// changedPod leaves out updates that no budget is about.
	changedPod = `request.operation != 'UPDATE' || object.spec != oldObject.spec || object.metadata.?labels.orValue({}).exists(k, ` +
		`k.startsWith('` + v1beta1.LabelUnavailablePrefix + `') && !(k in oldObject.metadata.?labels.orValue({})))`
	// ignoringPod is one whose budget ignores failures.
	ignoringPod = `oldObject.metadata.?annotations[?'` + v1beta1.AnnotationBudgetFailurePolicy + `'].orValue('') == 'Ignore'`
)

// registration has the API server ask about pods and evictions, in namespaces with a budget.
type registration struct {
	r    *Reconciler
	own  *hooks.Owner
	user string

	mutex sync.Mutex
	// version is that of the wanted hooks, since when it is in force. covered are their budgets, by name and way.
	version string
	since   time.Time
	covered map[string]bool
}

func newRegistration(r *Reconciler, c *config.Config) *registration {
	account := cmp.Or(c.ServiceAccount, c.Namespace+"/kruise-operator-manager")
	return &registration{r: r, own: r.Hooks.Owner(Name, nil), user: "system:serviceaccount:" + strings.Replace(account, "/", ":", 1)}
}

// refresh wants the hooks that the budgets need. It forgets budgets that are gone.
func (g *registration) refresh(ctx context.Context) error {
	budgets, err := g.r.BudgetsOf(ctx, metav1.NamespaceAll)
	if err != nil {
		return err
	}
	budgets = slices.DeleteFunc(budgets, func(b *disruption.Budget) bool { return b.Invalid != nil })
	wanted := Hooks(budgets, g.r.gates, g.user)
	version := ""
	if len(wanted) > 0 {
		version = wanted[0].Version
	}
	covered := map[string]bool{}
	for _, b := range budgets {
		covered[wayOf(b)+client.ObjectKeyFromObject(b).String()] = true
	}
	g.mutex.Lock()
	if g.version != version {
		g.since = time.Time{}
	}
	g.version, g.covered = version, covered
	g.mutex.Unlock()
	g.own.Want(wanted...)
	return nil
}

// Hooks are the hooks for some budgets: none without any.
func Hooks(budgets []*disruption.Budget, gates disruption.Gates, operator string) []*hooks.Hook {
	namespaces := map[string]sets.Set[string]{failing: sets.New[string](), ignoring: sets.New[string]()}
	for _, b := range budgets {
		namespaces[wayOf(b)].Insert(b.Namespace)
	}
	version := fmt.Sprint(sets.List(namespaces[failing]), sets.List(namespaces[ignoring]))
	var all []*hooks.Hook
	add := func(way string, hook *hooks.Hook) {
		if len(hook.Verbs) == 0 || len(hook.NamespaceSelector.MatchExpressions[0].Values) == 0 {
			return
		}
		if way == ignoring {
			hook.OnFailure, hook.Path = admissionv1.Ignore, podguard.IgnorePath
		}
		hook.Version = version
		all = append(all, hook)
	}
	for _, way := range []string{failing, ignoring} {
		add(way, podHook(way, namespaces[way], gates, operator))
	}
	namespaces[ignoring] = namespaces[ignoring].Difference(namespaces[failing])
	for _, way := range []string{failing, ignoring} {
		add(way, evictionHook(way, namespaces[way], gates, operator))
	}
	return all
}

func hookOf(name string, namespaces sets.Set[string], operator string) *hooks.Hook {
	return &hooks.Hook{
		Name: name + ".disruption.operator.kruise.io", Order: hooks.Guard, Path: podguard.FailPath, SideEffects: admissionv1.SideEffectClassNoneOnDryRun,
		Resource: corev1.SchemeGroupVersion.WithResource("pods"),
		NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: sets.List(namespaces)},
		}},
		// The operator's reconcilers ask by themselves.
		Conditions: []admissionv1.MatchCondition{{Name: "not-by-the-operator", Expression: "request.userInfo.username != '" + operator + "'"}},
	}
}

// podHook is on deletions, updates and resizes of linked pods that are ready.
func podHook(way string, namespaces sets.Set[string], gates disruption.Gates, operator string) *hooks.Hook {
	hook := hookOf("pods-"+way, namespaces, operator)
	if gates.Delete {
		hook.Verbs = append(hook.Verbs, admissionv1.Delete)
	}
	if gates.Update {
		hook.Verbs = append(hook.Verbs, admissionv1.Update)
		scope := admissionv1.NamespacedScope
		hook.Also = []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{admissionv1.Update},
			Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/resize"}, Scope: &scope},
		}}
		hook.Conditions = append(hook.Conditions, admissionv1.MatchCondition{Name: "disrupts", Expression: changedPod})
	}
	asked := map[string]admissionv1.MatchCondition{
		failing: {Name: "its-budget-fails", Expression: "!(" + ignoringPod + ")"}, ignoring: {Name: "its-budget-ignores", Expression: ignoringPod},
	}
	hook.Conditions = append(hook.Conditions,
		admissionv1.MatchCondition{Name: "has-a-budget", Expression: linkedPod}, admissionv1.MatchCondition{Name: "is-ready", Expression: availablePod}, asked[way])
	return hook
}

// evictionHook is on all evictions of some namespaces, since they say nothing about their pods.
func evictionHook(way string, namespaces sets.Set[string], gates disruption.Gates, operator string) *hooks.Hook {
	hook := hookOf("evictions-"+way, namespaces, operator)
	if hook.Subresource = "eviction"; gates.Delete {
		hook.Verbs = []admissionv1.OperationType{admissionv1.Create}
	}
	return hook
}

// The ways of a budget while nobody can check, as parts of the hooks' names.
const (
	failing  = "fail"
	ignoring = "ignore"
)

func wayOf(b *disruption.Budget) string {
	if b.FailurePolicy() != "" {
		return ignoring
	}
	return failing
}

// state says whether the hooks for a budget's pods are in force, and when to look again. API servers get a moment to learn of a
// new one. What was in force stays so while the hooks change for other budgets.
func (g *registration) state(b *disruption.Budget) (registering, not string, wait time.Duration) {
	const soon = "The API server is being told to ask about the pods of this budget."
	is := g.own.State("pods-" + wayOf(b) + ".disruption.operator.kruise.io")
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if !g.covered[wayOf(b)+client.ObjectKeyFromObject(b).String()] {
		return soon, "", workload.Busy
	}
	switch {
	case is.Reason != hooks.InForce && is.Reason != hooks.Pending:
		return "", "The API server does not ask about the pods of this budget: " + is.Message + ". Workloads of this operator respect it all the same.", poll
	case b.Status.ObservedGeneration > 0:
		return "", "", 0
	case is.Reason == hooks.Pending, is.Version != g.version:
		return soon, "", settle
	}
	now := g.r.Clock.Now()
	if g.since.IsZero() {
		g.since = now
	}
	if left := settle - now.Sub(g.since); left > 0 {
		return soon, "", left
	}
	return "", "", 0
}
