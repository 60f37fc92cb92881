// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cloneset

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
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset/podsettest"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
)

// world is a cluster with one set named web, whose instance IDs are p01, p02 and so on in the order of creation.
type world struct {
	t   *testing.T
	set *appsv1beta1.CloneSet
	o   Options
	podsettest.World[int]
	cluster   podsettest.Cluster
	revisions map[string]revision.Revision
	// born is how many slots were used so far; fewestAvailable and mostPods what was ever seen at the end of a pass.
	born, fewestAvailable, mostPods int
	// stuck are the pods that the cluster leaves alone, by name; user says that hooks are released.
	stuck map[string]bool
	user  bool
	fault string
	plan  podset.Plan
}

func newWorld(t *testing.T, replicas int, change ...func(*world)) *world {
	t.Helper()
	w := &world{
		t: t, revisions: map[string]revision.Revision{}, stuck: map[string]bool{},
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
	w.do(change...)
	w.rest()
	w.watch()
	return w
}

func (w *world) do(change ...func(*world)) {
	for _, c := range change {
		c(w)
	}
}

// watch forgets what was seen so far.
func (w *world) watch() { w.mostPods, w.fewestAvailable = len(w.Pods), w.available() }

func (w *world) rolling() *appsv1beta1.RollingUpdateCloneSetStrategy {
	return w.set.Spec.UpdateStrategy.RollingUpdate
}

func value(v any) *intstr.IntOrString {
	parsed := intstr.Parse(fmt.Sprint(v))
	return &parsed
}

func partition(v any) func(*world) { return func(w *world) { w.rolling().Partition = value(v) } }
func maxUnavailable(v any) func(*world) {
	return func(w *world) { w.rolling().MaxUnavailable = value(v) }
}
func maxSurge(v any) func(*world)   { return func(w *world) { w.rolling().MaxSurge = value(v) } }
func inPlace(w *world)              { w.rolling().PodUpdatePolicy = shared.InPlaceIfPossible }
func inPlaceOnly(w *world)          { w.rolling().PodUpdatePolicy = shared.InPlaceOnly }
func paused(is bool) func(*world)   { return func(w *world) { w.rolling().Paused = is } }
func replicas(n int32) func(*world) { return func(w *world) { w.set.Spec.Replicas = &n } }
func minReady(n int32) func(*world) {
	return func(w *world) { w.set.Spec.MinReadySeconds, w.cluster.Clock = n, true }
}

func scaleMaxUnavailable(v any) func(*world) {
	return func(w *world) { w.set.Spec.ScaleStrategy.MaxUnavailable = value(v) }
}

func onDelete(w *world) {
	w.set.Spec.UpdateStrategy = appsv1beta1.CloneSetUpdateStrategy{Type: appsv1beta1.OnDeleteCloneSetUpdateStrategyType}
}

func hooks(h shared.Lifecycle) func(*world) {
	return func(w *world) {
		w.set.Spec.Lifecycle, w.cluster.Hooks = &h, &h
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

func claimTemplates(names ...string) func(*world) {
	return func(w *world) {
		w.set.Spec.VolumeClaimTemplates = nil
		for _, name := range names {
			w.set.Spec.VolumeClaimTemplates = append(w.set.Spec.VolumeClaimTemplates, corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
	}
}

func reuse(w *world) { w.set.Spec.ScaleStrategy.EnablePVCReuse = true }

// image changes the template; the hash of the revision is the tag.
func image(tag string) func(*world) {
	return func(w *world) { w.set.Spec.Template.Spec.Containers[0].Image = "web:" + tag; w.set.Generation++ }
}

// faulty is a server that would refuse the template.
func faulty(w *world) { w.fault = "spec.template.spec.containers[0].image: Required value" }

// broken is an image that never becomes ready.
func broken(tag string) func(*world) {
	return func(w *world) { w.cluster.NeverReady = append(w.cluster.NeverReady, "web:"+tag) }
}

// change replaces a pod by a changed copy.
func change(id string, how func(*corev1.Pod)) func(*world) {
	return func(w *world) {
		i := slices.IndexFunc(w.Pods, func(p *corev1.Pod) bool { return p.Name == "web-"+id })
		if i < 0 {
			w.t.Fatalf("there is no pod %s in %s", id, w)
		}
		w.Pods[i] = w.Pods[i].DeepCopy()
		how(w.Pods[i])
	}
}

func label(id, key, value string) func(*world) {
	return change(id, func(p *corev1.Pod) { p.Labels[key] = value })
}

func ask(ids ...string) func(*world) {
	return func(w *world) {
		for _, id := range ids {
			w.do(label(id, shared.LabelSpecifiedDelete, "true"))
		}
	}
}

// crash makes pods fail for good.
func crash(ids ...string) func(*world) {
	return func(w *world) {
		for _, id := range ids {
			w.move(id, podsettest.Crash)
			w.stuck["web-"+id] = true
		}
	}
}

func (w *world) move(id string, move podsettest.Move) {
	w.t.Helper()
	if err := podsettest.Do(&w.World, w.cluster, "web-"+id, move); err != nil {
		w.t.Fatal(err)
	}
}

// fresh are the slots that were never used.
func (w *world) fresh() iter.Seq[podset.Slot] {
	from := w.born
	return func(yield func(podset.Slot) bool) {
		for i := from + 1; yield(podset.Slot(fmt.Sprintf("p%02d", i))); i++ {
		}
	}
}

func (w *world) snapshot() podset.Snapshot {
	template := w.set.Spec.Template.DeepCopy()
	_, tag, _ := strings.Cut(template.Spec.Containers[0].Image, ":")
	update := revision.Revision{Name: "web-" + tag, Template: template}
	if w.o.InPlace.ClaimTemplates {
		update.Object = w.recorded(update.Name)
	}
	if _, known := w.revisions[update.Name]; !known {
		w.revisions[update.Name] = update
	}
	return podset.Snapshot{
		Now: podsettest.Now(), Pods: Pods(w.set, w.Pods, podsettest.Now(), w.o), Claims: w.ClaimsByName(),
		Update: update, Current: revision.Current(w.set.Status.CurrentRevision, update, w.revisions), Revisions: w.revisions, FreshSlots: w.fresh(),
		UpdateFault: w.fault,
	}
}

// recorded is the stored revision of that name, or a new one of now.
func (w *world) recorded(name string) *appsv1.ControllerRevision {
	if known, ok := w.revisions[name]; ok {
		return known.Object
	}
	annotations, err := revision.WithClaims(nil, w.set.Spec.VolumeClaimTemplates)
	if err != nil {
		w.t.Fatal(err)
	}
	return &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}}
}

func (w *world) available() int {
	n := 0
	for _, pod := range w.Pods {
		if podsettest.Available(pod, time.Duration(w.set.Spec.MinReadySeconds)*time.Second) {
			n++
		}
	}
	return n
}

// pass is one reconciliation. It reports whether anything was done.
func (w *world) pass() bool {
	w.t.Helper()
	s := w.snapshot()
	w.plan = Plan(w.set, s, w.o)
	for _, action := range w.plan.Actions {
		if err := podsettest.Apply(&w.World, action); err != nil {
			w.t.Fatal(err)
		}
		if action.Verb == podset.VerbCreate && strings.HasPrefix(string(action.Slot), "p") {
			var n int
			if _, err := fmt.Sscanf(string(action.Slot), "p%d", &n); err == nil {
				w.born = max(w.born, n)
			}
		}
	}
	w.set.Status, _ = Status(w.set, s, w.plan, podset.Outcome{Done: len(w.plan.Actions)}, w.o)
	w.set.Spec.ScaleStrategy.PodsToDelete, _ = RemainingPodsToDelete(w.set, Pods(w.set, w.Pods, podsettest.Now(), w.o))
	staying := 0
	for _, pod := range w.Pods {
		if pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodFailed {
			staying++
		}
	}
	w.mostPods, w.fewestAvailable = max(w.mostPods, staying), min(w.fewestAvailable, w.available())
	return len(w.plan.Actions) > 0
}

// kubelets let every pod get one step further. It reports whether anything happened.
func (w *world) kubelets() bool {
	happened := false
	for _, pod := range slices.Clone(w.Pods) {
		if w.stuck[pod.Name] && pod.DeletionTimestamp == nil {
			continue
		}
		moves := []podsettest.Move{podsettest.Vanish, podsettest.Start, podsettest.Observe, podsettest.Restart, podsettest.BecomeReady, podsettest.Sync}
		if w.user {
			moves = append(moves, podsettest.Release, podsettest.Rehook)
		}
		for _, move := range moves {
			if podsettest.Do(&w.World, w.cluster, pod.Name, move) == nil {
				happened = true
				break
			}
		}
	}
	before := len(w.Claims)
	w.Claims = slices.DeleteFunc(w.Claims, func(claim *corev1.PersistentVolumeClaim) bool {
		return len(claim.OwnerReferences) > 0 && !slices.ContainsFunc(claim.OwnerReferences, func(o metav1.OwnerReference) bool {
			return o.Kind != "Pod" || slices.ContainsFunc(w.Pods, func(p *corev1.Pod) bool { return p.UID == o.UID })
		})
	})
	return happened || len(w.Claims) < before
}

// rest lets passes and kubelets take turns until nothing changes any more.
func (w *world) rest(change ...func(*world)) {
	w.t.Helper()
	w.do(change...)
	for range 300 {
		acted := w.pass()
		if !w.kubelets() && !acted {
			return
		}
	}
	w.t.Fatalf("no rest:\n%s", w)
}

// pods are the instance IDs, each with its revision and what is unusual about it.
func (w *world) pods() string {
	var out []string
	for _, pod := range w.Pods {
		text := strings.TrimPrefix(pod.Name, "web-") + ":" + hashOf(pod.Labels[shared.LabelControllerRevisionHash])
		if pod.DeletionTimestamp != nil {
			text += " going"
		}
		if parked := pod.Labels[shared.LabelLifecycleState] == string(shared.StatePreparingDelete); parked {
			text += " parked"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// at is how many pods are at a revision.
func (w *world) at(tag string) int {
	n := 0
	for _, pod := range w.Pods {
		if hashOf(pod.Labels[shared.LabelControllerRevisionHash]) == tag && pod.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// actions counts what the last pass planned, by verb and reason.
func (w *world) actions() string {
	counts := map[string]int{}
	var order []string
	for _, a := range w.plan.Actions {
		key := string(a.Verb) + " " + a.Reason
		if a.Verb == podset.VerbCreate {
			key += " " + hashOf(a.Pod.Labels[shared.LabelControllerRevisionHash])
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

func (w *world) held() string {
	var out []string
	for _, note := range w.plan.Held {
		out = append(out, note.Reason)
	}
	return strings.Join(out, ", ")
}

// expectActions plans, without carrying anything out, and compares.
func (w *world) expectActions(want string) {
	w.t.Helper()
	w.plan = Plan(w.set, w.snapshot(), w.o)
	if got := w.actions(); got != want {
		w.t.Errorf("planned %q, want %q in\n%s", got, want, w)
	}
}

func (w *world) expectPods(want string) {
	w.t.Helper()
	if got := w.pods(); got != want {
		w.t.Errorf("pods %q, want %q", got, want)
	}
}

func (w *world) expect(what string, got, want any) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("%s: %v, want %v in\n%s", what, got, want, w)
	}
}
