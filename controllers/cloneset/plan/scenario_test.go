// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset/podsettest"
)

// running lets the clock run, from a time that is long before Now: pods that have been ready for their minimum time are so then, too.
func running(w *simulation) { w.StartClock(podsettest.Now().Add(-12 * time.Hour)) }

// newScenario is a set that is up. What happened before is not part of the scenario.
func newScenario(t *testing.T, replicas int, change ...func(*simulation)) *simulation {
	t.Helper()
	w := newSimulation(t, replicas, append([]func(*simulation){running}, change...)...)
	w.StartClock(w.Time)
	w.Begin()
	return w
}

// when puts what the user does into the log, does it and lets the set come to rest.
func (w *simulation) when(what string, change ...func(*simulation)) {
	w.t.Helper()
	w.Note(what)
	w.rest(change...)
}

// ends compares the log with its golden file and the pods with what they should be.
func (w *simulation) ends(pods string) {
	w.t.Helper()
	w.Golden()
	w.expectPods(pods)
}

func TestScenarioStart(t *testing.T) {
	w := newSimulation(t, 3, running)
	w.ends("p01:1, p02:1, p03:1")
}

func TestScenarioScaleOutAndIn(t *testing.T) {
	w := newScenario(t, 2)
	w.when("replicas 4, scaleStrategy.maxUnavailable 1", replicas(4), scaleMaxUnavailable(1))
	w.when("replicas 1, maxUnavailable 1", replicas(1), maxUnavailable(1))
	w.ends("p01:1")
}

func TestScenarioRollingReplacement(t *testing.T) {
	w := newScenario(t, 4, maxUnavailable(1))
	w.when("another image", image("2"))
	w.ends("p05:2, p06:2, p07:2, p08:2")
	w.expect("fewest available", w.minAvailable, 3)
	w.expect("most pods", w.maxPods, 4)
}

func TestScenarioRollingUpdateInPlace(t *testing.T) {
	w := newScenario(t, 4, inPlace, maxUnavailable(2))
	w.when("another image", image("2"))
	w.ends("p01:2, p02:2, p03:2, p04:2")
	w.expect("fewest available", w.minAvailable, 2)
}

func TestScenarioSurge(t *testing.T) {
	w := newScenario(t, 3, maxUnavailable(0), maxSurge(1))
	w.when("another image", image("2"))
	w.ends("p04:2, p05:2, p06:2")
	w.expect("fewest available", w.minAvailable, 3)
	w.expect("most pods", w.maxPods, 4)
}

func TestScenarioPartition(t *testing.T) {
	w := newScenario(t, 4, inPlace, maxUnavailable(1), partition(3))
	w.when("another image, with partition 3", image("2"))
	w.expect("updated as a canary", w.at("2"), 1)
	w.when("partition 50%", partition("50%"))
	w.expect("updated by half", w.at("2"), 2)
	w.when("partition 0", partition(0))
	w.ends("p01:2, p02:2, p03:2, p04:2")
}

func TestScenarioPausedOnTheWay(t *testing.T) {
	w := newScenario(t, 3, inPlace, maxUnavailable(1))
	w.Note("another image")
	w.do(image("2"))
	w.Pass()
	w.when("paused", paused(true))
	w.expect("updated when paused", w.at("2"), 1)
	w.when("resumed", paused(false))
	w.ends("p01:2, p02:2, p03:2")
}

func TestScenarioHooksAroundAnUpdateInPlace(t *testing.T) {
	w := newScenario(t, 2, inPlace, maxUnavailable(1), hooks(shared.Lifecycle{InPlaceUpdate: hook("hold")}))
	w.when("another image", image("2"))
	w.expect("updated before the hook is released", w.at("2"), 0)
	w.Users = true
	w.when("the user releases hooks, and puts them back")
	w.ends("p01:2, p02:2")
	w.expect("available", w.available(), 2)
}

func TestScenarioHookBeforeDeletion(t *testing.T) {
	w := newScenario(t, 3, hooks(shared.Lifecycle{PreDelete: hook("hold")}))
	w.when("replicas 2", replicas(2))
	w.expect("pods", len(w.Pods), 3)
	w.when("replicas 3: the pod is not to be deleted any more", replicas(3))
	w.when("replicas 2", replicas(2))
	w.Users = true
	w.when("the user releases the hook")
	w.expect("pods", len(w.Pods), 2)
	w.Golden()
}

func TestScenarioClaimsGoWithTheirPods(t *testing.T) {
	w := newScenario(t, 2, claimTemplates("data"))
	w.when("replicas 1", replicas(1))
	w.expect("claims", len(w.Claims), 1)
	w.when("another image", image("2"))
	w.expect("claims", w.claimNames(), "data-web-p03")
	w.ends("p03:2")
}

func TestScenarioClaimsAreReused(t *testing.T) {
	w := newScenario(t, 2, claimTemplates("data"), reuse)
	w.Note("somebody deletes pod web-p01")
	w.move("p01", podsettest.DeletePod)
	w.move("p01", podsettest.FinishDeletion)
	w.rest()
	w.expect("claims", w.claimNames(), "data-web-p01 data-web-p02")
	w.ends("p01:1, p02:1")
}

func TestScenarioSpecifiedDelete(t *testing.T) {
	w := newScenario(t, 4, maxUnavailable(1))
	w.when("pods p01 and p03 are to be deleted", ask("p01", "p03"))
	w.when("replicas 3, and podsToDelete names p02", replicas(3), func(w *simulation) {
		w.set.Spec.ScaleStrategy.PodsToDelete = []string{"web-p02"}
	})
	w.ends("p04:1, p05:1, p06:1")
	w.expect("podsToDelete", len(w.set.Spec.ScaleStrategy.PodsToDelete), 0)
}

func TestScenarioRollbackOnTheWay(t *testing.T) {
	w := newScenario(t, 4, inPlace, maxUnavailable(1))
	w.Note("another image")
	w.do(image("2"))
	for range 6 {
		w.Pass()
		w.Kubelets()
	}
	updated := w.at("2")
	w.expect("updated before the rollback", updated > 0 && updated < 4, true)
	w.when("back to the first image", image("1"))
	w.ends("p01:1, p02:1, p03:1, p04:1")
	w.expect("fewest available", w.minAvailable, 3)
	w.expect("current revision", w.set.Status.CurrentRevision, "web-1")
}

func TestScenarioFailingImage(t *testing.T) {
	w := newScenario(t, 5, maxUnavailable(2), broken("2"))
	w.when("an image that never becomes ready", image("2"))
	w.expect("at the failing image", w.at("2"), 2)
	w.expect("available", w.available(), 3)
	w.when("an image that does", image("3"))
	w.Golden()
	w.expect("updated", w.at("3"), 5)
	w.expect("fewest available", w.minAvailable, 3)
}

func TestScenarioMinReadySecondsPaceARollout(t *testing.T) {
	w := newScenario(t, 3, inPlace, maxUnavailable(1), minReady(30))
	w.when("another image", image("2"))
	w.ends("p01:2, p02:2, p03:2")
}

func TestScenarioGracePeriod(t *testing.T) {
	w := newScenario(t, 2, inPlace, maxUnavailable(1), func(w *simulation) {
		w.rolling().InPlaceUpdateStrategy = &shared.InPlaceUpdateStrategy{GracePeriodSeconds: 15}
	})
	w.when("another image", image("2"))
	w.ends("p01:2, p02:2")
}

func TestScenarioFailedPodIsReplaced(t *testing.T) {
	w := newScenario(t, 2)
	w.Note("pod web-p01 is evicted")
	w.move("p01", podsettest.Evict)
	w.rest()
	w.Golden()
	failed := slices.ContainsFunc(w.Pods, func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodFailed && strings.HasSuffix(p.Name, "p01")
	})
	w.expect("the failed pod is left to its garbage collector", failed, true)
	w.expect("available", w.available(), 2)
}
