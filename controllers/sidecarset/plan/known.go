// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kruise-operator/kruise-operator/internal/engine/jobsidecar"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// Known are the facts about pods that Pods has derived, as far as nothing can have changed them since: the spec and the pod are the same, and time alone
// changes nothing. An update of a thousand pods looks at all of them many times a second, while a few of them change. The zero value knows nothing.
type Known struct {
	// of is the spec that the facts are about.
	of   string
	pods map[types.UID]knownPod
	// refused are the pods that the server refused to change.
	refused map[planning.Slot]refusal
}

// knownPod are the facts about a version of a pod. The version is empty where time changes them: then only what its annotations say is of use.
type knownPod struct {
	version string
	pod     Pod
}

// refusal is the answer of the server, and when it came last.
type refusal struct {
	message string
	at      time.Time
}

// refusedFor is for how long a pod that the server refused to change comes after the others.
const refusedFor = time.Minute

// Carried notes which pods the server refused to change.
func (k *Known) Carried(outcome planning.Outcome, now time.Time) {
	for _, failure := range outcome.Failures {
		if failure.Refused && failure.Step == podset.StepEdit {
			if k.refused == nil {
				k.refused = map[planning.Slot]refusal{}
			}
			k.refused[failure.Slot] = refusal{failure.Message, now}
		}
	}
}

// Refused are the pods that the server refused to change a short while ago, and its answers.
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

// manyMore is how many times as many facts as pods are kept at most.
const manyMore = 2

// Pods derives the facts about the pods that have the sidecars of the set, in the order of their names. It leaves out pods that are terminating
// or finished; pods of which only sidecars are left to be stopped, so that an image that ends a sidecar is not overwritten; pods that the
// selectors do not match; and pods that lack a container. inNamespace says whether the set selects the pods of a namespace.
func (k *Known) Pods(spec *Spec, objects []*corev1.Pod, inNamespace func(string) bool, now time.Time) []Pod {
	if spec.Invalid != nil {
		return nil
	}
	of := fmt.Sprint(spec.Set.UID, spec.Set.Generation, spec.Hashes)
	if k.of != of || len(k.pods) > manyMore*len(objects) {
		k.of, k.pods = of, make(map[types.UID]knownPod, len(objects))
	}
	objects = slices.SortedFunc(slices.Values(objects), func(a, b *corev1.Pod) int {
		if a.Namespace != b.Namespace {
			return strings.Compare(a.Namespace, b.Namespace)
		}
		return strings.Compare(a.Name, b.Name)
	})
	pods := make([]Pod, 0, len(objects))
	texts := hashes{set: spec.Set.Name, of: map[string]string{}}
	for _, object := range objects {
		if isEnding(object) || !spec.Selector.Matches(labels.Set(object.Labels)) || !inNamespace(object.Namespace) {
			continue
		}
		known := k.pods[object.UID]
		if known.version != "" && known.version == object.ResourceVersion {
			known.pod.Object = object // An older one would keep all pods of its list in memory.
			pods = append(pods, known.pod)
			continue
		}
		pod, complete := observe(spec, object, known.pod.recorded, texts, now)
		if !complete {
			continue
		}
		pods = append(pods, pod)
		if object.UID == "" || object.ResourceVersion == "" {
			continue
		}
		kept := knownPod{version: object.ResourceVersion, pod: pod}
		kept.pod.Object = nil
		if !pod.lasts() {
			kept.version = ""
		}
		k.pods[object.UID] = kept
	}
	return pods
}

// isEnding says that a pod has ended, or is about to.
func isEnding(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || podstate.Finished(pod) || jobsidecar.MainDone(pod)
}

// lasts says that the facts do not change with time.
func (p *Pod) lasts() bool { return p.Update.RecheckAfter == 0 && p.Trouble.RecheckAfter == 0 }
