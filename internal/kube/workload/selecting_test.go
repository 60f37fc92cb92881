// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/testutil"
)

// storedObjects is a cache with objects of one kind.
type storedObjects struct {
	cache.Cache
	items []unstructured.Unstructured
}

func (s *storedObjects) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	asked := (&client.ListOptions{}).ApplyOptions(options)
	all := list.(*unstructured.UnstructuredList)
	for _, item := range s.items {
		if item.GetNamespace() == asked.Namespace {
			all.Items = append(all.Items, item)
		}
	}
	return nil
}

func selectingObject(namespace, name string, generation int64, selector any, status map[string]any) unstructured.Unstructured {
	return unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": namespace, "name": name, "uid": namespace + "/" + name, "generation": generation},
		"spec":     map[string]any{"selector": selector}, "status": status,
	}}
}

func TestAPodEnqueuesTheObjectsThatSelectIt(t *testing.T) {
	web := map[string]any{"matchLabels": map[string]any{"app": "web"}}
	db := map[string]any{"matchLabels": map[string]any{"app": "db"}}
	pod := testutil.Pod("web-0").Obj()
	pod.Namespace, pod.Labels = "shop", map[string]string{"app": "web"}
	over := map[string]any{"completionTime": "2026-01-02T03:04:05Z"}

	stored := &storedObjects{items: []unstructured.Unstructured{
		selectingObject("shop", "selects", 1, web, nil),
		selectingObject("shop", "selects-others", 1, db, nil),
		selectingObject("shop", "empty", 1, map[string]any{}, nil),
		selectingObject("shop", "without", 1, nil, nil),
		selectingObject("shop", "unreadable", 1, map[string]any{"matchLabels": "app"}, nil),
		selectingObject("shop", "ended", 1, web, over),
		selectingObject("elsewhere", "selects", 1, web, nil),
	}}
	b := &Base{}
	b.Cache = stored
	of := b.Selecting(func(object map[string]any) bool {
		end, _, _ := unstructured.NestedString(object, "status", "completionTime")
		return end != ""
	})
	expect := func(what string, want ...string) {
		t.Helper()
		var names []string
		for _, name := range of(t.Context(), pod) {
			if name.Namespace != "shop" {
				t.Errorf("%s: woke %s", what, name)
			}
			names = append(names, name.Name)
		}
		if !slices.Equal(names, want) {
			t.Errorf("%s: woke %v, want %v", what, names, want)
		}
	}
	expect("at first", "selects")
	expect("from what was parsed", "selects")

	stored.items[0] = selectingObject("shop", "selects", 2, db, nil)
	stored.items[1] = selectingObject("shop", "selects-others", 2, web, nil)
	expect("after both selectors have changed", "selects-others")

	replaced := selectingObject("shop", "selects-others", 2, db, nil)
	replaced.SetUID(types.UID("another"))
	stored.items[1] = replaced
	expect("after one was replaced by another of its name")

	if all := b.Selecting(nil)(t.Context(), pod); len(all) != 1 || all[0].Name != "ended" {
		t.Errorf("of a kind that does not end, woke %v", all)
	}
	pod.Labels = nil
	expect("without labels")
}
