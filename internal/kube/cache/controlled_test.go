// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"net/http"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/kruise-operator/kruise-operator/internal/testutil"
)

// filled is a cache with just these pods.
func filled(t *testing.T, c Contents, pods ...*corev1.Pod) ctrlcache.Cache {
	t.Helper()
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(podKind(), meta.RESTScopeNamespace)
	mapper.Add(appsv1.SchemeGroupVersion.WithKind("ControllerRevision"), meta.RESTScopeNamespace)
	server, empty := fcache.NewFakeControllerSource(), fcache.NewFakeControllerSource()
	t.Cleanup(server.Shutdown)
	t.Cleanup(empty.Shutdown)
	for _, pod := range pods {
		server.Add(pod)
	}
	filled, err := New(&rest.Config{Host: "https://127.0.0.1:1"}, ctrlcache.Options{
		Scheme: clientgoscheme.Scheme, Mapper: mapper, HTTPClient: http.DefaultClient,
		NewInformer: func(_ toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
			if _, isPod := object.(*corev1.Pod); isPod {
				return toolscache.NewSharedIndexInformer(server, object, resync, indexers)
			}
			return toolscache.NewSharedIndexInformer(empty, object, resync, indexers)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Index(t.Context(), filled); err != nil {
		t.Fatal(err)
	}
	go func() { _ = filled.Start(t.Context()) }()
	if !filled.WaitForCacheSync(t.Context()) {
		t.Fatal("not filled")
	}
	return filled
}

// Each pass over 2000 pods used to copy 2 MB for nothing: a tenth of an update's
// allocations.
func TestPassesReadPodsWithoutCopies(t *testing.T) {
	own := controlledAs("web-0", "apps.kruise.io/v1beta1", "StatefulSet")
	own.Annotations[sidecars] = "logs,mesh"
	others := controlledAs("web-1", "apps.kruise.io/v1beta1", "StatefulSet")
	others.OwnerReferences[0].UID = "another"
	c := filled(t, ContentsFor(ofStatefulSet(), ofSidecarSet()), own, others)

	informer, err := c.GetInformer(t.Context(), &corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	shared, ok := informer.(toolscache.SharedIndexInformer)
	if !ok {
		t.Fatalf("the informer is a %T", informer)
	}
	kept, _, err := shared.GetStore().GetByKey(testutil.Namespace + "/web-0")
	if err != nil {
		t.Fatal(err)
	}
	for name, find := range map[string]func() ([]*corev1.Pod, error){
		"by controller": func() ([]*corev1.Pod, error) { return ControlledPods(t.Context(), c, testutil.Namespace, "set") },
		"by annotation": func() ([]*corev1.Pod, error) { return Annotated(t.Context(), c, sidecars, metav1.NamespaceAll, "mesh") },
		"in namespace":  func() ([]*corev1.Pod, error) { return Annotated(t.Context(), c, sidecars, testutil.Namespace, "logs") },
	} {
		pods, err := find()
		if err != nil || len(pods) != 1 || any(pods[0]) != kept {
			t.Errorf("%s: found %v (%v), want web-0 as the cache has it", name, pods, err)
		}
	}
	if pods, err := ControlledPods(t.Context(), c, "elsewhere", "set"); err != nil || len(pods) > 0 {
		t.Errorf("found %v (%v) in another namespace", pods, err)
	}
}
