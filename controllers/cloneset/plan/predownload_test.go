// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	pulls "github.com/kruise-operator/kruise-operator/internal/engine/image"
)

func TestPullingWorkload(t *testing.T) {
	threshold := func(w *simulation) {
		w.rolling().InPlaceUpdateStrategy = &shared.InPlaceUpdateStrategy{ImagePreDownloadMinUpdatedReadyPods: ptr.To(int32(2))}
	}
	cases := map[string]struct {
		replicas int
		change   []func(*simulation)
		want     pulls.State
		invalid  bool
	}{
		"at rest":                  {replicas: 10, change: []func(*simulation){inPlace}},
		"in a rollout":             {replicas: 10, change: []func(*simulation){inPlace, image("2")}, want: pulls.Wanted},
		"with InPlaceOnly":         {replicas: 10, change: []func(*simulation){inPlaceOnly, image("2")}, want: pulls.Wanted},
		"while updates are paused": {replicas: 10, change: []func(*simulation){inPlace, paused(true), image("2")}, want: pulls.Wanted},
		"with few replicas":        {replicas: 3, change: []func(*simulation){inPlace, image("2")}, want: pulls.NotUseful},
		"with ReCreate":            {replicas: 10, change: []func(*simulation){image("2")}, want: pulls.NotUseful},
		"with OnDelete":            {replicas: 10, change: []func(*simulation){onDelete, image("2")}, want: pulls.NotUseful},
		"when all may go at once":  {replicas: 10, change: []func(*simulation){inPlace, maxUnavailable("100%"), image("2")}, want: pulls.NotUseful},
		// Rounded down, not as the rollout rounds it.
		"when all but a part of one may":                  {replicas: 10, change: []func(*simulation){inPlace, maxUnavailable("99%"), image("2")}, want: pulls.Wanted},
		"when all may, but a partition stays":             {replicas: 10, change: []func(*simulation){inPlace, maxUnavailable(10), partition(1), image("2")}, want: pulls.Wanted},
		"before enough pods are updated":                  {replicas: 10, change: []func(*simulation){inPlace, threshold, image("2")}, want: pulls.Waiting},
		"a change that replaces pods":                     {replicas: 10, change: []func(*simulation){inPlace, image("2"), func(w *simulation) { w.set.Spec.Template.Spec.HostNetwork = true }}, want: pulls.NotUseful},
		"a partition that cannot be parsed":               {replicas: 10, change: []func(*simulation){inPlace, partition("x"), image("2")}, invalid: true},
		"over, before the status says so":                 {replicas: 10, change: []func(*simulation){inPlace, image("2"), allAt("2")}},
		"scaled in to what is updated, which is not over": {replicas: 10, change: []func(*simulation){inPlace, image("2"), allAt("2"), replicas(11)}, want: pulls.Wanted},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, tc.replicas)
			w.do(tc.change...)
			w.o.PreDownloadImages = true
			about := PreDownload(Parse(w.set, w.o), w.snapshot())
			if (about == nil) != tc.invalid {
				t.Fatalf("pulling ahead: %+v", about)
			}
			if about == nil {
				return
			}
			if got := pulls.Decide(*about, nil); got.State != tc.want || (len(got.Create) == 1) != (tc.want == pulls.Wanted) {
				t.Errorf("the decision is %+v, want %q", got, tc.want)
			}
		})
	}
}

// allAt labels all pods as being at a revision.
func allAt(tag string) func(*simulation) {
	return func(w *simulation) {
		for _, pod := range w.Pods {
			pod.Labels[shared.LabelControllerRevisionHash] = "web-" + tag
		}
	}
}

// RecreatePodWhenChangeVCTInCloneSetGate: a pod whose claim templates have changed since is replaced and not edited.
func TestChangedClaimTemplates(t *testing.T) {
	gate := func(w *simulation) { w.o.InPlace.ClaimTemplates = true }
	cases := map[string]struct {
		before, change []func(*simulation)
		replaced       bool
	}{
		"without the gate pods are edited": {
			before: []func(*simulation){inPlace, claimTemplates("data")},
			change: []func(*simulation){claimTemplates("data", "log"), image("2")},
		},
		"with it they are replaced": {
			before: []func(*simulation){gate, inPlace, claimTemplates("data")},
			change: []func(*simulation){claimTemplates("data", "log"), image("2")}, replaced: true,
		},
		"the first template counts": {
			before: []func(*simulation){gate, inPlace},
			change: []func(*simulation){claimTemplates("data"), image("2")}, replaced: true,
		},
		"the last one, too": {
			before: []func(*simulation){gate, inPlace, claimTemplates("data")},
			change: []func(*simulation){claimTemplates(), image("2")}, replaced: true,
		},
		"the order does not": {
			before: []func(*simulation){gate, inPlace, claimTemplates("data", "log")},
			change: []func(*simulation){claimTemplates("log", "data"), image("2")},
		},
		"unchanged templates do not": {
			before: []func(*simulation){gate, inPlace, claimTemplates("data")},
			change: []func(*simulation){image("2")},
		},
		"claim templates alone do nothing": {
			before: []func(*simulation){gate, inPlace, claimTemplates("data")},
			change: []func(*simulation){claimTemplates("log")},
		},
		"with InPlaceOnly pods are edited all the same": {
			before: []func(*simulation){gate, inPlaceOnly, claimTemplates("data")},
			change: []func(*simulation){claimTemplates("data", "log"), image("2")},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, 3, tc.before...)
			before := uids(w)
			w.rest(tc.change...)
			if stalled := w.condition("Stalled"); !strings.HasPrefix(stalled, "False") {
				t.Fatalf("the set is stalled: %s", stalled)
			}
			kept := 0
			for uid := range uids(w) {
				if before[uid] {
					kept++
				}
			}
			want := 3
			if tc.replaced {
				want = 0
			}
			if len(w.Pods) != 3 || kept != want {
				t.Errorf("%d of %d pods were kept, want %d: %s", kept, len(w.Pods), want, w.pods())
			}
		})
	}
}

func uids(w *simulation) map[string]bool {
	all := map[string]bool{}
	for _, pod := range w.Pods {
		all[string(pod.UID)] = true
	}
	return all
}
