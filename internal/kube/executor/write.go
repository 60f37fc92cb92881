// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/kube/freshness"
)

func kindPod() schema.GroupVersionKind { return corev1.SchemeGroupVersion.WithKind("Pod") }

func kindClaim() schema.GroupVersionKind {
	return corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim")
}

// do carries out one action, and emits its event.
func (e *Executor) do(ctx context.Context, owner client.Object, of freshness.Owner, a podset.Action) error {
	w := &writer{Executor: e, owner: owner, of: of}
	var related runtime.Object
	if a.Pod != nil {
		related = a.Pod
	}
	var err error
	quiet := false
	switch a.Verb {
	case podset.VerbCreate:
		related, quiet, err = w.create(ctx, a)
	case podset.VerbDelete:
		err = w.delete(ctx, kindPod(), a.Pod, a.ExactVersion)
	case podset.VerbEdit:
		err = w.edit(ctx, a)
	case podset.VerbEditClaim:
		related = a.Claim
		err = w.patchClaim(ctx, a)
	case podset.VerbDeleteClaim:
		related = a.Claim
		err = w.delete(ctx, kindClaim(), a.Claim, true)
	case podset.VerbCreateClaim:
		quiet = true
		for _, claim := range a.Claims {
			var made bool
			related = claim
			made, err = w.createClaim(ctx, claim)
			quiet = quiet && !made && err == nil
			if err != nil {
				break
			}
		}
	default:
		err = fmt.Errorf("unknown verb %q", a.Verb)
	}
	if err == nil && !quiet {
		ctrl.LoggerFrom(ctx).V(1).Info("Carried out", "verb", a.Verb, "slot", a.Slot, "reason", a.Reason)
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("Not carried out", "verb", a.Verb, "slot", a.Slot, "reason", a.Reason, "err", err.Error())
	}
	if !quiet {
		e.report(ctx, owner, related, a, err)
	}
	return err
}

// writer sends requests on behalf of one workload.
type writer struct {
	*Executor
	owner client.Object
	of    freshness.Owner
}

// create makes the claims, then the pod, then writes the first edit to it. Quiet says that the event of the action would be wrong:
// the pod was there already, or a claim was refused, which has an event of its own.
func (w *writer) create(ctx context.Context, a podset.Action) (related runtime.Object, quiet bool, err error) {
	for _, claim := range a.Claims {
		made, err := w.createClaim(ctx, claim)
		if err != nil {
			w.report(ctx, w.owner, claim, podset.Action{Verb: podset.VerbCreateClaim, Failure: podset.Event{
				Warning: true, Reason: a.Failure.Reason,
				Message: fmt.Sprintf("create Claim %s Pod %s in %s %s failed error", claim.Name, a.Pod.Name, w.Kind, w.of.Name),
			}}, err)
			return claim, true, err
		}
		if !made {
			continue
		}
		w.emit(w.owner, claim, string(podset.VerbCreateClaim), podset.Event{
			Reason:  a.Success.Reason,
			Message: fmt.Sprintf("create Claim %s Pod %s in %s %s success", claim.Name, a.Pod.Name, w.Kind, w.of.Name),
		})
	}

	pod := a.Pod.DeepCopy()
	err = w.send(ctx, freshness.Create, freshness.Ref{Kind: kindPod(), Name: pod.Name}, func(ctx context.Context) (string, error) {
		err := w.Client.Create(ctx, pod, client.FieldOwner(shared.FieldManager))
		return pod.ResourceVersion, err
	})
	if apierrors.IsAlreadyExists(err) {
		return a.Pod, true, w.adoptAnswer(ctx, a.Pod.Name)
	}
	if err != nil {
		return a.Pod, false, fmt.Errorf("creating pod %s: %w", a.Pod.Name, err)
	}

	// The pod exists: whatever becomes of its first edit, the action succeeded. What is missing will be seen and written later.
	edit := podset.Action{Pod: pod, Edit: a.Edit}
	if err := w.edit(ctx, edit); err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("First edit not written", "Pod", klog.KObj(pod), "err", err.Error())
	}
	return pod, false, nil
}

// adoptAnswer decides what it means that a pod to be created exists: an earlier try of ours that the cache does not show yet is a
// success; one that is being deleted, whoever's it is, and one of an earlier workload of the same name, which the garbage collector
// deletes, will be gone soon; and somebody else's pod is in the way.
func (w *writer) adoptAnswer(ctx context.Context, name string) error {
	found, err := w.look(ctx, kindPod(), name)
	if err != nil {
		return err
	}
	w.Tracker.Wrote(w.of, kindPod(), found.ResourceVersion)
	switch owner := metav1.GetControllerOf(found); {
	case found.DeletionTimestamp != nil:
		return fmt.Errorf("pod %s is still being deleted: %w", name, errBusy)
	case owner != nil && owner.UID == w.of.UID:
		return nil
	case owner != nil && owner.Kind == w.Kind && owner.Name == w.of.Name:
		return fmt.Errorf("pod %s belongs to an earlier %s %s and goes with it: %w", name, owner.Kind, owner.Name, errBusy)
	default:
		holder := "nobody"
		if owner != nil {
			holder = owner.Kind + " " + owner.Name
		}
		return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, name,
			fmt.Errorf("a pod with this name exists and is controlled by %s", holder))
	}
}

// createClaim makes sure that a claim exists. Made says that it did not before.
func (w *writer) createClaim(ctx context.Context, wanted *corev1.PersistentVolumeClaim) (made bool, err error) {
	claim := wanted.DeepCopy()
	err = w.send(ctx, freshness.Create, freshness.Ref{Kind: kindClaim(), Name: claim.Name}, func(ctx context.Context) (string, error) {
		err := w.Client.Create(ctx, claim, client.FieldOwner(shared.FieldManager))
		return claim.ResourceVersion, err
	})
	if !apierrors.IsAlreadyExists(err) {
		if err != nil {
			return false, fmt.Errorf("creating claim %s: %w", wanted.Name, err)
		}
		return true, nil
	}
	found, err := w.look(ctx, kindClaim(), wanted.Name)
	if err != nil {
		return false, err
	}
	w.Tracker.Wrote(w.of, kindClaim(), found.ResourceVersion)
	if found.DeletionTimestamp != nil {
		return false, fmt.Errorf("claim %s is still being deleted: %w", wanted.Name, errBusy)
	}
	return false, nil
}

// edit sends the requests of an edit in order, each with the resourceVersion that the one before returned.
func (w *writer) edit(ctx context.Context, a podset.Action) error {
	resourceVersion := a.Pod.ResourceVersion
	for _, request := range a.Edit.Requests(a.Pod) {
		body, err := request.Body(resourceVersion)
		if err != nil {
			return err
		}
		resourceVersion, err = w.patch(ctx, kindPod(), a.Pod, resourceVersion, request.Subresource, client.RawPatch(request.Type, body))
		if err != nil {
			return fmt.Errorf("patching %s of pod %s: %w", orObject(request.Subresource), a.Pod.Name, err)
		}
	}
	return nil
}

func (w *writer) patchClaim(ctx context.Context, a podset.Action) error {
	_, err := w.patch(ctx, kindClaim(), a.Claim, a.Claim.ResourceVersion, "", client.RawPatch(types.MergePatchType, a.ClaimPatch))
	if err != nil {
		return fmt.Errorf("patching claim %s: %w", a.Claim.Name, err)
	}
	return nil
}

// patch sends one patch and returns the new resourceVersion. It asks for metadata alone, which is cheaper for both sides.
func (w *writer) patch(ctx context.Context, kind schema.GroupVersionKind, object client.Object, decidedOn, subresource string,
	patch client.Patch,
) (string, error) {
	answer := &metav1.PartialObjectMetadata{}
	answer.SetGroupVersionKind(kind)
	answer.Namespace, answer.Name = object.GetNamespace(), object.GetName()
	ref := freshness.Ref{Kind: kind, Name: object.GetName(), UID: object.GetUID(), ResourceVersion: decidedOn}
	err := w.send(ctx, freshness.Patch, ref, func(ctx context.Context) (string, error) {
		var err error
		if subresource == "" {
			err = w.Client.Patch(ctx, answer, patch, client.FieldOwner(shared.FieldManager))
		} else {
			err = w.Client.SubResource(subresource).Patch(ctx, answer, patch, client.FieldOwner(shared.FieldManager))
		}
		return answer.ResourceVersion, err
	})
	return answer.ResourceVersion, err
}

// delete deletes exactly the object that the plan is about and, when asked to, only in the state the plan saw.
func (w *writer) delete(ctx context.Context, kind schema.GroupVersionKind, object client.Object, exactVersion bool) error {
	ref := freshness.RefOf(kind, object)
	preconditions := client.Preconditions{UID: &ref.UID}
	if exactVersion {
		preconditions.ResourceVersion = &ref.ResourceVersion
	}
	target := &metav1.PartialObjectMetadata{}
	target.SetGroupVersionKind(kind)
	target.Namespace, target.Name = object.GetNamespace(), object.GetName()

	w.Tracker.Deleting(w.of, ref)
	err := w.send(ctx, freshness.Delete, ref, func(ctx context.Context) (string, error) {
		return "", w.Client.Delete(ctx, target, preconditions)
	})
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return nil
	case freshness.Judge(err) == freshness.Refused:
		w.Tracker.Definite(w.of, ref.UID)
	}
	what := "pod"
	if kind == kindClaim() {
		what = "claim"
	}
	return fmt.Errorf("deleting %s %s: %w", what, object.GetName(), err)
}

// look reads an object's metadata past the cache.
func (w *writer) look(ctx context.Context, kind schema.GroupVersionKind, name string) (*metav1.PartialObjectMetadata, error) {
	ctx, cancel := context.WithTimeout(ctx, w.WriteTimeout)
	defer cancel()
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(kind)
	err := w.Live.Get(ctx, types.NamespacedName{Namespace: w.of.Namespace, Name: name}, found)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%s %s existed a moment ago: %w", kind.Kind, name, errBusy)
	}
	if err != nil {
		return nil, fmt.Errorf("looking up %s %s: %w", kind.Kind, name, err)
	}
	return found, nil
}

// send sends one write under its deadline and tells the tracker what is known about its outcome.
func (w *writer) send(ctx context.Context, op freshness.Op, ref freshness.Ref, request func(context.Context) (string, error)) error {
	ctx, cancel := context.WithTimeout(ctx, w.WriteTimeout)
	defer cancel()
	resourceVersion, err := request(ctx)
	w.Tracker.Answered(w.of, ref, op, resourceVersion, err)
	return err
}

func orObject(subresource string) string {
	if subresource == "" {
		return "metadata and spec"
	}
	return subresource
}
