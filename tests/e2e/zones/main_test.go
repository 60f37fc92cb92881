// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package zones_test tells flows of UnitedDeployments over three zones, one node in each, on a real control plane. It has a cluster of its own,
// because a zone goes down in some of them; so its tests run one after the other where they touch nodes.
package zones_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/united"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

var env *environment.Environment // TestMain has no other way to hand something to the tests

func TestMain(m *testing.M) {
	environment.Main(m, environment.Options{
		Cluster: cluster.Options{}, Nodes: &simnode.Options{Nodes: 3, Provisioner: true},
	}, func(e *environment.Environment) { env = e })
}

// app is a UnitedDeployment in its own namespace with workloads of one kind. It is called
// app by default.
type app struct {
	*environment.Namespace
	t      *testing.T
	kind   united.Adapter
	called string
}

// zoneTerm selects the node of a zone.
func zoneTerm(zone string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
		Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"zone-" + zone},
	}}}
}

// workloadSpec is the spec of the workloads, by the field of the template.
func workloadSpec(template string) string {
	pods := `{"metadata":{"labels":{"app":"app"}},"spec":{"terminationGracePeriodSeconds":0,"containers":[{"name":"main","image":"app:1"}]}}`
	return map[string]string{
		"statefulSetTemplate":         `{"serviceName":"app","podManagementPolicy":"Parallel","template":` + pods + `}`,
		"advancedStatefulSetTemplate": `{"serviceName":"app","podManagementPolicy":"Parallel","updateStrategy":{"rollingUpdate":{"podUpdatePolicy":"InPlaceIfPossible"}},"template":` + pods + `}`,
		"cloneSetTemplate":            `{"updateStrategy":{"rollingUpdate":{"podUpdatePolicy":"InPlaceIfPossible"}},"template":` + pods + `}`,
		"deploymentTemplate":          `{"template":` + pods + `}`,
	}[template]
}

// start creates a UnitedDeployment over the zones a, b and c.
func start(t *testing.T, template string, replicas int32, changes ...func(*v1beta1.UnitedDeployment)) *app {
	t.Helper()
	a := &app{Namespace: env.Namespace(t), t: t}
	t.Cleanup(a.explain)
	labels := map[string]string{"app": "app"}
	set := &v1beta1.UnitedDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.Name, Name: "app"},
		Spec:       v1beta1.UnitedDeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}},
	}
	setTemplate(set, template, workloadSpec(template))
	for _, zone := range []string{"a", "b", "c"} {
		set.Spec.Topology.Subsets = append(set.Spec.Topology.Subsets, v1beta1.Subset{Name: zone, NodeSelectorTerm: zoneTerm(zone)})
	}
	for _, change := range changes {
		change(set)
	}
	a.kind, a.called = united.Given(&set.Spec.Template)[0], set.Name
	if err := env.Client.Create(t.Context(), set); err != nil {
		t.Fatalf("creating the UnitedDeployment: %v", err)
	}
	return a
}

func setTemplate(set *v1beta1.UnitedDeployment, template, spec string) {
	body := fmt.Sprintf(`{%q:{"metadata":{"labels":{"app":"app"}},"spec":%s}}`, template, spec)
	set.Spec.Template = v1beta1.SubsetTemplate{}
	if err := json.Unmarshal([]byte(body), &set.Spec.Template); err != nil {
		panic(err) // the test is wrong
	}
}

// bounds gives all subsets but the last an upper bound.
func bounds(most string) func(*v1beta1.UnitedDeployment) {
	return func(set *v1beta1.UnitedDeployment) {
		for i := range set.Spec.Topology.Subsets[:len(set.Spec.Topology.Subsets)-1] {
			set.Spec.Topology.Subsets[i].MaxReplicas = intOrString(most)
		}
	}
}

// get reads the UnitedDeployment.
func (a *app) get(ctx context.Context) (*v1beta1.UnitedDeployment, error) {
	set := &v1beta1.UnitedDeployment{}
	return set, env.Client.Get(ctx, types.NamespacedName{Namespace: a.Name, Name: a.called}, set)
}

// change changes the UnitedDeployment, again after a conflict.
func (a *app) change(change func(*v1beta1.UnitedDeployment)) {
	a.t.Helper()
	for {
		set, err := a.get(a.t.Context())
		if err != nil {
			a.t.Fatal(err)
		}
		change(set)
		if err = env.Client.Update(a.t.Context(), set); err == nil {
			return
		}
		if !apierrors.IsConflict(err) {
			a.t.Fatalf("updating the UnitedDeployment: %v", err)
		}
	}
}

// image changes the image of the template.
func (a *app) image(image string) {
	a.t.Helper()
	a.change(func(set *v1beta1.UnitedDeployment) {
		template := a.kind.Template(&set.Spec.Template)
		template.Spec.Raw = []byte(imageIn(string(template.Spec.Raw), image))
	})
}

func imageIn(spec, image string) string {
	before, rest, _ := strings.Cut(spec, `"image":"`)
	_, after, _ := strings.Cut(rest, `"`)
	return before + `"image":"` + image + `"` + after
}

func partitions(all map[string]int32) func(*v1beta1.UnitedDeployment) {
	return func(set *v1beta1.UnitedDeployment) {
		set.Spec.UpdateStrategy.ManualUpdate = &v1beta1.ManualUpdate{Partitions: all}
	}
}

// until waits until a statement about the observed status holds.
func (a *app) until(what string, check func(*v1beta1.UnitedDeployment) error) *v1beta1.UnitedDeployment {
	a.t.Helper()
	var set *v1beta1.UnitedDeployment
	a.EventuallyWithin(2*time.Minute, what, func(ctx context.Context) error {
		var err error
		if set, err = a.get(ctx); err != nil {
			return err
		}
		if set.Status.ObservedGeneration != set.Generation {
			return fmt.Errorf("generation %d is not observed", set.Generation)
		}
		return check(set)
	})
	return set
}

// settled waits until nothing is under way, for the given reason.
func (a *app) settled(reason string) *v1beta1.UnitedDeployment {
	a.t.Helper()
	return a.until("it is settled: "+reason, func(set *v1beta1.UnitedDeployment) error {
		return condition(set, v1beta1.UnitedDeploymentReconciling, corev1.ConditionFalse, reason)
	})
}

// condition says why a condition is not as it should be.
func condition(set *v1beta1.UnitedDeployment, kind v1beta1.UnitedDeploymentConditionType, status corev1.ConditionStatus, reason string) error {
	for _, c := range set.Status.Conditions {
		if c.Type == kind && c.Status == status && (reason == "" || c.Reason == reason) {
			return nil
		}
	}
	return fmt.Errorf("the conditions are %+v", set.Status.Conditions)
}

// message is a condition's.
func message(set *v1beta1.UnitedDeployment, kind v1beta1.UnitedDeploymentConditionType) string {
	for _, c := range set.Status.Conditions {
		if c.Type == kind {
			return c.Message
		}
	}
	return ""
}

// sizes are the status's sizes of the subsets: a4 b0 c2.
func sizes(set *v1beta1.UnitedDeployment) string {
	var all []string
	for _, s := range set.Status.SubsetStatuses {
		all = append(all, fmt.Sprintf("%s%d", s.Name, s.Replicas))
	}
	return strings.Join(all, " ")
}

// running counts the ready pods by zone, as the pods themselves say.
func (a *app) running(ctx context.Context, image string) (string, error) {
	pods, err := a.ListPods(ctx, "app=app")
	if err != nil {
		return "", err
	}
	count := map[string]int{}
	for i := range pods {
		p := &pods[i]
		if p.DeletionTimestamp == nil && environment.IsReady(p) && (image == "" || p.Spec.Containers[0].Image == image) {
			node := &corev1.Node{}
			if err := env.Client.Get(ctx, types.NamespacedName{Name: p.Spec.NodeName}, node); err != nil {
				return "", err
			}
			if zone := "zone-" + p.Labels[shared.LabelSubsetName]; node.Labels[corev1.LabelTopologyZone] != zone {
				return "", fmt.Errorf("pod %s of subset %s is in %s", p.Name, p.Labels[shared.LabelSubsetName], node.Labels[corev1.LabelTopologyZone])
			}
			count[p.Labels[shared.LabelSubsetName]]++
		}
	}
	return fmt.Sprintf("a%d b%d c%d", count["a"], count["b"], count["c"]), nil
}

// runs waits until so many pods with the image are ready in each zone; any image when it is empty.
func (a *app) runs(want, image string) {
	a.t.Helper()
	a.EventuallyWithin(2*time.Minute, "ready pods are "+want, func(ctx context.Context) error {
		got, err := a.running(ctx, image)
		if err == nil && got != want {
			err = errors.New("they are " + got)
		}
		return err
	})
}

// workloads are the kind's, by subset.
func (a *app) workloads(ctx context.Context) (map[string]*unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(a.kind.Kind.GroupVersion().WithKind(a.kind.Kind.Kind + "List"))
	if err := env.Client.List(ctx, list, client.InNamespace(a.Name)); err != nil {
		return nil, err
	}
	all := map[string]*unstructured.Unstructured{}
	for i := range list.Items {
		all[list.Items[i].GetLabels()[shared.LabelSubsetName]] = &list.Items[i]
	}
	return all, nil
}

// rests fails the test when the UnitedDeployment or a workload is written within a look of two seconds, once the status of the last change is there.
func (a *app) rests() {
	a.t.Helper()
	versions := func(ctx context.Context) (string, error) {
		set, err := a.get(ctx)
		if err != nil {
			return "", err
		}
		all, err := a.workloads(ctx)
		text := set.ResourceVersion
		for _, zone := range []string{"a", "b", "c"} {
			if all[zone] != nil {
				text += " " + all[zone].GetResourceVersion()
			}
		}
		return text, err
	}
	before, since := "", time.Now()
	a.Eventually("the status of the last change is there", func(ctx context.Context) error {
		now, err := versions(ctx)
		if err != nil {
			return err
		}
		if now != before {
			before, since = now, time.Now()
		}
		if quiet := time.Since(since); quiet < 2*time.Second {
			return fmt.Errorf("the versions %s are there for %s", now, quiet)
		}
		return nil
	})
	a.Consistently(2*time.Second, "nothing is written", func(ctx context.Context) error {
		now, err := versions(ctx)
		if err == nil && now != before {
			err = fmt.Errorf("the versions were %s and are %s", before, now)
		}
		return err
	})
}

// zone takes the node of a zone out of service, with its pods, or puts it back.
func (a *app) zone(name string, up bool) {
	a.t.Helper()
	nodes := &corev1.NodeList{}
	if err := env.Client.List(a.t.Context(), nodes, client.MatchingLabels{corev1.LabelTopologyZone: "zone-" + name}); err != nil || len(nodes.Items) != 1 {
		a.t.Fatalf("%d nodes in zone %s: %v", len(nodes.Items), name, err)
	}
	patch := fmt.Sprintf(`{"spec":{"unschedulable":%t}}`, !up)
	if err := env.Client.Patch(a.t.Context(), &nodes.Items[0], client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		a.t.Fatal(err)
	}
	if up {
		return
	}
	a.t.Cleanup(func() {
		back := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"unschedulable":false}}`))
		if err := env.Client.Patch(context.WithoutCancel(a.t.Context()), &nodes.Items[0], back); err != nil {
			a.t.Error(err)
		}
	})
	for _, pod := range a.Pods("app=app", shared.LabelSubsetName+"="+name) {
		if err := client.IgnoreNotFound(env.Client.Delete(a.t.Context(), &pod, client.GracePeriodSeconds(0))); err != nil {
			a.t.Fatal(err)
		}
	}
}

// explain shows the objects of a failed test.
func (a *app) explain() {
	if !a.t.Failed() {
		return
	}
	ctx := context.WithoutCancel(a.t.Context())
	pods, err := a.ListPods(ctx, "app=app")
	a.t.Logf("%d pods: %v", len(pods), err)
	for i := range pods {
		var missing []string
		for _, c := range pods[i].Status.Conditions {
			if c.Status != corev1.ConditionTrue {
				missing = append(missing, string(c.Type)+" "+c.Message)
			}
		}
		a.t.Logf("pod %s on node %q is %s, gates %v, not true: %v", pods[i].Name, pods[i].Spec.NodeName, pods[i].Status.Phase, pods[i].Spec.ReadinessGates, missing)
	}
	a.t.Log(strings.Join(a.logged(), "\n"))
	set, err := a.get(ctx)
	if err == nil {
		status, _ := yaml.Marshal(set.Status)
		a.t.Logf("the status is\n%s", status)
	}
	all, err := a.workloads(ctx)
	a.t.Logf("workloads: %v", err)
	for name, w := range all {
		status, _ := yaml.Marshal(runtime.DeepCopyJSONValue(w.Object["status"]))
		a.t.Logf("%s %s:\n%s", name, w.GetName(), status)
	}
}

// logged are the operator's last log lines about the namespace or watches.
func (a *app) logged() []string {
	text, err := os.ReadFile(env.Operator.Log())
	if err != nil {
		return []string{err.Error()}
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, a.Name) || strings.Contains(line, "eflector") || strings.Contains(line, "atch") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines[max(0, len(lines)-15):]
}
