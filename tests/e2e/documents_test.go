// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
	policyv1beta1 "github.com/kruise-operator/kruise-operator/api/policy/v1beta1"
	rolloutsv1alpha1 "github.com/kruise-operator/kruise-operator/api/rollouts/v1alpha1"
	rolloutsv1beta1 "github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// samples are of the whole cluster in part, and the scorecard deletes them.
var samples sync.RWMutex

// TestSamples applies all samples as a user does, and waits until their sets are available. The scorecard applies them one by one.
func TestSamples(t *testing.T) {
	t.Parallel()
	samples.Lock()
	defer samples.Unlock()
	applied(t, "-k", "../../config/samples")
	kruise := &operatorv1alpha1.Kruise{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	t.Cleanup(func() {
		if err := env.Client.Delete(context.WithoutCancel(t.Context()), kruise); err != nil {
			t.Error(err)
		}
	})
	env.Namespace(t).Eventually("every kind is managed", func(ctx context.Context) error {
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(kruise), kruise); err != nil {
			return err
		}
		for _, name := range controllers.Table().Switchable().Names() {
			managed := func(k operatorv1alpha1.KindStatus) bool { return k.Kind == name && k.State == operatorv1alpha1.Enabled }
			if !slices.ContainsFunc(kruise.Status.Kinds, managed) {
				return fmt.Errorf("%s is not managed: %+v", name, kruise.Status)
			}
		}
		if !meta.IsStatusConditionTrue(kruise.Status.Conditions, operatorv1alpha1.KruiseAvailable) {
			return fmt.Errorf("the status is %+v", kruise.Status)
		}
		return nil
	})
}

// TestDocumentedManifests applies every manifest of the pages in docs/kinds.
func TestDocumentedManifests(t *testing.T) {
	t.Parallel()
	for page, blocks := range environment.DocumentedManifests(t, "../../docs/kinds") {
		for i, block := range blocks {
			t.Run(fmt.Sprintf("%s-%d", strings.TrimSuffix(page, ".md"), i+1), func(t *testing.T) {
				t.Parallel()
				file := filepath.Join(t.TempDir(), "manifest.yaml")
				if err := os.WriteFile(file, []byte(block), 0o600); err != nil {
					t.Fatal(err)
				}
				applied(t, file)
			})
		}
	}
}

// applied applies a file with kubectl and waits until every set in it is available, with all of its pods.
func applied(t *testing.T, file ...string) {
	t.Helper()
	defaultStorageClass(t)
	n := env.Namespace(t)
	if len(file) == 1 {
		file = []string{"-f", file[0]}
		podsOfRequests(t, n, file)
	}
	out, err := n.Kubectl(append([]string{"apply"}, file...)...)
	if err != nil && len(file) == 2 && file[0] == "-k" { // requests name pods of the same samples, which do not run yet
		n.Eventually("the pods of requests run", func(context.Context) error {
			if out, err = n.Kubectl(append([]string{"apply"}, file...)...); err != nil {
				return fmt.Errorf("%w\n%s", err, out)
			}
			return nil
		})
	}
	ofNode := strings.Contains(out, `nodeimages.apps.kruise.io "`) || strings.Contains(out, `nodepodprobes.apps.kruise.io "`) || strings.Contains(out, `resourcedistributions.apps.kruise.io "`)
	if err != nil && ofNode && strings.Contains(out, "already exists") {
		// The operator, or another test, has just made this object.
		out, err = n.Kubectl(append([]string{"apply"}, file...)...)
	}
	// SidecarSets, NodeImages and ResourceDistributions lie in no namespace, so another test may have created the same one.
	warnings := strings.NewReplacer("Warning: resource sidecarsets/", "", "Warning: resource nodeimages/", "", "Warning: resource resourcedistributions/", "").Replace(out)
	if err != nil || strings.Contains(warnings, "Warning") {
		t.Fatalf("kubectl apply: %v\n%s", err, out)
	}
	found := 0
	for _, kind := range []string{"CloneSet", "DaemonSet", "StatefulSet"} {
		sets := &unstructured.UnstructuredList{}
		sets.SetGroupVersionKind(v1beta1.GroupVersion().WithKind(kind))
		if err := n.Client.List(t.Context(), sets, client.InNamespace(n.Name)); err != nil {
			t.Fatal(err)
		}
		found += len(sets.Items)
		if !slices.Contains(controllers.Table().Switchable().Names(), kind) {
			t.Logf("%d objects of %s were applied, and are not waited for: no controller manages them", len(sets.Items), kind)
			continue
		}
		for _, set := range sets.Items {
			n.EventuallyWithin(2*time.Minute, kind+" "+set.GetName()+" is available", func(ctx context.Context) error {
				is := set.DeepCopy()
				if err := n.Client.Get(ctx, client.ObjectKeyFromObject(&set), is); err != nil {
					return err
				}
				return available(is)
			})
			resource := strings.ToLower(kind) + "s.apps.kruise.io/" + set.GetName()
			if out, err := n.Kubectl("wait", "--for=condition=Available", "--timeout=1m", resource); err != nil {
				t.Errorf("kubectl wait: %v\n%s", err, out)
			}
		}
	}
	found += united(t, n)
	found += requestsTakenUp(t, n)
	found += jobsApplied(t, n)
	found += reconciled(n, out)
	found += distributed(n, out)
	found += budgeted(t, n)
	found += released(t, n)
	found += strings.Count(out, "nodeimage.apps.kruise.io/") + strings.Count(out, "nodepodprobe.apps.kruise.io/") // no daemon runs here
	found += markersTakenUp(t, n)
	jobs := &v1beta1.ImagePullJobList{}
	if err := n.Client.List(t.Context(), jobs, client.InNamespace(n.Name)); err != nil {
		t.Fatal(err)
	}
	if found+len(jobs.Items) == 0 {
		t.Fatalf("nothing of ours was applied:\n%s", out)
	}
	// Pods with finalizers would hold the namespace.
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		pods, err := n.ListPods(ctx)
		if err != nil {
			t.Error(err)
		}
		for i := range pods {
			if len(pods[i].Finalizers) > 0 {
				if err := n.Client.Patch(ctx, &pods[i], client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// united waits until all pods of the UnitedDeployments are ready. It returns how many there are.
func united(t *testing.T, n *environment.Namespace) int {
	t.Helper()
	sets := &v1beta1.UnitedDeploymentList{}
	if err := n.Client.List(t.Context(), sets, client.InNamespace(n.Name)); err != nil {
		t.Fatal(err)
	}
	for i := range sets.Items {
		set := &sets.Items[i]
		n.EventuallyWithin(2*time.Minute, "UnitedDeployment "+set.Name+" is complete", func(ctx context.Context) error {
			if err := n.Client.Get(ctx, client.ObjectKeyFromObject(set), set); err != nil {
				return err
			}
			for _, c := range set.Status.Conditions {
				if c.Type == v1beta1.UnitedDeploymentReconciling && c.Reason == v1beta1.ReasonComplete && set.Status.ReadyReplicas == *set.Spec.Replicas {
					return nil
				}
			}
			return fmt.Errorf("the status is %+v", set.Status)
		})
	}
	return len(sets.Items)
}

// reconciled waits until the SidecarSets applied by kubectl are at rest, and counts them.
// They are cluster-wide, and stay: another test may apply the same.
func reconciled(n *environment.Namespace, out string) int {
	found := 0
	for line := range strings.Lines(out) {
		name, is := strings.CutPrefix(strings.Fields(line)[0], "sidecarset.apps.kruise.io/")
		if !is {
			continue
		}
		found++
		n.Eventually("SidecarSet "+name+" is reconciled", func(ctx context.Context) error {
			set := &v1beta1.SidecarSet{}
			if err := n.Client.Get(ctx, client.ObjectKey{Name: name}, set); err != nil {
				return err
			}
			rests := slices.ContainsFunc(set.Status.Conditions, func(c metav1.Condition) bool {
				return c.Type == string(v1beta1.SidecarSetReconciling) && c.Status == metav1.ConditionFalse
			})
			stalled := slices.ContainsFunc(set.Status.Conditions, func(c metav1.Condition) bool {
				return c.Type == string(v1beta1.SidecarSetStalled) && c.Status == metav1.ConditionTrue
			})
			if !rests || stalled || set.Status.ObservedGeneration != set.Generation || set.Status.LatestRevision == "" {
				return fmt.Errorf("the status is %+v", set.Status)
			}
			return nil
		})
	}
	return found
}

// released waits until the Rollouts, BatchReleases and TrafficRoutings of a namespace have nothing to do.
func released(t *testing.T, n *environment.Namespace) int {
	t.Helper()
	rollouts, releases, routings := &rolloutsv1beta1.RolloutList{}, &rolloutsv1beta1.BatchReleaseList{}, &rolloutsv1alpha1.TrafficRoutingList{}
	if err := errors.Join(n.Client.List(t.Context(), rollouts, client.InNamespace(n.Name)), n.Client.List(t.Context(), releases, client.InNamespace(n.Name))); err != nil {
		t.Fatal(err)
	}
	for i := range rollouts.Items {
		r := &rollouts.Items[i]
		n.Eventually("Rollout "+r.Name+" is healthy and in force", func(ctx context.Context) error {
			if err := n.Client.Get(ctx, client.ObjectKeyFromObject(r), r); err != nil {
				return err
			}
			inForce := slices.ContainsFunc(r.Status.Conditions, func(c rolloutsv1beta1.RolloutCondition) bool {
				return c.Type == rolloutsv1beta1.RolloutConditionGuarded && c.Status == metav1.ConditionTrue
			})
			if r.Status.ObservedGeneration != r.Generation || r.Status.Phase != rolloutsv1beta1.RolloutPhaseHealthy || !inForce {
				return fmt.Errorf("the status is %+v", r.Status)
			}
			return nil
		})
	}
	for i := range releases.Items {
		b := &releases.Items[i]
		n.Eventually("BatchRelease "+b.Name+" is seen", func(ctx context.Context) error {
			err := n.Client.Get(ctx, client.ObjectKeyFromObject(b), b)
			if err == nil && b.Status.ObservedGeneration != b.Generation {
				err = fmt.Errorf("the status is %+v", b.Status)
			}
			return err
		})
	}
	if err := n.Client.List(t.Context(), routings, client.InNamespace(n.Name)); err != nil {
		t.Fatal(err)
	}
	for i := range routings.Items {
		o := &routings.Items[i]
		n.Eventually("TrafficRouting "+o.Name+" is at rest", func(ctx context.Context) error {
			if err := n.Client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil || o.Status.Phase != rolloutsv1alpha1.TrafficRoutingPhaseHealthy {
				return fmt.Errorf("it is %+v: %w", o.Status, err)
			}
			return nil
		})
	}
	return len(rollouts.Items) + len(releases.Items) + len(routings.Items)
}

// distributed waits until the applied ResourceDistributions are observed, and counts them. Secrets need rights that nobody has here,
// and a named namespace is missing.
func distributed(n *environment.Namespace, out string) int {
	found := 0
	for line := range strings.Lines(out) {
		name, is := strings.CutPrefix(strings.Fields(line)[0], "resourcedistribution.apps.kruise.io/")
		if !is {
			continue
		}
		found++
		n.Eventually("ResourceDistribution "+name+" is carried out", func(ctx context.Context) error {
			d := &v1beta1.ResourceDistribution{}
			if err := n.Client.Get(ctx, client.ObjectKey{Name: name}, d); err != nil {
				return err
			}
			atRest := slices.ContainsFunc(d.Status.Conditions, func(c v1beta1.ResourceDistributionCondition) bool {
				return c.Type == v1beta1.ResourceDistributionReconciling && (c.Status == "False" || c.Reason == string(v1beta1.ResourceDistributionNamespaceNotExists)) ||
					c.Reason == v1beta1.ReasonRightsMissing
			})
			if !atRest || d.Status.ObservedGeneration != d.Generation {
				return fmt.Errorf("the status is %+v", d.Status)
			}
			return nil
		})
	}
	return found
}

// budgeted waits until the PodUnavailableBudgets are counted. It returns how many there are.
func budgeted(t *testing.T, n *environment.Namespace) int {
	t.Helper()
	budgets := &policyv1beta1.PodUnavailableBudgetList{}
	if err := n.Client.List(t.Context(), budgets, client.InNamespace(n.Name)); err != nil {
		t.Fatal(err)
	}
	for i := range budgets.Items {
		budget := &budgets.Items[i]
		n.Eventually("PodUnavailableBudget "+budget.Name+" is counted", func(ctx context.Context) error {
			if err := n.Client.Get(ctx, client.ObjectKeyFromObject(budget), budget); err != nil {
				return err
			}
			if budget.Status.ObservedGeneration != budget.Generation {
				return fmt.Errorf("the status is %+v", budget.Status)
			}
			return nil
		})
	}
	return len(budgets.Items)
}

// available names the reason if a set is not: all pods, and the conditions about it.
func available(set *unstructured.Unstructured) error {
	replicas, _, _ := unstructured.NestedInt64(set.Object, "spec", "replicas")
	pods, _, _ := unstructured.NestedInt64(set.Object, "status", "availableReplicas")
	if set.GetKind() == "DaemonSet" { // its partition may keep nodes without a pod
		replicas, _, _ = unstructured.NestedInt64(set.Object, "status", "currentNumberScheduled")
		pods, _, _ = unstructured.NestedInt64(set.Object, "status", "numberAvailable")
	}
	is := map[any]any{}
	conditions, _, _ := unstructured.NestedSlice(set.Object, "status", "conditions")
	for _, c := range conditions {
		if condition, ok := c.(map[string]any); ok {
			is[condition["type"]] = condition["status"]
		}
	}
	if pods != replicas || set.GetKind() == "DaemonSet" && pods == 0 || is["Available"] != "True" || is["Stalled"] == "True" {
		return fmt.Errorf("the status is %v", set.Object["status"])
	}
	return nil
}
