// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package olm_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/tests/framework/olm"
	"github.com/kruise-operator/kruise-operator/tests/framework/packaging"
)

const web = `apiVersion: apps.kruise.io/v1beta1
kind: StatefulSet
metadata: {name: web, namespace: shop}
spec:
  replicas: 3
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      readinessGates: [{conditionType: InPlaceUpdateReady}]
      containers: [{name: web, image: "openkruise/guestbook:v1"}]
  updateStrategy:
    type: RollingUpdate
    rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, maxUnavailable: 1, partition: 0}
`

// TestLifecycle is the operator's life in a cluster under OLM: installed over existing
// kinds and objects, configured, upgraded along the channel, and removed while dead.
func TestLifecycle(t *testing.T) {
	w := start(t)
	w.catalog()

	t.Log("kinds and objects are there before the operator, as after another installation")
	for _, definition := range w.definitions(versions()[0]) {
		definition.Spec.Conversion = nil
		if err := w.Client.Create(t.Context(), definition); err != nil {
			t.Fatal(err)
		}
	}
	for _, namespace := range []string{system, users} {
		if err := w.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
			t.Fatal(err)
		}
	}
	w.until("the StatefulSet is accepted", func(ctx context.Context) error { return w.Apply(ctx, web) })
	webUID := w.uid(workload("StatefulSet"), users, "web")

	t.Log("install")
	started := time.Now()
	w.apply(`{apiVersion: operators.coreos.com/v1, kind: OperatorGroup, metadata: {name: kruise-system, namespace: kruise-system}, spec: {}}`)
	w.apply(fmt.Sprintf(`apiVersion: operators.coreos.com/v1alpha1
kind: Subscription
metadata: {name: kruise-operator, namespace: kruise-system}
spec:
  name: kruise-operator
  channel: candidate
  source: %s
  sourceNamespace: %s
  startingCSV: %s
  installPlanApproval: Manual
`, olm.CatalogSource, olm.Namespace, packaging.CSVName(versions()[0])))
	w.approve(versions()[0])
	w.succeeded(versions()[0])
	t.Logf("measured: installed in %.1f s", time.Since(started).Seconds())
	w.checkInstalled(versions()[0])
	w.checkPermissions()
	w.checkSubscriptionConfig()

	t.Log("the manager works with the rights that OLM gave it")
	process := w.runManager()
	w.until("the pods of the StatefulSet run", func(context.Context) error {
		if running := w.pods("web"); len(running) != 3 {
			return fmt.Errorf("running: %v", running)
		}
		return nil
	})
	pods := w.pods("web")

	t.Log("a scoped configuration that belongs to the installation")
	w.sampleConfiguration()
	webhooksBefore := w.configurations()
	authority := w.checkCertificate()
	w.askManager()
	w.until("the manager is asked about CRDs", w.answered)
	trust := w.followTrust()
	kept := map[string]types.UID{
		"Deployment": w.uid(&appsv1.Deployment{}, system, manager),
		"Service":    w.uid(&corev1.Service{}, system, service),
		"Account":    w.uid(&corev1.ServiceAccount{}, system, manager),
		"Anchor":     w.uid(&rbacv1.ClusterRoleBinding{}, "", binding),
		"Sample":     w.uid(&admissionv1.ValidatingWebhookConfiguration{}, "", sample),
		// A new one would have another authority, without a matching certificate for
		// seconds.
		"Certificate": w.uid(&corev1.Secret{}, system, service+"-cert"),
	}

	t.Log("an upgrade waits while the operator says that it must not be upgraded")
	w.setUpgradeable(versions()[0], metav1.ConditionFalse)
	w.approve(versions()[1])
	w.until("the next version waits", func(ctx context.Context) error {
		phase, reason, err := w.CSV(ctx, system, packaging.CSVName(versions()[1]))
		if phase == "Pending" && reason == "OperatorConditionNotUpgradeable" {
			return nil
		}
		return errors.Join(fmt.Errorf("phase %q, reason %q", phase, reason), err)
	})
	w.checkConversions(versions()[1], authority)
	w.setUpgradeable(versions()[0], metav1.ConditionTrue)
	started = time.Now()
	w.succeeded(versions()[1])
	w.gone(olm.Object("ClusterServiceVersion", system, ""), system, packaging.CSVName(versions()[0]))
	t.Logf("measured: upgraded in %.1f s", time.Since(started).Seconds())
	w.checkInstalled(versions()[1])
	w.certificateBelongsTo(versions()[1])
	w.until("the manager is asked about CRDs", w.answered)

	t.Log("and on to the head of the channel")
	w.approve(versions()[2])
	w.succeeded(versions()[2])
	w.gone(olm.Object("ClusterServiceVersion", system, ""), system, packaging.CSVName(versions()[1]))
	w.checkInstalled(versions()[2])
	w.certificateBelongsTo(versions()[2])
	trust.end(authority)
	after := map[string]types.UID{
		"Deployment": w.uid(&appsv1.Deployment{}, system, manager),
		"Service":    w.uid(&corev1.Service{}, system, service),
		"Account":    w.uid(&corev1.ServiceAccount{}, system, manager),
		"Anchor":     w.uid(&rbacv1.ClusterRoleBinding{}, "", binding),
		"Sample":     w.uid(&admissionv1.ValidatingWebhookConfiguration{}, "", sample),
		// A new one would have another authority, without a matching certificate for
		// seconds.
		"Certificate": w.uid(&corev1.Secret{}, system, service+"-cert"),
	}
	if diff := cmp.Diff(kept, after); diff != "" {
		t.Errorf("upgrades exchanged objects (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(pods, w.pods("web")); diff != "" {
		t.Errorf("upgrades touched pods (-before +after):\n%s", diff)
	}

	w.checkOtherOwners(versions()[0], webhooksBefore)

	t.Log("uninstall while the operator is dead")
	if err := w.cluster.StopProcess(process); err != nil {
		t.Fatal(err)
	}
	for _, object := range []*unstructured.Unstructured{
		olm.Object("Subscription", system, "kruise-operator"),
		olm.Object("ClusterServiceVersion", system, packaging.CSVName(versions()[2])),
	} {
		if err := w.Client.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	w.gone(olm.Object("ClusterServiceVersion", system, ""), system, packaging.CSVName(versions()[2]))
	w.gone(&appsv1.Deployment{}, system, manager)
	w.gone(&corev1.ServiceAccount{}, system, manager)
	w.gone(&policyv1.PodDisruptionBudget{}, system, manager)
	w.gone(&corev1.Secret{}, system, service+"-cert")
	w.gone(&rbacv1.ClusterRoleBinding{}, "", binding)
	w.gone(&admissionv1.ValidatingWebhookConfiguration{}, "", sample)
	w.nothingBlocks(webUID, pods)

	operator := olm.Object("Operator", "", "")
	w.get(operator, "", "kruise-operator."+system) // would not have done as an owner either: it stays with the kinds
}

// configurations returns the UIDs of OLM's webhook configurations, by name.
func (w *fixture) configurations() map[string]types.UID {
	w.t.Helper()
	validating := &admissionv1.ValidatingWebhookConfigurationList{}
	if err := w.Client.List(w.t.Context(), validating, client.HasLabels{"olm.owner"}); err != nil {
		w.t.Fatal(err)
	}
	found := map[string]types.UID{}
	for _, configuration := range validating.Items {
		found[configuration.Name] = configuration.UID
	}
	if len(found) == 0 {
		w.t.Error("OLM made no webhook configuration")
	}
	return found
}

// checkOtherOwners shows that nothing else OLM makes for a version, and deletes with it,
// survives an upgrade: see the ADR on the installation owner. If this changes, there is a
// better owner.
func (w *fixture) checkOtherOwners(first string, webhooksBefore map[string]types.UID) {
	w.t.Helper()
	labels := client.MatchingLabels{"olm.owner": packaging.CSVName(first)}
	roles, bindings := &rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{}
	if err := errors.Join(w.Client.List(w.t.Context(), roles, labels), w.Client.List(w.t.Context(), bindings, labels)); err != nil {
		w.t.Fatal(err)
	}
	if n := len(roles.Items) + len(bindings.Items); n > 0 {
		w.t.Errorf("%d roles and bindings of %s are left", n, first)
	}
	for name, uid := range w.configurations() {
		if webhooksBefore[name] == uid {
			w.t.Errorf("webhook configuration %s survived an upgrade", name)
		}
	}
}

// nothingBlocks checks the cluster without the operator: the objects and their pods are
// there, and can be changed freely.
func (w *fixture) nothingBlocks(webUID types.UID, pods map[string]types.UID) {
	w.t.Helper()
	w.until("no webhook of ours is left", func(ctx context.Context) error {
		names, err := w.webhooks(ctx)
		if err == nil && len(names) > 0 {
			err = fmt.Errorf("left: %v", names)
		}
		return err
	})
	for _, definition := range w.definitions(versions()[2]) {
		served := &apiextensionsv1.CustomResourceDefinition{}
		w.until("conversion of "+definition.Name+" needs no operator", func(ctx context.Context) error {
			if err := w.Client.Get(ctx, client.ObjectKeyFromObject(definition), served); err != nil {
				return err
			}
			if served.Spec.Conversion != nil && served.Spec.Conversion.Strategy != apiextensionsv1.NoneConverter {
				return fmt.Errorf("the strategy is %s", served.Spec.Conversion.Strategy)
			}
			return nil
		})
	}
	if uid := w.uid(workload("StatefulSet"), users, "web"); uid != webUID {
		w.t.Errorf("the StatefulSet was replaced: %s, was %s", uid, webUID)
	}
	if diff := cmp.Diff(pods, w.pods("web")); diff != "" {
		w.t.Errorf("removing the operator touched pods (-before +after):\n%s", diff)
	}
	w.apply(strings.Replace(web, "replicas: 3", "replicas: 2", 1))
	w.apply(strings.ReplaceAll(web, "web", "other"))
	w.apply(`{apiVersion: v1, kind: Pod, metadata: {name: plain, namespace: shop}, spec: {containers: [{name: a, image: a}]}}`)
	if err := w.Client.Delete(w.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: users}}); err != nil {
		w.t.Fatal(err)
	}
	w.gone(&corev1.Namespace{}, "", users)
}

// checkConversions checks that every kind with webhook conversion has the operator's.
func (w *fixture) checkConversions(version string, authority []byte) {
	w.t.Helper()
	count := 0
	for _, definition := range w.definitions(version) {
		if definition.Spec.Conversion != nil && definition.Spec.Conversion.Strategy == apiextensionsv1.WebhookConverter {
			count++
		}
		w.checkConversion(definition, authority)
	}
	if count == 0 {
		w.t.Error("no kind is converted")
	}
}

// certificateBelongsTo waits until the Secret of the certificate belongs to a version alone: it does not go with the version before, and
// goes with this one.
func (w *fixture) certificateBelongsTo(version string) {
	w.t.Helper()
	w.until("the certificate belongs to "+version, func(ctx context.Context) error {
		secret := &corev1.Secret{}
		if err := w.Client.Get(ctx, client.ObjectKey{Namespace: system, Name: service + "-cert"}, secret); err != nil {
			return err
		}
		if owners := secret.OwnerReferences; len(owners) != 1 || owners[0].Name != packaging.CSVName(version) {
			return fmt.Errorf("it belongs to %v", owners)
		}
		return nil
	})
}

// following notes whom the API server trusts to convert, at every moment.
type following struct {
	w     *fixture
	watch watch.Interface
	done  chan struct{}
	// ending: the watch is being stopped, perhaps seen as an error of the stream.
	ending atomic.Bool
	// seen are the bundles, in order, each once in a row.
	seen []string
}

// followTrust notes every state of a converted kind from now on.
func (w *fixture) followTrust() *following {
	w.t.Helper()
	watching, err := w.Client.Watch(w.t.Context(), &apiextensionsv1.CustomResourceDefinitionList{}, client.MatchingFields{"metadata.name": converted})
	if err != nil {
		w.t.Fatal(err)
	}
	f := &following{w: w, watch: watching, done: make(chan struct{})}
	w.t.Cleanup(func() { f.ending.Store(true); watching.Stop(); <-f.done })
	go func() {
		defer close(f.done)
		for event := range watching.ResultChan() {
			definition, ok := event.Object.(*apiextensionsv1.CustomResourceDefinition)
			if !ok {
				if !f.ending.Load() {
					f.seen = append(f.seen, fmt.Sprintf("%s: %v", event.Type, event.Object))
				}
				continue
			}
			bundle := ""
			if conversion := definition.Spec.Conversion; conversion != nil && conversion.Webhook != nil && conversion.Webhook.ClientConfig != nil {
				bundle = string(conversion.Webhook.ClientConfig.CABundle)
			}
			if len(f.seen) == 0 || f.seen[len(f.seen)-1] != bundle {
				f.seen = append(f.seen, bundle)
			}
		}
	}()
	return f
}

// end stops following: the certificate's authority must have been trusted all the time.
func (f *following) end(authority []byte) {
	f.w.t.Helper()
	f.ending.Store(true)
	f.watch.Stop()
	<-f.done
	if diff := cmp.Diff([]string{string(authority)}, f.seen); diff != "" {
		f.w.t.Errorf("whom the API server trusted to convert during upgrades (-want +seen):\n%s", diff)
	}
}

func workload(kind string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("apps.kruise.io/v1beta1")
	object.SetKind(kind)
	return object
}

// webhooks returns the names of the webhooks to the operator's Service.
func (w *fixture) webhooks(ctx context.Context) ([]string, error) {
	var names []string
	mutating, err := w.mutating(ctx)
	if err != nil {
		return nil, err
	}
	validating := &admissionv1.ValidatingWebhookConfigurationList{}
	if err := w.Client.List(ctx, validating); err != nil {
		return nil, err
	}
	for _, configuration := range mutating {
		for _, hook := range configuration.Webhooks {
			if hook.ClientConfig.Service != nil && hook.ClientConfig.Service.Name == service {
				names = append(names, hook.Name)
			}
		}
	}
	for _, configuration := range validating.Items {
		for _, hook := range configuration.Webhooks {
			if hook.ClientConfig.Service != nil && hook.ClientConfig.Service.Name == service {
				names = append(names, hook.Name)
			}
		}
	}
	slices.Sort(names)
	return names, nil
}
