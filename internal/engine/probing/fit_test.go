// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package probing

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
)

// listed is a pod with probes of so many bytes, more or less.
func listed(namespace, name string, probes, bytes int) appsv1alpha1.PodProbe {
	p := appsv1alpha1.PodProbe{Namespace: namespace, Name: name, UID: namespace + "/" + name, IP: "10.0.0.1"}
	for i := range probes {
		probe := appsv1alpha1.ContainerProbe{Name: fmt.Sprintf("m#%03d", i), ContainerName: "app"}
		probe.Probe.Exec = &corev1.ExecAction{Command: []string{strings.Repeat("x", bytes)}}
		p.Probes = append(p.Probes, probe)
	}
	return p
}

// bytesOf is how long a list is.
func bytesOf(t *testing.T, list []appsv1alpha1.PodProbe) int {
	t.Helper()
	body, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return len(body)
}

// probesBy counts the probes of each namespace.
func probesBy(list []appsv1alpha1.PodProbe) map[string]int {
	count := map[string]int{}
	for i := range list {
		count[list[i].Namespace] += len(list[i].Probes)
	}
	return count
}

// knownOf says what a list has.
func knownOf(list []appsv1alpha1.PodProbe) func(*appsv1alpha1.PodProbe, string) bool {
	had := map[string]bool{}
	for i := range list {
		for j := range list[i].Probes {
			had[list[i].UID+" "+list[i].Probes[j].Name] = true
		}
	}
	return func(pod *appsv1alpha1.PodProbe, probe string) bool { return had[pod.UID+" "+probe] }
}

func TestFit(t *testing.T) {
	many := func(namespace string, pods, probes, bytes int) (list []appsv1alpha1.PodProbe) {
		for i := range pods {
			list = append(list, listed(namespace, fmt.Sprintf("p%04d", i), probes, bytes))
		}
		return list
	}
	for name, tc := range map[string]struct {
		list, before []appsv1alpha1.PodProbe
		// want are the probes that fit, by namespace.
		want map[string]int
		full []string
	}{
		"nothing":                         {want: map[string]int{}},
		"all fits":                        {list: slices.Concat(many("a", 3, 32, 100), many("b", 100, 1, 100)), want: map[string]int{"a": 96, "b": 100}},
		"a pod has 256 probes":            {list: many("a", 1, 288, 100), want: map[string]int{"a": 256}, full: []string{"a"}},
		"a node has 1024 pods":            {list: slices.Concat(many("a", 1100, 1, 10), many("b", 3, 1, 10)), want: map[string]int{"a": 1021, "b": 3}, full: []string{"a"}},
		"a large namespace and a small":   {list: slices.Concat(many("a", 3, 32, 16<<10), many("b", 20, 1, 200)), want: map[string]int{"a": 46, "b": 20}, full: []string{"a"}},
		"two large ones share it equally": {list: slices.Concat(many("a", 3, 32, 16<<10), many("b", 9, 32, 16<<10)), want: map[string]int{"a": 23, "b": 23}, full: []string{"a", "b"}},
		"who was there first holds no more than the share": {
			list: slices.Concat(many("a", 3, 32, 16<<10), many("b", 3, 32, 16<<10)), before: many("a", 2, 24, 16<<10),
			want: map[string]int{"a": 23, "b": 23}, full: []string{"a", "b"},
		},
		"a short probe takes what a long one cannot": {list: slices.Concat(many("a", 1, 2, 766<<10), many("b", 1, 1, 100)), want: map[string]int{"a": 1, "b": 1}, full: []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			fits, full := Fit(tc.list, knownOf(tc.before))
			if diff := cmp.Diff(tc.want, probesBy(fits)); diff != "" || !slices.Equal(full, tc.full) {
				t.Errorf("(-want +got) %s, full %v", diff, full)
			}
			if size := bytesOf(t, fits); size > maxBytes {
				t.Errorf("%d bytes", size)
			}
		})
	}
}

// What is in the list stays there when a pod comes whose name is before it.
func TestFitKeepsWhatIsThere(t *testing.T) {
	before, _ := Fit([]appsv1alpha1.PodProbe{listed("a", "p", 60, 16<<10)}, knownOf(nil))
	list := []appsv1alpha1.PodProbe{listed("a", "new", 10, 16<<10), listed("a", "p", 60, 16<<10)}
	fits, full := Fit(list, knownOf(before))
	if len(fits) != 1 || fits[0].Name != "p" || len(fits[0].Probes) != len(before[0].Probes) || len(full) != 1 {
		t.Errorf("%d pods, full %v", len(fits), full)
	}
}

// Fitting rests: what was fitted is fitted to the same, whatever the sizes are, and never is too long.
func TestFitRests(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		var list []appsv1alpha1.PodProbe
		for i := range 60 {
			list = append(list, listed(fmt.Sprintf("ns%d", random.IntN(5)), fmt.Sprintf("p%d", i), 1+random.IntN(40), 1<<random.IntN(15)))
		}
		fits, full := Fit(list, knownOf(nil))
		again, fullAgain := Fit(list, knownOf(fits))
		if diff := cmp.Diff(fits, again); diff != "" || !slices.Equal(full, fullAgain) {
			t.Fatalf("seed %d: %s", seed, diff)
		}
		if size := bytesOf(t, fits); size > maxBytes {
			t.Errorf("seed %d: %d bytes", seed, size)
		}
	}
}

// Messages with characters that JSON escapes are six times as long there. All together must not keep the results of other pods from being written.
func TestFitMessages(t *testing.T) {
	for name, tc := range map[string]struct {
		probes int
		char   string
		want   int
	}{
		"few stay":                      {probes: 256, char: "x", want: 1024},
		"many are cut":                  {probes: 1000, char: "x", want: 256},
		"escaped ones are cut to less":  {probes: 1000, char: "\x01", want: 64},
		"very many have no room at all": {probes: 200_000, char: "x", want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			pod := appsv1alpha1.PodProbeStatus{ProbeStates: make([]appsv1alpha1.ContainerProbeState, tc.probes)}
			for i := range pod.ProbeStates {
				pod.ProbeStates[i].Message = strings.Repeat(tc.char, 1024)
			}
			results := []appsv1alpha1.PodProbeStatus{pod}
			FitMessages(results)
			if got := len(pod.ProbeStates[tc.probes-1].Message); got != tc.want {
				t.Errorf("messages have %d bytes, want %d", got, tc.want)
			}
			if size := messagesSize(results); size > maxMessages {
				t.Errorf("together %d bytes", size)
			}
		})
	}
}
