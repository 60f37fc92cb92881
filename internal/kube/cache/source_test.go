// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kruise-operator/kruise-operator/internal/kube/cache"
)

// A StatefulSet got no status, for ever, when a CloneSet with claims was planned before the workers for StatefulSets had started and the
// operator had no right to list claims.
func TestControllerStartsWhileAnotherKindCannotBeRead(t *testing.T) {
	notAll := &informertest.FakeInformers{Synced: ptr.To(false)}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	pods := cache.Source(notAll, &corev1.Pod{}, &handler.EnqueueRequestForObject{})
	if err := pods.Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	if err := pods.WaitForSync(t.Context()); err != nil {
		t.Errorf("the controller does not start: %v", err)
	}
}
