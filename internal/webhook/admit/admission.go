// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package admit is the common part of the webhooks of all kinds. Each kind supplies its rules as a Kind, and this package applies them to
// the requests of the API server.
//
// For every kind:
//
//   - an update without a change of the spec is admitted unchecked: finalizers and metadata
//     stay editable;
//   - only the defaults are written back: unknown fields survive, pod and claim templates
//     stay as written;
//   - the rules are about the stored version, the API server converts first; errors name
//     the client's fields, and fields only the newer version has survive updates through
//     the older one;
//   - faults already in the stored object do not block an update;
//   - an undecodable value is refused with its path;
//   - a request's cost is bounded: oversized objects are refused before decoding
//     (wire.TooLarge), at most wire.MaxErrors errors are reported, and questions to the API
//     server are few and end with the request.
package admit

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kruise-operator/kruise-operator/internal/conversion/wire"
	"github.com/kruise-operator/kruise-operator/internal/kube/templatecheck"
)

const (
	// LookupTimeout is how long one question to the API server may take.
	LookupTimeout = 4 * time.Second
	// lookupsTimeout bounds all questions of one request together. It leaves time to answer
	// within the webhooks' ten seconds.
	lookupsTimeout = 2 * LookupTimeout
)

// Object is a pointer to a kind's type.
type Object[T any] interface {
	*T
	DeepCopy() *T
}

// Kind adds the rules of a kind to the frame. Nil functions are skipped. All but LookUp and
// Complete are pure.
type Kind[T any, P Object[T]] struct {
	// GroupVersionKind is the stored version; requests arrive in it.
	schema.GroupVersionKind
	// Older is a served version whose clients lack fields of the stored one. Empty: there
	// is none.
	Older string
	// NewerFields are the spec's fields Older lacks, templates excepted. An update through
	// Older without them keeps the stored ones.
	NewerFields []string
	// Opaque are spec fields hidden from Default and Keep. Nil: template and
	// volumeClaimTemplates, which can be long and may hold unknown fields.
	Opaque []string
	// Keep restores stored fields omitted by an update through Older, beyond NewerFields.
	Keep func(set, old P)
	// Retain restores stored fields of Complete an update omits, in any version: kubectl
	// apply replaces whole lists. It sees the same as Default.
	Retain func(set, old P)
	// Default fills in missing fields. It sees the labels and the spec without Opaque.
	Default func(set P)
	// Complete fills in a new object's fields only the cluster knows, after Default, or
	// returns why it cannot. It sees the same as Default, and the namespace.
	Complete func(ctx context.Context, namespace string, set P) field.ErrorList
	// Off refuses every object, because nobody would do anything for it. Empty: somebody does.
	Off field.ErrorList
	// Validate checks an object after Default.
	Validate func(set P) field.ErrorList
	// ValidateCreate adds checks for new objects only, after Default. Nil: none.
	ValidateCreate func(set P) field.ErrorList
	// ValidateUpdate checks changes from old to set, both after Default.
	ValidateUpdate func(set, old P) field.ErrorList
	// LookUp asks the cluster for faults, or else for warnings. It is called once for
	// objects with no other fault. old is nil for a creation.
	LookUp func(ctx context.Context, set, old P) (errs field.ErrorList, warnings []string)
	// Announce prepares for a valid new object, as it will be stored, and returns warnings.
	// It is not called in dry runs, and others may still refuse the object.
	Announce func(ctx context.Context, object *unstructured.Unstructured) (warnings []string)
	// Warnings tell of allowed settings with surprising effects. Each begins with its
	// field's path. old is nil for a creation.
	Warnings func(set, old P) []string
	// ChecksMetadata is true if rules look at annotations: updates of metadata alone are
	// checked, too.
	ChecksMetadata bool
	// Templates are the object's templates for pods. The API server is asked about new
	// ones.
	Templates func(set P) Templates
	// RefuseTemplates refuses objects for faults in templates. Otherwise they are warnings.
	RefuseTemplates bool
	// OlderAllows is true for a fault that clients of Older may write. Nil: none.
	OlderAllows func(fault *field.Error) bool
	// OlderField is Older's name of a field of the stored version. Nil: no name differs.
	OlderField func(path string) string
	// OlderText is an error's text for a client of Older. Nil: the same.
	OlderText func(path, text string) string
}

// MutatePath is where the API server calls the Defaulter.
func (k Kind[T, P]) MutatePath() string { return k.path("mutate") }

// ValidatePath is where the API server calls the Validator.
func (k Kind[T, P]) ValidatePath() string { return k.path("validate") }

func (k Kind[T, P]) path(verb string) string {
	return strings.ToLower("/" + verb + "-" + strings.ReplaceAll(k.Group, ".", "-") + "-" + k.Version + "-" + k.Kind)
}

// Faults checks an object after Default. old is the stored object, nil for a creation.
// Faults already stored do not block an update: they may predate admission, and refusing
// every later change would not repair them.
func (k Kind[T, P]) Faults(set, old P) field.ErrorList {
	if len(k.Off) > 0 {
		return k.Off
	}
	errs := shortened(k.Validate(set))
	if old == nil {
		if k.ValidateCreate != nil {
			errs = append(errs, shortened(k.ValidateCreate(set))...)
		}
		return errs
	}
	before := P(old.DeepCopy())
	k.Default(before)
	if len(errs) > 0 {
		errs = Introduced(errs, shortened(k.Validate(before)))
	}
	if k.ValidateUpdate != nil {
		errs = append(errs, shortened(k.ValidateUpdate(set, before))...)
	}
	return errs
}

// maxMoved is up to how many known faults are looked for at other places.
const maxMoved = 1000

// stored is the object before an update, nil for a creation. Undecodable values are left
// out, so an update can correct them.
func (k Kind[T, P]) stored(ctx context.Context, req ctrladmission.Request) P {
	if req.Operation != admissionv1.Update {
		return nil
	}
	old := P(new(T))
	if errs := wire.DecodeRest(req.OldObject.Raw, old); len(errs) > 0 {
		ctrl.LoggerFrom(ctx).Info("A stored object has values that cannot be decoded", "kind", k.Kind, "reason", errs[0].Error(), "count", len(errs))
	}
	return old
}

// throughOlder is true if the client spoke the older version. The request's objects are
// converted already.
func (k Kind[T, P]) throughOlder(req ctrladmission.Request) bool {
	return k.Older != "" && req.RequestKind != nil && req.RequestKind.Version == k.Older
}

// Defaulter is the mutating webhook of the kind.
func (k Kind[T, P]) Defaulter() ctrladmission.Handler { return defaulter[T, P]{Kind: k} }

type defaulter[T any, P Object[T]] struct{ Kind Kind[T, P] }

// Handle fills in defaults, and keeps fields unknown to a client of an older version.
// Undecodable or oversized objects pass: the schema or the validator refuses them with a
// reason.
func (d defaulter[T, P]) Handle(ctx context.Context, req ctrladmission.Request) ctrladmission.Response {
	if tooLarge(req) != nil || specUnchanged(req) {
		return ctrladmission.Allowed("")
	}
	response, err := d.defaulted(ctx, req)
	if err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("No defaults for an object that cannot be decoded", "reason", err.Error())
		return ctrladmission.Allowed("")
	}
	return response
}

// defaulted answers with the changes defaults make to their part of the object.
func (d defaulter[T, P]) defaulted(ctx context.Context, req ctrladmission.Request) (ctrladmission.Response, error) {
	part, err := wire.PartOf(req.Object.Raw, d.Kind.opaque()...)
	if err != nil {
		return ctrladmission.Response{}, err
	}
	var stored *wire.Part
	whole, older := part, d.Kind.throughOlder(req)
	if req.Operation == admissionv1.Update && (older || d.Kind.Retain != nil) {
		if stored, err = wire.PartOf(req.OldObject.Raw, d.Kind.opaque()...); err != nil {
			return ctrladmission.Response{}, err
		}
	}
	if stored != nil && older {
		whole = part.With(stored, d.Kind.NewerFields...)
	}
	before, err := decode[T, P](whole, strictly)
	if err != nil {
		return ctrladmission.Response{}, err
	}
	after := P(before.DeepCopy())
	if keeps := older && d.Kind.Keep != nil; stored != nil && (keeps || d.Kind.Retain != nil) {
		old, err := decode[T, P](stored, wire.DecodeRest)
		if err != nil {
			ctrl.LoggerFrom(ctx).Info("A stored object has values that cannot be decoded", "kind", d.Kind.Kind, "reason", err.Error())
		}
		if keeps {
			d.Kind.Keep(after, old)
		}
		if d.Kind.Retain != nil {
			d.Kind.Retain(after, old)
		}
	}
	d.Kind.Default(after)
	if req.Operation == admissionv1.Create && d.Kind.Complete != nil {
		ctx, cancel := context.WithTimeout(ctx, lookupsTimeout)
		defer cancel()
		if errs := d.Kind.Complete(ctx, req.Namespace, after); len(errs) > 0 {
			return refuse(d.Kind.GroupKind(), req.Name, errs), nil
		}
	}
	if whole == part && reflect.DeepEqual(before, after) {
		return ctrladmission.Allowed(""), nil
	}
	return difference(part, whole, before, after)
}

// strictly decodes a client's object.
func strictly(raw []byte, into any) field.ErrorList {
	_, errs := wire.Decode(raw, into)
	return errs
}

// decode reads a part of an object.
func decode[T any, P Object[T]](part *wire.Part, by func(raw []byte, into any) field.ErrorList) (P, error) {
	raw, err := json.Marshal(part)
	if err != nil {
		return nil, fmt.Errorf("encoding a part of the object: %w", err)
	}
	set := P(new(T))
	if errs := by(raw, set); len(errs) > 0 {
		return set, errs[0]
	}
	return set, nil
}

// difference is the response patching part to whole, merged with the changes from before to
// after.
func difference(part, whole *wire.Part, before, after any) (ctrladmission.Response, error) {
	original, err := json.Marshal(part)
	if err != nil {
		return ctrladmission.Response{}, fmt.Errorf("encoding a part of the object: %w", err)
	}
	changed, err := json.Marshal(whole)
	if err != nil {
		return ctrladmission.Response{}, fmt.Errorf("encoding a part of the object: %w", err)
	}
	changed, err = wire.Merge(changed, before, after)
	if err != nil {
		return ctrladmission.Response{}, err
	}
	return ctrladmission.PatchResponseFromRaw(original, changed), nil
}

// opaque are spec fields without defaults.
func (k Kind[T, P]) opaque() []string {
	if k.Opaque != nil {
		return k.Opaque
	}
	return []string{"template", "volumeClaimTemplates"}
}

// Cluster is a Validator's view of the cluster.
type Cluster struct {
	// Checker asks the API server about templates.
	Checker templatecheck.Checker
	// Protects is true if the label policy.kruise.io/delete-protection is honored. If not,
	// its users get a warning.
	Protects Protection
}

// Validator is the validating webhook of the kind.
func (k Kind[T, P]) Validator(c Cluster) ctrladmission.Handler {
	return validator[T, P]{Kind: k, Cluster: c}
}

type validator[T any, P Object[T]] struct {
	Cluster
	Kind Kind[T, P]
}

// Handle refuses impossible settings and warns of doubtful ones.
func (v validator[T, P]) Handle(ctx context.Context, req ctrladmission.Request) ctrladmission.Response {
	if errs := tooLarge(req); errs != nil {
		return v.refuse(req, errs)
	}
	unprotected, sameSpec := unprotected(req, v.Kind.Kind, v.Protects), specUnchanged(req)
	if sameSpec && !v.Kind.ChecksMetadata {
		return ctrladmission.Allowed("").WithWarnings(unprotected...)
	}
	set := P(new(T))
	unknown, errs := wire.Decode(req.Object.Raw, set)
	if len(errs) > 0 {
		if !sameSpec {
			return v.refuse(req, errs)
		}
		set = P(new(T)) // what is stored like that does not keep its metadata from being edited
		_ = wire.DecodeRest(req.Object.Raw, set)
	}
	old := v.Kind.stored(ctx, req)
	errs = v.Kind.Faults(set, old)
	if v.Kind.OlderAllows != nil && v.Kind.throughOlder(req) {
		errs = slices.DeleteFunc(errs, v.Kind.OlderAllows)
	}
	if len(errs) > 0 {
		return v.refuse(req, errs)
	}

	if ctx.Err() != nil {
		return unawaited(ctx)
	}
	request := ctx
	ctx, cancel := context.WithTimeout(ctx, lookupsTimeout)
	defer cancel()
	var found, warnings []string
	if v.Kind.LookUp != nil {
		if errs, found = v.Kind.LookUp(ctx, set, old); len(errs) > 0 {
			return v.refuse(req, errs)
		}
	}
	if v.Kind.Warnings != nil {
		warnings = v.Kind.Warnings(set, old)
	}
	warnings = v.inClientsWords(req, append(warnings, found...))
	if v.Kind.Templates != nil && ctx.Err() == nil {
		faults := v.templateFaults(ctx, cmp.Or(req.Namespace, metav1.NamespaceDefault), set, old)
		refused, warned := v.judge(faults)
		if len(refused) > 0 {
			return refuseTemplate(v.Kind.GroupKind(), req.Name, refused)
		}
		warnings = append(warnings, warnOfTemplate(warned)...)
	}
	if request.Err() != nil {
		return unawaited(request)
	}
	warnings = append(warnings, v.announce(request, req)...)
	return ctrladmission.Allowed("").WithWarnings(firstWarnings(slices.Concat(warnings, unknownFields(unknown), unprotected))...)
}

// announce prepares for an object about to be stored.
func (v validator[T, P]) announce(ctx context.Context, req ctrladmission.Request) []string {
	if v.Kind.Announce == nil || req.Operation != admissionv1.Create || ptr.Deref(req.DryRun, false) {
		return nil
	}
	object := &unstructured.Unstructured{}
	if err := kjson.Unmarshal(req.Object.Raw, &object.Object); err != nil {
		return nil // It was decoded before.
	}
	return v.Kind.Announce(ctx, object)
}

// unawaited answers a request after its client has left.
func unawaited(ctx context.Context) ctrladmission.Response {
	return ctrladmission.Errored(http.StatusGatewayTimeout, ctx.Err())
}

// judge divides faults into refusals and warnings. OpenKruise takes templates the server
// takes and only refuses as pods, so these are warnings.
func (v validator[T, P]) judge(faults []templatecheck.Fault) (refused, warned []templatecheck.Fault) {
	for _, fault := range faults {
		if v.Kind.RefuseTemplates && !fault.PodsOnly {
			refused = append(refused, fault)
		} else {
			warned = append(warned, fault)
		}
	}
	return refused, warned
}

// templateFaults returns the faults of new templates. If they refuse the object, those also
// in the stored ones are left out.
func (v validator[T, P]) templateFaults(ctx context.Context, namespace string, set, old P) []templatecheck.Fault {
	is := v.Kind.Templates(set)
	if is.Pod == nil {
		return nil
	}
	if old == nil {
		return is.faults(ctx, v.Checker, namespace)
	}
	was := v.Kind.Templates(old)
	if is.same(was) {
		return nil
	}
	faults := is.faults(ctx, v.Checker, namespace)
	if len(faults) == 0 || !v.Kind.RefuseTemplates || was.Pod == nil {
		return faults
	}
	if ctx.Err() != nil {
		return nil // whether they are new is not known
	}
	known := was.faults(ctx, v.Checker, namespace)
	return introduced(faults, known, func(f templatecheck.Fault) fault { return fault{f.Field, f.Message} })
}

func (v validator[T, P]) refuse(req ctrladmission.Request, errs field.ErrorList) ctrladmission.Response {
	errs = first(errs) // the others are not shown, and need no name
	if v.Kind.throughOlder(req) {
		for i, err := range errs {
			named := *err
			if v.Kind.OlderField != nil {
				named.Field = v.Kind.OlderField(err.Field)
			}
			if v.Kind.OlderText != nil {
				named.Detail = v.Kind.OlderText(err.Field, err.Detail)
			}
			errs[i] = &named
		}
	}
	return refuse(v.Kind.GroupKind(), req.Name, errs)
}

// inClientsWords renames the fields at the start of warnings for a client of the older
// version.
func (v validator[T, P]) inClientsWords(req ctrladmission.Request, warnings []string) []string {
	if v.Kind.OlderField == nil || !v.Kind.throughOlder(req) {
		return warnings
	}
	renamed := make([]string, len(warnings))
	for i, warning := range warnings {
		path, text, _ := strings.Cut(warning, ": ")
		renamed[i] = fmt.Sprintf("%s: %s", v.Kind.OlderField(path), text)
	}
	return renamed
}
