// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package gates_test

import (
	"context"
	"fmt"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/scenario"
)

// settledCloneSet waits until all pods are available at the update revision and no others are left, and returns their UIDs.
func settledCloneSet(t *testing.T, n *environment.Namespace) sets.Set[types.UID] {
	t.Helper()
	replicas := int(*n.SettledCloneSet("web").Spec.Replicas)
	var uids sets.Set[types.UID]
	n.Eventually("no other pods are left", func(ctx context.Context) error {
		pods, err := n.ListPods(ctx, "app=web")
		if err != nil {
			return err
		}
		uids = sets.New[types.UID]()
		for i := range pods {
			uids.Insert(pods[i].UID)
		}
		if len(uids) != replicas {
			return fmt.Errorf("there are %d pods", len(uids))
		}
		return nil
	})
	return uids
}

// A CloneSet with the annotations of v1alpha1 for pulling images ahead.
func TestImagesOfACloneSetArePulledAhead(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	n.Apply(`
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata:
  name: web
  annotations:
    ` + shared.AnnotationPreDownloadParallelism + `: "4"
    ` + shared.AnnotationPreDownloadMinUpdatedReadyPods + `: "1"
spec:
  replicas: 5
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
      annotations: {` + simnode.RestartDelay + `: never}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: main
        image: ` + scenario.V1 + `
  updateStrategy:
    type: InPlaceIfPossible
    maxUnavailable: 1
`)
	before := settledCloneSet(t, n)
	first := n.CloneSet("web").Status.UpdateRevision
	n.ChangeCloneSet("web", func(set *v1beta1.CloneSet) { set.Spec.Template.Spec.Containers[0].Image = scenario.V2 })

	says := func(reason string) {
		t.Helper()
		n.Eventually("the set says "+reason, func(context.Context) error {
			for _, c := range n.CloneSet("web").Status.Conditions {
				if c.Type == v1beta1.CloneSetImagePreDownload && c.Reason == reason {
					return nil
				}
			}
			return fmt.Errorf("the conditions are %+v", n.CloneSet("web").Status.Conditions)
		})
	}
	jobs := func() []v1beta1.ImagePullJob {
		t.Helper()
		list := &v1beta1.ImagePullJobList{}
		if err := n.Client.List(t.Context(), list, client.InNamespace(n.Name)); err != nil {
			t.Fatal(err)
		}
		return list.Items
	}
	says(v1beta1.ReasonWaitingForUpdatedPods)
	if got := jobs(); len(got) > 0 {
		t.Errorf("before a pod is updated there are %v", got)
	}

	// The first pod is updated and ready.
	release := func(moved func(revision string) bool) {
		t.Helper()
		pods := n.Pods("app=web")
		for i := range pods {
			if moved(pods[i].Labels[shared.LabelControllerRevisionHash]) {
				n.PatchPod(pods[i].Name, `{"metadata":{"annotations":{"`+simnode.RestartDelay+`":"0s"}}}`)
			}
		}
	}
	n.Eventually("a pod is being moved", func(context.Context) error {
		if s := n.CloneSet("web").Status; s.UpdatedReplicas == 0 {
			return fmt.Errorf("the status is %+v", s)
		}
		return nil
	})
	release(func(revision string) bool { return revision != first })
	says(v1beta1.ReasonPulling)
	second := n.CloneSet("web").Status.UpdateRevision
	got := jobs()
	if len(got) != 1 || got[0].Name != second+"-main" || got[0].Spec.Image != scenario.V2 || got[0].Spec.Parallelism.IntValue() != 4 ||
		!metav1.IsControlledBy(&got[0], n.CloneSet("web")) || got[0].OwnerReferences[0].Kind != "CloneSet" {
		t.Errorf("the jobs are %+v", got)
	}

	release(func(string) bool { return true })
	if after := settledCloneSet(t, n); !after.Equal(before) {
		t.Errorf("pods were replaced: %v, then %v", before, after)
	}
	n.Eventually("the jobs are gone", func(context.Context) error {
		if left := jobs(); len(left) > 0 {
			return fmt.Errorf("there are %v", left)
		}
		return nil
	})
}

// RecreatePodWhenChangeVCTInCloneSetGate.
func TestChangedClaimTemplatesReplacePods(t *testing.T) {
	t.Parallel()
	if err := env.Nodes.CreateStorageClass(t.Context(), "plain", storagev1.VolumeBindingImmediate, false); err != nil {
		t.Fatal(err)
	}
	n := env.Namespace(t)
	n.Apply(`
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata:
  name: web
spec:
  replicas: 2
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: main
        image: ` + scenario.V1 + `
  volumeClaimTemplates:
  - metadata: {name: data}
    spec:
      storageClassName: plain
      accessModes: [ReadWriteOnce]
      resources: {requests: {storage: 1Gi}}
  updateStrategy:
    type: RollingUpdate
    rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, maxUnavailable: 1}
`)
	first := settledCloneSet(t, n)
	n.ChangeCloneSet("web", func(set *v1beta1.CloneSet) { set.Spec.Template.Spec.Containers[0].Image = scenario.V2 })
	if edited := settledCloneSet(t, n); !edited.Equal(first) {
		t.Errorf("with unchanged claim templates pods were replaced: %v, then %v", first, edited)
	}
	n.ChangeCloneSet("web", func(set *v1beta1.CloneSet) {
		more := *set.Spec.VolumeClaimTemplates[0].DeepCopy()
		more.Name = "log"
		set.Spec.VolumeClaimTemplates = append(set.Spec.VolumeClaimTemplates, more)
	})
	if same := settledCloneSet(t, n); !same.Equal(first) {
		t.Errorf("claim templates alone replaced pods: %v, then %v", first, same)
	}
	n.ChangeCloneSet("web", func(set *v1beta1.CloneSet) { set.Spec.Template.Spec.Containers[0].Image = scenario.V3 })
	if replaced := settledCloneSet(t, n); replaced.Intersection(first).Len() > 0 {
		t.Errorf("with changed claim templates pods were kept: %v, then %v", first, replaced)
	}
	for _, pod := range n.Pods("app=web") {
		if len(pod.Spec.Volumes) < 2 {
			t.Errorf("pod %s has the volumes %v", pod.Name, pod.Spec.Volumes)
		}
	}
}
