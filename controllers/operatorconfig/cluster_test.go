// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package operatorconfig

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/operator-framework/operator-lib/conditions"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
)

func deployment() *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "manager", UID: "uid"}}
	d.Spec.Template.Spec = corev1.PodSpec{Containers: []corev1.Container{{Name: "manager"}}}
	return d
}

// applying passes every applied object to see instead.
func applying(see func(*unstructured.Unstructured)) func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return func(_ context.Context, _ client.WithWatch, given runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
		content, err := json.Marshal(given)
		if err != nil {
			return err
		}
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(content); err != nil {
			return err
		}
		see(object)
		return nil
	}
}

func TestOperandsAreAppliedWhereTheirKindsAre(t *testing.T) {
	mapper := func(monitoring bool) meta.RESTMapper {
		m := meta.NewDefaultRESTMapper(nil)
		m.Add(appsv1.SchemeGroupVersion.WithKind("Deployment"), meta.RESTScopeNamespace)
		for _, kind := range []schema.GroupVersionKind{networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"), corev1.SchemeGroupVersion.WithKind("Service")} {
			m.Add(kind, meta.RESTScopeNamespace)
		}
		if monitoring {
			for _, kind := range []string{"ServiceMonitor", "PodMonitor", "PrometheusRule"} {
				m.Add(schema.GroupVersionKind{Group: "monitoring.coreos.com", Version: "v1", Kind: kind}, meta.RESTScopeNamespace)
			}
		}
		return m
	}
	for name, tc := range map[string]struct {
		monitoring bool
		address    string
		want       int
	}{
		"without the Prometheus operator": {false, ":8080", 1},
		"with it":                         {true, ":9090", 5},
		"without metrics":                 {true, "0", 0},
	} {
		t.Run(name, func(t *testing.T) {
			found, deleted := 0, 0
			c := interceptor.NewClient(fake.NewClientBuilder().WithObjects(deployment()).WithRESTMapper(mapper(tc.monitoring)).Build(), interceptor.Funcs{
				Apply: applying(func(object *unstructured.Unstructured) {
					found++
					if owners := object.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != "uid" || owners[0].BlockOwnerDeletion != nil || owners[0].Controller != nil {
						t.Errorf("%s has owners %v", object.GetKind(), owners)
					}
				}),
				Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
					deleted++
					return nil
				},
			})
			o := &Operands{Client: c, Deployment: client.ObjectKey{Namespace: "ns", Name: "manager"}, MetricsAddress: tc.address}
			if err := o.Apply(t.Context()); err != nil {
				t.Fatal(err)
			}
			if (deleted > 0) != (tc.want == 0) {
				t.Errorf("%d objects were deleted", deleted)
			}
			if found != tc.want {
				t.Errorf("%d objects, want %d", found, tc.want)
			}
		})
	}
}

// condition is the Operator Lifecycle Manager's side.
type condition struct {
	present *metav1.Condition
	writes  int
}

func (c *condition) Get(context.Context) (*metav1.Condition, error) {
	if c.present == nil {
		return nil, errors.New("not found")
	}
	return c.present, nil
}

func (c *condition) Set(_ context.Context, status metav1.ConditionStatus, options ...conditions.Option) error {
	c.present = &metav1.Condition{Type: "Upgradeable", Status: status}
	for _, option := range options {
		option(c.present)
	}
	c.writes++
	return nil
}

func TestTheLifecycleManagerIsToldOnce(t *testing.T) {
	olm := &condition{}
	r := New(Dependencies{OLM: olm})
	began := time.Unix(0, 0)
	migrating := Work{Reason: operatorv1alpha1.ReasonMigrating, Message: "moving", Since: began}
	for i, tc := range []struct {
		work       Work
		after      time.Duration
		want       metav1.ConditionStatus
		wantWrites int
	}{
		{Work{}, 0, metav1.ConditionTrue, 1},
		{Work{}, time.Hour, metav1.ConditionTrue, 1},
		{migrating, time.Minute, metav1.ConditionFalse, 2},
		{migrating, 9 * time.Minute, metav1.ConditionFalse, 2},
		{migrating, 10 * time.Minute, metav1.ConditionTrue, 3},
		{migrating, time.Hour, metav1.ConditionTrue, 3},
		{Work{}, time.Hour, metav1.ConditionTrue, 4},
	} {
		if err := r.reportUpgradeable(t.Context(), UpgradeDuring(tc.work, began.Add(tc.after))); err != nil {
			t.Fatal(err)
		}
		if olm.present.Status != tc.want || olm.writes != tc.wantWrites || olm.present.Reason == "" {
			t.Errorf("%d: %d writes, %+v", i, olm.writes, olm.present)
		}
	}
	if err := New(Dependencies{}).reportUpgradeable(t.Context(), Upgrade{}); err != nil {
		t.Errorf("without the lifecycle manager: %v", err)
	}
}
