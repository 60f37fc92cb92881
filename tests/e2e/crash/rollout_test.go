// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package crash_test

import (
	"context"
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	rolloutsv1beta1 "github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/scenario"
)

// steered is a Rollout whose first two steps wait for somebody.
const steered = `
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: NAME}
spec:
  workloadRef: {apiVersion: VERSION, kind: KIND, name: NAME}
  strategy: {canary: {steps: [{replicas: 2}, {replicas: "50%"}, {replicas: "100%"}]}}
`

// user is somebody with a workload and its Rollout.
type user struct {
	held
	*environment.Namespace
	t   *testing.T
	own map[string]any
	// twins: its Rollout is blue-green.
	twins bool
}

// status is the sub-status of its strategy.
func (u *user) status() string {
	if u.twins {
		return "blueGreenStatus"
	}
	return "canaryStatus"
}

// patch changes the Rollout, its status, or the workload. What the API server refuses at this moment is no fault.
func (u *user) patch(object client.Object, subresource, patch string) {
	u.t.Helper()
	object.SetNamespace(u.Name)
	object.SetName(u.name)
	raw := client.RawPatch(types.MergePatchType, []byte(patch))
	var err error
	if subresource == "" {
		err = u.Client.Patch(u.t.Context(), object, raw)
	} else {
		err = u.Client.SubResource(subresource).Patch(u.t.Context(), object, raw)
	}
	if err != nil && !apierrors.IsInvalid(err) {
		u.t.Fatal(err)
	}
}

func (u *user) rollout(ctx context.Context) (*rolloutsv1beta1.Rollout, error) {
	r := &rolloutsv1beta1.Rollout{}
	return r, u.Client.Get(ctx, types.NamespacedName{Namespace: u.Name, Name: u.name}, r)
}

func (u *user) workload() *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(u.version.WithKind(u.kind))
	return o
}

// spec is that of the workload, without what the user changes.
func (u *user) spec() map[string]any {
	u.t.Helper()
	o := u.workload()
	if err := u.Client.Get(u.t.Context(), types.NamespacedName{Namespace: u.Name, Name: u.name}, o); err != nil {
		u.t.Fatal(err)
	}
	if _, found := o.GetAnnotations()["rollouts.kruise.io/in-progressing"]; found {
		u.t.Errorf("%s is in a release", u.name)
	}
	spec, _, _ := unstructured.NestedMap(o.Object, "spec")
	delete(spec, "template")
	delete(spec, "replicas")
	return spec
}

func (u *user) image(image string) {
	u.t.Helper()
	u.patch(u.workload(), "", `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"`+image+`"}]}}}}`)
}

func (u *user) approve() {
	u.t.Helper()
	u.patch(&rolloutsv1beta1.Rollout{}, "status", `{"status":{"`+u.status()+`":{"currentStepState":"StepReady"}}}`)
}

// act is anything that a user may do at any time.
func (u *user) act(random *rand.Rand) string {
	u.t.Helper()
	switch random.Intn(8) {
	case 0, 1, 2:
		u.approve()
		return "approves"
	case 3:
		image := fmt.Sprintf("example/web:r%d", random.Intn(3))
		u.image(image)
		return "sets " + image
	case 4:
		u.image(scenario.V1)
		return "sets the first version"
	case 5:
		step := 1 + random.Intn(3)
		u.patch(&rolloutsv1beta1.Rollout{}, "status", fmt.Sprintf(`{"status":{"%s":{"nextStepIndex":%d}}}`, u.status(), step))
		return fmt.Sprintf("jumps to step %d", step)
	case 6:
		paused := random.Intn(2) == 0
		u.patch(&rolloutsv1beta1.Rollout{}, "", fmt.Sprintf(`{"spec":{"strategy":{"paused":%t}}}`, paused))
		return fmt.Sprintf("pauses: %t", paused)
	}
	size := releasedPods/2 - 2 + random.Intn(5)
	u.patch(u.workload(), "", fmt.Sprintf(`{"spec":{"replicas":%d}}`, size))
	return fmt.Sprintf("scales to %d", size)
}

// waits until a step of the last version waits with its pods.
func (u *user) waits(step int32, pods int) {
	u.t.Helper()
	u.EventuallyWithin(3*time.Minute, fmt.Sprintf("step %d of %s waits", step, u.name), func(ctx context.Context) error {
		r, err := u.rollout(ctx)
		if err != nil {
			return err
		}
		if r.Status.CurrentStepIndex != step || r.Status.CurrentStepState != rolloutsv1beta1.CanaryStepStatePaused {
			return fmt.Errorf("the status is %+v %+v", r.Status, r.Status.CanaryStatus)
		}
		if u.twins {
			return u.hasOf(ctx, pods, releasedPods/2+pods)
		}
		return u.has(ctx, pods)
	})
}

// has is an error unless so many pods have the last version, and all are ready.
func (u *user) has(ctx context.Context, want int) error { return u.hasOf(ctx, want, releasedPods/2) }

func (u *user) hasOf(ctx context.Context, want, total int) error {
	pods, err := u.ListPods(ctx, "app="+u.name)
	ready := 0
	for i := range pods {
		if environment.IsReady(&pods[i]) && pods[i].DeletionTimestamp == nil {
			ready++
		}
	}
	if err == nil && (moved(pods) != want || ready != total || len(pods) != total) {
		err = fmt.Errorf("%d of %d pods have it, %d are ready", moved(pods), len(pods), ready)
	}
	return err
}

// again kills the operator somewhere within the next writes, and starts it.
func again(t *testing.T, random *rand.Rand) {
	t.Helper()
	<-time.After(time.Duration(random.Intn(1000)) * time.Millisecond)
	if err := env.Operator.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := env.Operator.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestRolloutsWhoseUsersDoAnything has random actions on four workloads, and the operator killed between them. The next version begins at
// its first step whatever went on, gets no more pods than its steps allow, and ends with nothing left on the workloads.
func TestRolloutsWhoseUsersDoAnything(t *testing.T) {
	random := rand.New(rand.NewSource(int64(sample.Day())))
	t.Logf("%s=%d", sample.DayVariable, sample.Day())
	n := env.Namespace(t)
	var users []*user
	for _, h := range []held{
		{"steered", "Deployment", "strategy: {rollingUpdate: {maxSurge: 2, maxUnavailable: 1}}", "", appsv1.SchemeGroupVersion},
		{"ordered", "StatefulSet", "serviceName: web", "", appsv1.SchemeGroupVersion},
		{"clones", "CloneSet", "minReadySeconds: 0", "", v1beta1.GroupVersion()},
		{"twins", "Deployment", "minReadySeconds: 0", "", appsv1.SchemeGroupVersion},
	} {
		twins := h.name == "twins"
		rollout := steered
		if twins {
			rollout = strings.Replace(steered, "canary", "blueGreen", 1)
		}
		n.Apply(h.fill(rollout) + "---" + strings.Replace(h.fill(released), "replicas: 20", "replicas: 10", 1))
		users = append(users, &user{held: h, Namespace: n, t: t, twins: twins})
	}
	for _, u := range users {
		u.Eventually("it is guarded", func(ctx context.Context) error {
			r, err := u.rollout(ctx)
			for _, c := range r.Status.Conditions {
				if c.Type == rolloutsv1beta1.RolloutConditionGuarded && c.Status == "True" {
					return u.has(ctx, 0)
				}
			}
			return fmt.Errorf("the status is %+v: %w", r.Status, err)
		})
		u.own = u.spec()
		u.image("example/web:r0")
	}
	for range sample.Number(5, 30) {
		for range 3 {
			u := users[random.Intn(len(users))]
			t.Logf("the user of %s %s", u.name, u.act(random))
			<-time.After(time.Duration(random.Intn(500)) * time.Millisecond)
		}
		again(t, random)
	}
	for _, u := range users {
		u.patch(u.workload(), "", `{"spec":{"replicas":10}}`)
		u.patch(&rolloutsv1beta1.Rollout{}, "", `{"spec":{"strategy":{"paused":false}}}`)
		u.image(scenario.V2)
	}
	again(t, random)
	for step, pods := range []int{2, 5} {
		for _, u := range users {
			u.waits(int32(step+1), pods)
			u.approve()
		}
		again(t, random)
	}
	for _, u := range users {
		if u.twins { // its last step waits, too
			u.waits(3, 10)
			u.approve()
		}
		u.EventuallyWithin(3*time.Minute, "the release of "+u.name+" is over", func(ctx context.Context) error {
			r, err := u.rollout(ctx)
			if err == nil && r.Status.Phase != rolloutsv1beta1.RolloutPhaseHealthy {
				err = fmt.Errorf("the status is %+v", r.Status)
			}
			if err != nil {
				return err
			}
			return u.has(ctx, 10)
		})
		if diff := cmp.Diff(u.own, u.spec()); diff != "" {
			t.Errorf("the spec of %s is another one than before: %s", u.name, diff)
		}
	}
}
