// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
)

// What a namespace, and the object of the copies' name in it, can be.
var (
	beings  = []string{"absent", "plain", "chosen", "terminating"}
	objects = []string{"none", "current", "outdated", "taken over", "widened", "theirs"}
)

// TestEveryStateOfTwoNamespaces begins in each state that two namespaces and their objects can be in, carries the plan out action by
// action with a new plan after each, in both orders, and looks at each end.
func TestEveryStateOfTwoNamespaces(t *testing.T) {
	targets := map[string]appsv1beta1.ResourceDistributionTargets{
		"all":      {AllNamespaces: true},
		"chosen":   {NamespaceSelector: metav1.LabelSelector{MatchLabels: map[string]string{"chosen": "yes"}}},
		"named":    {IncludedNamespaces: list("a"), ExcludedNamespaces: list("b")},
		"nothing":  {},
		"excluded": {AllNamespaces: true, ExcludedNamespaces: list("b")},
	}
	states := 0
	for what, chosen := range targets {
		for _, first := range beings {
			for _, second := range beings {
				for _, one := range objects {
					for _, other := range objects {
						if first == "absent" && one != "none" || second == "absent" && other != "none" {
							continue
						}
						for _, backwards := range []bool{false, true} {
							states++
							e := exploration{cluster: newCluster(t, settings), name: fmt.Sprintf("%s: a is %s with %s, b is %s with %s, backwards %t", what, first, one, second, other, backwards)}
							e.object.Spec.Targets = chosen
							e.put("a", first, one)
							e.put("b", second, other)
							e.settle(backwards)
						}
					}
				}
			}
		}
	}
	t.Logf("measured: %d states", states)
}

type exploration struct {
	*cluster
	name string
}

// put makes a namespace and its object.
func (e exploration) put(namespace, being, what string) {
	switch being {
	case "absent":
		return
	case "plain":
		e.namespaces[namespace] = map[string]string{}
	default:
		e.namespaces[namespace] = map[string]string{being: "yes"}
	}
	if what == "none" {
		return
	}
	spec := Parse(e.object)
	e.copies[namespace] = stored(e.t, spec.copyIn(namespace), nil)
	is := e.copies[namespace]
	switch what {
	case "outdated":
		is.Annotations[shared.AnnotationDistributedHash] = "other"
	case "taken over": // by OpenKruise
		is.Labels, is.ManagedFields = nil, []metav1.ManagedFieldsEntry{entry("manager", metav1.ManagedFieldsOperationUpdate, "a")}
	case "widened":
		is.ManagedFields = append(is.ManagedFields, entry("kubectl", metav1.ManagedFieldsOperationUpdate, "b"))
	case "theirs":
		is.OwnerReferences = nil
	}
}

// settle carries out one action after the other until there is none, and checks the end.
func (e exploration) settle(backwards bool) {
	writes := map[types.NamespacedName]int{}
	for range 10 {
		spec := Parse(e.object)
		actions := Plan(spec, e.snapshot(spec)).Actions
		// What a plan cannot see it must not write to: the server refuses, or the object is ours.
		actions = slices.DeleteFunc(actions, func(a planning.Action) bool {
			there := e.copies[a.Object.GetNamespace()]
			if there != nil && !metav1.IsControlledBy(there, e.object) && !a.OnlyNew {
				e.t.Fatalf("%s: %s meets an object of somebody else", e.name, a.Step)
			}
			return a.OnlyNew && there != nil
		})
		if len(actions) == 0 {
			e.ended(spec, writes)
			return
		}
		next := 0
		if backwards {
			next = len(actions) - 1
		}
		writes[types.NamespacedName{Namespace: actions[next].Object.GetNamespace()}]++
		e.carryOut(&actions[next])
	}
	e.t.Fatalf("%s: it does not come to an end", e.name)
}

// ended checks that targets have a current copy and others none, and who wrote how often.
func (e exploration) ended(spec *Spec, writes map[types.NamespacedName]int) {
	for namespace, has := range e.namespaces {
		object := e.copies[namespace]
		switch {
		case has["terminating"] != "":
		case object != nil && !metav1.IsControlledBy(object, e.object):
		case spec.Targets.Chooses(namespace, has) && (object == nil || Observe(spec, object).State != Current):
			e.t.Errorf("%s: %s has no current copy", e.name, namespace)
		case !spec.Targets.Chooses(namespace, has) && object != nil:
			e.t.Errorf("%s: %s has a copy", e.name, namespace)
		}
	}
	for name, n := range writes {
		if n > 2 { // an outdated copy that somebody has widened
			e.t.Errorf("%s: %d writes in %s", e.name, n, name.Namespace)
		}
		if has := e.namespaces[name.Namespace]; has == nil || has["terminating"] != "" {
			e.t.Errorf("%s: a write in %s", e.name, name.Namespace)
		}
	}
}
