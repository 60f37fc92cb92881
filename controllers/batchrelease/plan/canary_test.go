// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
	"github.com/kruise-operator/kruise-operator/internal/engine/rolling"
	"github.com/kruise-operator/kruise-operator/internal/testutil/walk"
)

// twins are a Deployment and its canary Deployments, with what their user may still do.
type twins struct {
	Release *v1beta1.BatchRelease
	// Template is that of the Deployment, Pods are its ready pods by version, Canaries the sizes of the others by version.
	Template           string
	Pods, Canaries     map[string]int
	Replicas           int
	Paused, Controlled bool
	InRelease, Missing bool
	// Refused: there is no room for more pods of the Deployment.
	Refused bool
	Actions []string
}

// newTwins is the moment after the brake.
func newTwins(actions ...string) *twins {
	b := &v1beta1.BatchRelease{}
	b.Generation = 1
	b.Spec.ReleasePlan = v1beta1.ReleasePlan{
		RollingStyle: v1beta1.CanaryRollingStyle, BatchPartition: new(int32),
		Batches: []v1beta1.ReleaseBatch{{CanaryReplicas: intstr.FromInt32(1)}, {CanaryReplicas: intstr.FromString("100%")}},
	}
	return &twins{
		Release: b, Template: "v2", Pods: map[string]int{"v1": 3}, Canaries: map[string]int{}, Replicas: 3, Paused: true, InRelease: true, Actions: actions,
	}
}

func (w *twins) text() string {
	text, err := json.Marshal(w)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func (w *twins) copy() *twins {
	c := &twins{}
	if err := json.Unmarshal([]byte(w.text()), c); err != nil {
		panic(err)
	}
	return c
}

// ends: the order is to give the workload back.
func (w *twins) ends() bool {
	return w.Release.DeletionTimestamp != nil || w.Release.Spec.ReleasePlan.BatchPartition == nil
}

func (w *twins) snapshot() Snapshot {
	canary := &Canary{}
	for version, size := range w.Canaries {
		if version == w.Template && !w.Missing {
			canary.Name, canary.Replicas, canary.Ready = version, size, size
		} else {
			canary.Others = append(canary.Others, version)
		}
	}
	slices.Sort(canary.Others)
	s := Snapshot{Now: now, Canary: canary}
	if w.Missing {
		return s
	}
	row, _ := rollable.Of("apps/v1", "Deployment")
	stable := w.Template
	for version, pods := range w.Pods {
		if pods > 0 && version < stable {
			stable = version
		}
	}
	s.Workload = &Workload{Workload: row, Controlled: w.Controlled, Rolling: &rolling.View{Observed: true, CaughtUp: true, Refused: w.Refused}, Facts: rollable.Facts{
		Settled: true, Replicas: w.Replicas, InRelease: w.InRelease, Guarded: true, Revision: w.Template, Stable: stable, Updated: w.Pods[w.Template],
	}}
	for _, pods := range w.Pods {
		s.Workload.Available += pods
	}
	if !w.ends() {
		s.Workload.Updated, s.Workload.Ready = canary.Replicas, canary.Replicas
	}
	return s
}

// pass is the controller; a crash comes after the status is stored.
func (w *twins) pass(crash bool) {
	if w.Release == nil {
		return
	}
	d := Plan(w.Release, w.snapshot())
	stored := SameCursor(&w.Release.Status, &d.Status)
	w.Release.Status = d.Status
	switch {
	case crash:
	case d.Ended && w.Release.DeletionTimestamp != nil:
		w.Release = nil
	case stored:
		w.do(d.Act)
	}
}

func (w *twins) do(act Act) {
	switch {
	case act.Control:
		w.Controlled, w.Paused = true, true
	case act.Restore:
		w.Controlled, w.Paused = false, false
	case act.Size != nil:
		w.Canaries[w.Template] = *act.Size
	}
	for _, version := range act.Drop {
		delete(w.Canaries, version)
	}
}

// roll is the Deployment controller: one pod.
func (w *twins) roll() bool {
	if w.Paused || w.Missing {
		return false
	}
	for _, version := range []string{"v1", "v2", "v3"} {
		if version != w.Template && w.Pods[version] > 0 && (!w.Refused || len(w.Canaries) == 0) {
			w.Pods[version]--
			w.Pods[w.Template]++
			return true
		}
	}
	return false
}

// act is the user, or his Rollout. It says whether that can be now.
func (w *twins) act(action string) bool {
	if w.Release == nil {
		return false
	}
	order := &w.Release.Spec.ReleasePlan
	switch action {
	case "v3", "v1": // the brake holds it
		w.Template, w.Paused, w.InRelease = action, true, true
	case "next":
		if w.ends() {
			return false
		}
		*order.BatchPartition = 1
	case "success", "cancel":
		if w.ends() {
			return false
		}
		order.BatchPartition, order.FinalizingPolicy = nil, map[string]v1beta1.FinalizingPolicyType{"success": v1beta1.WaitResumeFinalizingPolicyType, "cancel": v1beta1.ImmediateFinalizingPolicyType}[action]
		w.InRelease = false
	case "delete":
		w.Release.DeletionTimestamp, w.InRelease = &metav1.Time{Time: now}, false
	case "replace":
		w.Release.DeletionTimestamp = &metav1.Time{Time: now}
	case "remove":
		w.Missing = true
	case "full":
		w.Refused = true
	case "scale":
		w.Replicas++
		w.Pods["v1"]++
	}
	w.Release.Generation++
	return true
}

// broken says what may not be between two states.
func (w *twins) broken(after *twins) string {
	before, was := w.Canaries[w.Template], w.Pods
	switch {
	case w.Paused && after.Paused && fmt.Sprint(was) != fmt.Sprint(after.Pods) && after.Replicas == w.Replicas:
		return "a pod of the paused Deployment was replaced"
	case w.Release != nil && after.Release != nil && !after.ends() && w.Template == after.Template && after.Canaries[w.Template] < before && !w.Missing:
		return "a canary Deployment got smaller in a batch"
	case len(after.Canaries) > 2, len(after.Canaries) > len(w.Canaries) && len(w.Canaries) > 0:
		return "two canary Deployments at once were made"
	case after.Release == nil && len(after.Canaries) > 0 && !after.InRelease:
		return "a canary Deployment is left"
	}
	for version := range after.Canaries {
		if limit := map[bool]int{true: 1, false: after.Replicas}[after.Release != nil && !after.ends() && *after.Release.Spec.ReleasePlan.BatchPartition == 0]; after.Canaries[version] > limit {
			return "the canary Deployment is larger than its step"
		}
	}
	gone := before > 0 && after.Canaries[w.Template] == 0 && w.Template == after.Template && !w.Missing && !w.Refused
	if gone && w.Pods[w.Template] < w.Replicas && w.Template != "v1" && w.Release.Status.StableRevision != w.Template {
		return "pods of the new version went before those of the Deployment were there"
	}
	return ""
}

// end lets everything go on, and says what is missing then.
func (w *twins) end() string {
	for range 100 {
		before := w.text()
		w.pass(false)
		w.roll()
		if w.text() == before {
			break
		}
	}
	switch {
	case w.Release != nil && w.Release.DeletionTimestamp != nil:
		return "it is still there"
	case w.Release == nil || w.Missing:
		if _, next := w.Canaries[w.Template]; len(w.Canaries) > 0 && (w.Missing || !next) {
			return "a canary Deployment is left"
		}
	case w.ends() && (w.Release.Status.Phase != v1beta1.BatchReleasePhaseCompleted || len(w.Canaries) > 0):
		return "it does not end"
	}
	return ""
}

// TestExploreCanaries visits each order of passes, crashes, the Deployment controller and what a user may do.
func TestExploreCanaries(t *testing.T) {
	total := 0
	for _, actions := range [][]string{
		{"next", "success"}, {"next", "v1", "cancel"}, {"v3", "replace"}, {"v3", "success"}, {"cancel", "scale"}, {"next", "delete"}, {"v1", "delete"},
		{"next", "remove", "delete"}, {"next", "success", "full"}, {"next", "success", "v3", "replace"}, {"next", "scale", "replace"}, {"cancel", "v1", "delete", "full"},
	} {
		t.Run(strings.Join(actions, " "), func(t *testing.T) {
			total += walk.From(newTwins(actions...), (*twins).text, func(w *twins) []*twins {
				rest := w.copy()
				if wrong := rest.end(); wrong != "" {
					t.Fatalf("%s\nfrom %s\nend %s", wrong, w.text(), rest.text())
				}
				return w.next(t)
			})
		})
	}
	t.Logf("%d states", total)
}

// next are the states one step further.
func (w *twins) next(t *testing.T) (all []*twins) {
	t.Helper()
	add := func(name string, do func(*twins) bool) {
		n := w.copy()
		if !do(n) {
			return
		}
		if broken := w.broken(n); broken != "" {
			t.Fatalf("%s: %s\nbefore %s\nafter %s", name, broken, w.text(), n.text())
		}
		all = append(all, n)
	}
	add("a pass", func(n *twins) bool { n.pass(false); return true })
	add("a pass with a crash", func(n *twins) bool { n.pass(true); return true })
	add("the Deployment controller", (*twins).roll)
	for i, action := range w.Actions {
		add(action, func(n *twins) bool {
			n.Actions = slices.Delete(n.Actions, i, i+1)
			return n.act(action)
		})
	}
	return all
}

func TestACanaryBeginsWithoutPods(t *testing.T) {
	w := newTwins()
	var sizes []string
	for range 12 {
		w.pass(false)
		if text := fmt.Sprint(w.Canaries); len(sizes) == 0 || sizes[len(sizes)-1] != text {
			sizes = append(sizes, text)
		}
	}
	if got := strings.Join(sizes, " "); got != "map[] map[v2:0] map[v2:1]" {
		t.Errorf("got %s", got)
	}
	status := w.Release.Status
	if status.CanaryStatus.CurrentBatchState != v1beta1.BatchStateReady || status.CanaryStatus.UpdatedReplicas != 1 || status.CanaryStatus.UpdatedReadyReplicas != 1 || status.StableRevision != "v1" {
		t.Errorf("got %+v", status)
	}
}

func TestOtherKindsHaveNoCanary(t *testing.T) {
	w := newWorld(t, "apps/v1", "StatefulSet", 4, "1")
	w.release.Spec.ReleasePlan.RollingStyle = v1beta1.CanaryRollingStyle
	w.until(0)
	if w.w.Kept != 3 {
		t.Errorf("the partition is %d", w.w.Kept)
	}
}

func TestAKeptWorkloadLosesItsCanary(t *testing.T) {
	w := newTwins()
	for range 12 {
		w.pass(false)
	}
	w.act("cancel")
	s := w.snapshot()
	s.Keeps = true
	if d := Plan(w.Release, s); !d.Act.Restore || !d.Act.Keep {
		t.Fatalf("got %+v", d.Act)
	}
	s.Workload.Controlled = false
	if d := Plan(w.Release, s); !slices.Equal(d.Act.Drop, []string{"v2"}) {
		t.Errorf("got %+v", d.Act)
	}
}
