// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package podinject injects sidecars into pods that are being created.
//
// It is registered only by the webhook entries that the controller of SidecarSets writes, one for each set and only for the pods of that set.
// The path that an entry calls names the revision to inject. A revision never changes and its name is a hash of its content, so every replica reads it once and
// no replica can lag behind.
package podinject

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	stdjson "encoding/json"

	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
	"github.com/kruise-operator/kruise-operator/internal/conversion/wire"
)

const (
	// Path is where the API server calls, followed by the name of a revision.
	Path = sidecar.InjectPath
	// readTimeout is how long reading a revision or a namespace may take. It leaves time to answer within the webhook's ten seconds.
	readTimeout = 4 * time.Second
	// remembered is how many revisions are kept, and rememberedBytes how many bytes they may have together as they are stored; decoded they take several
	// times that. Each change of a set makes another revision. More than that cost a read for some pods.
	remembered      = 1024
	rememberedBytes = 16 << 20
)

// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get

// Handler answers the API server.
type Handler struct {
	// Reader asks the API server directly.
	Reader client.Reader
	// Namespace is the operator's; revisions lie there.
	Namespace string

	mutex     sync.Mutex
	revisions map[string]*revision
	// bytes is how many the revisions have together, turn counts how often one was asked for.
	bytes int
	turn  uint64
}

// revision is one that was read.
type revision struct {
	injection sidecar.Injection
	// bytes is how many it has as it is stored, used the turn in which it was asked for last.
	bytes int
	used  uint64
}

// calledKey is the key of the injection and of its revision in the context of a request.
type calledKey struct{}

// called is what a call is to inject.
type called struct {
	sidecar.Injection
	revision string
}

// ServeHTTP implements http.Handler. What cannot be known just now is answered with an error of HTTP, not with a refusal: the failure policy of
// the entry decides whether the pod is created.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readTimeout)
	defer cancel()
	name := strings.TrimPrefix(r.URL.Path, Path)
	injection, err := h.injection(ctx, name)
	if err != nil {
		ctrl.Log.WithName("injection").Info("Cannot inject", "path", r.URL.Path, "reason", err.Error())
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	webhook := &ctrladmission.Webhook{Handler: ctrladmission.HandlerFunc(h.handle)}
	webhook.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), calledKey{}, called{injection, name})))
}

// injection reads a revision, once.
func (h *Handler) injection(ctx context.Context, name string) (sidecar.Injection, error) {
	if known, found := h.known(name); found {
		return known, nil
	}
	stored := &appsv1.ControllerRevision{}
	if err := h.Reader.Get(ctx, client.ObjectKey{Namespace: h.Namespace, Name: name}, stored); err != nil {
		return sidecar.Injection{}, fmt.Errorf("reading what to inject: %w", err)
	}
	injection, err := sidecar.Decode(stored.Data.Raw)
	if err != nil {
		return injection, err
	}
	h.remember(name, injection, len(stored.Data.Raw))
	return injection, nil
}

// known is a revision that was read before.
func (h *Handler) known(name string) (sidecar.Injection, bool) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	one := h.revisions[name]
	if one == nil {
		return sidecar.Injection{}, false
	}
	h.turn++
	one.used = h.turn
	return one.injection, true
}

// remember keeps a revision. Where there is no room, those go first that were asked for least recently.
func (h *Handler) remember(name string, injection sidecar.Injection, bytes int) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.revisions == nil {
		h.revisions = map[string]*revision{}
	}
	h.forget(name) // another call was as fast
	for len(h.revisions) > 0 && (len(h.revisions) >= remembered || h.bytes+bytes > rememberedBytes) {
		h.forget(slices.MinFunc(slices.Collect(maps.Keys(h.revisions)), func(a, b string) int {
			return cmp.Compare(h.revisions[a].used, h.revisions[b].used)
		}))
	}
	h.turn++
	h.revisions[name] = &revision{injection: injection, bytes: bytes, used: h.turn}
	h.bytes += bytes
}

// forget drops a revision. The lock is held.
func (h *Handler) forget(name string) {
	if one := h.revisions[name]; one != nil {
		h.bytes -= one.bytes
		delete(h.revisions, name)
	}
}

// handle injects into one pod, or marks a probe.
func (h *Handler) handle(ctx context.Context, req ctrladmission.Request) ctrladmission.Response {
	call, found := ctx.Value(calledKey{}).(called)
	switch {
	case !found:
		return ctrladmission.Errored(http.StatusInternalServerError, errors.New("the request names no revision"))
	case req.Operation != admissionv1.Create || req.SubResource != "":
		return ctrladmission.Allowed("")
	case req.Resource.Resource == sidecar.Probes:
		return call.mark(req)
	case req.Kind != metav1.GroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod")):
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
	sidecar.MountToken(pod.Object)
	response := patched(req, pod.Object)
	if len(replaced) > 0 {
		return response.WithWarnings(fmt.Sprintf("containers of the pod are replaced by sidecars of SidecarSet %s with the same names: %s",
			call.Set, strings.Join(replaced, ", ")))
	}
	return response
}

// patched is the answer that makes the object of a request this one.
func patched(req ctrladmission.Request, object map[string]any) ctrladmission.Response {
	data, err := stdjson.Marshal(object)
	if err != nil {
		return ctrladmission.Errored(http.StatusInternalServerError, fmt.Errorf("encoding the pod: %w", err))
	}
	return ctrladmission.PatchResponseFromRaw(req.Object.Raw, data)
}

// mark shows by a probe that the webhook is in force. What the policy has marked stays.
func (c called) mark(req ctrladmission.Request) ctrladmission.Response {
	probe := &unstructured.Unstructured{}
	if err := json.Unmarshal(req.Object.Raw, &probe.Object); err != nil {
		return ctrladmission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the probe: %w", err))
	}
	annotations := probe.GetAnnotations()
	if probe.GetLabels()[sidecar.ProbeLabel] == "" || annotations[sidecar.ProbeMark(c.Set)] != "" {
		return ctrladmission.Allowed("")
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[sidecar.ProbeMark(c.Set)] = c.revision + sidecar.MarkedByWebhook
	probe.SetAnnotations(annotations)
	return patched(req, probe.Object)
}

// namespaceLabels are those that may decide. The namespace is read only where more than its name matters.
func (h *Handler) namespaceLabels(ctx context.Context, injection sidecar.Injection, name string) (map[string]string, error) {
	if len(injection.NamespaceKeys()) == 0 {
		return map[string]string{corev1.LabelMetadataName: name}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	namespace := &corev1.Namespace{}
	if err := h.Reader.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return nil, fmt.Errorf("reading the namespace of the pod: %w", err)
	}
	return namespace.Labels, nil
}
