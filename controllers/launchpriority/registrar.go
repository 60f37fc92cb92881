// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package launchpriority

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/launch"
	"github.com/kruise-operator/kruise-operator/internal/kube/installowner"
	"github.com/kruise-operator/kruise-operator/internal/kube/registration"
)

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingadmissionpolicies,verbs=get;create;patch;delete,resourceNames=kruise-operator-launch-priority
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingadmissionpolicybindings,verbs=get;create;patch;delete,resourceNames=kruise-operator-launch-priority
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies,verbs=get;create;patch;delete,resourceNames=kruise-operator-launch-priority
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicybindings,verbs=get;create;patch;delete,resourceNames=kruise-operator-launch-priority
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations,verbs=get;list;watch;create;update;patch;delete,resourceNames=kruise-operator-pods-launch-priority
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterrolebindings,verbs=get,resourceNames=kruise-operator-manager;"kruise-operator-manager-service-system:auth-delegator"
// +kubebuilder:rbac:groups="",resources=pods,verbs=create

const (
	// verifyEvery is how often it is looked whether what is registered is there and in force.
	verifyEvery = 10 * time.Minute
	// proofRetry is when a proof that failed is tried again, proofTimeout for how long that often: API servers learn of a policy within
	// a second or so.
	proofRetry   = time.Second
	proofTimeout = 10 * time.Second
)

// Registrar keeps what makes the API server order the containers of all pods: a policy of the API server's own where that works, and a webhook for
// the pods that the policy leaves. Where the policy is not served, has no effect or is not wanted, the webhook is for all pods that ask for
// an order. Without the feature gate there is nothing of all this. It is for the leader alone.
type Registrar struct {
	// Client writes; Live reads past the cache.
	Client client.Client
	Live   client.Reader
	// On says that containers of all pods are ordered.
	On bool
	// PreferPolicy uses policies of the API server where they work.
	PreferPolicy bool
	// Namespace is the operator's.
	Namespace string
	// Call is how the API server calls the operator at a path. Nil: it does not, so there is no webhook.
	Call  func(path string) (map[string]any, error)
	Clock clock.PassiveClock

	// written says that the policies are there as they should be, as far as this process knows, since then.
	written time.Time
	// proven says that the last proof of the policy held.
	proven bool
}

// Reconcile implements reconcile.Reconciler. It is asked once at the start.
func (r *Registrar) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	changes, refuses, err := launch.Policies(r.Namespace)
	if err != nil {
		return ctrl.Result{}, reconcile.TerminalError(err)
	}
	if !r.On {
		return ctrl.Result{}, r.remove(ctx, slices.Concat(changes, refuses, []*unstructured.Unstructured{webhookObject()}))
	}
	owner, err := installowner.Find(ctx, r.Live)
	if errors.Is(err, installowner.ErrNone) {
		ctrl.LoggerFrom(ctx).Info("Containers of pods of others are not ordered: " + err.Error())
		return ctrl.Result{RequeueAfter: verifyEvery}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return r.register(ctx, owner, changes, refuses)
}

// register has everything in force: first what refuses, then a way for every pod. The webhook is for all of them until the policy is proven.
func (r *Registrar) register(ctx context.Context, owner metav1.OwnerReference, changes, refuses []*unstructured.Unstructured) (ctrl.Result, error) {
	served, err := r.served()
	if err != nil {
		return ctrl.Result{}, err // which is no reason to take back what is in force
	}
	byPolicy := r.PreferPolicy && served
	if r.written.IsZero() || r.Clock.Now().Sub(r.written) >= verifyEvery {
		if err := r.apply(ctx, owner, refuses); err != nil {
			return ctrl.Result{}, err
		}
		if byPolicy {
			if err := r.apply(ctx, owner, changes); err != nil {
				return ctrl.Result{}, err
			}
		} else {
			// The webhook takes over the pods of the policy before that is gone.
			if err := r.writeWebhook(ctx, owner, false); err != nil {
				return ctrl.Result{}, err
			}
			if err := r.remove(ctx, changes); err != nil {
				return ctrl.Result{}, err
			}
		}
		r.written = r.Clock.Now()
	}
	was := r.proven
	r.proven = byPolicy && r.prove(ctx)
	if err := r.writeWebhook(ctx, owner, r.proven); err != nil {
		return ctrl.Result{}, err
	}
	if r.proven != was {
		ctrl.LoggerFrom(ctx).Info("Containers of pods start in the order that they ask for", "byPolicy", r.proven)
	}
	if byPolicy && !r.proven && r.Clock.Now().Sub(r.written) < proofTimeout {
		return ctrl.Result{RequeueAfter: proofRetry}, nil
	}
	return ctrl.Result{RequeueAfter: verifyEvery}, nil
}

// served says whether the API server knows policies that change objects.
func (r *Registrar) served() (bool, error) {
	kind := admissionv1.SchemeGroupVersion.WithKind("MutatingAdmissionPolicy")
	_, err := r.Client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("asking whether policies that change objects are served: %w", err)
	}
	return true, nil
}

func (r *Registrar) apply(ctx context.Context, owner metav1.OwnerReference, objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		object.SetOwnerReferences([]metav1.OwnerReference{owner})
		if _, err := registration.Keep(ctx, r.Live, r.Client, object); err != nil {
			return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// remove deletes what is there.
func (r *Registrar) remove(ctx context.Context, objects []*unstructured.Unstructured) error {
	return registration.Remove(ctx, r.Live, r.Client, objects...)
}

func webhookObject() *unstructured.Unstructured {
	return registration.MutatingWebhooks(launch.WebhookConfiguration)
}

// writeWebhook makes the webhook be for all pods that ask, or for those alone that the policy leaves.
func (r *Registrar) writeWebhook(ctx context.Context, owner metav1.OwnerReference, narrow bool) error {
	if r.Call == nil {
		return r.remove(ctx, []*unstructured.Unstructured{webhookObject()})
	}
	return registration.Webhook{
		Name: launch.WebhookConfiguration, Owner: owner, Path: launch.Path, Call: r.Call,
		Entry: func(call admissionv1.WebhookClientConfig) admissionv1.MutatingWebhook {
			return launch.Webhook(r.Namespace, narrow, call)
		},
	}.Keep(ctx, r.Live, r.Client)
}

// prove has the API server order one pod and refuse another one, in dry runs that only the policies look at. A policy can be served without effect,
// so nothing else tells. Both halves count: each begins to act at a time of its own, and the webhook that is narrowed after this refuses pods, too.
func (r *Registrar) prove(ctx context.Context) bool {
	pod := examplePod()
	if err := r.Client.Create(ctx, pod, client.DryRunAll); err != nil {
		return unproven(ctx, err.Error())
	}
	if len(launch.Containers(pod)) != len(pod.Spec.Containers) {
		return unproven(ctx, "the containers of a pod were not ordered")
	}
	refused := examplePod()
	refused.Annotations = nil
	refused.Spec.Containers[1].Env = []corev1.EnvVar{{Name: shared.EnvContainerPriority, Value: "none"}}
	err := r.Client.Create(ctx, refused, client.DryRunAll)
	if err == nil {
		return unproven(ctx, "a pod with a priority that is no number was not refused")
	}
	return strings.Contains(err.Error(), launch.BadPriority) || unproven(ctx, err.Error())
}

// unproven is that the policies are not known to be in force.
func unproven(ctx context.Context, reason string) bool {
	ctrl.LoggerFrom(ctx).Info("Cannot prove that the policy of launch priorities is in force; the webhook stays", "reason", strings.TrimSpace(reason))
	return false
}

// examplePod is one that strict namespaces admit, too. It is for dry runs only.
func examplePod() *corev1.Pod {
	little := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m"), corev1.ResourceMemory: resource.MustParse("4Mi")}
	container := func(name string) corev1.Container {
		return corev1.Container{
			Name: name, Image: "example.com/dry-run-only", Resources: corev1.ResourceRequirements{Limits: little, Requests: little},
			SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: ptr.To(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
		}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceDefault, Name: "kruise-operator-launch-priority-proof",
			Labels:      map[string]string{launch.ProofLabel: launch.ProofPolicy},
			Annotations: map[string]string{shared.AnnotationLaunchPriority: shared.LaunchInOrder},
		},
		Spec: corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers:      []corev1.Container{container("first"), container("second")},
		},
	}
}
