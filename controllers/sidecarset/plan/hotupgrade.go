// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
)

// noVersion is the version of an idle container.
const noVersion = "0"

// pair are the two containers of a hot upgrade in a pod.
type pair struct {
	*Container
	// working is the serving container, other its peer.
	working, other string
}

// pairsOf returns a pod's pairs; false: a container is missing, or no working one is recorded.
func pairsOf(spec *Spec, pod *corev1.Pod) ([]pair, bool) {
	var pairs []pair
	var working map[string]string
	for i := range spec.Containers {
		c := &spec.Containers[i]
		if !c.Hot {
			if !sidecar.HasContainer(pod, c.Name) {
				return nil, false
			}
			continue
		}
		if working == nil {
			working = workingOf(pod)
		}
		p := pair{Container: c, working: c.Name + "-1", other: c.Name + "-2"}
		if working[c.Name] == p.other {
			p.working, p.other = p.other, p.working
		}
		if working[c.Name] != p.working || !sidecar.HasContainer(pod, p.working) || !sidecar.HasContainer(pod, p.other) {
			return nil, false
		}
		pairs = append(pairs, p)
	}
	return pairs, true
}

// workingOf returns working containers by pair.
func workingOf(pod *corev1.Pod) map[string]string {
	working := map[string]string{}
	if json.Unmarshal([]byte(pod.Annotations[shared.AnnotationSidecarSetWorkingContainer]), &working) != nil {
		return map[string]string{}
	}
	return working
}

// idle reports whether the peer has nothing to do. Its version shows so even with an older empty image.
func (p *pair) idle(pod *corev1.Pod) bool {
	return imageOf(pod, p.other) == p.EmptyImage || pod.Annotations[shared.AnnotationSidecarSetVersionPrefix+p.other] == noVersion
}

// target chooses the container for the new image, and the one to serve meanwhile:
//
//  1. the idle one, or one still waiting with the empty image for earlier containers;
//  2. the unready one with a ready peer: repairs or rolls back a failed upgrade, without touching the serving one;
//  3. the one no longer working.
//
// A container not proven to run its image counts as unready: its status may still be its predecessor's.
func (p *pair) target(pod *corev1.Pod, proven func(container string) bool) (changed, serving string) {
	if imageOf(pod, p.working) == p.EmptyImage {
		return p.working, p.other // The pod says already that it works.
	}
	ready := func(container string) bool { return isReady(pod, container) && proven(container) }
	workingReady, otherReady := ready(p.working), ready(p.other)
	if !p.idle(pod) && !workingReady && otherReady {
		return p.working, p.other
	}
	return p.other, p.working
}

// upgrade adds the pair's new image to images, and the new working container to the edit. It never touches
// the serving peer. version is for the newly working container; proven: a container runs its image.
//
// On a rollback, with the image already on the peer, the failed container becomes idle at once.
func (p *pair) upgrade(pod *corev1.Pod, proven func(string) bool, version string, images map[string]string, e *edit.Edit) {
	changed, serving := p.target(pod, proven)
	if imageOf(pod, serving) != p.Image {
		images[changed] = p.Image
		p.work(pod, changed, e)
		e.SetAnnotation(shared.AnnotationSidecarSetVersionPrefix+changed, version)
		e.SetAnnotation(shared.AnnotationSidecarSetVersionAltPrefix+changed, versionOf(pod, serving))
		e.SetAnnotation(shared.AnnotationSidecarSetVersionAltPrefix+serving, version)
		return
	}
	if serving != p.working {
		p.work(pod, serving, e)
		p.rest(changed, serving, images, e)
	}
}

// reset makes the other container idle after the takeover. The caller
// has seen the working one ready with its image. False: nothing to do.
func (p *pair) reset(pod *corev1.Pod, images map[string]string, e *edit.Edit) bool {
	if p.idle(pod) || !isReady(pod, p.working) || imageOf(pod, p.working) == p.EmptyImage {
		return false
	}
	p.rest(p.other, p.working, images, e)
	return true
}

// rest makes a container idle.
func (p *pair) rest(container, serving string, images map[string]string, e *edit.Edit) {
	images[container] = p.EmptyImage
	e.SetAnnotation(shared.AnnotationSidecarSetVersionPrefix+container, noVersion)
	e.SetAnnotation(shared.AnnotationSidecarSetVersionAltPrefix+serving, noVersion)
}

// work marks a container as working. Pairs of a pod share the annotation.
func (p *pair) work(pod *corev1.Pod, container string, e *edit.Edit) {
	working := workingOf(pod)
	if text := e.Annotations[shared.AnnotationSidecarSetWorkingContainer]; text != nil {
		_ = json.Unmarshal([]byte(*text), &working) // It was written below.
	}
	working[p.Name] = container
	if text, err := json.Marshal(working); err == nil {
		e.SetAnnotation(shared.AnnotationSidecarSetWorkingContainer, string(text))
	}
}

func versionOf(pod *corev1.Pod, container string) string {
	if version := pod.Annotations[shared.AnnotationSidecarSetVersionPrefix+container]; version != "" {
		return version
	}
	return noVersion
}

// nextVersion is the version of newly working containers: the set's resourceVersion,
// as in OpenKruise, but above every earlier one of the pod. Containers compare them.
func nextVersion(pod *corev1.Pod, pairs []pair, resourceVersion string) string {
	next, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		next = 1
	}
	for _, p := range pairs {
		for _, container := range []string{p.working, p.other} {
			if is, err := strconv.ParseUint(versionOf(pod, container), 10, 64); err == nil && is >= next {
				next = is + 1
			}
		}
	}
	return strconv.FormatUint(next, 10)
}
