// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package probing

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func probeOf(success, failure, delay int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:     corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}},
		SuccessThreshold: success, FailureThreshold: failure, InitialDelaySeconds: delay,
	}
}

// TestMachineFollowsItsTable goes through runs of tries: each letter is one, a second apart. s and f succeed and fail, e cannot be made; n is
// another container, x one that does not run, - none at all; d defines the probe anew, t only its times.
func TestMachineFollowsItsTable(t *testing.T) {
	cases := map[string]struct {
		success, failure, delay int32
		tries, states           string
	}{
		"the first result counts as all others do":        {1, 3, 0, "s", "S"},
		"nothing is known before the threshold":           {2, 3, 0, "sff", "..."},
		"as many failures as failureThreshold asks for":   {1, 3, 0, "sffff", "SSSFF"},
		"a success in between begins the row again":       {1, 3, 0, "sffsfff", "SSSSSSF"},
		"as many successes as successThreshold asks for":  {3, 1, 0, "fssfsss", "FFFFFFS"},
		"what cannot be tried changes nothing":            {1, 2, 0, "sfef", "SSSF"},
		"a container that does not run has failed":        {1, 3, 0, "sxs", "SFS"},
		"another container, not known yet":                {2, 3, 0, "ssnss", ".SUUS"},
		"the row begins again with another container":     {1, 3, 0, "sffnff", "SSSUUU"},
		"the row begins again after one that did not run": {3, 1, 0, "ssxss", "..FFF"},
		"no container, no news":                           {1, 3, 0, "s--", "SSS"},
		"defined anew, not known yet":                     {2, 3, 0, "ssds", ".SUU"},
		"other times change nothing":                      {1, 3, 0, "st", "SS"},
		"a container is left alone for a while":           {1, 1, 3, "fffff", "...FF"},
		"and so is the next one":                          {1, 1, 2, "fffnfff", "..FUUFF"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := NewMachine(probeOf(tc.success, tc.failure, tc.delay), nil)
			now, container := noon, Container{Found: true, ID: "c0", Running: true, Started: noon}
			got := ""
			for i, try := range tc.tries {
				is := container
				switch try {
				case 'n':
					container.ID, container.Started = fmt.Sprintf("c%d", i), now
					is = container
				case 'x':
					is.Running = false
				case '-':
					is = Container{}
				case 'd':
					other := probeOf(tc.success, tc.failure, tc.delay)
					other.Exec.Command = []string{"y"}
					m.Redefine(other, now)
				case 't':
					other := probeOf(tc.success, tc.failure, tc.delay)
					other.PeriodSeconds = 77
					m.Redefine(other, now)
				}
				if m.Begin(is, "app", now) {
					switch try {
					case 's':
						m.End(Outcome{Success: true}, now)
					case 'f':
						m.End(Outcome{}, now)
					case 'e':
						m.End(Outcome{Error: "no"}, now)
					}
				}
				got += letter(m.State().State)
				now = now.Add(time.Second)
			}
			if got != tc.states {
				t.Errorf("tries %s: want %s, got %s", tc.tries, tc.states, got)
			}
		})
	}
}

func letter(s appsv1alpha1.ProbeState) string {
	if s == "" {
		return "."
	}
	return string(s[0])
}

// TestExploreMachine tries every row of seven things that can happen, and checks after each what must always hold.
func TestExploreMachine(t *testing.T) {
	const deep = 7
	type simulation struct {
		m         *Machine
		container Container
		now       time.Time
		successes int32
		failures  int32
	}
	seen := 0
	var step func(w simulation, path string)
	step = func(w simulation, path string) {
		seen++
		if len(path) == deep {
			return
		}
		for _, what := range "sfenxr" {
			next := w
			copied := *w.m
			copied.state = *w.m.state.DeepCopy()
			next.m, next.now = &copied, w.now.Add(time.Second)
			before := next.m.State()
			is := next.container
			replaced := false
			switch what {
			case 'n':
				next.container.ID += "'"
				next.container.Started = next.now
				is, replaced = next.container, true
				next.successes, next.failures = 0, 0
			case 'x':
				is.Running = false
				next.successes, next.failures = 0, 0
			case 'r': // the daemon begins again, with nothing but what was stored
				next.m = NewMachine(&copied.probe, &before)
				next.successes, next.failures = 0, 0
			}
			due := next.m.Begin(is, "app", next.now)
			if due {
				switch what {
				case 's':
					next.m.End(Outcome{Success: true}, next.now)
					next.successes, next.failures = next.successes+1, 0
				case 'f':
					next.m.End(Outcome{}, next.now)
					next.failures, next.successes = next.failures+1, 0
				case 'e':
					next.m.End(Outcome{Error: "no"}, next.now)
				}
			}
			after := next.m.State()
			here := path + string(what)
			switch {
			case what == 's' && next.successes >= 2 && after.State != appsv1alpha1.ProbeSucceeded:
				t.Fatalf("%s: two successes in a row: %+v", here, after)
			case what == 'f' && next.failures >= 3 && after.State != appsv1alpha1.ProbeFailed:
				t.Fatalf("%s: three failures in a row: %+v", here, after)
			case after.State == appsv1alpha1.ProbeSucceeded && before.State != after.State && next.successes < 2:
				t.Fatalf("%s: succeeded too early", here)
			case after.State == appsv1alpha1.ProbeFailed && before.State != after.State && next.failures < 3 && what != 'x':
				t.Fatalf("%s: failed too early", here)
			case replaced && before.State != "" && after.State != appsv1alpha1.ProbeUnknown:
				t.Fatalf("%s: of another container %s is told", here, after.State)
			case (what == 'e' || what == 'r') && before.State != after.State:
				t.Fatalf("%s: %s became %s", here, before.State, after.State)
			case before.State != after.State && !after.LastTransitionTime.Time.Equal(next.now):
				t.Fatalf("%s: changed without the time", here)
			case before.State == after.State && before.LastTransitionTime != nil && !before.LastTransitionTime.Equal(after.LastTransitionTime):
				t.Fatalf("%s: another time without a change", here)
			}
			step(next, here)
		}
	}
	step(simulation{
		m: NewMachine(probeOf(2, 3, 0), nil), now: noon, container: Container{Found: true, ID: "c", Running: true, Started: noon},
	}, "")
	if seen < 300_000 {
		t.Errorf("only %d worlds", seen)
	}
	t.Logf("%d worlds", seen)
}

// After a restart of the daemon a container that was replaced meanwhile is known by its start.
func TestReplacedWhileTheDaemonWasAway(t *testing.T) {
	m := NewMachine(probeOf(1, 1, 0), nil)
	c := Container{Found: true, ID: "a", Running: true, Started: noon}
	m.Begin(c, "app", noon.Add(5*time.Second))
	m.End(Outcome{Success: true}, noon.Add(5*time.Second))
	stored := m.State()
	same := NewMachine(probeOf(1, 1, 0), &stored)
	same.Begin(c, "app", noon.Add(time.Minute))
	if got := same.State().State; got != appsv1alpha1.ProbeSucceeded {
		t.Errorf("the same container: %s", got)
	}
	other := NewMachine(probeOf(1, 1, 0), &stored)
	other.Begin(Container{Found: true, ID: "b", Running: true, Started: noon.Add(30 * time.Second)}, "app", noon.Add(time.Minute))
	if got := other.State(); got.State != appsv1alpha1.ProbeUnknown || got.Message != "" {
		t.Errorf("another container: %+v", got)
	}
}

func TestMessages(t *testing.T) {
	m := NewMachine(probeOf(1, 3, 0), nil)
	c := Container{Found: true, ID: "a", Running: true, Started: noon}
	try := func(second int, o Outcome) appsv1alpha1.ContainerProbeState {
		now := noon.Add(time.Duration(second) * time.Second)
		if m.Begin(c, "app", now) {
			m.End(o, now)
		}
		return m.State()
	}
	if got := try(1, Outcome{Success: true, Message: strings.Repeat("ä", 600)}); len(got.Message) != 1024 || !strings.HasPrefix(got.Message, "ää") {
		t.Errorf("%d bytes", len(got.Message))
	}
	if got := try(2, Outcome{Success: true, Message: "a\xffb"}); got.Message != "ab" || !got.LastProbeTime.Time.Equal(noon.Add(2*time.Second)) || !got.LastTransitionTime.Time.Equal(noon.Add(time.Second)) {
		t.Errorf("another message: %+v", got)
	}
	if got := try(3, Outcome{Success: true, Message: "a\xffb"}); !got.LastProbeTime.Time.Equal(noon.Add(2 * time.Second)) {
		t.Errorf("nothing new, and another time: %+v", got)
	}
	for second := 4; second < 6; second++ {
		if got := try(second, Outcome{Error: "no shell"}); got.Error != "" {
			t.Errorf("told after %d tries: %+v", second-3, got)
		}
	}
	if got := try(6, Outcome{Error: "no shell"}); got.Error != "no shell" || got.State != appsv1alpha1.ProbeSucceeded {
		t.Errorf("after three tries that could not be made: %+v", got)
	}
	if got := try(7, Outcome{Message: "busy"}); got.Error != "" {
		t.Errorf("after one that could: %+v", got)
	}
	c.Running = false
	if got := try(8, Outcome{}); got.State != appsv1alpha1.ProbeFailed || got.Message != "Container(app) is Non-running" {
		t.Errorf("not running: %+v", got)
	}
}
