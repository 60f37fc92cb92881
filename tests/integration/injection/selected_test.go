// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package injection_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "github.com/kruise-operator/kruise-operator/api/apps/shared"
	policyv1beta1 "github.com/kruise-operator/kruise-operator/api/policy/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/persistentpodstate"
	"github.com/kruise-operator/kruise-operator/controllers/podunavailablebudget"
	"github.com/kruise-operator/kruise-operator/controllers/workloadspread"
	"github.com/kruise-operator/kruise-operator/internal/engine/disruption"
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

// calls are how often the API server has called hooks with this in their names.
func (w *fixture) calls(t *testing.T, name string) int {
	t.Helper()
	calls := 0.0
	for labels, value := range w.sums(t, called) {
		if strings.Contains(labels, name) {
			calls += value
		}
	}
	return int(calls)
}

// registering returns what registers hooks, and removes them in the end.
func (w *fixture) registering(t *testing.T) func(...*hooks.Hook) {
	t.Helper()
	if w.registered(t) {
		t.Fatal("pods have a webhook before the test")
	}
	r := hooks.New(hooks.Options{Client: w.client, Live: w.client, Namespace: install.Namespace, Call: w.serving.Call, Clock: clock.RealClock{}})
	owner := r.Owner("test", nil)
	want := func(all ...*hooks.Hook) {
		t.Helper()
		owner.Want(all...)
		if _, err := r.Reconcile(context.WithoutCancel(t.Context()), ctrl.Request{}); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { want() })
	return want
}

// selected are the new pods that a hook is for, and others.
type selected struct {
	name   string
	hook   func(failClosed bool) *hooks.Hook
	mine   func() *corev1.Pod
	met    func(*corev1.Pod) bool
	others map[string]*corev1.Pod
}

// meets has only those pods meet the hook, by the API server's own metrics, with the operator alive and dead.
func (w *fixture) meets(t *testing.T, s selected) {
	t.Helper()
	create := func(pod *corev1.Pod) bool {
		t.Helper()
		made := pod.DeepCopy()
		if err := w.client.Create(t.Context(), made, client.DryRunAll); err != nil {
			t.Fatal(err)
		}
		return s.met(made)
	}
	unmet := func(when string) {
		t.Helper()
		before := w.calls(t, s.name)
		for name, pod := range s.others {
			if create(pod) {
				t.Errorf("%s: a pod %s is changed", when, name)
			}
		}
		if calls := w.calls(t, s.name) - before; calls > 0 {
			t.Errorf("%s: %d calls about pods of others", when, calls)
		}
	}
	want := w.registering(t)
	want(s.hook(false))
	w.eventually(t, "pods of the workload are changed", func(context.Context) error {
		if !create(s.mine()) {
			return errors.New("they are as they were")
		}
		return nil
	})
	before := w.calls(t, s.name)
	if create(s.mine()); w.calls(t, s.name) == before {
		t.Error("a call is not counted: nothing would be noticed")
	}
	unmet("with the operator")
	w.stop()
	unmet("without the operator")
	if create(s.mine()) {
		t.Error("without the operator a pod is changed")
	}
	want(s.hook(true))
	w.eventually(t, "pods of the workload are refused where the user wants that", func(ctx context.Context) error {
		if w.client.Create(ctx, s.mine(), client.DryRunAll) == nil {
			return errors.New("it is created")
		}
		return nil
	})
	unmet("without the operator, failing closed")
	w.serve(t.Context())
	want()
	w.eventually(t, "the last hook takes the webhook along", func(context.Context) error {
		if w.registered(t) {
			return errors.New("it is there")
		}
		return nil
	})
}

func TestOnlyPodsOfASpreadWorkloadMeetItsHook(t *testing.T) {
	w := shared
	namespace, other := w.namespace(t, nil), w.namespace(t, nil)
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
	ws := w.apply(t, strings.ReplaceAll(spreadToy, "NAMESPACE", namespace))
	w.meets(t, selected{
		name: `name="spread-`, mine: mine, others: others,
		met: func(pod *corev1.Pod) bool {
			mark, _ := enginespread.MarkOf(pod.Annotations)
			return mark.Subset == "a"
		},
		hook: func(failClosed bool) *hooks.Hook {
			s := enginespread.ParseStored(ws)
			s.FailClosed = failClosed
			return workloadspread.HookOf(s)
		},
	})
}

const placeToy = `
apiVersion: apps.kruise.io/v1beta1
kind: PersistentPodState
metadata: {name: toy, namespace: NAMESPACE}
spec:
  targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: db}
  requiredPersistentTopology: {keys: [topology.kubernetes.io/zone]}
`

func TestOnlyPodsOfAWorkloadWithPlacesMeetItsHook(t *testing.T) {
	w := shared
	namespace, other := w.namespace(t, nil), w.namespace(t, nil)
	w.apply(t, "apiVersion: v1\nkind: Node\nmetadata: {name: zoned, labels: {topology.kubernetes.io/zone: a}}\n")
	state := w.apply(t, strings.ReplaceAll(placeToy, "NAMESPACE", namespace))
	places := []byte(`{"status":{"observedGeneration":1,"podStates":{"db-0":{"nodeName":"zoned","nodeTopologyLabels":{"topology.kubernetes.io/zone":"a"}}}}}`)
	if err := w.client.Status().Patch(t.Context(), state, client.RawPatch(types.MergePatchType, places)); err != nil {
		t.Fatal(err)
	}
	of := func(namespace, kind, name string, change func(*corev1.Pod)) *corev1.Pod {
		pod := ofSet(namespace, kind, &metav1.ObjectMeta{Name: name, UID: "set"}, map[string]string{})
		pod.Name, pod.GenerateName = "db-0", ""
		change(pod)
		return pod
	}
	same := func(*corev1.Pod) {}
	w.meets(t, selected{
		name: `name="place-`, mine: func() *corev1.Pod { return of(namespace, "StatefulSet", "db", same) },
		met: func(pod *corev1.Pod) bool { return pod.Spec.NodeSelector[corev1.LabelTopologyZone] == "a" },
		others: map[string]*corev1.Pod{
			"without an owner":                     of(namespace, "", "", func(p *corev1.Pod) { p.OwnerReferences = nil }),
			"with an owner that is no controller":  of(namespace, "StatefulSet", "db", func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil }),
			"of a set with a longer name":          of(namespace, "StatefulSet", "db-0", same),
			"of its namesake in another namespace": of(other, "StatefulSet", "db", same),
			"of a ReplicaSet":                      of(namespace, "ReplicaSet", "db", same),
			"of a StatefulSet of ours":             of(namespace, "StatefulSet", "db", func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion = "apps.kruise.io/v1beta1" }),
			"that is let through":                  of(namespace, "StatefulSet", "db", func(p *corev1.Pod) { p.Labels[podentry.BypassLabel] = podentry.BypassValue }),
		},
		hook: func(failClosed bool) *hooks.Hook {
			if failClosed {
				state.SetAnnotations(map[string]string{names.AnnotationInjectionFailurePolicy: "Fail"})
			}
			return persistentpodstate.HookOf(state)
		},
	})
}

// TestOnlyPodsWithABudgetMeetItsHook deletes and evicts, with the operator alive and dead.
func TestOnlyPodsWithABudgetMeetItsHook(t *testing.T) {
	w := shared
	namespace, other := w.namespace(t, nil), w.namespace(t, nil)
	stored := w.apply(t, "apiVersion: policy.kruise.io/v1beta1\nkind: PodUnavailableBudget\nmetadata: {name: toy, namespace: "+namespace+"}\nspec: {selector: {matchLabels: {app: web}}, maxUnavailable: 1}\n")
	budget := &policyv1beta1.PodUnavailableBudget{}
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(stored), budget); err != nil {
		t.Fatal(err)
	}
	pod := func(namespace, name string, ready bool, labels, annotations string) *corev1.Pod {
		pod, err := w.keep(t, namespace, "metadata: {name: "+name+", labels: {app: web"+labels+"}, annotations: {"+annotations+"}}\nspec: {containers: [{name: main, image: example/main}]}\n")
		if err == nil && ready {
			before := client.MergeFrom(pod.DeepCopy()) // the scheduler writes, too
			pod.Status.Phase, pod.Status.Conditions = corev1.PodRunning, []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			err = w.client.Status().Patch(t.Context(), pod, before)
		}
		if err != nil {
			t.Fatal(err)
		}
		return pod
	}
	const link = policyv1beta1.AnnotationRelatedBudget + ": toy"
	mine, elsewhere := pod(namespace, "mine", true, "", link), pod(other, "elsewhere", true, "", link)
	others := []*corev1.Pod{
		elsewhere, pod(namespace, "not-linked", true, "", ""), pod(namespace, "not-ready", false, "", link),
		pod(namespace, "let-through", true, ", "+podentry.BypassLabel+": "+podentry.BypassValue, link),
	}
	const hooksOf = ".disruption.operator.kruise.io"
	unmet := func(when string) {
		t.Helper()
		before := w.calls(t, hooksOf)
		for _, pod := range others {
			if err := w.client.Delete(t.Context(), pod, client.DryRunAll); err != nil {
				t.Errorf("%s: deleting pod %s: %v", when, pod.Name, err)
			}
		}
		if err := w.client.SubResource("eviction").Create(t.Context(), elsewhere, &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}}); err != nil {
			t.Errorf("%s: evicting: %v", when, err)
		}
		if calls := w.calls(t, hooksOf) - before; calls > 0 {
			t.Errorf("%s: %d calls about pods of others", when, calls)
		}
	}
	refused := func(what string) {
		t.Helper()
		w.eventually(t, what, func(ctx context.Context) error {
			if err := w.client.Delete(ctx, mine, client.DryRunAll); err == nil {
				return errors.New("the pod is deleted")
			}
			return nil
		})
	}
	w.registering(t)(podunavailablebudget.Hooks([]*disruption.Budget{disruption.Parse(budget)}, disruption.Gates{Delete: true}, "system:serviceaccount:a:b")...)
	refused("the budget, which nobody has counted, denies")
	if w.calls(t, hooksOf) == 0 {
		t.Error("a call is not counted: nothing would be noticed")
	}
	unmet("with the operator")
	w.stop()
	defer w.serve(t.Context())
	refused("nobody can check")
	unmet("without the operator")
}
