// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package podprobes makes new pods ask the provider of a virtual node for the probes of PodProbeMarkers, in case they come to run on one.
//
// It is registered only by the configuration that the controller of PodProbeMarkers maintains while the feature gate
// EnablePodProbeMarkerOnServerless is on, for the namespaces that have such markers.
package podprobes

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/conversion/wire"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/probing"
	"github.com/kruise-operator/kruise-operator/internal/kube/pages"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
)

const (
	// readTimeout is how long listing the markers may take. It leaves time to answer within the webhook's three seconds.
	readTimeout = 2 * time.Second
	// maxMarkers and maxBytes are how many markers of a namespace are looked at, and how many bytes the API server may send of them. Those whose names
	// come first are.
	maxMarkers = 500
	maxBytes   = 6 << 20
)

// +kubebuilder:rbac:groups=apps.kruise.io,resources=podprobemarkers,verbs=list

// Handler answers the API server.
type Handler struct {
	// Reader asks the API server directly, so that a marker counts for the pods that are created after it.
	Reader client.Reader
}

// Handle gives one pod the annotations. What cannot be found out keeps no pod from being created: it is a warning.
func (h *Handler) Handle(ctx context.Context, req ctrladmission.Request) ctrladmission.Response {
	if req.Operation != admissionv1.Create || req.SubResource != "" || req.Kind != metav1.GroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod")) {
		return ctrladmission.Allowed("")
	}
	const without = "no probes on virtual nodes: "
	if errs := wire.TooLarge(req.Object.Raw, nil); len(errs) > 0 {
		return ctrladmission.Allowed("").WithWarnings(without + errs[0].Error())
	}
	pod := &corev1.Pod{}
	if err := quantity.Unmarshal(req.Object.Raw, pod); err != nil {
		return ctrladmission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the pod: %w", err))
	}
	pod.Namespace = req.Namespace
	markers, unread, err := h.markers(ctx, req.Namespace)
	if err != nil {
		return ctrladmission.Allowed("").WithWarnings(without + err.Error())
	}
	annotations, left := probing.ForProvider(pod, markers)
	response := ctrladmission.Allowed("")
	if unread != "" {
		response = response.WithWarnings(without + unread)
	}
	if left > 0 {
		response = response.WithWarnings(fmt.Sprintf("%d probes of PodProbeMarkers are left out on virtual nodes: a pod has too many", left))
	}
	patch := patchOf(pod, annotations)
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

// markers are the PodProbeMarkers of a namespace that can be carried out, sorted by name. unread says which were not looked at; empty: all were.
func (h *Handler) markers(ctx context.Context, namespace string) (markers []*probing.Marker, unread string, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	last := ""
	limits := pages.Limits{Objects: maxMarkers, Bytes: maxBytes}
	more, err := pages.Read(ctx, h.Reader, &appsv1alpha1.PodProbeMarkerList{}, limits, func(list *appsv1alpha1.PodProbeMarkerList) bool {
		for i := range list.Items {
			last = list.Items[i].Name
			if marker, err := probing.Parse(&list.Items[i]); err == nil {
				markers = append(markers, marker)
			}
		}
		return true
	}, client.InNamespace(namespace))
	if err != nil {
		return nil, "", fmt.Errorf("listing PodProbeMarkers: %w", err)
	}
	if more {
		unread = fmt.Sprintf("PodProbeMarkers whose names come after %q were not looked at, because there are more than %d or they are too large", last, maxMarkers)
	}
	slices.SortFunc(markers, func(a, b *probing.Marker) int { return strings.Compare(a.Name, b.Name) })
	return markers, unread, nil
}

// patchOf makes a pod have the annotations.
func patchOf(pod *corev1.Pod, annotations map[string]string) []edit.Operation {
	var patch []edit.Operation
	if len(annotations) > 0 && pod.Annotations == nil {
		patch = append(patch, edit.Operation{Op: "add", Path: "/metadata/annotations", Value: map[string]string{}})
	}
	for _, key := range []string{appsv1alpha1.AnnotationPodProbe, appsv1alpha1.AnnotationPodProbeMarkers} {
		if value, wanted := annotations[key]; wanted && pod.Annotations[key] != value {
			patch = append(patch, edit.Operation{Op: "add", Path: "/metadata/annotations/" + strings.ReplaceAll(key, "/", "~1"), Value: value})
		}
	}
	return patch
}
