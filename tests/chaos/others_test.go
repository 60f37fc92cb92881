// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package chaos_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/nodefit"
	"github.com/kruise-operator/kruise-operator/tests/framework/chaos"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/scenario"
)

// daemonSet is a set for the nodes of the lane, ROLLING how it is updated.
const daemonSet = `
apiVersion: apps.kruise.io/v1beta1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  updateStrategy:
    rollingUpdate: {ROLLING}
  lifecycle: {LIFECYCLE}
  template:
    metadata: {labels: {app: agent}, finalizers: [FINALIZERS]}
    spec:
      terminationGracePeriodSeconds: 0
      nodeSelector: {chaos: NODES}
      tolerations: [{key: chaos, operator: Exists}]
      containers: [{name: main, image: "IMAGE"}]
`

// daemonSets are scenarios of a DaemonSet.
func daemonSets() []chaos.Scenario {
	const inPlace, recreate, surge = "rollingUpdateType: InPlaceIfPossible", "maxUnavailable: 1", "maxUnavailable: 0, maxSurge: 1"
	settled := func(count int, image string) func(context.Context, *chaos.World) error {
		return both(reconciled("DaemonSet", "agent", v1beta1.ReasonComplete), pods(count, image))
	}
	set := func(count int, image, rolling string) chaos.Step {
		return apply(daemonSet, settled(count, image), "IMAGE", image, "ROLLING", rolling, "LIFECYCLE", "", "FINALIZERS", "")
	}
	hooked := func(image string) chaos.Step {
		return apply(daemonSet, letting(settled(3, image)),
			"IMAGE", image, "ROLLING", recreate, "LIFECYCLE", "preDelete: {finalizersHandler: ["+hook+"]}", "FINALIZERS", hook)
	}
	three := []string{"a", "b", "c"}
	all := []chaos.Scenario{
		{Name: "nodes-come-and-go", Steps: []chaos.Step{
			withNodes(set(2, scenario.V1, recreate), true, "a", "b"),
			withNodes(chaos.Step{Settled: settled(4, scenario.V1)}, true, "c", "d"),
			withNodes(chaos.Step{Settled: settled(3, scenario.V1)}, false, "a"),
		}},
		{Name: "in-place", Steps: []chaos.Step{withNodes(set(3, scenario.V1, inPlace), true, three...), set(3, scenario.V2, inPlace)}},
		{Name: "recreate-and-roll-back", Steps: []chaos.Step{
			withNodes(set(3, scenario.V1, recreate), true, three...), set(3, scenario.V2, recreate), set(3, scenario.V1, recreate),
		}},
		{Name: "surge", Steps: []chaos.Step{withNodes(set(3, scenario.V1, surge), true, three...), set(3, scenario.V2, surge)}},
		{Name: "hooks", Steps: []chaos.Step{
			withNodes(hooked(scenario.V1), true, three...), hooked(scenario.V2),
			{Do: withNodes(chaos.Step{}, false, "a").Do, Settled: letting(settled(2, scenario.V2))},
		}},
		{Name: "paused", Steps: []chaos.Step{
			withNodes(set(3, scenario.V1, recreate), true, three...),
			apply(daemonSet, reconciled("DaemonSet", "agent", v1beta1.ReasonPaused),
				"IMAGE", scenario.V2, "ROLLING", recreate+", paused: true", "LIFECYCLE", "", "FINALIZERS", ""),
			set(3, scenario.V2, recreate+", paused: false"),
		}},
	}
	for i := range all {
		all[i].Kind, all[i].RandomNames = "DaemonSet", true
		most, beside := 1, 0
		switch all[i].Name {
		case "nodes-come-and-go": // a node that leaves takes its pod out of service, whoever updates
			most = 4
		case "surge":
			most, beside = 0, 1
		}
		all[i].Observe = func(w *chaos.World) { daemonsWithin(w, most, beside) }
	}
	return all
}

// daemonsWithin judges that at most most nodes are without service by the operator's hand,
// and at most one pod plus beside runs on a node.
func daemonsWithin(w *chaos.World, most, beside int) {
	living := map[string]map[types.UID]*corev1.Pod{} // by node
	taken := map[string]bool{}
	foreign := map[types.UID]bool{}
	w.Foreign = func(uids ...types.UID) {
		for _, uid := range uids {
			foreign[uid] = true
		}
	}
	serves := func(node string) bool {
		for _, pod := range living[node] {
			if environment.IsReady(pod) {
				return true
			}
		}
		return false
	}
	chaos.Follow(w, &corev1.PodList{}, func(object client.Object, deleted bool) error {
		pod, _ := object.(*corev1.Pod)
		node := nodefit.NodeOf(pod)
		if living[node] == nil {
			living[node] = map[types.UID]*corev1.Pod{}
		}
		before := serves(node)
		if deleted || pod.DeletionTimestamp != nil {
			delete(living[node], pod.UID)
		} else {
			living[node][pod.UID] = pod
		}
		switch after := serves(node); {
		case after:
			delete(taken, node)
		case before && !w.Plan.Disturbs():
			taken[node] = true
		}
		if len(taken) > most {
			return fmt.Errorf("nodes %v are without service, allowed are %d", taken, most)
		}
		if len(living[node]) > 1+beside {
			return fmt.Errorf("node %s has %d pods", node, len(living[node]))
		}
		return nil
	})
}

// unitedDeployment is a set over two subsets with workloads of a kind, TEMPLATE.
const unitedDeployment = `
apiVersion: apps.kruise.io/v1beta1
kind: UnitedDeployment
metadata: {name: app}
spec:
  replicas: REPLICAS
  selector: {matchLabels: {app: app}}
  template:
    TEMPLATE:
      metadata: {labels: {app: app}}
      spec:
        SPEC
        template:
          metadata: {labels: {app: app}}
          spec:
            terminationGracePeriodSeconds: 0
            containers: [{name: main, image: "IMAGE"}]
  topology:
    subsets: [SUBSETS]
  updateStrategy: {manualUpdate: {partitions: {PARTITIONS}}}
`

// unitedDeployments are scenarios of a UnitedDeployment.
func unitedDeployments() []chaos.Scenario {
	const (
		two      = "{name: a, replicas: 1}, {name: b}"
		moved    = "{name: a, replicas: 3}, {name: b}"
		three    = "{name: a}, {name: b}, {name: c}"
		clones   = "cloneSetTemplate"
		native   = "statefulSetTemplate"
		advanced = "updateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceIfPossible}}"
		service  = "serviceName: app"
	)
	step := func(template, spec, replicas, image, subsets, partitions string, settled func(context.Context, *chaos.World) error) chaos.Step {
		return apply(unitedDeployment, settled, "REPLICAS", replicas, "TEMPLATE", template, "SPEC", spec, "IMAGE", image,
			"SUBSETS", subsets, "PARTITIONS", partitions)
	}
	done := func(count int, image string) func(context.Context, *chaos.World) error {
		return both(reconciled("UnitedDeployment", "app", v1beta1.ReasonComplete), pods(count, image))
	}
	all := []chaos.Scenario{
		{Name: "subsets-move", Steps: []chaos.Step{
			step(clones, advanced, "4", scenario.V1, two, "", done(4, scenario.V1)),
			step(clones, advanced, "4", scenario.V1, moved, "", done(4, scenario.V1)),
			step(clones, advanced, "2", scenario.V1, two, "", done(2, scenario.V1)),
		}},
		{Name: "subsets-come-and-go", Steps: []chaos.Step{
			step(clones, advanced, "3", scenario.V1, "{name: a}, {name: b}", "", done(3, scenario.V1)),
			step(clones, advanced, "3", scenario.V1, three, "", done(3, scenario.V1)),
			step(clones, advanced, "3", scenario.V1, "{name: a}, {name: c}", "", done(3, scenario.V1)),
		}},
		{Name: "staged-update", Steps: []chaos.Step{
			step(native, service, "2", scenario.V1, two, "", done(2, scenario.V1)),
			step(native, service, "2", scenario.V2, two, "a: 0, b: 1", reconciled("UnitedDeployment", "app", v1beta1.ReasonPartitionReached)),
			step(native, service, "2", scenario.V2, two, "a: 0, b: 0", done(2, scenario.V2)),
			step(native, service, "2", scenario.V1, two, "a: 0, b: 0", done(2, scenario.V1)),
		}},
	}
	for i := range all {
		all[i].Kind, all[i].Kinds, all[i].RandomNames, all[i].Observe = "UnitedDeployment", []string{"UnitedDeployment", "CloneSet"}, true, oneWorkloadEach
	}
	return all
}

// oneWorkloadEach judges that no subset has two workloads at a time, and no staying one is
// replaced.
func oneWorkloadEach(w *chaos.World) {
	workloads, replaced := map[string]types.UID{}, map[string]int{}
	chaos.Follow(w, &v1beta1.CloneSetList{}, func(object client.Object, deleted bool) error {
		subset := object.GetLabels()["apps.kruise.io/subset-name"]
		before, found := workloads[subset]
		switch {
		case deleted && before == object.GetUID():
			delete(workloads, subset)
			replaced[subset]++
		case deleted:
		case found && before != object.GetUID():
			return fmt.Errorf("subset %s has a second workload, %s", subset, object.GetName())
		case !found && replaced[subset] > 0 && !w.Plan.Disturbs():
			return fmt.Errorf("the workload of subset %s was replaced by %s", subset, object.GetName())
		default:
			workloads[subset] = object.GetUID()
		}
		return nil
	})
}
