// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsshared "github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
	rolloutsv1beta1 "github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// releasedPods is the size of each workload, and how many nodes each DaemonSet has.
const releasedPods = 4

// releasedWorkload is a workload of any kind. EXTRA is what its kind needs besides.
const releasedWorkload = `
apiVersion: VERSION
kind: KIND
metadata: {name: web}
spec:
  EXTRA
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeSelector: {` + environment.Own + `: NODES}
      tolerations: [{key: ` + environment.Own + `, operator: Exists}]
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: "example/web:v1"}]
`

// release is a workload in a release, in a namespace of its own.
type release struct {
	*environment.Namespace
	t   *testing.T
	row rollable.Workload
}

// newRelease has a workload of v1, and gives it v2 while it is held.
func newRelease(t *testing.T, row rollable.Workload) *release {
	t.Helper()
	n := env.Namespace(t)
	r := &release{Namespace: n, t: t, row: row}
	for i := range releasedPods {
		n.OwnNode(fmt.Sprintf("%s-%d", n.Name, i), nil)
	}
	extra := map[string]string{
		"Deployment":  fmt.Sprintf("replicas: %d", releasedPods),
		"CloneSet":    fmt.Sprintf("replicas: %d", releasedPods),
		"StatefulSet": fmt.Sprintf("replicas: %d\n  serviceName: web", releasedPods),
	}[row.Kind.Kind]
	n.Apply(strings.NewReplacer("VERSION", row.Kind.GroupVersion().String(), "KIND", row.Kind.Kind, "NODES", n.Name, "EXTRA", extra).Replace(releasedWorkload))
	r.has(0)
	r.patch(r.held(), "v2")
	return r
}

// held is the spec of a workload that keeps its pods, as the brake of a Rollout writes it.
func (r *release) held() string {
	switch {
	case r.row.Kind.Kind == "Deployment":
		return `"paused":true`
	case r.row.Partition == nil:
		return `"updateStrategy":{"type":"OnDelete"}`
	}
	return `"updateStrategy":{"rollingUpdate":{"partition":32767}}`
}

// patch sets the image, and more of the spec.
func (r *release) patch(more, image string) {
	r.t.Helper()
	spec := `"template":{"spec":{"containers":[{"name":"main","image":"example/web:` + image + `"}]}}`
	if more != "" {
		spec += "," + more
	}
	if err := r.Client.Patch(r.t.Context(), r.named(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{`+spec+`}}`))); err != nil {
		r.t.Fatal(err)
	}
}

func (r *release) named() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(r.row.Kind)
	object.SetNamespace(r.Name)
	object.SetName("web")
	return object
}

func (r *release) workload() *unstructured.Unstructured {
	r.t.Helper()
	object := r.named()
	if err := r.Client.Get(r.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		r.t.Fatal(err)
	}
	return object
}

// updated counts pods of v2; all have to be ready.
func (r *release) updated(ctx context.Context) (int, error) {
	pods, err := r.ListPods(ctx, "app=web")
	if err != nil || len(pods) != releasedPods {
		return 0, errors.Join(err, fmt.Errorf("there are %d pods", len(pods)))
	}
	updated := 0
	for i := range pods {
		if !environment.IsReady(&pods[i]) || pods[i].DeletionTimestamp != nil {
			return 0, fmt.Errorf("pod %s is not ready", pods[i].Name)
		}
		if strings.HasSuffix(pods[i].Spec.Containers[0].Image, ":v2") {
			updated++
		}
	}
	return updated, nil
}

// has waits until so many pods have v2, and all are ready.
func (r *release) has(want int) {
	r.t.Helper()
	r.EventuallyWithin(3*time.Minute, fmt.Sprintf("%d pods have the new version", want), func(ctx context.Context) error {
		updated, err := r.updated(ctx)
		if err == nil && updated != want {
			err = fmt.Errorf("%d have", updated)
		}
		return err
	})
}

// order creates the BatchRelease.
func (r *release) order(sizes ...string) *rolloutsv1beta1.BatchRelease {
	r.t.Helper()
	version, kind := r.row.Kind.ToAPIVersionAndKind()
	b := &rolloutsv1beta1.BatchRelease{ObjectMeta: metav1.ObjectMeta{Namespace: r.Name, Name: "web"}}
	b.Spec.WorkloadRef = rolloutsv1beta1.ObjectRef{APIVersion: version, Kind: kind, Name: "web"}
	for _, size := range sizes {
		b.Spec.ReleasePlan.Batches = append(b.Spec.ReleasePlan.Batches, rolloutsv1beta1.ReleaseBatch{CanaryReplicas: intstr.Parse(size)})
	}
	b.Spec.ReleasePlan.BatchPartition, b.Spec.ReleasePlan.RolloutID = new(int32), "r1"
	if err := r.Client.Create(r.t.Context(), b); err != nil {
		r.t.Fatal(err)
	}
	return b
}

// plan changes the plan.
func (r *release) plan(fields string) {
	r.t.Helper()
	b := &rolloutsv1beta1.BatchRelease{ObjectMeta: metav1.ObjectMeta{Namespace: r.Name, Name: "web"}}
	if err := r.Client.Patch(r.t.Context(), b, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"releasePlan":{`+fields+`}}}`))); err != nil {
		r.t.Fatal(err)
	}
}

// until waits for the status of the BatchRelease.
func (r *release) until(what string, holds func(*rolloutsv1beta1.BatchReleaseStatus) bool) *rolloutsv1beta1.BatchReleaseStatus {
	r.t.Helper()
	b := &rolloutsv1beta1.BatchRelease{}
	r.EventuallyWithin(3*time.Minute, what, func(ctx context.Context) error {
		err := r.Client.Get(ctx, types.NamespacedName{Namespace: r.Name, Name: "web"}, b)
		if err == nil && (b.Status.ObservedGeneration != b.Generation || !holds(&b.Status)) {
			err = fmt.Errorf("the status is %+v", b.Status)
		}
		return err
	})
	return &b.Status
}

// over waits until the workload has its own strategy.
func (r *release) over() {
	r.t.Helper()
	r.until("the release is over", func(s *rolloutsv1beta1.BatchReleaseStatus) bool {
		return s.Phase == rolloutsv1beta1.BatchReleasePhaseCompleted
	})
}

// batch waits until a batch is ready with so many pods.
func (r *release) batch(number, want int) {
	r.t.Helper()
	r.until(fmt.Sprintf("batch %d is ready", number), func(s *rolloutsv1beta1.BatchReleaseStatus) bool {
		return s.CanaryStatus.CurrentBatchState == rolloutsv1beta1.BatchStateReady && int(s.CanaryStatus.CurrentBatch) == number
	})
	r.has(want)
}

// free checks that nothing of the release is left on the workload.
func (r *release) free() {
	r.t.Helper()
	o := r.workload()
	for _, key := range []string{shared.AnnotationControl, shared.AnnotationOriginal, shared.AnnotationAdvancedStrategy} {
		if value, found := o.GetAnnotations()[key]; found {
			r.t.Errorf("the annotation %s is left: %s", key, value)
		}
	}
	if facts := r.row.FactsOf(o); facts.Kept != 0 {
		r.t.Errorf("the partition is %d", facts.Kept)
	}
	spec, _, _ := unstructured.NestedMap(o.Object, "spec")
	delete(spec, "template")
	text := fmt.Sprint(spec)
	for _, ours := range []string{"OnDelete", "paused:true", "2147483646", "2147483647"} {
		if strings.Contains(text, ours) {
			r.t.Errorf("the spec has %s: %s", ours, text)
		}
	}
}

// TestWorkloadsMoveInBatches moves each of the six kinds, ends the release, or deletes its BatchRelease in the middle.
func TestWorkloadsMoveInBatches(t *testing.T) {
	t.Parallel()
	for _, row := range rollable.All() {
		name := strings.ToLower(row.Kind.Kind) + "-" + strings.Map(letters, row.Kind.Group)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRelease(t, row)
			r.order("1", "50%", "100%")
			r.batch(0, 1)
			r.plan(`"batchPartition":1`)
			r.batch(1, releasedPods/2)
			r.plan(`"batchPartition":2`)
			r.batch(2, releasedPods)
			r.plan(`"batchPartition":null,"finalizingPolicy":"WaitResume"`)
			r.over()
			r.free()
			r.has(releasedPods)
			r.labeled()
			r.gone()
		})
		t.Run(name+"-deleted", func(t *testing.T) {
			t.Parallel()
			r := newRelease(t, row)
			r.order("1", "100%")
			r.batch(0, 1)
			r.gone()
			r.has(releasedPods)
			r.free()
		})
	}
}

// labeled checks that each pod has the number of its batch.
func (r *release) labeled() {
	r.t.Helper()
	for batch, want := range map[string]int{"1": 1, "2": releasedPods/2 - 1, "3": releasedPods - releasedPods/2} {
		if pods := r.Pods(shared.RolloutID+"=r1", shared.LabelBatchID+"="+batch); len(pods) != want {
			r.t.Errorf("%d pods are of batch %s, want %d", len(pods), batch, want)
		}
	}
}

// gone deletes the BatchRelease, and waits for its end.
func (r *release) gone() {
	r.t.Helper()
	b := &rolloutsv1beta1.BatchRelease{ObjectMeta: metav1.ObjectMeta{Namespace: r.Name, Name: "web"}}
	if err := r.Client.Delete(r.t.Context(), b); err != nil {
		r.t.Fatal(err)
	}
	r.Eventually("the BatchRelease is gone", func(ctx context.Context) error {
		if err := r.Client.Get(ctx, client.ObjectKeyFromObject(b), b); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there with %+v: %w", b.Status, err)
		}
		return nil
	})
}

// TestAStatefulSetWithABrokenPodGoesBack breaks the first batch of a StatefulSet, whose controller waits for each pod. The release names the
// pod; when the template is set back, all pods are of the version before, without a hand.
func TestAStatefulSetWithABrokenPodGoesBack(t *testing.T) {
	t.Parallel()
	for _, row := range rollable.All() {
		if row.Kind.Kind != "StatefulSet" {
			continue
		}
		t.Run(row.Kind.Group, func(t *testing.T) {
			t.Parallel()
			r := newRelease(t, row)
			r.annotate(`"main"`)
			r.order("2", "100%")
			r.plan(`"progressDeadlineSeconds":2`)
			r.until("the release is stalled and names its pod", func(s *rolloutsv1beta1.BatchReleaseStatus) bool {
				return slices.ContainsFunc(s.Conditions, func(c rolloutsv1beta1.RolloutCondition) bool {
					return c.Type == rolloutsv1beta1.BatchReleaseStalled && c.Status == metav1.ConditionTrue &&
						c.Reason == rolloutsv1beta1.ReasonDeadlineExceeded && strings.Contains(c.Message, fmt.Sprintf("web-%d: ", releasedPods-1))
				})
			})
			r.patch("", "v1")
			r.annotate("null")
			r.plan(`"batchPartition":null,"finalizingPolicy":"Immediate"`)
			r.over()
			r.has(0)
			r.free()
			r.gone()
		})
	}
}

// annotate sets which container of new pods crashes.
func (r *release) annotate(crashes string) {
	r.t.Helper()
	patch := `{"spec":{"template":{"metadata":{"annotations":{"` + simnode.CrashLoop + `":` + crashes + `}}}}}`
	if err := r.Client.Patch(r.t.Context(), r.named(), client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		r.t.Fatal(err)
	}
}

// TestABatchOfADeploymentWaitsForMinReadySeconds counts them from the pods: the Deployment's own number is ours while it moves.
func TestABatchOfADeploymentWaitsForMinReadySeconds(t *testing.T) {
	t.Parallel()
	row, _ := rollable.Of("apps/v1", "Deployment")
	r := newRelease(t, row)
	r.patch(`"minReadySeconds":4`, "v2")
	r.order("1", "100%")
	r.batch(0, 1)
	ready := r.until("the batch has its time", func(s *rolloutsv1beta1.BatchReleaseStatus) bool { return s.CanaryStatus.BatchReadyTime != nil })
	for _, pod := range r.Pods("app=web") {
		i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
		if strings.HasSuffix(pod.Spec.Containers[0].Image, ":v2") && ready.CanaryStatus.BatchReadyTime.Sub(pod.Status.Conditions[i].LastTransitionTime.Time) < 3*time.Second {
			t.Errorf("the pod is ready since %s, and the batch since %s", pod.Status.Conditions[i].LastTransitionTime, ready.CanaryStatus.BatchReadyTime)
		}
	}
	r.gone()
}

// TestAReleaseOfADeploymentIsRefused tells of what has no batches, and of a workload that another release has.
func TestAReleaseOfADeploymentIsRefused(t *testing.T) {
	t.Parallel()
	row, _ := rollable.Of("apps/v1", "Deployment")
	r := newRelease(t, row)
	r.order("1")
	r.batch(0, 1)
	second := &rolloutsv1beta1.BatchRelease{ObjectMeta: metav1.ObjectMeta{Namespace: r.Name, Name: "second"}}
	second.Spec.WorkloadRef = rolloutsv1beta1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	second.Spec.ReleasePlan.BatchPartition = new(int32)
	second.Spec.ReleasePlan.Batches = []rolloutsv1beta1.ReleaseBatch{{CanaryReplicas: intstr.FromInt32(3)}}
	third := second.DeepCopy()
	third.Name, third.Spec.WorkloadRef.Kind = "third", "ReplicaSet"
	for reason, b := range map[string]*rolloutsv1beta1.BatchRelease{
		rolloutsv1beta1.ReasonControlledByOther: second, rolloutsv1beta1.ReasonUnsupportedWorkload: third,
	} {
		if err := r.Client.Create(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		r.Eventually("it says "+reason, func(ctx context.Context) error {
			err := r.Client.Get(ctx, client.ObjectKeyFromObject(b), b)
			if err == nil && !slices.ContainsFunc(b.Status.Conditions, func(c rolloutsv1beta1.RolloutCondition) bool {
				return c.Type == rolloutsv1beta1.BatchReleaseStalled && c.Status == metav1.ConditionTrue && c.Reason == reason
			}) {
				err = fmt.Errorf("the status is %+v", b.Status)
			}
			return err
		})
		if err := r.Client.Delete(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	r.has(1)
	r.gone()
}

// TestAReleaseOfOpenKruiseInTheMiddle has a Deployment as OpenKruise leaves it: of the type Recreate, paused, with the user's numbers in an
// annotation and versions named in its own way. The batch goes on, and the Deployment gets its own strategy back.
func TestAReleaseOfOpenKruiseInTheMiddle(t *testing.T) {
	t.Parallel()
	row, _ := rollable.Of("apps/v1", "Deployment")
	r := newRelease(t, row)
	b := &rolloutsv1beta1.BatchRelease{ObjectMeta: metav1.ObjectMeta{Namespace: r.Name, Name: "web", Annotations: map[string]string{appsshared.AnnotationPaused: "true"}}}
	b.Spec.WorkloadRef = rolloutsv1beta1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	b.Spec.ReleasePlan.BatchPartition = new(int32)
	b.Spec.ReleasePlan.Batches = []rolloutsv1beta1.ReleaseBatch{{CanaryReplicas: intstr.FromString("50%")}, {CanaryReplicas: intstr.FromString("100%")}}
	if err := r.Client.Create(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	control := fmt.Sprintf(`{"apiVersion":"rollouts.kruise.io/v1beta1","kind":"BatchRelease","name":"web","uid":"%s","controller":true}`, b.UID)
	kept := `{"rollingStyle":"Partition","rollingUpdate":{"maxUnavailable":1,"maxSurge":"50%"},"partition":0}`
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:"true"},"annotations":{%q:%q,%q:%q}},"spec":{"paused":true,"strategy":{"type":"Recreate","rollingUpdate":null}}}`,
		shared.LabelAdvanced, shared.AnnotationControl, control, shared.AnnotationAdvancedStrategy, kept)
	if err := r.Client.Patch(t.Context(), r.named(), client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
	status := `{"metadata":{"annotations":null},"status":{"phase":"Progressing","updateRevision":"7d4f","stableRevision":"5c9b","observedWorkloadReplicas":4,"canaryStatus":{"batchState":"Upgrading","currentBatch":0}}}`
	if err := r.Client.Status().Patch(t.Context(), b, client.RawPatch(types.MergePatchType, []byte(status))); err != nil {
		t.Fatal(err)
	}
	if err := r.Client.Patch(t.Context(), b, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":null}}`))); err != nil {
		t.Fatal(err)
	}
	r.batch(0, releasedPods/2)
	r.plan(`"batchPartition":null,"finalizingPolicy":"WaitResume"`)
	r.over()
	r.has(releasedPods)
	r.free()
	if surge, _, _ := unstructured.NestedString(r.workload().Object, "spec", "strategy", "rollingUpdate", "maxSurge"); surge != "50%" {
		t.Errorf("maxSurge is %q", surge)
	}
}

func letters(c rune) rune {
	if c >= 'a' && c <= 'z' {
		return c
	}
	return '-'
}
