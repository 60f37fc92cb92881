// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kruise-operator/kruise-operator/internal/conversion/wire"
)

func TestTooLarge(t *testing.T) {
	list := func(element string, n int) string {
		return "[" + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + "]"
	}
	names := make([]string, wire.MaxItems+1)
	for i := range names {
		names[i] = fmt.Sprintf(`"l%d":""`, i)
	}
	reserved := func(n int) string { return `{"spec":{"reserveOrdinals":` + list("1", n) + `}}` }
	// many have too many values in their spec, fewer only together with their metadata.
	many := func(more string) string {
		return `{"spec":{"a":[` + strings.TrimSuffix(strings.Repeat(list("true", 9_000)+",", 5), ",") + `]}` + more + `}`
	}
	fewer := func(more string) string {
		return `{"spec":{"a":[` + strings.TrimSuffix(strings.Repeat(list("true", 9_000)+",", 4), ",") + `]},"metadata":{"finalizers":` + more + `}}`
	}
	cases := map[string]struct {
		raw, old string
		want     []string
	}{
		"a set of the usual size":    {raw: `{"spec":{"replicas":3,"template":{"spec":{"containers":[{"name":"a","args":["-x","[{"]}]}}}}`},
		"as many items as may be":    {raw: reserved(wire.MaxItems)},
		"one more":                   {raw: reserved(wire.MaxItems + 1), want: []string{"spec.reserveOrdinals: Too many: 10001: must have at most 10000 items"}},
		"stored already":             {raw: reserved(wire.MaxItems + 5), old: reserved(wire.MaxItems + 5)},
		"shortened by an update":     {raw: reserved(wire.MaxItems + 5), old: reserved(wire.MaxItems + 6)},
		"made longer by an update":   {raw: reserved(wire.MaxItems + 6), old: reserved(wire.MaxItems + 5), want: []string{"spec.reserveOrdinals: Too many: 10006: must have at most 10000 items"}},
		"objects in the second list": {raw: `{"a":[[],` + list(`{"x" : [ ]}`, wire.MaxObjects+1) + `]}`, want: []string{"a[1]: Too many: 2001: must have at most 2000 objects"}},
		"members of an object":       {raw: `{"metadata":{"labels":{` + strings.Join(names, ",") + `}}}`, want: []string{"metadata.labels: Too many: 10001: must have at most 10000 items"}},
		"values in all": {
			raw:  `{"a":[` + strings.TrimSuffix(strings.Repeat(list("true", 9_000)+",", 5), ",") + `]}`,
			want: []string{"spec: Too many: 45007: the whole object must have at most 40000 values"},
		},
		"too many values in all, and metadata that grows": {raw: many(`,"metadata":{"finalizers":["a"]}`), old: many("")},
		"too many values in all, and a spec that grows":   {raw: many(`,"metadata":{"finalizers":["a"]}`) + " ", old: strings.Replace(many(""), "[true", "[false", 1), want: []string{"spec: Too many: 45011: the whole object must have at most 40000 values"}},
		"too many values in all only after metadata grew": {raw: fewer(list("0", 9_000)), old: fewer("[]"), want: []string{"spec: Too many: 45009: the whole object must have at most 40000 values"}},
		"a long text":    {raw: `{"a":{"b\"":"` + strings.Repeat(`\"`, 300_000) + `"}}`, want: []string{`a.b": Too many: 600002: must have at most 524288 bytes`}},
		"a long number":  {raw: `{"a":` + strings.Repeat("1", 2000) + `}`, want: []string{"a: Too many: 2000: must have at most 1024 bytes"}},
		"lists in lists": {raw: strings.Repeat("[", 300), want: []string{strings.Repeat("[0]", 200) + ": Too many: 201: must have at most 200 levels"}},
		"no JSON":        {raw: `]}{"a`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, e := range wire.TooLarge([]byte(tc.raw), []byte(tc.old)) {
				got = append(got, e.Error())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

// Each object of these lists is looked up for each pod of a workload, in each pass.
func TestSomeListsOfAWorkloadAreShorter(t *testing.T) {
	set := func(list string, n int) string {
		return `{"spec":{"a":[{"` + list + `":[` + strings.TrimSuffix(strings.Repeat("{},", n), ",") + `]}]}}`
	}
	for _, list := range []string{"weightPriority", "orderPriority", "scatterStrategy", "topologySpreadConstraints", "volumeClaimTemplates"} {
		want := "spec.a[0]." + list + ": Too many: 201: must have at most 200 objects"
		if errs := wire.TooLargeWorkload([]byte(set(list, 201)), nil); len(errs) != 1 || errs[0].Error() != want {
			t.Errorf("got %v, want %s", errs, want)
		}
		for what, errs := range map[string]int{
			"as many as may be":    len(wire.TooLargeWorkload([]byte(set(list, 200)), nil)),
			"stored already":       len(wire.TooLargeWorkload([]byte(set(list, 300)), []byte(set(list, 300)))),
			"a pod":                len(wire.TooLarge([]byte(set(list, 300)), nil)),
			"what can be decoded":  len(wire.Oversized([]byte(set(list, 300)))),
			"another list is long": len(wire.TooLargeWorkload([]byte(set("containers", 300)), nil)),
		} {
			if errs > 0 {
				t.Errorf("%s, %s: %d errors", list, what, errs)
			}
		}
	}
}

func TestDecodeReportsTheFirstErrors(t *testing.T) {
	raw := []byte(`{"spec":{"reserveOrdinals":[` + strings.TrimSuffix(strings.Repeat("true,", 500), ",") + `]}}`)
	set := struct {
		Spec struct {
			ReserveOrdinals []int `json:"reserveOrdinals"`
		} `json:"spec"`
	}{}
	errs := wire.DecodeRest(raw, &set)
	if len(errs) != wire.MaxErrors {
		t.Errorf("%d errors, want %d", len(errs), wire.MaxErrors)
	}
	if len(set.Spec.ReserveOrdinals) != 500 {
		t.Errorf("%d items are left, want 500", len(set.Spec.ReserveOrdinals))
	}
}
