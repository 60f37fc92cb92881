// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/ordinal"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
)

// world is a cluster with one set: what its plans do is done to it, and its kubelets act between passes.
type world struct {
	t   *testing.T
	set *appsv1beta1.StatefulSet
	o   Options
	now time.Time

	pods       map[string]*corev1.Pod
	claims     map[string]*corev1.PersistentVolumeClaim
	revisions  map[string]revision.Revision
	expandable map[string]bool
	fault      string
	plan       podset.Plan
	uids       int

	// broken are the images whose containers never become ready; slow are the pods that stay as they are for now.
	broken map[string]bool
	slow   map[string]bool
	// log is the story so far; always are checked after every pass.
	log    strings.Builder
	always []func(before, after podset.Snapshot) error
}

// began is when every world begins.
func began() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// newWorld is a Parallel set named web without pods, changed by the options.
func newWorld(t *testing.T, replicas int32, options ...func(*world)) *world {
	t.Helper()
	w := &world{
		t: t, now: began(), o: Options{AutoDeletePVC: true, PodIndexLabel: true},
		pods: map[string]*corev1.Pod{}, claims: map[string]*corev1.PersistentVolumeClaim{},
		revisions: map[string]revision.Revision{}, expandable: map[string]bool{"fast": true},
		broken: map[string]bool{}, slow: map[string]bool{},
		set: &appsv1beta1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "set-uid", Generation: 1},
			Spec: appsv1beta1.StatefulSetSpec{
				Replicas:            ptr.To(replicas),
				Selector:            &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
				ServiceName:         "peers",
				PodManagementPolicy: appsv1.ParallelPodManagement,
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web:1"}}},
				},
				UpdateStrategy: appsv1beta1.StatefulSetUpdateStrategy{
					Type:          appsv1.RollingUpdateStatefulSetStrategyType,
					RollingUpdate: &appsv1beta1.RollingUpdateStatefulSetStrategy{},
				},
			},
		},
	}
	for _, option := range options {
		option(w)
	}
	return w
}

func (w *world) rolling() *appsv1beta1.RollingUpdateStatefulSetStrategy {
	return w.set.Spec.UpdateStrategy.RollingUpdate
}

func ordered(w *world) { w.set.Spec.PodManagementPolicy = appsv1.OrderedReadyPodManagement }

func inPlace(w *world) { w.rolling().PodUpdatePolicy = shared.InPlaceIfPossible }

func partition(n int32) func(*world) {
	return func(w *world) { w.rolling().Partition = &n }
}

func maxUnavailable(v any) func(*world) {
	return func(w *world) { w.rolling().MaxUnavailable = intOrString(v) }
}

func scaleMaxUnavailable(v any) func(*world) {
	return func(w *world) {
		w.set.Spec.ScaleStrategy = &appsv1beta1.StatefulSetScaleStrategy{MaxUnavailable: intOrString(v)}
	}
}

func intOrString(v any) *intstr.IntOrString {
	value := intstr.Parse(fmt.Sprint(v))
	return &value
}

func minReady(seconds int32) func(*world) {
	return func(w *world) { w.rolling().MinReadySeconds = &seconds }
}

func reserve(v ...any) func(*world) {
	return func(w *world) {
		w.set.Spec.ReserveOrdinals = nil
		for _, element := range v {
			w.set.Spec.ReserveOrdinals = append(w.set.Spec.ReserveOrdinals, *intOrString(element))
		}
	}
}

func hooks(l shared.Lifecycle) func(*world) {
	return func(w *world) { w.set.Spec.Lifecycle = &l }
}

func finalizerHook(name string) *shared.LifecycleHook {
	return &shared.LifecycleHook{FinalizersHandler: []string{name}}
}

// storage gives the set a claim template named data.
func storage(size string) func(*world) {
	return func(w *world) {
		claim := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
		claim.Spec.StorageClassName = ptr.To("fast")
		claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
		w.set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{claim}
	}
}

func retention(whenScaled, whenDeleted appsv1.PersistentVolumeClaimRetentionPolicyType) func(*world) {
	return func(w *world) {
		w.set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1beta1.StatefulSetPersistentVolumeClaimRetentionPolicy{
			WhenScaled: whenScaled, WhenDeleted: whenDeleted,
		}
	}
}

// running lets the set come to rest first, at revision web-1.
func running(w *world) { w.rest() }

// image changes the template's image; the revision is named after the tag.
func image(tag string) func(*world) {
	return func(w *world) {
		w.set.Spec.Template.Spec.Containers[0].Image = "web:" + tag
		w.set.Generation++
	}
}

// env makes a change of the template that cannot be made in place.
func env(w *world) {
	w.set.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "b"}}
}

func replicas(n int32) func(*world) { return func(w *world) { w.set.Spec.Replicas = &n } }

func (w *world) pod(ordinal int) *corev1.Pod {
	w.t.Helper()
	pod := w.pods[fmt.Sprintf("web-%d", ordinal)]
	if pod == nil {
		w.t.Fatalf("there is no pod with ordinal %d", ordinal)
	}
	return pod
}

// unready makes pods crash-loop for good; each stands for one the kubelet does not get ready.
func unready(ordinals ...int) func(*world) {
	return func(w *world) {
		for _, o := range ordinals {
			pod := w.pod(o)
			w.slow[pod.Name] = true
			setReady(pod, false, w.now)
		}
	}
}

func label(key, value string, ordinals ...int) func(*world) {
	return func(w *world) {
		for _, o := range ordinals {
			w.pod(o).Labels[key] = value
		}
	}
}

func specified(ordinals ...int) func(*world) {
	return label(shared.LabelSpecifiedDelete, "true", ordinals...)
}

func (w *world) snapshot() podset.Snapshot {
	template := w.set.Spec.Template.DeepCopy()
	_, tag, _ := strings.Cut(template.Spec.Containers[0].Image, ":")
	update := revision.Revision{Name: "web-" + tag, Template: template}
	if len(template.Spec.Containers[0].Env) > 0 {
		update.Name += "-env"
	}
	w.revisions[update.Name] = update
	pods := slices.Collect(maps.Values(w.pods))
	return podset.Snapshot{
		Now: w.now, Pods: Pods(w.set, pods, w.now, w.o), Claims: w.claims, Expandable: w.expandable,
		Update: update, Current: revision.Current(w.set.Status.CurrentRevision, update, w.revisions), Revisions: w.revisions,
		UpdateFault: w.fault,
	}
}

// pass is one reconciliation. It reports whether anything was done.
func (w *world) pass() bool {
	w.t.Helper()
	s := w.snapshot()
	w.plan = Plan(w.set, s, w.o)
	fmt.Fprintf(&w.log, "%v\n", w.now.Sub(began()))
	acted := map[string]bool{}
	for _, action := range w.plan.Actions {
		line := describe(action)
		fmt.Fprintf(&w.log, "  %s\n", line)
		if action.Pod != nil && action.Verb != podset.VerbCreateClaim {
			if acted[action.Pod.Name] {
				w.t.Errorf("pod %s has two actions: %s", action.Pod.Name, line)
			}
			acted[action.Pod.Name] = true
		}
		w.apply(action)
	}
	for _, note := range w.plan.Held {
		fmt.Fprintf(&w.log, "  (%s) %s\n", note.Reason, note.Message)
	}
	after := w.snapshot()
	for _, check := range w.always {
		if err := check(s, after); err != nil {
			w.t.Errorf("%v: %v\n%s", w.now, err, w.log.String())
		}
	}
	w.set.Status = Status(w.set, s, w.plan, podset.Outcome{Done: len(w.plan.Actions)}, w.o)
	return len(w.plan.Actions) > 0
}

func describe(action podset.Action) string {
	name := string(action.Slot)
	switch {
	case action.Claim != nil:
		name = action.Claim.Name
	case action.Pod != nil:
		name = action.Pod.Name
	}
	line := fmt.Sprintf("%s %s %s", action.Verb, name, action.Reason)
	switch action.Verb {
	case podset.VerbCreate:
		line += " " + action.Pod.Labels[shared.LabelControllerRevisionHash]
	case podset.VerbEdit:
		if state := action.Edit.Labels[shared.LabelLifecycleState]; state != nil {
			line += " " + *state
		}
	}
	return line
}

func (w *world) apply(action podset.Action) {
	w.t.Helper()
	for _, claim := range action.Claims {
		if w.claims[claim.Name] != nil {
			w.t.Errorf("claim %s exists already", claim.Name)
		}
		claim = claim.DeepCopy()
		claim.UID = w.uid()
		claim.Status.Capacity = claim.Spec.Resources.Requests
		w.claims[claim.Name] = claim
	}
	switch action.Verb {
	case podset.VerbCreate:
		if w.pods[action.Pod.Name] != nil {
			w.t.Errorf("pod %s exists already", action.Pod.Name)
		}
		pod := action.Pod.DeepCopy()
		pod.UID, pod.Generation = w.uid(), 1
		pod.Status.Phase = corev1.PodPending
		w.pods[pod.Name] = action.Edit.Apply(pod)
	case podset.VerbDelete:
		pod := w.pods[action.Pod.Name]
		if pod.DeletionTimestamp != nil {
			w.t.Errorf("pod %s is deleted twice", pod.Name)
		}
		pod.DeletionTimestamp = ptr.To(metav1.NewTime(w.now))
	case podset.VerbEdit:
		w.pods[action.Pod.Name] = action.Edit.Apply(w.pods[action.Pod.Name])
	case podset.VerbEditClaim:
		before, err := json.Marshal(w.claims[action.Claim.Name])
		if err != nil {
			w.t.Fatal(err)
		}
		after, err := jsonpatch.MergePatch(before, action.ClaimPatch)
		if err != nil {
			w.t.Fatal(err)
		}
		claim := &corev1.PersistentVolumeClaim{}
		if err := json.Unmarshal(after, claim); err != nil {
			w.t.Fatal(err)
		}
		w.claims[claim.Name] = claim
	case podset.VerbCreateClaim:
	}
}

func (w *world) uid() types.UID {
	w.uids++
	return types.UID(fmt.Sprintf("uid-%d", w.uids))
}

// kubelets let every pod get one step further, and storage grow; pods that are slow stay as they are.
func (w *world) kubelets() {
	w.now = w.now.Add(time.Second)
	for name, pod := range w.pods {
		if w.slow[name] && pod.DeletionTimestamp == nil {
			continue
		}
		switch {
		case pod.DeletionTimestamp != nil:
			if len(pod.Finalizers) == 0 && !w.slow["terminating "+name] {
				delete(w.pods, name)
				delete(w.slow, name)
				w.collect(pod.UID)
			}
		case podstate.Finished(pod):
		default:
			w.runContainers(pod)
		}
	}
	for _, claim := range w.claims {
		if !w.slow[claim.Name] {
			claim.Status.Capacity = claim.Spec.Resources.Requests
		}
	}
}

// collect deletes the claims that a pod owned, except slow ones, which it lets go on terminating.
func (w *world) collect(uid types.UID) {
	for name, claim := range w.claims {
		if slices.ContainsFunc(claim.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == uid }) {
			if w.slow[name] {
				claim.DeletionTimestamp = ptr.To(metav1.NewTime(w.now))
			} else {
				delete(w.claims, name)
			}
		}
	}
}

func (w *world) runContainers(pod *corev1.Pod) {
	ready := true
	statuses := make([]corev1.ContainerStatus, 0, len(pod.Spec.Containers))
	for i, container := range pod.Spec.Containers {
		status := corev1.ContainerStatus{Name: container.Name}
		if i < len(pod.Status.ContainerStatuses) {
			status = pod.Status.ContainerStatuses[i]
		}
		if status.Image != container.Image {
			status.ContainerID, status.ImageID, status.Image = string(w.uid()), "id of "+container.Image, container.Image
			status.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(w.now)}
		}
		status.Ready = !w.broken[container.Image]
		ready = ready && status.Ready
		statuses = append(statuses, status)
	}
	pod.Status.ObservedGeneration = pod.Generation
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = statuses
	setCondition(pod, corev1.ContainersReady, ready, w.now)
	for _, gate := range pod.Spec.ReadinessGates {
		condition := podstate.Condition(pod, gate.ConditionType)
		ready = ready && condition != nil && condition.Status == corev1.ConditionTrue
	}
	setCondition(pod, corev1.PodReady, ready, w.now)
}

func setReady(pod *corev1.Pod, ready bool, now time.Time) {
	setCondition(pod, corev1.ContainersReady, ready, now)
	setCondition(pod, corev1.PodReady, ready, now)
}

func setCondition(pod *corev1.Pod, kind corev1.PodConditionType, is bool, now time.Time) {
	status := corev1.ConditionFalse
	if is {
		status = corev1.ConditionTrue
	}
	for i := range pod.Status.Conditions {
		condition := &pod.Status.Conditions[i]
		if condition.Type == kind {
			if condition.Status != status {
				condition.Status, condition.LastTransitionTime = status, metav1.NewTime(now)
			}
			return
		}
	}
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: status, LastTransitionTime: metav1.NewTime(now)})
}

// rest lets passes and kubelets take turns until nothing changes any more.
func (w *world) rest() {
	w.t.Helper()
	const most = 400
	for range most {
		acted := w.pass()
		before := w.state()
		w.kubelets()
		if wait := w.plan.RecheckAfter; wait > time.Second {
			w.now = w.now.Add(wait - time.Second)
		}
		if !acted && w.plan.RecheckAfter == 0 && before == w.state() {
			story := w.story()
			w.log.Reset()
			w.log.WriteString(story)
			return
		}
	}
	w.t.Fatalf("no rest after %d passes:\n%s", most, w.log.String())
}

// story drops what repeats: a pass that says what the one before said.
func (w *world) story() string {
	var out strings.Builder
	last := ""
	for _, part := range strings.Split(strings.TrimSpace(w.log.String()), "\n") {
		if part == "" {
			continue
		}
		if !strings.HasPrefix(part, "  ") {
			last = part
			continue
		}
		if last != "" {
			fmt.Fprintln(&out, last)
			last = ""
		}
		fmt.Fprintln(&out, part)
	}
	return out.String()
}

func (w *world) state() string {
	data, err := json.Marshal([]any{w.pods, w.claims})
	if err != nil {
		w.t.Fatal(err)
	}
	return string(data)
}

// actions are what the last pass planned.
func (w *world) actions() []string {
	out := make([]string, 0, len(w.plan.Actions))
	for _, action := range w.plan.Actions {
		out = append(out, describe(action))
	}
	return out
}

// held are the reasons of its notes.
func (w *world) held() []string {
	out := make([]string, 0, len(w.plan.Held))
	for _, note := range w.plan.Held {
		out = append(out, note.Reason)
	}
	return out
}

// names are the pods there are, by ordinal, with their revision.
func (w *world) names() string {
	pods := slices.SortedFunc(maps.Values(w.pods), func(a, b *corev1.Pod) int { return ordinalOf(a) - ordinalOf(b) })
	out := make([]string, len(pods))
	for i, pod := range pods {
		out[i] = fmt.Sprintf("%d:%s", ordinalOf(pod), strings.TrimPrefix(pod.Labels[shared.LabelControllerRevisionHash], "web-"))
	}
	return strings.Join(out, " ")
}

func ordinalOf(pod *corev1.Pod) int {
	n, _ := ordinal.OfPod("web", pod.Name)
	return n
}

// atMostUnavailable holds that a pass takes no available pod away beyond n unavailable ones.
func atMostUnavailable(n int) func(before, after podset.Snapshot) error {
	return func(before, after podset.Snapshot) error {
		if was, is := unavailable(before), unavailable(after); is > n && is > was {
			return fmt.Errorf("%d pods were unavailable, and the pass made it %d; allowed are %d", was, is, n)
		}
		return nil
	}
}

// unavailable counts pods that are not available; surplus ones may be removed at any time.
func unavailable(s podset.Snapshot) int {
	n := 0
	for i := range s.Pods {
		if pod := &s.Pods[i]; !pod.Available && pod.Doom != podset.DoomSurplus {
			n++
		}
	}
	return n
}

// withinLimit is atMostUnavailable for the set as it is at the time, missing pods included: no pass takes an available pod that
// is wanted out of service when as many as allowed are already.
func withinLimit(w *world) func(before, after podset.Snapshot) error {
	return func(before, after podset.Snapshot) error {
		spec, err := read(w.set, w.o)
		if err != nil {
			return err
		}
		available := func(s podset.Snapshot) int {
			n := 0
			for i := range s.Pods {
				if pod := &s.Pods[i]; pod.Available && pod.Doom != podset.DoomSurplus {
					n++
				}
			}
			return n
		}
		was, is := available(before), available(after)
		if is < was && spec.replicas-is > spec.maxUnavailable {
			return fmt.Errorf("of %d pods %d were available, and the pass left %d; %d may be unavailable", spec.replicas, was, is, spec.maxUnavailable)
		}
		return nil
	}
}
