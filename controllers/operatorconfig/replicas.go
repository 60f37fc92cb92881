// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package operatorconfig

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

const (
	// configurationAnnotation and roleAnnotation are a replica's announcements on its own pod.
	configurationAnnotation = "operator.kruise.io/configuration"
	roleAnnotation          = "operator.kruise.io/role"
	// poll is how often a change is followed until all replicas have it, restEvery how often pods are listed at rest.
	poll      = time.Second
	restEvery = 20 * time.Second
	// drain is how long a replica is not ready before it ends: three probes of config/manager/manager.yaml, and a moment for the Service.
	drain = 9 * time.Second
	// crdDelay is how long the leader lets standbys go first when a CRD has come.
	crdDelay = 30 * time.Second
)

// managers select the operator's own pods.
func managers() client.MatchingLabels {
	return client.MatchingLabels{"app.kubernetes.io/name": "kruise-operator", "app.kubernetes.io/component": "manager"}
}

// observe lists the replicas with an announced configuration. New pods have the newest.
func (r *Reconciler) observe(ctx context.Context) error {
	if r.Pods == "" {
		return nil
	}
	var pods corev1.PodList
	if err := r.Live.List(ctx, &pods, client.InNamespace(r.Pods), managers()); err != nil {
		return fmt.Errorf("listing the operator's own pods: %w", err)
	}
	r.replicas, r.observed = nil, r.Clock.Now()
	for i := range pods.Items {
		pod := &pods.Items[i]
		over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || pod.DeletionTimestamp != nil
		if said := pod.Annotations[configurationAnnotation]; said != "" && !over {
			r.replicas = append(r.replicas, Replica{
				Name: pod.Name, Configuration: said, Ready: podstate.Ready(pod),
				Leads: pod.Annotations[roleAnnotation] == string(operatorv1alpha1.ReplicaLeader),
			})
		}
	}
	return nil
}

// announce writes this replica's configuration to its own pod.
func (r *Reconciler) announce(ctx context.Context, leads bool) error {
	role := roleOf(leads)
	if r.Pods == "" || r.announced == role {
		return nil
	}
	pod := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: r.Pods, Name: r.Self}}
	pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	before := pod.DeepCopy()
	pod.Annotations = map[string]string{configurationAnnotation: r.Running, roleAnnotation: string(role)}
	if err := r.Client.Patch(ctx, pod, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the configuration to the own pod: %w", err)
	}
	r.announced = role
	return nil
}

func roleOf(leads bool) operatorv1alpha1.ReplicaRole {
	if leads {
		return operatorv1alpha1.ReplicaLeader
	}
	return operatorv1alpha1.ReplicaStandby
}

// end ends the process when it is its turn, and says when to look again.
func (r *Reconciler) end(ctx context.Context, wanted string, leads bool, waitsFor []string) (again time.Duration) {
	now := r.Clock.Now()
	switch {
	case len(waitsFor) > 0:
		r.stay()
		return poll
	case wanted == r.Running && leads && now.Sub(r.appeared) < crdDelay:
		return poll
	case r.endsAt.IsZero() && len(r.replicas) > 1:
		r.endsAt = now.Add(drain)
		r.Draining.Store(true)
	}
	if left := r.endsAt.Sub(now); left > 0 {
		return left
	}
	ctrl.LoggerFrom(ctx).Info("Ending to start again with the changed configuration", "running", r.Running, "wanted", wanted, "leader", leads)
	r.ended = true
	r.End()
	return 0
}

// stay makes this replica ready again.
func (r *Reconciler) stay() {
	r.endsAt = time.Time{}
	r.Draining.Store(false)
}
