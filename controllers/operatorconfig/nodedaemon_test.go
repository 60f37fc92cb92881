// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package operatorconfig

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/operands"
)

// The DaemonSet follows the Kruise object's rights for the node daemon, later changes included.
func TestTheNodeDaemonGetsTheRightsOfTheSettings(t *testing.T) {
	own := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "op", Name: "manager"}}
	own.Spec.Template.Spec.Containers = []corev1.Container{{Name: managerContainer, Image: "example/manager:v1"}}
	installed := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "kruise-operator-manager", UID: "installed"}}
	var applied *appsv1.DaemonSet
	c := interceptor.NewClient(fake.NewClientBuilder().WithObjects(own, installed).Build(), interceptor.Funcs{
		Apply: applying(func(object *unstructured.Unstructured) {
			if object.GetKind() != "DaemonSet" {
				return
			}
			applied = &appsv1.DaemonSet{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, applied); err != nil {
				t.Fatal(err)
			}
		}),
	})
	n := &NodeDaemon{
		Client: c, Deployment: client.ObjectKeyFromObject(own), Clock: clocktesting.NewFakePassiveClock(time.Now()),
		Needed: func(context.Context) (bool, error) { return true, nil },
	}
	kruise := &operatorv1alpha1.Kruise{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
	settled := func(settings operatorv1alpha1.NodeDaemonSettings) *corev1.SecurityContext {
		t.Helper()
		kruise.Generation++
		kruise.Spec.NodeDaemon = &settings
		if _, err := n.Settle(t.Context(), kruise); err != nil {
			t.Fatal(err)
		}
		return applied.Spec.Template.Spec.Containers[0].SecurityContext
	}
	if got := settled(operatorv1alpha1.NodeDaemonSettings{SELinuxOptions: &corev1.SELinuxOptions{Type: "spc_t"}}); got.SELinuxOptions == nil || got.SELinuxOptions.Type != "spc_t" || *got.Privileged {
		t.Errorf("with an SELinux type: %+v", got)
	}
	if got := settled(operatorv1alpha1.NodeDaemonSettings{Privileged: true}); got.SELinuxOptions != nil || !*got.Privileged {
		t.Errorf("privileged: %+v", got)
	}
	if got := settled(operatorv1alpha1.NodeDaemonSettings{}); got.SELinuxOptions != nil || *got.Privileged {
		t.Errorf("without settings: %+v", got)
	}
}

// A failed look at the former leader's objects does not cost the daemon its time of grace.
func TestTheNodeDaemonOfTheLeaderBeforeIsKeptForAWhile(t *testing.T) {
	installed := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "kruise-operator-manager", UID: "installed"}}
	daemon := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: operands.DaemonNamespace, Name: operands.DaemonName,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRoleBinding", Name: installed.Name, UID: installed.UID}},
	}}
	fails := true
	c := interceptor.NewClient(fake.NewClientBuilder().WithObjects(installed, daemon).Build(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if _, is := object.(*appsv1.DaemonSet); is && fails {
				fails = false
				return errors.New("the server does not answer")
			}
			return c.Get(ctx, key, object, options...)
		},
	})
	clock := clocktesting.NewFakePassiveClock(time.Now())
	n := &NodeDaemon{Client: c, Clock: clock, Needed: func(context.Context) (bool, error) { return false, nil }}
	if _, err := n.Settle(t.Context(), nil); err == nil {
		t.Error("a failed look is not reported")
	}
	if recheck, err := n.Settle(t.Context(), nil); err != nil || recheck != idle {
		t.Errorf("looked at again after %s, %v; want %s", recheck, err, idle)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(daemon), daemon); err != nil {
		t.Errorf("the daemon is gone at once: %v", err)
	}
	clock.SetTime(clock.Now().Add(idle))
	if _, err := n.Settle(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(daemon), daemon); !apierrors.IsNotFound(err) {
		t.Errorf("the daemon stays: %v", err)
	}
}

// While OpenKruise acts, its own daemon is on the nodes.
func TestNothingIsDeployedOnNodesWhileAnotherManagerActs(t *testing.T) {
	asked, acts := 0, false
	c := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			asked++
			return apierrors.NewNotFound(schema.GroupResource{}, "")
		},
	})
	clock := clocktesting.NewFakePassiveClock(time.Now())
	r := New(Dependencies{
		Clock: clock, Acts: func() bool { return acts }, HookFaults: func() []string { return nil },
		NodeDaemon: &NodeDaemon{Client: c, Clock: clock, Needed: func(context.Context) (bool, error) { asked++; return false, nil }},
	})
	if failures := r.lead(t.Context(), nil, Upgrade{}); len(failures) > 0 || asked > 0 {
		t.Errorf("while another one acts: %d questions, failures %v", asked, failures)
	}
	acts = true
	if failures := r.lead(t.Context(), nil, Upgrade{}); len(failures) > 0 || asked == 0 {
		t.Errorf("afterwards: %d questions, failures %v", asked, failures)
	}
}

// A deleted daemon, alone or with its namespace, is put back at the next need, otherwise within a minute.
func TestTheNodeDaemonIsPutBack(t *testing.T) {
	own := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "op", Name: "manager"}}
	own.Spec.Template.Spec.Containers = []corev1.Container{{Name: managerContainer, Image: "example/manager:v1"}}
	installed := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "kruise-operator-manager", UID: "installed"}}
	applied := 0
	there, asked := true, 0
	c := interceptor.NewClient(fake.NewClientBuilder().WithObjects(own, installed).Build(), interceptor.Funcs{
		Apply: applying(func(object *unstructured.Unstructured) {
			if object.GetKind() == "DaemonSet" {
				applied++
				there = true
			}
		}),
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if _, is := object.(*appsv1.DaemonSet); !is {
				return c.Get(ctx, key, object, options...)
			}
			asked++
			if !there {
				return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
			}
			return nil
		},
	})
	clock := clocktesting.NewFakePassiveClock(time.Now())
	n := &NodeDaemon{
		Client: c, Deployment: client.ObjectKeyFromObject(own), Clock: clock, Needed: func(context.Context) (bool, error) { return true, nil },
	}
	settle := func(after time.Duration, want int) {
		t.Helper()
		clock.SetTime(clock.Now().Add(after))
		recheck, err := n.Settle(t.Context(), nil)
		if err != nil || recheck != daemonInterval || applied != want {
			t.Errorf("applied %d times, want %d; looked at again after %s, %v", applied, want, recheck, err)
		}
	}
	settle(0, 1)
	settle(daemonInterval, 1)
	there = false
	before := asked
	settle(daemonMinInterval-time.Second, 1) // it was looked for a moment ago
	if asked != before {
		t.Error("every object that comes is a reason to ask")
	}
	settle(time.Second, 2)
	settle(daemonInterval, 2)
}

// OpenKruise's daemon beside ours is in the status and in one event, as long as both are there: neither works as it should.
func TestTheNodeDaemonOfOpenKruiseBesideOursIsTold(t *testing.T) {
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{operatorv1alpha1.AddToScheme, appsv1.AddToScheme, rbacv1.AddToScheme, corev1.AddToScheme} {
		if err := add(types); err != nil {
			t.Fatal(err)
		}
	}
	own := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "op", Name: "manager"}}
	own.Spec.Template.Spec.Containers = []corev1.Container{{Name: managerContainer, Image: "example/manager:v1"}}
	installed := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "kruise-operator-manager", UID: "installed"}}
	foreign := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kruise-system", Name: "kruise-daemon"}}
	kruise := &operatorv1alpha1.Kruise{ObjectMeta: metav1.ObjectMeta{Name: operatorv1alpha1.KruiseName, Generation: 1}}
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(types).WithObjects(own, installed, foreign, kruise).WithStatusSubresource(kruise).Build(),
		interceptor.Funcs{Apply: applying(func(*unstructured.Unstructured) {})})
	clock, recorder := clocktesting.NewFakePassiveClock(time.Now()), events.NewFakeRecorder(10)
	needed, acts := true, true
	r := New(Dependencies{
		Client: c, Clock: clock, Recorder: recorder, Self: "a", Acts: func() bool { return acts }, Denied: func() []string { return nil }, HookFaults: func() []string { return nil },
		NodeDaemon: &NodeDaemon{
			Client: c, Deployment: client.ObjectKeyFromObject(own), Foreign: client.ObjectKeyFromObject(foreign), Clock: clock,
			Needed: func(context.Context) (bool, error) { return needed, nil },
		},
	})
	look := func(why string, wait time.Duration, told bool, events int) {
		t.Helper()
		clock.SetTime(clock.Now().Add(wait))
		if failures := r.lead(t.Context(), kruise, Upgrade{}); len(failures) > 0 {
			t.Fatal(failures)
		}
		if err := r.report(t.Context(), kruise, config.Merged{}, Step{}, nil, Upgrade{}); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(kruise), kruise); err != nil {
			t.Fatal(err)
		}
		said := meta.FindStatusCondition(kruise.Status.Conditions, "NodeDaemonConflict")
		if (said != nil) != told || told && !strings.Contains(said.Message, "kubectl --namespace=kruise-system delete daemonset kruise-daemon") {
			t.Errorf("%s: the condition is %+v", why, said)
		}
		for ; len(recorder.Events) > 0; events-- {
			if event := <-recorder.Events; !strings.HasPrefix(event, "Warning NodeDaemonConflict DaemonSet kruise-system/kruise-daemon of OpenKruise runs beside") {
				t.Errorf("%s: the event is %q", why, event)
			}
		}
		if events != 0 {
			t.Errorf("%s: %d events are missing", why, events)
		}
	}
	look("it is on no node", 0, false, 0)
	foreign.Status.CurrentNumberScheduled = 2
	if err := c.Status().Update(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	look("both are on nodes", daemonInterval, true, 1)
	look("they still are", daemonInterval, true, 0)
	acts = false
	look("OpenKruise acts again", daemonInterval, false, 0)
	acts = true
	look("it does not any more", daemonInterval, true, 1)
	needed = false
	look("nothing needs ours for a while", idle, false, 0)
	needed = true
	look("something does", time.Second, true, 1)
	if err := c.Delete(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	look("that of OpenKruise was deleted", daemonInterval, false, 0)
}
