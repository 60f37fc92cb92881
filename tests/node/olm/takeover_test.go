// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package olm_test

import (
	"context"
	"errors"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/takeover"
	"github.com/kruise-operator/kruise-operator/tests/framework/olm"
)

// holdsUpgrades lets OpenKruise act, as far as its Lease says so. The operator tells OLM not to replace it, and takes it back.
func (s *lifecycle) holdsUpgrades() {
	s.upgradeable("True", "AsExpected")
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: takeover.Lease().Namespace, Name: takeover.Lease().Name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("openkruise"), LeaseDurationSeconds: ptr.To[int32](200)},
	}
	if err := env.Client.Create(s.t.Context(), lease); err != nil {
		s.t.Fatal(err)
	}
	s.upgradeable("False", "TakingOver")
	if err := env.Client.Delete(s.t.Context(), lease); err != nil {
		s.t.Fatal(err)
	}
	s.upgradeable("True", "AsExpected")
}

// upgradeable waits until the operator says so, and OLM has seen it.
func (s *lifecycle) upgradeable(status, reason string) {
	s.t.Helper()
	kind := olm.Object("OperatorCondition", "", "").GroupVersionKind()
	s.until("the OperatorCondition says Upgradeable="+status, func(ctx context.Context) error {
		conditions := &unstructured.UnstructuredList{}
		conditions.SetGroupVersionKind(kind)
		if err := s.Client.List(ctx, conditions, client.InNamespace(system)); err != nil || len(conditions.Items) != 1 {
			return errors.Join(fmt.Errorf("there are %d, want that of the installed version", len(conditions.Items)), err)
		}
		for _, part := range []string{"spec", "status"} {
			list, _, err := unstructured.NestedSlice(conditions.Items[0].Object, part, "conditions")
			if err != nil || len(list) != 1 {
				return errors.Join(fmt.Errorf("%s.conditions are %v", part, list), err)
			}
			if c, ok := list[0].(map[string]any); !ok || c["type"] != "Upgradeable" || c["status"] != status || c["reason"] != reason {
				return fmt.Errorf("%s.conditions are %v", part, list)
			}
		}
		return nil
	})
}
