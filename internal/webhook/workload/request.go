// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package workload holds what admission of several kinds has in common: the rules about selectors, pod templates and the order of
// updates, and the parts of answering a request that do not depend on the kind.
//
// The rules are pure. They take the parts of a spec that they are about, and return errors with the paths they were given.
package workload

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kruise-operator/kruise-operator/internal/conversion/wire"
	"github.com/kruise-operator/kruise-operator/internal/kube/templatecheck"
)

const (
	// LookupTimeout is how long one question to the API server may take. It leaves time to answer within the ten seconds that
	// the webhooks have.
	LookupTimeout = 4 * time.Second
	// MaxFaults is how many faults of one template are reported; the API server cuts off long lists.
	MaxFaults = 10
)

// SpecUnchanged tells updates of metadata from those of the spec.
func SpecUnchanged(req admission.Request) bool {
	return req.Operation == admissionv1.Update && wire.SameSpec(req.Object.Raw, req.OldObject.Raw)
}

// Through says whether the client spoke the given version. The objects of the request are converted already.
func Through(req admission.Request, version string) bool {
	return req.RequestKind != nil && req.RequestKind.Version == version
}

// Same says whether the API server would give the same answer about other templates.
func (t Templates) Same(other Templates) bool {
	return equality.Semantic.DeepEqual(t.Pod, other.Pod) &&
		slices.EqualFunc(t.Claims, other.Claims, func(a, b corev1.PersistentVolumeClaim) bool { return a.Name == b.Name })
}

// UnknownFields warns of fields in pod and claim templates. Elsewhere the API server warns itself.
func UnknownFields(paths []string) []string {
	var warnings []string
	for _, path := range paths {
		if within(path, "spec.template") || within(path, "spec.volumeClaimTemplates") {
			warnings = append(warnings, fmt.Sprintf("unknown or duplicate field %q", path))
		}
	}
	return warnings
}

func within(path, parent string) bool {
	rest, found := strings.CutPrefix(path, parent)
	return found && (strings.HasPrefix(rest, ".") || strings.HasPrefix(rest, "["))
}

// Refuse is the answer the API server itself gives for a bad object: 422 with one cause for each field.
func Refuse(kind schema.GroupKind, name string, errs field.ErrorList) admission.Response {
	status := apierrors.NewInvalid(kind, name, errs).Status()
	return refused(&status)
}

// RefuseTemplate is the same answer for what the API server said about a pod template.
func RefuseTemplate(kind schema.GroupKind, name string, faults []templatecheck.Fault) admission.Response {
	status := apierrors.NewInvalid(kind, name, nil).Status()
	var lines []string
	for i, fault := range faults {
		if i == MaxFaults {
			lines = append(lines, fmt.Sprintf("spec.template: %d more faults", len(faults)-MaxFaults))
			break
		}
		lines = append(lines, fault.String())
		status.Details.Causes = append(status.Details.Causes, metav1.StatusCause{
			Type: metav1.CauseTypeFieldValueInvalid, Field: fault.Field, Message: fault.Message,
		})
	}
	status.Code = http.StatusUnprocessableEntity
	status.Message = fmt.Sprintf("%s %q is invalid: %s", kind, name, strings.Join(lines, "; "))
	return refused(&status)
}

// WarnOfTemplate is the warning about what the API server would refuse of a template.
func WarnOfTemplate(fault templatecheck.Fault) string {
	return fault.String() + " (pods cannot be created from this template)"
}

func refused(status *metav1.Status) admission.Response {
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Allowed: false, Result: status}}
}
