// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
	"github.com/kruise-operator/kruise-operator/controllers/rollout/braking"
	"github.com/kruise-operator/kruise-operator/internal/engine/brake"
	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
	"github.com/kruise-operator/kruise-operator/internal/hooks"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/manifests"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
)

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingadmissionpolicies;mutatingadmissionpolicybindings,verbs=get;list;watch;create;patch;delete,resourceNames=kruise-operator-release-brake
// +kubebuilder:rbac:groups=apps,resources=deployments;statefulsets;daemonsets,verbs=list;patch

const (
	// hookName is that of the one hook, policyName that of the policy.
	hookName, policyName = "brake.rollouts.operator.kruise.io", "kruise-operator-release-brake"
	// proofLabel marks dry runs that prove the policy: the webhook leaves them.
	proofLabel = "operator.kruise.io/release-brake-proof"
	// maxProofs is how many workloads are tried for a proof.
	maxProofs = 20
)

// Policies make the API server hold new templates by itself.
func Policies(c *config.Config) ([]*hooks.Policy, error) {
	objects, err := manifests.Decode([]byte(brake.Policy))
	if err != nil {
		return nil, err
	}
	return []*hooks.Policy{{Name: policyName, Objects: objects, Prove: prover{c.Namespace}.prove}}, nil
}

// Hook is on updates of workloads that have a Rollout.
func Hook() *hooks.Hook {
	scope := admissionv1.NamespacedScope
	return &hooks.Hook{
		Name: hookName, Order: hooks.Arrange, Mutates: true, Path: braking.Path, Again: true, Seconds: 5,
		Resource: appsv1.SchemeGroupVersion.WithResource("deployments"), Verbs: []admissionv1.OperationType{admissionv1.Update},
		Also: []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{admissionv1.Update},
			Rule:       admissionv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"statefulsets", "daemonsets"}, Scope: &scope},
		}},
		ObjectSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: shared.LabelWorkloadType, Operator: metav1.LabelSelectorOpExists}}},
		Conditions:     conditions(), Policy: policyName,
	}
}

// conditions are those of the policy, and that there is something to hold. So a call that fails keeps nobody from anything else.
func conditions() []admissionv1.MatchCondition {
	objects, err := manifests.Decode([]byte(brake.Policy))
	if err != nil {
		return nil // a test decodes it
	}
	var policy admissionv1.MutatingAdmissionPolicy
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects[0].Object, &policy); err != nil {
		return nil
	}
	variables := policy.Spec.Variables
	changed := variables[slices.IndexFunc(variables, func(v admissionv1.Variable) bool { return v.Name == "changed" })].Expression
	id := `object.metadata.?labels[?'` + shared.RolloutID + `'].orValue('') != oldObject.metadata.?labels[?'` + shared.RolloutID + `'].orValue('')`
	notes := `['` + shared.AnnotationRollout + `', '` + shared.AnnotationSequence + `', '` + shared.AnnotationControl + `', '` + shared.AnnotationOriginal + `', '` +
		shared.AnnotationInProgressing + `', '` + shared.RolloutID + `'].exists(k, ` +
		`object.metadata.?annotations[?k].orValue('') != oldObject.metadata.?annotations[?k].orValue(''))`
	return append(policy.Spec.MatchConditions,
		admissionv1.MatchCondition{Name: "not-a-proof", Expression: `!(request.?dryRun.orValue(false) && '` + proofLabel + `' in object.metadata.?labels.orValue({}))`},
		admissionv1.MatchCondition{
			Name: "to-be-held", Expression: changed + ` || ` + id + ` || ` + notes +
				` || !('` + shared.LabelWorkloadType + `' in object.metadata.?labels.orValue({}))` +
				` || '` + shared.AnnotationInProgressing + `' in oldObject.metadata.?annotations.orValue({}) && object.spec != oldObject.spec`,
		})
}

// prover proves the policy by a dry run with a workload that it is for.
type prover struct{ namespace string }

// errNotHeld means that nothing holds a new template.
var errNotHeld = errors.New("a new template was not held, in a dry run")

func (p prover) prove(ctx context.Context, live client.Reader, dryRun client.Client) error {
	for _, row := range rollable.All() {
		if !row.Native {
			continue
		}
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(row.Kind.GroupVersion().WithKind(row.Kind.Kind + "List"))
		if err := live.List(ctx, list, client.HasLabels{shared.LabelWorkloadType}, client.Limit(maxProofs)); err != nil {
			return fmt.Errorf("listing workloads: %w", err)
		}
		for i := range list.Items {
			at := &list.Items[i]
			if at.Annotations[shared.AnnotationRollout] == "" || at.DeletionTimestamp != nil || at.Namespace == p.namespace || at.Namespace == metav1.NamespaceSystem {
				continue
			}
			if err := held(ctx, dryRun, row.Kind, client.ObjectKeyFromObject(at), map[string]any{proofLabel: "policy"}); !apierrors.IsNotFound(err) {
				return err
			}
		}
	}
	return nil // nothing is to be held
}

// held proves by a dry run that a new template of a workload is held. An update without our note gets it back.
func held(ctx context.Context, dryRun client.Client, kind schema.GroupVersionKind, key types.NamespacedName, labels map[string]any) error {
	answer := workload.Metadata(kind)
	answer.Namespace, answer.Name = key.Namespace, key.Name
	patch, _ := json.Marshal(map[string]any{
		"metadata": map[string]any{"labels": labels, "annotations": map[string]any{shared.AnnotationRollout: nil}},
		"spec":     map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": map[string]any{proofLabel: "dry-run"}}}},
	})
	if err := dryRun.Patch(ctx, answer, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("updating %s %s in a dry run: %w", kind.Kind, key, err)
	}
	if answer.Annotations[shared.AnnotationRollout] == "" {
		return errNotHeld
	}
	return nil
}
