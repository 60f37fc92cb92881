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

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
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

// protected is the needed part of an object. The rest can be megabytes, and hundreds once decoded.
type protected struct {
	Metadata struct {
		Labels            map[string]string `json:"labels"`
		DeletionTimestamp *metav1.Time      `json:"deletionTimestamp"`
	} `json:"metadata"`
}

// kept is the cause keeping an object: a count of a kind, more: at least as many. Count 0: nothing.
type kept struct {
	what  string
	count int
	more  bool
	// end is how to get rid of them.
	end string
}

// Handle implements admit.Handler.
func (h *Handler) Handle(ctx context.Context, req ctrladmission.Request) ctrladmission.Response {
	if !h.On || req.Operation != admissionv1.Delete || len(req.OldObject.Raw) == 0 {
		return ctrladmission.Allowed("")
	}
	object := &protected{}
	if err := json.Unmarshal(req.OldObject.Raw, object); err != nil {
		return ctrladmission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the object to be deleted: %w", err))
	}
	if object.Metadata.Labels[shared.LabelDeleteProtection] != shared.DeleteProtectionCascading || object.Metadata.DeletionTimestamp != nil {
		return ctrladmission.Allowed("")
	}
	ctx, cancel := context.WithTimeout(ctx, 2*admit.LookupTimeout)
	defer cancel()
	var by kept
	var err error
	switch req.Resource.Resource {
	case "namespaces":
		by, err = h.namespace(ctx, req.Name)
	case "customresourcedefinitions":
		if !h.Definitions {
			return refuse(fmt.Sprintf(" on a CustomResourceDefinition, while the feature gate %s is off: to delete it, take this label away first, or let an administrator turn the gate on",
				features.DeletionProtectionForCRDCascading))
		}
		by, err = h.definition(ctx, req.OldObject.Raw)
	default:
		return ctrladmission.Allowed("")
	}
	switch {
	case err != nil:
		return refuse(fmt.Sprintf(", since it is not known whether it is in use: %v: try again, or take this label away first", err))
	case by.count > 0:
		least := ""
		if by.more {
			least = "at least "
		}
		return refuse(fmt.Sprintf(" and %s %s%d>0: to delete it, %s or take this label away first", by.what, least, by.count, by.end))
	}
	return ctrladmission.Allowed("")
}

func refuse(why string) ctrladmission.Response {
	return ctrladmission.Denied("forbidden by ResourcesProtectionDeletion for " + shared.LabelDeleteProtection + "=" + shared.DeleteProtectionCascading + why)
}

// namespace finds the cause keeping a namespace: unended pods, else bound volume claims.
func (h *Handler) namespace(ctx context.Context, name string) (kept, error) {
	pods := &metav1.PartialObjectMetadataList{}
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	active := fields.AndSelectors(
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)), fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
	)
	by, err := h.living(ctx, pods, &client.ListOptions{Namespace: name, FieldSelector: active})
	if err != nil || by.count > 0 {
		by.what, by.end = "active pods", "delete what runs in it"
		return by, err
	}
	// Only the status tells bound claims.
	by, err = count(ctx, h.Reader, &corev1.PersistentVolumeClaimList{}, &client.ListOptions{Namespace: name}, func(claims *corev1.PersistentVolumeClaimList) int {
		n := 0
		for i := range claims.Items {
			if claims.Items[i].Status.Phase == corev1.ClaimBound && claims.Items[i].DeletionTimestamp == nil {
				n++
			}
		}
		return n
	})
	by.what, by.end = "bound volume claims", "delete these claims"
	return by, err
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

// definition finds the cause keeping a CustomResourceDefinition: objects of its kind, in any namespace.
func (h *Handler) definition(ctx context.Context, raw []byte) (kept, error) {
	definition := &names{}
	if err := json.Unmarshal(raw, definition); err != nil {
		return kept{}, fmt.Errorf("decoding the definition: %w", err)
	}
	version := servedVersion(definition)
	if version == "" {
		return kept{}, fmt.Errorf("no version of %s is served, so that its objects cannot be listed", definition.Metadata.Name)
	}
	objects := &metav1.PartialObjectMetadataList{}
	objects.SetGroupVersionKind(schema.GroupVersionKind{Group: definition.Spec.Group, Version: version, Kind: definition.Spec.Names.Kind + "List"})
	by, err := h.living(ctx, objects, &client.ListOptions{})
	by.what, by.end = "objects of its kind", "delete these objects"
	if apierrors.IsForbidden(err) {
		err = fmt.Errorf("the operator may not list %s; an administrator gives it the right by a ClusterRole with the verb list on resource %s of API group %q, "+
			"and a ClusterRoleBinding of it to the operator's service account", definition.Metadata.Name, definition.Spec.Names.Plural, definition.Spec.Group)
	}
	return by, err
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

func (h *Handler) living(ctx context.Context, list *metav1.PartialObjectMetadataList, options *client.ListOptions) (kept, error) {
	return count(ctx, h.Reader, list, options, func(list *metav1.PartialObjectMetadataList) int {
		n := 0
		for i := range list.Items {
			if list.Items[i].DeletionTimestamp == nil {
				n++
			}
		}
		return n
	})
}

// count lists page by page until one has countable objects.
func count[T any, L interface {
	*T
	client.ObjectList
}](ctx context.Context, reader client.Reader, like L, options *client.ListOptions, counted func(L) int) (kept, error) {
	found := 0
	more, err := pages.Read(ctx, reader, like, pages.Limits{Objects: maxObjects, Bytes: maxBytes}, func(list L) bool {
		found = counted(list)
		return found == 0
	}, options)
	switch {
	case err != nil:
		return kept{}, err
	case found == 0 && more:
		return kept{}, fmt.Errorf("there are more objects than are looked at, which are %d, or they are too large", maxObjects)
	}
	return kept{count: found, more: more}, nil
}
