// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package hooks

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// An API server may call for a revision before this replica has seen it.
func TestARevisionThatIsMadeJustNowIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := cache.NewStore(cache.MetaNamespaceKeyFunc)
		is := known(store, "ns")
		if is(t.Context(), "made-up") {
			t.Error("there is no such revision")
		}
		time.AfterFunc(knownPatience/2, func() {
			_ = store.Add(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "new"}})
		})
		if !is(t.Context(), "new") {
			t.Error("it was not waited for")
		}
	})
}
