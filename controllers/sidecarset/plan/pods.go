// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
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
	// Pods are those that the set selects and that have its sidecars, in the order of their names.
	Pods []Pod
	// Update is the revision of the present spec; zero while it is not recorded.
	Update revision.Of[sidecarspec.Payload]
	// Unrecorded is why the server refuses to record the present spec. No pod is updated then, and what has begun on pods goes on. Empty: it is recorded.
	Unrecorded string
	// Refused are the pods that the server refused to change a short while ago, as where a budget protects them, and its answers.
	Refused map[planning.Slot]string
}

// Pod is one such pod. Available says that it is ready, that its sidecars run the images of its spec, and that of each pair of a hot upgrade
// one container is idle. Revision is the hash that it carries, and Update how far the update of its sidecars has come.
type Pod struct {
	podset.Pod
	// Updated says that the pod has the sidecars of the present spec, or is being moved to it.
	Updated bool
	// Upgradable says that it differs in images alone, and that these are those of its revision. Rewritten says which one is not.
	Upgradable bool
	Rewritten  string
	// Selected says that updateStrategy.selector selects it.
	Selected bool
	// Serves says that the sidecars themselves are ready, whatever the other containers of the pod are.
	Serves bool
	// Spent says that a container of the pod has ended for good, as in a pod of a Job: it will not be ready again, and no update waits for that.
	Spent bool
	// underWay says that an update of the sidecars has begun and is not over.
	underWay bool
	// deniesUpgradable says that its condition says that the set cannot update it.
	deniesUpgradable bool
	// pairs are the containers of hot upgrades.
	pairs []pair
	// recorded is what is noted on the pod about an update that is under way; zero for a pod at rest, of which there are thousands.
	recorded inplace.Recorded
}

// Pods derives the facts about pods of which nothing is known yet: see Known.
func Pods(spec *Spec, objects []*corev1.Pod, inNamespace func(string) bool, now time.Time) []Pod {
	return new(Known).Pods(spec, objects, inNamespace, now)
}

// observe derives the facts about one pod; false when it does not have all sidecars. recorded is what an earlier version of the pod had noted, or zero.
func observe(spec *Spec, object *corev1.Pod, recorded inplace.Recorded, texts hashes, now time.Time) (Pod, bool) {
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
			Revision: texts.in(object, shared.AnnotationSidecarSetHash),
			Update:   recorded.Check(object, now),
			Ready:    podstate.RunningAndReady(object),
		},
		Upgradable: texts.in(object, shared.AnnotationSidecarSetHashWithoutImage) == spec.Hashes.WithoutImage,
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

// rewritten says which sidecar has an image that somebody else has changed: what rewrites images of new pods may not rewrite an edit. Empty: none.
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

// UnderWay says that an update of the sidecars has begun and is not over.
func (p *Pod) UnderWay() bool { return p.underWay }

func (p *Pod) begun() bool {
	if p.Update.Progress != inplace.None && p.Update.Progress != inplace.Done {
		return true
	}
	return slices.ContainsFunc(p.pairs, func(pair pair) bool { return !pair.idle(p.Object) })
}

// sidecarsReady says that the containers of the set that have something to do are ready, and that its init containers are done.
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

// isInitialized says that an init container of the set does not hold up the pod: it has ended well, or is one that runs along and is ready. A pod may
// lack it, which was created before the set had it.
func isInitialized(pod *corev1.Pod, container *corev1.Container) bool {
	if pod.Status.Phase != corev1.PodPending && ptr.Deref(container.RestartPolicy, "") != corev1.ContainerRestartPolicyAlways ||
		!slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == container.Name }) {
		return true
	}
	i := slices.IndexFunc(pod.Status.InitContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == container.Name })
	return i >= 0 && pod.Status.InitContainerStatuses[i].Ready // which is True, too, of one that has ended with exit code 0
}

func isReady(pod *corev1.Pod, container string) bool {
	i := slices.IndexFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == container })
	return i >= 0 && pod.Status.ContainerStatuses[i].Ready
}

func imageOf(pod *corev1.Pod, container string) string {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == container {
			return pod.Spec.Containers[i].Image
		}
	}
	return ""
}

// hashes are those that annotations of pods say that a set has, by the text of the annotation. Most pods have the same text: it is decoded once in
// a pass.
type hashes struct {
	set string
	of  map[string]string
}

// in is the hash in what the annotation of a pod says of the set. It is asked of every pod in every pass, and reads no more than that.
func (h hashes) in(pod *corev1.Pod, key string) string {
	text := pod.Annotations[key]
	hash, known := h.of[text]
	if known {
		return hash
	}
	var all map[string]struct {
		Hash string `json:"hash"`
	}
	if json.Unmarshal([]byte(text), &all) != nil {
		hash = sidecar.EntryOf(pod, key, h.set).SidecarSetHash
	} else {
		hash = all[h.set].Hash
	}
	h.of[text] = hash
	return hash
}

// MayHaveRevision says that a pod names a revision in what it says of its sets. It is asked of every pod in every pass, and whoever creates a pod can make that
// as long as annotations may be: it is not decoded.
func MayHaveRevision(pod *corev1.Pod, name string) bool {
	return strings.Contains(pod.Annotations[shared.AnnotationSidecarSetHash], strconv.Quote(name))
}
