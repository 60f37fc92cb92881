// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

func TestWhatWasSeenOfNodesOutlivesTheSpecAndNotTheObject(t *testing.T) {
	nothingRuns := func(*corev1.Node) NodeVerdict { return NodeVerdict{} }
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "agent", UID: "1", Generation: 1}}
	b := &Base{}
	if !b.nodesSeen(object).Concerns(nothingRuns, nil, node) {
		t.Error("an object that was not looked at yet triggers nothing")
	}
	b.Remembered(object).SawNodes(NodesSeen{Has: sets.New("n1")})
	object.Generation = 2
	if !b.nodesSeen(object).Concerns(nothingRuns, node, nil) {
		t.Error("it is forgotten where the object has something")
	}
	object.UID = "2"
	if b.nodesSeen(object) != nil {
		t.Error("another object of the same name has what the one before had")
	}
}
