// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

const (
	protobuf = runtime.ContentTypeProtobuf
	// metadataOnly spares the server most of a response.
	metadataOnly = protobuf + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
)

// revisions are hashes of the template, by step.
var revisions = [2]string{"bare-6b8f5d97cd", "bare-86bdc78fbc"}

// bare is a client without decisions: the fewest writes, in the cheapest encoding, no
// compression, responses not decoded. Its pods have the metadata that OpenKruise documents.
type bare struct {
	bench   *bench
	writers [2]int // requests in flight, by step

	client *kubernetes.Clientset
	pods   *pods
	stop   context.CancelFunc
}

func (b *bare) begin(ctx context.Context) (err error) {
	config := rest.CopyConfig(b.bench.config)
	config.ContentType, config.AcceptContentTypes, config.DisableCompression = protobuf, protobuf, true
	if b.client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	ctx, b.stop = context.WithCancel(ctx)
	b.pods, err = follow(ctx, b.client, b.bench.namespace)
	return err
}

func (b *bare) end(context.Context) error {
	b.stop()
	return nil
}

func (b *bare) settle(context.Context, int) error { return nil }

// used is unknown: it runs in one process with the nodes.
func (b *bare) used() (cpu, peak float64, err error) { return math.NaN(), math.NaN(), nil }

func (b *bare) act(ctx context.Context, step, pods int) error {
	if step == start {
		return b.start(ctx, pods)
	}
	return b.update(ctx, pods)
}

// start creates pods and opens their readiness gates: two writes each.
func (b *bare) start(ctx context.Context, pods int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(b.writers[start])
	spec := b.bench.template("bare").Spec
	owner, err := b.owner(ctx)
	if err != nil {
		return err
	}
	for i := range pods {
		group.Go(func() error {
			pod := &corev1.Pod{ObjectMeta: metadata(owner, i), Spec: spec}
			if err := b.send(ctx, b.request(b.client.CoreV1().RESTClient().Post()).Body(pod)); err != nil {
				return err
			}
			return b.patchConditions(ctx, pod.Name, met("InPlaceUpdateReady"), met("KruisePodReady"))
		})
	}
	return group.Wait()
}

// owner is of a size with a set, and does nothing.
func (b *bare) owner(ctx context.Context) (*metav1.OwnerReference, error) {
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "bare-"}}
	owner, err := b.client.CoreV1().ConfigMaps(b.bench.namespace).Create(ctx, owner, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap")), nil
}

// metadata is that of a CloneSet's pod, for clients of OpenKruise.
func metadata(owner *metav1.OwnerReference, i int) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: fmt.Sprintf("bare-%d", i), OwnerReferences: []metav1.OwnerReference{*owner},
		Labels: map[string]string{
			"app": "bare", shared.LabelInstanceID: fmt.Sprintf("%05d", i), shared.LabelControllerRevisionHash: revisions[start],
			shared.LabelPodTemplateHash: revisions[start], shared.LabelLifecycleState: string(shared.StateNormal),
		},
		Annotations: map[string]string{shared.AnnotationLifecycleTimestamp: time.Now().UTC().Format(time.RFC3339)},
	}
}

// update moves all pods to the other image, a fifth at a time: three writes each, the last when the node has restarted the container.
func (b *bare) update(ctx context.Context, pods int) error {
	writers := make(chan struct{}, b.writers[update])
	write := func(request func() error) error {
		writers <- struct{}{}
		defer func() { <-writers }()
		return request()
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(pods*unavailable/100, 1))
	for _, name := range b.pods.names() {
		group.Go(func() error { return b.updateOne(ctx, name, write) })
	}
	return group.Wait()
}

func (b *bare) updateOne(ctx context.Context, name string, write func(func() error) error) error {
	before, image := b.pods.get(name).Status.ContainerStatuses[0], b.bench.images[update]
	err := write(func() error {
		if err := b.patchConditions(ctx, name, outOfService...); err != nil {
			return err
		}
		return b.patchImage(ctx, name, image, before.ImageID)
	})
	if err != nil {
		return err
	}
	err = b.pods.await(ctx, name, func(pod *corev1.Pod) bool {
		status := pod.Status.ContainerStatuses[0]
		return imageOf(pod) == image && pod.Status.ObservedGeneration >= pod.Generation && status.ContainerID != before.ContainerID && status.State.Running != nil
	})
	if err != nil {
		return err
	}
	err = write(func() error { return b.patchConditions(ctx, name, met("InPlaceUpdateReady")) })
	if err != nil {
		return err
	}
	return b.pods.await(ctx, name, isReady)
}

// patchImage sets the image, and notes the update for clients of OpenKruise.
func (b *bare) patchImage(ctx context.Context, pod, image, former string) error {
	now := metav1.Now()
	state, err := json.Marshal(shared.InPlaceUpdateState{
		Revision: revisions[update], UpdateTimestamp: now, UpdateImages: true,
		LastContainerStatuses:  map[string]shared.InPlaceContainerStatus{"main": {ImageID: former}},
		ContainerBatchesRecord: []shared.InPlaceContainerBatch{{Timestamp: now, Containers: []string{"main"}}},
	})
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{
			"labels":      map[string]string{shared.LabelControllerRevisionHash: revisions[update], shared.LabelPodTemplateHash: revisions[update]},
			"annotations": map[string]string{shared.AnnotationInPlaceState: string(state)},
		},
		"spec": map[string]any{"containers": []map[string]string{{"name": "main", "image": image}}},
	})
	if err != nil {
		return err
	}
	return b.patch(ctx, pod, body)
}

// outOfService has Ready in the kubelet's words, so the kubelet need not write it.
var outOfService = []corev1.PodCondition{
	{Type: "InPlaceUpdateReady", Status: corev1.ConditionFalse, Reason: "StartInPlaceUpdate"},
	{
		Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ReadinessGatesNotReady",
		Message: `the status of pod readiness gate "InPlaceUpdateReady" is not "True", but False`,
	},
}

func met(gate corev1.PodConditionType) corev1.PodCondition {
	return corev1.PodCondition{Type: gate, Status: corev1.ConditionTrue}
}

func (b *bare) patchConditions(ctx context.Context, pod string, conditions ...corev1.PodCondition) error {
	conditions = slices.Clone(conditions)
	for i := range conditions {
		conditions[i].LastTransitionTime = metav1.Now()
	}
	body, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": conditions}})
	if err != nil {
		return err
	}
	return b.patch(ctx, pod, body, "status")
}

func (b *bare) patch(ctx context.Context, pod string, body []byte, subresource ...string) error {
	patch := b.client.CoreV1().RESTClient().Patch(types.StrategicMergePatchType)
	return b.send(ctx, b.request(patch).Name(pod).SubResource(subresource...).Body(body))
}

func (b *bare) request(r *rest.Request) *rest.Request {
	return r.Namespace(b.bench.namespace).Resource("pods").SetHeader("Accept", metadataOnly)
}

// send does not decode the response unless it is an error.
func (b *bare) send(ctx context.Context, r *rest.Request) error { return r.Do(ctx).Error() }
