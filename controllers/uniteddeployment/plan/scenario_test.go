// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"testing"
	"time"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

const (
	adaptiveZones = `
topology:
  scheduleStrategy: {type: Adaptive}
  subsets: [{name: a, maxReplicas: 4}, {name: b, maxReplicas: 4}, {name: c}]`
	reservingZones = `
topology:
  scheduleStrategy: {type: Adaptive, adaptive: {reserveUnschedulablePods: true}}
  subsets: [{name: a, maxReplicas: 3}, {name: b, maxReplicas: 3}, {name: c}]`
)

func setImage(version string) string {
	return fmt.Sprintf(`template: {cloneSetTemplate: {spec: {template: {spec: {containers: [{name: main, image: "shop:%s"}]}}}}}`, version)
}

// TestScenarioStagedRollout: partitions keep pods of each subset at the revision before.
func TestScenarioStagedRollout(t *testing.T) {
	w := newSimulation(t)
	w.when("created", func() {})
	w.when("another image, with partitions a: 1, b: 9, c: 2", func() {
		w.change("updateStrategy: {manualUpdate: {partitions: {a: 1, b: 9, c: 2}}}")
		w.change(setImage("2"))
	})
	w.when("partitions b: 1", func() { w.change("updateStrategy: {manualUpdate: {partitions: {a: null, b: 1, c: null}}}") })
	w.when("scaled to 3 meanwhile", func() { w.change("replicas: 3") })
	w.when("no partitions", func() { w.change("updateStrategy: null") })
	w.when("rolled back", func() { w.change(setImage("1")) })
	w.ends()
}

// TestScenarioAdaptive: a zone goes down and comes back. Its pods start in the other zones meanwhile, and ready pods do not move back.
func TestScenarioAdaptive(t *testing.T) {
	w := newSimulation(t, adaptiveZones)
	w.when("created", func() {})
	w.when("zone b goes down", func() { w.down("b") })
	w.after(30 * time.Second)
	w.when("scaled to 8", func() { w.change("replicas: 8") })
	w.when("zone b is back", func() { delete(w.full, "b") })
	w.after(5 * time.Minute)
	w.when("scaled to 10", func() { w.change("replicas: 10") })
	w.ends()
}

// TestScenarioNoRoomAnywhere: pods that no subset has room for are created and wait.
func TestScenarioNoRoomAnywhere(t *testing.T) {
	w := newSimulation(t, adaptiveZones, "replicas: 9")
	for _, zone := range []string{"a", "b", "c"} {
		w.full[zone] = true
	}
	w.when("created without any room", func() {})
	w.after(30 * time.Second)
	w.after(5 * time.Minute)
	w.when("zone a has room", func() { delete(w.full, "a") })
	w.when("the others have, too", func() { w.full = map[string]bool{} })
	w.after(5 * time.Minute)
	w.ends()
}

// TestScenarioReserved: pods that find no node stay and wait, and as many pods stand in for them in other zones until they run.
func TestScenarioReserved(t *testing.T) {
	w := newSimulation(t, reservingZones)
	w.full["a"] = true
	w.when("created with zone a full", func() {})
	w.after(30 * time.Second)
	w.when("another image", func() { w.change(setImage("2")) })
	w.when("zone a has room", func() { delete(w.full, "a") })
	w.after(time.Minute)
	w.after(4 * time.Minute)
	w.after(time.Minute)
	w.when("a subset is added", func() {
		w.change(`topology: {subsets: [{name: z, maxReplicas: 2}, {name: a, maxReplicas: 3}, {name: b, maxReplicas: 3}, {name: c}]}`)
	})
	w.after(5 * time.Minute)
	w.ends()
}

// TestScenarioScalingPastFixedSizes: an autoscaler that knows nothing of sizes gets what it asks for.
func TestScenarioScalingPastFixedSizes(t *testing.T) {
	w := newSimulation(t, `topology: {subsets: [{name: a, replicas: 2}, {name: b, replicas: 50%}, {name: c, replicas: 1}]}`)
	w.when("created", func() {})
	for _, n := range []int{3, 10, 0, 6} {
		w.when(fmt.Sprintf("scaled to %d", n), func() { w.change(fmt.Sprintf("replicas: %d", n)) })
	}
	w.ends()
}

// TestScenarioSubsetsComeAndGo removes and renames subsets, at once and after their replacements.
func TestScenarioSubsetsComeAndGo(t *testing.T) {
	w := newSimulation(t)
	w.when("created", func() {})
	w.when("c is taken out", func() { w.change("topology: {subsets: [{name: a}, {name: b}]}") })
	w.when("b is renamed, and its pods wait for their replacements, for which there is no room", func() {
		w.set.Annotations = map[string]string{shared.AnnotationSubsetRemoval: shared.SubsetRemovalAfterReplacement}
		w.full["d"] = true
		w.change("topology: {subsets: [{name: a}, {name: d}]}")
	})
	w.when("there is room", func() { delete(w.full, "d") })
	w.when("Deployments instead of CloneSets", func() {
		w.full["a"] = true
		w.change(`template: {cloneSetTemplate: null, deploymentTemplate: {metadata: {labels: {app: shop}}, spec: {template: {metadata: {labels: {app: shop}}, spec: {containers: [{name: main, image: "shop:1"}]}}}}}`)
	})
	w.when("zone a has room", func() { delete(w.full, "a") })
	w.ends()
}

// TestScenarioFaultOfOneSubset: what goes wrong in one subset is said, and the others go on.
func TestScenarioFaultOfOneSubset(t *testing.T) {
	w := newSimulation(t)
	w.when("created, and the server refuses b", func() { w.refused["b"] = "exceeded quota" })
	w.when("another image", func() { w.change(setImage("2")) })
	w.when("the server takes b, and the patch of c is none", func() {
		w.refused = map[string]string{}
		w.change(`topology: {subsets: [{name: a}, {name: b}, {name: c, patch: {spec: {containers: none}}}]}`)
	})
	w.when("another image", func() { w.change(setImage("3")) })
	w.when("the patch is mended", func() {
		w.change("topology: {subsets: [{name: a}, {name: b}, {name: c, patch: {spec: {hostNetwork: true}}}]}")
	})
	w.when("no subset may have more", func() {
		w.change("topology: {subsets: [{name: a, maxReplicas: 1}, {name: b, maxReplicas: 1}, {name: c, maxReplicas: 1}]}")
	})
	w.when("the spec cannot be parsed", func() { w.change("topology: {subsets: [{name: a, maxReplicas: 200%}]}") })
	w.ends()
}

// TestScenarioSubsetsComeAndGoInARollout renames, adds and removes subsets while partitions hold an image back.
func TestScenarioSubsetsComeAndGoInARollout(t *testing.T) {
	w := newSimulation(t)
	w.when("created", func() {})
	w.when("another image, with partitions a: 1, b: 2, c: 1", func() {
		w.change("updateStrategy: {manualUpdate: {partitions: {a: 1, b: 2, c: 1}}}")
		w.change(setImage("2"))
	})
	w.when("c is renamed to d", func() {
		w.change("topology: {subsets: [{name: a}, {name: b}, {name: d}]}")
		w.change("updateStrategy: {manualUpdate: {partitions: {a: 1, b: 2, c: null}}}")
	})
	w.when("e is added", func() { w.change("topology: {subsets: [{name: a}, {name: b}, {name: d}, {name: e}]}") })
	w.when("a is taken out, and waits for its replacements, for which there is no room", func() {
		w.set.Annotations = map[string]string{shared.AnnotationSubsetRemoval: shared.SubsetRemovalAfterReplacement}
		w.full["e"] = true
		w.change("updateStrategy: {manualUpdate: {partitions: {a: null}}}")
		w.change("topology: {subsets: [{name: b}, {name: d}, {name: e}]}")
	})
	w.when("there is room", func() { delete(w.full, "e") })
	w.when("no partitions", func() { w.change("updateStrategy: null") })
	w.ends()
}
