// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package resourcedistribution

import (
	"errors"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/resourcedistribution/plan"
)

func TestWhenASecretIsLookedAtAgain(t *testing.T) {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	secrets := schema.GroupResource{Resource: "secrets"}
	going := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: now}}}
	for name, tc := range map[string]struct {
		target     bool
		object     *metav1.PartialObjectMetadata
		err        error
		namespaces int
		// want is when; zero: never.
		want time.Duration
	}{
		"a copy":                              {target: true, object: &metav1.PartialObjectMetadata{}, namespaces: 10, want: time.Minute},
		"a copy among many":                   {target: true, object: &metav1.PartialObjectMetadata{}, namespaces: 4000, want: 200 * time.Second},
		"nothing, where a copy was written":   {target: true, err: apierrors.NewNotFound(secrets, "a"), namespaces: 10, want: time.Minute},
		"no role":                             {target: true, err: apierrors.NewForbidden(secrets, "a", nil), namespaces: 10, want: 10 * time.Second},
		"no answer":                           {target: true, err: errors.New("no answer"), namespaces: 10, want: 10 * time.Second},
		"nothing, in no target":               {err: apierrors.NewNotFound(secrets, "a"), namespaces: 10},
		"no role, in no target":               {err: apierrors.NewForbidden(secrets, "a", nil), namespaces: 10},
		"no answer, in no target":             {err: errors.New("no answer"), namespaces: 10, want: 10 * time.Second},
		"a copy that is going, in no target":  {object: going, namespaces: 10, want: time.Minute},
		"an object of others, in no target":   {object: &metav1.PartialObjectMetadata{}, namespaces: 10},
		"no role among many, while one waits": {target: true, err: apierrors.NewForbidden(secrets, "a", nil), namespaces: 4000, want: 200 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			l := look{target: tc.target}
			l.note(tc.object, tc.err, now, time.Duration(tc.namespaces)*perNamespace)
			switch {
			case tc.want == 0 && !l.due.IsZero():
				t.Errorf("after %s, want never", l.due.Sub(now))
			case tc.want != 0 && l.due.Sub(now) != tc.want:
				t.Errorf("after %s, want %s", l.due.Sub(now), tc.want)
			}
		})
	}
}

func TestOfSecretsOnlyTheNeededMetadataIsKept(t *testing.T) {
	object := &appsv1beta1.ResourceDistribution{ObjectMeta: metav1.ObjectMeta{UID: "hub"}}
	for owner, want := range map[types.UID]int{"hub": 1, "other": 0} {
		secret := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			OwnerReferences: []metav1.OwnerReference{{UID: owner, Controller: new(true)}}, Labels: map[string]string{"large": "text"},
			Annotations: map[string]string{shared.AnnotationDistributedHash: "h", "large": "text"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
		}}
		trim(secret, &plan.Spec{Object: object})
		if len(secret.Labels) != want || len(secret.Annotations) != want || len(secret.ManagedFields) != want {
			t.Errorf("of %s is kept %+v", owner, secret)
		}
	}
}

func TestWhichNamespacesAreLookedInto(t *testing.T) {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	object := &appsv1beta1.ResourceDistribution{}
	object.Spec.Resource.Raw = []byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"}}`)
	object.Spec.Targets.NamespaceSelector.MatchLabels = map[string]string{"team": "a"}
	chosen := map[string]string{"team": "a"}
	s := &plan.Snapshot{Now: now, Namespaces: map[string]plan.Namespace{
		"new": {}, "late": {Labels: chosen}, "later": {Labels: chosen}, "current": {Labels: chosen}, "became-one": {Labels: chosen}, "was-one": {}, "never": {},
		"going": {Terminating: true},
	}}
	m := memory{
		"late": {target: true, due: now.Add(-2 * time.Second)}, "later": {target: true, due: now.Add(-time.Second)}, "current": {target: true, due: now.Add(time.Second)},
		"became-one": {}, "was-one": {target: true, due: now.Add(time.Second)}, "never": {},
	}
	if due, want := m.due(plan.Parse(object), s), []string{"became-one", "new", "late", "later", "was-one"}; !slices.Equal(due, want) {
		t.Errorf("due are %v, want %v", due, want)
	}
}
