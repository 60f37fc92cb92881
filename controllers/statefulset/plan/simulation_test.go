// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/ordinal"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset/podsettest"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
)

// simulation is a cluster with one set: what its plans do is done to it, and its kubelets act between passes.
type simulation struct {
	t   *testing.T
	set *appsv1beta1.StatefulSet
	o   Options
	*podsettest.Simulation
	revisions  map[string]revision.Revision
	expandable map[string]bool
	fault      string
	// unrecorded is why the server refuses to record a template; then the first one stands in for it.
	unrecorded string
}

// began is when every simulation begins.
func began() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// newSimulation is a Parallel set named web without pods, changed by the options.
func newSimulation(t *testing.T, replicas int32, options ...func(*simulation)) *simulation {
	t.Helper()
	w := &simulation{
		t: t, Simulation: podsettest.NewSimulation(t, began()), o: Options{AutoDeletePVC: true, PodIndexLabel: true},
		revisions: map[string]revision.Revision{}, expandable: map[string]bool{"fast": true},
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
	w.AtOnce = true
	w.Snapshot = w.snapshot
	w.Step = func(s podset.Snapshot) planning.Plan { return Plan(Parse(w.set, w.o), s) }
	w.Report = func(s podset.Snapshot, plan planning.Plan) {
		w.set.Status = Status(Parse(w.set, w.o), s, plan, planning.Outcome{Done: len(plan.Actions)})
	}
	for _, option := range options {
		option(w)
	}
	return w
}

func (w *simulation) rolling() *appsv1beta1.RollingUpdateStatefulSetStrategy {
	return w.set.Spec.UpdateStrategy.RollingUpdate
}

func ordered(w *simulation) { w.set.Spec.PodManagementPolicy = appsv1.OrderedReadyPodManagement }

func inPlace(w *simulation) { w.rolling().PodUpdatePolicy = shared.InPlaceIfPossible }

func partition(n int32) func(*simulation) {
	return func(w *simulation) { w.rolling().Partition = &n }
}

func maxUnavailable(v any) func(*simulation) {
	return func(w *simulation) { w.rolling().MaxUnavailable = intOrString(v) }
}

func scaleMaxUnavailable(v any) func(*simulation) {
	return func(w *simulation) {
		w.set.Spec.ScaleStrategy = &appsv1beta1.StatefulSetScaleStrategy{MaxUnavailable: intOrString(v)}
	}
}

func intOrString(v any) *intstr.IntOrString {
	value := intstr.Parse(fmt.Sprint(v))
	return &value
}

func minReady(seconds int32) func(*simulation) {
	return func(w *simulation) { w.rolling().MinReadySeconds = &seconds }
}

func reserve(v ...any) func(*simulation) {
	return func(w *simulation) {
		w.set.Spec.ReserveOrdinals = nil
		for _, element := range v {
			w.set.Spec.ReserveOrdinals = append(w.set.Spec.ReserveOrdinals, *intOrString(element))
		}
	}
}

func hooks(l shared.Lifecycle) func(*simulation) {
	return func(w *simulation) { w.set.Spec.Lifecycle = &l }
}

func finalizerHook(name string) *shared.LifecycleHook {
	return &shared.LifecycleHook{FinalizersHandler: []string{name}}
}

// storage gives the set a claim template named data.
func storage(size string) func(*simulation) {
	return func(w *simulation) {
		claim := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
		claim.Spec.StorageClassName = ptr.To("fast")
		claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
		w.set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{claim}
	}
}

func retention(whenScaled, whenDeleted appsv1.PersistentVolumeClaimRetentionPolicyType) func(*simulation) {
	return func(w *simulation) {
		w.set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1beta1.StatefulSetPersistentVolumeClaimRetentionPolicy{
			WhenScaled: whenScaled, WhenDeleted: whenDeleted,
		}
	}
}

// running lets the set come to rest first, at revision web-1.
func running(w *simulation) { w.Rest() }

// image changes the template's image; the revision is named after the tag.
func image(tag string) func(*simulation) {
	return func(w *simulation) {
		w.set.Spec.Template.Spec.Containers[0].Image = "web:" + tag
		w.set.Generation++
	}
}

// env makes a change of the template that cannot be made in place.
func env(w *simulation) {
	w.set.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "b"}}
}

func replicas(n int32) func(*simulation) { return func(w *simulation) { w.set.Spec.Replicas = &n } }

func (w *simulation) pod(ordinal int) *corev1.Pod {
	w.t.Helper()
	pod := w.Pod(fmt.Sprintf("web-%d", ordinal))
	if pod == nil {
		w.t.Fatalf("there is no pod with ordinal %d", ordinal)
	}
	return pod
}

// unready makes pods crash-loop for good; each stands for one the kubelet does not get ready.
func unready(ordinals ...int) func(*simulation) {
	return func(w *simulation) {
		for _, o := range ordinals {
			pod := w.pod(o)
			w.Held[pod.Name] = true
			setReady(pod, false, w.Time)
		}
	}
}

func label(key, value string, ordinals ...int) func(*simulation) {
	return func(w *simulation) {
		for _, o := range ordinals {
			w.pod(o).Labels[key] = value
		}
	}
}

func specified(ordinals ...int) func(*simulation) {
	return label(shared.LabelSpecifiedDelete, "true", ordinals...)
}

func (w *simulation) snapshot() podset.Snapshot {
	template := w.set.Spec.Template.DeepCopy()
	_, tag, _ := strings.Cut(template.Spec.Containers[0].Image, ":")
	update := revision.Revision{Name: "web-" + tag, Template: template}
	if len(template.Spec.Containers[0].Env) > 0 {
		update.Name += "-env"
	}
	annotations := revision.RecordClaims(nil, w.set.Spec.VolumeClaimTemplates)
	update.Object = &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: update.Name, Annotations: annotations}}
	wanted := update.Name
	if w.unrecorded == "" {
		w.revisions[update.Name] = update
	} else {
		update = w.revisions["web-1"]
	}
	return podset.Snapshot{
		Now: w.Time, Pods: Pods(Parse(w.set, w.o), w.Pods, nil, w.Time), Claims: w.ClaimsByName(), Expandable: w.expandable,
		Update: update, Current: revision.Current(w.set.Status.CurrentRevision, update, w.revisions), Revisions: w.revisions,
		UpdateFault: w.fault, Unrecorded: w.unrecorded, Wanted: wanted,
	}
}

// breaks makes images whose containers never become ready.
func (w *simulation) breaks(images ...string) {
	w.Cluster.NeverReady = append(w.Cluster.NeverReady, images...)
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

// names are the pods there are, by ordinal, with their revision.
func (w *simulation) names() string {
	pods := slices.SortedFunc(slices.Values(w.Pods), func(a, b *corev1.Pod) int { return ordinalOf(a) - ordinalOf(b) })
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
		if pod := &s.Pods[i]; !pod.Available && pod.Unwanted != podset.UnwantedSurplus {
			n++
		}
	}
	return n
}

// withinLimit is atMostUnavailable for the set as it is at the time, missing pods included: no pass takes an available pod that
// is wanted out of service when as many as allowed are already.
func withinLimit(w *simulation) func(before, after podset.Snapshot) error {
	return func(before, after podset.Snapshot) error {
		spec := Parse(w.set, w.o)
		if spec.Invalid != nil {
			return spec.Invalid
		}
		available := func(s podset.Snapshot) int {
			n := 0
			for i := range s.Pods {
				if pod := &s.Pods[i]; pod.Available && pod.Unwanted != podset.UnwantedSurplus {
					n++
				}
			}
			return n
		}
		was, is := available(before), available(after)
		if is < was && spec.Replicas-is > spec.MaxUnavailable {
			return fmt.Errorf("of %d pods %d were available, and the pass left %d; %d may be unavailable", spec.Replicas, was, is, spec.MaxUnavailable)
		}
		return nil
	}
}
