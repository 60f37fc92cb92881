// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podsettest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// toy is a workload as simple as can be: replicas pods at one image, replaced one by one.
type toy struct{ version, replicas int8 }

// toyPlanner is its planner. Each field is a mistake that an exploration has to find.
type toyPlanner struct {
	takesAll, waitsForBroken, spins, scribbles, deletesTwice, createsTooMany, neverRechecks, forgetsConditions, movesTwice bool
	minReady                                                                                                               time.Duration
}

func toyPod(i, version int8) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:        fmt.Sprintf("toy-%d", i),
			Labels:      map[string]string{shared.LabelControllerRevisionHash: fmt.Sprintf("toy-v%d", version)},
			Annotations: map[string]string{},
		},
		Spec: corev1.PodSpec{
			Containers:     []corev1.Container{{Name: "c", Image: fmt.Sprintf("toy:%d", version)}},
			ReadinessGates: []corev1.PodReadinessGate{{ConditionType: "ToyReady"}},
		},
	}
}

func toyGate() edit.Edit {
	var e edit.Edit
	e.SetCondition(corev1.PodCondition{Type: "ToyReady", Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(Now())})
	e.Fresh = true
	return e
}

func (p toyPlanner) step(w *State[toy]) (planning.Plan, toy) {
	var plan planning.Plan
	act := func(step planning.Step, pod *corev1.Pod, e edit.Edit, reason string) {
		plan.Actions = append(plan.Actions, planning.Action{Step: step, Object: pod, Change: e, Reason: reason})
	}
	replicas := w.Set.replicas
	if p.createsTooMany {
		replicas++
	}
	unavailable := 0
	for i := range replicas {
		pod := w.Pod(toyPod(i, 0).Name)
		if pod == nil {
			e := toyGate()
			if p.forgetsConditions {
				e = edit.Edit{}
			}
			act(podset.StepCreate, toyPod(i, w.Set.version), e, "Missing")
		}
		if pod == nil || !Available(pod, p.minReady) {
			unavailable++
		}
	}
	for i := range w.Pods {
		pod := w.Pods[i]
		if p.scribbles {
			pod.Labels["seen"] = "yes"
		}
		if !p.forgetsConditions && condition(pod, "ToyReady") != corev1.ConditionTrue && pod.DeletionTimestamp == nil {
			act(podset.StepEdit, pod, toyGate(), "Initialize")
			continue
		}
		if p.spins && pod.DeletionTimestamp == nil && serves(pod) {
			var e edit.Edit
			value := "a"
			if pod.Labels["turn"] == "a" {
				value = "b"
			}
			e.SetLabel("turn", value)
			act(podset.StepEdit, pod, e, "Spin")
			continue
		}
		current := pod.Labels[shared.LabelControllerRevisionHash] == fmt.Sprintf("toy-v%d", w.Set.version)
		if serves(pod) && !Available(pod, p.minReady) && !p.neverRechecks {
			plan.RecheckAfter = p.minReady
		}
		switch {
		case pod.DeletionTimestamp != nil && !p.deletesTwice, current:
		case !Available(pod, p.minReady) && p.waitsForBroken:
		case !Available(pod, p.minReady), p.takesAll, unavailable == 0:
			if Available(pod, p.minReady) {
				unavailable++
			}
			act(podset.StepDelete, pod, edit.Edit{}, "Outdated")
			if p.movesTwice {
				act(podset.StepEdit, pod, toyGate(), "Again")
			}
		}
	}
	return plan, w.Set
}

func toyExploration(p toyPlanner) Exploration[toy] {
	wanted := func(s toy) []string {
		var names []string
		for i := range s.replicas {
			names = append(names, toyPod(i, 0).Name)
		}
		return names
	}
	return Exploration[toy]{
		Start:   []*State[toy]{{Set: toy{version: 1, replicas: 2}}},
		Step:    p.step,
		Cluster: Cluster{Clock: p.minReady > 0, NeverReady: []string{"toy:2"}},
		Faults:  []Move{DeletePod}, Budget: Budget{Faults: 1, Edits: 2},
		Changes: func(w *State[toy]) []Change[toy] {
			to := w.Set
			to.version++
			return []Change[toy]{{Name: "next version", To: to, Edit: true}}
		},
		Always: []Invariant[toy]{
			AtMostUnavailable(func(s toy) Bounds { return Bounds{Wanted: wanted(s), Max: 1, MinReady: p.minReady} }),
			OnlyWanted(wanted),
			OneActionEach[toy](),
			OnlyNeededChanges(func(w *State[toy], pod *corev1.Pod) bool {
				return pod.Labels[shared.LabelControllerRevisionHash] != fmt.Sprintf("toy-v%d", w.Set.version)
			}),
		},
		Goal: func(w *State[toy], plan planning.Plan) bool {
			return w.Set.version == 2 || toyGoal(w, p.minReady) == nil
		},
	}
}

func toyGoal(w *State[toy], minReady time.Duration) error {
	if len(w.Pods) != int(w.Set.replicas) {
		return fmt.Errorf("%d pods", len(w.Pods))
	}
	for _, pod := range w.Pods {
		if !Available(pod, minReady) || !Runs(pod, fmt.Sprintf("toy-v%d", w.Set.version), &corev1.PodTemplateSpec{Spec: toyPod(0, w.Set.version).Spec}) {
			return fmt.Errorf("not there yet: %s", Describe(pod))
		}
	}
	return nil
}

func TestExploration(t *testing.T) {
	cases := map[string]struct {
		planner toyPlanner
		want    string // part of the failure; none if empty
	}{
		"a planner without mistakes":                   {},
		"a planner without mistakes that has to wait":  {planner: toyPlanner{minReady: time.Minute}},
		"takes all pods at once":                       {toyPlanner{takesAll: true}, "never more unavailable than allowed: toy-"},
		"waits for what never becomes ready":           {toyPlanner{waitsForBroken: true}, "no goal can be reached"},
		"goes on writing":                              {toyPlanner{spins: true}, "turns in circles"},
		"changes what it was given to read":            {toyPlanner{scribbles: true}, "changed a pod that it was given"},
		"deletes pods that are terminating":            {toyPlanner{deletesTwice: true}, "is being deleted already"},
		"creates a pod that nobody wants":              {toyPlanner{createsTooMany: true}, "no pod is created that nobody wants: pod toy-2"},
		"does not ask to look again":                   {toyPlanner{neverRechecks: true, minReady: time.Minute}, "nothing asks to look again"},
		"never gives a pod the conditions of its gate": {toyPlanner{forgetsConditions: true}, "no goal can be reached"},
		"does two things to one pod":                   {toyPlanner{movesTwice: true}, "one action for each pod: Delete and Edit for pod toy-"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			result := toyExploration(tc.planner).Run()
			t.Log(result)
			if tc.want == "" && result.Failure != "" || !strings.Contains(result.Failure, tc.want) {
				t.Errorf("want %q, got: %s", tc.want, result.Failure)
			}
			if tc.want == "" && (result.States < 100 || result.Cut > 0) {
				t.Errorf("too little was explored: %s", result)
			}
		})
	}
}

func TestExplorationSaysWhatWasCut(t *testing.T) {
	e := toyExploration(toyPlanner{})
	e.MaxStates = 50
	result := e.Run()
	if result.States != 50 || result.Cut == 0 || result.Failure != "" {
		t.Errorf("got %s, %s", result, result.Failure)
	}
}

func TestExplorationAsksWhatIsLeftUndone(t *testing.T) {
	e := toyExploration(toyPlanner{})
	e.Resting = func(*State[toy]) error { return errors.New("something is left") }
	if result := e.Run(); !strings.Contains(result.Failure, "nothing is planned, but something is left") {
		t.Errorf("got %s", result.Failure)
	}
}

func TestExplorationIsTheSameEachTime(t *testing.T) {
	one, three := toyExploration(toyPlanner{waitsForBroken: true}), toyExploration(toyPlanner{waitsForBroken: true})
	one.Workers, three.Workers = 1, 3
	a, b := one.Run(), three.Run()
	if a.Failure != b.Failure || a.States != b.States || a.Transitions != b.Transitions {
		t.Errorf("with one worker: %s\n%s\nwith three: %s\n%s", a, a.Failure, b, b.Failure)
	}
}

func TestNamesThatMeanNothing(t *testing.T) {
	// A set whose pods mean nothing: any name will do, so the planner creates the first free one.
	step := func(w *State[toy]) (planning.Plan, toy) {
		var plan planning.Plan
		for i := int8(0); len(w.Pods)+len(plan.Actions) < int(w.Set.replicas); i++ {
			if pod := toyPod(i, 1); w.Pod(pod.Name) == nil {
				pod.Spec.ReadinessGates = nil
				plan.Actions = append(plan.Actions, planning.Action{Step: podset.StepCreate, Object: pod})
			}
		}
		return plan, w.Set
	}
	e := Exploration[toy]{
		Start: []*State[toy]{{Set: toy{version: 1, replicas: 3}}}, Step: step, Faults: []Move{DeletePod, Crash}, Budget: Budget{Faults: 2},
		Goal: func(w *State[toy], _ planning.Plan) bool { return toyGoal(w, 0) == nil },
	}
	all := e.Run()
	e.Rename = func(pod *corev1.Pod, i int) {
		pod.Name = toyPod(int8(i), 1).Name
		pod.UID = UIDOf(pod.Name)
	}
	fewer := e.Run()
	if all.Failure != "" || fewer.Failure != "" {
		t.Fatalf("%s\n%s", all.Failure, fewer.Failure)
	}
	t.Log(all, fewer)
	CompareWithNames(t, e)
	if fewer.States*3 > all.States || fewer.States < 10 {
		t.Errorf("%d states with names, %d without", all.States, fewer.States)
	}
	e.MaxTerminating = 1
	hurried := e.Run()
	if t.Log(hurried); hurried.Failure != "" || hurried.Hurried == 0 || hurried.States >= fewer.States {
		t.Errorf("with one terminating pod at most: %d of %d states, %d steps hurried\n%s", hurried.States, fewer.States, hurried.Hurried, hurried.Failure)
	}
}

func TestReductionLosesNothing(t *testing.T) {
	CompareWithPlain(t, toyExploration(toyPlanner{}))
	CompareWithPlain(t, toyExploration(toyPlanner{minReady: time.Minute}))
}

// TestComparingFindsLosses compares explorations one of which has fewer faults: states are missing.
func TestComparingFindsLosses(t *testing.T) {
	all, fewer := toyExploration(toyPlanner{}), toyExploration(toyPlanner{})
	fewer.Budget.Faults = 0
	all.KeepFingerprints, fewer.KeepFingerprints = true, true
	a, b := all.Run(), fewer.Run()
	if lost, more := missing(a.Fingerprints, b.Fingerprints), missing(b.Fingerprints, a.Fingerprints); lost == 0 || more > 0 {
		t.Errorf("%d states are missing without faults, %d are new", lost, more)
	}
}

func TestBudgetMatters(t *testing.T) {
	last := 0
	for n := range int8(3) {
		e := toyExploration(toyPlanner{})
		e.Budget.Faults = n
		result := e.Run()
		if result.Failure != "" || result.States <= last {
			t.Errorf("%d faults: %s %s", n, result, result.Failure)
		}
		last = result.States
	}
}

func TestTooManyOrdersBeginAndEndWithEachPod(t *testing.T) {
	numbers := []markedClass{1, 2, 3, 3, 4}
	orders, all := ordersOf(numbers, 6)
	if all || !slices.Equal(orders[0], numbers) {
		t.Errorf("all: %t, first: %v", all, orders[0])
	}
	first, last := map[markedClass]bool{}, map[markedClass]bool{}
	for i, order := range orders {
		first[order[0]], last[order[len(order)-1]] = true, true
		if slices.ContainsFunc(orders[:i], func(known []markedClass) bool { return slices.Equal(known, order) }) {
			t.Errorf("%v comes twice", order)
		}
	}
	if len(first) != 4 || len(last) != 4 {
		t.Errorf("of four kinds %d come first and %d last", len(first), len(last))
	}
	if orders, all := ordersOf(numbers, 60); !all || len(orders) != 60 {
		t.Errorf("%d orders, all: %t", len(orders), all)
	}
}

func TestNextOrderVisitsEachOnce(t *testing.T) {
	numbers, orders := []markedClass{1, 2, 2, 3}, map[string]bool{}
	for more := true; more; more = nextOrder(numbers) {
		orders[fmt.Sprint(numbers)] = true
	}
	if len(orders) != 12 {
		t.Errorf("%d orders of four numbers two of which are equal, there are 12: %v", len(orders), orders)
	}
}

func toyScenario(p toyPlanner) Scenario[toy] {
	e := toyExploration(p)
	return Scenario[toy]{
		Name: "replaces two pods one by one", Start: &State[toy]{Set: toy{version: 1, replicas: 2}}, Step: p.step, Cluster: e.Cluster, Always: e.Always,
		Acts: []Act[toy]{
			{Name: "the next version", Do: func(w *State[toy]) error { w.Set.version = 3; return nil }},
			{Name: "a pod is deleted by hand", Do: func(w *State[toy]) error { return Do(w, e.Cluster, "toy-0", DeletePod) }},
		},
		End: func(w *State[toy]) error { return toyGoal(w, p.minReady) },
	}
}

func TestScenario(t *testing.T) {
	Run(t, toyScenario(toyPlanner{minReady: time.Minute}), 50)
}

func TestScenarioFindsMistakes(t *testing.T) {
	if text, err := toyScenario(toyPlanner{takesAll: true}).run(); err == nil || !strings.Contains(err.Error(), "never more unavailable") {
		t.Errorf("got %v\n%s", err, text)
	}
	if _, err := toyScenario(toyPlanner{spins: true}).run(); !errors.Is(err, errNoRest) {
		t.Errorf("got %v", err)
	}
	if _, err := toyScenario(toyPlanner{neverRechecks: true, minReady: time.Minute}).run(); err == nil {
		t.Error("nobody looked again, and all is well")
	}
}
