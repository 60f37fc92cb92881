// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package podlaunch makes containers of new pods start in their pod's order.
//
// The controller of launch priorities registers it for pods the policy cannot handle. It does the same as the
// policy, see internal/engine/launch.
package podlaunch

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/conversion/wire"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/launch"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
)

// Path is where the API server calls.
const Path = "/order-containers"

// Handler answers the API server.
type Handler struct{}

// Handle orders one pod's containers. The pod is only read, so fields unknown to this program are kept.
func (Handler) Handle(_ context.Context, req ctrladmission.Request) ctrladmission.Response {
	if req.Operation != admissionv1.Create || req.SubResource != "" || req.Kind != metav1.GroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod")) {
		return ctrladmission.Allowed("")
	}
	if errs := wire.TooLarge(req.Object.Raw, nil); len(errs) > 0 {
		return refused(req.Name, errs)
	}
	pod := &corev1.Pod{}
	if err := quantity.Unmarshal(req.Object.Raw, pod); err != nil {
		return ctrladmission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the pod: %w", err))
	}
	patch, fault := patchOf(pod, rand.String(launch.LengthOfSuffix))
	if fault != nil {
		return refused(pod.Name+pod.GenerateName, field.ErrorList{fault})
	}
	if len(patch) == 0 {
		return ctrladmission.Allowed("")
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return ctrladmission.Errored(http.StatusInternalServerError, fmt.Errorf("encoding the patch: %w", err))
	}
	response := ctrladmission.Allowed("")
	response.Patch, response.PatchType = body, ptr.To(admissionv1.PatchTypeJSONPatch)
	return response
}

// refused is the API server's own answer for a bad pod.
func refused(name string, errs field.ErrorList) ctrladmission.Response {
	status := apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, name, errs).ErrStatus
	return ctrladmission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &status}}
}

// patchOf orders a pod; empty when it asks for no order. suffix are random characters: they end a missing name,
// and mark the keys without a token.
func patchOf(pod *corev1.Pod, suffix string) ([]edit.Operation, *field.Error) {
	priorities, fault := launch.Priorities(pod.Annotations, pod.Spec.Containers, field.NewPath("spec", "containers"))
	if priorities == nil {
		return nil, fault
	}
	var patch []edit.Operation
	add := func(op, path string, value any) {
		patch = append(patch, edit.Operation{Op: op, Path: path, Value: value})
	}
	name := pod.Name
	if name == "" {
		name = launch.GeneratedName(pod.GenerateName, suffix)
		add("add", "/metadata/name", name)
	}
	if fault := launch.NameFault(name); fault != nil {
		return nil, fault
	}
	if _, copied := pod.Annotations[shared.AnnotationLaunchPriorityCompleted]; copied {
		add("remove", "/metadata/annotations/"+strings.ReplaceAll(shared.AnnotationLaunchPriorityCompleted, "/", "~1"), nil)
	}
	mark := cmp.Or(launch.Mark(pod), suffix)
	for i := range pod.Spec.Containers {
		env := "/spec/containers/" + strconv.Itoa(i) + "/env"
		waits := launch.Variable(name, priorities[i], mark)
		there := false
		for j := range pod.Spec.Containers[i].Env {
			if pod.Spec.Containers[i].Env[j].Name == shared.EnvLaunchPriority {
				add("replace", env+"/"+strconv.Itoa(j), waits)
				there = true
			}
		}
		switch {
		case there:
		case len(pod.Spec.Containers[i].Env) == 0:
			add("add", env, []corev1.EnvVar{waits})
		default:
			add("add", env+"/-", waits)
		}
	}
	return patch, nil
}
