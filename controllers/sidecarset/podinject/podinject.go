// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package podinject injects sidecars into new pods.
//
// Only webhook entries written by the SidecarSet controller call it, one a set and only for its pods. The path names
// the revision. Revisions never change and are named by content, so replicas read each once and cannot lag behind.
package podinject

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	stdjson "encoding/json"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
	"github.com/kruise-operator/kruise-operator/internal/conversion/wire"
	"github.com/kruise-operator/kruise-operator/internal/engine/lazy"
)

const (
	// Path is where the API server calls, followed by the name of a revision.
	Path = sidecar.InjectPath
	// readTimeout bounds all reads of a call, to answer within the webhook's ten seconds.
	readTimeout = 8 * time.Second
	// remembered is the number of cached revisions, rememberedBytes their
	// maximal size; decoding multiplies it. Others are read for each pod.
	remembered, rememberedBytes = 512, 64 << 10
)

// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get
// +kubebuilder:rbac:groups=apps.kruise.io,resources=sidecarsets,verbs=get

// Handler answers the API server.
type Handler struct {
	// Reader asks the API server directly.
	Reader client.Reader
	// Namespace is the operator's; revisions lie there.
	Namespace string
	// Known: a revision of this name exists. Others are not read: anybody can ask. Nil: all do.
	Known func(ctx context.Context, name string) bool

	once      sync.Once
	revisions *lru.Cache
}

// called is a call's injection. announced: the set of this UID may not be stored.
type called struct {
	sidecar.Injection
	revision  string
	announced bool
	set       string
}

// ServeHTTP implements http.Handler. It answers temporary ignorance with an
// HTTP error, not a refusal: the entry's failure policy decides about the pod.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readTimeout)
	defer cancel()
	name := strings.TrimPrefix(r.URL.Path, Path)
	call, err := h.injection(ctx, name)
	if err != nil {
		ctrl.Log.WithName("injection").Info("Cannot inject", "path", r.URL.Path, "reason", err.Error())
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	webhook := &ctrladmission.Webhook{Handler: ctrladmission.HandlerFunc(func(ctx context.Context, req ctrladmission.Request) ctrladmission.Response {
		return h.handle(ctx, call, req)
	})}
	webhook.ServeHTTP(w, r.WithContext(ctx))
}

// injection reads a revision, once.
func (h *Handler) injection(ctx context.Context, name string) (called, error) {
	call := called{revision: name}
	h.once.Do(func() { h.revisions = lru.New(remembered) })
	if known, _ := h.revisions.Get(name); known != nil {
		call.Injection, _ = known.(sidecar.Injection)
		return call, nil
	}
	if h.Known != nil && !h.Known(ctx, name) {
		return call, errors.New("there is no such revision")
	}
	stored := &appsv1.ControllerRevision{}
	if err := h.Reader.Get(ctx, client.ObjectKey{Namespace: h.Namespace, Name: name}, stored); err != nil {
		return call, fmt.Errorf("reading what to inject: %w", err)
	}
	var err error
	call.Injection, err = sidecar.Decode(stored.Data.Raw)
	call.set, call.announced = stored.Annotations[sidecar.AnnouncedAnnotation]
	if err == nil && !call.announced && len(stored.Data.Raw) <= rememberedBytes {
		h.revisions.Add(name, call.Injection)
	}
	return call, err
}

// isStored reports whether the call's very set is stored.
func (h *Handler) isStored(ctx context.Context, call called) (bool, error) {
	if !call.announced {
		return true, nil
	}
	set := &metav1.PartialObjectMetadata{}
	set.SetGroupVersionKind(appsv1beta1.GroupVersion().WithKind("SidecarSet"))
	err := h.Reader.Get(ctx, client.ObjectKey{Name: call.Set}, set)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading the SidecarSet: %w", err)
	}
	return err == nil && string(set.UID) == call.set && set.DeletionTimestamp == nil, nil
}

// handle injects into one pod, or marks a probe.
func (h *Handler) handle(ctx context.Context, call called, req ctrladmission.Request) ctrladmission.Response {
	switch {
	case req.Operation != admissionv1.Create || req.SubResource != "":
		return ctrladmission.Allowed("")
	case req.Resource.Resource == sidecar.Probes:
		return call.mark(req)
	case req.Kind != metav1.GroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod")):
		return ctrladmission.Allowed("")
	}
	switch stored, err := h.isStored(ctx, call); {
	case err != nil:
		return ctrladmission.Errored(http.StatusServiceUnavailable, err)
	case !stored:
		return ctrladmission.Allowed("")
	}
	if errs := wire.TooLarge(req.Object.Raw, nil); len(errs) > 0 {
		return ctrladmission.Errored(http.StatusUnprocessableEntity, fmt.Errorf("SidecarSet %s: the pod is too large to get sidecars: %w", call.Set, errs.ToAggregate()))
	}
	pod := sidecar.Pod{Object: map[string]any{}, Draw: rand.Int32N(100)}
	if err := json.Unmarshal(req.Object.Raw, &pod.Object); err != nil {
		return ctrladmission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the pod: %w", err))
	}
	var err error
	if pod.Namespace, err = h.namespaceLabels(ctx, call.Injection, req.Namespace); err != nil {
		return ctrladmission.Errored(http.StatusServiceUnavailable, err)
	}
	replaced := call.Replaces(pod.Object)
	changed, err := call.Inject(pod)
	if err != nil {
		return ctrladmission.Errored(http.StatusUnprocessableEntity, err)
	}
	if !changed {
		return ctrladmission.Allowed("")
	}
	response := patched(req, pod.Object)
	if len(replaced) > 0 {
		return response.WithWarnings(fmt.Sprintf("containers of the pod are replaced by sidecars of SidecarSet %s with the same names: %s",
			call.Set, strings.Join(replaced, ", ")))
	}
	return response
}

// patched answers with this object in place of the request's.
func patched(req ctrladmission.Request, object map[string]any) ctrladmission.Response {
	data, err := stdjson.Marshal(object)
	if err != nil {
		return ctrladmission.Errored(http.StatusInternalServerError, fmt.Errorf("encoding the pod: %w", err))
	}
	return ctrladmission.PatchResponseFromRaw(req.Object.Raw, data)
}

// mark proves on a probe the webhook is in force.
func (c called) mark(req ctrladmission.Request) ctrladmission.Response {
	probe := &unstructured.Unstructured{}
	if err := json.Unmarshal(req.Object.Raw, &probe.Object); err != nil {
		return ctrladmission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the probe: %w", err))
	}
	if probe.GetLabels()[sidecar.ProbeLabel] == "" {
		return ctrladmission.Allowed("")
	}
	annotations := probe.GetAnnotations()
	lazy.Put(&annotations, sidecar.WebhookMark(c.Set), c.revision)
	probe.SetAnnotations(annotations)
	return patched(req, probe.Object)
}

// namespaceLabels returns deciding labels. It reads the namespace only if its name is not enough.
func (h *Handler) namespaceLabels(ctx context.Context, injection sidecar.Injection, name string) (map[string]string, error) {
	if !injection.ReadsNamespace() {
		return map[string]string{corev1.LabelMetadataName: name}, nil
	}
	namespace := &corev1.Namespace{}
	if err := h.Reader.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return nil, fmt.Errorf("reading the namespace of the pod: %w", err)
	}
	return namespace.Labels, nil
}
