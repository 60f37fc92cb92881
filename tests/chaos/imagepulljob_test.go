// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package chaos_test

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/chaos"
	"github.com/kruise-operator/kruise-operator/tests/framework/simdaemon"
)

// imagePullJob has the nodes of the lane pull, two at a time. MORE are more lines of the spec.
const imagePullJob = `
apiVersion: apps.kruise.io/v1beta1
kind: ImagePullJob
metadata: {name: pull}
spec:
  image: registry.example/web:v2
  selector: {matchLabels: {chaos: NODES}}
  parallelism: 2
MORE
`

// imagePullJobs are scenarios of an ImagePullJob. The same operator makes the nodes' lists,
// their NodeImages.
func imagePullJobs() []chaos.Scenario {
	pulled := func(count int64, over bool) func(context.Context, *chaos.World) error {
		return func(ctx context.Context, w *chaos.World) error {
			job, err := read(ctx, w, "ImagePullJob", "pull")
			if err != nil {
				return err
			}
			desired, _, _ := unstructured.NestedInt64(job.Object, "status", "desired")
			succeeded, _, _ := unstructured.NestedInt64(job.Object, "status", "succeeded")
			_, ended, _ := unstructured.NestedString(job.Object, "status", "completionTime")
			if desired != count || succeeded != count || ended != over {
				lists := &v1beta1.NodeImageList{}
				err := w.Client.List(ctx, lists, client.MatchingLabels{"chaos": w.Lane.Name})
				text := ""
				for i := range lists.Items {
					text += fmt.Sprintf("\n%s: %+v, %+v", lists.Items[i].Name, lists.Items[i].Spec, lists.Items[i].Status)
				}
				return errors.Join(fmt.Errorf("the status is %v%s", job.Object["status"], text), err)
			}
			return nil
		}
	}
	const stays = "  completionPolicy: {type: Never}"
	all := []chaos.Scenario{
		{Name: "completes", Steps: []chaos.Step{pullers(apply(imagePullJob, pulled(3, true), "MORE", ""), "a", "b", "c")}},
		{Name: "nodes-come-and-go", Steps: []chaos.Step{
			pullers(apply(imagePullJob, pulled(2, false), "MORE", stays), "a", "b"),
			pullers(chaos.Step{Settled: pulled(3, false)}, "c"),
			withNodes(chaos.Step{Settled: pulled(2, false)}, false, "a"),
		}},
		{Name: "deleted", Steps: []chaos.Step{
			pullers(apply(imagePullJob, pulled(2, false), "MORE", stays), "a", "b"),
			{Settled: emptyLists(2), Do: func(w *chaos.World) {
				w.T.Helper()
				job, err := read(w.T.Context(), w, "ImagePullJob", "pull")
				if err == nil {
					err = w.Client.Delete(w.T.Context(), job)
				}
				if err != nil {
					w.T.Fatal(err)
				}
			}},
		}},
	}
	for i := range all {
		all[i].Kind, all[i].Kinds, all[i].OwnNodes, all[i].Observe = "ImagePullJob", []string{"ImagePullJob", "NodeImage"}, true, twoPull
	}
	return all
}

// pullers adds nodes with a daemon each before a step.
func pullers(step chaos.Step, names ...string) chaos.Step {
	return chaos.Step{Settled: step.Settled, Do: func(w *chaos.World) {
		w.T.Helper()
		nodes(w, true, names...)
		for _, name := range names {
			simdaemon.Run(w.T, env, w.Name+"-"+name, 143)
		}
		if step.Do != nil {
			step.Do(w)
		}
	}}
}

// emptyLists: the lane has so many NodeImages, all empty, and no job.
func emptyLists(count int) func(context.Context, *chaos.World) error {
	return func(ctx context.Context, w *chaos.World) error {
		if _, err := read(ctx, w, "ImagePullJob", "pull"); isGone(err) != nil {
			return isGone(err)
		}
		lists := &v1beta1.NodeImageList{}
		if err := w.Client.List(ctx, lists, client.MatchingLabels{"chaos": w.Lane.Name}); err != nil {
			return err
		}
		if len(lists.Items) != count {
			return fmt.Errorf("there are %d NodeImages", len(lists.Items))
		}
		for i := range lists.Items {
			if list := &lists.Items[i]; len(list.Spec.Images) > 0 || list.Status.Desired != 0 {
				return fmt.Errorf("NodeImage %s has %+v, %+v", list.Name, list.Spec, list.Status)
			}
		}
		return nil
	}
}

// twoPull judges that at most two nodes pull at a time for the job.
func twoPull(w *chaos.World) {
	chaos.Follow(w, &v1beta1.ImagePullJobList{}, func(object client.Object, _ bool) error {
		job, _ := object.(*v1beta1.ImagePullJob)
		if job.Status.Active > 2 {
			return fmt.Errorf("%d nodes pull, allowed are 2", job.Status.Active)
		}
		return nil
	})
}
