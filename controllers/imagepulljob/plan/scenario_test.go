// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

func TestScenarioAskedAgainAfterADay(t *testing.T) {
	w := newSimulation(t, 3)
	w.job("a", func(s *appsv1beta1.ImagePullJobSpec) {
		s.CompletionPolicy.Type, s.Parallelism = appsv1beta1.CompleteNever, ptr.To(intstr.FromInt32(3))
	})
	w.pass("a")
	w.answer(appsv1beta1.ImagePhaseSucceeded, "n1", "n2", "n3")
	expect(t, w.pass("a"), 3, 0, 3, 0, "job is running, progress 100.0%")
	w.at(24*60*60 - 300)
	w.expire("n2")
	expect(t, w.pass("a"), 3, 1, 2, 0, "job is running, progress 66.7%")
	if got := w.pulling("a"); got != "n2" {
		t.Errorf("%s pull", got)
	}
	w.answer(appsv1beta1.ImagePhaseSucceeded, "n2")
	expect(t, w.pass("a"), 3, 0, 3, 0, "job is running, progress 100.0%")
	w.golden()
}

// An earlier node's answers count for nothing: it had another disk.
func TestScenarioANodeIsMadeAgain(t *testing.T) {
	w := newSimulation(t, 2)
	w.job("a", func(*appsv1beta1.ImagePullJobSpec) {})
	w.pass("a")
	w.answer(appsv1beta1.ImagePhaseSucceeded, "n1")
	w.pass("a")
	w.at(10)
	w.again = map[string]types.UID{"n1": "n1-again"}
	w.tell("n1 is made again")
	w.answer(appsv1beta1.ImagePhaseSucceeded, "n2")
	expect(t, w.pass("a"), 2, 0, 1, 0, "job is running, progress 50.0%")
	if got := w.last.RecheckAfter; got != 10*time.Second {
		t.Errorf("looked at again after %s: the end of a list without the job triggers no pass", got)
	}
	w.at(20)
	delete(w.images, "n1")
	w.tell("the list of the former n1 is collected")
	expect(t, w.pass("a"), 2, 1, 1, 0, "job is running, progress 50.0%")
	w.answer(appsv1beta1.ImagePhaseSucceeded, "n1")
	expect(t, w.pass("a"), 2, 0, 2, 0, "job has completed")
	w.golden()
}

func TestScenarioParallelismIsChanged(t *testing.T) {
	w := newSimulation(t, 4)
	set := func(n int32) {
		w.jobs["a"].Spec.Parallelism = ptr.To(intstr.FromInt32(n))
		w.tell("parallelism %d", n)
	}
	w.job("a", func(s *appsv1beta1.ImagePullJobSpec) { s.Parallelism = ptr.To(intstr.FromInt32(2)) })
	w.pass("a")
	set(1) // those that were asked go on
	expect(t, w.pass("a"), 4, 2, 0, 0, "job is running, progress 0.0%")
	w.answer(appsv1beta1.ImagePhaseSucceeded, "n1")
	expect(t, w.pass("a"), 4, 1, 1, 0, "job is running, progress 25.0%")
	set(0)
	w.answer(appsv1beta1.ImagePhaseFailed, "n2")
	expect(t, w.pass("a"), 4, 0, 1, 1, "job is running, progress 50.0%")
	set(3)
	expect(t, w.pass("a"), 4, 2, 1, 1, "job is running, progress 50.0%")
	w.answer(appsv1beta1.ImagePhaseSucceeded, "n3", "n4")
	expect(t, w.pass("a"), 4, 0, 3, 1, "job has completed")
	w.golden()
}

// A late pull secret reaches nodes still trying, once, and in the same round.
func TestScenarioASecretComesLater(t *testing.T) {
	w := newSimulation(t, 3)
	w.job("a", func(s *appsv1beta1.ImagePullJobSpec) {
		s.PullSecrets, s.Parallelism = []string{"registry"}, ptr.To(intstr.FromInt32(2))
	})
	w.pass("a")
	w.answer(appsv1beta1.ImagePhaseFailed, "n1")
	w.tell("the Secret comes")
	w.secrets = []appsv1beta1.ImagePullSecret{{Namespace: "kruise-daemon-config", Name: "registry-abc", Mode: "batch"}}
	expect(t, w.pass("a"), 3, 2, 0, 1, "job is running, progress 33.3%")
	writes := w.writes
	if w.pass("a"); w.writes != writes {
		t.Errorf("%d writes while nothing happened", w.writes-writes)
	}
	for node, want := range map[string]int{"n1": 0, "n2": 1, "n3": 1} {
		if entry := w.images[node].Spec.Images["nginx"]; len(entry.PullSecrets) != want || entry.Tags[0].Version != 0 {
			t.Errorf("%s is asked for %+v", node, entry)
		}
	}
	w.answer(appsv1beta1.ImagePhaseSucceeded, "n2", "n3")
	expect(t, w.pass("a"), 3, 0, 2, 1, "job has completed")
	w.golden()
}
