// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package health has other tools judge the operator's statuses: kstatus with its own
// library, and Argo CD with its own checks and those we ship for it.
package health

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	lua "github.com/yuin/gopher-lua"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/controllers"
)

// argoCD is the version with the checks.
const argoCD = "github.com/argoproj/argo-cd/v3@v3.1.0"

// Parts of statuses as the operator writes them.
const (
	atRest = `observedGeneration: 3, replicas: 4, updatedReplicas: 4, readyReplicas: 4, availableReplicas: 4, updatedReadyReplicas: 4, updatedAvailableReplicas: 4, expectedUpdatedReplicas: 4,
    conditions: [{type: Available, status: "True", message: enough}, {type: Reconciling, status: "False", reason: Complete}, {type: Stalled, status: "False", reason: NotStalled}]`
	atPartition = `observedGeneration: 3, replicas: 4, updatedReplicas: 2, readyReplicas: 4, availableReplicas: 4, updatedReadyReplicas: 2, updatedAvailableReplicas: 2, expectedUpdatedReplicas: 2,
    conditions: [{type: Available, status: "True", message: enough}, {type: Reconciling, status: "False", reason: PartitionReached}, {type: Stalled, status: "False", reason: NotStalled}]`
	underWay = `observedGeneration: 3, replicas: 4, updatedReplicas: 1, readyReplicas: 4, availableReplicas: 4, updatedReadyReplicas: 1, updatedAvailableReplicas: 1, expectedUpdatedReplicas: 4,
    conditions: [{type: Available, status: "True", message: enough}, {type: Reconciling, status: "True", reason: RollingOut, message: 3 pods wait}, {type: Stalled, status: "False", reason: NotStalled}]`
	stalled = `observedGeneration: 3, replicas: 4, updatedReplicas: 0, readyReplicas: 4, availableReplicas: 4, updatedReadyReplicas: 0, updatedAvailableReplicas: 0, expectedUpdatedReplicas: 4,
    conditions: [{type: Available, status: "True", message: enough}, {type: Reconciling, status: "False", reason: InvalidTemplate}, {type: Stalled, status: "True", reason: InvalidTemplate, message: the template}]`
)

// unasked is for kinds without a look at Argo CD's own check.
const unasked = "unasked"

// judged is an object and others' verdicts.
type judged struct {
	kind, version, strategy, status string
	generation                      string // 3 when empty
	kstatus                         kstatus.Status
	argo                            string
	// theirs is the verdict of Argo CD's own check; "error" when it fails.
	theirs string
}

// jobs are objects that begin and end, and others without pods of their own to roll out.
func jobs() map[string]judged {
	const progressing, degraded, healthy = "Progressing", "Degraded", "Healthy"
	cases := map[string]judged{}
	for name, of := range map[string]struct {
		kinds, reconciling, stalled, more string
		kstatus                           kstatus.Status
		argo                              string
	}{
		"that works": {
			kinds:       "BroadcastJob ImagePullJob ImageListPullJob EphemeralJob ContainerRecreateRequest PodProbeMarker PodUnavailableBudget AdvancedCronJob ResourceDistribution WorkloadSpread PersistentPodState TrafficRouting",
			reconciling: `status: "True", reason: RunningPods`, stalled: `status: "False"`, kstatus: kstatus.InProgressStatus, argo: progressing,
		},
		"that is in force": {
			kinds:       "PodUnavailableBudget TrafficRouting",
			reconciling: `status: "False", reason: InForce`, stalled: `status: "False"`, kstatus: kstatus.CurrentStatus, argo: healthy,
		},
		"that is done": {
			kinds:       "BroadcastJob ImagePullJob ImageListPullJob EphemeralJob ContainerRecreateRequest PodProbeMarker ResourceDistribution WorkloadSpread PersistentPodState",
			reconciling: `status: "False", reason: Complete`, stalled: `status: "False"`, more: `, {type: Complete, status: "True"}`, kstatus: kstatus.CurrentStatus, argo: healthy,
		},
		"that has failed": {
			kinds:       "BroadcastJob ImagePullJob ImageListPullJob EphemeralJob ContainerRecreateRequest",
			reconciling: `status: "False", reason: Failed`, stalled: `status: "True", reason: Failed`, kstatus: kstatus.FailedStatus, argo: degraded,
		},
		"that needs its user": {
			kinds:       "BroadcastJob ImagePullJob ImageListPullJob EphemeralJob ContainerRecreateRequest PodProbeMarker PodUnavailableBudget AdvancedCronJob ResourceDistribution WorkloadSpread PersistentPodState TrafficRouting",
			reconciling: `status: "False", reason: InvalidSpec`, stalled: `status: "True", reason: InvalidSpec`, kstatus: kstatus.FailedStatus, argo: degraded,
		},
		"that a failure has paused": {
			kinds: "BroadcastJob", reconciling: `status: "False", reason: PausedByFailure`, stalled: `status: "True", reason: PausedByFailure`,
			kstatus: kstatus.FailedStatus, argo: degraded,
		},
		"that is paused": {
			kinds: "BroadcastJob EphemeralJob AdvancedCronJob", reconciling: `status: "False", reason: Paused`, stalled: `status: "False"`, kstatus: kstatus.CurrentStatus, argo: "Suspended",
		},
		"that is paused while pods are at work": {
			kinds: "BroadcastJob EphemeralJob", reconciling: `status: "True", reason: Paused`, stalled: `status: "False"`, kstatus: kstatus.InProgressStatus, argo: "Suspended",
		},
		"that waits for its next run": {
			kinds: "AdvancedCronJob", reconciling: `status: "False", reason: Scheduled`, stalled: `status: "False"`, kstatus: kstatus.CurrentStatus, argo: healthy,
		},
		"whose next run waits": {
			kinds: "AdvancedCronJob", reconciling: `status: "True", reason: RunActive`, stalled: `status: "False"`, kstatus: kstatus.InProgressStatus, argo: healthy,
		},
		"whose next run starts": {
			kinds: "AdvancedCronJob", reconciling: `status: "True", reason: Starting`, stalled: `status: "False"`, kstatus: kstatus.InProgressStatus, argo: healthy,
		},
	} {
		for _, kind := range strings.Fields(of.kinds) {
			cases[kind+" "+name] = judged{
				kind: kind, version: "v1beta1", kstatus: of.kstatus, argo: of.argo, theirs: unasked,
				status: `observedGeneration: 3, conditions: [{type: Reconciling, ` + of.reconciling + `}, {type: Stalled, ` + of.stalled + `}` + of.more + `]`,
			}
		}
	}
	for _, kind := range []string{"BroadcastJob", "AdvancedCronJob"} {
		cases[kind+" that was changed"] = judged{
			kind: kind, version: "v1beta1", kstatus: kstatus.InProgressStatus, argo: progressing, theirs: unasked, generation: "4",
			status: `observedGeneration: 3, conditions: [{type: Reconciling, status: "False", reason: Scheduled}]`,
		}
		cases[kind+" that nobody has seen"] = judged{
			kind: kind, version: "v1beta1", kstatus: kstatus.InProgressStatus, argo: progressing, theirs: unasked,
			status: `observedGeneration: 0`,
		}
	}
	return cases
}

// leftAlone are objects the operator does nothing for, so nobody has counted anything for
// the present spec: the status is about an earlier one, or has only conditions. With our
// check Argo CD called the latest change unobserved for ever.
func leftAlone(t *testing.T) map[string]judged {
	t.Helper()
	cases := map[string]judged{}
	for kind := range ourChecks(t) {
		for reason, argo := range map[string]string{"ReconciliationPaused": "Suspended", "RightsMissing": "Degraded", "Undecodable": "Degraded", "RequestFailed": "Degraded"} {
			conditions := `conditions: [{type: Reconciling, status: "False", reason: ` + reason + `}, {type: Stalled, status: "True", reason: ` + reason + `}]`
			cases["a new "+kind+" with "+reason] = judged{
				kind: kind, version: "v1beta1", kstatus: kstatus.FailedStatus, argo: argo, theirs: unasked, generation: "1", status: conditions,
			}
			if reason == "RequestFailed" {
				argo = "Progressing" // That was about the spec before.
			}
			cases["a changed "+kind+" with "+reason] = judged{
				kind: kind, version: "v1beta1", kstatus: kstatus.InProgressStatus, argo: argo, theirs: unasked, generation: "4", status: `observedGeneration: 3, ` + conditions,
			}
		}
		cases["a "+kind+" that was seen with ReconciliationPaused"] = judged{
			kind: kind, version: "v1beta1", kstatus: kstatus.FailedStatus, argo: "Suspended", theirs: unasked,
			status: `observedGeneration: 3, conditions: [{type: Reconciling, status: "False"}, {type: Stalled, status: "True", reason: ReconciliationPaused}]`,
		}
		cases["a "+kind+" of which nothing is known"] = judged{
			kind: kind, version: "v1beta1", kstatus: kstatus.CurrentStatus, argo: "Progressing", theirs: unasked, generation: "1", status: `conditions: []`,
		}
	}
	cases["a UnitedDeployment whose template pauses updates"] = judged{
		kind: "UnitedDeployment", version: "v1beta1", kstatus: kstatus.CurrentStatus, argo: "Suspended", theirs: unasked,
		status: `observedGeneration: 3, conditions: [{type: Reconciling, status: "False", reason: Paused}, {type: Stalled, status: "False"}]`,
	}
	return cases
}

// TestEveryKindHasAHealthCheck: Argo CD takes an object without a check for healthy.
func TestEveryKindHasAHealthCheck(t *testing.T) {
	without := map[string]string{
		"Kruise":       "it configures the operator, and its conditions Available and Stalled say how that went",
		"NodeImage":    "the operator makes it for each node",
		"NodePodProbe": "the operator makes it for each node",
		"BatchRelease": "a Rollout makes it, and says how it goes",
	}
	checks := ourChecks(t)
	for _, kind := range controllers.Table() {
		if reason := without[kind.Name]; (checks[kind.Name] == "") != (reason != "") {
			t.Errorf("%s has a check of %d bytes, and the reason to have none is %q", kind.Name, len(checks[kind.Name]), reason)
		}
		delete(checks, kind.Name)
	}
	for kind := range checks {
		t.Errorf("%s has a check, and there is no such kind", kind)
	}
}

func TestOtherToolsUnderstandTheStatus(t *testing.T) {
	const cloneSet, statefulSet = "CloneSet", "StatefulSet"
	cases := map[string]judged{
		"a CloneSet of v1beta1 that was changed": {
			kind: cloneSet, version: "v1beta1", strategy: `type: RollingUpdate, rollingUpdate: {partition: 0}`, status: atRest,
			kstatus: kstatus.CurrentStatus, argo: "Healthy", theirs: "Suspended",
		},
		"a CloneSet of v1alpha1 that was changed": {
			kind: cloneSet, version: "v1alpha1", strategy: `type: InPlaceIfPossible, partition: 0`, status: atRest,
			kstatus: kstatus.CurrentStatus, argo: "Healthy", theirs: "Healthy",
		},
		"a CloneSet at its partition": {
			kind: cloneSet, version: "v1beta1", strategy: `type: RollingUpdate, rollingUpdate: {partition: 2}`, status: atPartition,
			kstatus: kstatus.CurrentStatus, argo: "Healthy", theirs: "Suspended",
		},
		"a CloneSet that is rolled out": {
			kind: cloneSet, version: "v1beta1", strategy: `type: RollingUpdate, rollingUpdate: {partition: 0}`, status: underWay,
			kstatus: kstatus.InProgressStatus, argo: "Progressing", theirs: "Progressing",
		},
		"a CloneSet with OnDelete": {
			kind: cloneSet, version: "v1beta1", strategy: `type: OnDelete`, status: atRest,
			kstatus: kstatus.CurrentStatus, argo: "Healthy", theirs: "Suspended",
		},
		"a CloneSet that is paused": {
			kind: cloneSet, version: "v1beta1", strategy: `type: RollingUpdate, rollingUpdate: {paused: true}`, status: atRest,
			kstatus: kstatus.CurrentStatus, argo: "Suspended", theirs: "Suspended",
		},
		"a CloneSet of v1alpha1 that is paused": {
			kind: cloneSet, version: "v1alpha1", strategy: `type: ReCreate, paused: true`, status: atRest,
			kstatus: kstatus.CurrentStatus, argo: "Suspended", theirs: "Suspended",
		},
		"a CloneSet that cannot go on": {
			kind: cloneSet, version: "v1beta1", strategy: `type: RollingUpdate, rollingUpdate: {partition: 0}`, status: stalled,
			kstatus: kstatus.FailedStatus, argo: "Degraded", theirs: "Progressing",
		},
		"a StatefulSet that was changed": {
			kind: statefulSet, version: "v1beta1", strategy: `type: RollingUpdate, rollingUpdate: {partition: 0}`, status: atRest,
			kstatus: kstatus.CurrentStatus, argo: "Healthy", theirs: "Healthy",
		},
		"a StatefulSet with OnDelete": {
			kind: statefulSet, version: "v1beta1", strategy: `type: OnDelete`, status: atRest,
			kstatus: kstatus.CurrentStatus, argo: "Healthy", theirs: "error",
		},
		"a StatefulSet at its partition": {
			kind: statefulSet, version: "v1beta1", strategy: `type: RollingUpdate, rollingUpdate: {partition: 2}`, status: atPartition,
			kstatus: kstatus.CurrentStatus, argo: "Healthy", theirs: "Progressing",
		},
		"a StatefulSet that is rolled out": {
			kind: statefulSet, version: "v1beta1", strategy: `type: RollingUpdate, rollingUpdate: {partition: 0}`, status: underWay,
			kstatus: kstatus.InProgressStatus, argo: "Progressing", theirs: "Degraded",
		},
		"a StatefulSet that cannot go on": {
			kind: statefulSet, version: "v1beta1", strategy: `type: RollingUpdate, rollingUpdate: {partition: 0}`, status: stalled,
			kstatus: kstatus.FailedStatus, argo: "Degraded", theirs: "Degraded",
		},
		"a change that nobody has seen yet": {
			kind: statefulSet, version: "v1beta1", strategy: `type: OnDelete`, status: atRest, generation: "4",
			kstatus: kstatus.InProgressStatus, argo: "Progressing", theirs: "Progressing",
		},
	}
	for kind, counters := range map[string]string{
		"DaemonSet":        `currentNumberScheduled: 4, desiredNumberScheduled: 4, updatedNumberScheduled: %d, numberReady: 4, numberAvailable: 4`,
		"SidecarSet":       `matchedPods: 4, updatedPods: %d, readyPods: 4, updatedReadyPods: %[1]d`,
		"UnitedDeployment": `replicas: 4, readyReplicas: 4, updatedReplicas: %d, updatedReadyReplicas: %[1]d`,
	} {
		for name, of := range map[string]struct {
			updated                    int
			strategy                   string
			kstatus                    kstatus.Status
			argo, reconciling, stalled string
		}{
			"at rest":           {updated: 4, kstatus: kstatus.CurrentStatus, argo: "Healthy", reconciling: "False", stalled: "False"},
			"at its partition":  {updated: 2, kstatus: kstatus.CurrentStatus, argo: "Healthy", reconciling: "False", stalled: "False"},
			"rolled out":        {updated: 1, kstatus: kstatus.InProgressStatus, argo: "Progressing", reconciling: "True", stalled: "False"},
			"that cannot go on": {updated: 1, kstatus: kstatus.FailedStatus, argo: "Degraded", reconciling: "False", stalled: "True"},
			"not seen yet":      {updated: 4, kstatus: kstatus.InProgressStatus, argo: "Progressing", reconciling: "False", stalled: "False"},
			"paused":            {updated: 4, strategy: `paused: true, rollingUpdate: {paused: true}`, kstatus: kstatus.CurrentStatus, argo: "Suspended", reconciling: "False", stalled: "False"},
		} {
			if name == "paused" && kind == "UnitedDeployment" {
				continue // It has no such field.
			}
			tc := cases[""]
			tc.kind, tc.version, tc.strategy, tc.kstatus, tc.argo, tc.theirs = kind, "v1beta1", of.strategy, of.kstatus, of.argo, unasked
			tc.status = `observedGeneration: 3, ` + fmt.Sprintf(counters, of.updated) + `,
    conditions: [{type: Reconciling, status: "` + of.reconciling + `", reason: R}, {type: Stalled, status: "` + of.stalled + `", reason: R}]`
			if name == "not seen yet" {
				tc.generation = "4"
			}
			cases["a "+kind+" "+name] = tc
		}
	}
	for name, tc := range jobs() {
		cases[name] = tc
	}
	for name, tc := range leftAlone(t) {
		cases[name] = tc
	}
	ours, theirs := ourChecks(t), theirChecks(t)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			generation := tc.generation
			if generation == "" {
				generation = "3"
			}
			object := parse(t, `{apiVersion: apps.kruise.io/`+tc.version+`, kind: `+tc.kind+`, metadata: {name: web, namespace: default, generation: `+generation+`},
  spec: {replicas: 4, updateStrategy: {`+tc.strategy+`}}, status: {`+tc.status+`}}`)
			result, err := kstatus.Compute(&unstructured.Unstructured{Object: object})
			if err != nil {
				t.Fatal(err)
			}
			if result.Status != tc.kstatus {
				t.Errorf("kstatus says %s, want %s", result.Status, tc.kstatus)
			}
			if got := judge(t, ours[tc.kind], object); got != tc.argo {
				t.Errorf("Argo CD says %s with our check, want %s", got, tc.argo)
			}
			if tc.theirs == unasked {
				return
			}
			if got := judge(t, theirs[tc.kind], object); got != tc.theirs {
				t.Errorf("Argo CD says %s with its own check, want %s: if that is right now, ours may go", got, tc.theirs)
			}
		})
	}
}

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	object := &unstructured.Unstructured{}
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if err := object.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return object.Object
}

// ourChecks are the checks in config/argocd, by kind.
func ourChecks(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "argocd", "argocd-cm.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	config := &corev1.ConfigMap{}
	if err := yaml.UnmarshalStrict(text, config); err != nil {
		t.Fatal(err)
	}
	checks := map[string]string{}
	for key, check := range config.Data {
		group, kind, found := strings.Cut(strings.TrimPrefix(key, "resource.customizations.health."), ".kruise.io_")
		if strings.HasPrefix(key, "resource.customizations.actions.") {
			continue
		}
		if !found || group != "apps" && group != "policy" && group != "rollouts" {
			t.Errorf("the key %s is none of Argo CD's", key)
		}
		checks[kind] = check
	}
	return checks
}

// theirChecks are Argo CD's, read from its own module.
func theirChecks(t *testing.T) map[string]string {
	t.Helper()
	download := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", argoCD)
	download.Dir = t.TempDir() // so that no go.mod is changed
	text, err := download.Output()
	if err != nil {
		t.Fatalf("downloading %s: %v: %s", argoCD, err, text)
	}
	module := struct{ Dir string }{}
	if err := json.Unmarshal(text, &module); err != nil {
		t.Fatal(err)
	}
	checks := map[string]string{}
	for _, kind := range []string{"CloneSet", "StatefulSet"} {
		check, err := os.ReadFile(filepath.Join(module.Dir, "resource_customizations", "apps.kruise.io", kind, "health.lua"))
		if err != nil {
			t.Fatal(err)
		}
		checks[kind] = string(check)
	}
	return checks
}

// judge runs a check on an object as Argo CD does and returns the health, or "error".
func judge(t *testing.T, check string, object map[string]any) string {
	t.Helper()
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable, lua.StringLibName: lua.OpenString} {
		state.Push(state.NewFunction(open))
		state.Push(lua.LString(name))
		state.Call(1, 0)
	}
	state.SetGlobal("obj", value(state, object))
	if err := state.DoString(check); err != nil {
		return "error"
	}
	result, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		t.Fatalf("the check returned %v", state.Get(-1))
	}
	return result.RawGetString("status").String()
}

// value is a JSON value in Lua.
func value(state *lua.LState, v any) lua.LValue {
	switch v := v.(type) {
	case map[string]any:
		table := state.NewTable()
		for key, member := range v {
			table.RawSetString(key, value(state, member))
		}
		return table
	case []any:
		table := state.NewTable()
		for _, item := range v {
			table.Append(value(state, item))
		}
		return table
	case string:
		return lua.LString(v)
	case bool:
		return lua.LBool(v)
	case int64:
		return lua.LNumber(v)
	case float64:
		return lua.LNumber(v)
	default:
		return lua.LNil
	}
}
