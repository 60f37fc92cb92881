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

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// limit gives a namespace a ResourceQuota and waits until the API server knows it.
func limit(n *environment.Namespace, name, hard string) {
	n.Apply(fmt.Sprintf("apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: %s}\nspec:\n  hard: {%s}\n", name, hard))
	n.Eventually("quota "+name+" is known", func(context.Context) error {
		out, err := n.Kubectl("get", "resourcequota", name, "-o", "jsonpath={.status.used}")
		if err == nil && out == "" {
			err = fmt.Errorf("its status is %q", out)
		}
		return err
	})
}

// TestWorkloadsSayThatAQuotaIsUsedUp: without pods, the sets must tell. Only the user can
// help: the sets are stalled until the quota is raised.
func TestWorkloadsSayThatAQuotaIsUsedUp(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	limit(n, "few", `pods: "2"`)
	n.Apply(environment.StatefulSetManifest("web", 3))
	n.Apply(`
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: api}
spec:
  replicas: 3
  selector: {matchLabels: {app: api}}
  template:
    metadata: {labels: {app: api}}
    spec:
      containers: [{name: main, image: "example/api:v1"}]
`)
	sets := []string{"statefulsets.apps.kruise.io/web", "clonesets.apps.kruise.io/api"}
	for _, set := range sets {
		if out, err := n.Kubectl("wait", "--for=condition=Stalled=True", "--timeout=90s", set); err != nil {
			t.Fatalf("%s: %v\n%s", set, err, out)
		}
		out, err := n.Kubectl("get", set, "-o", `jsonpath={range .status.conditions[*]}{.type}={.status} {.reason}: {.message}{"\n"}{end}`)
		if err != nil || !strings.Contains(out, "Stalled=True RequestFailed: creating the pod") || !strings.Contains(out, "exceeded quota: few") ||
			!strings.Contains(out, "Reconciling=False") {
			t.Errorf("%s says (%v):\n%s", set, err, out)
		}
	}
	n.Apply("apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: few}\nspec:\n  hard: {pods: \"6\"}\n")
	n.Settled("web")
	n.SettledCloneSet("api")
	for _, set := range sets {
		if out, err := n.Kubectl("wait", "--for=condition=Stalled=False", "--timeout=30s", set); err != nil {
			t.Errorf("%s: %v\n%s", set, err, out)
		}
	}
}

// TestATemplateThatCannotBeRecordedStopsNothingElse: a used-up quota on ControllerRevisions
// used to keep a pod out of service, and nobody replaced a lost one.
func TestATemplateThatCannotBeRecordedStopsNothingElse(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	n.Apply(environment.StatefulSetManifest("web", 2))
	n.Apply(`
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: api}
spec:
  replicas: 3
  selector: {matchLabels: {app: api}}
  updateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceOnly, maxUnavailable: 1, inPlaceUpdateStrategy: {gracePeriodSeconds: 10}}}
  template:
    metadata: {labels: {app: api}}
    spec:
      readinessGates: [{conditionType: InPlaceUpdateReady}]
      containers: [{name: main, image: "example/api:v1"}]
`)
	n.Settled("web")
	set := n.SettledCloneSet("api")
	first := set.Status.UpdateRevision
	limit(n, "few", `"count/controllerrevisions.apps": "3"`)

	image := func(image string) {
		n.ChangeCloneSet("api", func(set *v1beta1.CloneSet) { set.Spec.Template.Spec.Containers[0].Image = image })
	}
	serving := func(want int32) func(context.Context) error {
		return func(ctx context.Context) error {
			set := n.CloneSet("api")
			pods, err := n.ListPods(ctx, "app=api")
			if err != nil {
				return err
			}
			if s := set.Status; s.AvailableReplicas != want || s.Replicas != 3 || len(pods) != 3 {
				return fmt.Errorf("there are %d pods, the status is %+v", len(pods), s)
			}
			return nil
		}
	}
	image("example/api:v2")
	n.Eventually("a pod is taken out of service for the second image", serving(2))
	image("example/api:v3")
	n.SetImage("web", "example/web:v2")
	n.Eventually("the update of that pod ends, although a third image cannot be recorded", serving(3))
	for object, condition := range map[string]string{"clone/api": "FailedUpdate", "asts/web": "FailedUpdatePod"} {
		if out, err := n.Kubectl("wait", "--for=condition=Stalled=True", "--timeout=90s", object); err != nil {
			t.Fatalf("%s: %v\n%s", object, err, out)
		}
		out, err := n.Kubectl("get", object, "-o", `jsonpath={range .status.conditions[*]}{.type}={.status} {.reason}: {.message}{"\n"}{end}`)
		if err != nil || !strings.Contains(out, "Stalled=True RequestFailed: creating revision ") || !strings.Contains(out, "exceeded quota: few") ||
			!strings.Contains(out, condition+"=True RequestFailed") {
			t.Errorf("%s says (%v):\n%s", object, err, out)
		}
	}
	if out, err := n.Kubectl("get", "events", "--field-selector=reason=FailedCreate,involvedObject.name=api"); err != nil || !strings.Contains(out, "exceeded quota: few") {
		t.Errorf("the events of the CloneSet are (%v):\n%s", err, out)
	}
	// Its faults are found before it is recorded: nothing asks about it again afterwards.
	n.SetImage("web", "")
	if out, err := n.Kubectl("wait", "--for=condition=TemplateInvalid=True", "--timeout=60s", "asts/web"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	set = n.CloneSet("api")
	if s := set.Status; s.ObservedGeneration != set.Generation || s.UpdatedReplicas != 0 || s.CurrentRevision != first {
		t.Errorf("the status is %+v; want it to be about the template that is not recorded, which no pod has", s)
	}

	lost := n.Pods("app=api")[0]
	if err := n.Client.Delete(t.Context(), &lost); err != nil {
		t.Fatal(err)
	}
	n.EventuallyWithin(time.Minute, "the lost pod is replaced", func(ctx context.Context) error {
		for _, pod := range n.Pods("app=api") {
			if pod.UID == lost.UID {
				return fmt.Errorf("pod %s is still there", pod.Name)
			}
		}
		return serving(3)(ctx)
	})
	for _, pod := range n.Pods("app=api") {
		if image := pod.Spec.Containers[0].Image; image == "example/api:v3" {
			t.Errorf("pod %s runs %s, whose revision is not recorded", pod.Name, image)
		}
	}

	n.Apply("apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: few}\nspec:\n  hard: {\"count/controllerrevisions.apps\": \"20\"}\n")
	n.ChangeCloneSet("api", func(set *v1beta1.CloneSet) { set.Spec.UpdateStrategy.RollingUpdate.InPlaceUpdateStrategy = nil })
	n.EventuallyWithin(time.Minute, "the faulty template is recorded, and no pod moves to it", func(context.Context) error {
		set := n.StatefulSet("web")
		for _, c := range set.Status.Conditions {
			if c.Type == v1beta1.StatefulSetStalled && c.Status == corev1.ConditionTrue && c.Reason == v1beta1.ReasonInvalidTemplate && set.Status.AvailableReplicas == 2 {
				return nil
			}
		}
		return fmt.Errorf("the status is %+v", set.Status)
	})
	n.SetImage("web", "example/web:v2")
	n.Settled("web")
	n.SettledCloneSet("api")
	for _, pod := range n.Pods() {
		if want := map[string]string{"api": "example/api:v3", "web": "example/web:v2"}[pod.Labels["app"]]; pod.Spec.Containers[0].Image != want || pod.Status.Phase != corev1.PodRunning {
			t.Errorf("pod %s runs %s, want %s", pod.Name, pod.Spec.Containers[0].Image, want)
		}
	}
}
