// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	"context"
	"slices"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/kube/templatecheck"
)

// verdicts are what the server said of the templates of sets, for as long as it has to be known. It is safe for concurrent use.
type verdicts struct {
	mu    sync.Mutex
	bySet map[types.NamespacedName]verdict
}

type verdict struct {
	uid      types.UID
	revision string
	// generation is that of the set when the server was asked. Claim templates are part of the question, but not of a revision.
	generation int64
	// faults are the server's, in one line; empty when it would take the template.
	faults string
}

func (v *verdicts) of(name types.NamespacedName) verdict {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.bySet[name]
}

func (v *verdicts) keep(name types.NamespacedName, found verdict) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.bySet == nil {
		v.bySet = map[types.NamespacedName]verdict{}
	}
	v.bySet[name] = found
}

func (v *verdicts) forget(name types.NamespacedName) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.bySet, name)
}

// templateConditions are the conditions of a set whose template the server finds faulty. Nothing else refuses such a template before
// its pods are created, which can be much later: a partition or a pause may keep them.
//
// The server is asked once for a template: while the status is about another one. About a faulty one it is asked again when anything
// of the spec has changed, and after a restart. When it does not answer, the next pass asks again, if it still has to.
func (r *Reconciler) templateConditions(ctx context.Context, set *appsv1beta1.StatefulSet, update string, outcome podset.Outcome) []appsv1.StatefulSetCondition {
	name := client.ObjectKeyFromObject(set)
	if set.DeletionTimestamp != nil {
		return nil
	}
	known := r.templates.of(name)
	if known.uid != set.UID || known.revision != update || known.faults != "" && known.generation != set.Generation {
		faulty := slices.ContainsFunc(set.Status.Conditions, func(c appsv1.StatefulSetCondition) bool {
			return c.Type == appsv1beta1.StatefulSetTemplateInvalid
		})
		if set.Status.UpdateRevision == update && !faulty {
			r.templates.forget(name)
			return nil
		}
		known = verdict{uid: set.UID, revision: update, generation: set.Generation}
		ctx, cancel := context.WithTimeout(ctx, r.WriteTimeout)
		defer cancel()
		faults, err := templatecheck.Checker{Client: r.Client}.Check(ctx, set.Namespace, &set.Spec.Template, set.Spec.VolumeClaimTemplates)
		if err != nil {
			ctrl.LoggerFrom(ctx).V(1).Info("Template not checked", "err", err.Error())
			return nil
		}
		lines := make([]string, len(faults))
		for i, fault := range faults {
			lines[i] = fault.String()
		}
		known.faults = strings.Join(lines, "; ")
		r.templates.keep(name, known)
	}
	return faultyTemplate(known.faults, outcome)
}

// faultyTemplate says what the faults mean for the set: it is stalled when the server has refused a pod, too.
func faultyTemplate(faults string, outcome podset.Outcome) []appsv1.StatefulSetCondition {
	if faults == "" {
		return nil
	}
	condition := appsv1.StatefulSetCondition{
		Type: appsv1beta1.StatefulSetTemplateInvalid, Status: corev1.ConditionTrue, Reason: appsv1beta1.ReasonInvalidTemplate, Message: faults,
	}
	conditions := []appsv1.StatefulSetCondition{condition}
	if _, refused := outcome.Failed(podset.VerbCreate); refused {
		condition.Type = appsv1beta1.StatefulSetStalled
		conditions = append(conditions, condition)
	}
	return conditions
}
