// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/confirmation"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/kube/pages"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
	"github.com/kruise-operator/kruise-operator/internal/takeover"
)

// Names of OpenKruise, as in its chart.
const (
	// managerName is the Deployment of its manager.
	managerName = "kruise-controller-manager"
	// serviceName is the Service of its webhooks and conversions.
	serviceName = "kruise-webhook-service"
	// The webhook configurations.
	mutatingName   = "kruise-mutating-webhook-configuration"
	validatingName = "kruise-validating-webhook-configuration"
)

// named is how many objects a finding names.
const named = 5

// Cluster is the part of a cluster a takeover concerns.
type Cluster struct {
	Leases   []LeaseState
	Webhooks []Webhooks
	CRDs     []CRD
	Managers []Manager
	Daemons  []types.NamespacedName
	// Unconfirmed are kinds an upgrade has not confirmed, with their numbers of objects.
	Unconfirmed confirmation.Waiting
	// Version is the version of Kubernetes.
	Version string
	// Users are StatefulSets with a dangerous field, by feature gate.
	Users map[features.Gate][]string
	// Leader holds the Lease of this operator; empty when nobody does.
	Leader string
	// OpenRequests have not ended, WaitingPods wait for the node daemon in an update in place.
	OpenRequests, WaitingPods []types.NamespacedName
}

// LeaseState is a Lease of a manager.
type LeaseState struct {
	types.NamespacedName
	Holder string
	Status takeover.LeaseStatus
}

// Manager is a Deployment of OpenKruise's manager.
type Manager struct {
	types.NamespacedName
	Replicas int32
	Args     []string
}

// Reading is how a cluster is read.
type Reading struct {
	// Client asks the API server directly.
	Client client.Client
	Clock  clock.WithTicker
	// Lease is the Lease of this operator's leader.
	Lease types.NamespacedName
	// Table is all kinds of this operator.
	Table kinds.Table
	// Version is the version of Kubernetes.
	Version string
	// Progress hears of each wait.
	Progress func(string)
}

// Read reads the cluster. A Lease nobody renews takes as long as it is valid.
func (r Reading) Read(ctx context.Context) (Cluster, error) {
	c := Cluster{Version: r.Version}
	for _, read := range []func(context.Context, *Cluster) error{r.readWebhooks, r.readCRDs, r.readObjects, r.readPods, r.readOurs, r.readManagers} {
		if err := read(ctx, &c); err != nil {
			return Cluster{}, fmt.Errorf("reading the cluster: %w", err)
		}
	}
	return c, nil
}

// readOurs reads the record of an earlier version of this operator, and the leader.
func (r Reading) readOurs(ctx context.Context, c *Cluster) (err error) {
	if c.Unconfirmed, err = confirmation.FindWaiting(ctx, r.Client, r.Client.RESTMapper(), r.Lease, r.Table); err != nil {
		return err
	}
	lease, err := takeover.ReadLease(ctx, r.Client, r.Lease)
	if lease != nil {
		c.Leader = ptr.Deref(lease.Spec.HolderIdentity, "")
	}
	return err
}

// readManagers looks for managers and their Leases wherever conversions lead.
func (r Reading) readManagers(ctx context.Context, c *Cluster) error {
	namespaces := map[string]bool{takeover.Namespace: true}
	for _, crd := range c.CRDs {
		namespaces[crd.ConvertedBy.Namespace] = true
	}
	delete(namespaces, "")
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		if err := r.readManager(ctx, namespace, c); err != nil {
			return err
		}
		lease, err := r.readLease(ctx, types.NamespacedName{Namespace: namespace, Name: takeover.LeaseName})
		if err != nil {
			return err
		}
		if lease.Status != takeover.NoLease {
			c.Leases = append(c.Leases, lease)
		}
	}
	return nil
}

// readLease watches a Lease until it is renewed or has lapsed.
func (r Reading) readLease(ctx context.Context, name types.NamespacedName) (LeaseState, error) {
	var observer takeover.LeaseObserver
	first := ""
	for {
		lease, err := takeover.ReadLease(ctx, r.Client, name)
		if err != nil {
			return LeaseState{}, err
		}
		status := observer.Observe(lease, r.Clock.Now())
		if status != takeover.Renewed {
			return LeaseState{name, observer.Holder(), status}, nil
		}
		switch now := lease.Spec.String(); first {
		case "":
			first = now
			r.Progress(fmt.Sprintf("watching Lease %s for up to %s: is it renewed?", name, observer.Remaining()))
		case now:
		default:
			return LeaseState{name, observer.Holder(), status}, nil
		}
		select {
		case <-r.Clock.After(min(observer.Next(), time.Second)):
		case <-ctx.Done():
			return LeaseState{}, ctx.Err()
		}
	}
}

// readObjects lists every kind in OpenKruise's groups in its stored version: nobody may convert others any more.
func (r Reading) readObjects(ctx context.Context, c *Cluster) error {
	c.Users = map[features.Gate][]string{}
	for i := range c.CRDs {
		crd := &c.CRDs[i]
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: crd.Group, Version: crd.Storage, Kind: crd.Kind + "List"})
		for page, err := range pages.All(ctx, r.Client, list) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				crd.Unread = err.Error()
			}
			for i := range page.Items {
				crd.Objects = append(crd.Objects, nameOf(&page.Items[i]))
				c.look(crd.Kind, &page.Items[i])
			}
		}
	}
	return nil
}

func nameOf(o client.Object) string {
	return strings.TrimPrefix(client.ObjectKeyFromObject(o).String(), "/")
}

// look looks into objects of two kinds.
func (c *Cluster) look(kind string, o *unstructured.Unstructured) {
	switch kind {
	case "ContainerRecreateRequest":
		if ended, _, _ := unstructured.NestedString(o.Object, "status", "completionTime"); ended == "" {
			c.OpenRequests = append(c.OpenRequests, client.ObjectKeyFromObject(o))
		}
	case "StatefulSet":
		if start, _, _ := unstructured.NestedInt64(o.Object, "spec", "ordinals", "start"); start != 0 {
			c.Users[features.StatefulSetStartOrdinal] = append(c.Users[features.StatefulSetStartOrdinal], nameOf(o))
		}
		policy, _, _ := unstructured.NestedStringMap(o.Object, "spec", "persistentVolumeClaimRetentionPolicy")
		if policy["whenScaled"] == "Delete" || policy["whenDeleted"] == "Delete" {
			c.Users[features.StatefulSetAutoDeletePVC] = append(c.Users[features.StatefulSetAutoDeletePVC], nameOf(o))
		}
	}
}

// readPods finds pods in an update in need of the node daemon.
func (r Reading) readPods(ctx context.Context, c *Cluster) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	for page, err := range pages.All(ctx, r.Client, list, client.MatchingLabels{shared.LabelLifecycleState: string(shared.StateUpdating)}) {
		if err != nil {
			return err
		}
		for i := range page.Items {
			var state struct {
				UpdateEnvFromMetadata bool `json:"updateEnvFromMetadata"`
			}
			pod := &page.Items[i]
			if json.Unmarshal([]byte(pod.Annotations[shared.AnnotationInPlaceState]), &state) == nil && state.UpdateEnvFromMetadata {
				c.WaitingPods = append(c.WaitingPods, client.ObjectKeyFromObject(pod))
			}
		}
	}
	return nil
}

// readManager finds the manager's Deployment, and the node daemon.
func (r Reading) readManager(ctx context.Context, namespace string, c *Cluster) error {
	deployment, daemon := &appsv1.Deployment{}, &appsv1.DaemonSet{}
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: managerName}, deployment)
	if err == nil {
		m := Manager{NamespacedName: client.ObjectKeyFromObject(deployment), Replicas: ptr.Deref(deployment.Spec.Replicas, 1)}
		for _, container := range deployment.Spec.Template.Spec.Containers {
			m.Args = slices.Concat(m.Args, container.Command, container.Args)
		}
		c.Managers = append(c.Managers, m)
	}
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	err = r.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: takeover.DaemonName}, daemon)
	if err == nil {
		c.Daemons = append(c.Daemons, client.ObjectKeyFromObject(daemon))
	}
	return client.IgnoreNotFound(err)
}
