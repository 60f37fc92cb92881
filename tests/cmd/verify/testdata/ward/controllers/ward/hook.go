// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package ward

import (
	"context"
	"net/http"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/hooks"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
)

const path = "/guard-wards"

// hooksOf see deletions of labeled pods.
func hooksOf(*config.Config) []*hooks.Hook {
	return []*hooks.Hook{{
		Name: "wards.operator.kruise.io", Order: hooks.Guard, Path: path, OnFailure: admissionv1.Ignore,
		Resource: corev1.SchemeGroupVersion.WithResource("pods"), Verbs: []admissionv1.OperationType{admissionv1.Delete},
		ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"ward": "yes"}},
	}}
}

// guard refuses deletions in namespaces with a Ward.
type guard struct{ client.Reader }

// Handle answers one request.
func (g guard) Handle(ctx context.Context, req ctrladmission.Request) ctrladmission.Response {
	wards := &appsv1beta1.WardList{}
	if err := g.List(ctx, wards, client.InNamespace(req.Namespace), client.Limit(1)); err != nil {
		return ctrladmission.Errored(http.StatusInternalServerError, err)
	}
	if len(wards.Items) > 0 {
		return ctrladmission.Denied(wards.Items[0].Spec.Reason)
	}
	return ctrladmission.Allowed("")
}
