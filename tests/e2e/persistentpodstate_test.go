// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/spread"
	"github.com/kruise-operator/kruise-operator/internal/kube/listed"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
)

// places are the versions of StatefulSets with places, by a name for each.
func places() map[string]string {
	return map[string]string{"ours": "apps.kruise.io/v1beta1", "native": "apps/v1"}
}

// resourceOf is the resource of StatefulSets of a version, for kubectl.
func resourceOf(version string) string {
	group, _, _ := strings.Cut(version, "/")
	return "statefulsets." + group
}

// placed is a StatefulSet on the nodes of a test, and its PersistentPodState, less the topologies.
const placed = `
apiVersion: VERSION
kind: StatefulSet
metadata: {name: NAME}
spec:
  replicas: REPLICAS
  serviceName: NAME
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}, annotations: {example.com/member-id: "7"}}
    spec:
      nodeSelector: {` + environment.Own + `: NODES}
      tolerations: [{key: ` + environment.Own + `, operator: Exists}]
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: "example/db:v1"}]
---
apiVersion: apps.kruise.io/v1beta1
kind: PersistentPodState
metadata: {name: NAME}
spec:
  targetRef: {apiVersion: VERSION, kind: StatefulSet, name: NAME}
`

func place(n *environment.Namespace, name, version, replicas, topologies string) {
	n.Apply(strings.NewReplacer("NAME", name, "VERSION", version, "NODES", n.Name, "REPLICAS", replicas).Replace(placed) + topologies)
}

// remembers waits for the status of a PersistentPodState.
func remembers(n *environment.Namespace, name, what string, check func(*v1beta1.PersistentPodState) bool) *v1beta1.PersistentPodState {
	state := &v1beta1.PersistentPodState{}
	n.Eventually(what, func(ctx context.Context) error {
		if err := n.Client.Get(ctx, types.NamespacedName{Namespace: n.Name, Name: name}, state); err != nil {
			return err
		}
		if state.Status.ObservedGeneration != state.Generation || !check(state) {
			return fmt.Errorf("its status is %+v", state.Status)
		}
		return nil
	})
	return state
}

// isPlacedOn waits until a pod is recorded on a node; empty: on any.
func isPlacedOn(n *environment.Namespace, name, pod, node string) v1beta1.PodState {
	state := remembers(n, name, pod+" is recorded on node "+node, func(state *v1beta1.PersistentPodState) bool {
		at := state.Status.PodStates[pod]
		return at.NodeName != "" && (node == "" || at.NodeName == node)
	})
	return state.Status.PodStates[pod]
}

func has(reason string) func(*v1beta1.PersistentPodState) bool {
	return func(state *v1beta1.PersistentPodState) bool {
		c := meta.FindStatusCondition(state.Status.Conditions, v1beta1.PersistentPodStateReconciling)
		return c != nil && c.Reason == reason
	}
}

// isAsked waits until the API server asks about pods of a workload of others, by a place for a pod that is never created.
func isAsked(t *testing.T, n *environment.Namespace, name, version, node string) {
	t.Helper()
	if strings.HasPrefix(version, v1beta1.GroupVersion().Group) {
		return
	}
	state := &v1beta1.PersistentPodState{ObjectMeta: metav1.ObjectMeta{Namespace: n.Name, Name: name}}
	remember := func(place string) {
		if err := n.Client.Status().Patch(t.Context(), state, client.RawPatch(types.MergePatchType, []byte(`{"status":{"observedGeneration":1,"podStates":{"probe":`+place+`}}}`))); err != nil {
			t.Fatal(err)
		}
	}
	remember(fmt.Sprintf(`{"nodeName":%q,"nodeTopologyLabels":{"kubernetes.io/hostname":%[1]q,"topology.kubernetes.io/zone":"a"}}`, node))
	yes := true
	target := state.Spec.TargetRef
	n.Eventually("the operator is asked about pods of "+name, func(ctx context.Context) error {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: n.Name, Name: "probe", OwnerReferences: []metav1.OwnerReference{
				{APIVersion: target.APIVersion, Kind: target.Kind, Name: target.Name, UID: "probe", Controller: &yes},
			}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example/db:v1"}}},
		}
		if err := n.Client.Create(ctx, pod, client.DryRunAll); err != nil || pod.Annotations[shared.AnnotationInjectedPersistentPodState] != name {
			return fmt.Errorf("the pod has %v, %w", pod.Annotations, err)
		}
		return nil
	})
	remember("null")
}

// again deletes a pod at once, and waits for the next one of its name.
func again(t *testing.T, n *environment.Namespace, name string, holds func(*corev1.Pod) error) *corev1.Pod {
	t.Helper()
	before := n.Pod(name)
	if err := n.Client.Delete(t.Context(), before, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{}
	n.Eventually("pod "+name+" is replaced", func(ctx context.Context) error {
		if err := n.Client.Get(ctx, client.ObjectKeyFromObject(before), pod); err != nil {
			return err
		}
		if pod.UID == before.UID {
			return errors.New("it is the former one")
		}
		return holds(pod)
	})
	return pod
}

func ready(pod *corev1.Pod) error {
	if !environment.IsReady(pod) {
		return fmt.Errorf("it is %+v", pod.Status.Conditions)
	}
	return nil
}

func patchNode(t *testing.T, name, patch string) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := env.Client.Patch(t.Context(), node, client.RawPatch(types.StrategicMergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
}

func zone(name string) map[string]string { return map[string]string{corev1.LabelTopologyZone: name} }

// TestPersistentPodStateKeepsPodsInTheirZones replaces pods, and scales in and out.
func TestPersistentPodStateKeepsPodsInTheirZones(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	n.OwnNode(n.Name+"-a", zone("a"))
	n.OwnNode(n.Name+"-b", zone("b"))
	for name, version := range places() {
		place(n, name, version, "3", `  requiredPersistentTopology: {keys: [topology.kubernetes.io/zone]}
  preferredPersistentTopology: [{weight: 100, preference: {keys: [kubernetes.io/hostname, no-node-has-this]}}]
  persistentPodAnnotations: [{key: example.com/member-id}]
`)
		at := isPlacedOn(n, name, name+"-1", "")
		remembers(n, name, "all are remembered", has(v1beta1.ReasonRemembering))
		isAsked(t, n, name, version, at.NodeName)
		zone := strings.TrimPrefix(at.NodeName, n.Name+"-")
		if at.NodeTopologyLabels[corev1.LabelTopologyZone] != zone || at.NodeTopologyLabels[corev1.LabelHostname] != at.NodeName ||
			len(at.NodeTopologyLabels) != 2 || at.Annotations["example.com/member-id"] != "7" {
			t.Errorf("%s: recorded is %+v", name, at)
		}
		pod := again(t, n, name+"-1", ready)
		if pod.Spec.NodeSelector[corev1.LabelTopologyZone] != zone || pod.Annotations[shared.AnnotationInjectedPersistentPodState] != name || pod.Spec.NodeName != at.NodeName {
			t.Errorf("%s: the pod has %v and %v, and is on %s", name, pod.Spec.NodeSelector, pod.Annotations, pod.Spec.NodeName)
		}
		terms := pod.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
		if len(terms) != 1 || terms[0].Weight != 100 || len(terms[0].Preference.MatchExpressions) != 1 || terms[0].Preference.MatchExpressions[0].Values[0] != at.NodeName {
			t.Errorf("%s: preferred is %+v", name, terms)
		}
		isPlacedOn(n, name, name+"-2", "")
		if out, err := n.Kubectl("scale", "--replicas=1", resourceOf(version)+"/"+name); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		remembers(n, name, "those scaled in are forgotten", func(state *v1beta1.PersistentPodState) bool { return len(state.Status.PodStates) == 1 })
	}
}

// TestAPodThatMovedStaysOnItsNewNode is Q09.
func TestAPodThatMovedStaysOnItsNewNode(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	a, b := n.OwnNode(n.Name+"-a", nil), n.OwnNode(n.Name+"-b", nil)
	patchNode(t, b, `{"spec":{"unschedulable":true}}`)
	for name, version := range places() {
		place(n, name, version, "1", "  preferredPersistentTopology: [{weight: 100, preference: {keys: [kubernetes.io/hostname]}}]\n")
		isPlacedOn(n, name, name+"-0", a)
		isAsked(t, n, name, version, a)
	}
	if err := env.Nodes.SetDown(t.Context(), a, true); err != nil {
		t.Fatal(err)
	}
	patchNode(t, a, `{"spec":{"unschedulable":true}}`)
	patchNode(t, b, `{"spec":{"unschedulable":null}}`)
	for name := range places() {
		again(t, n, name+"-0", ready)
		isPlacedOn(n, name, name+"-0", b)
	}
	patchNode(t, a, `{"spec":{"unschedulable":null}}`)
	if err := env.Nodes.SetDown(t.Context(), a, false); err != nil {
		t.Fatal(err)
	}
	for name := range places() {
		if pod := again(t, n, name+"-0", ready); pod.Spec.NodeName != b {
			t.Errorf("%s is on %s", pod.Name, pod.Spec.NodeName)
		}
		isPlacedOn(n, name, name+"-0", b)
	}
}

// TestAZoneLabelMissingForAMomentIsNotForgotten is Q07. The cordoned node has the pod wait, and the condition says so.
func TestAZoneLabelMissingForAMomentIsNotForgotten(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	a, b := n.OwnNode(n.Name+"-a", zone("a")), n.OwnNode(n.Name+"-b", zone("b"))
	patchNode(t, b, `{"spec":{"unschedulable":true}}`)
	for name, version := range places() {
		place(n, name, version, "1", "  requiredPersistentTopology: {keys: [topology.kubernetes.io/zone]}\n")
		isPlacedOn(n, name, name+"-0", a)
		isAsked(t, n, name, version, a)
	}
	patchNode(t, a, `{"metadata":{"labels":{"topology.kubernetes.io/zone":null}}}`)
	for name := range places() {
		is := func(ready bool) {
			n.Eventually("the pod is ready or not", func(ctx context.Context) error {
				pod := &corev1.Pod{}
				if err := n.Client.Get(ctx, types.NamespacedName{Namespace: n.Name, Name: name + "-0"}, pod); err != nil || environment.IsReady(pod) != ready {
					return fmt.Errorf("it is %+v, %w", pod.Status.Conditions, err)
				}
				return nil
			})
		}
		n.PatchPod(name+"-0", `{"metadata":{"annotations":{"`+simnode.NotReady+`":"true"}}}`)
		is(false)
		n.PatchPod(name+"-0", `{"metadata":{"annotations":{"`+simnode.NotReady+`":null}}}`)
		is(true)
	}
	patchNode(t, a, `{"metadata":{"labels":{"topology.kubernetes.io/zone":"a"}},"spec":{"unschedulable":true}}`)
	patchNode(t, b, `{"spec":{"unschedulable":null}}`)
	for name := range places() {
		pod := again(t, n, name+"-0", func(*corev1.Pod) error { return nil })
		if pod.Spec.NodeSelector[corev1.LabelTopologyZone] != "a" {
			t.Errorf("%s has %v", pod.Name, pod.Spec.NodeSelector)
		}
		remembers(n, name, "the wait is reported", has(v1beta1.ReasonPlaceTaken))
	}
	patchNode(t, a, `{"spec":{"unschedulable":null}}`)
	for name := range places() {
		remembers(n, name, "the pod is back", has(v1beta1.ReasonRemembering))
		isPlacedOn(n, name, name+"-0", a)
	}
}

// TestANodeThatIsGoneHoldsNoPod requires a hostname of a node that goes.
func TestANodeThatIsGoneHoldsNoPod(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	a, b := n.OwnNode(n.Name+"-a", nil), n.OwnNode(n.Name+"-b", nil)
	patchNode(t, b, `{"spec":{"unschedulable":true}}`)
	for name, version := range places() {
		place(n, name, version, "1", "  requiredPersistentTopology: {keys: [kubernetes.io/hostname]}\n")
		isPlacedOn(n, name, name+"-0", a)
	}
	if err := env.Nodes.Remove(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	for name := range places() {
		state := remembers(n, name, "the node is missed", has(v1beta1.ReasonPlaceGone))
		if c := meta.FindStatusCondition(state.Status.Conditions, v1beta1.PersistentPodStateReconciling); !strings.Contains(c.Message, name+"-0 (kubernetes.io/hostname="+a+")") {
			t.Errorf("it says %q", c.Message)
		}
	}
	patchNode(t, b, `{"spec":{"unschedulable":null}}`)
	for name := range places() {
		again(t, n, name+"-0", ready)
		isPlacedOn(n, name, name+"-0", b)
	}
}

// TestAnnotationsOfStatefulSetsMakePersistentPodStates sets, changes and removes them, beside an object of the user.
func TestAnnotationsOfStatefulSetsMakePersistentPodStates(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	n.OwnNode(n.Name+"-a", zone("a"))
	for name, version := range places() {
		set, _, _ := strings.Cut(placed, "---")
		n.Apply(strings.NewReplacer("NAME", name, "VERSION", version, "NODES", n.Name, "REPLICAS", "1").Replace(set))
		annotate := func(annotations ...string) {
			t.Helper()
			if out, err := n.Kubectl(append([]string{"annotate", "--overwrite", resourceOf(version) + "/" + name}, annotations...)...); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		annotate(shared.AnnotationAutoGeneratePersistentPodState+"=true", shared.AnnotationPreferredPersistentTopology+"=kubernetes.io/hostname, rack")
		n.Eventually("it is generated", func(ctx context.Context) error {
			state := &v1beta1.PersistentPodState{}
			if err := n.Client.Get(ctx, types.NamespacedName{Namespace: n.Name, Name: name}, state); err != nil {
				return err
			}
			owner, terms := metav1.GetControllerOf(state), state.Spec.PreferredPersistentTopology
			if owner == nil || owner.Name != name || len(terms) != 1 || terms[0].Weight != 100 || strings.Join(terms[0].Preference.Keys, " ") != "kubernetes.io/hostname rack" {
				return fmt.Errorf("it is %+v", state)
			}
			return nil
		})
		isPlacedOn(n, name, name+"-0", n.Name+"-a")
		annotate(shared.AnnotationRequiredPersistentTopology+"=topology.kubernetes.io/zone", shared.AnnotationPreferredPersistentTopology+"-")
		remembers(n, name, "it is changed", func(state *v1beta1.PersistentPodState) bool {
			return state.Spec.RequiredPersistentTopology != nil && len(state.Spec.PreferredPersistentTopology) == 0 && state.Status.PodStates[name+"-0"].NodeTopologyLabels[corev1.LabelTopologyZone] == "a"
		})
		annotate(shared.AnnotationAutoGeneratePersistentPodState + "=false")
		n.Eventually("it is gone", func(ctx context.Context) error {
			state := &v1beta1.PersistentPodState{}
			if err := n.Client.Get(ctx, types.NamespacedName{Namespace: n.Name, Name: name}, state); client.IgnoreNotFound(err) != nil || err == nil {
				return fmt.Errorf("it is %+v, %w", state.ObjectMeta, err)
			}
			return nil
		})
		_, state, _ := strings.Cut(placed, "---")
		n.Apply(strings.NewReplacer("NAME", name, "VERSION", version).Replace(state) + "  requiredPersistentTopology: {keys: [mine]}\n")
		annotate(shared.AnnotationAutoGeneratePersistentPodState + "=true")
		n.Eventually("the user's object stays", func(context.Context) error {
			out, err := n.Kubectl("get", "events", "-o", "jsonpath={.items[?(@.reason=='PersistentPodStateTaken')].regarding.name}{.items[?(@.reason=='PersistentPodStateTaken')].involvedObject.name}")
			if err != nil || !strings.Contains(out, name) {
				return fmt.Errorf("the events are about %s, %w", out, err)
			}
			return nil
		})
		remembers(n, name, "it is as it was", func(state *v1beta1.PersistentPodState) bool {
			return state.Spec.RequiredPersistentTopology.Keys[0] == "mine"
		})
	}
}

const gameServers = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gameserversets.game.example}
spec:
  group: game.example
  scope: Namespaced
  names: {kind: GameServerSet, plural: gameserversets}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
    subresources: {scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas, labelSelectorPath: .spec.label}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gameservers.game.example}
spec:
  group: game.example
  scope: Namespaced
  names: {kind: GameServer, plural: gameservers}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`

const gameServerSet = `
apiVersion: game.example/v1
kind: GameServerSet
metadata:
  name: arena
  annotations: {kruise.io/auto-generate-persistent-pod-state: "true", kruise.io/required-persistent-topology: kubernetes.io/hostname}
spec: {replicas: 1, label: app=arena}
`

// configure puts a setting into the operator's ConfigMap, beside those of other tests.
func configure(t *testing.T, key, value string) {
	t.Helper()
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kruise-system", Name: "kruise-configuration"}}
	if err := client.IgnoreAlreadyExists(env.Client.Create(t.Context(), settings)); err != nil {
		t.Fatal(err)
	}
	patch := fmt.Sprintf(`{"data":{%q:%q}}`, key, value)
	if err := env.Client.Patch(t.Context(), settings, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
}

const league = `
apiVersion: game.example/v1
kind: GameServerSet
metadata: {name: league}
spec: {replicas: 2, label: app=league}
---
apiVersion: apps.kruise.io/v1beta1
kind: WorkloadSpread
metadata: {name: league}
spec:
  targetRef: {apiVersion: game.example/v1, kind: GameServerSet, name: league}
  subsets: [{name: a, maxReplicas: 1}, {name: b}]
`

// spreadGameServers divides pods of a GameServerSet, each controlled by a GameServer of the set.
func spreadGameServers(t *testing.T, n *environment.Namespace) {
	configure(t, listed.SpreadKey, `{"workloads":[{"Group":"game.example","Version":"v1","Kind":"GameServerSet","subResources":[{"Group":"game.example","Version":"v1","Kind":"GameServer"}]}]}`)
	n.Apply(league)
	spreads(n, "league", v1beta1.ReasonSpread)
	of := func(kind, name string) *unstructured.Unstructured {
		object := &unstructured.Unstructured{}
		object.SetAPIVersion("game.example/v1")
		object.SetKind(kind)
		object.SetNamespace(n.Name)
		object.SetName(name)
		return object
	}
	set := of("GameServerSet", "league")
	if err := n.Client.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"a", "b"} {
		name := fmt.Sprint("league-", i)
		game := of("GameServer", name)
		game.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(set, set.GroupVersionKind())})
		if err := n.Client.Create(t.Context(), game); err != nil {
			t.Fatal(err)
		}
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: n.Name, Name: name, Labels: map[string]string{"app": "league"}, OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(game, game.GroupVersionKind()),
			}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example/league:v1"}}},
		}
		if err := n.Client.Create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		if mark, _ := spread.MarkOf(pod.Annotations); mark.Subset != want {
			t.Errorf("%s is in %q, want %q", name, mark.Subset, want)
		}
	}
	n.Eventually("both are counted", func(ctx context.Context) error {
		ws := &v1beta1.WorkloadSpread{}
		if err := n.Client.Get(ctx, types.NamespacedName{Namespace: n.Name, Name: "league"}, ws); err != nil {
			return err
		}
		if all := ws.Status.SubsetStatuses; len(all) != 2 || all[0].Replicas != 1 || all[1].Replicas != 1 {
			return fmt.Errorf("its status is %+v", ws.Status)
		}
		return nil
	})
}

// TestPodsOfListedKindsReturn has a kind of somebody else, with rights that an administrator gives. WorkloadSpreads list it, too.
func TestPodsOfListedKindsReturn(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	node := n.OwnNode(n.Name+"-a", nil)
	n.Apply(gameServers)
	n.Eventually("the kind is served", func(context.Context) error {
		_, err := n.Kubectl("get", "gameserversets.game.example")
		return err
	})
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"game.example"}, Resources: []string{"gameserversets", "gameserversets/scale", "gameservers"}, Verbs: []string{"get", "list"}}},
	}
	_, user, _ := strings.Cut(operator.ServiceAccountUser, "system:serviceaccount:")
	namespace, account, _ := strings.Cut(user, ":")
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}},
	}
	for _, object := range []client.Object{role, binding} {
		if err := env.Client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	n.Eventually("the operator has the rights", func(context.Context) error {
		_, err := n.Kubectl("auth", "can-i", "list", "gameserversets.game.example", "--as="+operator.ServiceAccountUser)
		return err
	})
	spreadGameServers(t, n)
	// The list is looked at every minute.
	configure(t, "PPS_Watch_Custom_Workload_WhiteList", `{"workloads":[{"group":"game.example","Version":"v1","KIND":"GameServerSet"}]}`)
	n.Apply(gameServerSet)
	out, err := n.Kubectl("get", "gameserversets.game.example/arena", "-o", "jsonpath={.metadata.uid}")
	if err != nil {
		t.Fatal(err)
	}
	server := func() *corev1.Pod {
		yes := true
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: n.Name, Name: "arena-0", Labels: map[string]string{"app": "arena"}, OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "game.example/v1", Kind: "GameServerSet", Name: "arena", UID: types.UID(strings.TrimSpace(out)), Controller: &yes},
			}},
			Spec: corev1.PodSpec{
				Containers:   []corev1.Container{{Name: "main", Image: "example/arena:v1"}},
				NodeSelector: map[string]string{environment.Own: n.Name}, Tolerations: []corev1.Toleration{{Key: environment.Own, Operator: corev1.TolerationOpExists}},
			},
		}
	}
	first := server()
	if err := n.Client.Create(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	n.EventuallyWithin(3*time.Minute, "its annotations are seen", func(ctx context.Context) error {
		return n.Client.Get(ctx, types.NamespacedName{Namespace: n.Name, Name: "arena"}, &v1beta1.PersistentPodState{})
	})
	isPlacedOn(n, "arena", "arena-0", node)
	isAsked(t, n, "arena", "game.example/v1", node)
	if err := n.Client.Delete(t.Context(), first, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	next := server()
	n.Eventually("the next one is created", func(ctx context.Context) error {
		next = server()
		return n.Client.Create(ctx, next)
	})
	if next.Spec.NodeSelector[corev1.LabelHostname] != node {
		t.Errorf("the pod has %v", next.Spec.NodeSelector)
	}
}
