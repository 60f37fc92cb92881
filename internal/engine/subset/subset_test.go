// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package subset

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestParse(t *testing.T) {
	cases := map[string]struct {
		value    intstr.IntOrString
		replicas int
		want     int
		refused  bool
	}{
		"a number":                            {value: intstr.FromInt32(7), replicas: 3, want: 7},
		"a percentage":                        {value: intstr.FromString("40%"), replicas: 5, want: 2},
		"half a pod is rounded up":            {value: intstr.FromString("50%"), replicas: 5, want: 3},
		"less than half a pod is dropped":     {value: intstr.FromString("49%"), replicas: 5, want: 2},
		"nothing of nothing":                  {value: intstr.FromString("100%"), replicas: 0, want: 0},
		"all":                                 {value: intstr.FromString("100%"), replicas: 300, want: 300},
		"a negative number is refused":        {value: intstr.FromInt32(-1), refused: true},
		"more than all is refused":            {value: intstr.FromString("101%"), refused: true},
		"a part of a percent is refused":      {value: intstr.FromString("12.5%"), refused: true},
		"a number in quotes is refused":       {value: intstr.FromString("5"), refused: true},
		"a negative percentage is refused":    {value: intstr.FromString("-5%"), refused: true},
		"a percentage with a sign is refused": {value: intstr.FromString("+5%"), refused: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			size, err := Parse(tc.value)
			if (err != nil) != tc.refused {
				t.Fatalf("error %v, want one: %v", err, tc.refused)
			}
			if err == nil && size.Of(tc.replicas) != tc.want {
				t.Errorf("%s of %d is %d, want %d", tc.value.String(), tc.replicas, size.Of(tc.replicas), tc.want)
			}
		})
	}
}

func TestDivideByFixedSizes(t *testing.T) {
	cases := map[string]struct {
		replicas int
		subsets  []Subset
		want     Shares
	}{
		"what cannot be divided goes where most pods are": {
			10, []Subset{{Name: "a", Replicas: Pods(2)}, {Name: "b", Present: 3}, {Name: "c", Present: 2}, {Name: "d", Present: 2}},
			Shares{Sizes: []int{2, 3, 2, 3}},
		},
		"percentages that add up to more are cut in order": {
			5, []Subset{{Name: "a", Replicas: Percent(50)}, {Name: "b", Replicas: Percent(50)}},
			Shares{Sizes: []int{3, 2}, Adjusted: true},
		},
		"a percentage and the rest": {
			5, []Subset{{Name: "a", Replicas: Percent(50)}, {Name: "b"}}, Shares{Sizes: []int{3, 2}},
		},
		"fixed numbers are cut when an autoscaler goes below them": {
			4, []Subset{{Name: "a", Replicas: Pods(3)}, {Name: "b", Replicas: Pods(3)}, {Name: "c"}},
			Shares{Sizes: []int{3, 1, 0}, Adjusted: true},
		},
		"fixed numbers of all are filled up when an autoscaler goes above them": {
			9, []Subset{{Name: "a", Replicas: Pods(1), Present: 1}, {Name: "b", Replicas: Pods(5), Present: 5}},
			Shares{Sizes: []int{2, 7}, Adjusted: true},
		},
		"percentages that add up to less are filled up": {
			10, []Subset{{Name: "a", Replicas: Percent(33)}, {Name: "b", Replicas: Percent(33)}, {Name: "c", Replicas: Percent(33)}},
			Shares{Sizes: []int{3, 3, 4}, Adjusted: true},
		},
		"nothing to divide":    {0, []Subset{{Name: "a", Replicas: Percent(50)}, {Name: "b"}}, Shares{Sizes: []int{0, 0}}},
		"no subsets":           {3, nil, Shares{Unplaced: 3}},
		"one pod more is one":  {8, []Subset{{Name: "a", Present: 2}, {Name: "b", Present: 3}, {Name: "c", Present: 2}}, Shares{Sizes: []int{2, 3, 3}}},
		"one pod less is one":  {7, []Subset{{Name: "a", Present: 2}, {Name: "b", Present: 3}, {Name: "c", Present: 3}}, Shares{Sizes: []int{2, 2, 3}}},
		"a subset that is new": {6, []Subset{{Name: "a", Present: 3}, {Name: "b", Present: 3}, {Name: "c"}}, Shares{Sizes: []int{2, 2, 2}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Divide(tc.replicas, tc.subsets, Stay)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDivideByBounds(t *testing.T) {
	bounded := []Subset{{Name: "a", Min: Pods(1), Max: Pods(3)}, {Name: "b", Min: Pods(2), Max: Pods(4)}, {Name: "c", Min: Pods(0)}}
	cases := map[string]struct {
		replicas int
		subsets  []Subset
		want     Shares
	}{
		"up to the upper bounds":                        {9, bounded, Shares{Sizes: []int{3, 4, 2}}},
		"lower bounds first":                            {4, bounded, Shares{Sizes: []int{2, 2, 0}}},
		"too few for the lower bounds":                  {2, bounded, Shares{Sizes: []int{1, 1, 0}}},
		"nothing":                                       {0, bounded, Shares{Sizes: []int{0, 0, 0}}},
		"more than all upper bounds is said":            {9, []Subset{{Name: "a", Max: Pods(3)}, {Name: "b", Max: Percent(50)}}, Shares{Sizes: []int{3, 5}, Unplaced: 1}},
		"an upper bound below the lower one holds":      {5, []Subset{{Name: "a", Min: Pods(3), Max: Pods(1)}, {Name: "b"}}, Shares{Sizes: []int{1, 4}}},
		"a fixed size among bounds is both":             {5, []Subset{{Name: "a", Max: Pods(1)}, {Name: "b", Replicas: Pods(2)}, {Name: "c"}}, Shares{Sizes: []int{1, 2, 2}}},
		"bounds in percent are of all pods":             {10, []Subset{{Name: "a", Max: Percent(35)}, {Name: "b", Min: Percent(20)}}, Shares{Sizes: []int{4, 6}}},
		"scaling in takes from the last subset":         {8, bounded, Shares{Sizes: []int{3, 4, 1}}},
		"a lower bound of all leaves nothing to others": {4, []Subset{{Name: "a"}, {Name: "b", Min: Percent(100)}}, Shares{Sizes: []int{0, 4}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Divide(tc.replicas, tc.subsets, Stay)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReschedule(t *testing.T) {
	zones := func(ready [3]int, down ...string) []Subset {
		all := []Subset{{Name: "a", Max: Pods(4)}, {Name: "b", Max: Pods(4)}, {Name: "c"}}
		for i := range all {
			all[i].Scheduled = ready[i]
			for _, name := range down {
				all[i].Unschedulable = all[i].Unschedulable || all[i].Name == name
			}
		}
		return all
	}
	cases := map[string]struct {
		replicas int
		subsets  []Subset
		want     []int
	}{
		"all have room":                          {6, zones([3]int{}), []int{4, 2, 0}},
		"a zone without room":                    {6, zones([3]int{4, 0, 0}, "b"), []int{4, 0, 2}},
		"scaling out while it has none":          {8, zones([3]int{4, 0, 2}, "b"), []int{4, 0, 4}},
		"ready pods stay when it has room again": {8, zones([3]int{4, 0, 4}), []int{4, 0, 4}},
		"scaling out then":                       {10, zones([3]int{4, 0, 4}), []int{4, 2, 4}},
		"no zone has room: the pods wait":        {9, zones([3]int{4, 2, 0}, "a", "b", "c"), []int{4, 4, 1}},
		"the last zone has no room: pods wait":   {10, zones([3]int{4, 4, 0}, "c"), []int{4, 4, 2}},
		"the first has none and loses its pods":  {6, zones([3]int{0, 2, 0}, "a"), []int{0, 4, 2}},
		"a part of the pods came up":             {6, zones([3]int{4, 1, 0}, "b"), []int{4, 1, 1}},
		"the lower bound holds without room": {6, []Subset{
			{Name: "a", Min: Pods(2), Unschedulable: true}, {Name: "b"}}, []int{2, 4}},
		"ready pods do not take the lower bound of another subset": {8, []Subset{
			{Name: "a", Scheduled: 8}, {Name: "b", Min: Pods(2)}}, []int{6, 2}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(Shares{Sizes: tc.want}, Divide(tc.replicas, tc.subsets, Reschedule)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReserve(t *testing.T) {
	zones := func(a, b, c Subset) []Subset {
		a.Name, b.Name, c.Name = "a", "b", "c"
		a.Max, b.Max = Pods(3), Pods(3)
		return []Subset{a, b, c}
	}
	cases := map[string]struct {
		replicas int
		subsets  []Subset
		want     []int
	}{
		"nobody waits": {6, zones(Subset{}, Subset{}, Subset{}), []int{3, 3, 0}},
		"three pods wait, and three stand in": {
			6, zones(Subset{Present: 3, Reserved: 3, Unschedulable: true}, Subset{Present: 3}, Subset{}), []int{3, 3, 3},
		},
		"two of them run": {
			6, zones(Subset{Present: 3, Reserved: 1, Unschedulable: true}, Subset{Present: 3}, Subset{Present: 3}), []int{3, 3, 1},
		},
		"all of them run": {6, zones(Subset{Present: 3}, Subset{Present: 3}, Subset{Present: 1}), []int{3, 3, 0}},
		"scaling in takes those who stand in first": {
			4, zones(Subset{Present: 3, Reserved: 3, Unschedulable: true}, Subset{Present: 3}, Subset{Present: 3}), []int{3, 3, 1},
		},
		"scaling out while pods wait": {
			8, zones(Subset{Present: 3, Reserved: 3, Unschedulable: true}, Subset{Present: 3}, Subset{Present: 3}), []int{3, 3, 5},
		},
		"where no subset has room, as many wait as are missing": {
			6, zones(Subset{Present: 3, Reserved: 3, Unschedulable: true}, Subset{Present: 3, Reserved: 3, Unschedulable: true},
				Subset{Present: 0, Unschedulable: true}), []int{3, 3, 0},
		},
		"and more are created when more are missing": {
			8, zones(Subset{Present: 3, Reserved: 3, Unschedulable: true}, Subset{Present: 3, Reserved: 3, Unschedulable: true},
				Subset{Present: 0, Unschedulable: true}), []int{3, 3, 2},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(Shares{Sizes: tc.want}, Divide(tc.replicas, tc.subsets, Reserve)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
