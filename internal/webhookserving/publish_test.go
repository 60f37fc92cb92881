// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhookserving

import (
	"bytes"
	"context"
	"crypto/tls"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/kruise-operator/kruise-operator/controllers"
	"github.com/kruise-operator/kruise-operator/internal/testutil/kustomized"
)

const (
	own      = "kruise-system"
	crdName  = "clonesets.apps.kruise.io"
	mutating = "kruise-operator-mutating"
)

// inCluster is a cluster with the operator's objects in it.
type inCluster struct {
	client.Client
	clock *testingclock.FakeClock
	// writes are the written objects.
	writes []string
}

func newCluster(t *testing.T, objects ...client.Object) *inCluster {
	t.Helper()
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{appsv1.AddToScheme, corev1.AddToScheme, admissionregistrationv1.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(kinds); err != nil {
			t.Fatal(err)
		}
	}
	w := &inCluster{clock: testingclock.NewFakeClock(time.Now())}
	wrote := func(o client.Object) { w.writes = append(w.writes, o.GetName()) }
	w.Client = fake.NewClientBuilder().WithScheme(kinds).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
			wrote(o)
			return c.Patch(ctx, o, p, options...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			wrote(o)
			return c.Update(ctx, o, options...)
		},
	}).Build()
	return w
}

// mounted is an operator with somebody else's certificate in a named folder.
func (w *inCluster) mounted(t *testing.T) *Serving {
	t.Helper()
	return w.serving(t.TempDir())
}

// serving is an operator with somebody else's certificate. Without a folder, it serves the Secret's.
func (w *inCluster) serving(certDir string) *Serving {
	endpoint := Endpoint{Namespace: own}
	hosts, _ := endpoint.hosts()
	s := &Serving{
		options: Options{Client: w, Endpoint: endpoint, Kinds: controllers.Table(), CertDir: certDir, Clock: w.clock}, hosts: hosts, mounted: true,
	}
	s.current.Store(&tls.Certificate{}) // it serves already
	return s
}

func (w *inCluster) conversion(t *testing.T) *apiextensionsv1.CustomResourceConversion {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := w.Get(t.Context(), client.ObjectKey{Name: crdName}, crd); err != nil {
		t.Fatal(err)
	}
	return crd.Spec.Conversion
}

func (w *inCluster) admission(t *testing.T) []admissionregistrationv1.WebhookClientConfig {
	t.Helper()
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{}
	if err := w.Get(t.Context(), client.ObjectKey{Name: mutating}, configuration); err != nil {
		t.Fatal(err)
	}
	var all []admissionregistrationv1.WebhookClientConfig
	for _, webhook := range configuration.Webhooks {
		all = append(all, webhook.ClientConfig)
	}
	return all
}

func authority(t *testing.T, at time.Time) []byte {
	t.Helper()
	bundle, err := Issue(Bundle{}, []string{"operator.example"}, at)
	if err != nil {
		t.Fatal(err)
	}
	return bundle.CA
}

func secret(key string, ca []byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: MountedSecret}, Data: map[string][]byte{key: ca, "tls.key": []byte("private")}}
}

// crd is a CRD as manifests bring it: with a Service and no authority.
func crd(change func(*apiextensionsv1.CustomResourceConversion)) *apiextensionsv1.CustomResourceDefinition {
	conversion := &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ConversionReviewVersions: []string{"v1"},
			ClientConfig: &apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{
				Namespace: own, Name: ServiceName, Path: ptr.To("/convert"), Port: ptr.To[int32](443),
			}},
		},
	}
	if change != nil {
		change(conversion)
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: crdName},
		Spec:       apiextensionsv1.CustomResourceDefinitionSpec{Conversion: conversion},
	}
}

func configuration() *admissionregistrationv1.MutatingWebhookConfiguration {
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: mutating},
		Webhooks: []admissionregistrationv1.MutatingWebhook{
			{Name: "a.example.com", ClientConfig: admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{
				Namespace: own, Name: ServiceName, Path: ptr.To("/a"), Port: ptr.To[int32](443),
			}}},
			{Name: "b.example.com", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:9443/b"), CABundle: []byte("theirs")}},
		},
	}
}

func reconciled(t *testing.T, c *Serving) {
	t.Helper()
	if _, err := c.Reconcile(t.Context(), reconcile.Request{}); err != nil {
		t.Fatal(err)
	}
}

func TestAuthorityReachesWhereverTheOperatorIsCalled(t *testing.T) {
	for _, key := range []string{"olmCAKey", "ca.crt"} {
		t.Run(key, func(t *testing.T) {
			ca := authority(t, time.Now())
			w := newCluster(t, secret(key, ca), crd(nil), configuration())
			reconciled(t, w.mounted(t))
			if diff := cmp.Diff(string(ca), string(w.conversion(t).Webhook.ClientConfig.CABundle)); diff != "" {
				t.Errorf("conversion trusts (-want +got):\n%s", diff)
			}
			webhooks := w.admission(t)
			if diff := cmp.Diff([]string{string(ca), "theirs"}, []string{string(webhooks[0].CABundle), string(webhooks[1].CABundle)}); diff != "" {
				t.Errorf("admission trusts (-want +got):\n%s", diff)
			}
			if path := ptr.Deref(webhooks[0].Service.Path, ""); path != "/a" {
				t.Errorf("the path became %q", path)
			}

			// Another replica, perhaps another process, has nothing to do.
			w.writes = nil
			reconciled(t, w.mounted(t))
			if len(w.writes) > 0 {
				t.Errorf("a second replica wrote %v", w.writes)
			}
		})
	}
}

func TestConversionStanza(t *testing.T) {
	ca := authority(t, time.Now())
	for name, tc := range map[string]struct {
		spoil func(*apiextensionsv1.CustomResourceConversion)
		left  bool
	}{
		"right already": {
			spoil: func(c *apiextensionsv1.CustomResourceConversion) { c.Webhook.ClientConfig.CABundle = ca }, left: true,
		},
		"emptied by an upgrade": {},
		"another Service": {
			spoil: func(c *apiextensionsv1.CustomResourceConversion) {
				c.Webhook.ClientConfig.Service.Name, c.Webhook.ClientConfig.Service.Namespace = "webhook-service", "system"
			},
		},
		"nobody to call": {
			spoil: func(c *apiextensionsv1.CustomResourceConversion) { c.Webhook.ClientConfig = nil },
		},
		"an uninstall has begun": {
			spoil: func(c *apiextensionsv1.CustomResourceConversion) {
				*c = apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
			},
			left: true,
		},
		"somebody develops": {
			spoil: func(c *apiextensionsv1.CustomResourceConversion) {
				c.Webhook.ClientConfig = &apiextensionsv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:9443/convert")}
			},
			left: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			was := crd(tc.spoil)
			w := newCluster(t, secret("olmCAKey", ca), was)
			reconciled(t, w.mounted(t))
			want := crd(func(c *apiextensionsv1.CustomResourceConversion) { c.Webhook.ClientConfig.CABundle = ca }).Spec.Conversion
			if tc.left {
				want = was.Spec.Conversion
			}
			if diff := cmp.Diff(want, w.conversion(t)); diff != "" {
				t.Errorf("the conversion (-want +got):\n%s", diff)
			}
			if tc.left && len(w.writes) > 0 {
				t.Errorf("wrote %v", w.writes)
			}
		})
	}
}

func TestNoAuthorityChangesNothing(t *testing.T) {
	ca := authority(t, time.Now())
	was := crd(func(c *apiextensionsv1.CustomResourceConversion) { c.Webhook.ClientConfig.CABundle = ca })
	for name, objects := range map[string][]client.Object{
		"no Secret":           {was},
		"a Secret without it": {was, secret("other", ca)},
		"an empty one":        {was, secret("olmCAKey", nil)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCluster(t, objects...)
			if _, err := w.mounted(t).Reconcile(t.Context(), reconcile.Request{}); err == nil {
				t.Error("there is no error, and the authority is not known")
			}
			if len(w.writes) > 0 {
				t.Errorf("wrote %v", w.writes)
			}
			if diff := cmp.Diff(was.Spec.Conversion, w.conversion(t)); diff != "" {
				t.Errorf("the conversion (-want +got):\n%s", diff)
			}
		})
	}
}

// Replicas serve certificates of the old authority until they have seen the new one.
func TestBothAuthoritiesAreTrustedDuringAChange(t *testing.T) {
	before, after := authority(t, time.Now()), authority(t, time.Now().Add(time.Hour))
	w := newCluster(t, secret("olmCAKey", before), crd(nil))
	serving := w.mounted(t)
	reconciled(t, serving)

	change := func(object client.Object, edit func()) {
		t.Helper()
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			t.Fatal(err)
		}
		edit()
		if err := w.Update(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	stored := secret("", nil)
	change(stored, func() { stored.Data["olmCAKey"] = after })
	reconciled(t, serving)
	both := string(after) + string(before)
	if diff := cmp.Diff(both, string(w.conversion(t).Webhook.ClientConfig.CABundle)); diff != "" {
		t.Errorf("after the change it trusts (-want +got):\n%s", diff)
	}

	// Somebody who puts the new one alone there is not argued with.
	w.writes = nil
	alone := crd(nil)
	change(alone, func() { alone.Spec.Conversion.Webhook.ClientConfig.CABundle = after })
	w.writes = nil
	reconciled(t, serving)
	if len(w.writes) > 0 {
		t.Errorf("it was put back: %v", w.writes)
	}
}

// A ready replica is called. So the API server trusts a mounted certificate before the replica can become ready.
func TestMountedCertificateIsTrustedBeforeItIsServed(t *testing.T) {
	ca := authority(t, time.Now())
	w := newCluster(t, secret("olmCAKey", ca), crd(nil), configuration())
	options := Options{Client: w, Endpoint: Endpoint{Namespace: own}, Kinds: controllers.Table(), CertDir: t.TempDir(), Clock: w.clock}
	opened := make(chan error)
	go func() {
		_, err := Open(t.Context(), options)
		opened <- err
	}()
	for deadline := time.Now().Add(30 * time.Second); !w.clock.HasWaiters(); {
		select {
		case err := <-opened:
			t.Fatalf("it does not wait until API servers know: %v", err)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatal("it neither waits nor ends")
		}
	}
	if got := w.conversion(t).Webhook.ClientConfig.CABundle; !bytes.Equal(got, ca) {
		t.Errorf("it waits, and the API server trusts %q", got)
	}
	w.clock.Step(settle)
	if err := <-opened; err != nil {
		t.Fatal(err)
	}
	// The next replica has nothing to wait for: the clock stands still.
	if _, err := Open(t.Context(), options); err != nil {
		t.Fatal(err)
	}
}

// When the Operator Lifecycle Manager replaces a certificate, it trusts the new authority alone, and files follow two minutes later.
func TestTheCertificateOfTheSecretIsServedAtOnce(t *testing.T) {
	hosts, _ := Endpoint{Namespace: own}.hosts()
	stored := secret("olmCAKey", nil)
	w := newCluster(t, stored, crd(nil))
	serving := w.serving("")
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	serving.TLS(config)
	served := func(bundle Bundle) bool {
		t.Helper()
		stored.Data = map[string][]byte{"olmCAKey": bundle.CA, "tls.crt": bundle.Cert, "tls.key": bundle.Key}
		if err := w.Update(t.Context(), stored); err != nil {
			t.Fatal(err)
		}
		_, err := serving.Reconcile(t.Context(), reconcile.Request{})
		pair, _ := config.GetCertificate(nil)
		want, _ := tls.X509KeyPair(bundle.Cert, bundle.Key)
		if is := len(want.Certificate) > 0 && len(pair.Certificate) > 0 && bytes.Equal(pair.Certificate[0], want.Certificate[0]); is != (err == nil) {
			t.Errorf("served: %v, error %v", is, err)
		}
		return err == nil
	}
	first, second := issue(t, Bundle{}, time.Now(), hosts...), issue(t, Bundle{}, time.Now(), hosts...)
	for name, tc := range map[string]struct {
		bundle Bundle
		want   bool
	}{
		"another one":            {second, true},
		"of another authority":   {Bundle{CA: first.CA, Cert: second.Cert, Key: second.Key}, false},
		"of another Service":     {issue(t, Bundle{}, time.Now(), "other.kruise-system.svc"), false},
		"what is no certificate": {Bundle{CA: first.CA, Cert: []byte("x"), Key: first.Key}, false},
		"a key of somebody else": {Bundle{CA: first.CA, Cert: first.Cert, Key: second.Key}, false},
	} {
		if !served(first) {
			t.Fatal("the first one is not served")
		}
		if got := served(tc.bundle); got != tc.want {
			t.Errorf("%s: served %v, want %v", name, got, tc.want)
		}
	}
}

// The Operator Lifecycle Manager uses the certificate of the version before for the next one, and leaves it to be deleted with the former.
func TestCertificateOutlivesTheVersionItWasMadeFor(t *testing.T) {
	version := func(name string) metav1.OwnerReference {
		return metav1.OwnerReference{
			APIVersion: "operators.coreos.com/v1alpha1", Kind: "ClusterServiceVersion", Name: name, UID: types.UID("uid-of-" + name),
			Controller: ptr.To(false), BlockOwnerDeletion: ptr.To(false),
		}
	}
	managers := func(label string, owners ...metav1.OwnerReference) client.Object {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
			Namespace: own, Name: deployment, Labels: map[string]string{ownerLabel: label}, OwnerReferences: owners,
		}}
	}
	for name, tc := range map[string]struct {
		owners   []metav1.OwnerReference
		managers client.Object
		want     []string // the owners' names
	}{
		"in an upgrade": {
			owners: []metav1.OwnerReference{version("v1")}, managers: managers("v2", version("v1"), version("v2")), want: []string{"v1", "v2"},
		},
		"the version before has gone": {
			owners: []metav1.OwnerReference{version("v1")}, managers: managers("v2", version("v2")), want: []string{"v1", "v2"},
		},
		"before the Deployment is the next version's": {
			owners: []metav1.OwnerReference{version("v1")}, managers: managers("v1", version("v1")), want: []string{"v1"},
		},
		"after the upgrade": {
			owners: []metav1.OwnerReference{version("v2")}, managers: managers("v2", version("v1"), version("v2")), want: []string{"v2"},
		},
		"somebody else's Secret":     {managers: managers("v2", version("v2"))},
		"somebody else's Deployment": {owners: []metav1.OwnerReference{version("v1")}, managers: managers(""), want: []string{"v1"}},
	} {
		t.Run(name, func(t *testing.T) {
			stored := secret("olmCAKey", authority(t, time.Now()))
			stored.OwnerReferences = tc.owners
			w := newCluster(t, stored, tc.managers)
			reconciled(t, w.mounted(t))
			wrote := len(w.writes)
			reconciled(t, w.mounted(t)) // another replica
			kept := &corev1.Secret{}
			if err := w.Get(t.Context(), client.ObjectKeyFromObject(stored), kept); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, owner := range kept.OwnerReferences {
				got = append(got, owner.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("owners (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(stored.Data, kept.Data); diff != "" {
				t.Errorf("its content changed (-before +after):\n%s", diff)
			}
			if want := len(tc.want) - len(tc.owners); wrote != want || len(w.writes) != wrote {
				t.Errorf("%d writes, %d of them by a second replica; want %d in all", len(w.writes), len(w.writes)-wrote, want)
			}
		})
	}
}

// A ready replica lets the Operator Lifecycle Manager delete the version before, and its own objects.
func TestCertificateIsKeptBeforeTheReplicaIsReady(t *testing.T) {
	ca := authority(t, time.Now())
	stored := secret("olmCAKey", ca)
	stored.OwnerReferences = []metav1.OwnerReference{{APIVersion: "a/v1", Kind: "ClusterServiceVersion", Name: "v1", UID: "1"}}
	managers := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: own, Name: deployment, Labels: map[string]string{ownerLabel: "v2"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "a/v1", Kind: "ClusterServiceVersion", Name: "v2", UID: "2"}},
	}}
	w := newCluster(t, stored, managers, crd(func(c *apiextensionsv1.CustomResourceConversion) { c.Webhook.ClientConfig.CABundle = ca }))
	if _, err := Open(t.Context(), Options{Client: w, Endpoint: Endpoint{Namespace: own}, Kinds: controllers.Table(), CertDir: t.TempDir(), Clock: w.clock}); err != nil {
		t.Fatal(err)
	}
	kept := &corev1.Secret{}
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(stored), kept); err != nil {
		t.Fatal(err)
	}
	if len(kept.OwnerReferences) != 2 {
		t.Errorf("it belongs to %v", kept.OwnerReferences)
	}
}

func TestWithoutFilesTheCertificateIsOurOwn(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	w := newCluster(t, crd(nil), configuration())
	serving, err := Open(t.Context(), Options{Client: w, Endpoint: Endpoint{Namespace: own}, Kinds: controllers.Table(), Clock: w.clock})
	if err != nil {
		t.Fatal(err)
	}
	stored := &corev1.Secret{}
	if err := w.Get(t.Context(), client.ObjectKey{Namespace: own, Name: OwnSecret}, stored); err != nil {
		t.Fatal(err)
	}
	if got := w.conversion(t).Webhook.ClientConfig.CABundle; string(got) != string(stored.Data["ca.crt"]) || len(got) == 0 {
		t.Error("the API server does not trust it before it is served")
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	serving.TLS(config)
	if pair, err := config.GetCertificate(nil); err != nil || pair == nil {
		t.Errorf("it is not served: %v", err)
	}
}

func TestTargetsAreThoseOfTheManifests(t *testing.T) {
	// No manifest has these: one is there only while a SidecarSet needs it, the others while a feature gate is on.
	want := []string{
		"MutatingWebhookConfiguration kruise-operator-pods",
		"ValidatingWebhookConfiguration kruise-operator-deletion-protection",
	}
	var got []string
	for _, object := range rendered(t, "default") {
		switch object.GetKind() {
		case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
			want = append(want, object.GetKind()+" "+object.GetName())
		case "CustomResourceDefinition":
			if strategy := nested(object.Object, "spec", "conversion", "strategy"); strategy == "Webhook" {
				want = append(want, object.GetKind()+" "+object.GetName())
			}
		}
	}
	for _, target := range (&Serving{options: Options{Kinds: controllers.Table()}}).targets() {
		got = append(got, target.kind+" "+target.name)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what leads to the operator (-in the manifests +kept right):\n%s", diff)
	}
}

func rendered(t *testing.T, base string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := kustomized.Build(filesys.MakeFsOnDisk(), "../../config/"+base)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func nested(object map[string]any, fields ...string) string {
	text, _, _ := unstructured.NestedString(object, fields...)
	return text
}

func TestRunBeforeInstallSaysSo(t *testing.T) {
	empty := newClient(t, interceptor.Funcs{
		Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
			return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, own)
		},
	})
	_, err := Open(t.Context(), Options{Client: empty, Endpoint: Endpoint{Namespace: own, URL: "https://127.0.0.1:9443"}, Clock: testingclock.NewFakeClock(time.Now())})
	if err == nil {
		t.Fatal("a cluster without the operator's namespace is taken")
	}
	for _, part := range []string{`namespaces "kruise-system" not found`, "run `make install` first"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
}
