// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/lazy"
	"github.com/kruise-operator/kruise-operator/internal/engine/podtemplate"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
)

// Difference is how two templates differ, as far as updating in place is concerned.
type Difference struct {
	// InPlace: all differences may change in place.
	InPlace bool
	// Reason says in one sentence why not.
	Reason string
	// ForMetadata: containers have to restart, as readers of changed metadata through their
	// environment. The node daemon restarts them only in pods with the readiness gate: the gate
	// shows it the update.
	ForMetadata bool
	// Images are the new images, by container.
	Images map[string]string
	// Resources are the new resources, by container.
	Resources map[string]corev1.ResourceRequirements

	// before are the containers of the old template by name, keys the added or changed metadata.
	before map[string]corev1.Container
	keys   references
}

// CompareRevisions is Compare for two revisions under a policy. With Options.ClaimTemplates their
// volume claim templates must be the same as well, as far as known. Not so for InPlaceOnly: such a
// pod would never move again.
func CompareRevisions(old, target revision.Revision, policy shared.PodUpdatePolicy, o Options) Difference {
	d := Compare(old.Template, target.Template, o)
	if d.InPlace && o.ClaimTemplates && policy != shared.InPlaceOnly && revision.ClaimsDiffer(old, target) {
		return refuse("spec.volumeClaimTemplates changed: claims cannot be added to a pod or taken from it")
	}
	return d
}

// Compare says whether a pod of the old template may be changed in place to the target; On says it
// of a live pod. Both are compared with their defaults filled in. What may differ:
//
//   - labels, annotations and finalizers; but no key read by a container through its environment,
//     unless Options.EnvFromMetadata. Removals of such a key, and the first label or annotation of
//     a template, do not count;
//   - images of main containers;
//   - with Options.Resources, cpu and memory of main containers, set in both templates.
//
// A container with a restart policy of its own other than Always must not have to restart: it may
// not come back.
//
// All else makes the answer no. So does a nil old template: history has lost it.
func Compare(old, target *corev1.PodTemplateSpec, o Options) Difference {
	if old == nil || target == nil {
		return refuse("the revision of the pod is no longer recorded, so it cannot be compared with the new one")
	}
	a, b := defaulted(old, target, o)
	d := CompareContainers("spec.template.spec.containers", a.Spec.Containers, b.Spec.Containers, o)
	if !d.InPlace {
		return d
	}
	a.Spec.Containers = b.Spec.Containers
	if field := changedField(&a.Spec, &b.Spec); field != "" {
		return refuse("spec.template.spec." + field + " changed: only image, resources and metadata can change in place")
	}

	d.keys = changedKeys(a, b)
	reads := referencesOf(b.Spec.Containers, d.keys)
	if len(reads) > 0 && !o.EnvFromMetadata {
		for i, container := range b.Spec.Containers {
			if keys, ok := reads[container.Name]; ok {
				return refuse(fmt.Sprintf("spec.template.metadata.%s changed: spec.template.spec.containers[%d].env reads it, and only a node daemon can restart that container", keys.first(), i))
			}
		}
	}
	for i := range b.Spec.Containers {
		container := &b.Spec.Containers[i]
		if _, restarts := reads[container.Name]; restarts && !restartsAlways(container) {
			return refuse(notRestarted(fmt.Sprintf("spec.template.spec.containers[%d]", i), container))
		}
	}
	d.ForMetadata = len(reads) > 0
	return d
}

// defaulted are both templates with their defaults. With Options.AsWritten an unwritten pull policy
// stays as the tag made it at the pod's creation: the server's choice for new pods changes nothing
// about this one.
func defaulted(old, target *corev1.PodTemplateSpec, o Options) (a, b *corev1.PodTemplateSpec) {
	if !o.AsWritten {
		return podtemplate.Defaulted(old), podtemplate.Defaulted(target)
	}
	a, b = podtemplate.DefaultedAsWritten(old), podtemplate.DefaultedAsWritten(target)
	for i := range min(len(old.Spec.Containers), len(target.Spec.Containers)) {
		if old.Spec.Containers[i].ImagePullPolicy == "" && target.Spec.Containers[i].ImagePullPolicy == "" {
			b.Spec.Containers[i].ImagePullPolicy = a.Spec.Containers[i].ImagePullPolicy
		}
	}
	return a, b
}

// CompareContainers is Compare for main containers alone. The lists have their defaults filled in;
// path is their field, for the reason.
func CompareContainers(path string, old, target []corev1.Container, o Options) Difference {
	if !slices.EqualFunc(old, target, func(a, b corev1.Container) bool { return a.Name == b.Name }) {
		return refuse(path + " changed: containers cannot be added, removed, renamed or moved in place")
	}
	d := Difference{
		InPlace:   true,
		Images:    map[string]string{},
		Resources: map[string]corev1.ResourceRequirements{},
		before:    map[string]corev1.Container{},
	}
	for i := range target {
		before, after := old[i], &target[i]
		d.before[after.Name] = before
		at := fmt.Sprintf("%s[%d]", path, i)
		if !restartsAlways(after) && (before.Image != after.Image || resizeRestarts(&before, after)) {
			return refuse(notRestarted(at, after))
		}
		if before.Image != after.Image {
			d.Images[after.Name] = after.Image
			before.Image = after.Image
		}
		if !equality.Semantic.DeepEqual(before.Resources, after.Resources) {
			if why := notResizable(at, before.Resources, after.Resources, o); why != "" {
				return refuse(why)
			}
			d.Resources[after.Name] = *after.Resources.DeepCopy()
			before.Resources = after.Resources
		}
		if field := changedField(&before, after); field != "" {
			return refuse(at + "." + field + " changed: only image, resources and metadata can change in place")
		}
	}
	return d
}

func refuse(reason string) Difference { return Difference{Reason: reason} }

// restartsAlways is a container that always starts again: without a restart policy of its own, as
// pods of workloads have Always, or with that one.
func restartsAlways(container *corev1.Container) bool {
	return container.RestartPolicy == nil || *container.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

func notRestarted(path string, container *corev1.Container) string {
	return fmt.Sprintf("%s.restartPolicy is %s: a container that may stay ended cannot be restarted in place", path, *container.RestartPolicy)
}

// resizeRestarts says whether the new resources restart the container.
func resizeRestarts(before, after *corev1.Container) bool {
	return slices.ContainsFunc(after.ResizePolicy, func(policy corev1.ContainerResizePolicy) bool {
		differs := func(was, is corev1.ResourceList) bool {
			a, b := was[policy.ResourceName], is[policy.ResourceName]
			return a.Cmp(b) != 0
		}
		return policy.RestartPolicy == corev1.RestartContainer &&
			(differs(before.Resources.Limits, after.Resources.Limits) || differs(before.Resources.Requests, after.Resources.Requests))
	})
}

// notResizable says why the resources cannot change in place; empty when they can.
func notResizable(path string, before, after corev1.ResourceRequirements, o Options) string {
	if !o.Resources {
		return path + ".resources changed: resources change in place only with feature gate InPlaceWorkloadVerticalScaling"
	}
	if !equality.Semantic.DeepEqual(before.Claims, after.Claims) {
		return path + ".resources.claims changed: only cpu and memory can change in place"
	}
	for _, list := range []struct {
		name          string
		before, after corev1.ResourceList
	}{
		{"limits", before.Limits, after.Limits},
		{"requests", before.Requests, after.Requests},
	} {
		for _, name := range names(list.before, list.after) {
			was, had := list.before[name]
			is, has := list.after[name]
			field := fmt.Sprintf("%s.resources.%s[%s]", path, list.name, name)
			switch {
			case had != has:
				return field + " was added or removed: only values that were set can change in place"
			case was.Cmp(is) != 0 && !resizable(name):
				return field + " changed: only cpu and memory can change in place"
			}
		}
	}
	return ""
}

func resizable(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory
}

// changedField returns the JSON name of the first different field, empty without one.
func changedField(a, b any) string {
	if reflect.DeepEqual(a, b) { // most often; and much faster
		return ""
	}
	left, right := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	for i := range left.NumField() {
		if !equality.Semantic.DeepEqual(left.Field(i).Interface(), right.Field(i).Interface()) {
			name, _, _ := strings.Cut(left.Type().Field(i).Tag.Get("json"), ",")
			return name
		}
	}
	return ""
}

// QOSClass is the class the server gives a pod of this spec. A limit without a request stands for both, as the server fills
// it in.
func QOSClass(spec *corev1.PodSpec) corev1.PodQOSClass {
	var all []corev1.ResourceRequirements
	if spec.Resources != nil && len(spec.Resources.Limits)+len(spec.Resources.Requests) > 0 {
		all = append(all, *spec.Resources) // resources of the whole pod decide alone
	} else {
		for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
			for _, container := range containers {
				all = append(all, container.Resources)
			}
		}
	}
	guaranteed, bestEffort := true, true
	for _, resources := range all {
		resources = withRequests(resources)
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			request, limit := resources.Requests[name], resources.Limits[name]
			if !request.IsZero() || !limit.IsZero() {
				bestEffort = false
			}
			if limit.IsZero() || request.Cmp(limit) != 0 {
				guaranteed = false
			}
		}
	}
	switch {
	case bestEffort:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	default:
		return corev1.PodQOSBurstable
	}
}

// withRequests returns the resources as a pod gets them: a limit without a request is its own request.
func withRequests(resources corev1.ResourceRequirements) corev1.ResourceRequirements {
	out := *resources.DeepCopy()
	for name, limit := range out.Limits {
		if _, ok := out.Requests[name]; !ok {
			lazy.Put(&out.Requests, name, limit.DeepCopy())
		}
	}
	return out
}
