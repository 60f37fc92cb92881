// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package podinject injects sidecars into pods that are being created.
//
// It is registered only by the webhook entries that the controller of SidecarSets writes, one for each set and only for the pods of that set.
// The path that an entry calls names the revision to inject, which may name those of sets that meet it on a pod. A revision never changes and its name is a
// hash of its content, so every replica reads it once and no replica can lag behind.
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
	// maxJoined is how long a pod may be, in bytes, to get the sidecars of all sets by one call. What sidecars share of a larger one grows with their number:
	// 2000 mounts took 102 MiB with 32 sets. Its sets are injected each by its own call.
	maxJoined = 32 << 10
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

// called is what a call is to inject.
type called struct {
	injection sidecar.Injection
	// others are those of sets that may be injected into the same pod, each by a call of its own.
	others []sidecar.Injection
}

// calledKey is the key of what is called in the context of a request.
type calledKey struct{}

// ServeHTTP implements http.Handler. What cannot be known just now is answered with an error of HTTP, not with a refusal: the failure policy of
// the entry decides whether the pod is created.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readTimeout)
	defer cancel()
	injection, err := h.injection(ctx, strings.TrimPrefix(r.URL.Path, Path))
	if err != nil {
		ctrl.Log.WithName("injection").Info("Cannot inject", "path", r.URL.Path, "reason", err.Error())
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	call := called{injection: injection}
	for _, name := range injection.Meets[:min(len(injection.Meets), sidecar.MaxMet)] {
		if other, err := h.injection(ctx, name); err == nil { // Otherwise its own call says so.
			call.others = append(call.others, other)
		}
	}
	webhook := &ctrladmission.Webhook{Handler: ctrladmission.HandlerFunc(h.handle)}
	webhook.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), calledKey{}, call)))
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

// handle injects into one pod.
func (h *Handler) handle(ctx context.Context, req ctrladmission.Request) ctrladmission.Response {
	call, found := ctx.Value(calledKey{}).(called)
	if !found {
		return ctrladmission.Errored(http.StatusInternalServerError, errors.New("the request names no revision"))
	}
	if req.Operation != admissionv1.Create || req.SubResource != "" || req.Kind != metav1.GroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod")) {
		return ctrladmission.Allowed("")
	}
	if errs := wire.TooLarge(req.Object.Raw, nil); len(errs) > 0 {
		return ctrladmission.Errored(http.StatusUnprocessableEntity, fmt.Errorf("SidecarSet %s: the pod is too large to get sidecars: %w", call.injection.Set, errs.ToAggregate()))
	}
	pod := sidecar.Pod{Object: map[string]any{}}
	if err := json.Unmarshal(req.Object.Raw, &pod.Object); err != nil {
		return ctrladmission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the pod: %w", err))
	}
	if len(req.Object.Raw) > maxJoined || call.injection.Marked(pod.Object) { // The call that marked it has injected all others, too.
		call.others = nil
	}
	var err error
	if pod.Namespace, err = h.namespaceLabels(ctx, call, req.Namespace); err != nil {
		return ctrladmission.Errored(http.StatusServiceUnavailable, err)
	}
	meeting := call.injection.Meeting(pod.Object, pod.Namespace, call.others)
	changed, warnings, err := inject(call.injection, pod)
	if err != nil {
		return ctrladmission.Errored(http.StatusUnprocessableEntity, err)
	}
	if !changed {
		return ctrladmission.Allowed("")
	}
	for _, other := range meeting {
		// What cannot be injected leaves the pod as it is: the call of that set refuses it.
		if _, more, err := inject(other, pod); err == nil {
			warnings = append(warnings, more...)
		}
	}
	sidecar.MountToken(pod.Object)
	injected, err := stdjson.Marshal(pod.Object)
	if err != nil {
		return ctrladmission.Errored(http.StatusInternalServerError, fmt.Errorf("encoding the pod: %w", err))
	}
	return ctrladmission.PatchResponseFromRaw(req.Object.Raw, injected).WithWarnings(warnings...)
}

// inject puts what one set has for the pod into it, and says whether it had anything.
func inject(injection sidecar.Injection, pod sidecar.Pod) (changed bool, warnings []string, err error) {
	pod.Draw = rand.Int32N(100)
	replaced := injection.Replaces(pod.Object)
	changed, err = injection.Inject(pod)
	if changed && len(replaced) > 0 {
		warnings = append(warnings, fmt.Sprintf("containers of the pod are replaced by sidecars of SidecarSet %s with the same names: %s",
			injection.Set, strings.Join(replaced, ", ")))
	}
	return changed, warnings, err
}

// namespaceLabels are those that may decide. The namespace is read only where more than its name matters.
func (h *Handler) namespaceLabels(ctx context.Context, call called, name string) (map[string]string, error) {
	depends := func(i sidecar.Injection) bool { return len(i.NamespaceKeys()) > 0 }
	if !depends(call.injection) && !slices.ContainsFunc(call.others, depends) {
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
