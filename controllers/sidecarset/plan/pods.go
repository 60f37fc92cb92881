// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecarspec"
	"github.com/kruise-operator/kruise-operator/internal/engine/inplace"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/restart"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
)

// Snapshot is all the planner may look at, beside the set itself.
type Snapshot struct {
	// Now is when the snapshot was taken.
	Now time.Time
	// Pods are the selected pods with the sidecars, sorted by name.
	Pods []Pod
	// Update is the revision of the present spec; zero while it is not recorded.
	Update revision.Of[sidecarspec.Payload]
	// Unrecorded is the server's refusal to record the spec; empty: recorded. It stops new updates only.
	Unrecorded string
	// Refused are recently refused pods, say by a budget, with the server's answers.
	Refused map[planning.Slot]string
}

// Pod is one such pod. Available: ready, with the images of its spec, and one of each
// hot upgrade pair idle. Revision is its hash, Update the progress of its update.
type Pod struct {
	podset.Pod
	// Updated: the pod has the sidecars of the present spec, or is on its way.
	Updated bool
	// Upgradable: it differs in images alone, and has those of its revision. Rewritten names one it has not.
	Upgradable bool
	Rewritten  string
	// Keeps names fields of the spec out of the reach of the pod; empty: none.
	Keeps string
	// Selected: updateStrategy.selector matches.
	Selected bool
	// Serves: the sidecars are ready, regardless of other containers.
	Serves bool
	// Spent: a container has ended for good, as in a Job. The pod never becomes ready, so no update waits for it.
	Spent bool
	// underWay: an update has begun and is not over.
	underWay bool
	// deniesUpgradable: its condition denies an update by the set.
	deniesUpgradable bool
	// pairs are the containers of hot upgrades.
	pairs []pair
	// recorded is the pod's note of a running update; zero for a pod at rest: there are thousands.
	recorded inplace.Recorded
}

// observe derives the facts about one pod; false: it lacks
// sidecars. recorded is the note of an earlier version, or zero.
func observe(spec *Spec, object *corev1.Pod, recorded inplace.Recorded, now time.Time) (Pod, bool) {
	pairs, complete := pairsOf(spec, object)
	if !complete {
		return Pod{}, false
	}
	if !recorded.Current(object) {
		recorded = spec.record().Read(object)
	}
	pod := Pod{
		Pod: podset.Pod{
			Object:   object,
			Slot:     planning.Slot(object.Namespace + "/" + object.Name),
			Revision: sidecar.EntryOf(object, shared.AnnotationSidecarSetHash, spec.Set.Name).SidecarSetHash,
			Update:   recorded.Check(object, now),
			Ready:    podstate.RunningAndReady(object),
		},
		Upgradable: sidecar.EntryOf(object, shared.AnnotationSidecarSetHashWithoutImage, spec.Set.Name).SidecarSetHash == spec.Hashes.WithoutImage,
		Keeps:      spec.Kept[spec.createdAs(object)],
		Selected:   spec.UpdateSelector == nil || spec.UpdateSelector.Matches(labels.Set(object.Labels)),
		pairs:      pairs,
		recorded:   recorded,

		deniesUpgradable: saysNotUpgradable(object, spec.Set.Name),
	}
	pod.Updated = pod.Revision == spec.Hashes.Hash
	if !pod.Updated && pod.Upgradable && recorded.Revision() == "" { // An edit writes the image that the spec says.
		pod.Rewritten = spec.rewritten(object, pairs)
		pod.Upgradable = pod.Rewritten == ""
	}
	pod.Trouble = podset.TroubleOf(object, pod.Update, recorded.Began, now)
	pod.underWay = pod.begun()
	complete = !pod.underWay
	if complete {
		pod.recorded = inplace.Recorded{}
	}
	pod.Spent = restart.EndedForGood(object)
	pod.Serves = complete && sidecarsReady(spec, object, pairs)
	pod.Available = pod.Ready && complete
	return pod, true
}

// createdAs is the revision of the pod's creation. An update hiding it notes it beside the other hash.
func (s *Spec) createdAs(pod *corev1.Pod) string {
	return cmp.Or(sidecar.EntryOf(pod, shared.AnnotationSidecarSetHashWithoutImage, s.Set.Name).ControllerRevision,
		sidecar.EntryOf(pod, shared.AnnotationSidecarSetHash, s.Set.Name).ControllerRevision)
}

// rewritten names a sidecar with an image changed by others; empty: none. A rewriter of new pods may not rewrite edits.
func (s *Spec) rewritten(pod *corev1.Pod, pairs []pair) string {
	images := s.Recorded[sidecar.EntryOf(pod, shared.AnnotationSidecarSetHash, s.Set.Name).ControllerRevision]
	for i := range s.Containers {
		c := &s.Containers[i]
		name := c.Name
		if at := slices.IndexFunc(pairs, func(p pair) bool { return p.Name == c.Name }); at >= 0 {
			name = pairs[at].working
		}
		if is, was := imageOf(pod, name), images[c.Name]; was != "" && is != was && is != c.Image {
			return fmt.Sprintf("container %s runs image %s and its revision says %s", name, is, was)
		}
	}
	return ""
}

// UnderWay reports whether an update has begun and is not over.
func (p *Pod) UnderWay() bool { return p.underWay }

func (p *Pod) begun() bool {
	if p.Update.Progress != inplace.None && p.Update.Progress != inplace.Done {
		return true
	}
	return slices.ContainsFunc(p.pairs, func(pair pair) bool { return !pair.idle(p.Object) })
}

// sidecarsReady reports whether the set's busy containers are ready, its init containers done.
func sidecarsReady(spec *Spec, object *corev1.Pod, pairs []pair) bool {
	for i := range spec.Set.Spec.InitContainers {
		if !isInitialized(object, &spec.Set.Spec.InitContainers[i].Container) {
			return false
		}
	}
	for i := range spec.Containers {
		if c := &spec.Containers[i]; !c.Hot && !isReady(object, c.Name) {
			return false
		}
	}
	return !slices.ContainsFunc(pairs, func(p pair) bool { return !isReady(object, p.working) })
}

// isInitialized reports whether the init container does not hold up the
// pod: completed, or native and ready. A pod may predate and lack it.
func isInitialized(pod *corev1.Pod, container *corev1.Container) bool {
	if pod.Status.Phase != corev1.PodPending && ptr.Deref(container.RestartPolicy, "") != corev1.ContainerRestartPolicyAlways ||
		!slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == container.Name }) {
		return true
	}
	return isReady(pod, container.Name) // which is true, too, of one that has ended with exit code 0
}

func isReady(pod *corev1.Pod, container string) bool {
	status := restart.StatusOf(pod, container)
	return status != nil && status.Ready
}

func imageOf(pod *corev1.Pod, container string) string {
	if c, _ := restart.Find(pod, container); c != nil {
		return c.Image
	}
	return ""
}

// MayHaveRevision reports whether a pod may name the revision. It never decodes: it
// runs for every pod in every pass, and a creator can make annotations very long.
func MayHaveRevision(pod *corev1.Pod, name string) bool {
	quoted := strconv.Quote(name)
	return strings.Contains(pod.Annotations[shared.AnnotationSidecarSetHash], quoted) ||
		strings.Contains(pod.Annotations[shared.AnnotationSidecarSetHashWithoutImage], quoted)
}
