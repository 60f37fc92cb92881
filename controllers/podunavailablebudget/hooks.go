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
	g := &registration{r: r, user: "system:serviceaccount:" + strings.Replace(account, "/", ":", 1)}
	g.own = r.Hooks.Owner(Name, nil)
	return g
}

// refresh wants the hooks that the budgets need. It forgets budgets that are gone.
func (g *registration) refresh(ctx context.Context) error {
	stored, err := g.r.Stored(ctx)
	if err != nil {
		return err
	}
	var budgets []*disruption.Budget
	for i := range stored {
		if b := g.r.covers.Of(&stored[i]); b != nil && b.Invalid == nil && stored[i].GetDeletionTimestamp() == nil {
			b := *b // its annotations may have changed, without a new generation
			meta := *b.PodUnavailableBudget
			meta.Annotations = stored[i].GetAnnotations()
			b.PodUnavailableBudget = &meta
			budgets = append(budgets, &b)
		}
	}
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
	same := g.version == version
	if g.version, g.covered = version, covered; !same {
		g.since = time.Time{}
	}
	g.mutex.Unlock()
	if !same || version == "" {
		g.own.Want(wanted...)
	}
	return nil
}

// Hooks are the hooks for some budgets: none without any.
func Hooks(budgets []*disruption.Budget, gates disruption.Gates, operator string) []*hooks.Hook {
	failing, ignoring := map[string]bool{}, map[string]bool{}
	for _, b := range budgets {
		if b.IgnoresFailure() {
			ignoring[b.Namespace] = true
		} else {
			failing[b.Namespace] = true
		}
	}
	version := fmt.Sprint(names(failing), names(ignoring))
	var all []*hooks.Hook
	if pods := podHook("fail", failing, gates, operator); pods != nil {
		pods.Conditions = append(pods.Conditions, admissionv1.MatchCondition{Name: "its-budget-fails", Expression: "!(" + ignoringPod + ")"})
		all = append(all, pods)
	}
	if pods := podHook("ignore", ignoring, gates, operator); pods != nil {
		pods.OnFailure, pods.Path = admissionv1.Ignore, podguard.IgnorePath
		pods.Conditions = append(pods.Conditions, admissionv1.MatchCondition{Name: "its-budget-ignores", Expression: ignoringPod})
		all = append(all, pods)
	}
	for namespace := range failing {
		delete(ignoring, namespace)
	}
	if evictions := evictionHook("fail", failing, gates, operator); evictions != nil {
		all = append(all, evictions)
	}
	if evictions := evictionHook("ignore", ignoring, gates, operator); evictions != nil {
		evictions.OnFailure, evictions.Path = admissionv1.Ignore, podguard.IgnorePath
		all = append(all, evictions)
	}
	for _, hook := range all {
		hook.Version = version
	}
	return all
}

func names(of map[string]bool) []string {
	var all []string
	for name := range of {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

func hookOf(name string, namespaces map[string]bool, operator string) *hooks.Hook {
	return &hooks.Hook{
		Name: name + ".disruption.operator.kruise.io", Order: hooks.Guard, Path: podguard.FailPath, SideEffects: admissionv1.SideEffectClassNoneOnDryRun,
		Resource: corev1.SchemeGroupVersion.WithResource("pods"),
		NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: names(namespaces)},
		}},
		// The operator's reconcilers ask by themselves.
		Conditions: []admissionv1.MatchCondition{{Name: "not-by-the-operator", Expression: "request.userInfo.username != '" + operator + "'"}},
	}
}

// podHook is on deletions, updates and resizes of linked pods that are ready; nil: none.
func podHook(name string, namespaces map[string]bool, gates disruption.Gates, operator string) *hooks.Hook {
	if len(namespaces) == 0 || !gates.Delete && !gates.Update {
		return nil
	}
	hook := hookOf("pods-"+name, namespaces, operator)
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
	hook.Conditions = append(hook.Conditions,
		admissionv1.MatchCondition{Name: "has-a-budget", Expression: linkedPod}, admissionv1.MatchCondition{Name: "is-ready", Expression: availablePod})
	return hook
}

// evictionHook is on all evictions of some namespaces, since they say nothing about their pods; nil: none.
func evictionHook(name string, namespaces map[string]bool, gates disruption.Gates, operator string) *hooks.Hook {
	if len(namespaces) == 0 || !gates.Delete {
		return nil
	}
	hook := hookOf("evictions-"+name, namespaces, operator)
	hook.Subresource, hook.Verbs = "eviction", []admissionv1.OperationType{admissionv1.Create}
	return hook
}

// wayOf is the part of the hooks' names for a budget.
func wayOf(b *disruption.Budget) string {
	if b.IgnoresFailure() {
		return "ignore"
	}
	return "fail"
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
