// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package newpods answers the API server about new pods of others, for the object named last in the path.
package newpods

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kruise-operator/kruise-operator/internal/conversion/wire"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
)

const (
	// Timeout leaves time to answer within the webhook's ten seconds.
	Timeout = 8 * time.Second
	// largest bounds the memory for one answer, in bytes of the pod.
	largest = 1 << 20
)

// Asked is a new pod with a controller.
type Asked struct {
	// Of names the object that wants the hook.
	Of    types.NamespacedName
	Pod   *corev1.Pod
	Owner *metav1.OwnerReference
	// Dry: nothing may be written.
	Dry bool
}

// Handler answers below Path. Change changes a pod in memory; its errors leave the decision to the failure policy.
type Handler struct {
	Path   string
	Change func(ctx context.Context, asked Asked) (warnings []string, err error)
}

// ServeHTTP implements http.Handler. Temporary ignorance is an HTTP error, not a refusal: the entry's failure policy decides.
func (h Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, found := strings.CutPrefix(r.URL.Path, h.Path)
	if !found || len(validation.IsDNS1123Subdomain(name)) > 0 {
		http.NotFound(w, r)
		return
	}
	failed := ""
	webhook := &ctrladmission.Webhook{Handler: ctrladmission.HandlerFunc(func(ctx context.Context, req ctrladmission.Request) ctrladmission.Response {
		response, err := h.handle(ctx, name, req)
		if err != nil {
			failed = err.Error()
		}
		return response
	})}
	buffer := &answer{ResponseWriter: w}
	ctx, cancel := context.WithTimeout(r.Context(), Timeout)
	defer cancel()
	webhook.ServeHTTP(buffer, r.WithContext(ctx))
	if failed != "" {
		ctrl.Log.WithName("webhook").Info("Cannot answer about a pod", "path", r.URL.Path, "reason", failed)
		http.Error(w, failed, http.StatusServiceUnavailable)
		return
	}
	_, _ = buffer.body.WriteTo(w) // nobody is left to tell
}

// answer keeps a response until it is known whether it is one.
type answer struct {
	http.ResponseWriter
	body bytes.Buffer
}

func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }

// handle asks about one pod for the object of a name.
func (h Handler) handle(ctx context.Context, name string, req ctrladmission.Request) (ctrladmission.Response, error) {
	if !Creates(req) {
		return ctrladmission.Allowed(""), nil
	}
	if errs := wire.TooLarge(req.Object.Raw, nil); len(errs) > 0 || len(req.Object.Raw) > largest {
		return ctrladmission.Allowed("").WithWarnings(fmt.Sprintf("the pod is too large for %s to be asked about it", name)), nil
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
	return h.change(ctx, Asked{types.NamespacedName{Namespace: req.Namespace, Name: name}, pod, owner, ptr.Deref(req.DryRun, false)})
}

// change asks about one pod of a controller.
func (h Handler) change(ctx context.Context, asked Asked) (ctrladmission.Response, error) {
	var warnings []string
	response, err := Changing(asked.Pod, func() (err error) {
		warnings, err = h.Change(ctx, asked)
		return err
	})
	return response.WithWarnings(warnings...), err
}

// Changing answers with the changes of a pod alone, so fields unknown to this program are kept.
func Changing(pod *corev1.Pod, change func() error) (ctrladmission.Response, error) {
	before, err := json.Marshal(pod)
	if err != nil {
		return ctrladmission.Response{}, fmt.Errorf("encoding the pod: %w", err)
	}
	if err := change(); err != nil {
		return ctrladmission.Response{}, err
	}
	after, err := json.Marshal(pod)
	if err != nil {
		return ctrladmission.Response{}, fmt.Errorf("encoding the pod: %w", err)
	}
	return ctrladmission.PatchResponseFromRaw(before, after), nil
}

// Creates reports whether a request creates a pod.
func Creates(req ctrladmission.Request) bool {
	return req.Operation == admissionv1.Create && req.SubResource == "" && req.Kind == metav1.GroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
}
