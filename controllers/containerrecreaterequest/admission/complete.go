// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/conversion/wire"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/restart"
	"github.com/kruise-operator/kruise-operator/internal/engine/virtualnode"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// +kubebuilder:rbac:groups="",resources=pods,verbs=get
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get

// conditionTerminated is on a pod whose sidecars are being stopped: it may have ended.
const conditionTerminated = "SidecarTerminated"

// Cluster is where pods and nodes are looked up.
type Cluster struct {
	// Reader reads pods and nodes. It should not be cached: the IDs that are filled in have to be those of now.
	Reader client.Reader
}

type request = appsv1beta1.ContainerRecreateRequest

// completeWith returns what ties a new request to its pod.
func (c Cluster) completeWith(o Options) func(context.Context, string, *request) field.ErrorList {
	return func(ctx context.Context, namespace string, r *request) field.ErrorList {
		if !o.Daemon {
			return field.ErrorList{field.Forbidden(field.NewPath("spec"), "feature gate KruiseDaemon is off, and nobody would carry the request out")}
		}
		if r.Spec.PodName == "" || len(r.Spec.Containers) == 0 {
			return nil // Validate says so
		}
		path := field.NewPath("spec", "podName")
		pod := &corev1.Pod{}
		if err := c.get(ctx, client.ObjectKey{Namespace: namespace, Name: r.Spec.PodName}, pod, path, "there is no such pod in the namespace of the request"); err != nil {
			return field.ErrorList{err}
		}
		if why := unfit(pod); why != "" {
			return field.ErrorList{field.Invalid(path, pod.Name, why)}
		}
		node := &corev1.Node{}
		if err := c.get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, node, path, fmt.Sprintf("its node %s does not exist", pod.Spec.NodeName)); err != nil {
			return field.ErrorList{err}
		}
		return complete(r, pod, node)
	}
}

// get reads an object. What the API server does not answer refuses the request, too.
func (c Cluster) get(ctx context.Context, key client.ObjectKey, object client.Object, path *field.Path, missing string) *field.Error {
	ctx, cancel := context.WithTimeout(ctx, admit.LookupTimeout)
	defer cancel()
	err := ctx.Err()
	if err == nil {
		err = c.Reader.Get(ctx, key, object)
	}
	switch {
	case apierrors.IsNotFound(err):
		return field.Invalid(path, key.Name, missing)
	case err != nil:
		return field.InternalError(path, fmt.Errorf("looking up %s: %w", key.Name, err))
	}
	return nil
}

// unfit says why no container of a pod can be restarted; empty when that is possible.
func unfit(pod *corev1.Pod) string {
	stopping := podstate.Condition(pod, conditionTerminated) != nil
	switch {
	case pod.Spec.NodeName == "":
		return "the pod is on no node yet"
	case !restart.Findable(pod.Spec.NodeName):
		return "the name of its node is longer than the 63 characters of a label, by which the daemon of the node would find the request"
	case stopping:
		return ""
	case pod.DeletionTimestamp != nil:
		return "the pod is being deleted"
	case podstate.Finished(pod):
		return fmt.Sprintf("the pod has ended (%s)", pod.Status.Phase)
	}
	return ""
}

// complete fills in what the pod says.
func complete(r *request, pod *corev1.Pod, node *corev1.Node) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[string]()
	for i := range r.Spec.Containers {
		if len(errs) >= wire.MaxErrors {
			return errs // Each may list all containers of the pod.
		}
		path := field.NewPath("spec", "containers").Index(i)
		if name := r.Spec.Containers[i].Name; seen.Has(name) {
			errs = append(errs, field.Duplicate(path.Child("name"), name))
			continue
		}
		seen.Insert(r.Spec.Containers[i].Name)
		errs = append(errs, completeContainer(&r.Spec.Containers[i], pod, path)...)
	}
	if len(errs) > 0 {
		return errs
	}
	if r.Spec.Strategy.TerminationGracePeriodSeconds == nil {
		r.Spec.Strategy.TerminationGracePeriodSeconds = pod.Spec.TerminationGracePeriodSeconds
	}
	if r.Labels == nil {
		r.Labels = map[string]string{}
	}
	r.Labels[appsv1beta1.LabelRequestPodUID] = string(pod.UID)
	r.Labels[appsv1beta1.LabelRequestNode] = pod.Spec.NodeName
	r.Labels[appsv1beta1.LabelRequestActive] = "true"
	if virtualnode.Is(node) {
		r.Labels[appsv1beta1.LabelNodeType] = appsv1beta1.NodeTypeVirtual
	}
	return nil
}

// completeContainer fills in one container. What the user wrote where only admission writes has to be what would be written.
func completeContainer(c *appsv1beta1.ContainerRecreateRequestContainer, pod *corev1.Pod, path *field.Path) field.ErrorList {
	of, _ := restart.Find(pod, c.Name)
	if of == nil {
		return field.ErrorList{field.NotSupported(path.Child("name"), c.Name, restartable(pod))}
	}
	status := restart.StatusOf(pod, c.Name)
	if status == nil || status.ContainerID == "" {
		return field.ErrorList{field.Invalid(path.Child("name"), c.Name, "the container has not been started yet")}
	}
	is := appsv1beta1.ContainerRecreateRequestContainer{
		Name:          c.Name,
		StatusContext: &appsv1beta1.ContainerRecreateRequestContainerContext{ContainerID: status.ContainerID, RestartCount: status.RestartCount},
	}
	if of.Lifecycle != nil && of.Lifecycle.PreStop != nil {
		hook := of.Lifecycle.PreStop
		is.PreStop = &appsv1beta1.ProbeHandler{Exec: hook.Exec, HTTPGet: hook.HTTPGet, TCPSocket: hook.TCPSocket, Sleep: hook.Sleep}
		if hook.HTTPGet != nil {
			is.Ports = of.Ports
		}
	}
	var errs field.ErrorList
	const why = "is filled in at admission from the pod; leave it out"
	if c.PreStop != nil && !equality.Semantic.DeepEqual(c.PreStop, is.PreStop) {
		errs = append(errs, field.Forbidden(path.Child("preStop"), why))
	}
	if len(c.Ports) > 0 && !equality.Semantic.DeepEqual(c.Ports, is.Ports) {
		errs = append(errs, field.Forbidden(path.Child("ports"), why))
	}
	if c.StatusContext != nil && *c.StatusContext != *is.StatusContext {
		errs = append(errs, field.Forbidden(path.Child("statusContext"), why))
	}
	*c = is
	return errs
}

// Retain brings back what admission filled in when the request was created and an update of the same manifest leaves out. A container that says
// anything of it stays as it is written, and is refused if that differs.
func Retain(r, old *request) {
	stored := map[string]*appsv1beta1.ContainerRecreateRequestContainer{}
	for i := range old.Spec.Containers {
		stored[old.Spec.Containers[i].Name] = &old.Spec.Containers[i]
	}
	for i := range r.Spec.Containers {
		c := &r.Spec.Containers[i]
		if was := stored[c.Name]; was != nil && equality.Semantic.DeepEqual(*c, appsv1beta1.ContainerRecreateRequestContainer{Name: c.Name}) {
			*c = *was.DeepCopy()
		}
	}
}

// restartable are the names of the containers of a pod that a request may name: what restart.Find finds.
func restartable(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			names = append(names, c.Name)
		}
	}
	for i := range pod.Spec.Containers {
		names = append(names, pod.Spec.Containers[i].Name)
	}
	return names
}
