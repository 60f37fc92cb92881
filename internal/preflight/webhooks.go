// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"
	"fmt"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/controllers/sidecarset"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
	"github.com/kruise-operator/kruise-operator/internal/kube/pages"
)

// Webhooks are OpenKruise's configurations of webhooks; nil where there is none, or none with entries.
type Webhooks struct {
	Mutating   *admissionv1.MutatingWebhookConfiguration
	Validating *admissionv1.ValidatingWebhookConfiguration
}

func (r Reading) readWebhooks(ctx context.Context, c *Cluster) error {
	mutating, validating := &admissionv1.MutatingWebhookConfiguration{}, &admissionv1.ValidatingWebhookConfiguration{}
	for name, object := range map[string]client.Object{mutatingName: mutating, validatingName: validating} {
		if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, object); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	c.Webhooks = Webhooks{}
	if len(mutating.Webhooks) > 0 {
		c.Webhooks.Mutating = mutating
	}
	if len(validating.Webhooks) > 0 {
		c.Webhooks.Validating = validating
	}
	return nil
}

// createsPods says that no pod can be created while nobody answers.
func createsPods(entry admissionv1.MutatingWebhook) bool {
	return slices.ContainsFunc(entry.Rules, func(rule admissionv1.RuleWithOperations) bool {
		return slices.Contains(rule.Resources, "pods") && (slices.Contains(rule.Operations, admissionv1.Create) || slices.Contains(rule.Operations, admissionv1.OperationAll))
	})
}

func findWebhooks(c Cluster, _ Options) (all []Finding) {
	next := "when OpenKruise has stopped and this operator runs: " + Program + " --remove-webhooks"
	if m := c.Webhooks.Mutating; m != nil {
		all = append(all, Blocker.of("mutatingwebhookconfiguration "+m.Name, next,
			"has %d entries of OpenKruise. When it has stopped, what they are asked about fails, the creation of any pod included", len(m.Webhooks)))
	}
	if v := c.Webhooks.Validating; v != nil {
		all = append(all, Blocker.of("validatingwebhookconfiguration "+v.Name, next,
			"has %d entries of OpenKruise. When it has stopped, what they are asked about fails", len(v.Webhooks)))
	}
	return all
}

const (
	// injectedWithin is how long this operator may take to inject all SidecarSets, settled how long API servers may take to learn of it.
	injectedWithin = 30 * time.Second
	settled        = 2 * time.Second
)

// RemoveWebhooks removes OpenKruise's webhooks, that on new pods last, once this operator injects: until then nobody creates a pod without its sidecars.
// It refuses while OpenKruise runs.
func RemoveWebhooks(ctx context.Context, c client.Client, found Cluster, w Options, report func(string)) error {
	mutating := found.Webhooks.Mutating
	if mutating == nil && found.Webhooks.Validating == nil {
		return nil
	}
	if found.mayRun() {
		return fmt.Errorf("not removing webhooks: %w", errRuns)
	}
	if err := remove(ctx, c, &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: validatingName}}, report); err != nil || mutating == nil {
		return err
	}
	mutating = mutating.DeepCopy()
	mutating.Webhooks = slices.DeleteFunc(mutating.Webhooks, func(entry admissionv1.MutatingWebhook) bool { return !createsPods(entry) })
	if len(mutating.Webhooks) > 0 && slices.Contains(w.Served, sidecarset.Kind().Kind) {
		if err := c.Update(ctx, mutating); err != nil {
			return fmt.Errorf("removing webhooks from %s: %w", mutatingName, err)
		}
		if err := awaitInjection(ctx, c, report); err != nil {
			return err
		}
	}
	return remove(ctx, c, mutating, report)
}

// remove deletes an object, if it is there.
func remove(ctx context.Context, c client.Client, object client.Object, report func(string)) error {
	kind, err := c.GroupVersionKindFor(object)
	if err != nil {
		return err
	}
	if err := client.IgnoreNotFound(c.Delete(ctx, object)); err != nil {
		return fmt.Errorf("deleting %s %s: %w", kind.Kind, nameOf(object), err)
	}
	report(kind.Kind + " " + nameOf(object) + " deleted")
	return nil
}

// awaitInjection returns when this operator has injected every SidecarSet for a while, or an error that names those which it does not inject.
func awaitInjection(ctx context.Context, c client.Client, report func(string)) error {
	report("waiting until this operator injects all SidecarSets")
	var missing []string
	err := wait.PollUntilContextTimeout(ctx, time.Second, injectedWithin, true, func(ctx context.Context) (done bool, err error) {
		missing, err = notInjected(ctx, c)
		return len(missing) == 0, err
	})
	if wait.Interrupted(err) && len(missing) > 0 {
		return fmt.Errorf("not removing the webhook on new pods: this operator does not inject the SidecarSets %s, so that pods would be created without them. "+
			"Start it, and look at `Not acting` in its log and at their condition InjectionPath; pause injection of those that it cannot inject", some(missing))
	}
	if err != nil {
		return fmt.Errorf("asking which SidecarSets are injected: %w", err)
	}
	select {
	case <-ctx.Done():
	case <-time.After(settled):
	}
	return ctx.Err()
}

// notInjected are the SidecarSets whose injection a dry run does not show. What cannot be decoded, or is paused, is injected by nobody.
func notInjected(ctx context.Context, c client.Client) (missing []string, err error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(sidecarset.Kind().GroupVersion().WithKind(sidecarset.Kind().Kind + "List"))
	for page, err := range pages.All(ctx, c, list) {
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			set, err := sidecar.ParseSet(page.Items[i].Object)
			if err != nil || set.Paused || page.Items[i].GetDeletionTimestamp() != nil {
				continue
			}
			probe, possible := set.Match.Probe()
			if !possible {
				continue
			}
			if err := c.Create(ctx, probe, client.DryRunAll); err != nil {
				return nil, err
			}
			if probe.Annotations[sidecar.ProbeMark(set.Name)] == "" {
				missing = append(missing, set.Name)
			}
		}
	}
	return missing, nil
}
