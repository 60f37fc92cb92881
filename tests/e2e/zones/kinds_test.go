// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package zones_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

const cloneSetCRD = "clonesets.apps.kruise.io"

// rerun stops the operator and runs it with other arguments.
func rerun(t *testing.T, args ...string) {
	t.Helper()
	if err := env.Operator.Stop(); err != nil {
		t.Fatal(err)
	}
	env.Operator.SetArgs(args...)
	if err := env.Operator.Run(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
}

// stalled is a statement about the condition Stalled.
func stalled(parts ...string) func(*v1beta1.UnitedDeployment) error {
	return func(set *v1beta1.UnitedDeployment) error {
		text := message(set, v1beta1.UnitedDeploymentStalled)
		for _, part := range parts {
			if !strings.Contains(text, part) {
				return fmt.Errorf("Stalled says %q", text)
			}
		}
		return condition(set, v1beta1.UnitedDeploymentStalled, corev1.ConditionTrue, "")
	}
}

// TestKindOfTheWorkloadsIsSwitchedOff switches the workloads' kind off under a
// UnitedDeployment, then also removes its definition, and puts both back. Reports meanwhile
// are true, other UnitedDeployments go on, and in the end everything is there.
func TestKindOfTheWorkloadsIsSwitchedOff(t *testing.T) {
	a := start(t, "cloneSetTemplate", 3)
	a.settled(v1beta1.ReasonComplete)
	t.Cleanup(func() { rerun(t) })
	rerun(t, "--kinds=StatefulSet,UnitedDeployment")
	a.until("it says that no controller reconciles its workloads", stalled("subset a: nothing is done for CloneSet app-a: its kind is switched off"))
	a.change(func(set *v1beta1.UnitedDeployment) { set.Spec.Replicas = ptr.To[int32](6) })
	a.Eventually("the workloads are applied all the same", func(ctx context.Context) error {
		all, err := a.workloads(ctx)
		if err != nil {
			return err
		}
		for zone, w := range all {
			if size, _, _ := unstructured.NestedInt64(w.Object, "spec", "replicas"); size != 2 {
				return fmt.Errorf("zone %s has %d replicas", zone, size)
			}
		}
		return nil
	})
	a.until("it still says so", stalled("subset c: nothing is done for CloneSet app-c"))
	a.runs("a1 b1 c1", "")

	rerun(t)
	a.runs("a2 b2 c2", "")
	a.settled(v1beta1.ReasonComplete)
}

// TestDefinitionOfTheWorkloadsIsGone deletes the CRD of the workloads while the operator runs, restarts the operator without it, and installs
// it again.
func TestDefinitionOfTheWorkloadsIsGone(t *testing.T) {
	a, other := start(t, "cloneSetTemplate", 3), start(t, "advancedStatefulSetTemplate", 3)
	a.settled(v1beta1.ReasonComplete)
	other.settled(v1beta1.ReasonComplete)
	restored := false
	restore := func() {
		t.Helper()
		if restored {
			return
		}
		restored = true
		installCloneSets(t)
		rerun(t)
	}
	t.Cleanup(restore)
	deleteCloneSets(t)
	a.until("it says that the kind is not served", stalled("subset a: ", "the API server does not serve CloneSet.apps.kruise.io"))
	a.removePods()
	other.image("app:2")
	other.runs("a1 b1 c1", "app:2")
	installCloneSets(t)
	a.runs("a1 b1 c1", "")
	a.settled(v1beta1.ReasonComplete)

	deleteCloneSets(t)
	a.removePods()
	rerun(t, "--kinds=StatefulSet,UnitedDeployment")
	a.until("it says so after a restart", stalled("subset a: ", "the API server does not serve CloneSet.apps.kruise.io"))
	other.image("app:3")
	other.runs("a1 b1 c1", "app:3")
	restore()
	a.runs("a1 b1 c1", "")
	a.settled(v1beta1.ReasonComplete)
}

// removePods deletes the pods for the garbage collector, which waits long for a missing
// kind.
func (a *app) removePods() {
	a.t.Helper()
	if err := env.Client.DeleteAllOf(a.t.Context(), &corev1.Pod{}, client.InNamespace(a.Name), client.GracePeriodSeconds(0)); err != nil {
		a.t.Fatal(err)
	}
}

func definition() *unstructured.Unstructured {
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	crd.SetName(cloneSetCRD)
	return crd
}

// deleteCloneSets deletes the definition of CloneSets, and them with it.
func deleteCloneSets(t *testing.T) {
	t.Helper()
	if out, err := env.Cluster.Kubectl(t.Context(), "delete", "crd", cloneSetCRD, "--timeout=60s").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := env.Client.Get(t.Context(), types.NamespacedName{Name: cloneSetCRD}, definition()); !apierrors.IsNotFound(err) {
		t.Fatalf("the definition is still there: %v", err)
	}
}

// installCloneSets installs the definition of CloneSets again, with everything else.
func installCloneSets(t *testing.T) {
	t.Helper()
	if err := env.Operator.Install(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
}
