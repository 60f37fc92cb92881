// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/testutil"
)

// recreateRequests are the ContainerRecreateRequests of a server, by name, with their phases. It counts how often it is asked.
type recreateRequests struct {
	client.Reader
	phases   map[string]string
	deleting string
	fails    error
	asked    int
}

func (r *recreateRequests) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	r.asked++
	if r.fails != nil {
		return r.fails
	}
	var o client.ListOptions
	o.ApplyOptions(options)
	name, _ := o.FieldSelector.RequiresExactMatch("metadata.name")
	phase, exists := r.phases[name]
	if list, ok := into.(*unstructured.UnstructuredList); ok && exists {
		request := unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"phase": phase}}}
		request.SetName(name)
		request.SetNamespace(o.Namespace)
		if name == r.deleting {
			request.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1e9, 0)})
		}
		list.Items = append(list.Items, request)
	}
	return nil
}

func TestWhichRequestsThatHoldPodsAreOver(t *testing.T) {
	const ns = testutil.Namespace
	holder := func(agent, key string) shared.ReadinessHolder {
		return shared.ReadinessHolder{UserAgent: agent, Key: key}
	}
	crr := func(name string) shared.ReadinessHolder { return holder("ContainerRecreateRequest", ns+"/"+name) }
	held := func(name, holders string) podset.Pod {
		pod := testutil.Pod(name).Obj()
		pod.Status.Conditions = []corev1.PodCondition{{Type: shared.GateKruisePodReady, Status: corev1.ConditionFalse, Message: holders}}
		return podset.Pod{Object: pod}
	}
	all := `[{"userAgent":"Backup","key":"` + ns + `/gone"}`
	for _, name := range []string{"gone", "running", "completed", "failed", "deleting"} {
		all += `,{"userAgent":"ContainerRecreateRequest","key":"` + ns + "/" + name + `"}`
	}
	all += `,{"userAgent":"ContainerRecreateRequest","key":"elsewhere/gone"}]`
	server := &recreateRequests{phases: map[string]string{"running": "Recreating", "completed": "Completed", "failed": "Failed", "deleting": "Recreating"}, deleting: "deleting"}
	clock := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	pass := &Pass{Base: &Base{Dependencies: Dependencies{Live: server, Clock: clock, WriteTimeout: time.Second}}, Memory: &Memory{}}

	pods := []podset.Pod{held("web-0", all), held("web-1", all)}
	over, wait := pass.OverRequests(t.Context(), pods)
	want := map[shared.ReadinessHolder]bool{crr("gone"): true, crr("completed"): true, crr("failed"): true, crr("deleting"): true}
	if diff := cmp.Diff(want, over); diff != "" || wait != lookAtRequests {
		t.Errorf("looked again after %s; over (-want +got):\n%s", wait, diff)
	}
	if server.asked != 5 {
		t.Errorf("the server was asked %d times about 5 requests that hold two pods", server.asked)
	}
	clock.SetTime(clock.Now().Add(4 * time.Second))
	if again, wait := pass.OverRequests(t.Context(), pods); server.asked != 5 || len(again) != 4 || wait != 6*time.Second {
		t.Errorf("4 s later: asked %d times, %v, again after %s", server.asked, again, wait)
	}
	if over, wait := pass.OverRequests(t.Context(), []podset.Pod{{Object: testutil.Pod("web-0").Obj()}}); len(over) > 0 || wait != 0 || server.asked != 5 {
		t.Errorf("without such pods: %v, again after %s, asked %d times", over, wait, server.asked)
	}

	server.fails = errors.New("no connection")
	if over, wait := pass.OverRequests(t.Context(), pods); len(over) > 0 || wait != lookAtRequests {
		t.Errorf("when the server does not answer: %v, again after %s", over, wait)
	}
	server.fails = &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "apps.kruise.io", Kind: "ContainerRecreateRequest"}}
	clock.SetTime(clock.Now().Add(time.Minute))
	if over, _ := pass.OverRequests(t.Context(), pods); len(over) != 5 {
		t.Errorf("where there are no such requests at all, over are %v", over)
	}
	resource := schema.GroupResource{Group: "apps.kruise.io", Resource: "containerrecreaterequests"}
	server.fails = apierrors.NewGenericServerResponse(http.StatusNotFound, "list", resource, "", "404 page not found", 0, true)
	clock.SetTime(clock.Now().Add(time.Minute))
	if over, _ := pass.OverRequests(t.Context(), pods); len(over) != 5 {
		t.Errorf("after their definition was deleted, over are %v", over)
	}
}

// Long requests do not keep others from being looked at.
func TestManyRequestsThatHoldPodsAreLookedAtInTurn(t *testing.T) {
	server := &recreateRequests{phases: map[string]string{}}
	clock := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	pass := &Pass{Base: &Base{Dependencies: Dependencies{Live: server, Clock: clock, WriteTimeout: time.Second}}, Memory: &Memory{}}
	var pods []podset.Pod
	for n := range 2*requestsAtOnce + 5 {
		name := fmt.Sprintf("web-%d", n)
		if server.phases[name] = "Recreating"; n == requestsAtOnce || n == 2*requestsAtOnce+4 {
			server.phases[name] = "Completed"
		}
		pod := testutil.Pod(name).Obj()
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: shared.GateKruisePodReady, Status: corev1.ConditionFalse,
			Message: `[{"userAgent":"ContainerRecreateRequest","key":"` + testutil.Namespace + "/" + name + `"}]`,
		}}
		pods = append(pods, podset.Pod{Object: pod})
	}
	for look, want := range []string{"", "web-20", "web-44", "web-20"} {
		names := ""
		over, _ := pass.OverRequests(t.Context(), pods)
		for h := range over {
			names += strings.TrimPrefix(h.Key, testutil.Namespace+"/")
		}
		if names != want || server.asked != requestsAtOnce*(look+1) {
			t.Errorf("look %d: over are %q, want %q; asked %d times", look, names, want, server.asked)
		}
		clock.SetTime(clock.Now().Add(lookAtRequests))
	}
}
