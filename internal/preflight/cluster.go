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
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/confirmation"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/takeover"
)

// page is how many objects one request lists, named how many of them a finding names.
const (
	page  = 500
	named = 5
)

// Cluster is what OpenKruise has in a cluster, as far as a takeover is concerned.
type Cluster struct {
	Leases   []LeaseState
	Webhooks []Webhooks
	CRDs     []CRD
	Objects  []Objects
	Managers []Manager
	Daemons  []types.NamespacedName
	// Unconfirmed are kinds that wait for the administrator after an upgrade to this version, with how many objects each has.
	Unconfirmed confirmation.Waiting
	// Version is that of Kubernetes, as the API server says it; empty when it was not asked.
	Version string
	// Uses are what stored objects have whose effect a takeover may change.
	Uses []Users
	// Leader holds the Lease of this operator; empty when nobody does.
	Leader string
	// OpenRequests are ContainerRecreateRequests that have not ended.
	OpenRequests []types.NamespacedName
	// WaitingPods wait for the node daemon in the middle of an update in place.
	WaitingPods []types.NamespacedName
}

// LeaseState is a Lease of OpenKruise's manager.
type LeaseState struct {
	types.NamespacedName
	Holder string
	Status takeover.LeaseStatus
}

// Objects are the objects of one kind.
type Objects struct {
	schema.GroupKind
	Resource string
	Count    int
	// Names are some of them, Finalizers how many have which finalizer of OpenKruise's.
	Names      []string
	Finalizers map[string]int
	// Malformed are those whose spec is not that of a workload, each with the reason.
	Malformed []string
	// Unread is why they could not be listed.
	Unread string
}

// Manager is a Deployment of OpenKruise's manager.
type Manager struct {
	types.NamespacedName
	Replicas int32
	Args     []string
	// RevisionNamespace is where it keeps the revisions of SidecarSets.
	RevisionNamespace string
}

// Reading is how a cluster is read.
type Reading struct {
	// Client asks the API server directly.
	Client client.Client
	Clock  clock.WithTicker
	// Lease is that of this operator's leader, where an earlier version of it may have left a record.
	Lease types.NamespacedName
	// Table is all kinds that this operator has.
	Table kinds.Table
	// Version asks for the version of Kubernetes. It may be nil.
	Version func() (string, error)
	// Progress is told what is waited for. It may be nil.
	Progress func(string)
}

// Read reads the cluster. It changes nothing. It takes as long as a Lease is valid when one exists that nobody renews.
func (r Reading) Read(ctx context.Context) (Cluster, error) {
	var c Cluster
	namespaces := map[string]bool{takeover.Namespace: true}
	for _, step := range []struct {
		what string
		do   func(context.Context, *Cluster) error
	}{
		{"the version of Kubernetes", r.readVersion},
		{"webhook configurations", r.readWebhooks},
		{"custom resource definitions", r.readCRDs},
		{"objects", r.readObjects},
		{"pods", r.readPods},
		{"what an earlier version of this operator served", r.readUnconfirmed},
		{"the Lease of this operator", r.readLeader},
	} {
		if err := step.do(ctx, &c); err != nil {
			return Cluster{}, fmt.Errorf("reading %s: %w", step.what, err)
		}
	}
	for _, w := range c.Webhooks {
		for _, namespace := range w.Namespaces {
			namespaces[namespace] = true
		}
	}
	for _, crd := range c.CRDs {
		if crd.ConvertedBy.Namespace != "" {
			namespaces[crd.ConvertedBy.Namespace] = true
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		if err := r.readManager(ctx, namespace, &c); err != nil {
			return Cluster{}, fmt.Errorf("reading the manager in namespace %s: %w", namespace, err)
		}
		if err := r.readLease(ctx, types.NamespacedName{Namespace: namespace, Name: takeover.LeaseName}, &c); err != nil {
			return Cluster{}, fmt.Errorf("reading the Lease in namespace %s: %w", namespace, err)
		}
	}
	return c, nil
}

func (r Reading) readUnconfirmed(ctx context.Context, c *Cluster) (err error) {
	c.Unconfirmed, err = confirmation.FindWaiting(ctx, r.Client, r.Client.RESTMapper(), r.Lease, r.Table)
	return err
}

func (r Reading) readLeader(ctx context.Context, c *Cluster) error {
	lease, err := takeover.ReadLease(ctx, r.Client, r.Lease)
	if lease != nil {
		c.Leader = ptr.Deref(lease.Spec.HolderIdentity, "")
	}
	return err
}

func (r Reading) readVersion(_ context.Context, c *Cluster) (err error) {
	if r.Version != nil {
		c.Version, err = r.Version()
	}
	return err
}

// readAgain reads anew what removing webhooks and clearing conversions changes.
func (r Reading) readAgain(ctx context.Context, c *Cluster) error {
	c.Webhooks, c.CRDs = nil, nil
	if err := r.readWebhooks(ctx, c); err != nil {
		return fmt.Errorf("reading webhook configurations: %w", err)
	}
	if err := r.readCRDs(ctx, c); err != nil {
		return fmt.Errorf("reading custom resource definitions: %w", err)
	}
	return nil
}

// readLease watches a Lease until it is renewed or has lapsed.
func (r Reading) readLease(ctx context.Context, name types.NamespacedName, c *Cluster) error {
	var observer takeover.LeaseObserver
	first, told := "", false
	for {
		lease, err := takeover.ReadLease(ctx, r.Client, name)
		if err != nil {
			return err
		}
		status := observer.Observe(lease, r.Clock.Now())
		if status == takeover.NoLease {
			return nil
		}
		renewed := leaseMark(lease)
		if first == "" {
			first = renewed
		}
		if status == takeover.Expired || renewed != first {
			c.Leases = append(c.Leases, LeaseState{NamespacedName: name, Holder: observer.Holder(), Status: status})
			return nil
		}
		if !told && r.Progress != nil {
			r.Progress(fmt.Sprintf("watching Lease %s for up to %s: is it renewed?", name, observer.Remaining()))
			told = true
		}
		timer := r.Clock.NewTimer(min(observer.Next(), time.Second))
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

func leaseMark(lease *coordinationv1.Lease) string {
	mark, _ := json.Marshal(lease.Spec) //nolint:errchkjson // a Lease that the server sent can be sent
	return string(mark)
}

// readObjects counts the objects of every kind in OpenKruise's groups, in the version in which they are stored: reading another one
// would need a conversion that may have no server any more. Of workloads it looks at the spec, too.
func (r Reading) readObjects(ctx context.Context, c *Cluster) error {
	for _, crd := range c.CRDs {
		objects := Objects{GroupKind: crd.GroupKind, Resource: crd.Resource, Finalizers: map[string]int{}}
		count := func(o client.Object) (name string) {
			name = strings.TrimPrefix(client.ObjectKeyFromObject(o).String(), "/")
			objects.Count++
			if len(objects.Names) < named {
				objects.Names = append(objects.Names, name)
			}
			for _, finalizer := range o.GetFinalizers() {
				if strings.Contains(finalizer, "kruise.io") {
					objects.Finalizers[finalizer]++
				}
			}
			return name
		}
		kind := schema.GroupVersionKind{Group: crd.Group, Version: crd.Storage, Kind: crd.Kind + "List"}
		var err error
		switch {
		case crd.Kind == "ContainerRecreateRequest":
			err = r.eachWhole(ctx, kind, func(o *unstructured.Unstructured) {
				count(o)
				if ended, _, _ := unstructured.NestedString(o.Object, "status", "completionTime"); ended == "" {
					c.OpenRequests = append(c.OpenRequests, client.ObjectKeyFromObject(o))
				}
			})
		case isWorkload(crd.GroupKind):
			resource := crd.Resource + "." + crd.Group
			err = r.eachWhole(ctx, kind, func(o *unstructured.Unstructured) {
				name := count(o)
				uses, unreadable := usesOf(crd.Kind, o.Object)
				if unreadable != nil && len(objects.Malformed) <= named {
					objects.Malformed = append(objects.Malformed, fmt.Sprintf("%s: %v", name, unreadable))
				}
				for _, u := range uses {
					c.addUse(u, resource, name)
				}
			})
		default:
			err = r.each(ctx, kind, nil, func(o *metav1.PartialObjectMetadata) { count(o) })
		}
		if err != nil {
			if ctx.Err() != nil {
				return err
			}
			objects.Unread = err.Error()
		}
		c.Objects = append(c.Objects, objects)
	}
	return nil
}

// isWorkload says that objects of the kind have a template of pods in spec.template.
func isWorkload(kind schema.GroupKind) bool {
	return kind.Group == "apps.kruise.io" && slices.Contains([]string{"StatefulSet", "CloneSet", "DaemonSet", "BroadcastJob"}, kind.Kind)
}

// readPods finds pods in the middle of an update that only the node daemon can finish.
func (r Reading) readPods(ctx context.Context, c *Cluster) error {
	updating := labels.SelectorFromSet(labels.Set{shared.LabelLifecycleState: string(shared.StateUpdating)})
	return r.each(ctx, corev1.SchemeGroupVersion.WithKind("PodList"), updating, func(pod *metav1.PartialObjectMetadata) {
		var state struct {
			UpdateEnvFromMetadata bool `json:"updateEnvFromMetadata"`
		}
		text := pod.Annotations[shared.AnnotationInPlaceState]
		if json.Unmarshal([]byte(text), &state) == nil && state.UpdateEnvFromMetadata {
			c.WaitingPods = append(c.WaitingPods, client.ObjectKeyFromObject(pod))
		}
	})
}

// each visits the metadata of all objects of a list kind, page by page.
func (r Reading) each(ctx context.Context, kind schema.GroupVersionKind, selector labels.Selector, visit func(*metav1.PartialObjectMetadata)) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind)
	for {
		if err := r.Client.List(ctx, list, &client.ListOptions{LabelSelector: selector, Limit: page, Continue: list.Continue}); err != nil {
			return err
		}
		for i := range list.Items {
			visit(&list.Items[i])
		}
		if list.Continue == "" {
			return nil
		}
	}
}

// eachWhole visits all objects of a list kind, page by page.
func (r Reading) eachWhole(ctx context.Context, kind schema.GroupVersionKind, visit func(*unstructured.Unstructured)) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	for {
		if err := r.Client.List(ctx, list, &client.ListOptions{Limit: page, Continue: list.GetContinue()}); err != nil {
			return err
		}
		for i := range list.Items {
			visit(&list.Items[i])
		}
		if list.GetContinue() == "" {
			return nil
		}
	}
}

// readManager finds the manager's Deployment by its name or as what the webhook Service leads to, and the node daemon.
func (r Reading) readManager(ctx context.Context, namespace string, c *Cluster) error {
	service := &corev1.Service{}
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: serviceName}, service)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	deployments := &appsv1.DeploymentList{}
	if err := r.Client.List(ctx, deployments, client.InNamespace(namespace)); err != nil {
		return err
	}
	for _, d := range deployments.Items {
		behind := len(service.Spec.Selector) > 0 && labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(d.Spec.Template.Labels))
		if d.Name == managerName || behind {
			c.Managers = append(c.Managers, manager(&d))
		}
	}
	daemon := &appsv1.DaemonSet{}
	err = r.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: daemonName}, daemon)
	if err == nil {
		c.Daemons = append(c.Daemons, client.ObjectKeyFromObject(daemon))
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func manager(d *appsv1.Deployment) Manager {
	m := Manager{NamespacedName: client.ObjectKeyFromObject(d), Replicas: ptr.Deref(d.Spec.Replicas, 1), RevisionNamespace: d.Namespace}
	if len(d.Spec.Template.Spec.Containers) == 0 {
		return m
	}
	container := d.Spec.Template.Spec.Containers[0]
	for i := range d.Spec.Template.Spec.Containers {
		if d.Spec.Template.Spec.Containers[i].Name == "manager" {
			container = d.Spec.Template.Spec.Containers[i]
		}
	}
	m.Args = append(slices.Clone(container.Command), container.Args...)
	for _, variable := range container.Env {
		if variable.Name == "POD_NAMESPACE" && variable.Value != "" {
			m.RevisionNamespace = variable.Value
		}
	}
	return m
}
