// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"
	"fmt"
	"slices"
	"strings"
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

// Webhooks is a configuration of OpenKruise's webhooks. It always has these names, whatever its webhooks call.
type Webhooks struct {
	Kind, Name string
	Entries    int
}

func (r Reading) readWebhooks(ctx context.Context, c *Cluster) error {
	c.Webhooks = []Webhooks{{Kind: "MutatingWebhookConfiguration", Name: mutatingName}, {Kind: "ValidatingWebhookConfiguration", Name: validatingName}}
	for i := range c.Webhooks {
		w, object := &c.Webhooks[i], &unstructured.Unstructured{}
		object.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind(w.Kind))
		if err := r.Client.Get(ctx, client.ObjectKey{Name: w.Name}, object); client.IgnoreNotFound(err) != nil {
			return err
		}
		entries, _, _ := unstructured.NestedSlice(object.Object, "webhooks")
		w.Entries = len(entries)
	}
	c.Webhooks = slices.DeleteFunc(c.Webhooks, func(w Webhooks) bool { return w.Entries == 0 }) // it asks nobody
	return nil
}

func findWebhooks(c Cluster, _ Options) (all []Finding) {
	for _, w := range c.Webhooks {
		all = append(all, Blocker.of(strings.ToLower(w.Kind)+" "+w.Name, "when OpenKruise has stopped and this operator runs: "+Program+" --remove-webhooks",
			"has %d entries of OpenKruise. When it has stopped, what they are asked about fails, such as the creation of any pod", w.Entries))
	}
	return all
}

// createsPods is true if creating pods needs an answer.
func createsPods(entry admissionv1.MutatingWebhook) bool {
	return slices.ContainsFunc(entry.Rules, func(rule admissionv1.RuleWithOperations) bool {
		return slices.Contains(rule.Resources, "pods") && (slices.Contains(rule.Operations, admissionv1.Create) || slices.Contains(rule.Operations, admissionv1.OperationAll))
	})
}

const (
	// injectedWithin is how long this operator may take to inject all SidecarSets, settled how long API servers may take to learn of it.
	injectedWithin = 30 * time.Second
	settled        = 2 * time.Second
)

// RemoveWebhooks removes OpenKruise's webhooks. The one on new pods goes last, once this operator injects: until then nobody
// creates a pod without its sidecars.
func RemoveWebhooks(ctx context.Context, c client.Client, found *Cluster, w Options, report func(string)) error {
	if len(found.Webhooks) == 0 {
		return nil
	}
	if found.mayRun() {
		return fmt.Errorf("not removing webhooks: %w", errRuns)
	}
	if err := remove(ctx, c, &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: validatingName}}, report); err != nil {
		return err
	}
	mutating := &admissionv1.MutatingWebhookConfiguration{}
	if err := c.Get(ctx, client.ObjectKey{Name: mutatingName}, mutating); client.IgnoreNotFound(err) != nil {
		return err
	}
	mutating.Webhooks = slices.DeleteFunc(mutating.Webhooks, func(entry admissionv1.MutatingWebhook) bool { return !createsPods(entry) })
	if len(mutating.Webhooks) > 0 && slices.Contains(w.Served, sidecarset.Kind().Kind) {
		if err := c.Update(ctx, mutating); err != nil {
			return fmt.Errorf("removing webhooks from %s: %w", mutatingName, err)
		}
		if err := awaitInjection(ctx, c, report); err != nil {
			return err
		}
	}
	found.Webhooks = nil
	return remove(ctx, c, &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: mutatingName}}, report)
}

// remove deletes an object, if it is there.
func remove(ctx context.Context, c client.Client, object client.Object, report func(string)) error {
	if err := client.IgnoreNotFound(c.Delete(ctx, object)); err != nil {
		return fmt.Errorf("deleting %s: %w", object.GetName(), err)
	}
	report(object.GetName() + " deleted")
	return nil
}

// awaitInjection waits until this operator has injected every SidecarSet for a while, or names the others.
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

// notInjected are the SidecarSets without effect on a dry run. Nobody injects paused or undecodable ones.
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
			if policy, webhook := sidecar.Marks(probe, set.Name); policy == "" && webhook == "" {
				missing = append(missing, set.Name)
			}
		}
	}
	return missing, nil
}
