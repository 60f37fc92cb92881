// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// A namespace's Secrets are private until its owner allows access: the image is pulled
// without them, and the job names the missing right.
func TestPullSecretsAreNotReadWithoutARight(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: n.Name, Name: "registry"}, Type: corev1.SecretTypeOpaque}
	if err := n.Client.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	n.Apply("apiVersion: apps.kruise.io/v1beta1\nkind: ImagePullJob\nmetadata: {name: pull}\n" +
		"spec: {image: 'registry.example/web:v2', pullSecrets: [registry], completionPolicy: {type: Always, activeDeadlineSeconds: 600}}\n")
	job := &v1beta1.ImagePullJob{}
	job.Namespace, job.Name = n.Name, "pull"
	n.Eventually("the job says which right is missing", func(ctx context.Context) error {
		if err := n.Client.Get(ctx, client.ObjectKeyFromObject(job), job); err != nil {
			return err
		}
		stalled := meta.FindStatusCondition(job.Status.Conditions, "Stalled")
		if stalled == nil || stalled.Status != metav1.ConditionTrue || stalled.Reason != v1beta1.ReasonRightsMissing || !strings.Contains(stalled.Message, "(registry)") {
			return fmt.Errorf("the status is %+v", job.Status)
		}
		return nil
	})
	// Nothing was copied, so nothing keeps the job, although the namespace of the copies is not there.
	if err := n.Client.Delete(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	n.Eventually("the job is gone", func(ctx context.Context) error {
		err := n.Client.Get(ctx, client.ObjectKeyFromObject(job), job)
		if err == nil {
			return fmt.Errorf("it has the finalizers %v", job.Finalizers)
		}
		return client.IgnoreNotFound(err)
	})
}
