// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"encoding/json"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/tests/framework/limits"
	"github.com/kruise-operator/kruise-operator/tests/framework/scenario"
)

// TestOldClients scales and updates a set with reserved ordinals and hooks through
// v1alpha1, with kubectl and with a client without newer fields. No pod changes its
// ordinal, and the hooks stay.
func TestOldClients(t *testing.T) {
	t.Parallel()
	s := scenario.Start(t, env, 3, limits.Rules{}, scenario.Reserve("1"), lifecycle(func(l *shared.Lifecycle) {
		l.PreDelete = &shared.LifecycleHook{LabelsHandler: map[string]string{hook: "true"}}
	}))
	s.AwaitOrdinals(0, 2, 3)
	s.Done()
	before := s.Identities()
	if out, err := s.Kubectl("scale", "statefulsets.v1alpha1.apps.kruise.io/web", "--replicas=4"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s.AwaitOrdinals(0, 2, 3, 4)
	s.Done()

	for {
		old := &unstructured.Unstructured{}
		old.SetAPIVersion("apps.kruise.io/v1alpha1")
		old.SetKind("StatefulSet")
		if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(s.Set()), old); err != nil {
			t.Fatal(err)
		}
		for _, unknown := range []string{"reserveOrdinals", "ordinals", "scaleStrategy", "lifecycle", "persistentVolumeClaimRetentionPolicy", "volumeClaimUpdateStrategy"} {
			unstructured.RemoveNestedField(old.Object, "spec", unknown)
		}
		containers, _, err := unstructured.NestedSlice(old.Object, "spec", "template", "spec", "containers")
		if err != nil || len(containers) != 1 {
			t.Fatalf("%d containers: %v", len(containers), err)
		}
		containers[0].(map[string]any)["image"] = scenario.V2
		if err := unstructured.SetNestedSlice(old.Object, containers, "spec", "template", "spec", "containers"); err != nil {
			t.Fatal(err)
		}
		err = s.Client.Update(t.Context(), old)
		if err == nil {
			break
		}
		if !apierrors.IsConflict(err) {
			t.Fatal(err)
		}
	}
	set := s.Done()
	s.AwaitOrdinals(0, 2, 3, 4)
	s.AwaitImage(scenario.V2, 0, 2, 3, 4)
	for name, id := range before {
		if now := s.Identities()[name]; now.UID != id.UID || now.Restarts != id.Restarts+1 {
			t.Errorf("pod %s was %+v and is %+v", name, id, now)
		}
	}
	if set.Spec.Lifecycle == nil || set.Spec.Lifecycle.PreDelete == nil || len(set.Spec.ReserveOrdinals) != 1 {
		spec, err := json.Marshal(set.Spec)
		t.Errorf("the spec lost fields: %s %v", spec, err)
	}
}

// TestStrangersAreLeftAlone has other pods with names or labels like the set's.
func TestStrangersAreLeftAlone(t *testing.T) {
	t.Parallel()
	s := scenario.Start(t, env, 2, limits.Rules{})
	s.Done()
	template := s.ByOrdinal()[0]
	strangers := map[string]metav1.ObjectMeta{
		"other name":  {Name: "web-x", Labels: template.Labels},
		"no name":     {Name: "stranger", Labels: template.Labels},
		"other label": {Name: "web-7", Labels: map[string]string{"app": "other"}},
	}
	uids := map[string]string{}
	for what, meta := range strangers {
		p := template.DeepCopy()
		meta.Namespace = s.Name()
		p.ObjectMeta = meta
		p.Spec.NodeName = ""
		p.Spec.Hostname = ""
		if err := s.Client.Create(t.Context(), p); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		uids[p.Name] = string(p.UID)
	}
	s.Update(scenario.Image(scenario.V2), scenario.Replicas(3))
	s.Done()
	s.Update(scenario.Replicas(1))
	s.Done()
	for name, uid := range uids {
		p := s.Pod(name)
		if p == nil || string(p.UID) != uid || p.DeletionTimestamp != nil || p.Spec.Containers[0].Image != scenario.V1 || len(p.OwnerReferences) > 0 {
			t.Errorf("pod %s is %s", name, fmt.Sprint(p))
		}
	}
}
