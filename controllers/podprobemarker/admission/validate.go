// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/engine/probing"
	"github.com/kruise-operator/kruise-operator/internal/webhook/rules"
)

// Limits, beside those of the schema. A node's list repeats each probe for each of its pods, and the API server takes at most 1.5 MiB.
const (
	maxArguments  = 64
	maxCommand    = 4096 // bytes, all arguments together
	maxPath       = 1024
	maxHeaders    = 16
	maxHeader     = 1024      // bytes, name and value together
	maxAnnotation = 4096      // bytes of one value
	maxSeconds    = 24 * 3600 // a day
	maxThreshold  = 1000
)

// taken are the condition types of Kubernetes and this operator.
func taken() []string {
	return []string{
		string(corev1.PodScheduled), string(corev1.PodInitialized), string(corev1.PodReady), string(corev1.ContainersReady),
		string(corev1.PodReadyToStartContainers), string(corev1.DisruptionTarget), "PodResizePending", "PodResizeInProgress",
		"KruisePodReady", "InPlaceUpdateReady", "SidecarTerminated",
	}
}

// Validate returns the faults of a PodProbeMarker after Default.
func Validate(m *appsv1alpha1.PodProbeMarker) field.ErrorList {
	spec := field.NewPath("spec")
	var errs field.ErrorList
	if m.Spec.Selector == nil {
		errs = append(errs, field.Required(spec.Child("selector"), "the labels of the pods to probe"))
	} else {
		errs = append(errs, selector(m.Spec.Selector, spec.Child("selector"))...)
	}
	path := spec.Child("probes")
	kinds, selected := sets.New[string](), selectedKeys(m.Spec.Selector)
	for i := range m.Spec.Probes {
		p, at := &m.Spec.Probes[i], path.Index(i)
		if p.PodConditionType != "" && kinds.Has(p.PodConditionType) {
			errs = append(errs, field.Duplicate(at.Child("podConditionType"), p.PodConditionType))
		}
		kinds.Insert(p.PodConditionType)
		errs = append(errs, one(p, selected, at)...)
	}
	return errs
}

// selector requires a nonempty one.
func selector(s *metav1.LabelSelector, path *field.Path) field.ErrorList {
	if len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		return field.ErrorList{field.Invalid(path, "{}", "must not be empty: name the labels of the pods to probe")}
	}
	return rules.LabelSelector(s, path)
}

// selectedKeys are the labels of a selector.
func selectedKeys(s *metav1.LabelSelector) sets.Set[string] {
	keys := sets.New[string]()
	if s == nil {
		return keys
	}
	keys = sets.KeySet(s.MatchLabels)
	for i := range s.MatchExpressions {
		keys.Insert(s.MatchExpressions[i].Key)
	}
	return keys
}

// one holds the rules for one probe.
func one(p *appsv1alpha1.PodContainerProbe, selected sets.Set[string], path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case strings.Contains(p.Name, "#"):
		errs = append(errs, field.Invalid(path.Child("name"), p.Name, "must not have a # in it"))
	case slices.Contains(taken(), p.Name):
		errs = append(errs, field.Invalid(path.Child("name"), p.Name, "must not be the type of a condition that others write: "+strings.Join(taken(), ", ")))
	}
	errs = append(errs, rules.Faults(path.Child("containerName"), p.ContainerName, validation.IsDNS1123Label(p.ContainerName))...)
	errs = append(errs, handler(&p.Probe, path.Child("probe"))...)
	errs = append(errs, numbers(&p.Probe, path.Child("probe"))...)
	errs = append(errs, condition(p, path)...)
	return append(errs, policies(p.MarkerPolicy, selected, path.Child("markerPolicy"))...)
}

// condition holds the rules for the condition of a probe.
func condition(p *appsv1alpha1.PodContainerProbe, path *field.Path) field.ErrorList {
	if p.PodConditionType == "" {
		if len(p.MarkerPolicy) == 0 {
			return field.ErrorList{field.Required(path.Child("podConditionType"), "without it and without markerPolicy nothing would become of the results")}
		}
		return nil
	}
	path = path.Child("podConditionType")
	errs := rules.Faults(path, p.PodConditionType, validation.IsQualifiedName(p.PodConditionType))
	if slices.Contains(taken(), p.PodConditionType) {
		errs = append(errs, field.Invalid(path, p.PodConditionType, "must not be the type of a condition that others write: "+strings.Join(taken(), ", ")))
	}
	return errs
}

// policies checks the results written to pods.
func policies(all []appsv1alpha1.ProbeMarkerPolicy, selected sets.Set[string], path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range all {
		policy, at := &all[i], path.Index(i)
		if i > 0 && all[0].State == policy.State {
			errs = append(errs, field.Duplicate(at.Child("state"), policy.State))
		}
		errs = append(errs, rules.OneOf(at.Child("state"), policy.State, appsv1alpha1.ProbeSucceeded, appsv1alpha1.ProbeFailed)...)
		if len(policy.Labels)+len(policy.Annotations) == 0 {
			errs = append(errs, field.Required(at, "labels or annotations that pods get in this state"))
		}
		errs = append(errs, metav1validation.ValidateLabels(policy.Labels, at.Child("labels"))...)
		errs = append(errs, apivalidation.ValidateAnnotations(policy.Annotations, at.Child("annotations"))...)
		for _, key := range sets.List(sets.KeySet(policy.Labels)) {
			if selected.Has(key) {
				errs = append(errs, field.Forbidden(at.Child("labels").Key(key), "must not be a label of spec.selector: the marker would choose other pods by what it finds"))
			}
			if probing.ReservedLabel(key) {
				errs = append(errs, field.Forbidden(at.Child("labels").Key(key), "is reserved: Kubernetes or this operator steers pods by it"))
			}
		}
		for _, key := range sets.List(sets.KeySet(policy.Annotations)) {
			if probing.ReservedAnnotation(key) {
				errs = append(errs, field.Forbidden(at.Child("annotations").Key(key), "is reserved: this operator steers pods by it"))
			}
			if len(policy.Annotations[key]) > maxAnnotation {
				errs = append(errs, field.TooLong(at.Child("annotations").Key(key), "", maxAnnotation))
			}
		}
	}
	return errs
}

// numbers hold the rules for times and thresholds.
func numbers(p *corev1.Probe, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, n := range []struct {
		name  string
		value int32
		most  int32
	}{
		{"initialDelaySeconds", p.InitialDelaySeconds, maxSeconds}, {"periodSeconds", p.PeriodSeconds, maxSeconds},
		{"timeoutSeconds", p.TimeoutSeconds, maxSeconds}, {"successThreshold", p.SuccessThreshold, maxThreshold},
		{"failureThreshold", p.FailureThreshold, maxThreshold},
	} {
		if n.value < 0 || n.value > n.most {
			errs = append(errs, field.Invalid(path.Child(n.name), n.value, fmt.Sprintf("must be from 0 to %d", n.most)))
		}
	}
	return errs
}

// handler checks a probe's action.
func handler(p *corev1.Probe, path *field.Path) field.ErrorList {
	const which = "must be exactly one of exec, httpGet and tcpSocket"
	var errs field.ErrorList
	if p.GRPC != nil {
		errs = append(errs, field.Forbidden(path.Child("grpc"), "is not supported; "+which))
	} else if rules.Given(p.Exec != nil, p.HTTPGet != nil, p.TCPSocket != nil) != 1 {
		errs = append(errs, field.Required(path, which))
	}
	if p.Exec != nil {
		errs = append(errs, command(p.Exec.Command, path.Child("exec", "command"))...)
	}
	if p.HTTPGet != nil {
		errs = append(errs, request(p.HTTPGet, path.Child("httpGet"))...)
	}
	if p.TCPSocket != nil {
		errs = append(errs, host(p.TCPSocket.Host, path.Child("tcpSocket"))...)
		errs = append(errs, port(p.TCPSocket.Port, path.Child("tcpSocket", "port"))...)
	}
	return errs
}

func command(c []string, path *field.Path) field.ErrorList {
	size := 0
	for _, argument := range c {
		size += len(argument)
	}
	switch {
	case len(c) == 0:
		return field.ErrorList{field.Required(path, "the command to run in the container, and its arguments")}
	case len(c) > maxArguments:
		return field.ErrorList{field.TooMany(path, len(c), maxArguments)}
	case size > maxCommand:
		return field.ErrorList{field.Invalid(path, fmt.Sprintf("%d bytes", size), fmt.Sprintf("must have at most %d bytes; put a longer script into the image", maxCommand))}
	}
	return nil
}

func request(r *corev1.HTTPGetAction, path *field.Path) field.ErrorList {
	errs := append(host(r.Host, path), port(r.Port, path.Child("port"))...)
	switch {
	case r.Path == "":
		errs = append(errs, field.Required(path.Child("path"), "such as /healthz"))
	case len(r.Path) > maxPath:
		errs = append(errs, field.TooLong(path.Child("path"), "", maxPath))
	}
	errs = append(errs, rules.OneOf(path.Child("scheme"), r.Scheme, corev1.URISchemeHTTP, corev1.URISchemeHTTPS)...)
	if len(r.HTTPHeaders) > maxHeaders {
		return append(errs, field.TooMany(path.Child("httpHeaders"), len(r.HTTPHeaders), maxHeaders))
	}
	for i, header := range r.HTTPHeaders {
		at := path.Child("httpHeaders").Index(i)
		errs = append(errs, rules.Faults(at.Child("name"), header.Name, validation.IsHTTPHeaderName(header.Name))...)
		if strings.ContainsAny(header.Value, "\r\n\x00") {
			errs = append(errs, field.Invalid(at.Child("value"), header.Value, "must be one line"))
		}
		if len(header.Name)+len(header.Value) > maxHeader {
			errs = append(errs, field.TooLong(at, "", maxHeader))
		}
	}
	return errs
}

// host sends requests only to the pod: the node's network reaches further than the user.
func host(host string, path *field.Path) field.ErrorList {
	if host == "" {
		return nil
	}
	return field.ErrorList{field.Forbidden(path.Child("host"), "must be empty: what is probed is the pod")}
}

func port(p intstr.IntOrString, path *field.Path) field.ErrorList {
	var faults []string
	var value any = p.StrVal
	if p.Type == intstr.Int {
		faults, value = validation.IsValidPortNum(int(p.IntVal)), p.IntVal
	} else {
		faults = validation.IsValidPortName(p.StrVal)
	}
	if len(faults) == 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value, "must be a number from 1 to 65535, or the name of a port of the container: "+strings.Join(faults, "; "))}
}

// ValidateUpdate returns forbidden changes.
func ValidateUpdate(m, old *appsv1alpha1.PodProbeMarker) field.ErrorList {
	if equality.Semantic.DeepEqual(m.Spec.Selector, old.Spec.Selector) {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec", "selector"),
		"cannot be changed once the marker exists; it is "+metav1.FormatLabelSelector(old.Spec.Selector))}
}
