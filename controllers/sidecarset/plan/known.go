// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kruise-operator/kruise-operator/internal/engine/jobsidecar"
	"github.com/kruise-operator/kruise-operator/internal/engine/lazy"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// Known caches the facts about pods while spec and pod are unchanged and their deadline has not come. An update
// of a thousand pods looks at all of them many times a second, while few change. The zero value is empty.
type Known struct {
	// of is the spec of the facts.
	of   string
	pods map[types.UID]*knownPod
	// refused are the pods with a refused change.
	refused map[planning.Slot]refusal
}

// knownPod are the facts about a version of a pod, as they were at a time.
type knownPod struct {
	version string
	at      time.Time
	pod     Pod
}

// hold reports whether the facts still hold for the object.
func (k *knownPod) hold(object *corev1.Pod, now time.Time) bool {
	if k.version == "" || k.version != object.ResourceVersion {
		return false
	}
	passed := now.Sub(k.at)
	for _, recheck := range []time.Duration{k.pod.Update.RecheckAfter, k.pod.Trouble.RecheckAfter} {
		if recheck > 0 && recheck <= passed {
			return false
		}
	}
	return true
}

// now are the facts about the object now, while they hold.
func (k *knownPod) now(object *corev1.Pod, now time.Time) Pod {
	pod, passed := k.pod, now.Sub(k.at)
	pod.Object = object
	for _, recheck := range []*time.Duration{&pod.Update.RecheckAfter, &pod.Trouble.RecheckAfter} {
		if *recheck > 0 {
			*recheck -= passed
		}
	}
	return pod
}

// refusal is the answer of the server, and when it came last.
type refusal struct {
	message string
	at      time.Time
}

// refusedFor is how long a refused pod comes after the others.
const refusedFor = time.Minute

// Carried notes refused changes.
func (k *Known) Carried(outcome planning.Outcome, now time.Time) {
	for _, failure := range outcome.Failures {
		if failure.Refused && failure.Step == podset.StepEdit {
			lazy.Put(&k.refused, failure.Slot, refusal{failure.Message, now})
		}
	}
}

// Refused returns recently refused pods with the server's answers.
func (k *Known) Refused(now time.Time) map[planning.Slot]string {
	refused := map[planning.Slot]string{}
	for slot, last := range k.refused {
		if now.Sub(last.at) < refusedFor {
			refused[slot] = last.message
		} else {
			delete(k.refused, slot)
		}
	}
	return refused
}

// Pods derives the facts about the set's pods, sorted by name. It omits pods terminating,
// finished, unselected or lacking a container, and pods with only sidecars left to stop:
// an image ending a sidecar must stay. inNamespace: the set selects the namespace.
func (k *Known) Pods(spec *Spec, objects []*corev1.Pod, inNamespace func(string) bool, now time.Time) []Pod {
	if spec.Invalid != nil {
		return nil
	}
	if of := fmt.Sprint(spec.Set.UID, spec.Set.Generation, spec.Hashes); k.of != of {
		k.of = of
		k.pods = nil
	}
	pods := make([]Pod, 0, len(objects))
	before := k.pods
	k.pods = make(map[types.UID]*knownPod, len(objects))
	for _, object := range sorted(objects) {
		known := before[object.UID]
		if known == nil {
			known = &knownPod{}
		}
		k.pods[object.UID] = known
		if !inNamespace(object.Namespace) {
			continue
		}
		if !known.hold(object, now) {
			if isEnding(object) || !spec.Selector.Matches(labels.Set(object.Labels)) {
				continue
			}
			fresh, complete := observe(spec, object, known.pod.recorded, now)
			if !complete {
				continue
			}
			known.pod, known.version, known.at = fresh, object.ResourceVersion, now
			known.pod.Object = nil // It would keep all pods of its list in memory.
		}
		pods = append(pods, known.now(object, now))
	}
	return pods
}

// sorted are pods by name.
func sorted(objects []*corev1.Pod) []*corev1.Pod {
	return slices.SortedFunc(slices.Values(objects), func(a, b *corev1.Pod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
}

func isEnding(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || podstate.Finished(pod) || jobsidecar.MainDone(pod)
}
