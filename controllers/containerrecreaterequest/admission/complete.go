// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/conversion/wire"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/restart"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// +kubebuilder:rbac:groups="",resources=pods,verbs=get

// conditionTerminated is on a pod with stopping sidecars: it may have ended.
const conditionTerminated = "SidecarTerminated"

// Cluster is where pods are looked up.
type Cluster struct {
	// Reader reads pods, uncached: a request is bound to the present instances.
	Reader client.Reader
}

type request = appsv1beta1.ContainerRecreateRequest

// completeWith binds a new request to its pod.
func (c Cluster) completeWith(daemon bool) func(context.Context, string, *request) field.ErrorList {
	return func(ctx context.Context, namespace string, r *request) field.ErrorList {
		if !daemon {
			return field.ErrorList{field.Forbidden(field.NewPath("spec"), "feature gate KruiseDaemon is off, and nobody would carry the request out")}
		}
		if r.Spec.PodName == "" || len(r.Spec.Containers) == 0 {
			return nil // Validate says so
		}
		path := field.NewPath("spec", "podName")
		pod, err := c.pod(ctx, client.ObjectKey{Namespace: namespace, Name: r.Spec.PodName}, path, "there is no such pod in the namespace of the request")
		if err != nil {
			return field.ErrorList{err}
		}
		if why := unfit(pod); why != "" {
			return field.ErrorList{field.Invalid(path, pod.Name, why)}
		}
		return pin(r, pod)
	}
}

// lookUp permits only completions matching the pod.
func (c Cluster) lookUp(ctx context.Context, r, old *request) (field.ErrorList, []string) {
	if old == nil || old.Labels[restart.LabelPin] == "" || r.Labels[restart.LabelPin] != "" {
		return nil, nil
	}
	path := field.NewPath("spec")
	pod, err := c.pod(ctx, client.ObjectKey{Namespace: old.Namespace, Name: old.Spec.PodName}, path, "there is no such pod")
	if err != nil {
		return field.ErrorList{err}, nil
	}
	_, virtual := r.Labels[appsv1beta1.LabelNodeType]
	want := old.DeepCopy()
	restart.Fill(want, pod, virtual)
	if !restart.Pinned(old, pod) || !equality.Semantic.DeepEqual(want.Spec, r.Spec) || !maps.Equal(want.Labels, r.Labels) {
		return field.ErrorList{field.Forbidden(path, "can only be filled in by the operator; delete the request and create another one")}, nil
	}
	return nil, nil
}

// pod reads a pod. Any failure refuses the request.
func (c Cluster) pod(ctx context.Context, key client.ObjectKey, path *field.Path, missing string) (*corev1.Pod, *field.Error) {
	ctx, cancel := context.WithTimeout(ctx, admit.LookupTimeout)
	defer cancel()
	pod, err := &corev1.Pod{}, ctx.Err()
	if err == nil {
		err = c.Reader.Get(ctx, key, pod)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, field.Invalid(path, key.Name, missing)
	case err != nil:
		return nil, field.InternalError(path, fmt.Errorf("looking up %s: %w", key.Name, err))
	}
	return pod, nil
}

// unfit explains why a pod's containers cannot be restarted; empty:
// they can. Anybody can ask, so it reveals nothing of the pod.
func unfit(pod *corev1.Pod) string {
	ended := podstate.Condition(pod, conditionTerminated) == nil && (pod.DeletionTimestamp != nil || podstate.Finished(pod))
	if ended || pod.Spec.NodeName == "" || !restart.Findable(pod.Spec.NodeName) {
		return "nothing of the pod can be restarted: it is on no node yet, is being deleted or has ended, or its node's name is longer than the 63 characters of a label"
	}
	return ""
}

// pin ties a request to the pod as it is.
func pin(r *request, pod *corev1.Pod) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[string]()
	for i := range r.Spec.Containers {
		if len(errs) >= wire.MaxErrors {
			return errs
		}
		path := field.NewPath("spec", "containers").Index(i)
		if name := r.Spec.Containers[i].Name; seen.Has(name) {
			errs = append(errs, field.Duplicate(path.Child("name"), name))
			continue
		}
		seen.Insert(r.Spec.Containers[i].Name)
		errs = append(errs, unfilled(&r.Spec.Containers[i], pod, path)...)
	}
	if len(errs) > 0 {
		return errs
	}
	for _, key := range []string{appsv1beta1.LabelRequestPodUID, appsv1beta1.LabelRequestNode, appsv1beta1.LabelRequestActive} {
		delete(r.Labels, key)
	}
	salt := make([]byte, 8)
	_, _ = rand.Read(salt) // never fails
	metav1.SetMetaDataLabel(&r.ObjectMeta, restart.LabelPin, restart.Pin(salt, r, pod))
	return nil
}

// unfilled requires a started container, without fields filled in later.
func unfilled(c *appsv1beta1.ContainerRecreateRequestContainer, pod *corev1.Pod, path *field.Path) field.ErrorList {
	if of, _ := restart.Find(pod, c.Name); of == nil {
		return field.ErrorList{field.Invalid(path.Child("name"), c.Name, "the pod has no such container that is restarted: a regular one, or an init container with restartPolicy Always")}
	}
	if status := restart.StatusOf(pod, c.Name); status == nil || status.ContainerID == "" {
		return field.ErrorList{field.Invalid(path.Child("name"), c.Name, "the container has not been started yet")}
	}
	var errs field.ErrorList
	const why = "is filled in from the pod; leave it out"
	if c.PreStop != nil {
		errs = append(errs, field.Forbidden(path.Child("preStop"), why))
	}
	if len(c.Ports) > 0 {
		errs = append(errs, field.Forbidden(path.Child("ports"), why))
	}
	if c.StatusContext != nil {
		errs = append(errs, field.Forbidden(path.Child("statusContext"), why))
	}
	return errs
}

// Retain restores completions missing in an updated manifest. A
// container with some of its own stays, and is refused if they differ.
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
