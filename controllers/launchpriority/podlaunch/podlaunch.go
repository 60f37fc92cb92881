// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package podlaunch makes containers of new pods start in their pod's order.
//
// The controller of launch priorities registers it for pods the policy cannot handle. It does the same as the
// policy, see internal/engine/launch.
package podlaunch

import (
	"context"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kruise-operator/kruise-operator/internal/conversion/wire"
	"github.com/kruise-operator/kruise-operator/internal/engine/launch"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
	"github.com/kruise-operator/kruise-operator/internal/webhook/newpods"
)

// Path is where the API server calls.
const Path = "/order-containers"

// Handler answers the API server.
type Handler struct{}

// Handle orders one pod's containers.
func (Handler) Handle(_ context.Context, req ctrladmission.Request) ctrladmission.Response {
	if !newpods.Creates(req) {
		return ctrladmission.Allowed("")
	}
	if errs := wire.TooLarge(req.Object.Raw, nil); len(errs) > 0 {
		return refused(req.Name, errs)
	}
	pod := &corev1.Pod{}
	if err := quantity.Unmarshal(req.Object.Raw, pod); err != nil {
		return ctrladmission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the pod: %w", err))
	}
	var fault *field.Error
	response, err := newpods.Changing(pod, func() error {
		_, fault = launch.Order(pod, rand.String(launch.LengthOfSuffix))
		return nil
	})
	switch {
	case fault != nil:
		return refused(pod.Name+pod.GenerateName, field.ErrorList{fault})
	case err != nil:
		return ctrladmission.Errored(http.StatusInternalServerError, err)
	}
	return response
}

// refused is the API server's own answer for a bad pod.
func refused(name string, errs field.ErrorList) ctrladmission.Response {
	status := apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, name, errs).ErrStatus
	return ctrladmission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &status}}
}
