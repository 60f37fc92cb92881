// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package podspread gives new pods of others their subset.
//
// The API server calls it only for pods whose workload has a WorkloadSpread. Each pod is counted in the status before it is admitted, tied to
// the version read. So several replicas never overfill a subset. Pods that arrive together share one write.
package podspread

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kruise-operator/kruise-operator/internal/conversion/wire"
	"github.com/kruise-operator/kruise-operator/internal/engine/spread"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
)

const (
	// Path is where the API server calls, followed by the name of a WorkloadSpread in the pod's namespace.
	Path = "/spread-pods/"
	// answerTimeout leaves time to answer within the webhook's ten seconds.
	answerTimeout = 8 * time.Second
	// largestPod bounds the memory for one answer, in bytes of the pod.
	largestPod = 1 << 20
)

// +kubebuilder:rbac:groups=apps.kruise.io,resources=workloadspreads,verbs=get
// +kubebuilder:rbac:groups=apps.kruise.io,resources=workloadspreads/status,verbs=patch
// +kubebuilder:rbac:groups=apps,resources=deployments;statefulsets;replicasets,verbs=get
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get
// +kubebuilder:rbac:groups="",resources=pods,verbs=list

// Handler answers the API server.
type Handler struct {
	// Client asks the API server directly, not a cache.
	Client client.Client

	mutex  sync.Mutex
	queues map[types.NamespacedName]*queue
}

// keyOf holds the name of the called WorkloadSpread in a request's context.
type keyOf struct{}

// ServeHTTP implements http.Handler. Temporary ignorance is an HTTP error, not a refusal: the entry's failure policy decides.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, found := strings.CutPrefix(r.URL.Path, Path)
	if !found || len(validation.IsDNS1123Subdomain(name)) > 0 {
		http.NotFound(w, r)
		return
	}
	failed := ""
	webhook := &ctrladmission.Webhook{Handler: ctrladmission.HandlerFunc(func(ctx context.Context, req ctrladmission.Request) ctrladmission.Response {
		response, err := h.handle(ctx, req)
		if err != nil {
			failed = err.Error()
		}
		return response
	})}
	buffer := &answer{header: http.Header{}, code: http.StatusOK}
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()
	webhook.ServeHTTP(buffer, r.WithContext(context.WithValue(ctx, keyOf{}, name)))
	if failed != "" {
		ctrl.Log.WithName("spread").Info("Cannot give a pod its subset", "path", r.URL.Path, "reason", failed)
		http.Error(w, failed, http.StatusServiceUnavailable)
		return
	}
	buffer.send(w)
}

// answer keeps a response until it is known whether it is one.
type answer struct {
	header http.Header
	code   int
	body   []byte
}

func (a *answer) Header() http.Header  { return a.header }
func (a *answer) WriteHeader(code int) { a.code = code }
func (a *answer) Write(p []byte) (int, error) {
	a.body = append(a.body, p...)
	return len(p), nil
}

func (a *answer) send(w http.ResponseWriter) {
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.code)
	_, _ = w.Write(a.body) // nobody is left to tell
}

// handle gives one pod its subset.
func (h *Handler) handle(ctx context.Context, req ctrladmission.Request) (ctrladmission.Response, error) {
	if req.Operation != admissionv1.Create || req.SubResource != "" || req.Kind != metav1.GroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod")) {
		return ctrladmission.Allowed(""), nil
	}
	name, _ := ctx.Value(keyOf{}).(string)
	key := types.NamespacedName{Namespace: req.Namespace, Name: name}
	if errs := wire.TooLarge(req.Object.Raw, nil); len(errs) > 0 || len(req.Object.Raw) > largestPod {
		return ctrladmission.Allowed("").WithWarnings(fmt.Sprintf("the pod is too large to get a subset of WorkloadSpread %s", key.Name)), nil
	}
	pod := &corev1.Pod{}
	if err := quantity.Unmarshal(req.Object.Raw, pod); err != nil {
		return ctrladmission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the pod: %w", err)), nil
	}
	pod.Namespace = req.Namespace
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return ctrladmission.Allowed(""), nil
	}
	ask := &asked{pod: pod, owner: *owner, dry: ptr.Deref(req.DryRun, false), at: spread.None, done: make(chan struct{})}
	if err := h.answer(ctx, key, ask); err != nil || ask.at == spread.None {
		return ctrladmission.Allowed(""), err
	}
	return injected(ask)
}

// injected is the answer for a pod with its subset. The patch has only changes, so fields unknown to this program are kept.
func injected(ask *asked) (ctrladmission.Response, error) {
	before, err := json.Marshal(ask.pod)
	if err != nil {
		return ctrladmission.Response{}, fmt.Errorf("encoding the pod: %w", err)
	}
	var warnings []string
	if err := ask.spread.Inject(ask.pod, ask.at, ask.uid, nil); err != nil {
		warnings = append(warnings, err.Error())
	}
	after, err := json.Marshal(ask.pod)
	if err != nil {
		return ctrladmission.Response{}, fmt.Errorf("encoding the pod: %w", err)
	}
	return ctrladmission.PatchResponseFromRaw(before, after).WithWarnings(warnings...), nil
}

// ordinalOf is the ordinal of a StatefulSet's pod.
func ordinalOf(name string) (int, error) {
	at := strings.LastIndexByte(name, '-')
	ordinal, err := strconv.Atoi(name[at+1:])
	if at < 0 || err != nil {
		return 0, errors.New("the pod's name has no ordinal")
	}
	return ordinal, nil
}
