// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package podplace makes new pods of others return to their places.
package podplace

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/conversion/wire"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/place"
	"github.com/kruise-operator/kruise-operator/internal/kube/pages"
	"github.com/kruise-operator/kruise-operator/internal/kube/sticky"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
)

// Path is where the API server calls.
const Path = "/return-pods"

// maxStates and maxBytes bound one look at a namespace.
const maxStates, maxBytes = 500, 16 << 20

// Handler answers the API server. Its reader asks past the cache.
type Handler struct{ client.Reader }

// Handle sends one pod to its place. The pod is only read, so fields unknown to this program are kept.
func (h Handler) Handle(ctx context.Context, req ctrladmission.Request) ctrladmission.Response {
	if req.Operation != admissionv1.Create || req.SubResource != "" || req.Kind != metav1.GroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod")) {
		return ctrladmission.Allowed("")
	}
	if errs := wire.TooLarge(req.Object.Raw, nil); len(errs) > 0 {
		status := apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, req.Name, errs).ErrStatus
		return ctrladmission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &status}}
	}
	pod := &corev1.Pod{}
	if err := quantity.Unmarshal(req.Object.Raw, pod); err != nil {
		return ctrladmission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the pod: %w", err))
	}
	patch, err := h.patch(ctx, req.Namespace, pod)
	if err != nil {
		return ctrladmission.Errored(http.StatusInternalServerError, err)
	}
	response := ctrladmission.Allowed("")
	if len(patch) == 0 {
		return response
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return ctrladmission.Errored(http.StatusInternalServerError, fmt.Errorf("encoding the patch: %w", err))
	}
	response.Patch, response.PatchType = body, ptr.To(admissionv1.PatchTypeJSONPatch)
	return response
}

// patch sets whole members: the API server's own ones it repeats unchanged.
func (h Handler) patch(ctx context.Context, namespace string, pod *corev1.Pod) ([]edit.Operation, error) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || pod.Name == "" {
		return nil, nil
	}
	kind := schema.GroupKind{Group: place.GroupOf(owner.APIVersion), Kind: owner.Kind}
	if kind == sticky.Own() {
		return nil, nil // its reconciler has seen to it
	}
	states, err := h.states(ctx, namespace, owner.Name)
	if err != nil {
		return nil, err
	}
	state := place.Of(states, kind, owner.Name)
	if state == nil {
		return nil, nil
	}
	before := pod.DeepCopy()
	if !place.Return(pod, state, sticky.Nodes(ctx, h.Reader)) {
		return nil, nil
	}
	return difference(before, pod), nil
}

func (h Handler) states(ctx context.Context, namespace, target string) ([]*appsv1beta1.PersistentPodState, error) {
	var states []*appsv1beta1.PersistentPodState
	_, err := pages.Read(ctx, h.Reader, &appsv1beta1.PersistentPodStateList{}, pages.Limits{Objects: maxStates, Bytes: maxBytes}, func(page *appsv1beta1.PersistentPodStateList) bool {
		for i := range page.Items {
			if page.Items[i].Spec.TargetRef.Name == target {
				states = append(states, &page.Items[i])
			}
		}
		return true
	}, client.InNamespace(namespace))
	if err != nil {
		return nil, fmt.Errorf("listing PersistentPodStates: %w", err)
	}
	return states, nil
}

// difference adds one member after the other, so that unknown neighbors stay.
func difference(before, after *corev1.Pod) []edit.Operation {
	patch := members("/metadata/annotations", before.Annotations, after.Annotations)
	patch = append(patch, members("/spec/nodeSelector", before.Spec.NodeSelector, after.Spec.NodeSelector)...)
	was, is := before.Spec.Affinity, after.Spec.Affinity
	const affinity, node, preferred = "/spec/affinity", "/nodeAffinity", "/preferredDuringSchedulingIgnoredDuringExecution"
	switch {
	case is == nil || is.NodeAffinity == nil:
	case was == nil:
		patch = append(patch, edit.Operation{Op: "add", Path: affinity, Value: is})
	case was.NodeAffinity == nil:
		patch = append(patch, edit.Operation{Op: "add", Path: affinity + node, Value: is.NodeAffinity})
	case len(is.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > len(was.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution):
		patch = append(patch, edit.Operation{Op: "add", Path: affinity + node + preferred, Value: is.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution})
	}
	return patch
}

func members(path string, before, after map[string]string) []edit.Operation {
	if len(before) == 0 && len(after) > 0 {
		return []edit.Operation{{Op: "add", Path: path, Value: after}}
	}
	var patch []edit.Operation
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if value, had := before[key]; !had || value != after[key] {
			patch = append(patch, edit.Operation{Op: "add", Path: path + "/" + strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1"), Value: after[key]})
		}
	}
	return patch
}
