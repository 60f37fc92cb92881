// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/tests/framework/chaos"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// recreatedSet is a CloneSet of one pod on the node of the lane.
const recreatedSet = `
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      nodeSelector: {chaos: NODES}
      tolerations: [{key: chaos, operator: Exists}]
      containers:
      - {name: app, image: "example/web:v1"}
      - {name: log, image: "example/log:v1"}
`

// recreateRequest asks for new containers in a pod. MORE are more lines of the spec.
const recreateRequest = `
apiVersion: apps.kruise.io/v1beta1
kind: ContainerRecreateRequest
metadata: {name: again}
spec:
  podName: POD
  containers: [{name: app}, {name: log}]
MORE
`

// recreateRequests are scenarios of a ContainerRecreateRequest.
func recreateRequests() []chaos.Scenario {
	// Nobody deletes the pod during a request: tests/e2e covers it.
	deploy := pullers(apply(recreatedSet, both(reconciled("CloneSet", "web"), inService)), "a")
	request := func(more string, settled func(context.Context, *chaos.World) error) chaos.Step {
		return chaos.Step{Settled: settled, Do: func(w *chaos.World) {
			w.T.Helper()
			pod, err := theOnlyPod(w.T.Context(), w)
			if err != nil {
				w.T.Fatal(err)
			}
			w.Apply(strings.NewReplacer("POD", pod.Name, "MORE", more).Replace(recreateRequest))
		}}
	}
	over := func(ctx context.Context, w *chaos.World) error {
		r := &v1beta1.ContainerRecreateRequest{}
		if err := w.Client.Get(ctx, client.ObjectKey{Namespace: w.Name, Name: "again"}, r); err != nil {
			return err
		}
		if r.Status.Phase != v1beta1.RecreateCompleted || r.Labels[v1beta1.LabelRequestActive] != "" || len(r.Finalizers) > 0 {
			return fmt.Errorf("its labels are %v, its finalizers %v, its status is %+v", r.Labels, r.Finalizers, r.Status)
		}
		return inService(ctx, w)
	}
	held := func(ctx context.Context, w *chaos.World) error {
		pod, err := theOnlyPod(ctx, w)
		if err == nil && (len(podstate.Holders(pod)) == 0 || podstate.Ready(pod)) {
			err = errors.New("the pod is in service")
		}
		return err
	}
	withdraw := chaos.Step{Do: func(w *chaos.World) {
		w.T.Helper()
		r := &v1beta1.ContainerRecreateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: w.Name, Name: "again"}}
		if err := w.Client.Delete(w.T.Context(), r); err != nil {
			w.T.Fatal(err)
		}
	}, Settled: func(ctx context.Context, w *chaos.World) error {
		r := &v1beta1.ContainerRecreateRequest{}
		if err := isGone(w.Client.Get(ctx, client.ObjectKey{Namespace: w.Name, Name: "again"}, r)); err != nil {
			return err
		}
		return inService(ctx, w)
	}}
	all := []chaos.Scenario{
		{Name: "in-order", Steps: []chaos.Step{deploy, request("  strategy: {orderedRecreate: true}", over)}},
		{Name: "out-of-service-first", Steps: []chaos.Step{deploy, request("  strategy: {unreadyGracePeriodSeconds: 1}", over)}},
		{Name: "withdrawn", Steps: []chaos.Step{deploy, request("  strategy: {unreadyGracePeriodSeconds: 600}", held), withdraw}},
	}
	for i := range all {
		all[i].Kind, all[i].Kinds = "ContainerRecreateRequest", []string{"ContainerRecreateRequest", "CloneSet"}
		all[i].Made, all[i].RandomNames, all[i].Observe = []string{"clonesets.apps.kruise.io"}, true, restartsOnce
	}
	return all
}

func theOnlyPod(ctx context.Context, w *chaos.World) (*corev1.Pod, error) {
	all, err := w.ListPods(ctx)
	if err == nil && len(all) != 1 {
		err = fmt.Errorf("there are %d pods", len(all))
	}
	if err != nil {
		return nil, err
	}
	return &all[0], nil
}

// inService: the pod is ready and nobody holds it.
func inService(ctx context.Context, w *chaos.World) error {
	pod, err := theOnlyPod(ctx, w)
	if err == nil && (!environment.IsReady(pod) || len(podstate.Holders(pod)) > 0) {
		err = fmt.Errorf("the conditions are %+v", pod.Status.Conditions)
	}
	return err
}

// restartsOnce judges that no container of a pod is restarted twice.
func restartsOnce(w *chaos.World) {
	chaos.Follow(w, &corev1.PodList{}, func(object client.Object, _ bool) error {
		pod, _ := object.(*corev1.Pod)
		for _, c := range pod.Status.ContainerStatuses {
			if c.RestartCount > 1 {
				return fmt.Errorf("container %s of pod %s has restarted %d times", c.Name, pod.Name, c.RestartCount)
			}
		}
		return nil
	})
}
