// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package chaos_test

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/chaos"
)

// imageListPullJob has the nodes of the lane pull IMAGES, a few at a time.
const imageListPullJob = `
apiVersion: apps.kruise.io/v1beta1
kind: ImageListPullJob
metadata: {name: warm}
spec:
  images: [IMAGES]
  selector: {matchLabels: {chaos: NODES}}
  parallelism: PARALLELISM
  completionPolicy: {type: TYPE}
`

// imageListPullJobs are scenarios of an ImageListPullJob. The same operator keeps its jobs
// and the nodes' lists.
func imageListPullJobs() []chaos.Scenario {
	const a, b, c = "registry.example/a:v1", "registry.example/b:v1", "registry.example/c:v1"
	pull := func(policy, parallelism string, settled func(context.Context, *chaos.World) error, images string) chaos.Step {
		return apply(imageListPullJob, settled, "IMAGES", images, "PARALLELISM", parallelism, "TYPE", policy)
	}
	all := []chaos.Scenario{
		{Name: "completes", Steps: []chaos.Step{
			pullers(pull("Always", "1", listPulled(2, true, a, b), a+", "+b), "a", "b"),
		}},
		{Name: "other-images", Steps: []chaos.Step{
			pullers(pull("Never", "1", listPulled(1, false, a, b), a+", "+b), "a"),
			pull("Never", "1", listPulled(1, false, b, c), b+", "+c),
		}},
		{Name: "another-parallelism", AnyRound: true, Steps: []chaos.Step{
			pullers(pull("Never", "1", listPulled(1, false, a), a), "a"),
			pull("Never", "2", listPulled(1, false, a), a),
		}},
	}
	for i := range all {
		all[i].Kind, all[i].Kinds = "ImageListPullJob", []string{"ImageListPullJob", "ImagePullJob", "NodeImage"}
		all[i].OwnNodes, all[i].Observe = true, oneJobEach
	}
	return all
}

// listPulled: so many nodes have the images, with one job for each image and no other.
func listPulled(nodes int32, over bool, images ...string) func(context.Context, *chaos.World) error {
	return func(ctx context.Context, w *chaos.World) error {
		list := &v1beta1.ImageListPullJob{}
		if err := w.Client.Get(ctx, client.ObjectKey{Namespace: w.Name, Name: "warm"}, list); err != nil {
			return err
		}
		s, want := &list.Status, int32(len(images))
		if s.ObservedGeneration != list.Generation || s.Desired != want || s.Succeeded != want || s.Completed != want || (s.CompletionTime != nil) != over {
			return fmt.Errorf("the status is %+v", s)
		}
		jobs := &v1beta1.ImagePullJobList{}
		if err := w.Client.List(ctx, jobs, client.InNamespace(w.Name)); err != nil {
			return err
		}
		var pulled []string
		for i := range jobs.Items {
			job := &jobs.Items[i]
			if job.Spec.Parallelism.String() != list.Spec.Parallelism.String() || job.Status.Succeeded != nodes {
				return fmt.Errorf("the job for %s has %+v, %+v", job.Spec.Image, job.Spec, job.Status)
			}
			pulled = append(pulled, job.Spec.Image)
		}
		if slices.Sort(pulled); !slices.Equal(pulled, images) {
			return fmt.Errorf("there are jobs for %v", pulled)
		}
		return nil
	}
}

// oneJobEach judges that no image has two equal jobs at a time, and none more nodes at work
// than allowed.
func oneJobEach(w *chaos.World) {
	jobs := map[string]types.UID{}
	chaos.Follow(w, &v1beta1.ImagePullJobList{}, func(object client.Object, deleted bool) error {
		job, _ := object.(*v1beta1.ImagePullJob)
		key := job.Spec.Image + " " + job.Spec.Parallelism.String()
		if deleted || job.DeletionTimestamp != nil {
			if jobs[key] == job.UID {
				delete(jobs, key)
			}
			return nil
		}
		if before, found := jobs[key]; found && before != job.UID {
			return fmt.Errorf("%s has two jobs at the same time, %s and %s", key, before, job.UID)
		}
		jobs[key] = job.UID
		if limit := job.Spec.Parallelism.IntVal; job.Status.Active > limit {
			return fmt.Errorf("%d nodes pull %s, allowed are %d", job.Status.Active, job.Spec.Image, limit)
		}
		return nil
	})
}
