// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/internal/engine/lazy"
)

// On is the difference for one live pod. Admission may have given it more than its template: other
// images and resources, more containers. These make it refuse an edit:
//
//   - a container is missing, or its image is not its revision's: the new one would not be
//     rewritten, and might not be pulled;
//   - the QoS class would change, or a request exceed its limit: the server refuses such a resize;
//   - a container reads changed metadata through its environment and cannot be restarted for that.
func (d Difference) On(pod *corev1.Pod, o Options) Difference {
	if !d.InPlace {
		return d
	}
	if name := d.missing(pod); name != "" {
		return refuse(fmt.Sprintf("container %s is in the template and not in the pod", name))
	}
	if why := d.otherImage(pod); why != "" {
		return refuse(why)
	}
	if why := d.misfit(pod); why != "" {
		return refuse(why)
	}
	return d.readBy(pod, o)
}

// missing names a changed container beyond the pod's.
func (d Difference) missing(pod *corev1.Pod) string {
	for name := range d.before {
		_, image := d.Images[name]
		_, resources := d.Resources[name]
		if (image || resources) && containerOf(pod.Spec.Containers, name) == nil {
			return name
		}
	}
	return ""
}

// otherImage names a container with a foreign image. Images of our own edits, written or held back,
// are of an earlier revision; a rewritten one will be rewritten again.
func (d Difference) otherImage(pod *corev1.Pod) string {
	for i := range pod.Spec.Containers {
		live := &pod.Spec.Containers[i]
		image, differs := d.Images[live.Name]
		before := d.before[live.Name].Image
		if differs && live.Image != before && live.Image != image && !isEdited(pod, live.Name) {
			return fmt.Sprintf("container %s runs image %s and its revision says %s: what rewrites images of new pods may not rewrite an edit", live.Name, live.Image, before)
		}
	}
	return ""
}

// isEdited says that an update in place has changed or still changes the container's image. True if
// its annotations are not readable.
func isEdited(pod *corev1.Pod, container string) bool {
	update, _, err := readRun(pod)
	grace, _, graceErr := readGrace(pod)
	if err != nil || graceErr != nil {
		return true
	}
	_, edited := update.LastContainerStatuses[container]
	_, waits := update.NextContainerImages[container]
	if grace != nil && !waits {
		_, waits = grace.ContainerImages[container]
	}
	return edited || waits
}

// misfit says why the server would refuse the new resources of the pod.
func (d Difference) misfit(pod *corev1.Pod) string {
	if len(d.Resources) == 0 {
		return ""
	}
	resized := pod.Spec
	resized.Containers = nil
	for i := range pod.Spec.Containers {
		container := pod.Spec.Containers[i]
		if wanted, ok := d.Resources[container.Name]; ok {
			container.Resources = withChanges(container.Resources, d.before[container.Name].Resources, wanted)
			if name := aboveLimit(container.Resources); name != "" {
				return fmt.Sprintf("the new %s request of container %s would be above the limit that the pod was created with, or its new limit below the request", name, container.Name)
			}
		}
		resized.Containers = append(resized.Containers, container)
	}
	before, after := QOSClass(&pod.Spec), QOSClass(&resized)
	if pod.Status.QOSClass != "" {
		before = pod.Status.QOSClass
	}
	if before != after {
		return fmt.Sprintf("the QoS class would change from %s to %s: it is fixed for the life of a pod", before, after)
	}
	return ""
}

// withChanges are live resources with the difference between two of the template.
func withChanges(live, was, is corev1.ResourceRequirements) corev1.ResourceRequirements {
	out := *live.DeepCopy()
	was, is = withRequests(was), withRequests(is)
	for name, quantity := range changedQuantities(was.Limits, is.Limits, nil, false) {
		lazy.Put(&out.Limits, name, quantity)
	}
	for name, quantity := range changedQuantities(was.Requests, is.Requests, nil, false) {
		lazy.Put(&out.Requests, name, quantity)
	}
	return out
}

func aboveLimit(resources corev1.ResourceRequirements) corev1.ResourceName {
	for _, name := range names(resources.Limits, nil) {
		request, limit := resources.Requests[name], resources.Limits[name]
		if request.Cmp(limit) > 0 {
			return name
		}
	}
	return ""
}

// readBy looks at the changed metadata read by containers of the pod.
func (d Difference) readBy(pod *corev1.Pod, o Options) Difference {
	if d.keys.isZero() {
		return d
	}
	why := func(keys references, container, rest string) Difference {
		return refuse(fmt.Sprintf("spec.template.metadata.%s changed: container %s of the pod reads it through its environment%s", keys.first(), container, rest))
	}
	inits, reads := referencesOf(pod.Spec.InitContainers, d.keys), referencesOf(pod.Spec.Containers, d.keys)
	for i := range pod.Spec.InitContainers {
		if keys, ok := inits[pod.Spec.InitContainers[i].Name]; ok {
			return why(keys, pod.Spec.InitContainers[i].Name, ", and init containers are not restarted in place")
		}
	}
	for i := range pod.Spec.Containers {
		container := &pod.Spec.Containers[i]
		keys, ok := reads[container.Name]
		switch {
		case !ok:
		case !o.EnvFromMetadata:
			return why(keys, container.Name, ", and only a node daemon can restart that container")
		case !restartsAlways(container):
			return refuse(notRestarted("container "+container.Name, container))
		}
	}
	d.ForMetadata = len(reads) > 0
	return d
}
