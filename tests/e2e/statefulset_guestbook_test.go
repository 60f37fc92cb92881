// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/limits"
	"github.com/kruise-operator/kruise-operator/tests/framework/scenario"
)

// TestGuestbook is the main job: the guestbook starts with 3 pods, grows to 300 and moves to another image in place, with kubectl.
func TestGuestbook(t *testing.T) {
	const set, replicas, oldImage, newImage = "demo-v1-guestbook-kruise", 300, "openkruise/guestbook:v1", "openkruise/guestbook:v2"
	n := env.Namespace(t)
	watcher := limits.Watch(t, env.Client, n.Name, set, limits.Rules{})
	kubectl := func(args ...string) string {
		t.Helper()
		out, err := n.Kubectl(args...)
		if err != nil {
			t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return out
	}
	arrived := func(what string, want int, image string) time.Duration {
		t.Helper()
		began := time.Now()
		n.EventuallyWithin(5*time.Minute, what, func(ctx context.Context) error {
			// Listing hundreds of pods again and again would be most of the work: ask the set first.
			is := &v1beta1.StatefulSet{}
			if err := n.Client.Get(ctx, types.NamespacedName{Namespace: n.Name, Name: set}, is); err != nil {
				return err
			}
			if s := is.Status; s.ObservedGeneration != is.Generation || int(s.UpdatedAvailableReplicas) != want || int(s.Replicas) != want {
				return fmt.Errorf("the status is %+v", s)
			}
			pods, err := n.ListPods(ctx)
			if err != nil {
				return err
			}
			ready := 0
			for i := range pods {
				if environment.IsReady(&pods[i]) && pods[i].Spec.Containers[0].Image == image {
					ready++
				}
			}
			if len(pods) != want || ready != want {
				return fmt.Errorf("%d pods, %d ready with %s, want %d", len(pods), ready, image, want)
			}
			return nil
		})
		return time.Since(began)
	}
	columns := func(want ...string) {
		t.Helper()
		n.Eventually("kubectl get shows "+strings.Join(want, " "), func(context.Context) error {
			lines := strings.Split(strings.TrimSpace(kubectl("get", "sts.apps.kruise.io", set)), "\n")
			header, row := strings.Fields(lines[0]), strings.Fields(lines[len(lines)-1])
			if got := strings.Join(header, " "); got != "NAME DESIRED CURRENT UPDATED READY AGE STALLED" {
				t.Fatalf("the columns are %s", got)
			}
			if got := strings.Join(row[:5], " "); got != set+" "+strings.Join(want, " ") {
				return fmt.Errorf("the row is %s", got)
			}
			return nil
		})
	}

	kubectl("apply", "-f", "../../config/samples/apps_v1alpha1_statefulset.yaml")
	t.Logf("measured: 3 pods ready after %.2f s", arrived("3 pods start", 3, oldImage).Seconds())
	kubectl("wait", "--for=condition=Available", "--timeout=30s", "sts.apps.kruise.io/"+set)
	columns("3", "3", "3", "3")

	kubectl("scale", "sts.apps.kruise.io/"+set, fmt.Sprintf("--replicas=%d", replicas))
	t.Logf("measured: 297 more pods ready after %.2f s", arrived("300 pods start", replicas, oldImage).Seconds())
	kubectl("wait", "--for=condition=Available", "--timeout=30s", "sts.apps.kruise.io/"+set)
	columns("300", "300", "300", "300")
	before := scenario.IdentitiesOf(n.Pods())

	kubectl("patch", "sts.apps.kruise.io/"+set, "--type=json", "--patch",
		fmt.Sprintf(`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":%q}]`, newImage))
	t.Logf("measured: 300 pods updated in place, 3 at a time, after %.2f s", arrived("300 pods are updated in place", replicas, newImage).Seconds())
	columns("300", "300", "300", "300")
	scenario.CheckKept(t, before, scenario.IdentitiesOf(n.Pods()), 1)
	verdict := watcher.Verify()
	if verdict.Taken != replicas || verdict.Peak > 3 {
		t.Errorf("%d pods were taken out of service, at most %d at once; want 300 and 3", verdict.Taken, verdict.Peak)
	}

	kubectl("patch", "sts.apps.kruise.io/"+set, "--type=json", "--patch",
		fmt.Sprintf(`[{"op":"replace","path":"/spec/updateStrategy/rollingUpdate/maxUnavailable","value":"20%%"},{"op":"replace","path":"/spec/template/spec/containers/0/image","value":%q}]`, oldImage))
	t.Logf("measured: 300 pods back in place, a fifth at a time, after %.2f s", arrived("300 pods are moved back", replicas, oldImage).Seconds())
	scenario.CheckKept(t, before, scenario.IdentitiesOf(n.Pods()), 2)

	kubectl("scale", "sts.apps.kruise.io/"+set, "--replicas=3")
	t.Logf("measured: 297 pods gone after %.2f s", arrived("3 pods stay", 3, oldImage).Seconds())
	columns("3", "3", "3", "3")
	if pods := n.Pods(); strings.Join(environment.Names(pods), " ") != set+"-0 "+set+"-1 "+set+"-2" {
		t.Errorf("the pods are %v", environment.Names(pods))
	}
}
