// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// jobsApplied waits until every AdvancedCronJob of the namespace is managed and free of
// users' errors, but for impossible ones, and every BroadcastJob has found nodes. It counts
// both.
func jobsApplied(t *testing.T, n *environment.Namespace) int {
	t.Helper()
	crons := &v1beta1.AdvancedCronJobList{}
	if err := n.Client.List(t.Context(), crons, client.InNamespace(n.Name)); err != nil {
		t.Fatal(err)
	}
	for i := range crons.Items {
		key := client.ObjectKeyFromObject(&crons.Items[i])
		n.EventuallyWithin(time.Minute, "AdvancedCronJob "+key.Name+" is managed", func(ctx context.Context) error {
			is := &v1beta1.AdvancedCronJob{}
			if err := n.Client.Get(ctx, key, is); err != nil {
				return err
			}
			for _, c := range is.Status.Conditions {
				if c.Type == v1beta1.AdvancedCronJobStalled && (string(c.Status) == string(corev1.ConditionFalse) || c.Reason == v1beta1.ReasonKindOff) {
					return nil
				}
			}
			return fmt.Errorf("the status is %+v", is.Status)
		})
	}
	jobs := &v1beta1.BroadcastJobList{}
	if err := n.Client.List(t.Context(), jobs, client.InNamespace(n.Name)); err != nil {
		t.Fatal(err)
	}
	for i := range jobs.Items {
		key := client.ObjectKeyFromObject(&jobs.Items[i])
		n.EventuallyWithin(time.Minute, "BroadcastJob "+key.Name+" has found nodes", func(ctx context.Context) error {
			is := &v1beta1.BroadcastJob{}
			if err := n.Client.Get(ctx, key, is); err != nil {
				return err
			}
			if s := &is.Status; s.Desired < 3 || s.Active+s.Succeeded == 0 || s.Failed > 0 {
				return fmt.Errorf("the status is %+v", s)
			}
			return nil
		})
	}
	return len(crons.Items) + len(jobs.Items) + ephemeralJobsApplied(t, n)
}

// runsOf lists an AdvancedCronJob's creations of a kind.
func runsOf(ctx context.Context, n *environment.Namespace, apiVersion, kind, name string) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(apiVersion)
	list.SetKind(kind)
	err := n.Client.List(ctx, list, client.InNamespace(n.Name), client.MatchingLabels{"operator.kruise.io/advancedcronjob": name})
	return list.Items, err
}
