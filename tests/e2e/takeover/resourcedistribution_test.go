// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package takeover_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/testutil/fixtures"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
)

// TestTakeoverOfResourceDistributions: copies by OpenKruise stay the same objects with the same content. ConfigMaps become ours, Secrets
// wait for a role.
func TestTakeoverOfResourceDistributions(t *testing.T) {
	t.Parallel()
	c := cluster.StartForTest(t, cluster.Options{ControlPlane: cluster.APIServerOnly})
	direct, err := client.New(c.Config(), client.Options{Scheme: environment.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.InstallCRDs(t.Context(), "../../../config/crd/bases"); err != nil {
		t.Fatal(err)
	}
	fixtures.Restore(t.Context(), t, client.WithFieldOwner(direct, "manager"), "resourcedistribution/state.yaml")
	settings, before := types.NamespacedName{Namespace: "rd-one", Name: "settings"}, &corev1.ConfigMap{}
	pull, secret := types.NamespacedName{Namespace: "rd-two", Name: "pull"}, &corev1.Secret{}
	if err := direct.Get(t.Context(), settings, before); err != nil || len(before.OwnerReferences) != 1 {
		t.Fatalf("restored is %+v, %v", before, err)
	}
	if err := direct.Get(t.Context(), pull, secret); err != nil {
		t.Fatal(err)
	}
	o, err := operator.New(t.Context(), c, operator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := o.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := namespaceOf(t, c, direct)
	after := &corev1.ConfigMap{}
	n.Eventually("the ConfigMap is taken over", func(ctx context.Context) error {
		if err := direct.Get(ctx, settings, after); err != nil || after.Labels[shared.LabelDistributed] == "" {
			return fmt.Errorf("it has the labels %v, %w", after.Labels, err)
		}
		return nil
	})
	if after.UID != before.UID || !maps.Equal(after.Data, before.Data) || !maps.Equal(after.Annotations, before.Annotations) || metav1.GetControllerOf(after).UID != metav1.GetControllerOf(before).UID {
		t.Errorf("it was %+v, and is %+v", before, after)
	}
	reason := func(name string, succeeded int32, want string) {
		t.Helper()
		n.Eventually(name+" is reported", func(ctx context.Context) error {
			object := &v1beta1.ResourceDistribution{}
			if err := direct.Get(ctx, types.NamespacedName{Name: name}, object); err != nil {
				return err
			}
			for _, condition := range object.Status.Conditions {
				if condition.Type == v1beta1.ResourceDistributionReconciling && condition.Reason == want && object.Status.Succeeded == succeeded {
					return nil
				}
			}
			return fmt.Errorf("the status is %+v", object.Status)
		})
	}
	reason("settings", 1, v1beta1.ReasonDistributed)
	reason("pull-secret", 0, v1beta1.ReasonRightsMissing)
	version := after.ResourceVersion
	n.Consistently(quiet, "nothing more is written", func(ctx context.Context) error {
		now := &corev1.Secret{}
		if err := direct.Get(ctx, pull, now); err != nil || now.ResourceVersion != secret.ResourceVersion {
			return fmt.Errorf("the Secret is %+v, %w", now.ObjectMeta, err)
		}
		if err := direct.Get(ctx, settings, after); err != nil || after.ResourceVersion != version {
			return fmt.Errorf("the ConfigMap is %+v, %w", after.ObjectMeta, err)
		}
		return nil
	})

	if err := direct.Delete(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "kruise-operator-distribute-configmaps"}}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(o.Stop(), o.Run(t.Context())); err != nil {
		t.Fatal(err)
	}
	n.Eventually("the missing role is named", func(ctx context.Context) error {
		object := &v1beta1.ResourceDistribution{}
		if err := direct.Get(ctx, types.NamespacedName{Name: "settings"}, object); err != nil {
			return err
		}
		for _, c := range object.Status.Conditions {
			if c.Type == v1beta1.ResourceDistributionStalled && c.Reason == v1beta1.ReasonRightsMissing && strings.Contains(c.Message, "kruise-operator-distribute-configmaps") {
				return nil
			}
		}
		return fmt.Errorf("the status is %+v", object.Status)
	})
}
