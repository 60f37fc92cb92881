// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/spread"
	"github.com/kruise-operator/kruise-operator/internal/kube/pages"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// maxOthers and maxBytes limit the WorkloadSpreads read for one request.
const (
	maxOthers = 1000
	maxBytes  = 4 << 20
)

// Others finds the other WorkloadSpreads and the workload.
type Others struct {
	// Reader asks the API server, not a cache.
	Reader client.Reader
}

// check refuses a second WorkloadSpread of a workload, and patches that do not fit it. What cannot be read is admitted.
func (o Others) check(ctx context.Context, ws, old *appsv1beta1.WorkloadSpread) (field.ErrorList, []string) {
	ctx, cancel := context.WithTimeout(ctx, admit.LookupTimeout)
	defer cancel()
	var errs field.ErrorList
	if old == nil {
		errs = o.taken(ctx, ws)
	}
	return append(errs, o.patches(ctx, ws)...), nil
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

// patches tries the patches on a pod of the workload, if it exists.
func (o Others) patches(ctx context.Context, ws *appsv1beta1.WorkloadSpread) field.ErrorList {
	s, err := spread.Parse(ws)
	if err != nil {
		return nil // said by Validate
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.FromAPIVersionAndKind(ws.Spec.TargetReference.APIVersion, ws.Spec.TargetReference.Kind))
	if o.Reader.Get(ctx, client.ObjectKey{Namespace: ws.Namespace, Name: s.TargetName}, object) != nil {
		return nil
	}
	pod, selector := podOf(object)
	if pod == nil {
		return nil
	}
	var errs field.ErrorList
	for i := range s.Subsets {
		if len(s.Subsets[i].Patch) == 0 {
			continue
		}
		if err := s.Inject(pod.DeepCopy(), i, "", selector); err != nil {
			errs = append(errs, field.Invalid(field.NewPath("spec", "subsets").Index(i).Child("patch"), string(ws.Spec.Subsets[i].Patch.Raw), err.Error()))
		}
	}
	return errs
}

// podOf is a pod of the workload's template, with its selector.
func podOf(object *unstructured.Unstructured) (*corev1.Pod, labels.Selector) {
	template, _, _ := unstructured.NestedMap(object.Object, "spec", "template")
	body, err := json.Marshal(template)
	pod := &corev1.Pod{}
	if err != nil || template == nil || quantity.Unmarshal(body, pod) != nil {
		return nil, nil
	}
	field, _, _ := unstructured.NestedMap(object.Object, "spec", "selector")
	body, err = json.Marshal(field)
	written := &metav1.LabelSelector{}
	if err != nil || field == nil || json.Unmarshal(body, written) != nil {
		return pod, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(written)
	if err != nil || !selector.Matches(labels.Set(pod.Labels)) {
		return pod, nil // a Job's pods get its labels later
	}
	return pod, selector
}
