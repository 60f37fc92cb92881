// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package deletionprotection allows or refuses to delete a Namespace or CustomResourceDefinition labeled
// policy.kruise.io/delete-protection=Cascading. The answer depends on other objects, and a policy of the API
// server cannot read them.
//
// It handles no other requests. It lists from the API server page by page until an object prevents the deletion.
// When it cannot read something, it refuses the deletion and says why.
package deletionprotection

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/kube/pages"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// Path is where the API server asks.
const Path = "/validate-deletion-protection"

const (
	// maxObjects and maxBytes are how many objects are looked at, and how many bytes the API server may send of them.
	maxObjects = 10_000
	maxBytes   = 12 << 20
)

// +kubebuilder:rbac:groups="",resources=pods;persistentvolumeclaims,verbs=list

// Handler answers the API server.
type Handler struct {
	// Reader asks the API server directly.
	Reader client.Reader
	// On honors the label, Definitions also on CustomResourceDefinitions.
	On, Definitions bool
}

// Handle implements admit.Handler.
func (h *Handler) Handle(ctx context.Context, req ctrladmission.Request) ctrladmission.Response {
	if !h.On || req.Operation != admissionv1.Delete || len(req.OldObject.Raw) == 0 {
		return ctrladmission.Allowed("")
	}
	object := &metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(req.OldObject.Raw, object); err != nil {
		return ctrladmission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the object to be deleted: %w", err))
	}
	if object.Labels[shared.LabelDeleteProtection] != shared.DeleteProtectionCascading || object.DeletionTimestamp != nil {
		return ctrladmission.Allowed("")
	}
	ctx, cancel := context.WithTimeout(ctx, 2*admit.LookupTimeout)
	defer cancel()
	var use string
	var err error
	switch req.Resource.Resource {
	case "namespaces":
		use, err = h.namespace(ctx, req.Name)
	case "customresourcedefinitions":
		if !h.Definitions {
			return refuse(fmt.Sprintf(" on a CustomResourceDefinition, while the feature gate %s is off: to delete it, take this label away first, or let an administrator turn the gate on",
				features.DeletionProtectionForCRDCascading))
		}
		use, err = h.definition(ctx, req.OldObject.Raw)
	}
	switch {
	case err != nil:
		return refuse(fmt.Sprintf(", since it is not known whether it is in use: %v: try again, or take this label away first", err))
	case use != "":
		return refuse(fmt.Sprintf(" and %s or take this label away first", use))
	}
	return ctrladmission.Allowed("")
}

func refuse(why string) ctrladmission.Response {
	return ctrladmission.Denied("forbidden by ResourcesProtectionDeletion for " + shared.LabelDeleteProtection + "=" + shared.DeleteProtectionCascading + why)
}

// namespace says what keeps a namespace: unended pods, else bound volume claims; empty: nothing.
func (h *Handler) namespace(ctx context.Context, name string) (string, error) {
	pods := &metav1.PartialObjectMetadataList{}
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	active := fields.AndSelectors(
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)), fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
	)
	n, err := h.living(ctx, pods, &client.ListOptions{Namespace: name, FieldSelector: active})
	if err != nil || n != "" {
		return inUse("active pods", n, "delete what runs in it"), err
	}
	// Only the status tells bound claims.
	n, err = h.living(ctx, &corev1.PersistentVolumeClaimList{}, &client.ListOptions{Namespace: name})
	return inUse("bound volume claims", n, "delete these claims"), err
}

// inUse says what keeps an object, and how to get rid of it; empty: n is.
func inUse(what, n, end string) string {
	if n == "" {
		return ""
	}
	return fmt.Sprintf("%s %s>0: to delete it, %s", what, n, end)
}

// names locate a CustomResourceDefinition's objects. Its schemas are not decoded.
type names struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Group string `json:"group"`
		Names struct {
			Kind   string `json:"kind"`
			Plural string `json:"plural"`
		} `json:"names"`
		Versions []struct {
			Name    string `json:"name"`
			Served  bool   `json:"served"`
			Storage bool   `json:"storage"`
		} `json:"versions"`
	} `json:"spec"`
}

// definition says what keeps a CustomResourceDefinition: objects of its kind, in any namespace; empty: nothing.
func (h *Handler) definition(ctx context.Context, raw []byte) (string, error) {
	definition := &names{}
	if err := json.Unmarshal(raw, definition); err != nil {
		return "", fmt.Errorf("decoding the definition: %w", err)
	}
	version := servedVersion(definition)
	if version == "" {
		return "", fmt.Errorf("no version of %s is served, so that its objects cannot be listed", definition.Metadata.Name)
	}
	objects := &metav1.PartialObjectMetadataList{}
	objects.SetGroupVersionKind(schema.GroupVersionKind{Group: definition.Spec.Group, Version: version, Kind: definition.Spec.Names.Kind + "List"})
	n, err := h.living(ctx, objects, &client.ListOptions{})
	if apierrors.IsForbidden(err) {
		err = fmt.Errorf("the operator may not list %s; an administrator gives it the right by a ClusterRole with the verb list on resource %s of API group %q, "+
			"and a ClusterRoleBinding of it to the operator's service account", definition.Metadata.Name, definition.Spec.Names.Plural, definition.Spec.Group)
	}
	return inUse("objects of its kind", n, "delete these objects"), err
}

// servedVersion is the stored version if served, else any served one; empty: none.
func servedVersion(definition *names) string {
	served := ""
	for _, v := range definition.Spec.Versions {
		if v.Served && (v.Storage || served == "") {
			served = v.Name
		}
	}
	return served
}

// living lists page by page until one has objects that keep others. It returns how many there are at least, in words; empty: none.
func (h *Handler) living(ctx context.Context, like client.ObjectList, options *client.ListOptions) (string, error) {
	found := 0
	more, err := pages.Read(ctx, h.Reader, like, pages.Limits{Objects: maxObjects, Bytes: maxBytes}, func(list client.ObjectList) bool {
		_ = meta.EachListItem(list, func(object runtime.Object) error { // lists have items
			if keeps(object) {
				found++
			}
			return nil
		})
		return found == 0
	}, options)
	switch {
	case err != nil:
		return "", err
	case found == 0 && more:
		return "", fmt.Errorf("there are more objects than are looked at, which are %d, or they are too large", maxObjects)
	case found == 0:
		return "", nil
	case more:
		return fmt.Sprintf("at least %d", found), nil
	}
	return strconv.Itoa(found), nil
}

// keeps: an object stays, and is in use if it is a claim.
func keeps(object runtime.Object) bool {
	if claim, is := object.(*corev1.PersistentVolumeClaim); is && claim.Status.Phase != corev1.ClaimBound {
		return false
	}
	stays, is := object.(metav1.Object)
	return is && stays.GetDeletionTimestamp() == nil
}
