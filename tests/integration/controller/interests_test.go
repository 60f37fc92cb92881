// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package controller_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubecache "github.com/kruise-operator/kruise-operator/internal/kube/cache"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// startCache runs a cache with interests and nothing else to keep.
func startCache(t *testing.T, n *environment.Namespace) (*kubecache.Interests, ctrlcache.Cache) {
	t.Helper()
	interests := kubecache.NewInterests()
	options := kubecache.ContentsFor().Keeping(interests.Keeps).Options(nil)
	options.Scheme, options.Mapper = n.Client.Scheme(), n.Client.RESTMapper()
	pods, err := kubecache.New(interests)(env.Cluster.Config(), options)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pods.GetInformer(t.Context(), &corev1.Pod{}, ctrlcache.BlockUntilSynced(false)); err != nil {
		t.Fatal(err)
	}
	go func() { _ = pods.Start(t.Context()) }()
	go func() { _ = interests.Start(t.Context()) }()
	if !pods.WaitForCacheSync(t.Context()) {
		t.Fatal("the cache does not fill")
	}
	return interests, pods
}

// The cache must stay small: each pod nobody asks for is a few hundred bytes.
func TestTheCacheKeepsWholeWhatMatchesLiveSelectors(t *testing.T) {
	n := env.Namespace(t)
	const pods = 12
	for i := range pods {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: n.Name, Name: fmt.Sprintf("p-%d", i), Labels: map[string]string{"even": fmt.Sprint(i%2 == 0)}},
			Spec: corev1.PodSpec{
				NodeSelector: map[string]string{"nowhere": "yes"},
				Containers:   []corev1.Container{{Name: "main", Image: "registry.test/main:v1"}},
			},
		}
		if err := n.Client.Create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	interests, cached := startCache(t, n)
	whole := func() (names map[string]bool, current bool) {
		var have, live corev1.PodList
		if err := cached.List(t.Context(), &have, client.InNamespace(n.Name)); err != nil {
			t.Fatal(err)
		}
		if err := n.Client.List(t.Context(), &live, client.InNamespace(n.Name)); err != nil {
			t.Fatal(err)
		}
		versions := map[string]string{}
		for i := range live.Items {
			versions[live.Items[i].Name] = live.Items[i].ResourceVersion
		}
		names, current = map[string]bool{}, len(have.Items) == len(live.Items)
		for i := range have.Items {
			pod := &have.Items[i]
			current = current && versions[pod.Name] == pod.ResourceVersion
			if len(pod.Spec.Containers) > 0 {
				names[pod.Name] = true
			}
		}
		return names, current
	}
	if names, _ := whole(); len(names) > 0 {
		t.Fatalf("%v are whole, though nobody asks", names)
	}
	// Pods change while they are read again.
	for i := range pods {
		go func() {
			for round := range 20 {
				patch := fmt.Sprintf(`{"metadata":{"annotations":{"round":"%d"}}}`, round)
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: n.Name, Name: fmt.Sprintf("p-%d", i)}}
				if err := n.Client.Patch(t.Context(), pod, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil && t.Context().Err() == nil {
					t.Error(err)
				}
			}
		}()
	}
	even := labels.SelectorFromSet(labels.Set{"even": "true"})
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return interests.Set("test", n.Name, even), nil
	})
	if err != nil {
		t.Fatalf("the view is never complete: %s", err)
	}
	names, _ := whole()
	for i := range pods {
		if name := fmt.Sprintf("p-%d", i); names[name] != (i%2 == 0) {
			t.Errorf("pod %s: whole %t", name, names[name])
		}
	}
	err = wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		_, current := whole()
		return current, nil
	})
	if err != nil {
		t.Errorf("the cache shows older pods than the server: %s", err)
	}
}
