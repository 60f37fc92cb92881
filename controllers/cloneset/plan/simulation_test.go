// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset/podsettest"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
	"github.com/kruise-operator/kruise-operator/internal/engine/spread"
)

// simulation is a cluster with one set named web, whose instance IDs are p01, p02 and so on in the order of creation.
type simulation struct {
	t   *testing.T
	set *appsv1beta1.CloneSet
	o   Options
	*podsettest.Simulation
	revisions map[string]revision.Revision
	// born is how many slots were used so far; minAvailable and maxPods what was ever seen at the end of a pass.
	born, minAvailable, maxPods int
	fault, unrecorded           string
	// nodeLabel is the value of a label of a node; nil when no node is known.
	nodeLabel func(node, key string) string
	// spread gives pods their subsets; nil when there is none.
	spread *spread.Spread
}

func newSimulation(t *testing.T, replicas int, change ...func(*simulation)) *simulation {
	t.Helper()
	w := &simulation{
		t: t, Simulation: podsettest.NewSimulation(t, podsettest.Now()), revisions: map[string]revision.Revision{},
		set: &appsv1beta1.CloneSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "set-uid", Generation: 1},
			Spec: appsv1beta1.CloneSetSpec{
				Replicas: ptr.To(int32(replicas)),
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web:1"}}},
				},
				UpdateStrategy: appsv1beta1.CloneSetUpdateStrategy{RollingUpdate: &appsv1beta1.RollingUpdateCloneSetStrategy{}},
			},
		},
	}
	w.Snapshot, w.Report = w.snapshot, w.report
	w.Step = func(s podset.Snapshot) planning.Plan { return Plan(Parse(w.set, w.o), s) }
	w.do(change...)
	w.rest()
	w.watch()
	return w
}

func (w *simulation) do(change ...func(*simulation)) {
	for _, c := range change {
		c(w)
	}
}

// watch forgets what was seen so far.
func (w *simulation) watch() { w.maxPods, w.minAvailable = len(w.Pods), w.available() }

func (w *simulation) rolling() *appsv1beta1.RollingUpdateCloneSetStrategy {
	return w.set.Spec.UpdateStrategy.RollingUpdate
}

func value(v any) *intstr.IntOrString {
	parsed := intstr.Parse(fmt.Sprint(v))
	return &parsed
}

func partition(v any) func(*simulation) {
	return func(w *simulation) { w.rolling().Partition = value(v) }
}
func maxUnavailable(v any) func(*simulation) {
	return func(w *simulation) { w.rolling().MaxUnavailable = value(v) }
}
func maxSurge(v any) func(*simulation) {
	return func(w *simulation) { w.rolling().MaxSurge = value(v) }
}
func inPlace(w *simulation)     { w.rolling().PodUpdatePolicy = shared.InPlaceIfPossible }
func inPlaceOnly(w *simulation) { w.rolling().PodUpdatePolicy = shared.InPlaceOnly }
func drainFor(seconds int32) func(*simulation) {
	return func(w *simulation) {
		w.rolling().InPlaceUpdateStrategy = &shared.InPlaceUpdateStrategy{GracePeriodSeconds: seconds}
	}
}
func paused(is bool) func(*simulation)   { return func(w *simulation) { w.rolling().Paused = is } }
func replicas(n int32) func(*simulation) { return func(w *simulation) { w.set.Spec.Replicas = &n } }
func minReady(n int32) func(*simulation) {
	return func(w *simulation) { w.set.Spec.MinReadySeconds, w.Cluster.Clock = n, true }
}

func scaleMaxUnavailable(v any) func(*simulation) {
	return func(w *simulation) { w.set.Spec.ScaleStrategy.MaxUnavailable = value(v) }
}

func onDelete(w *simulation) {
	w.set.Spec.UpdateStrategy = appsv1beta1.CloneSetUpdateStrategy{Type: appsv1beta1.OnDeleteCloneSetUpdateStrategyType}
}

func hooks(h shared.Lifecycle) func(*simulation) {
	return func(w *simulation) {
		w.set.Spec.Lifecycle, w.Cluster.Hooks = &h, &h
		for _, hook := range []*shared.LifecycleHook{h.PreDelete, h.InPlaceUpdate} {
			if hook != nil {
				for key, value := range hook.LabelsHandler {
					w.set.Spec.Template.Labels[key] = value
				}
			}
		}
	}
}

func hook(key string) *shared.LifecycleHook {
	return &shared.LifecycleHook{LabelsHandler: map[string]string{key: "yes"}}
}

func claimTemplates(names ...string) func(*simulation) {
	return func(w *simulation) {
		w.set.Spec.VolumeClaimTemplates = nil
		for _, name := range names {
			w.set.Spec.VolumeClaimTemplates = append(w.set.Spec.VolumeClaimTemplates, corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
	}
}

func reuse(w *simulation) { w.set.Spec.ScaleStrategy.EnablePVCReuse = true }

// withVariable changes the template in a way that is not possible in place.
func withVariable(w *simulation) {
	w.set.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "b"}}
}

// image changes the template; the hash of the revision is the tag.
func image(tag string) func(*simulation) {
	return func(w *simulation) { w.set.Spec.Template.Spec.Containers[0].Image = "web:" + tag; w.set.Generation++ }
}

// faulty is a server that would refuse the template.
func faulty(w *simulation) { w.fault = "spec.template.spec.containers[0].image: Required value" }

// unrecorded is a server that refuses to record the template.
func unrecorded(w *simulation) {
	w.unrecorded = "creating revision web-3: exceeded quota"
	w.set.Generation++
}

// broken is an image that never becomes ready.
func broken(tag string) func(*simulation) {
	return func(w *simulation) { w.Cluster.NeverReady = append(w.Cluster.NeverReady, "web:"+tag) }
}

// change replaces a pod by a changed copy.
func change(id string, how func(*corev1.Pod)) func(*simulation) {
	return func(w *simulation) {
		i := slices.IndexFunc(w.Pods, func(p *corev1.Pod) bool { return p.Name == "web-"+id })
		if i < 0 {
			w.t.Fatalf("there is no pod %s in %s", id, w)
		}
		w.Pods[i] = w.Pods[i].DeepCopy()
		how(w.Pods[i])
	}
}

func label(id, key, value string) func(*simulation) {
	return change(id, func(p *corev1.Pod) { p.Labels[key] = value })
}

func ask(ids ...string) func(*simulation) {
	return func(w *simulation) {
		for _, id := range ids {
			w.do(label(id, shared.LabelSpecifiedDelete, "true"))
		}
	}
}

// crash makes pods fail for good.
func crash(ids ...string) func(*simulation) {
	return func(w *simulation) {
		for _, id := range ids {
			w.move(id, podsettest.Crash)
			w.Held["web-"+id] = true
		}
	}
}

func (w *simulation) move(id string, move podsettest.Move) {
	w.t.Helper()
	w.Move("web-"+id, move)
}

// fresh are the slots that were never used.
func (w *simulation) fresh() iter.Seq[planning.Slot] {
	from := w.born
	return func(yield func(planning.Slot) bool) {
		for i := from + 1; yield(planning.Slot(fmt.Sprintf("p%02d", i))); i++ {
		}
	}
}

func (w *simulation) snapshot() podset.Snapshot {
	template := w.set.Spec.Template.DeepCopy()
	_, tag, _ := strings.Cut(template.Spec.Containers[0].Image, ":")
	update := revision.Revision{Name: "web-" + tag, Template: template}
	update.Object = w.recorded(update.Name)
	if _, known := w.revisions[update.Name]; !known && w.unrecorded == "" {
		w.revisions[update.Name] = update
	}
	wanted := update.Name
	if w.unrecorded != "" {
		update = w.revisions["web-2"]
	}
	var placing *spread.Placing
	if w.spread != nil {
		placing = &spread.Placing{Spread: w.spread, Replicas: int(*w.set.Spec.Replicas)}
	}
	return podset.Snapshot{
		Spread: placing,
		Now:    w.Time, Pods: Pods(Parse(w.set, w.o), w.Pods, nil, w.Time), Claims: w.ClaimsByName(), Unrecorded: w.unrecorded, Wanted: wanted,
		Update: update, Current: revision.Current(w.set.Status.CurrentRevision, update, w.revisions), Revisions: w.revisions, FreshSlots: w.fresh(),
		UpdateFault: w.fault, NodeLabel: w.nodeLabel,
	}
}

// recorded is the stored revision of that name, or a new one of now.
func (w *simulation) recorded(name string) *appsv1.ControllerRevision {
	if known, ok := w.revisions[name]; ok {
		return known.Object
	}
	annotations := revision.RecordClaims(nil, w.set.Spec.VolumeClaimTemplates)
	if w.o.InPlace.ClaimTemplates {
		annotations = revision.WithClaims(annotations, w.set.Spec.VolumeClaimTemplates)
	}
	return &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}}
}

func (w *simulation) available() int {
	n := 0
	for _, pod := range w.Pods {
		if podsettest.Available(pod, time.Duration(w.set.Spec.MinReadySeconds)*time.Second) {
			n++
		}
	}
	return n
}

// report writes the status, and notes what is seen at the end of a pass.
func (w *simulation) report(s podset.Snapshot, plan planning.Plan) {
	for _, action := range plan.Actions {
		if action.Step == podset.StepCreate && strings.HasPrefix(string(action.Slot), "p") {
			var n int
			if _, err := fmt.Sscanf(string(action.Slot), "p%d", &n); err == nil {
				w.born = max(w.born, n)
			}
		}
	}
	w.set.Status, _ = Status(Parse(w.set, w.o), s, plan, planning.Outcome{Done: len(plan.Actions)})
	w.set.Spec.ScaleStrategy.PodsToDelete, _ = RemainingPodsToDelete(Parse(w.set, w.o), Pods(Parse(w.set, w.o), w.Pods, nil, w.Time))
	staying := 0
	for _, pod := range w.Pods {
		if pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodFailed {
			staying++
		}
	}
	w.maxPods, w.minAvailable = max(w.maxPods, staying), min(w.minAvailable, w.available())
}

// rest changes something and lets passes and kubelets take turns until nothing changes any more.
func (w *simulation) rest(change ...func(*simulation)) {
	w.t.Helper()
	w.do(change...)
	w.Rest()
}

// pods are the instance IDs, each with its revision and what is unusual about it.
func (w *simulation) pods() string {
	var out []string
	for _, pod := range w.Pods {
		text := strings.TrimPrefix(pod.Name, "web-") + ":" + revision.HashOf(pod.Labels[shared.LabelControllerRevisionHash])
		if pod.DeletionTimestamp != nil {
			text += " going"
		}
		if preparingDelete := pod.Labels[shared.LabelLifecycleState] == string(shared.StatePreparingDelete); preparingDelete {
			text += " preparingDelete"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// at is how many pods are at a revision.
func (w *simulation) at(tag string) int {
	n := 0
	for _, pod := range w.Pods {
		if revision.HashOf(pod.Labels[shared.LabelControllerRevisionHash]) == tag && pod.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// actions counts what the last pass planned, by verb and reason.
func (w *simulation) actions() string {
	counts := map[string]int{}
	var order []string
	for _, a := range w.Plan.Actions {
		key := string(a.Step) + " " + a.Reason
		if a.Step == podset.StepCreate {
			key += " " + revision.HashOf(a.Object.GetLabels()[shared.LabelControllerRevisionHash])
		}
		if counts[key]++; counts[key] == 1 {
			order = append(order, key)
		}
	}
	for i, key := range order {
		order[i] = fmt.Sprintf("%d %s", counts[key], key)
	}
	return strings.Join(order, ", ")
}

func (w *simulation) held() string {
	var out []string
	for _, note := range w.Plan.Held {
		out = append(out, note.Reason)
	}
	return strings.Join(out, ", ")
}

// expectActions plans, without carrying anything out, and compares.
func (w *simulation) expectActions(want string) {
	w.t.Helper()
	w.Plan = Plan(Parse(w.set, w.o), w.snapshot())
	if got := w.actions(); got != want {
		w.t.Errorf("planned %q, want %q in\n%s", got, want, w)
	}
}

func (w *simulation) expectPods(want string) {
	w.t.Helper()
	if got := w.pods(); got != want {
		w.t.Errorf("pods %q, want %q", got, want)
	}
}

func (w *simulation) expect(what string, got, want any) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("%s: %v, want %v in\n%s", what, got, want, w)
	}
}
