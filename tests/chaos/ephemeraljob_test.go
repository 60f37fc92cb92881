// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package chaos_test

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/tests/framework/chaos"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
)

// ephemeralJob adds a short container to two pods at a time. MORE are more lines of the
// spec.
const ephemeralJob = `
apiVersion: apps.kruise.io/v1beta1
kind: EphemeralJob
metadata: {name: debug}
spec:
  parallelism: 2
MORE
  selector: {matchLabels: {app: web}}
  template:
    ephemeralContainers: [{name: dbg, image: "busybox:1.37"}]
`

// ephemeralJobs are scenarios of an EphemeralJob on a user's pods.
func ephemeralJobs() []chaos.Scenario {
	phase := func(want string) func(context.Context, *chaos.World) error {
		return func(ctx context.Context, w *chaos.World) error {
			job, err := read(ctx, w, "EphemeralJob", "debug")
			if err != nil {
				return err
			}
			if got, _, _ := unstructured.NestedString(job.Object, "status", "phase"); got != want {
				return fmt.Errorf("the phase is %q: %v", got, job.Object["status"])
			}
			return nil
		}
	}
	gone := func(ctx context.Context, w *chaos.World) error {
		_, err := read(ctx, w, "EphemeralJob", "debug")
		if err == nil {
			return fmt.Errorf("the job is there")
		}
		return client.IgnoreNotFound(err)
	}
	codes := func(codes ...int) chaos.Step {
		return chaos.Step{Settled: running(len(codes)), Do: func(w *chaos.World) {
			w.T.Helper()
			for i, code := range codes {
				w.Apply(fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: p%d, labels: {app: web}, annotations: {%s: "%d", %s: 100ms}}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: web, image: "example/web:v1"}]
`, i, simnode.EphemeralCode, code, simnode.EphemeralAfter))
			}
		}}
	}
	all := []chaos.Scenario{
		{Name: "succeeds", Steps: []chaos.Step{codes(0, 0, 0), apply(ephemeralJob, phase("Succeeded"), "MORE", "")}},
		{Name: "fails", Steps: []chaos.Step{codes(0, 1, 0), apply(ephemeralJob, phase("Failed"), "MORE", "")}},
		{Name: "pause-and-resume", Steps: []chaos.Step{
			codes(0, 0, 0), apply(ephemeralJob, phase("Paused"), "MORE", "  paused: true"), apply(ephemeralJob, phase("Succeeded"), "MORE", "  paused: false"),
		}},
		{Name: "time-to-live", Steps: []chaos.Step{codes(0, 0), apply(ephemeralJob, both(added(2), gone), "MORE", "  ttlSecondsAfterFinished: 1")}},
	}
	for i := range all {
		all[i].Kind, all[i].Made, all[i].Observe = "EphemeralJob", []string{"pods"}, twoAtATime
	}
	return all
}

// running: so many pods exist and all run.
func running(count int) func(context.Context, *chaos.World) error {
	return func(ctx context.Context, w *chaos.World) error {
		all, err := w.ListPods(ctx)
		if err != nil {
			return err
		}
		are := 0
		for i := range all {
			if all[i].Status.Phase == corev1.PodRunning {
				are++
			}
		}
		if are != count {
			return fmt.Errorf("%d pods run", are)
		}
		return nil
	}
}

// added: so many pods have the ephemeral container.
func added(count int) func(context.Context, *chaos.World) error {
	return func(ctx context.Context, w *chaos.World) error {
		all, err := w.ListPods(ctx)
		if err != nil {
			return err
		}
		have := 0
		for i := range all {
			have += len(all[i].Spec.EphemeralContainers)
		}
		if have != count {
			return fmt.Errorf("%d pods have the container", have)
		}
		return nil
	}
}

// twoAtATime judges that at most two pods have an unfinished ephemeral container.
func twoAtATime(w *chaos.World) {
	active := map[string]bool{}
	chaos.Follow(w, &corev1.PodList{}, func(object client.Object, deleted bool) error {
		pod, _ := object.(*corev1.Pod)
		ended := slices.ContainsFunc(pod.Status.EphemeralContainerStatuses, func(c corev1.ContainerStatus) bool { return c.State.Terminated != nil })
		active[pod.Name] = !deleted && len(pod.Spec.EphemeralContainers) > 0 && !ended
		count := 0
		for _, is := range active {
			if is {
				count++
			}
		}
		if count > 2 {
			return fmt.Errorf("%d pods have a container that has not ended, allowed are 2", count)
		}
		return nil
	})
}

// isGone wants a read answered with not found.
func isGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("reading it answers %w", err)
}
