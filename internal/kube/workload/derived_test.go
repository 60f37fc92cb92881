// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

func TestDerivedOncePerGeneration(t *testing.T) {
	var d Derived[string]
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a", UID: "1", Generation: 1}}
	if d.Known(object) != nil {
		t.Error("something is known of an object that was never seen")
	}
	first, second := "first", "second"
	if before := d.Keep(object, &first); before != nil || d.Known(object) != &first {
		t.Errorf("before: %v, known: %v", before, d.Known(object))
	}
	object.Generation = 2
	if d.Known(object) != nil {
		t.Error("what was derived of another spec is known")
	}
	if before := d.Keep(object, &second); before != &first {
		t.Error("the generation before is forgotten")
	}
	object.UID = "2"
	if d.Known(object) != nil || d.Keep(object, &second) != nil {
		t.Error("an object that is gone stands for another one of its name")
	}
	d.Only(sets.New(types.NamespacedName{Namespace: "shop", Name: "b"}))
	if d.Len() != 0 {
		t.Error("an object that is gone is remembered")
	}
}
