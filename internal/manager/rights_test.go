// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
	kubecache "github.com/kruise-operator/kruise-operator/internal/kube/cache"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
)

// An operator without the right to read pods was ready and silent: no reconciler runs before the caches are filled.
func TestAnOperatorThatCannotFillItsCachesSaysWhy(t *testing.T) {
	types, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	kruise := &operatorv1alpha1.Kruise{ObjectMeta: metav1.ObjectMeta{Name: operatorv1alpha1.KruiseName, Generation: 3}}
	direct := fake.NewClientBuilder().WithScheme(types).WithObjects(kruise).WithStatusSubresource(kruise).Build()
	denied := kubecache.NewDenied(clock.RealClock{})
	f := newFilling(denied)
	if err := f.Check(nil); err != nil {
		t.Errorf("before anything was refused it is not ready: %v", err)
	}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New(`User "kruise" cannot list resource "pods"`))
	denied.Handle(t.Context(), toolscache.NewReflectorWithOptions(nil, nil, nil, toolscache.ReflectorOptions{}), forbidden)
	if err := f.Check(nil); err == nil || !strings.Contains(err.Error(), `cannot list resource "pods"`) {
		t.Errorf("it is ready: %v", err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.report(ctx, direct)
	}()
	for {
		if err := direct.Get(ctx, client.ObjectKeyFromObject(kruise), kruise); err != nil {
			t.Fatal(err)
		}
		c := meta.FindStatusCondition(kruise.Status.Conditions, operatorv1alpha1.KruiseAvailable)
		if c != nil {
			if c.Status != metav1.ConditionFalse || c.Reason != operatorv1alpha1.ReasonKindsNotReady || !strings.Contains(c.Message, `cannot list resource "pods"`) || c.ObservedGeneration != 3 {
				t.Errorf("Available is %+v", c)
			}
			break
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal("the Kruise object says nothing within 30 seconds")
		}
	}

	if err := f.Start(ctx); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-ctx.Done():
		t.Error("it goes on reporting although the caches are filled")
	}
	if err := f.Check(nil); err != nil {
		t.Errorf("with its caches filled it is not ready: %v", err)
	}
}
