// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package advancedcronjob

import (
	"context"
	"errors"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kruise-operator/kruise-operator/controllers/advancedcronjob/plan"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// Passes come with every change of a run. They must not each read its pods from the API server.
func TestPodsOfARunThatHoldsUpAnotherOneAreReadEveryHalfMinute(t *testing.T) {
	now := time.Date(2026, 5, 1, 10, 10, 0, 0, time.UTC)
	pod := func(name, job, reason string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)), Labels: map[string]string{batchv1.ControllerUidLabel: job},
		}}
		p.Spec.NodeName, p.Spec.Containers = "n1", []corev1.Container{{Name: "main", Image: "report:1"}}
		p.Status.Phase = corev1.PodPending
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}
		return p
	}
	asked := 0
	var fails error
	server := fake.NewClientBuilder().WithObjects(pod("a", "other", "ErrImageNeverPull"), pod("b", "job", "ImagePullBackOff")).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			asked++
			if o := (&client.ListOptions{}).ApplyOptions(options); o.Limit == 0 || o.Namespace != "shop" {
				t.Errorf("asked for %d pods of namespace %q", o.Limit, o.Namespace)
			}
			if fails != nil {
				return fails
			}
			return c.List(ctx, list, options...)
		},
	}).Build()
	clock := clocktesting.NewFakePassiveClock(now)
	r := &Reconciler{Base: &workload.Base{Dependencies: workload.Dependencies{Live: server, Clock: clock, WriteTimeout: time.Minute}}}
	run := &plan.Run{Object: &unstructured.Unstructured{}}
	run.Object.SetNamespace("shop")
	run.Object.SetUID("job")
	known := &remembered{}
	look := func(after, wait time.Duration, reads int, trouble string) {
		t.Helper()
		clock.SetTime(clock.Now().Add(after))
		run.Trouble = ""
		if again := r.look(t.Context(), known, run, true); again != wait || asked != reads || run.Trouble != trouble {
			t.Errorf("read %d times, again after %s: %q; want %d times, %s, %q", asked, again, run.Trouble, reads, wait, trouble)
		}
	}
	const trouble = "pod b: container main: ImagePullBackOff report:1"
	look(0, 30*time.Second, 1, trouble)
	look(10*time.Second, 20*time.Second, 1, trouble)
	fails = errors.New("too busy")
	look(20*time.Second, 30*time.Second, 2, trouble) // nothing else is known
	fails = nil
	if err := server.Delete(t.Context(), pod("b", "job", "")); err != nil {
		t.Fatal(err)
	}
	look(30*time.Second, 30*time.Second, 3, "")
	run.Object.SetUID("other")
	look(time.Second, 30*time.Second, 4, "pod a: container main: ErrImageNeverPull report:1")
	clock.SetTime(clock.Now().Add(time.Minute))
	if again := r.look(t.Context(), known, run, false); again != 4*time.Minute || asked != 4 {
		t.Errorf("a run that holds up no other one is looked at again after %s, read %d times", again, asked)
	}
	if again := r.look(t.Context(), known, nil, false); again != 0 || known.looked != (looked{}) {
		t.Errorf("without such a run: again after %s, remembered %+v", again, known.looked)
	}
}
