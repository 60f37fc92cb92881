// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package operatorconfig

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/operator-lib/conditions"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
)

func deployment(change ...func(*corev1.PodSpec)) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "manager", UID: "uid"}}
	d.Spec.Template.Spec = corev1.PodSpec{
		NodeSelector: map[string]string{"os": "linux"},
		Containers:   []corev1.Container{{Name: "sidecar"}, {Name: "manager", Resources: limit("512Mi")}},
	}
	for _, c := range change {
		c(&d.Spec.Template.Spec)
	}
	return d
}

func limit(memory string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}}
}

func TestManagerSettingsAreTakenBack(t *testing.T) {
	settle := func(d *appsv1.Deployment, settings *operatorv1alpha1.ManagerSettings, wantChanged bool, want *appsv1.Deployment) {
		t.Helper()
		changed, err := settleManager(d, settings)
		if err != nil || changed != wantChanged {
			t.Fatalf("changed %v, error %v", changed, err)
		}
		if diff := cmp.Diff(want.Spec, d.Spec); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
	tolerations := []corev1.Toleration{{Key: "x", Operator: corev1.TolerationOpExists}}
	settings := &operatorv1alpha1.ManagerSettings{
		Resources: ptr.To(limit("1Gi")), NodeSelector: map[string]string{"disk": "fast"}, Tolerations: tolerations, PriorityClassName: "high",
	}
	changed := func(s *corev1.PodSpec) {
		s.Containers[1].Resources, s.Tolerations, s.PriorityClassName = limit("1Gi"), tolerations, "high"
		s.NodeSelector = map[string]string{"os": "linux", "disk": "fast"}
	}
	d := deployment()
	settle(d, nil, false, deployment())
	settle(d, settings, true, deployment(changed))
	settle(d, settings, false, deployment(changed))
	settings = &operatorv1alpha1.ManagerSettings{Resources: settings.Resources}
	settle(d, settings, true, deployment(func(s *corev1.PodSpec) { s.Containers[1].Resources = limit("1Gi") }))
	// An upgrade brings other values.
	d.Spec.Template.Spec.Containers[1].Resources = limit("256Mi")
	settle(d, settings, true, deployment(func(s *corev1.PodSpec) { s.Containers[1].Resources = limit("1Gi") }))
	settle(d, nil, true, deployment(func(s *corev1.PodSpec) { s.Containers[1].Resources = limit("256Mi") }))
	if len(d.Annotations) > 0 {
		t.Errorf("the note stayed: %v", d.Annotations)
	}
	// An upgrade changes one thing of several that were set, and adds a label of nodes.
	d = deployment()
	settings = &operatorv1alpha1.ManagerSettings{
		Resources: ptr.To(limit("1Gi")), NodeSelector: map[string]string{"disk": "fast"}, Tolerations: tolerations, PriorityClassName: "high",
	}
	settle(d, settings, true, deployment(changed))
	d.Spec.Template.Spec.Containers[1].Resources = limit("256Mi")
	d.Spec.Template.Spec.NodeSelector["arch"] = "arm64"
	settle(d, nil, true, deployment(func(s *corev1.PodSpec) {
		s.Containers[1].Resources = limit("256Mi")
		s.NodeSelector = map[string]string{"os": "linux", "arch": "arm64"}
	}))
	if _, err := settleManager(deployment(func(s *corev1.PodSpec) { s.Containers[1].Name = "other" }), settings); err == nil {
		t.Error("a Deployment without the container is taken")
	}
}

// applying hands every object that is applied to see instead.
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
			c := interceptor.NewClient(fake.NewClientBuilder().WithRESTMapper(mapper(tc.monitoring)).Build(), interceptor.Funcs{
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
			if err := o.Apply(t.Context(), deployment()); err != nil {
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

func TestSettingsOfTheDeploymentAreNamedWhereTheyAreIgnored(t *testing.T) {
	set, unset := &operatorv1alpha1.Kruise{}, &operatorv1alpha1.Kruise{}
	set.Spec.Manager = &operatorv1alpha1.ManagerSettings{PriorityClassName: "high"}
	own := &Operands{}
	for name, tc := range map[string]struct {
		underOLM bool
		operands *Operands
		object   *operatorv1alpha1.Kruise
		want     string
	}{
		"under the lifecycle manager, set":   {true, own, set, operatorv1alpha1.ReasonManagedByOLM},
		"under the lifecycle manager, unset": {true, own, unset, ""},
		"outside of a cluster, set":          {false, nil, set, operatorv1alpha1.ReasonNotInCluster},
		"outside of a cluster, unset":        {false, nil, unset, ""},
		"in a cluster, set":                  {false, own, set, ""},
		"in a cluster, unset":                {false, own, unset, ""},
	} {
		t.Run(name, func(t *testing.T) {
			fields, reason := New(Dependencies{UnderOLM: tc.underOLM, Operands: tc.operands}).ignored(tc.object)
			named := len(fields) == 1 && strings.HasPrefix(fields[0], "spec.manager: ")
			if reason != tc.want || named != (tc.want != "") {
				t.Errorf("ignored %q because of %q, want the reason %q", fields, reason, tc.want)
			}
		})
	}
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
