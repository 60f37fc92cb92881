// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package simnode_test

import (
	"encoding/json"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
)

func newClaimFixture(t *testing.T, cfg *rest.Config, mode storagev1.VolumeBindingMode) *fixture {
	t.Helper()
	w := newFixture(t, cfg, simnode.Options{Provisioner: true})
	if err := w.nodes.CreateStorageClass(t.Context(), w.namespace, mode, true); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *fixture) createClaim(name string, annotations map[string]string) {
	w.Helper()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &w.namespace,
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:        corev1.VolumeResourceRequirements{Requests: storage("1Gi")},
		},
	}
	_, err := w.client.CoreV1().PersistentVolumeClaims(w.namespace).Create(w.Context(), claim, metav1.CreateOptions{})
	if err != nil {
		w.Fatalf("creating claim %s: %v", name, err)
	}
}

func storage(size string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
}

func (w *fixture) patchClaim(name string, body any) {
	w.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		w.Fatalf("encoding a patch: %v", err)
	}
	_, err = w.client.CoreV1().PersistentVolumeClaims(w.namespace).Patch(w.Context(), name, types.MergePatchType, data, metav1.PatchOptions{})
	if err != nil {
		w.Fatalf("patching claim %s: %v", name, err)
	}
}

func (w *fixture) awaitClaim(name, what string, holds func(*corev1.PersistentVolumeClaim) bool) *corev1.PersistentVolumeClaim {
	w.Helper()
	var claim *corev1.PersistentVolumeClaim
	w.until(func() (bool, string) {
		var err error
		claim, err = w.client.CoreV1().PersistentVolumeClaims(w.namespace).Get(w.Context(), name, metav1.GetOptions{})
		if err != nil {
			w.Fatalf("reading claim %s: %v", name, err)
		}
		return holds(claim), fmt.Sprintf("claim %s: %s\n%v\n%+v", name, what, claim.Annotations, claim.Status)
	})
	return claim
}

func isBound(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Status.Phase == corev1.ClaimBound
}

func mounting(claim string) podOption {
	return func(pod *corev1.Pod) {
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}}}
	}
}

func testClaims(t *testing.T, cfg *rest.Config) {
	w := newClaimFixture(t, cfg, storagev1.VolumeBindingImmediate)
	w.createClaim("data", nil)
	claim := w.awaitClaim("data", "is bound", isBound)
	equal(t, "capacity", claim.Status.Capacity.Storage().String(), "1Gi")
	volume, err := w.client.CoreV1().PersistentVolumes().Get(t.Context(), claim.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "volume", volume.Status.Phase, corev1.VolumeBound)
	equal(t, "reclaim policy", volume.Spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimDelete)

	w.createClaim("slow", map[string]string{simnode.ProvisionDelay: "never"})
	w.awaitClaim("slow", "waits for its volume", func(claim *corev1.PersistentVolumeClaim) bool {
		return claim.Annotations["volume.kubernetes.io/storage-provisioner"] == simnode.Provisioner
	})
	w.patchClaim("slow", object{"metadata": object{"annotations": object{simnode.ProvisionDelay: "1ms"}}})
	w.awaitClaim("slow", "is bound", isBound)

	if err := w.client.CoreV1().PersistentVolumeClaims(w.namespace).Delete(t.Context(), "data", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.until(func() (bool, string) {
		_, err := w.client.CoreV1().PersistentVolumes().Get(t.Context(), volume.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), fmt.Sprintf("the volume goes with its claim (%v)", err)
	})
}

func testFirstConsumer(t *testing.T, cfg *rest.Config) {
	w := newClaimFixture(t, cfg, storagev1.VolumeBindingWaitForFirstConsumer)
	w.createClaim("data", nil)
	w.createClaim("unused", nil)
	w.create("a", mounting("data"), func(pod *corev1.Pod) {
		pod.Spec.NodeName = ""
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: w.node}
	})
	w.awaitReady("a")
	w.awaitClaim("data", "is bound", isBound)
	equal(t, "a claim without a pod is bound", isBound(w.awaitClaim("unused", "exists", func(*corev1.PersistentVolumeClaim) bool { return true })), false)
}

func testExpansion(t *testing.T, cfg *rest.Config) {
	w := newClaimFixture(t, cfg, storagev1.VolumeBindingImmediate)
	w.createClaim("data", map[string]string{simnode.Expand: simnode.ExpandInfeasible})
	w.awaitClaim("data", "is bound", isBound)
	w.patchClaim("data", object{"spec": object{"resources": object{"requests": storage("2Gi")}}})
	has := func(kind corev1.PersistentVolumeClaimConditionType, state corev1.ClaimResourceStatus) func(*corev1.PersistentVolumeClaim) bool {
		return func(claim *corev1.PersistentVolumeClaim) bool {
			resizing := resizeConditions(claim)
			return len(resizing) == 1 && resizing[0] == kind &&
				claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage] == state && claim.Status.Capacity.Storage().String() == "1Gi"
		}
	}
	expand := func(value any) {
		w.patchClaim("data", object{"metadata": object{"annotations": object{simnode.Expand: value}}})
	}
	w.awaitClaim("data", "is refused", has(corev1.PersistentVolumeClaimControllerResizeError, corev1.PersistentVolumeClaimControllerResizeInfeasible))

	w.patchClaim("data", object{"metadata": object{"annotations": object{simnode.Expand: nil, simnode.ExpandDelay: "never"}}})
	w.awaitClaim("data", "is being resized", has(corev1.PersistentVolumeClaimResizing, corev1.PersistentVolumeClaimControllerResizeInProgress))
	w.patchClaim("data", object{"metadata": object{"annotations": object{simnode.Expand: simnode.ExpandPendingOnNode, simnode.ExpandDelay: nil}}})
	claim := w.awaitClaim("data", "waits for the node", has(corev1.PersistentVolumeClaimFileSystemResizePending, corev1.PersistentVolumeClaimNodeResizePending))
	volume, err := w.client.CoreV1().PersistentVolumes().Get(t.Context(), claim.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "volume", volume.Spec.Capacity.Storage().String(), "2Gi")
	expand(nil)
	w.awaitClaim("data", "has grown", func(claim *corev1.PersistentVolumeClaim) bool {
		return claim.Status.Capacity.Storage().String() == "2Gi" && len(resizeConditions(claim)) == 0 &&
			len(claim.Status.AllocatedResourceStatuses) == 0
	})
}

// resizeConditions omits other controllers' conditions.
func resizeConditions(claim *corev1.PersistentVolumeClaim) []corev1.PersistentVolumeClaimConditionType {
	var out []corev1.PersistentVolumeClaimConditionType
	for _, c := range claim.Status.Conditions {
		switch c.Type {
		case corev1.PersistentVolumeClaimResizing, corev1.PersistentVolumeClaimFileSystemResizePending,
			corev1.PersistentVolumeClaimControllerResizeError:
			out = append(out, c.Type)
		}
	}
	return out
}
