// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"os"
	"testing"

	lua "github.com/yuin/gopher-lua"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// rollout is one with two steps: the first waits for its user, the second for a minute.
func rollout(t *testing.T, status string) map[string]any {
	t.Helper()
	return parse(t, `{apiVersion: rollouts.kruise.io/v1beta1, kind: Rollout, metadata: {name: web, namespace: default, generation: 3},
  spec: {workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}, strategy: {canary: {steps: [{replicas: 1}, {replicas: 50%, pause: {duration: 60}}]}}}, status: {`+status+`}}`)
}

func TestArgoCDUnderstandsRollouts(t *testing.T) {
	check := ourChecks(t)["Rollout"]
	const inSteps = `observedGeneration: 3, phase: Progressing, conditions: [{type: Progressing, status: "True", reason: InRolling}, {type: Stalled, status: "False"}], `
	for name, tc := range map[string]struct{ status, want string }{
		"healthy":                   {`observedGeneration: 3, phase: Healthy`, "Healthy"},
		"not seen":                  {`observedGeneration: 2, phase: Healthy`, "Progressing"},
		"without its workload":      {`observedGeneration: 3, phase: Initial`, "Progressing"},
		"disabled":                  {`observedGeneration: 3, phase: Disabled`, "Suspended"},
		"replacing pods":            {inSteps + `currentStepIndex: 1, currentStepState: StepUpgrade`, "Progressing"},
		"waiting for its user":      {inSteps + `currentStepIndex: 1, currentStepState: StepPaused`, "Suspended"},
		"waiting for a minute":      {inSteps + `currentStepIndex: 2, currentStepState: StepPaused`, "Progressing"},
		"paused":                    {`observedGeneration: 3, phase: Progressing, conditions: [{type: Progressing, status: "True", reason: Paused}]`, "Suspended"},
		"with a deadline that went": {`observedGeneration: 3, phase: Progressing, conditions: [{type: Stalled, status: "True", reason: ProgressDeadlineExceeded}]`, "Degraded"},
	} {
		if got := judge(t, check, rollout(t, tc.status)); got != tc.want {
			t.Errorf("a Rollout %s: Argo CD says %s, want %s", name, got, tc.want)
		}
	}
}

// rolloutActions are those of Rollouts, by name, and which of them Argo CD offers.
func rolloutActions(t *testing.T) (discovery string, actions map[string]string) {
	t.Helper()
	text, err := os.ReadFile("../../../config/argocd/argocd-cm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	config := &corev1.ConfigMap{}
	if err := yaml.UnmarshalStrict(text, config); err != nil {
		t.Fatal(err)
	}
	parsed := struct {
		Discovery   string `json:"discovery.lua"`
		Definitions []struct {
			Name string `json:"name"`
			Text string `json:"action.lua"`
		} `json:"definitions"`
	}{}
	if err := yaml.UnmarshalStrict([]byte(config.Data["resource.customizations.actions.rollouts.kruise.io_Rollout"]), &parsed); err != nil {
		t.Fatal(err)
	}
	actions = map[string]string{}
	for _, d := range parsed.Definitions {
		actions[d.Name] = d.Text
	}
	return parsed.Discovery, actions
}

// returned runs a script of Argo CD on an object, and returns its table.
func returned(t *testing.T, script string, object map[string]any) *lua.LTable {
	t.Helper()
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	t.Cleanup(state.Close)
	state.SetGlobal("obj", value(state, object))
	if err := state.DoString(script); err != nil {
		t.Fatal(err)
	}
	table, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		t.Fatalf("the script returned %v", state.Get(-1))
	}
	return table
}

func TestActionsOfRolloutsInArgoCD(t *testing.T) {
	discovery, actions := rolloutActions(t)
	waits := rollout(t, `phase: Progressing, currentStepState: StepPaused, canaryStatus: {currentStepIndex: 1, currentStepState: StepPaused}`)
	offered := func(object map[string]any, action string) bool {
		t.Helper()
		answer, ok := returned(t, discovery, object).RawGetString(action).(*lua.LTable)
		if !ok {
			t.Fatalf("no action %s", action)
		}
		return answer.RawGetString("disabled") == lua.LFalse
	}
	if !offered(waits, "approve") || !offered(waits, "pause") || offered(waits, "resume") {
		t.Error("a step that waits: want approve and pause")
	}
	if offered(rollout(t, `phase: Progressing, currentStepState: StepUpgrade`), "approve") {
		t.Error("a step at work can be approved")
	}
	paused := rollout(t, `phase: Progressing`)
	if err := unstructured.SetNestedField(paused, true, "spec", "strategy", "paused"); err != nil {
		t.Fatal(err)
	}
	if !offered(paused, "resume") || offered(paused, "pause") {
		t.Error("a paused Rollout: want resume alone")
	}
	field := func(table *lua.LTable, path ...string) lua.LValue {
		for _, name := range path[:len(path)-1] {
			table = table.RawGetString(name).(*lua.LTable)
		}
		return table.RawGetString(path[len(path)-1])
	}
	if got := field(returned(t, actions["approve"], waits), "status", "canaryStatus", "currentStepState"); got.String() != "StepReady" {
		t.Errorf("approve writes %s", got)
	}
	twins := rollout(t, `phase: Progressing, currentStepState: StepPaused, blueGreenStatus: {currentStepIndex: 1, currentStepState: StepPaused}`)
	if got := field(returned(t, actions["approve"], twins), "status", "blueGreenStatus", "currentStepState"); got.String() != "StepReady" {
		t.Errorf("approve of two sets of pods writes %s", got)
	}
	if got := field(returned(t, actions["pause"], waits), "spec", "strategy", "paused"); got != lua.LTrue {
		t.Errorf("pause writes %s", got)
	}
	if got := field(returned(t, actions["resume"], paused), "spec", "strategy", "paused"); got != lua.LFalse {
		t.Errorf("resume writes %s", got)
	}
}
