// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package operatorconfig_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/confirmation"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
)

// A SidecarSet and a schedule nobody served before the upgrade do nothing until the
// administrator confirms, and everything from then on. A later start asks no more, and
// nothing asks for a kind without objects.
func TestObjectsFromBeforeAnUpgradeWaitForTheAdministrator(t *testing.T) {
	env := take(t)
	// As left by a version with StatefulSet and CloneSet: its Lease, and objects nobody
	// looked at.
	before := env.start(operator.Options{Name: "before", Args: []string{"--kinds=StatefulSet,CloneSet"}})
	n := env.Namespace(t)
	env.create(fmt.Sprintf(`{apiVersion: apps.kruise.io/v1beta1, kind: SidecarSet, metadata: {name: %[1]s}, spec: {namespace: %[1]s, selector: {matchLabels: {app: a}},
		updateStrategy: {type: NotUpdate}, containers: [{name: side, image: "side:v1", podInjectPolicy: BeforeAppContainer, shareVolumePolicy: {type: disabled}}]}}`, n.Name))
	env.create(fmt.Sprintf(`{apiVersion: apps.kruise.io/v1beta1, kind: AdvancedCronJob, metadata: {name: often, namespace: %s}, spec: {schedule: "* * * * *",
		template: {jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: "a:v1"}]}}}}}}}`, n.Name))
	if err := before.Stop(); err != nil {
		t.Fatal(err)
	}
	// A node of an earlier test leaves its NodeImage, when the operator stops before it removes it.
	if err := env.Client.DeleteAllOf(t.Context(), &v1beta1.NodeImage{}); err != nil {
		t.Fatal(err)
	}
	forgetRecord(t, env)
	if err := env.configure("{logLevel: Info}"); err != nil {
		t.Fatal(err)
	}
	o := env.start(operator.Options{Name: "after"})

	waits := func(want map[string]bool) func(context.Context) error {
		return func(ctx context.Context) error {
			kruise := &operatorv1alpha1.Kruise{}
			if err := env.Client.Get(ctx, client.ObjectKey{Name: "cluster"}, kruise); err != nil {
				return err
			}
			if kruise.Status.ObservedGeneration != kruise.Generation || !is(kruise, operatorv1alpha1.KruiseProgressing, false) || !is(kruise, operatorv1alpha1.KruiseAvailable, true) {
				return fmt.Errorf("the status is %+v", kruise.Status)
			}
			message := ""
			if c := meta.FindStatusCondition(kruise.Status.Conditions, operatorv1alpha1.KruiseConfirmationRequired); c != nil {
				message = c.Message
			}
			for _, kind := range kruise.Status.Kinds {
				if got := kind.Reason == operatorv1alpha1.KindUnconfirmed; got != want[kind.Kind] || got != strings.Contains(message, kind.Kind+": 1 object is older") {
					return fmt.Errorf("%+v; the condition says %q", kind, message)
				}
			}
			if is(kruise, operatorv1alpha1.KruiseStalled, true) != (len(want) > 0) {
				return fmt.Errorf("the status is %+v", kruise.Status)
			}
			return nil
		}
	}
	pod := func(name string) *corev1.Pod {
		t.Helper()
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: n.Name, Name: name, Labels: map[string]string{"app": "a"}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "main:v1"}}}}
		if err := env.Client.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	// An operator stopped before it has recorded its kinds asks again.
	recorded := func(kind string) {
		t.Helper()
		n.Eventually("it is recorded that "+kind+" is served", func(ctx context.Context) error {
			lease := &coordinationv1.Lease{}
			if err := env.Client.Get(ctx, client.ObjectKey{Namespace: "kruise-system", Name: confirmation.LeaseName}, lease); err != nil {
				return err
			}
			if record := lease.Annotations[confirmation.Annotation]; !slices.Contains(strings.Split(record, ","), kind) {
				return fmt.Errorf("the record is %q", record)
			}
			return nil
		})
	}
	n.Eventually("both kinds wait", waits(map[string]bool{"SidecarSet": true, "AdvancedCronJob": true}))
	n.Eventually("an event says so", func(ctx context.Context) error {
		list := &eventsv1.EventList{}
		if err := env.Client.List(ctx, list, client.InNamespace(metav1.NamespaceDefault)); err != nil {
			return err
		}
		for _, event := range list.Items {
			if event.Reason == "ConfirmationRequired" && event.Regarding.Kind == "Kruise" && event.Type == corev1.EventTypeWarning &&
				strings.Contains(event.Note, "SidecarSet: 1 object is older") && strings.Contains(event.Note, "AdvancedCronJob: 1 object is older") {
				return nil
			}
		}
		return fmt.Errorf("none of %d events does", len(list.Items))
	})
	if p := pod("before"); len(p.Spec.Containers) != 1 {
		t.Errorf("injected without confirmation: %+v", p.Spec.Containers)
	}
	set := &v1beta1.SidecarSet{}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Name: n.Name}, set); err != nil || set.Status.ObservedGeneration != 0 {
		t.Errorf("somebody looked at the SidecarSet: %+v, %v", set.Status, err)
	}

	if err := env.configure("{logLevel: Info, confirmedKinds: [SidecarSet]}"); err != nil {
		t.Fatal(err)
	}
	n.Eventually("the schedule alone waits", waits(map[string]bool{"AdvancedCronJob": true}))
	n.Eventually("pods get the sidecar", func(ctx context.Context) error {
		name := fmt.Sprintf("after-%d", time.Now().UnixNano())
		if p := pod(name); len(p.Spec.Containers) != 2 {
			return errors.New("it was not injected")
		}
		return nil
	})
	recorded("SidecarSet")

	// Once this is recorded, the confirmation is no longer needed.
	if err := env.configure("{logLevel: Info, confirmedKinds: [AdvancedCronJob]}"); err != nil {
		t.Fatal(err)
	}
	n.Eventually("nothing waits", waits(map[string]bool{}))
	// Runs missed while the kind waited may not be caught up, so the next may be a minute
	// away.
	n.EventuallyWithin(2*time.Minute, "the schedule starts a job", func(ctx context.Context) error {
		job := &v1beta1.AdvancedCronJob{}
		if err := env.Client.Get(ctx, client.ObjectKey{Namespace: n.Name, Name: "often"}, job); err != nil {
			return err
		}
		if job.Status.LastScheduleTime == nil {
			return fmt.Errorf("the status is %+v", job.Status)
		}
		return nil
	})
	recorded("AdvancedCronJob")
	if err := o.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := env.configure("{logLevel: Info}"); err != nil {
		t.Fatal(err)
	}
	if err := o.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.Eventually("nothing waits after the next start", waits(map[string]bool{}))
}

// forgetRecord makes the Lease one of a version without a record.
func forgetRecord(t *testing.T, env *testEnv) {
	t.Helper()
	lease := &coordinationv1.Lease{}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: "kruise-system", Name: confirmation.LeaseName}, lease); err != nil {
		t.Fatal(err)
	}
	if lease.Annotations[confirmation.Annotation] == "" || ptr.Deref(lease.Spec.HolderIdentity, "") != "" {
		t.Fatalf("after a run the Lease is %+v", lease)
	}
	delete(lease.Annotations, confirmation.Annotation)
	if err := env.Client.Update(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
}
