// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/dump"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/restart"
)

// settleTime is how long a restarted container runs before it counts as updated, when the runtime
// reports no difference between the images. They may be two names of one image. Or the container
// crashed just before the kubelet saw the edit, and is replaced within a second or two. A status
// does not say when the kubelet saw the edit, so the time counts from the restart. A kubelet later
// than this after a crash could be believed a moment too early.
//
// It is enough for a container with a start after the edit. An earlier one can be the old one,
// still reported as running while it stops: for the pod's termination grace period.
const settleTime = 5 * time.Second

// defaultTermination is the termination grace period of a pod without one.
const defaultTermination = corev1.DefaultTerminationGracePeriodSeconds * time.Second

// longestTermination is the largest termination grace period in seconds: a century, as good as for
// ever.
const longestTermination = 100 * 365 * 24 * 60 * 60

// effect says whether a container runs the image of the pod's spec.
type effect struct {
	proven bool
	// in is above zero when time alone will prove it.
	in time.Duration
	// why says what is missing.
	why string
}

// effectOn judges one container with a changed image.
//
// Until the kubelet has seen our latest edit nothing is proven: it may be acting on the one before.
// After that, an ended container without a next start, as in a pod of a Job, has nothing to show:
// nothing runs the image before. Otherwise:
//
//  1. The node daemon's report is proof if it knows the running container and its spec is this one.
//  2. With our evidence, and a server with observed generations, a container with another image
//     must have replaced it, and run. See replaced.
//  3. Otherwise, for updates of other managers and older servers, the image ID must have changed,
//     or status.image must be the spec's. Two names of one image can hang here if the runtime goes
//     on reporting the older name.
func (r run) effectOn(pod *corev1.Pod, name string, report report, now time.Time) effect {
	container, status := containerOf(pod.Spec.Containers, name), restart.StatusOf(pod, name)
	if container == nil {
		return effect{proven: true}
	}
	if !r.observed(pod) {
		return effect{why: fmt.Sprintf("the kubelet has not seen image %s of container %s yet", container.Image, name)}
	}
	if status == nil {
		return effect{why: fmt.Sprintf("container %s has no status yet", name)}
	}
	if restart.IsOver(pod, status) {
		return effect{proven: true}
	}
	if entry, ok := report[name]; ok && entry.current(status) && entry.Hashes.Plain == plainHash(container) {
		return effect{proven: true}
	}
	if evidence, ok := r.evidence.Containers[name]; ok && pod.Status.ObservedGeneration > 0 {
		return r.replaced(pod, container, status, evidence, now)
	}
	changed := status.ImageID != r.LastContainerStatuses[name].ImageID
	if status.ImageID != "" && (changed || runs(status.Image, status.ImageID, container.Image)) {
		return effect{proven: true}
	}
	return effect{why: fmt.Sprintf("container %s does not run image %s yet", name, container.Image)}
}

// replaced judges a container by its state at the edit.
func (r run) replaced(
	pod *corev1.Pod, container *corev1.Container, status *corev1.ContainerStatus, before shared.InPlaceContainerEvidence, now time.Time,
) effect {
	if status.State.Running == nil {
		return effect{why: fmt.Sprintf("container %s does not run; its image is %s", container.Name, container.Image)}
	}
	runsIt := runs(status.Image, status.ImageID, container.Image)
	started, edited := status.State.Running.StartedAt.Time, r.edited(container.Name)
	stopped := edited.Add(Termination(pod))

	if status.ContainerID == before.ContainerID {
		switch {
		case before.SpecImage == container.Image:
			// The edit took back an earlier one before the kubelet acted: there is nothing to
			// restart.
			return effect{proven: true}
		case runsIt:
			// Nothing from the runtime calls for a restart, and yet the container may be stopping.
			// It also may never restart: the evidence can be wrong, taken for a new one after a
			// crash. Only waiting tells.
			return settled(container, podstate.Later(started, stopped), "may still be stopping", now)
		}
		return effect{why: fmt.Sprintf("container %s has not restarted with image %s yet", container.Name, container.Image)}
	}

	otherName := runsIt && !runs(before.Image, before.ImageID, container.Image)
	otherImage := !before.Superseded && before.ImageID != "" && status.ImageID != before.ImageID
	switch {
	case otherName || otherImage:
		return effect{proven: true}
	case started.Before(edited):
		return settled(container, podstate.Later(started, stopped), "may still be stopping", now)
	case before.Superseded && !runsIt:
		// It can be of the edit between, and then it is stopped as soon as the kubelet sees this one.
		return settled(container, started.Add(Termination(pod)), "may be of an earlier update, and be stopping", now)
	}
	return settled(container, started, "restarted just now", now)
}

// settled: a container has run long enough since a time.
func settled(container *corev1.Container, since time.Time, why string, now time.Time) effect {
	if left := since.Add(settleTime).Sub(now); left > 0 {
		return effect{in: left, why: fmt.Sprintf("container %s %s", container.Name, why)}
	}
	return effect{proven: true}
}

// edited is the last change of the container's image: with its batch. The unproven rest of an
// earlier update counts from the later begin of this one.
func (r run) edited(container string) time.Time {
	for _, batch := range slices.Backward(r.ContainerBatchesRecord) {
		if slices.Contains(batch.Containers, container) {
			return batch.Timestamp.Time
		}
	}
	return r.UpdateTimestamp.Time
}

// Termination is how long a container of the pod may take to stop.
func Termination(pod *corev1.Pod) time.Duration {
	if pod.Spec.TerminationGracePeriodSeconds == nil {
		return defaultTermination
	}
	// The server admits more seconds than a duration can hold.
	return time.Duration(min(*pod.Spec.TerminationGracePeriodSeconds, longestTermination)) * time.Second
}

// runs says whether this image and image ID of the runtime are the wanted image. Names are compared
// in full (registry, repository, tag; no tag is "latest"), digests by the digest alone.
func runs(image, imageID, wanted string) bool {
	if image == wanted {
		return true
	}
	want, err := reference.ParseNormalizedNamed(wanted)
	if err != nil {
		return false
	}
	if digested, ok := want.(reference.Digested); ok {
		suffix := "@" + digested.Digest().String()
		return strings.HasSuffix(imageID, suffix) || strings.HasSuffix(image, suffix)
	}
	is, err := reference.ParseNormalizedNamed(image)
	return err == nil && reference.TagNameOnly(is).String() == reference.TagNameOnly(want).String()
}

// report is the node daemon's last word about the pod's containers, by name.
type report map[string]Reported

// current: the entry is about the container in the pod's status.
func (e Reported) current(status *corev1.ContainerStatus) bool {
	return e.ContainerID != "" && e.ContainerID == status.ContainerID
}

// readReport returns the report on the pod; an unreadable one counts as absent.
func readReport(pod *corev1.Pod) report {
	raw, ok := pod.Annotations[shared.AnnotationRuntimeContainersMeta]
	if !ok {
		return nil
	}
	var list struct {
		Containers []Reported `json:"containers"`
	}
	if json.Unmarshal([]byte(raw), &list) != nil {
		return nil
	}
	out := report{}
	for _, entry := range list.Containers {
		out[entry.Name] = entry
	}
	return out
}

// plainHash is the hash of a container by kubelets since 1.31: of its name and image. Older ones
// hash the whole container as their own types print it. Other types cannot repeat that: the report
// is then no proof, and the image ID has to be.
func plainHash(container *corev1.Container) uint64 {
	return hash(map[string]string{"name": container.Name, "image": container.Image})
}

// hashedVariable is a variable as it is hashed.
type hashedVariable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// environmentHash is the node daemon's hash of a container's variables from labels and annotations.
func environmentHash(pod *corev1.Pod, container *corev1.Container) uint64 {
	var variables []hashedVariable
	for _, v := range metadataVariables(container) {
		variables = append(variables, hashedVariable{Name: v.name, Value: v.value(pod)})
	}
	return hash(variables)
}

// hash is the 32-bit FNV-1a hash of the value's JSON, printed the kubelet's way.
func hash(value any) uint64 {
	body, _ := json.Marshal(value) // names, images and values always marshal
	hasher := fnv.New32a()
	fmt.Fprintf(hasher, "%v", dump.ForHash(body))
	return uint64(hasher.Sum32())
}
