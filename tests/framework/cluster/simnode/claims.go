// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package simnode

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// Provisioner is the provisioner of storage classes with simulated volumes.
const Provisioner = AnnotationPrefix + "provisioner"

// Annotations of a claim, read from the living object.
const (
	// ProvisionDelay is a duration or "never": from the creation of the claim to its volume, at the earliest.
	ProvisionDelay = AnnotationPrefix + "provision-delay"
	// ExpandDelay is a duration or "never": from the claim asking for more to the larger volume.
	ExpandDelay = AnnotationPrefix + "expand-delay"
	// Expand is ExpandPendingOnNode or ExpandInfeasible, until removed.
	Expand = AnnotationPrefix + "expand"
)

// Values of the annotation Expand.
const (
	// ExpandPendingOnNode grows the volume and leaves the claim at FileSystemResizePending.
	ExpandPendingOnNode = "file-system-pending"
	// ExpandInfeasible refuses to grow the volume.
	ExpandInfeasible = "infeasible"
)

// Annotations between the persistent volume controller, the scheduler and provisioners.
const (
	annotationProvisioner   = "volume.kubernetes.io/storage-provisioner"
	annotationSelectedNode  = "volume.kubernetes.io/selected-node"
	annotationProvisionedBy = "pv.kubernetes.io/provisioned-by"
)

// StorageClass is a class with simulated volumes. Volumes go with their claims.
func StorageClass(name string, mode storagev1.VolumeBindingMode, expandable bool) *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: Provisioner,
		VolumeBindingMode: &mode, AllowVolumeExpansion: &expandable,
	}
}

// CreateStorageClass creates StorageClass(name, mode, expandable), unless the name exists.
func (n *Nodes) CreateStorageClass(ctx context.Context, name string, mode storagev1.VolumeBindingMode, expandable bool) error {
	_, err := n.client.StorageV1().StorageClasses().Create(ctx, StorageClass(name, mode, expandable), metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating storage class %s: %w", name, err)
	}
	return nil
}

// provisioner makes, grows and deletes the volumes of claims. Binding them is left to the persistent volume controller.
type provisioner struct {
	*Nodes
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	classes storagelisters.StorageClassLister
	// work holds claims, and volumes as names without a namespace.
	work workqueue.TypedRateLimitingInterface[cache.ObjectName]
}

func (n *Nodes) startProvisioner(ctx context.Context) error {
	factory := informers.NewSharedInformerFactoryWithOptions(n.client, 0, informers.WithTransform(dropManagedFields))
	core := factory.Core().V1()
	p := &provisioner{
		Nodes:   n,
		claims:  core.PersistentVolumeClaims().Lister(),
		volumes: core.PersistentVolumes().Lister(),
		classes: factory.Storage().V1().StorageClasses().Lister(),
		work: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](20*time.Millisecond, 5*time.Second)),
	}
	context.AfterFunc(ctx, p.work.ShutDown)
	enqueue := cache.ResourceEventHandlerFuncs{
		AddFunc:    p.enqueue,
		UpdateFunc: func(_, obj any) { p.enqueue(obj) },
	}
	for _, informer := range []cache.SharedIndexInformer{
		core.PersistentVolumeClaims().Informer(), core.PersistentVolumes().Informer(), factory.Storage().V1().StorageClasses().Informer(),
	} {
		if _, err := informer.AddEventHandler(enqueue); err != nil {
			return fmt.Errorf("watching claims and volumes: %w", err)
		}
		n.work.Go(func() { informer.RunWithContext(ctx) })
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return fmt.Errorf("watching claims and volumes: %w", ctx.Err())
		}
	}
	for range n.options.Workers {
		n.work.Go(func() { p.worker(ctx) })
	}
	return nil
}

func (p *provisioner) enqueue(obj any) {
	switch o := obj.(type) {
	case *corev1.PersistentVolumeClaim:
		p.work.Add(cache.MetaObjectToName(o))
	case *corev1.PersistentVolume:
		p.work.Add(cache.MetaObjectToName(o))
	case *storagev1.StorageClass: // its claims may have come first
		claims, err := p.claims.List(labels.Everything())
		if err != nil {
			p.options.Log.Error(err, "cannot list claims")
		}
		for _, claim := range claims {
			p.work.Add(cache.MetaObjectToName(claim))
		}
	}
}

func (p *provisioner) worker(ctx context.Context) {
	for {
		name, shutdown := p.work.Get()
		if shutdown {
			return
		}
		var wait time.Duration
		var err error
		if name.Namespace == "" {
			err = p.syncVolume(ctx, name.Name)
		} else {
			wait, err = p.syncClaim(ctx, name)
		}
		switch {
		case ctx.Err() != nil:
		case apierrors.IsConflict(err):
			p.work.AddRateLimited(name)
		case err != nil:
			p.options.Log.Error(err, "cannot provide a volume", "name", name)
			p.work.AddRateLimited(name)
		default:
			p.work.Forget(name)
			if wait > 0 {
				p.work.AddAfter(name, wait)
			}
		}
		p.work.Done(name)
	}
}

// syncVolume deletes a volume of ours without a claim.
func (p *provisioner) syncVolume(ctx context.Context, name string) error {
	volume, err := p.volumes.Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading volume %s: %w", name, err)
	}
	if volume.Annotations[annotationProvisionedBy] != Provisioner || volume.DeletionTimestamp != nil ||
		volume.Status.Phase != corev1.VolumeReleased || volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		return nil
	}
	err = p.client.CoreV1().PersistentVolumes().Delete(ctx, name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(volume.UID))})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting volume %s: %w", name, err)
	}
	return nil
}

// syncClaim takes one claim a step further and returns when to look again; zero when only a change matters.
func (p *provisioner) syncClaim(ctx context.Context, name cache.ObjectName) (time.Duration, error) {
	claim, err := p.claims.PersistentVolumeClaims(name.Namespace).Get(name.Name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("reading claim %s: %w", name, err)
	}
	if claim.DeletionTimestamp != nil || claim.Spec.StorageClassName == nil {
		return 0, nil
	}
	class, err := p.classes.Get(*claim.Spec.StorageClassName)
	if apierrors.IsNotFound(err) || err == nil && class.Provisioner != Provisioner {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("reading the class of claim %s: %w", name, err)
	}
	switch {
	case claim.Spec.VolumeName == "":
		return p.provision(ctx, claim, class)
	case claim.Status.Phase == corev1.ClaimBound:
		return p.expand(ctx, claim, class)
	default:
		return 0, nil
	}
}

// provision creates a claim's volume once the persistent volume controller asks for it: for
// a class waiting for the first consumer, after the scheduler chose a node.
func (p *provisioner) provision(ctx context.Context, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) (time.Duration, error) {
	if claim.Annotations[annotationProvisioner] != Provisioner {
		return 0, nil
	}
	waits := class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
	if waits && claim.Annotations[annotationSelectedNode] == "" {
		return 0, nil
	}
	delay, err := claimDelay(claim, ProvisionDelay, p.options.ProvisionDelay)
	if err != nil || delay == Never {
		return 0, err
	}
	if wait := time.Until(claim.CreationTimestamp.Add(delay)); delay > 0 && wait > 0 {
		return wait, nil
	}
	reclaim := corev1.PersistentVolumeReclaimDelete
	if class.ReclaimPolicy != nil {
		reclaim = *class.ReclaimPolicy
	}
	name := "pvc-" + string(claim.UID)
	directory := corev1.HostPathDirectoryOrCreate
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{annotationProvisionedBy: Provisioner}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: requested(claim)},
			AccessModes: claim.Spec.AccessModes,
			VolumeMode:  claim.Spec.VolumeMode,
			// No driver has to attach a host path, and nobody ever mounts this one.
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: "/simulated/" + name, Type: &directory},
			},
			PersistentVolumeReclaimPolicy: reclaim,
			StorageClassName:              class.Name,
			MountOptions:                  class.MountOptions,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
				ResourceVersion: claim.ResourceVersion,
			},
		},
	}
	_, err = p.client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return 0, fmt.Errorf("creating the volume of claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return 0, nil
}

// expand grows a claim's volume to its request, if its class allows it.
//
// The order is a real resizer's: the claim is marked, the volume grows, the node grows the
// file system, and only then does the claim show the new capacity.
func (p *provisioner) expand(ctx context.Context, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) (time.Duration, error) {
	want, have := requested(claim), claim.Status.Capacity[corev1.ResourceStorage]
	if want.Cmp(have) <= 0 || class.AllowVolumeExpansion == nil || !*class.AllowVolumeExpansion {
		return 0, nil
	}
	outcome := claim.Annotations[Expand]
	if outcome == ExpandInfeasible {
		return 0, p.reportExpansion(ctx, claim, corev1.PersistentVolumeClaimControllerResizeError, corev1.PersistentVolumeClaimControllerResizeInfeasible)
	}
	delay, err := claimDelay(claim, ExpandDelay, p.options.ExpandDelay)
	if err != nil {
		return 0, err
	}
	if delay > 0 {
		err := p.reportExpansion(ctx, claim, corev1.PersistentVolumeClaimResizing, corev1.PersistentVolumeClaimControllerResizeInProgress)
		if err != nil || delay == Never {
			return 0, err
		}
		begin := time.Now()
		if c := claimCondition(claim, corev1.PersistentVolumeClaimResizing); c != nil {
			begin = c.LastTransitionTime.Time
		}
		if wait := time.Until(begin.Add(delay)); wait > 0 {
			return wait, nil
		}
	}
	grow, err := json.Marshal(map[string]any{"spec": map[string]any{"capacity": map[string]any{"storage": want}}})
	if err != nil {
		return 0, fmt.Errorf("encoding a capacity: %w", err)
	}
	_, err = p.client.CoreV1().PersistentVolumes().Patch(ctx, claim.Spec.VolumeName, types.StrategicMergePatchType, grow, metav1.PatchOptions{})
	if err != nil {
		return 0, fmt.Errorf("growing volume %s: %w", claim.Spec.VolumeName, err)
	}
	if outcome == ExpandPendingOnNode {
		return 0, p.reportExpansion(ctx, claim, corev1.PersistentVolumeClaimFileSystemResizePending, corev1.PersistentVolumeClaimNodeResizePending)
	}
	return 0, p.reportExpansion(ctx, claim, "", "")
}

// reportExpansion writes an expansion's progress: a condition and a resource status or,
// when both are empty, its end. It writes nothing the claim has already.
func (p *provisioner) reportExpansion(ctx context.Context, claim *corev1.PersistentVolumeClaim,
	kind corev1.PersistentVolumeClaimConditionType, state corev1.ClaimResourceStatus,
) error {
	want := requested(claim)
	status := map[string]any{
		"allocatedResources":        map[string]any{"storage": want},
		"allocatedResourceStatuses": map[string]any{"storage": nil},
	}
	var conditions []map[string]any
	for _, other := range []corev1.PersistentVolumeClaimConditionType{
		corev1.PersistentVolumeClaimResizing, corev1.PersistentVolumeClaimFileSystemResizePending,
		corev1.PersistentVolumeClaimControllerResizeError,
	} {
		if other != kind && claimCondition(claim, other) != nil {
			conditions = append(conditions, map[string]any{"$patch": "delete", "type": other})
		}
	}
	if kind == "" {
		status["capacity"] = map[string]any{"storage": want}
	} else {
		if claimCondition(claim, kind) != nil && claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage] == state {
			return nil
		}
		status["allocatedResourceStatuses"] = map[string]any{"storage": state}
		conditions = append(conditions, map[string]any{
			"type": kind, "status": corev1.ConditionTrue, "lastTransitionTime": seconds(time.Now()),
		})
	}
	if len(conditions) > 0 {
		status["conditions"] = conditions
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": claim.UID}, "status": status})
	if err != nil {
		return fmt.Errorf("encoding the status of claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	_, err = p.client.CoreV1().PersistentVolumeClaims(claim.Namespace).Patch(ctx, claim.Name, types.StrategicMergePatchType, data,
		metav1.PatchOptions{}, "status")
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the status of claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}

func claimCondition(claim *corev1.PersistentVolumeClaim, kind corev1.PersistentVolumeClaimConditionType) *corev1.PersistentVolumeClaimCondition {
	for i := range claim.Status.Conditions {
		if claim.Status.Conditions[i].Type == kind {
			return &claim.Status.Conditions[i]
		}
	}
	return nil
}

func claimDelay(claim *corev1.PersistentVolumeClaim, key string, fallback time.Duration) (time.Duration, error) {
	raw, ok := claim.Annotations[key]
	if !ok {
		return fallback, nil
	}
	delay, err := duration(raw)
	if err != nil {
		return 0, fmt.Errorf("annotation %s of claim %s/%s: %w", key, claim.Namespace, claim.Name, err)
	}
	return delay, nil
}

func requested(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	return claim.Spec.Resources.Requests[corev1.ResourceStorage]
}
