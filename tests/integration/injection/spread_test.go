// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package injection_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/controllers/workloadspread"
	"github.com/kruise-operator/kruise-operator/internal/engine/podentry"
	enginespread "github.com/kruise-operator/kruise-operator/internal/engine/spread"
	"github.com/kruise-operator/kruise-operator/internal/hooks"
	"github.com/kruise-operator/kruise-operator/tests/framework/install"
)

const spreadToy = `
apiVersion: apps.kruise.io/v1beta1
kind: WorkloadSpread
metadata: {name: toy, namespace: NAMESPACE}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: free}
  targetFilter: {selector: {matchLabels: {app: web}}}
  subsets: [{name: a, maxReplicas: 2, tolerations: [{key: spot, operator: Exists}]}, {name: b}]
`

// ofSet is a pod with a controller.
func ofSet(namespace, kind string, set metav1.Object, labels map[string]string) *corev1.Pod {
	version := "apps/v1"
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "web-", Labels: labels, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: version, Kind: kind, Name: set.GetName(), UID: set.GetUID(), Controller: ptr.To(true)},
		}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example/main"}}},
	}
}

// replicaSet is a set of a Deployment. Nobody but the test makes its pods.
func (w *fixture) replicaSet(t *testing.T, deployment client.Object, hash string) *appsv1.ReplicaSet {
	t.Helper()
	labels := map[string]string{"app": "web", names.LabelPodTemplateHash: hash}
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: deployment.GetNamespace(), Name: deployment.GetName() + "-" + hash, Labels: labels,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(deployment, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
	}}
	set.Spec.Replicas, set.Spec.Selector = ptr.To[int32](0), &metav1.LabelSelector{MatchLabels: labels}
	set.Spec.Template.Labels = labels
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: "example/main"}}
	if err := w.client.Create(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	return set
}

// called is a line of the API server's metrics about its calls of webhooks.
var called = regexp.MustCompile(`^apiserver_admission_webhook_request_total\{(.*)\} (\S+)$`)

// spreadCalls is how often the API server has called the hook of a WorkloadSpread.
func (w *fixture) spreadCalls(t *testing.T) int {
	t.Helper()
	calls := 0.0
	for labels, value := range w.sums(t, called) {
		if strings.Contains(labels, `name="spread-`) {
			calls += value
		}
	}
	return int(calls)
}

// TestOnlyPodsOfASpreadWorkloadMeetItsHook counts calls by the API server's own metrics, with the operator alive and dead.
func TestOnlyPodsOfASpreadWorkloadMeetItsHook(t *testing.T) {
	w := shared
	namespace, other := w.namespace(t, nil), w.namespace(t, nil)
	r := hooks.New(hooks.Options{Client: w.client, Live: w.client, Namespace: install.Namespace, Call: w.serving.Call, Clock: clock.RealClock{}})
	owner := r.Owner("spreads", nil)
	want := func(all ...*hooks.Hook) {
		t.Helper()
		owner.Want(all...)
		if _, err := r.Reconcile(context.WithoutCancel(t.Context()), ctrl.Request{}); err != nil {
			t.Fatal(err)
		}
	}
	sets := map[string]*appsv1.ReplicaSet{}
	for at, name := range map[string]string{"ours": "free", "longer": "free-too"} {
		sets[at] = w.replicaSet(t, w.apply(t, strings.NewReplacer("NAMESPACE", namespace, "NAME", name).Replace(toyDeployment)), "h1")
	}
	sets["elsewhere"] = w.replicaSet(t, w.apply(t, strings.NewReplacer("NAMESPACE", other, "NAME", "free").Replace(toyDeployment)), "h1")
	labels := func(more ...string) map[string]string {
		all := map[string]string{"app": "web", names.LabelPodTemplateHash: "h1"}
		for i := 0; i < len(more); i += 2 {
			all[more[i]] = more[i+1]
		}
		return all
	}
	mine := func() *corev1.Pod { return ofSet(namespace, "ReplicaSet", sets["ours"], labels()) }
	bare := mine()
	bare.OwnerReferences = nil
	of := mine()
	of.OwnerReferences[0].Controller = nil
	others := map[string]*corev1.Pod{
		"without an owner": bare, "with an owner that is no controller": of,
		"of a Deployment with a longer name":   ofSet(namespace, "ReplicaSet", sets["longer"], labels()),
		"of its namesake in another namespace": ofSet(other, "ReplicaSet", sets["elsewhere"], labels()),
		"of a DaemonSet":                       ofSet(namespace, "DaemonSet", sets["ours"], labels()),
		"that targetFilter leaves out":         ofSet(namespace, "ReplicaSet", sets["ours"], labels("app", "other")),
		"that is let through":                  ofSet(namespace, "ReplicaSet", sets["ours"], labels(podentry.BypassLabel, podentry.BypassValue)),
	}
	create := func(pod *corev1.Pod) (subset string) {
		t.Helper()
		made := pod.DeepCopy()
		if err := w.client.Create(t.Context(), made, client.DryRunAll); err != nil {
			t.Fatal(err)
		}
		mark, _ := enginespread.MarkOf(made.Annotations)
		return mark.Subset
	}
	unmet := func(when string) {
		t.Helper()
		before := w.spreadCalls(t)
		for name, pod := range others {
			if subset := create(pod); subset != "" {
				t.Errorf("%s: a pod %s is in %s", when, name, subset)
			}
		}
		if calls := w.spreadCalls(t) - before; calls > 0 {
			t.Errorf("%s: %d calls about pods of others", when, calls)
		}
	}
	if w.registered(t) {
		t.Fatal("pods have a webhook without a WorkloadSpread")
	}
	ws := w.apply(t, strings.ReplaceAll(spreadToy, "NAMESPACE", namespace))
	t.Cleanup(func() { want() })
	want(workloadspread.HookOf(enginespread.ParseStored(ws)))
	w.eventually(t, "pods of the workload get a subset", func(context.Context) error {
		if subset := create(mine()); subset != "a" {
			return fmt.Errorf("it is %q", subset)
		}
		return nil
	})
	before := w.spreadCalls(t)
	if create(mine()); w.spreadCalls(t) == before {
		t.Error("a call is not counted: nothing would be noticed")
	}
	unmet("with the operator")
	w.stop()
	unmet("without the operator")
	if subset := create(mine()); subset != "" {
		t.Errorf("without the operator a pod is in %q", subset)
	}
	closed := enginespread.ParseStored(ws)
	closed.FailClosed = true
	want(workloadspread.HookOf(closed))
	w.eventually(t, "pods of the workload are refused where the user wants that", func(ctx context.Context) error {
		if w.client.Create(ctx, mine(), client.DryRunAll) == nil {
			return errors.New("it is created")
		}
		return nil
	})
	unmet("without the operator, failing closed")
	w.serve(t.Context())
	want()
	w.eventually(t, "the last WorkloadSpread takes the webhook along", func(context.Context) error {
		if w.registered(t) {
			return errors.New("it is there")
		}
		return nil
	})
}
