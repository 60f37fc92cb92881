// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package ordinal

import (
	"fmt"
	"math"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func reserve(elements ...string) []intstr.IntOrString {
	var all []intstr.IntOrString
	for _, e := range elements {
		all = append(all, intstr.Parse(e))
	}
	return all
}

func TestSet(t *testing.T) {
	cases := map[string]struct {
		start, replicas int32
		reserve         []intstr.IntOrString
		want            []int
	}{
		"counts from zero":                             {replicas: 3, want: []int{0, 1, 2}},
		"has none without replicas":                    {replicas: 0},
		"counts from the first one":                    {start: 4, replicas: 3, want: []int{4, 5, 6}},
		"skips a reserved one":                         {replicas: 4, reserve: reserve("1"), want: []int{0, 2, 3, 4}},
		"skips ranges and numbers":                     {replicas: 4, reserve: reserve("0", "2-3"), want: []int{1, 4, 5, 6}},
		"skips the end of the window":                  {replicas: 4, reserve: reserve("0", "2-3", "5"), want: []int{1, 4, 6, 7}},
		"takes overlaps and repetitions":               {replicas: 2, reserve: reserve("2-5", "0-3", "4", "4", "3-4"), want: []int{6, 7}},
		"takes neighbors as one":                       {replicas: 2, reserve: reserve("0-1", "2-3"), want: []int{4, 5}},
		"takes any order":                              {replicas: 3, reserve: reserve("5-6", "0-1"), want: []int{2, 3, 4}},
		"ignores what is above the window":             {replicas: 2, reserve: reserve("7", "100-200"), want: []int{0, 1}},
		"ignores what is below the first one":          {start: 5, replicas: 2, reserve: reserve("0-2"), want: []int{5, 6}},
		"begins inside a reserved range":               {start: 5, replicas: 2, reserve: reserve("3-7"), want: []int{8, 9}},
		"begins at the end of a reserved range":        {start: 7, replicas: 2, reserve: reserve("3-7"), want: []int{8, 9}},
		"takes a range of one":                         {replicas: 2, reserve: reserve("0-0"), want: []int{1, 2}},
		"takes leading zeros in a range":               {replicas: 2, reserve: reserve("00-01"), want: []int{2, 3}},
		"costs nothing for a huge range":               {replicas: 2, reserve: reserve("0-2000000000"), want: []int{2000000001, 2000000002}},
		"ends at the largest ordinal there is":         {start: math.MaxInt32, replicas: 1, want: []int{math.MaxInt32}},
		"takes negative replicas as none":              {replicas: -1},
		"leaves a reserved range in the middle intact": {replicas: 5, reserve: reserve("2-3"), want: []int{0, 1, 4, 5, 6}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			set, err := New(tc.start, tc.replicas, tc.reserve)
			if err != nil {
				t.Fatal(err)
			}
			got := slices.Collect(set.Iterate())
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if set.Len() != len(tc.want) {
				t.Errorf("Len is %d, want %d", set.Len(), len(tc.want))
			}
			for n, o := range tc.want {
				if set.Nth(n) != o || !set.Contains(o) {
					t.Errorf("ordinal %d: Nth %d, Contains %v, want it at %d", o, set.Nth(n), set.Contains(o), n)
				}
			}
		})
	}
}

// TestSetAgainstCounting compares the interval arithmetic with counting one by one.
func TestSetAgainstCounting(t *testing.T) {
	const seed = 7
	random := rand.New(rand.NewSource(seed))
	for range 2000 {
		start, replicas := random.Int31n(6), random.Int31n(7)
		reserved := map[int]bool{}
		var elements []intstr.IntOrString
		for range random.Intn(5) {
			first := random.Intn(14)
			last := first
			if random.Intn(2) == 0 {
				last += random.Intn(5)
				elements = append(elements, intstr.FromString(fmt.Sprintf("%d-%d", first, last)))
			} else {
				elements = append(elements, intstr.FromInt32(int32(first)))
			}
			for o := first; o <= last; o++ {
				reserved[o] = true
			}
		}
		var want []int
		for o := int(start); len(want) < int(replicas); o++ {
			if !reserved[o] {
				want = append(want, o)
			}
		}
		set, err := New(start, replicas, elements)
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Collect(set.Iterate()); !slices.Equal(got, want) {
			t.Fatalf("seed %d: start %d, replicas %d, reserved %v: got %v, want %v", seed, start, replicas, elements, got, want)
		}
		for o := range 30 {
			if set.Contains(o) != slices.Contains(want, o) {
				t.Fatalf("seed %d: ordinal %d of %v with %v reserved: Contains %v", seed, o, want, elements, set.Contains(o))
			}
		}
	}
}

func TestNewRefuses(t *testing.T) {
	cases := map[string]struct {
		start, replicas int32
		reserve         []intstr.IntOrString
		want            string
	}{
		"a number as a string":              {reserve: []intstr.IntOrString{intstr.FromInt32(1), intstr.FromString("7")}, want: `reserved ordinal 1, "7"`},
		"a range that begins after it ends": {reserve: reserve("3-1"), want: `reserved ordinal 0, "3-1": neither a number nor a range`},
		"a negative number":                 {reserve: []intstr.IntOrString{intstr.FromInt32(-2)}, want: `"-2": neither a number`},
		"a number too large":                {reserve: reserve("0-2147483648"), want: `"0-2147483648": neither a number`},
		"a range without a beginning":       {reserve: reserve("-3"), want: `"-3": neither a number`},
		"a range without an end":            {reserve: reserve("3-"), want: `"3-": neither a number`},
		"three numbers":                     {reserve: reserve("1-2-3"), want: `"1-2-3"`},
		"white space":                       {reserve: reserve("1 - 2"), want: `"1 - 2"`},
		"a plus sign":                       {reserve: reserve("+1-2"), want: `"+1-2"`},
		"words":                             {reserve: reserve("all"), want: `"all"`},
		"nothing":                           {reserve: reserve(""), want: "reserved ordinal 0"},
		"a negative first ordinal":          {start: -1, want: "negative"},
		"a list that leaves no room":        {replicas: 2, reserve: reserve("0-2147483646"), want: "no room"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := New(tc.start, tc.replicas, tc.reserve)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want something with %q", err, tc.want)
			}
		})
	}
}

func TestOfPod(t *testing.T) {
	cases := map[string]struct {
		set, pod string
		want     int
		ok       bool
	}{
		"the pod of a slot":               {set: "web", pod: "web-12", want: 12, ok: true},
		"the first one":                   {set: "web", pod: "web-0", ok: true},
		"a set with dashes and digits":    {set: "web-1", pod: "web-1-3", want: 3, ok: true},
		"not a pod of a longer name":      {set: "web", pod: "web-1-3"},
		"not a pod of another set":        {set: "web", pod: "db-3"},
		"no number":                       {set: "web", pod: "web-x"},
		"nothing after the dash":          {set: "web", pod: "web-"},
		"no dash":                         {set: "web", pod: "web"},
		"leading zeros are nobody's name": {set: "web", pod: "web-01"},
		"a negative number":               {set: "web", pod: "web--1"},
		"larger than any ordinal can be":  {set: "web", pod: "web-2147483648"},
		"the largest ordinal there is":    {set: "web", pod: "web-2147483647", want: math.MaxInt32, ok: true},
		"digits of another script":        {set: "web", pod: "web-٣"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, ok := OfPod(tc.set, tc.pod)
			if got != tc.want || ok != tc.ok {
				t.Errorf("got %d, %v", got, ok)
			}
			if ok && PodName(tc.set, got) != tc.pod {
				t.Errorf("the name of %d is %s", got, PodName(tc.set, got))
			}
		})
	}
}
