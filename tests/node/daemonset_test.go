// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package node_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// TestDaemonIsUpdatedInPlace changes the image of a DaemonSet: the pod on the node stays,
// its container is replaced once, and it is never ready with the old container.
func TestDaemonIsUpdatedInPlace(t *testing.T) {
	n := onNode(t)
	template := guestbookTemplate()
	template.Spec.ReadinessGates = nil // the set adds it
	set := &v1beta1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: v1beta1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, Template: template,
			UpdateStrategy: v1beta1.DaemonSetUpdateStrategy{RollingUpdate: &v1beta1.RollingUpdateDaemonSet{Type: v1beta1.InplaceRollingUpdateType}},
		},
	}
	create(t, n, set)
	settled := func() string {
		t.Helper()
		n.Eventually("the daemon is available", func(ctx context.Context) error {
			if err := n.Client.Get(ctx, client.ObjectKeyFromObject(set), set); err != nil {
				return err
			}
			s := set.Status
			if s.ObservedGeneration != set.Generation || s.DesiredNumberScheduled != 1 || s.UpdatedNumberScheduled != 1 || s.NumberAvailable != 1 {
				return fmt.Errorf("the status is %+v", s)
			}
			return nil
		})
		return set.Status.UpdateRevision
	}
	settled()
	was := n.Pods()[0]
	assertVersion(t, &was, "v1")
	box := sandbox(t, &was)
	states := follow(t, n)

	patch := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"`+repository+`:v2"}]`))
	if err := n.Client.Patch(t.Context(), set, patch); err != nil {
		t.Fatal(err)
	}
	revision := settled()
	is := n.Pod(was.Name)
	assertSamePod(t, &was, is)
	assertReplacedOnce(t, &was, is, "web")
	assertVersion(t, is, "v2")
	if now := sandbox(t, is); now != box {
		t.Errorf("the sandbox %s became %s", box, now)
	}
	if is.Labels[shared.LabelControllerRevisionHash] != revision {
		t.Errorf("labels after the update to %s: %v", revision, is.Labels)
	}
	all := states.of(n, is)
	edited, rest := first(t, all, "the image is changed", func(pod *corev1.Pod) bool { return pod.Spec.Containers[0].Image == repository+":v2" })
	if c := condition(edited.pod, shared.GateInPlaceUpdateReady); c.Status != corev1.ConditionFalse {
		t.Errorf("the image changed while the pod was in service: %+v", c)
	}
	seen, rest := first(t, rest, "the kubelet has seen the edit", func(pod *corev1.Pod) bool { return pod.Status.ObservedGeneration >= edited.pod.Generation })
	assertNotReadyWithOld(t, append([]moment{seen}, rest...), &was)
}
