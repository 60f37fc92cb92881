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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
	"github.com/kruise-operator/kruise-operator/controllers"
	"github.com/kruise-operator/kruise-operator/tests/framework/audit"
	"github.com/kruise-operator/kruise-operator/tests/framework/limits"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
	"github.com/kruise-operator/kruise-operator/tests/framework/scenario"
	"github.com/kruise-operator/kruise-operator/tests/framework/scorecard"
)

// A disabled kind costs nothing, and is as before when enabled again.
func TestDisabledKindCostsNothing(t *testing.T) {
	e := take(t)
	o := e.start(operator.Options{Name: "disabled"})
	s := scenario.Start(t, e.Environment, 150, limits.Rules{})
	e.mustConfigure(s.Namespace, "{}")
	s.Done()
	before := s.Identities()
	with := atRest(t, o)

	kruise := e.mustConfigure(s.Namespace, "{kinds: []}")
	log, err := audit.Open(e.Cluster.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(kruise.Status.Kinds), len(controllers.Table().Switchable()); got != want {
		t.Errorf("the status has %d kinds, want all %d", got, want)
	}
	for _, kind := range kruise.Status.Kinds {
		if kind.State != operatorv1alpha1.Disabled || kind.Ready != metav1.ConditionFalse || kind.Reason != operatorv1alpha1.KindDisabled {
			t.Errorf("the status of a disabled kind is %+v", kind)
		}
	}
	s.Update(scenario.Image(scenario.V2)) // admission does not see it
	if err := e.Client.Delete(t.Context(), s.Pod("web-3")); err != nil {
		t.Fatal(err)
	}
	s.Consistently(2*time.Second, "nothing is done for the set", func(ctx context.Context) error {
		requests, err := log.Next(func(e *auditv1.Event) bool { return e.User.Username == operator.ServiceAccountUser })
		ofKinds := []string{"statefulsets", "clonesets", "pods", "persistentvolumeclaims", "controllerrevisions", "storageclasses", "imagepulljobs", "podtemplates", "events"}
		for i := range requests {
			// In the operator's own namespace it looks for what hooks have left, soon after its start.
			if ref := requests[i].ObjectRef; ref != nil && slices.Contains(ofKinds, ref.Resource) && slices.Contains([]string{"", s.Name()}, ref.Namespace) {
				err = errors.Join(err, fmt.Errorf("%s %s", requests[i].Verb, requests[i].RequestURI))
			}
		}
		return err
	})
	text, err := o.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		if strings.Contains(line, `"statefulset-controller"`) {
			t.Errorf("a disabled kind has a controller: %s", line)
			break
		}
	}
	without := with
	s.Eventually("the operator holds less than with the kind", func(context.Context) error {
		usage, err := o.Usage()
		if without = min(without, usage.Anonymous); err != nil || usage.Anonymous == 0 || without < with { // 0: this system does not say
			return err
		}
		return fmt.Errorf("%.1f MiB with the kind disabled, %.1f MiB with it", mib(usage.Anonymous), mib(with))
	})
	t.Logf("measured: %.1f MiB of its own at rest with 150 pods, %.1f MiB with the kind disabled", mib(with), mib(without))

	e.mustConfigure(s.Namespace, "{kinds: [StatefulSet]}")
	s.Done()
	delete(before, "web-3")
	after := s.Identities()
	delete(after, "web-3")
	scenario.CheckKept(t, before, after, 1)
	invalid := scenario.Set(1)
	invalid.Namespace, invalid.Name = s.Name(), "invalid"
	invalid.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "other"}}
	if err := s.Client.Create(t.Context(), invalid); err == nil || !strings.Contains(err.Error(), "admission webhook") {
		t.Errorf("an invalid set is not refused by the webhooks: %v", err)
	}
}

// atRest returns the idle operator's memory in bytes: the least within 15 seconds, as it
// gives back its start's memory ten seconds after its caches are filled. Pages of its
// program do not count: a machine short of memory drops and rereads them.
func atRest(t *testing.T, o *operator.Operator) int64 {
	t.Helper()
	least, looks := int64(0), 0
	err := wait.PollUntilContextTimeout(t.Context(), 500*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		usage, err := o.Usage()
		if looks++; least == 0 || usage.Anonymous < least {
			least = usage.Anonymous
		}
		return looks > 30, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return least
}

// A CRD installed while the operator runs is noticed: the object's, and a kind's.
func TestCRDsThatComeLater(t *testing.T) {
	e := take(t)
	// With webhooks, a process outside of the cluster starts only if their kinds exist.
	o := e.start(operator.Options{Name: "later", Args: []string{"--webhook-port=0"}})
	n := e.Namespace(t)
	if err := o.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kruises.operator.kruise.io", "clonesets.apps.kruise.io"} {
		crd := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}}
		crd.SetName(name)
		if err := e.Client.Delete(t.Context(), crd); err != nil {
			t.Fatal(err)
		}
		n.Eventually(name+" is gone", func(ctx context.Context) error {
			err := e.Client.Get(ctx, client.ObjectKeyFromObject(crd), crd)
			if err == nil {
				return errors.New("it exists")
			}
			return client.IgnoreNotFound(err)
		})
	}
	if err := o.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := o.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.Eventually("the API server takes the configuration", func(context.Context) error { return e.configure("{workers: 4}") })
	kruise := e.mustConfigure(n, "{workers: 4}")
	t.Logf("measured: CRDs that were missing are taken up %s after they were installed", time.Since(began).Round(time.Millisecond))
	for _, kind := range kruise.Status.Kinds {
		if kind.Ready != metav1.ConditionTrue {
			t.Errorf("%s is not managed: %+v", kind.Kind, kind)
		}
	}
}

// The scorecard test that changes the operator passes, leaves no configuration behind, and
// fails if no kind can be switched off.
func TestScorecardOfDisabledKinds(t *testing.T) {
	e := take(t)
	const test, bundle = "disabled-kinds-cost-nothing", "../../../bundle"
	o := e.start(operator.Options{Name: "scorecard"})
	result, err := scorecard.Process(t.Context(), e.Cluster, test, bundle)
	if err != nil || result.State != "pass" {
		t.Errorf("%s: %v\n%s", result.State, err, result)
	}
	if err := e.Client.Get(t.Context(), client.ObjectKey{Name: "cluster"}, &operatorv1alpha1.Kruise{}); !apierrors.IsNotFound(err) {
		t.Errorf("a Kruise is left: %v", err)
	}
	if err := o.Stop(); err != nil {
		t.Fatal(err)
	}
	o.SetArgs("--kinds=StatefulSet")
	if err := o.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := e.configure("{logLevel: Info}"); err != nil {
		t.Fatal(err)
	}
	result, err = scorecard.Process(t.Context(), e.Cluster, test, bundle)
	if err != nil || result.State != "fail" || !strings.Contains(result.String(), "none can be switched off") {
		t.Errorf("%s: %v\n%s", result.State, err, result)
	}
	kruise := &operatorv1alpha1.Kruise{}
	if err := e.Client.Get(t.Context(), client.ObjectKey{Name: "cluster"}, kruise); err != nil || kruise.Spec.Kinds != nil || kruise.Spec.LogLevel != "Info" {
		t.Errorf("the Kruise became %+v: %v", kruise.Spec, err)
	}
}
