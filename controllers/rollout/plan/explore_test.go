// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
	"github.com/kruise-operator/kruise-operator/internal/testutil/walk"
)

// world is a Rollout with its workload and its BatchRelease, and what its user may still do.
type world struct {
	Rollout  *v1beta1.Rollout
	Release  *v1beta1.BatchRelease
	Template string
	// Stable is the version of all pods before the release; New are pods of the template.
	Stable              string
	Replicas, New       int
	Missing             bool
	Braked, InRelease   bool
	Guarded, Took, Free bool
	// Actions are what the user may still do, once each.
	Actions []string
	// Over: somebody allowed more pods than the present step.
	Over bool
	// Middle are pods of a version that another one followed. Net are requests; nil: nobody cares.
	Middle int
	Net    *net
	// Joint is a TrafficRouting; nil: none is named.
	Joint *joint
	// Twin: new pods come beside all old ones. Fault is the first thing that went wrong there.
	Twin  bool
	Fault string
	// ID is the rollout-id of the workload, Labels that of its new pods.
	ID, Labels string
}

var now = time.Unix(1_000_000, 0)

func newWorld(actions ...string) *world {
	r := &v1beta1.Rollout{}
	r.Name, r.Generation = "web", 1
	r.Spec.WorkloadRef = v1beta1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	one, two := intstr.FromInt32(1), intstr.FromString("100%")
	r.Spec.Strategy.Canary = &v1beta1.CanaryStrategy{Steps: []v1beta1.CanaryStep{{Replicas: &one}, {Replicas: &two}}}
	return &world{Rollout: r, Template: "v1", Stable: "v1", Replicas: 3, New: 3, Actions: actions}
}

func (w *world) key() string {
	text, err := json.Marshal(w)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func (w *world) copy() *world {
	c := *w
	c.Actions = slices.Clone(w.Actions)
	if w.Rollout != nil {
		c.Rollout = w.Rollout.DeepCopy()
	}
	c.Release = w.Release.DeepCopy()
	if w.Net != nil {
		n := *w.Net
		c.Net = &n
	}
	if w.Joint != nil {
		j := *w.Joint
		c.Joint = &j
	}
	return &c
}

func (w *world) snapshot() Snapshot {
	s := Snapshot{Now: now, Release: w.Release}
	if !w.Missing {
		deployment, _ := rollable.Of("apps/v1", "Deployment")
		s.Workload = &Workload{
			Workload: deployment, Facts: rollable.Facts{
				Settled: true, Replicas: w.Replicas, InRelease: w.InRelease, Guarded: w.Guarded,
				Revision: w.Template, Stable: w.Stable, Generation: 1, RolloutID: w.ID,
			},
		}
	}
	if w.Net != nil && w.Rollout != nil {
		s.World = w.requests(s.Workload)
	}
	if w.Joint != nil {
		s.Shared = w.Joint.read()
	}
	return s
}

// pass is the controller: the status is stored first, and what follows may be lost.
func (w *world) pass(crash bool) {
	if w.Rollout == nil {
		return
	}
	d := Plan(w.Rollout, w.snapshot())
	changed := !same(w.Rollout.Status, d.Status)
	w.Rollout.Status = d.Status
	if crash && changed {
		return
	}
	w.do(d)
}

func same(a, b v1beta1.RolloutStatus) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

func (w *world) do(d Decision) {
	if d.Unmark {
		w.InRelease = false
	}
	w.Guarded = w.Guarded && !d.Unguard || d.Guard
	if w.Net != nil {
		w.Net.do(d.Act, w)
	}
	if d.Hold || d.LetGo {
		w.Joint.Held = d.Hold && w.Joint.Exists && !w.Joint.Deleting
		return
	}
	switch {
	case d.Drop && w.Release.DeletionTimestamp == nil:
		w.Release.DeletionTimestamp = &metav1.Time{Time: now}
	case d.Order != nil && w.Release == nil:
		w.Release = &v1beta1.BatchRelease{Spec: *d.Order}
		w.Release.Generation = 1
	case d.Order != nil && w.Release.DeletionTimestamp == nil:
		before, _ := json.Marshal(w.Release.Spec)
		after, _ := json.Marshal(d.Order)
		if string(before) != string(after) {
			w.Release.Spec = *d.Order
			w.Release.Generation = 1 - w.Release.Generation
		}
	}
	if d.Ended {
		w.Rollout = nil
	}
}

// batch is the controller of the BatchRelease, in one go.
func (w *world) batch() {
	b := w.Release
	if b == nil {
		return
	}
	if b.DeletionTimestamp != nil {
		w.Release = nil
		return
	}
	if w.Missing {
		b.Status.ObservedGeneration, b.Status.Phase = b.Generation, v1beta1.BatchReleasePhaseCompleted
		return
	}
	if b.Spec.ReleasePlan.BatchPartition == nil {
		if !w.InRelease || b.Status.UpdateRevision == w.Template || b.Status.UpdateRevision != "" && w.Template == w.Stable && !w.succeeds() {
			w.release()
		}
		b.Status.ObservedGeneration, b.Status.Phase = b.Generation, v1beta1.BatchReleasePhaseCompleted
		return
	}
	if b.Status.UpdateRevision != "" && b.Status.UpdateRevision != w.Template || !w.InRelease {
		return
	}
	at := *b.Spec.ReleasePlan.BatchPartition
	deployment, _ := rollable.Of("apps/v1", "Deployment")
	before := w.New
	w.withdrawn()
	w.New = max(w.New, deployment.Limit(b.Spec.ReleasePlan.Batches[at].CanaryReplicas, w.Replicas))
	if w.Twin {
		w.Middle = 0
	}
	w.Middle = max(0, w.Middle-(w.New-before)) // the version from before the release goes last
	w.Labels = b.Spec.ReleasePlan.RolloutID
	b.Status.ObservedRolloutID = w.Labels
	b.Status.UpdateRevision, b.Status.ObservedGeneration, b.Status.ObservedWorkloadReplicas = w.Template, b.Generation, int32(w.Replicas)
	b.Status.CanaryStatus = v1beta1.BatchReleaseCanaryStatus{CurrentBatch: at, CurrentBatchState: v1beta1.BatchStateReady, UpdatedReplicas: int32(w.New)}
}

// release lets the workload go on by itself.
func (w *world) release() {
	w.resumed()
	w.Braked, w.New, w.Stable, w.Middle = false, w.Replicas, w.Template, 0
}

// apply is a template with the brake of admission.
func (w *world) apply(template string) {
	if w.Braked && w.Template != w.Stable {
		w.Middle += w.New
	}
	w.Template = template
	w.New = 0
	if template == w.Stable && !w.Braked {
		w.New = w.Replicas
	}
	if w.Guarded && w.Rollout != nil {
		w.Braked, w.InRelease = true, true
		return
	}
	w.Free = true
	w.release()
}

func (w *world) sub() *v1beta1.CanaryStatus { return w.Rollout.Status.CanaryStatus }

// act is the user. It says whether he can do that now.
func (w *world) act(action string) bool {
	if w.Rollout == nil && !strings.HasPrefix(action, "v") {
		return false
	}
	switch action {
	case "v2", "v3", "v1":
		if w.Template == action || w.Missing || !w.Guarded {
			return false
		}
		w.apply(action)
	case "id":
		if w.Missing || !w.Guarded {
			return false
		}
		w.ID, w.Over = action, w.Over || w.New == w.Replicas // the next release may begin with all pods
		if !w.InRelease {
			w.Braked, w.InRelease = true, true
		}
	case "pause", "resume":
		w.Rollout.Spec.Strategy.Paused = action == "pause"
	case "scale":
		if w.New == w.Replicas {
			w.New++
		}
		w.Replicas++
	case "plan":
		two := intstr.FromInt32(2)
		w.Rollout.Spec.Strategy.Canary.Steps[0].Replicas = &two
	case "forward", "back":
		if w.sub() == nil || w.Rollout.Status.Phase != v1beta1.RolloutPhaseProgressing {
			return false
		}
		w.sub().NextStepIndex = map[string]int32{"forward": 2, "back": 1}[action]
		w.Over = w.Over || action == "back"
	case "hasty":
		if w.sub() == nil || w.Rollout.Status.Phase != v1beta1.RolloutPhaseProgressing {
			return false
		}
		w.sub().CurrentStepState = v1beta1.CanaryStepStateReady
	case "disable":
		w.Rollout.Spec.Disabled = true
	case "delete":
		w.Rollout.DeletionTimestamp = &metav1.Time{Time: now}
	case "remove":
		w.Missing = true
	case "take":
		if !w.Guarded {
			return false
		}
		w.Guarded, w.Took = false, true
	default:
		if w.Joint != nil {
			return w.Joint.act(action)
		}
		return w.Net.act(action)
	}
	return true
}

// approve is the user when the message asks him.
func (w *world) approve() {
	if w.Rollout != nil && w.sub() != nil && w.sub().CurrentStepState == v1beta1.CanaryStepStatePaused {
		w.sub().CurrentStepState = v1beta1.CanaryStepStateReady
	}
}

// wait lets time pass.
func (w *world) wait() {
	if w.Rollout != nil && w.sub() != nil && w.sub().LastUpdateTime != nil {
		w.sub().LastUpdateTime = &metav1.Time{Time: now.Add(-time.Hour)}
	}
}

// broken says what must not be.
func (w *world) broken() string {
	if w.Net != nil && !w.Missing {
		if broken := w.lost(); broken != "" {
			return broken
		}
	}
	switch {
	case w.unheld():
		return "the TrafficRouting does not know of the release"
	case w.Fault != "":
		return w.Fault
	case w.Free && !w.Took && w.Rollout != nil && w.Rollout.DeletionTimestamp == nil && !w.Rollout.Spec.Disabled:
		return "a release ran without control"
	case w.Rollout == nil || w.sub() == nil || w.Missing || !w.Braked || w.Over || w.Template == w.Stable:
		return ""
	}
	steps := w.Rollout.Spec.Strategy.Canary.Steps
	deployment, _ := rollable.Of("apps/v1", "Deployment")
	i := min(max(int(w.sub().CurrentStepIndex), 1), len(steps))
	if limit := deployment.Limit(*steps[i-1].Replicas, w.Replicas); w.New > limit && w.New > deployment.Limit(intstr.FromInt32(2), w.Replicas) && w.sub().CanaryRevision == w.Template {
		return fmt.Sprintf("%d pods are new in step %d, which allows %d", w.New, i, limit)
	}
	return ""
}

// end lets everything go on, with an approving user, and says what is missing then.
func (w *world) end() string {
	if w.Net != nil && w.Net.Dead && w.Rollout != nil && w.Rollout.DeletionTimestamp == nil {
		w.act("delete") // nothing else helps
	}
	for range 200 {
		before := w.key()
		w.pass(false)
		w.batch()
		w.wait()
		if w.Net != nil {
			w.Net.Refusing, w.Net.Gone = false, false
			w.Net.sees()
		}
		if w.Joint != nil {
			w.Joint.Exists = w.Joint.Exists || w.Rollout != nil && w.Rollout.Spec.Strategy.Canary != nil
			w.Joint.pass()
		}
		if w.Rollout != nil && !w.Rollout.Spec.Strategy.Paused {
			w.approve()
		}
		if w.key() == before {
			break
		}
	}
	paused := w.Rollout != nil && w.Rollout.Spec.Strategy.Paused && !w.Rollout.Spec.Disabled && !w.Missing
	if left := w.Net.left(); left != "" && !paused {
		return left
	}
	if w.Joint != nil && (w.Joint.Held || w.Joint.Routing) && !paused {
		return "the TrafficRouting is still held"
	}
	switch {
	case w.Rollout != nil && (w.Rollout.DeletionTimestamp != nil):
		return "the Rollout is still there"
	case paused, w.Took:
		return ""
	case w.Missing:
		if w.Release != nil {
			return "the BatchRelease is still there"
		}
		return ""
	case w.Release != nil || w.Braked || w.InRelease:
		return "something of the release is left"
	case w.New != w.Replicas:
		return "not all pods are new"
	}
	if w.Rollout == nil || w.Rollout.Spec.Disabled {
		return ""
	}
	if sub := w.sub(); sub == nil || sub.ObservedRolloutID != w.ID || sub.CurrentStepState != v1beta1.CanaryStepStateCompleted {
		return "clients cannot see that the release is over"
	}
	if slices.ContainsFunc(w.Rollout.Status.Conditions, func(c v1beta1.RolloutCondition) bool {
		return c.Type == v1beta1.RolloutConditionSucceeded && c.Status == metav1.ConditionFalse
	}) {
		return ""
	}
	if w.Rollout.Status.Phase != v1beta1.RolloutPhaseHealthy || w.sub().CurrentStepState != v1beta1.CanaryStepStateCompleted {
		return "the Rollout is " + string(w.Rollout.Status.Phase) + " and the step " + string(w.sub().CurrentStepState)
	}
	if w.Labels != w.ID && !w.Free {
		return "the pods have the rollout-id " + w.Labels
	}
	return ""
}

// TestExploreUsers visits each order of passes, crashes and what a user may do.
func TestExploreUsers(t *testing.T) {
	cases := [][]string{
		{"v2"}, {"v2", "v3"}, {"v2", "v1"}, {"v2", "pause", "resume"}, {"v2", "scale"}, {"v2", "plan"}, {"v2", "forward"}, {"v2", "back"},
		{"v2", "hasty"}, {"v2", "disable"}, {"v2", "delete"}, {"v2", "remove"}, {"v2", "take"}, {"id"}, {"v2", "id"},
		{"v2", "id", "v1"}, {"v2", "v3", "id", "hasty"}, {"v2", "v3", "v1", "scale"}, {"v2", "v3", "disable", "hasty"}, {"v2", "v1", "delete", "forward"}, {"v2", "v3", "pause", "resume", "back"},
		{"v2", "plan", "scale", "v3", "hasty"}, {"v2", "v3", "v1", "delete", "pause"}, {"v2", "v1", "disable", "plan", "forward", "hasty"},
	}
	for i, actions := range cases {
		t.Run(strings.Join(actions, " "), func(t *testing.T) {
			if !sample.Has(i, 1<<max(len(actions)-2, 0)) { // longer ones are rarer
				t.Skip("left to another day")
			}
			exploreFrom(t, newWorld(actions...))
		})
	}
}

// exploreFrom visits all that can follow a state.
func exploreFrom(t *testing.T, start *world) {
	t.Helper()
	visited := 0
	states := walk.From(start, (*world).key, func(w *world) []*world {
		visited++
		if visited < 300 || sample.Has(visited, 10) { // most of the time goes into ends
			rest := w.copy()
			if wrong := rest.end(); wrong != "" {
				t.Fatalf("%s\nfrom %s\nend %s", wrong, w.key(), rest.key())
			}
		}
		return w.next(t)
	})
	t.Logf("%d states", states)
}

// next are the states one step further.
func (w *world) next(t *testing.T) (all []*world) {
	t.Helper()
	add := func(name string, do func(*world) bool) {
		n := w.copy()
		if !do(n) {
			return
		}
		if broken := n.broken(); broken != "" {
			t.Fatalf("%s: %s\nbefore %s\nafter %s", name, broken, w.key(), n.key())
		}
		all = append(all, n)
	}
	always := func(do func(*world)) func(*world) bool { return func(n *world) bool { do(n); return true } }
	add("a pass", always(func(n *world) { n.pass(false) }))
	add("a pass with a crash", always(func(n *world) { n.pass(true) }))
	add("a batch", always((*world).batch))
	add("time", always((*world).wait))
	add("approved", always((*world).approve))
	if w.Net != nil {
		add("the gateway", always(func(n *world) { n.Net.sees() }))
	}
	for i, action := range w.Actions {
		add(action, func(n *world) bool {
			n.Actions = slices.Delete(n.Actions, i, i+1)
			return n.act(action)
		})
	}
	if w.Joint != nil {
		add("the TrafficRouting", always(func(n *world) { n.Joint.pass() }))
	}
	return all
}
