// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/spread"
	"github.com/kruise-operator/kruise-operator/internal/kube/listed"
	"github.com/kruise-operator/kruise-operator/internal/kube/pages"
	"github.com/kruise-operator/kruise-operator/internal/kube/templatecheck"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// maxOthers and maxBytes limit the WorkloadSpreads read for one request.
const (
	maxOthers = 1000
	maxBytes  = 4 << 20
	// maxAsked is about how many patches the API server is asked.
	maxAsked = 10
)

// Others finds the other WorkloadSpreads and the workload.
type Others struct {
	// Reader asks the API server, not a cache.
	Reader client.Reader
	// Namespace is the operator's own.
	Namespace string
	// Checker asks it about pods with patches.
	Checker templatecheck.Checker
}

// check refuses a second WorkloadSpread of a workload, and patches that do not fit it. What cannot be read is admitted.
func (o Others) check(ctx context.Context, ws, old *appsv1beta1.WorkloadSpread) (field.ErrorList, []string) {
	s, err := spread.Parse(ws)
	if err != nil {
		return nil, nil // said by Validate
	}
	ctx, cancel := context.WithTimeout(ctx, admit.LookupTimeout)
	defer cancel()
	var errs field.ErrorList
	if old == nil {
		errs = append(o.unlisted(ctx, s), o.taken(ctx, ws)...)
	}
	return append(errs, o.patches(ctx, s, ws, old)...), nil
}

// unlisted refuses kinds that can neither be spread by themselves nor are listed.
func (o Others) unlisted(ctx context.Context, s *spread.Spread) field.ErrorList {
	path := field.NewPath("spec", "targetRef", "kind")
	switch found, err := listed.Spreads(ctx, o.Reader, o.Namespace).Complete(s); {
	case err != nil:
		return field.ErrorList{field.InternalError(path, err)}
	case found == nil:
		return field.ErrorList{field.Invalid(path, s.Target.Kind, fmt.Sprintf(
			"must be CloneSet, Deployment, ReplicaSet, StatefulSet or Job, or a kind that the ConfigMap %s lists under %s", listed.ConfigMap, listed.SpreadKey))}
	}
	return nil
}

func (o Others) taken(ctx context.Context, ws *appsv1beta1.WorkloadSpread) field.ErrorList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(spread.Kind().GroupVersion().WithKind("WorkloadSpreadList"))
	by := ""
	_, err := pages.Read(ctx, o.Reader, list, pages.Limits{Objects: maxOthers, Bytes: maxBytes}, func(page *unstructured.UnstructuredList) bool {
		for i := range page.Items {
			other, err := spread.Decode(&page.Items[i])
			if err == nil && other.Name != ws.Name && other.Spec.TargetReference != nil && sameTarget(other.Spec.TargetReference, ws.Spec.TargetReference) {
				by = other.Name
			}
		}
		return by == ""
	}, client.InNamespace(ws.Namespace))
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Letting a WorkloadSpread in without a look at the others")
	}
	if by == "" {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec", "targetRef"), *ws.Spec.TargetReference, "is the target of WorkloadSpread "+by+" already")}
}

// patches tries new patches on a pod of the workload, if it exists.
func (o Others) patches(ctx context.Context, s *spread.Spread, ws, old *appsv1beta1.WorkloadSpread) field.ErrorList {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(s.Target)
	if o.Reader.Get(ctx, client.ObjectKey{Namespace: ws.Namespace, Name: s.TargetName}, object) != nil {
		return nil
	}
	var errs field.ErrorList
	asked := 0
	for i := range s.Subsets {
		raw := ws.Spec.Subsets[i].Patch.Raw
		if old != nil && hasPatch(old, s.Subsets[i].Name, raw) {
			continue
		}
		pod, err := s.PatchedPod(i, object)
		if err == nil && pod != nil && asked < maxAsked {
			asked++
			err = o.refused(ctx, ws.Namespace, pod, spread.PodOf(object))
		}
		if err != nil {
			errs = append(errs, field.Invalid(field.NewPath("spec", "subsets").Index(i).Child("patch"), string(raw), err.Error()))
		}
	}
	return errs
}

// hasPatch: an earlier version has this patch. The workload may have changed since.
func hasPatch(old *appsv1beta1.WorkloadSpread, subset string, patch []byte) bool {
	return slices.ContainsFunc(old.Spec.Subsets, func(sub appsv1beta1.WorkloadSpreadSubset) bool {
		return sub.Name == subset && bytes.Equal(sub.Patch.Raw, patch)
	})
}

// refused is what the API server has against a pod, and not against the workload's; nil without an answer.
func (o Others) refused(ctx context.Context, namespace string, patched, pod *corev1.Pod) error {
	faults := o.faults(ctx, namespace, patched)
	if len(faults) == 0 {
		return nil
	}
	known := o.faults(ctx, namespace, pod)
	for _, fault := range faults {
		if !slices.Contains(known, fault) {
			return fmt.Errorf("the API server would refuse the pods: %s", fault)
		}
	}
	return nil
}

// faults are none without an answer.
func (o Others) faults(ctx context.Context, namespace string, pod *corev1.Pod) []templatecheck.Fault {
	faults, _ := o.Checker.Check(ctx, namespace, &corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}, nil)
	return faults
}
