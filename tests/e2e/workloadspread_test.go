// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/intstr"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/spread"
	"github.com/kruise-operator/kruise-operator/tests/framework/audit"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
)

// spreadDeployment is a WorkloadSpread of a Deployment. No pod starts without a subset, however slow the machine is.
const spreadDeployment = `
apiVersion: apps.kruise.io/v1beta1
kind: WorkloadSpread
metadata: {name: shop, annotations: {operator.kruise.io/injection-failure-policy: Fail}}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: shop}
  subsets:
  - {name: a, maxReplicas: 2, patch: {metadata: {labels: {subset: a}}}}
  - {name: b, maxReplicas: 3}
  - {name: c}
`

const deployed = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: 6
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: "example/shop:v1"}]
`

// split is how many living pods each subset has; subsets are a, b and so on.
func split(pods []corev1.Pod, subsets int) string {
	counts, none := make([]int, subsets), 0
	for i := range pods {
		if pods[i].DeletionTimestamp != nil || podstate.Finished(&pods[i]) {
			continue
		}
		mark, found := spread.MarkOf(pods[i].Annotations)
		if !found || mark.Subset == "" {
			none++
			continue
		}
		counts[mark.Subset[0]-'a']++
	}
	return fmt.Sprint(counts, none)
}

// isSplit waits for a split of ready pods with this image.
func isSplit(n *environment.Namespace, app, image, want string) {
	n.Eventually(app+" with "+image+" is split into "+want, func(ctx context.Context) error {
		pods, err := n.ListPods(ctx, "app="+app)
		if err != nil {
			return err
		}
		if got := split(pods, strings.Count(want, " ")); got != want {
			var marks []string
			for i := range pods {
				marks = append(marks, pods[i].Name+" "+pods[i].Annotations[shared.AnnotationMatchedWorkloadSpread])
			}
			return fmt.Errorf("it is %s: %s", got, strings.Join(marks, ", "))
		}
		for i := range pods {
			if !environment.IsReady(&pods[i]) || pods[i].Spec.Containers[0].Image != image {
				return fmt.Errorf("pod %s is not ready with it", pods[i].Name)
			}
		}
		return nil
	})
}

// spreads waits until new pods get subsets.
func spreads(n *environment.Namespace, name, reason string) *v1beta1.WorkloadSpread {
	ws := &v1beta1.WorkloadSpread{}
	n.Eventually("WorkloadSpread "+name+" says "+reason, func(ctx context.Context) error {
		if err := n.Client.Get(ctx, client.ObjectKey{Namespace: n.Name, Name: name}, ws); err != nil {
			return err
		}
		c := meta.FindStatusCondition(ws.Status.Conditions, v1beta1.WorkloadSpreadReconciling)
		if ws.Status.ObservedGeneration != ws.Generation || c == nil || c.Reason != reason {
			return fmt.Errorf("its status is %+v", ws.Status)
		}
		return nil
	})
	return ws
}

func changeDeployment(t *testing.T, n *environment.Namespace, change func(*appsv1.Deployment)) {
	t.Helper()
	d := &appsv1.Deployment{}
	if err := n.Client.Get(t.Context(), client.ObjectKey{Namespace: n.Name, Name: "shop"}, d); err != nil {
		t.Fatal(err)
	}
	before := d.DeepCopy()
	change(d)
	if err := n.Client.Patch(t.Context(), d, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

func areReady(n *environment.Namespace, count int) {
	n.Eventually("all pods are ready", func(ctx context.Context) error {
		pods, err := n.ListPods(ctx, "app=shop")
		if err != nil || len(pods) != count {
			return fmt.Errorf("%d pods: %w", len(pods), err)
		}
		for i := range pods {
			if !environment.IsReady(&pods[i]) {
				return fmt.Errorf("%s is not", pods[i].Name)
			}
		}
		return nil
	})
}

// TestADeploymentIsSpread starts a Deployment, updates it with a surge, loses a pod, and scales in.
func TestADeploymentIsSpread(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	n.Apply(spreadDeployment)
	spreads(n, "shop", v1beta1.ReasonTargetNotFound)
	n.Apply(deployed)
	areReady(n, 6) // an API server may learn of the webhook a moment later
	spreads(n, "shop", v1beta1.ReasonSpread)
	for i := 2; i < 4; i++ {
		image := "example/shop:v" + strconv.Itoa(i)
		changeDeployment(t, n, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = image })
		isSplit(n, "shop", image, "[2 3 1] 0")
	}
	lost := n.Pods("subset=a")[0]
	if lost.Annotations[deletionCost] != "300" || len(n.Pods("subset=a")) != 2 {
		t.Errorf("the pods of the first subset are %v", n.Pods("subset=a"))
	}
	if err := n.Client.SubResource("eviction").Create(t.Context(), &lost, &policyv1.Eviction{}); err != nil { // as kubectl drain does
		t.Fatal(err)
	}
	isSplit(n, "shop", "example/shop:v3", "[2 3 1] 0")
	n.Eventually("the status is exact", func(ctx context.Context) error {
		ws := &v1beta1.WorkloadSpread{}
		if err := n.Client.Get(ctx, client.ObjectKey{Namespace: n.Name, Name: "shop"}, ws); err != nil {
			return err
		}
		for i, want := range []int32{2, 3, 1} {
			if len(ws.Status.SubsetStatuses) != 3 || ws.Status.SubsetStatuses[i].Replicas != want || len(ws.Status.VersionedSubsetStatuses) != 1 {
				return fmt.Errorf("it is %+v", ws.Status)
			}
		}
		return nil
	})
	changeDeployment(t, n, func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](4) })
	isSplit(n, "shop", "example/shop:v3", "[2 2 0] 0")
}

// TestPodsOfBeforeAreSpread makes a WorkloadSpread for a Deployment that runs.
func TestPodsOfBeforeAreSpread(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	n.Apply(deployed)
	areReady(n, 6)
	n.Apply(strings.ReplaceAll(spreadDeployment, "patch: {metadata: {labels: {subset: a}}}", ""))
	isSplit(n, "shop", "example/shop:v1", "[2 3 1] 0")
}

// spreadOfClones has the limits 2 and 8 for clones.
const spreadOfClones = `
apiVersion: apps.kruise.io/v1alpha1
kind: WorkloadSpread
metadata: {name: shop}
spec:
  targetRef: {apiVersion: apps.kruise.io/v1alpha1, kind: CloneSet, name: shop}
  subsets: [{name: a, maxReplicas: 2}, {name: b, maxReplicas: 8}]
---
`

const clones = `
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: shop}
spec:
  replicas: 10
  selector: {matchLabels: {app: shop}}
  updateStrategy: {rollingUpdate: {maxSurge: 2, maxUnavailable: 0}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: "example/shop:v1"}]
`

// TestACloneSetIsSpreadWithoutAdmission is Q05: the split of 2 and 8 is the same after each update.
func TestACloneSetIsSpreadWithoutAdmission(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	n.Apply(spreadOfClones + clones)
	isSplit(n, "shop", "example/shop:v1", "[2 8] 0")
	for i := 2; i < 5; i++ {
		image := "example/shop:v" + strconv.Itoa(i)
		n.ChangeCloneSet("shop", func(set *v1beta1.CloneSet) { set.Spec.Template.Spec.Containers[0].Image = image })
		isSplit(n, "shop", image, "[2 8] 0")
	}
	for _, pod := range n.Pods("app=shop") {
		if mark, _ := spread.MarkOf(pod.Annotations); mark.UID != "" {
			t.Errorf("pod %s was given its subset by admission", pod.Name)
		}
	}
}

// TestASpreadCostsACloneSetNoWrites counts the operator's writes to pods of two CloneSets, one of them with a WorkloadSpread.
func TestASpreadCostsACloneSetNoWrites(t *testing.T) {
	t.Parallel()
	log, err := audit.Open(env.Cluster.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	without, with := env.Namespace(t), env.Namespace(t)
	with.Apply(spreadOfClones + clones)
	without.Apply(clones)
	for _, replicas := range []int32{10, 6, 9} {
		for _, n := range []*environment.Namespace{without, with} {
			n.ChangeCloneSet("shop", func(set *v1beta1.CloneSet) { set.Spec.Replicas = &replicas })
			areReady(n, int(replicas))
		}
	}
	isSplit(with, "shop", "example/shop:v1", "[2 7] 0")
	byOperator, writes := audit.ByUser(operator.ServiceAccountUser), map[string]int{}
	events, err := log.Next(func(e *auditv1.Event) bool {
		return byOperator(e) && e.ObjectRef != nil && e.ObjectRef.Resource == "pods"
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range events {
		if e := &events[i]; slices.Contains([]string{"create", "update", "patch", "delete"}, e.Verb) && e.ObjectRef.Subresource == "" {
			writes[e.ObjectRef.Namespace]++
		}
	}
	if writes[with.Name] != writes[without.Name] || writes[with.Name] != 17 { // 13 pods were created, and 4 deleted
		t.Errorf("%d writes to pods with a WorkloadSpread, %d without", writes[with.Name], writes[without.Name])
	}
}

// TestSubsetsWithoutNodesAreGivenUp has a first subset without nodes.
func TestSubsetsWithoutNodesAreGivenUp(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	n.Apply(`
apiVersion: apps.kruise.io/v1beta1
kind: WorkloadSpread
metadata: {name: db}
spec:
  targetRef: {apiVersion: apps.kruise.io/v1beta1, kind: CloneSet, name: db}
  subsets:
  - name: a
    maxReplicas: 2
    requiredNodeSelector: {matchExpressions: [{key: no-node-has-this, operator: Exists}]}
  - name: b
  scheduleStrategy: {type: Adaptive, adaptive: {rescheduleCriticalSeconds: 3}}
---
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: db}
spec:
  replicas: 3
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: "example/db:v1"}]
`)
	isSplit(n, "db", "example/db:v1", "[0 3] 0")
	ws := spreads(n, "db", v1beta1.ReasonSpread)
	if meta.IsStatusConditionTrue(ws.Status.SubsetStatuses[0].Conditions, v1beta1.SpreadSubsetSchedulable) {
		t.Errorf("its status is %+v", ws.Status)
	}
}

// TestJobsAndStatefulSetsAreSpread has a Job, StatefulSets of both groups, and a ReplicaSet of no Deployment.
func TestJobsAndStatefulSetsAreSpread(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	const set = `
apiVersion: VERSION
kind: StatefulSet
metadata: {name: NAME}
spec:
  replicas: 3
  serviceName: NAME
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: "example/db:v1"}]
`
	const job = `
apiVersion: batch/v1
kind: Job
metadata: {name: NAME}
spec:
  parallelism: 3
  completions: 30
  template:
    metadata: {labels: {app: NAME}}
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: "example/db:v1"}]
`
	bare := strings.NewReplacer("kind: StatefulSet", "kind: ReplicaSet", "  serviceName: NAME\n  podManagementPolicy: Parallel\n", "").Replace(set)
	for name, target := range map[string][3]string{
		"ours": {"apps.kruise.io/v1beta1", "StatefulSet", set}, "native": {"apps/v1", "StatefulSet", set}, "job": {"batch/v1", "Job", job},
		"bare": {"apps/v1", "ReplicaSet", bare},
	} {
		n.Apply(fmt.Sprintf(`
apiVersion: apps.kruise.io/v1beta1
kind: WorkloadSpread
metadata: {name: %s}
spec:
  targetRef: {apiVersion: %s, kind: %s, name: %s}
  subsets: [{name: a, maxReplicas: 1}, {name: b}]
`, name, target[0], target[1], name))
		spreads(n, name, v1beta1.ReasonTargetNotFound)
		n.Apply(strings.NewReplacer("VERSION", target[0], "NAME", name).Replace(target[2]))
		if target[1] == "Job" {
			someAreSpread(n, name)
		} else {
			isSplit(n, name, "example/db:v1", "[1 2] 0")
		}
	}
}

// someAreSpread waits for pods with a subset from admission. Those of a Job end at once here, and nobody else gives them one.
func someAreSpread(n *environment.Namespace, app string) {
	n.Eventually("pods of "+app+" have subsets", func(ctx context.Context) error {
		pods, err := n.ListPods(ctx, "app="+app)
		if err != nil {
			return err
		}
		for i := range pods {
			if mark, _ := spread.MarkOf(pods[i].Annotations); mark.UID != "" {
				return nil
			}
		}
		return fmt.Errorf("none of %d pods has", len(pods))
	})
}

// TestPercentagesFollowTheWorkload has a HorizontalPodAutoscaler scale a Deployment with a percentage.
func TestPercentagesFollowTheWorkload(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	ws := &v1beta1.WorkloadSpread{}
	ws.Namespace, ws.Name, ws.Annotations = n.Name, "shop", map[string]string{shared.AnnotationInjectionFailurePolicy: "Fail"}
	ws.Spec.TargetReference = &v1beta1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "shop"}
	ws.Spec.Subsets = []v1beta1.WorkloadSpreadSubset{{Name: "a", MaxReplicas: ptr.To(intstr.FromString("30%"))}, {Name: "b"}}
	if err := n.Client.Create(t.Context(), ws); err != nil {
		t.Fatal(err)
	}
	spreads(n, "shop", v1beta1.ReasonTargetNotFound)
	n.Apply(strings.Replace(deployed, "replicas: 6", "replicas: 5", 1))
	isSplit(n, "shop", "example/shop:v1", "[2 3] 0")
	n.Apply(`
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: shop}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: shop}
  minReplicas: 10
  maxReplicas: 12
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]
`)
	isSplit(n, "shop", "example/shop:v1", "[3 7] 0")
}
