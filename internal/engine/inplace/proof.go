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
	"github.com/kruise-operator/kruise-operator/internal/engine/restart"
)

// settleTime is how long a restarted container runs before it counts as updated, when nothing the runtime reports distinguishes the old image
// from the new: they may be two names of one image, or the container crashed just before the kubelet saw the edit, in which case it is replaced
// within a second or two. A status does not say when the kubelet saw the edit, so the time counts from the restart: a kubelet that saw it later
// than this after a crash could be believed a moment too early.
//
// That is enough for a container that started after the edit. One that started before it can be the old one, which goes on being
// reported as running while it stops: for as long as the pod's termination grace period lasts.
const settleTime = 5 * time.Second

// defaultTermination is the termination grace period of a pod that names none.
const defaultTermination = corev1.DefaultTerminationGracePeriodSeconds * time.Second

// longestTermination is how many seconds of a termination grace period count: a century, which is as good as for ever.
const longestTermination = 100 * 365 * 24 * 60 * 60

// effect says whether a container runs the image that the pod's spec has.
type effect struct {
	proven bool
	// in is above zero when time alone will prove it.
	in time.Duration
	// why says what is missing.
	why string
}

// effectOn judges one container whose image was changed.
//
// Until the kubelet has seen our latest edit nothing is proven: it may be acting on the one before. After that, a container that has ended and that the
// kubelet does not start again, as in a pod of a Job, has nothing to show: nothing runs the image before. Otherwise:
//
//  1. The node daemon's report is proof where it knows the container that runs now and says it was made from this spec.
//  2. With evidence of ours, and a server that reports the observed generation, the container must have been replaced by one
//     with another image, and run. See replaced.
//  3. Otherwise, for updates of other managers and older servers, the image ID must have changed, or status.image must be the
//     image of the spec. Two names of one image can hang here if the runtime goes on reporting the older name.
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

// replaced judges a container by what it was when the edit was sent.
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
			// The edit took back an earlier one that the kubelet had not acted on: there is nothing to restart.
			return effect{proven: true}
		case runsIt:
			// Nothing that the runtime reports calls for a restart, and yet the container may be stopping. It also may never restart: what
			// the evidence says of it can be wrong, as it may have been taken for a new one after a crash. Only waiting shows which.
			return settled(container, latest(started, stopped), "may still be stopping", now)
		}
		return effect{why: fmt.Sprintf("container %s has not restarted with image %s yet", container.Name, container.Image)}
	}

	otherName := runsIt && !runs(before.Image, before.ImageID, container.Image)
	otherImage := !before.Superseded && before.ImageID != "" && status.ImageID != before.ImageID
	switch {
	case otherName || otherImage:
		return effect{proven: true}
	case started.Before(edited):
		return settled(container, latest(started, stopped), "may still be stopping", now)
	case before.Superseded && !runsIt:
		// It can be of the edit between, and then it is stopped as soon as the kubelet sees this one.
		return settled(container, started.Add(Termination(pod)), "may be of an earlier update, and be stopping", now)
	}
	return settled(container, started, "restarted just now", now)
}

// settled says that a container has run long enough since a time.
func settled(container *corev1.Container, since time.Time, why string, now time.Time) effect {
	if left := since.Add(settleTime).Sub(now); left > 0 {
		return effect{in: left, why: fmt.Sprintf("container %s %s", container.Name, why)}
	}
	return effect{proven: true}
}

// edited is when the container's image was changed last: with its batch. What an earlier update left unproven counts from the beginning
// of this one, which is later.
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

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// runs says that a container which the runtime reports with this image and image ID runs the wanted image. Names are compared
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

// report is what the node daemon last wrote about the pod's containers, by name.
type report map[string]Reported

// current says that the entry is about the container that the pod's status shows.
func (e Reported) current(status *corev1.ContainerStatus) bool {
	return e.ContainerID != "" && e.ContainerID == status.ContainerID
}

// readReport returns the report on the pod; one that is not readable counts as absent.
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

// plainHash is the hash that kubelets since 1.31 give a container: of its name and image. Older ones hash the whole container
// as their own types print it, which cannot be repeated with other types; there the report is no proof and the
// image ID has to be.
func plainHash(container *corev1.Container) uint64 {
	return hash(map[string]string{"name": container.Name, "image": container.Image})
}

// hashedVariable is a variable as it is hashed.
type hashedVariable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// environmentHash is the hash that the node daemon reports of the variables a container takes from labels and annotations.
func environmentHash(pod *corev1.Pod, container *corev1.Container) uint64 {
	var variables []hashedVariable
	for _, v := range metadataVariables(container) {
		variables = append(variables, hashedVariable{Name: v.name, Value: v.value(pod)})
	}
	return hash(variables)
}

// hash is the 32-bit FNV-1a hash of the value's JSON, printed the way the kubelet prints what it hashes.
func hash(value any) uint64 {
	body, err := json.Marshal(value)
	if err != nil {
		return 0 // names, images and values always marshal; no hash of a container is 0
	}
	hasher := fnv.New32a()
	fmt.Fprintf(hasher, "%v", dump.ForHash(body))
	return uint64(hasher.Sum32())
}
