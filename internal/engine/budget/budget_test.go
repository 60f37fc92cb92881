// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
)

func value(text string) *intstr.IntOrString {
	if text == "" {
		return nil
	}
	v := intstr.Parse(text)
	return &v
}

func TestCount(t *testing.T) {
	cases := map[string]struct {
		value string
		total int32
		round Rounding
		want  int32
	}{
		"a number is taken as it is":                     {value: "7", total: 3, want: 7},
		"zero is a number":                               {value: "0", total: 3, want: 0},
		"a percentage drops the fraction":                {value: "30%", total: 7, round: Down, want: 2},
		"a percentage counts the fraction as a pod":      {value: "30%", total: 7, round: Up, want: 3},
		"a percentage that comes out even is not raised": {value: "25%", total: 8, round: Up, want: 2},
		"a decimal percentage drops the fraction":        {value: "12.5%", total: 15, round: Down, want: 1},
		"a decimal percentage rounds up":                 {value: "12.5%", total: 15, round: Up, want: 2},
		"a decimal percentage is exact":                  {value: "33.3%", total: 1000, round: Up, want: 333},
		"three thirds are not quite all":                 {value: "33.3%", total: 10, round: Up, want: 4},
		"the smallest share of a large set is one":       {value: "0.0000001%", total: 1000, round: Up, want: 1},
		"0% of anything is nothing":                      {value: "0%", total: 1000, round: Up, want: 0},
		"no digits before the point":                     {value: ".5%", total: 1000, round: Down, want: 5},
		"no digits after the point":                      {value: "5.%", total: 100, round: Down, want: 5},
		"leading zeros mean nothing":                     {value: "010%", total: 100, round: Down, want: 10},
		"more than all":                                  {value: "150%", total: 4, round: Down, want: 6},
		"a share of nothing":                             {value: "50%", total: 0, round: Up, want: 0},
		"more than fits":                                 {value: "99999999999%", total: math.MaxInt32, round: Up, want: math.MaxInt32},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Count(*value(tc.value), tc.total, tc.round)
			if err != nil || got != tc.want {
				t.Errorf("got %d, %v, want %d", got, err, tc.want)
			}
		})
	}
}

func TestCountRefuses(t *testing.T) {
	cases := map[string]intstr.IntOrString{
		"a negative number":                 intstr.FromInt32(-1),
		"a number as a string":              intstr.FromString("5"),
		"a decimal number":                  intstr.FromString("0.5"),
		"nothing":                           intstr.FromString(""),
		"a sign alone":                      intstr.FromString("%"),
		"a point alone":                     intstr.FromString(".%"),
		"two points":                        intstr.FromString("1.2.3%"),
		"two signs":                         intstr.FromString("5%%"),
		"a negative percentage":             intstr.FromString("-5%"),
		"a plus sign":                       intstr.FromString("+5%"),
		"an exponent":                       intstr.FromString("1e2%"),
		"not a number":                      intstr.FromString("NaN%"),
		"infinity":                          intstr.FromString("Inf%"),
		"a fraction":                        intstr.FromString("1/3%"),
		"white space":                       intstr.FromString(" 5%"),
		"other digits than the decimal ten": intstr.FromString("٥%"),
		"an endless number":                 intstr.FromString(strings.Repeat("9", 1000) + "%"),
	}
	for name, v := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Count(v, 10, Up)
			if err == nil {
				t.Fatalf("got %d", got)
			}
			want := strconv.Quote(v.StrVal)
			if v.Type == intstr.Int {
				want = "-1 is negative"
			}
			if !strings.Contains(err.Error(), want) {
				t.Errorf("the error %q does not name %s", err, want)
			}
		})
	}
}

func TestStatefulSet(t *testing.T) {
	cases := map[string]struct {
		value    string
		replicas int32
		want     int32
	}{
		"omitted is one":                   {replicas: 10, want: 1},
		"30% of 7 is 2":                    {value: "30%", replicas: 7, want: 2},
		"10% of 5 is one, not none":        {value: "10%", replicas: 5, want: 1},
		"100% is all":                      {value: "100%", replicas: 5, want: 5},
		"zero is one":                      {value: "0", replicas: 5, want: 1},
		"a decimal percentage rounds down": {value: "37.5%", replicas: 4, want: 1},
		"without replicas it is still one": {value: "50%", replicas: 0, want: 1},
	}
	for name, tc := range cases {
		t.Run("maxUnavailable: "+name, func(t *testing.T) {
			if got, err := StatefulSetMaxUnavailable(value(tc.value), tc.replicas); err != nil || got != tc.want {
				t.Errorf("got %d, %v, want %d", got, err, tc.want)
			}
			if tc.value == "" {
				tc.want = Unlimited
			}
			if got, err := StatefulSetScaleMaxUnavailable(value(tc.value), tc.replicas); err != nil || got != tc.want {
				t.Errorf("scale: got %d, %v, want %d", got, err, tc.want)
			}
		})
	}
}

func TestCloneSetPartition(t *testing.T) {
	cases := map[string]struct {
		value    string
		replicas int32
		want     int32
	}{
		"omitted keeps none":                                 {replicas: 5},
		"a number":                                           {value: "3", replicas: 5, want: 3},
		"a number above replicas keeps all":                  {value: "8", replicas: 5, want: 5},
		"a percentage is rounded up":                         {value: "33.3%", replicas: 10, want: 4},
		"a percentage that comes to all updates one":         {value: "99%", replicas: 10, want: 9},
		"100% keeps all":                                     {value: "100%", replicas: 10, want: 10},
		"100.0% is not the text 100% and updates one":        {value: "100.0%", replicas: 10, want: 9},
		"a percentage of one replica keeps it":               {value: "50%", replicas: 1, want: 1},
		"a number that is all replicas keeps all":            {value: "10", replicas: 10, want: 10},
		"more than 100% is cut and then updates one":         {value: "120%", replicas: 10, want: 9},
		"without replicas there is nothing to keep":          {value: "50%", replicas: 0, want: 0},
		"40% of five, the case recorded from a live cluster": {value: "40%", replicas: 5, want: 2},
		"less than a percent is rounded up":                  {value: "0.6%", replicas: 200, want: 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got, err := CloneSetPartition(value(tc.value), tc.replicas); err != nil || got != tc.want {
				t.Errorf("got %d, %v, want %d", got, err, tc.want)
			}
		})
	}
}

func TestCloneSetLimits(t *testing.T) {
	cases := map[string]struct {
		unavailable, surge         string
		replicas                   int32
		paused                     bool
		wantUnavailable, wantSurge int32
	}{
		"omitted is 20% rounded up and no surge":          {replicas: 6, wantUnavailable: 2},
		"without a surge it is rounded up":                {unavailable: "12.5%", replicas: 10, wantUnavailable: 2},
		"with a surge it is rounded down":                 {unavailable: "12.5%", surge: "1", replicas: 10, wantUnavailable: 1, wantSurge: 1},
		"a surge of 0% is none":                           {unavailable: "12.5%", surge: "0%", replicas: 10, wantUnavailable: 2},
		"the surge is rounded up":                         {unavailable: "0", surge: "12.5%", replicas: 10, wantSurge: 2},
		"paused has no surge and rounds up":               {unavailable: "15%", surge: "3", replicas: 10, paused: true, wantUnavailable: 2},
		"a number is not rounded":                         {unavailable: "3", surge: "2", replicas: 10, wantUnavailable: 3, wantSurge: 2},
		"zero stays zero":                                 {unavailable: "0", surge: "1", replicas: 10, wantSurge: 1},
		"a small percentage beside a surge may be none":   {unavailable: "5%", surge: "1", replicas: 10, wantSurge: 1},
		"a small percentage without a surge is still one": {unavailable: "1%", replicas: 10, wantUnavailable: 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			unavailable, surge, err := CloneSetLimits(value(tc.unavailable), value(tc.surge), tc.replicas, tc.paused)
			if err != nil || unavailable != tc.wantUnavailable || surge != tc.wantSurge {
				t.Errorf("got %d, %d, %v, want %d, %d", unavailable, surge, err, tc.wantUnavailable, tc.wantSurge)
			}
		})
	}
}

func TestCloneSetOthers(t *testing.T) {
	for replicas, want := range map[int32]int32{0: 1, 1: 1, 4: 1, 5: 1, 9: 1, 10: 2, 100: 20} {
		if got, err := CloneSetOnDeleteMaxUnavailable(nil, replicas); got != want || err != nil {
			t.Errorf("OnDelete with %d replicas: got %d, %v, want %d", replicas, got, err, want)
		}
	}
	for text, want := range map[string]int32{"0": 1, "3": 3, "21%": 3, "1%": 1} {
		if got, err := CloneSetOnDeleteMaxUnavailable(value(text), 10); got != want || err != nil {
			t.Errorf("OnDelete with maxUnavailable %s of 10: got %d, %v, want %d", text, got, err, want)
		}
	}
	if got, err := CloneSetOnDeleteMaxUnavailable(value("many"), 10); err == nil {
		t.Errorf("OnDelete with maxUnavailable many: got %d", got)
	}
	if got, err := CloneSetScaleMaxUnavailable(value("15%"), 10); err != nil || got != 2 {
		t.Errorf("the scale limit is rounded up: got %d, %v", got, err)
	}
	if got, err := CloneSetScaleMaxUnavailable(nil, 10); err != nil || got != Unlimited {
		t.Errorf("an omitted scale limit is unlimited: got %d, %v", got, err)
	}
	text := intstr.FromString("5")
	if _, err := CloneSetScaleMaxUnavailable(&text, 10); err == nil || !strings.Contains(err.Error(), "scaleStrategy.maxUnavailable") {
		t.Errorf("a number as a string: got %v", err)
	}
}

func TestDaemonSet(t *testing.T) {
	partition, err := DaemonSetPartition(value("30%"), 7)
	if err != nil || partition != 2 {
		t.Errorf("30%% of 7 nodes kept: got %d, %v, want 2", partition, err)
	}
	if got, err := DaemonSetPartition(value("9"), 7); err != nil || got != 9 {
		t.Errorf("more than all nodes that should have a pod: got %d, %v, want it as it is: others may have pods", got, err)
	}
	if got, err := DaemonSetPartition(nil, 7); err != nil || got != 0 {
		t.Errorf("an omitted partition: got %d, %v", got, err)
	}
	cases := map[string]struct {
		unavailable, surge         string
		desired                    int32
		wantUnavailable, wantSurge int32
	}{
		"omitted is one":                         {desired: 7, wantUnavailable: 1},
		"rounded up":                             {unavailable: "30%", desired: 7, wantUnavailable: 3},
		"beside a surge none need be":            {surge: "30%", desired: 7, wantSurge: 3},
		"both zero is one unavailable":           {unavailable: "0", surge: "0", desired: 7, wantUnavailable: 1},
		"a share of no nodes is one unavailable": {unavailable: "30%", wantUnavailable: 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			unavailable, surge, err := DaemonSetLimits(value(tc.unavailable), value(tc.surge), tc.desired)
			if err != nil || unavailable != tc.wantUnavailable || surge != tc.wantSurge {
				t.Errorf("got %d, %d, %v, want %d, %d", unavailable, surge, err, tc.wantUnavailable, tc.wantSurge)
			}
		})
	}
	if got, err := DaemonSetBurst(value("20%"), 3); err != nil || got != 1 {
		t.Errorf("20%% of three nodes at a time is one, not none: got %d, %v", got, err)
	}
	if got, err := DaemonSetBurst(nil, 3); err != nil || got != 250 {
		t.Errorf("an omitted burst: got %d, %v", got, err)
	}
}
