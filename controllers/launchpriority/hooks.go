// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package launchpriority

import (
	"context"
	_ "embed" // policy.yaml
	"errors"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/controllers/launchpriority/podlaunch"
	"github.com/kruise-operator/kruise-operator/internal/engine/launch"
	"github.com/kruise-operator/kruise-operator/internal/hooks"
	"github.com/kruise-operator/kruise-operator/internal/manifests"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
)

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingadmissionpolicies;mutatingadmissionpolicybindings,verbs=get;list;watch;create;patch;delete,resourceNames=kruise-operator-launch-priority
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies,verbs=get;list;watch;create;patch;delete,resourceNames=kruise-operator-launch-priority
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicybindings,verbs=get;list;watch;create;patch;delete,resourceNames=kruise-operator-launch-priority
// +kubebuilder:rbac:groups="",resources=pods,verbs=create

//go:embed policy.yaml
var policyText string

const (
	// orders and refuses name the two policies.
	orders, refuses = "kruise-operator-launch-priority", "kruise-operator-launch-priority-values"
	// proofLabel marks pods in dry runs proving the policies: the webhook ignores them.
	proofLabel = "operator.kruise.io/launch-priority-proof"

	asks = `object.metadata.?annotations[?'apps.kruise.io/container-launch-priority'].orValue('') == 'Ordered' ` +
		`|| object.spec.containers.exists(c, c.?env.orValue([]).exists(e, e.name == 'KRUISE_CONTAINER_PRIORITY'))`
	// beyond selects the pods the policy cannot handle: their names must be generated, and they have no token with
	// random characters in its name.
	beyond = `object.metadata.?name.orValue('') == '' ` +
		`&& !object.spec.?volumes.orValue([]).exists(v, v.name.matches('^kube-api-access-[bcdfghjklmnpqrstvwxz2456789]{5}$'))`
)

// Policies make the API server order pods' containers and refuse invalid priorities.
func Policies(*config.Config) ([]*hooks.Policy, error) {
	objects, err := manifests.Decode([]byte(policyText))
	if err != nil {
		return nil, err
	}
	return []*hooks.Policy{{Name: orders, Objects: objects[:2], Prove: prove}, {Name: refuses, Objects: objects[2:]}}, nil
}

func registered(c *config.Config) []*hooks.Hook {
	if !c.Features.Enabled(features.ContainerLaunchPriority) {
		return nil
	}
	return Hooks()
}

// Hooks are on all pods asking for an order.
func Hooks() []*hooks.Hook {
	return []*hooks.Hook{
		{
			Name: "launch-priority.operator.kruise.io", Order: hooks.Arrange, Mutates: true,
			Resource: corev1.SchemeGroupVersion.WithResource("pods"), Verbs: []admissionv1.OperationType{admissionv1.Create},
			ObjectSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: proofLabel, Operator: metav1.LabelSelectorOpDoesNotExist}}},
			Conditions:     []admissionv1.MatchCondition{{Name: "asks-for-an-order", Expression: asks}},
			Path:           podlaunch.Path, Again: true,
			Policy: orders, Beyond: []admissionv1.MatchCondition{{Name: "beyond-the-policy", Expression: beyond}},
		},
		{Name: "launch-priority-values.operator.kruise.io", Policy: refuses},
	}
}

// prove makes the API server order one pod and refuse another, in dry runs only the policies see. Each policy
// takes effect in its own time, and the webhook narrowed afterwards refuses pods, too.
func prove(ctx context.Context, _ client.Reader, dryRun client.Client) error {
	pod := examplePod()
	if err := dryRun.Create(ctx, pod); err != nil {
		return err
	}
	if len(launch.Containers(pod)) != len(pod.Spec.Containers) {
		return errors.New("the containers of a pod were not ordered")
	}
	refused := examplePod()
	refused.Annotations = nil
	refused.Spec.Containers[1].Env = []corev1.EnvVar{{Name: shared.EnvContainerPriority, Value: "none"}}
	err := dryRun.Create(ctx, refused)
	if err == nil {
		return errors.New("a pod with a priority that is no number was not refused")
	}
	if !strings.Contains(err.Error(), launch.BadPriority) {
		return err
	}
	return nil
}

// examplePod passes strict namespaces, too. It is for dry runs only.
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
			Labels:      map[string]string{proofLabel: "policy"},
			Annotations: map[string]string{shared.AnnotationLaunchPriority: shared.LaunchInOrder},
		},
		Spec: corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers:      []corev1.Container{container("first"), container("second")},
		},
	}
}
