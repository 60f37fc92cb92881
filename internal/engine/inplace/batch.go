// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/launch"
	"github.com/kruise-operator/kruise-operator/internal/engine/lazy"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/restart"
)

// change is a change of a pod's containers.
type change struct {
	images map[string]string
	// refs is metadata read by the container through its environment.
	refs map[string]metav1.ObjectMeta
	// resources are the quantities to change, by container.
	resources map[string]corev1.ResourceRequirements
}

func (c change) isZero() bool {
	return len(c.images)+len(c.refs)+len(c.resources) == 0
}

// containers are the names of the containers concerned, sorted.
func (c change) containers() []string {
	all := sets.KeySet(c.images).Union(sets.KeySet(c.refs)).Union(sets.KeySet(c.resources))
	return sets.List(all)
}

// only is the part for the containers of keep.
func (c change) only(keep func(container string) bool) change {
	return change{images: filter(c.images, keep), refs: filter(c.refs, keep), resources: filter(c.resources, keep)}
}

// against drops what the live pod has already, and missing containers.
func (c change) against(pod *corev1.Pod) change {
	out := c.only(func(name string) bool { return containerOf(pod.Spec.Containers, name) != nil })
	for name, image := range out.images {
		if containerOf(pod.Spec.Containers, name).Image == image {
			delete(out.images, name)
		}
	}
	for name, quantities := range out.resources {
		live := containerOf(pod.Spec.Containers, name).Resources
		quantities.Limits, quantities.Requests = differing(live.Limits, quantities.Limits), differing(live.Requests, quantities.Requests)
		if len(quantities.Limits)+len(quantities.Requests) == 0 {
			delete(out.resources, name)
		} else {
			out.resources[name] = quantities
		}
	}
	return out
}

// restarts says whether a container will restart.
func (c change) restarts(pod *corev1.Pod) bool {
	if len(c.images)+len(c.refs) > 0 {
		return true
	}
	for name, quantities := range c.resources {
		for _, policy := range containerOf(pod.Spec.Containers, name).ResizePolicy {
			_, limit := quantities.Limits[policy.ResourceName]
			_, request := quantities.Requests[policy.ResourceName]
			if policy.RestartPolicy == corev1.RestartContainer && (limit || request) {
				return true
			}
		}
	}
	return false
}

// split cuts off the next batch: containers without a launch priority, and those with the highest
// of the rest. A container with a changed key in common with the batch joins it, whatever its
// priority, and so do others with a key of that one: a key can be written only once.
func (c change) split(pod *corev1.Pod) (batch, later change) {
	names := c.containers()
	highest, ordered := 0, false
	for _, name := range names {
		if priority, ok := launch.Priority(containerOf(pod.Spec.Containers, name)); ok && (!ordered || priority > highest) {
			highest, ordered = priority, true
		}
	}
	chosen, keys := sets.New[string](), sets.New[string]()
	choose := func(name string) {
		chosen.Insert(name)
		keys.Insert(c.keys(name)...)
	}
	for _, name := range names {
		if priority, ok := launch.Priority(containerOf(pod.Spec.Containers, name)); !ok || priority == highest {
			choose(name)
		}
	}
	for grown := true; grown; {
		grown = false
		for _, name := range names {
			if !chosen.Has(name) && keys.HasAny(c.keys(name)...) {
				choose(name)
				grown = true
			}
		}
	}
	return c.only(chosen.Has), c.only(func(name string) bool { return !chosen.Has(name) })
}

// keys are the container's changed metadata keys.
func (c change) keys(container string) []string {
	var keys []string
	for key := range c.refs[container].Labels {
		keys = append(keys, "label "+key)
	}
	for key := range c.refs[container].Annotations {
		keys = append(keys, "annotation "+key)
	}
	return keys
}

// edit is the change as an Edit of the pod.
func (c change) edit() edit.Edit {
	e := edit.Edit{Images: c.images, Resources: c.resources}
	for _, meta := range c.refs {
		for key, value := range meta.Labels {
			if !ownLabel(key) {
				e.SetLabel(key, value)
			}
		}
		for key, value := range meta.Annotations {
			if !ownAnnotation(key) {
				e.SetAnnotation(key, value)
			}
		}
	}
	return e
}

// start begins the next batch of c and records it. For new images it remembers the running
// containers.
func (r *run) start(pod *corev1.Pod, c change, now time.Time) edit.Edit {
	c = c.against(pod)
	batch, later := c.split(pod)

	r.UpdateImages = r.UpdateImages || len(c.images) > 0
	r.UpdateResources = r.UpdateResources || len(c.resources) > 0
	r.UpdateEnvFromMetadata = r.UpdateEnvFromMetadata || len(c.refs) > 0
	report := readReport(pod)
	statuses, containers := maps.Clone(r.LastContainerStatuses), maps.Clone(r.evidence.Containers)
	for name := range batch.images {
		var status corev1.ContainerStatus
		if s := restart.StatusOf(pod, name); s != nil {
			status = *s
		}
		evidence := shared.InPlaceContainerEvidence{
			ContainerID: status.ContainerID,
			Image:       status.Image,
			ImageID:     status.ImageID,
			SpecImage:   containerOf(pod.Spec.Containers, name).Image,
		}
		if _, edited := r.LastContainerStatuses[name]; edited && !r.effectOn(pod, name, report, now).proven {
			// The running image is not the spec's. Only earlier evidence can tell its origin.
			evidence.Superseded, evidence.SpecImage = true, ""
			if earlier, ok := r.evidence.Containers[name]; ok && earlier.ContainerID == status.ContainerID {
				evidence.SpecImage = earlier.SpecImage
			}
		}
		lazy.Put(&containers, name, evidence)
		lazy.Put(&statuses, name, shared.InPlaceContainerStatus{ImageID: status.ImageID})
	}
	r.LastContainerStatuses, r.evidence.Containers = statuses, containers

	r.NextContainerImages, r.NextContainerRefMetadata, r.NextContainerResources = later.images, later.refs, later.resources
	r.PreCheckBeforeNext = nil
	if names := batch.containers(); len(names) > 0 {
		r.ContainerBatchesRecord = append(slices.Clip(r.ContainerBatchesRecord), shared.InPlaceContainerBatch{
			Timestamp: podstate.Time(now), Containers: names,
		})
		if !later.isZero() {
			r.PreCheckBeforeNext = &shared.InPlacePreCheck{ContainersRequiredReady: names}
		}
	}
	return batch.edit()
}

func differing(live, wanted corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, quantity := range wanted {
		if is, ok := live[name]; !ok || is.Cmp(quantity) != 0 {
			out[name] = quantity.DeepCopy()
		}
	}
	return out
}

// names are the keys of both lists, sorted.
func names(a, b corev1.ResourceList) []corev1.ResourceName {
	return sets.List(sets.KeySet(a).Union(sets.KeySet(b)))
}

func filter[V any](m map[string]V, keep func(string) bool) map[string]V {
	var out map[string]V
	for key, value := range m {
		if keep(key) {
			lazy.Put(&out, key, value)
		}
	}
	return out
}

// copyUnproven copies the record of containers without proof of a restart: they stay part of the
// next update.
func (r *run) copyUnproven(
	pod *corev1.Pod, report report, now time.Time, statuses *map[string]shared.InPlaceContainerStatus, evidence *shared.InPlaceEvidence,
) {
	for name, status := range r.LastContainerStatuses {
		if r.effectOn(pod, name, report, now).proven {
			continue
		}
		lazy.Put(statuses, name, status)
		if known, ok := r.evidence.Containers[name]; ok {
			lazy.Put(&evidence.Containers, name, known)
		}
	}
}
