// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"unicode"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kruise-operator/kruise-operator/internal/brief"
	"github.com/kruise-operator/kruise-operator/internal/conversion/wire"
	"github.com/kruise-operator/kruise-operator/internal/kube/templatecheck"
)

// specUnchanged tells updates of metadata from updates of the spec.
func specUnchanged(req ctrladmission.Request) bool {
	return req.Operation == admissionv1.Update && wire.SameSpec(req.Object.Raw, req.OldObject.Raw)
}

// tooLarge are the lists that are too long, on an update those it lengthens.
func tooLarge(req ctrladmission.Request) field.ErrorList {
	return wire.TooLargeWorkload(req.Object.Raw, req.OldObject.Raw)
}

// unknownFields warns of fields in pod and claim templates, containers and volumes. Elsewhere the API server warns itself.
func unknownFields(paths []string) []string {
	var warnings []string
	for _, path := range paths {
		if slices.ContainsFunc(openFields(), func(open string) bool { return within(path, open) }) {
			warnings = append(warnings, fmt.Sprintf("unknown or duplicate field %q", path))
		}
	}
	return warnings
}

// openFields are the fields a schema leaves open.
func openFields() []string {
	return []string{"spec.template", "spec.volumeClaimTemplates", "spec.containers", "spec.initContainers", "spec.volumes"}
}

func within(path, parent string) bool {
	rest, found := strings.CutPrefix(path, parent)
	return found && (strings.HasPrefix(rest, ".") || strings.HasPrefix(rest, "["))
}

// refuse is the answer the API server itself gives for a bad object: 422 with one cause for each field.
func refuse(kind schema.GroupKind, name string, errs field.ErrorList) ctrladmission.Response {
	status := apierrors.NewInvalid(kind, name, shortened(first(errs))).Status()
	return refused(&status)
}

const (
	// maxBadValue and maxDetail are how many bytes of an error's value and explanation are shown.
	maxBadValue = 512
	maxDetail   = 2048
)

// shortened cuts off long values and details of errors: messages are for people, and are copied many times on the way to them.
func shortened(errs field.ErrorList) field.ErrorList {
	for _, e := range errs {
		e.Field = brief.Text(e.Field, maxDetail)
		e.Detail = brief.Text(e.Detail, maxDetail)
		e.BadValue = shown(e.BadValue)
	}
	return errs
}

// shown shortens the value of an error: of a long text or object it keeps the beginning, of a long list or map only the length.
func shown(value any) any {
	is := reflect.ValueOf(value)
	switch is.Kind() {
	case reflect.String:
		return brief.Text(is.String(), maxBadValue)
	case reflect.Slice, reflect.Map, reflect.Struct, reflect.Pointer:
		text, err := json.Marshal(value)
		switch {
		case err != nil || len(text) <= maxDetail:
		case is.Kind() == reflect.Slice:
			return fmt.Sprintf("%d items", is.Len())
		case is.Kind() == reflect.Map:
			return fmt.Sprintf("%d keys", is.Len())
		default:
			return brief.Text(string(text), maxDetail)
		}
	}
	return value
}

// first are the first of many errors, and how many there are beside them.
func first(errs field.ErrorList) field.ErrorList {
	const most = wire.MaxErrors
	if len(errs) <= most {
		return errs
	}
	return append(errs[:most-1:most-1], field.InternalError(field.NewPath("spec"), fmt.Errorf("%d more faults", len(errs)-most+1)))
}

// firstWarnings are the first of many warnings, and how many there are beside them. The API server shows 4 KiB of them, and drops one with a line break.
func firstWarnings(warnings []string) []string {
	const most = wire.MaxErrors
	for at := range warnings {
		warnings[at] = oneLine(warnings[at])
	}
	if len(warnings) <= most {
		return warnings
	}
	return append(warnings[:most-1:most-1], fmt.Sprintf("spec: %d more warnings", len(warnings)-most+1))
}

// oneLine is a text without line breaks and other control characters.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
}

// refuseTemplate is the same answer for the API server's errors about a pod template.
func refuseTemplate(kind schema.GroupKind, name string, faults []templatecheck.Fault) ctrladmission.Response {
	status := apierrors.NewInvalid(kind, name, nil).Status()
	lines := firstFaults(faults, templatecheck.Fault.String)
	for _, fault := range faults[:min(len(faults), maxFaults)] {
		status.Details.Causes = append(status.Details.Causes, metav1.StatusCause{
			Type: metav1.CauseTypeFieldValueInvalid, Field: fault.Field, Message: fault.Message,
		})
	}
	status.Code = http.StatusUnprocessableEntity
	status.Message = fmt.Sprintf("%s %q is invalid: %s", kind, name, strings.Join(lines, "; "))
	return refused(&status)
}

// warnOfTemplate warns of the API server's objections to a template.
func warnOfTemplate(faults []templatecheck.Fault) []string {
	return firstFaults(faults, func(f templatecheck.Fault) string { return f.String() + " (pods cannot be created from this template)" })
}

func refused(status *metav1.Status) ctrladmission.Response {
	return ctrladmission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Allowed: false, Result: status}}
}
