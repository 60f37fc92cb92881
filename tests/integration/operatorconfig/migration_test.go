// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package operatorconfig_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
)

// storedIn makes the definition of ImagePullJobs store a version.
func (e *testEnv) storedIn(version string) {
	e.t.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		definition, err := e.pullJobs(e.t.Context())
		if err != nil {
			return err
		}
		versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
		for _, entry := range versions {
			of := entry.(map[string]any)
			of["storage"] = of["name"] == version
		}
		if err := unstructured.SetNestedSlice(definition.Object, versions, "spec", "versions"); err != nil {
			return err
		}
		return e.Client.Update(e.t.Context(), definition)
	})
	if err != nil {
		e.t.Fatal(err)
	}
}

func (e *testEnv) pullJobs(ctx context.Context) (*unstructured.Unstructured, error) {
	definition := &unstructured.Unstructured{}
	definition.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	return definition, e.Client.Get(ctx, client.ObjectKey{Name: "imagepulljobs.apps.kruise.io"}, definition)
}

// TestStoredVersions: objects stored in an older version are rewritten in the storage
// version, and the definition shows it.
func TestStoredVersions(t *testing.T) {
	e := take(t)
	n := e.Namespace(t)
	o := e.start(operator.Options{Name: "migration"}) // it installs the definitions
	job := e.create(fmt.Sprintf(`{apiVersion: apps.kruise.io/v1beta1, kind: ImagePullJob, metadata: {namespace: %s, name: old, annotations: {operator.kruise.io/paused: "true"}},
		spec: {image: "example/web:v1", completionPolicy: {type: Never}}}`, n.Name))
	// Once paused, nobody else writes it.
	n.Eventually("the job is left alone", func(ctx context.Context) error {
		if err := e.Client.Get(ctx, client.ObjectKeyFromObject(job), job); err != nil {
			return err
		}
		if conditions, _, _ := unstructured.NestedSlice(job.Object, "status", "conditions"); len(conditions) == 0 {
			return errors.New("it does not say so")
		}
		return nil
	})
	stored := func(ctx context.Context) ([]string, error) {
		definition, err := e.pullJobs(ctx)
		versions, _, _ := unstructured.NestedStringSlice(definition.Object, "status", "storedVersions")
		return versions, err
	}
	e.storedIn("v1alpha1")
	// An empty patch changes nothing but how an object is stored.
	written := job.GetResourceVersion()
	n.Eventually("the object is stored as v1alpha1", func(ctx context.Context) error {
		if err := e.Client.Patch(ctx, job, client.RawPatch(types.MergePatchType, []byte("{}"))); err != nil {
			return err
		}
		if job.GetResourceVersion() == written {
			return errors.New("it is not written")
		}
		return nil
	})
	e.storedIn("v1beta1")
	before := job.DeepCopy()
	if versions, err := stored(t.Context()); err != nil || !slices.Contains(versions, "v1alpha1") {
		t.Fatalf("stored versions %v: %v", versions, err)
	}
	if err := errors.Join(o.Stop(), o.Run(t.Context())); err != nil {
		t.Fatal(err)
	}
	n.EventuallyWithin(2*time.Minute, "nothing is stored as v1alpha1", func(ctx context.Context) error {
		versions, err := stored(ctx)
		if err == nil && !slices.Equal(versions, []string{"v1beta1"}) {
			err = fmt.Errorf("stored versions %v", versions)
		}
		return err
	})
	if err := e.Client.Get(t.Context(), client.ObjectKeyFromObject(job), job); err != nil {
		t.Fatal(err)
	}
	if job.GetResourceVersion() == before.GetResourceVersion() {
		t.Error("the object was not written")
	}
	for _, object := range []*unstructured.Unstructured{before, job} {
		object.SetResourceVersion("")
		object.SetManagedFields(nil)
		delete(object.Object, "status") // its controller's
	}
	if diff := cmp.Diff(before.Object, job.Object); diff != "" {
		t.Errorf("the object (-before +after):\n%s", diff)
	}
}
