// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package uniteddeployment

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

func owned(manager string, operation metav1.ManagedFieldsOperationType, subresource, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, Subresource: subresource, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)}
}

func TestFieldsThatWereAppliedAreOursAlone(t *testing.T) {
	const apply, update = metav1.ManagedFieldsOperationApply, metav1.ManagedFieldsOperationUpdate
	ours := owned(shared.FieldManagerUnitedDeployment, apply, "", `{"f:spec":{"f:replicas":{},"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"main\"}":{".":{},"f:image":{}}}}}}}`)
	cases := map[string]struct {
		others  []metav1.ManagedFieldsEntry
		want    []metav1.ManagedFieldsEntry
		changed bool
	}{
		"shared fields go, defaults stay": {
			others:  []metav1.ManagedFieldsEntry{owned("manager", update, "", `{"f:spec":{"f:minReadySeconds":{},"f:replicas":{},"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"main\"}":{"f:image":{},"f:imagePullPolicy":{}}}}}}}`)},
			want:    []metav1.ManagedFieldsEntry{owned("manager", update, "", `{"f:spec":{"f:minReadySeconds":{},"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"main\"}":{"f:imagePullPolicy":{}}}}}}}`)},
			changed: true,
		},
		"an entry of shared fields alone goes": {others: []metav1.ManagedFieldsEntry{owned("manager", update, "", `{"f:spec":{"f:replicas":{}}}`)}, changed: true},
		"a field around the last shared one would stay as null": {
			others:  []metav1.ManagedFieldsEntry{owned("manager", update, "", `{"f:spec":{".":{},"f:minReadySeconds":{},"f:template":{}}}`)},
			want:    []metav1.ManagedFieldsEntry{owned("manager", update, "", `{"f:spec":{"f:minReadySeconds":{}}}`)},
			changed: true,
		},
		"entries of others stay": {
			others: []metav1.ManagedFieldsEntry{owned("kubectl-edit", update, "", `{"f:spec":{"f:replicas":{}}}`), owned("manager", update, "status", `{"f:spec":{"f:replicas":{}}}`)},
			want:   []metav1.ManagedFieldsEntry{owned("kubectl-edit", update, "", `{"f:spec":{"f:replicas":{}}}`), owned("manager", update, "status", `{"f:spec":{"f:replicas":{}}}`)},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, changed, err := withoutShared(append([]metav1.ManagedFieldsEntry{ours}, tc.others...))
			if err != nil || changed != tc.changed {
				t.Fatalf("changed %v, error %v", changed, err)
			}
			if diff := cmp.Diff(append([]metav1.ManagedFieldsEntry{ours}, tc.want...), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
