// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission admits ContainerRecreateRequests: it binds a
// request to the present state of its pod, and refuses impossible ones.
//
// A failed read of the pod refuses the request too: the operator fills
// in labels and IDs, for daemons to see, only while the pod is the same.
package admission

import (
	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// +kubebuilder:webhook:path=/mutate-apps-kruise-io-v1beta1-containerrecreaterequest,mutating=true,groups=apps.kruise.io,resources=containerrecreaterequests,verbs=create;update,versions=v1beta1,name=default.containerrecreaterequests.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system
// +kubebuilder:webhook:path=/validate-apps-kruise-io-v1beta1-containerrecreaterequest,mutating=false,groups=apps.kruise.io,resources=containerrecreaterequests,verbs=create;update,versions=v1beta1,name=validate.containerrecreaterequests.apps.kruise.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=10,admissionReviewVersions=v1,serviceName=kruise-operator-manager-service,serviceNamespace=kruise-system

// Kind are the rules for ContainerRecreateRequests. daemon is the gate KruiseDaemon: without it nobody would carry them out.
func Kind(daemon bool, cluster Cluster) admit.Kind[appsv1beta1.ContainerRecreateRequest, *appsv1beta1.ContainerRecreateRequest] {
	return admit.Kind[appsv1beta1.ContainerRecreateRequest, *appsv1beta1.ContainerRecreateRequest]{
		GroupVersionKind: appsv1beta1.GroupVersion().WithKind("ContainerRecreateRequest"),
		Older:            appsv1alpha1.GroupVersion().Version,
		Default:          Default,
		Complete:         cluster.completeWith(daemon),
		Retain:           Retain,
		Validate:         Validate,
		ValidateUpdate:   ValidateUpdate,
		LookUp:           cluster.lookUp,
		ChecksMetadata:   true,
	}
}
