// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package gates_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// The rollout begins on a node with the image. Without images pulled ahead the pod ready
// last would be first.
func TestRolloutsBeginWhereTheImageIs(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	for _, name := range []string{"-ahead", "-behind"} {
		n.OwnNode(n.Name+name, nil)
	}
	n.Apply(`
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: web}
spec:
  replicas: 6
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
      annotations: {` + simnode.RestartDelay + `: never}
    spec:
      nodeSelector: {` + environment.Own + `: ` + n.Name + `}
      tolerations: [{key: ` + environment.Own + `, operator: Exists}]
      terminationGracePeriodSeconds: 1
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: web}}}
      containers:
      - name: main
        image: example/ahead:v1
  updateStrategy:
    type: RollingUpdate
    rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, maxUnavailable: 1}
`)
	settledCloneSet(t, n)
	pods := n.Pods("app=web")
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return readySince(&b).Compare(readySince(&a).Time) })
	last := pods[0].Spec.NodeName // the node of the pod that would be the first
	chosen := ""
	for i := range pods {
		if pods[i].Spec.NodeName != last {
			chosen = pods[i].Spec.NodeName
		}
	}
	if chosen == "" {
		t.Fatalf("all pods are on %s", last)
	}
	n.ChangeCloneSet("web", func(set *v1beta1.CloneSet) {
		set.Spec.UpdateStrategy.RollingUpdate.Paused = true
		set.Spec.UpdateStrategy.RollingUpdate.InPlaceUpdateStrategy = &shared.InPlaceUpdateStrategy{ImagePreDownloadParallelism: ptr.To(intstr.FromInt32(2))}
		set.Spec.Template.Spec.Containers[0].Image = "example/ahead:v2"
	})
	n.Eventually("the nodes are asked, and one has the image", func(ctx context.Context) error {
		list := &v1beta1.NodeImage{}
		if err := n.Client.Get(ctx, client.ObjectKey{Name: chosen}, list); err != nil {
			return err
		}
		tags := list.Spec.Images["example/ahead"].Tags
		if len(tags) != 1 {
			return fmt.Errorf("the tags are %+v", tags)
		}
		now := metav1.Now()
		list.Status.Desired, list.Status.Succeeded = 1, 1
		list.Status.ImageStatuses = map[string]v1beta1.ImageStatus{"example/ahead": {Tags: []v1beta1.ImageTagStatus{{
			Tag: "v2", Phase: v1beta1.ImagePhaseSucceeded, Version: tags[0].Version, CompletionTime: &now,
		}}}}
		return n.Client.Status().Update(ctx, list)
	})
	n.Eventually("the job has heard of it", func(ctx context.Context) error {
		job := &v1beta1.ImagePullJob{}
		if err := n.Client.Get(ctx, client.ObjectKey{Namespace: n.Name, Name: n.CloneSet("web").Status.UpdateRevision + "-main"}, job); err != nil {
			return err
		}
		if job.Status.Succeeded != 1 {
			return fmt.Errorf("its status is %+v", job.Status)
		}
		return nil
	})
	n.ChangeCloneSet("web", func(set *v1beta1.CloneSet) { set.Spec.UpdateStrategy.RollingUpdate.Paused = false })
	n.Eventually("a pod is being moved", func(context.Context) error {
		if s := n.CloneSet("web").Status; s.UpdatedReplicas == 0 {
			return fmt.Errorf("the status is %+v", s)
		}
		return nil
	})
	update := n.CloneSet("web").Status.UpdateRevision
	for _, pod := range n.Pods("app=web") {
		if pod.Labels[shared.LabelControllerRevisionHash] == update && pod.Spec.NodeName != chosen {
			t.Errorf("the first pod to move is on %s, and %s has the image", pod.Spec.NodeName, chosen)
		}
	}
}

// readySince is when a pod became ready.
func readySince(pod *corev1.Pod) *metav1.Time {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady {
			return &c.LastTransitionTime
		}
	}
	return &metav1.Time{}
}
