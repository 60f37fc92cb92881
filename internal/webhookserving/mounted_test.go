// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhookserving

import (
	"bytes"
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// issued is what the Operator Lifecycle Manager makes for a Service.
func issued(t *testing.T, host string) Bundle {
	t.Helper()
	bundle, err := Issue(Bundle{}, []string{host}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return bundle
}

func secretOf(bundle Bundle) *corev1.Secret {
	stored := secret(keyOLM, bundle.CA)
	stored.Data[corev1.TLSCertKey], stored.Data[corev1.TLSPrivateKeyKey] = bundle.Cert, bundle.Key
	return stored
}

// mount writes files where the Operator Lifecycle Manager has the Secret mounted.
func mount(t *testing.T, bundle Bundle) {
	t.Helper()
	if err := os.MkdirAll(defaultCertDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{corev1.TLSCertKey: bundle.Cert, corev1.TLSPrivateKeyKey: bundle.Key} {
		if err := os.WriteFile(filepath.Join(defaultCertDir(), name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// fresh is the certificate that is served in place of the files; nil when the files are.
func fresh(t *testing.T, serving *Serving) []byte {
	t.Helper()
	config := &tls.Config{MinVersion: tls.VersionTLS13}
	serving.TLS(config)
	chosen, err := config.GetConfigForClient(&tls.ClientHelloInfo{})
	if err != nil {
		t.Fatal(err)
	}
	if chosen == nil {
		return nil
	}
	if chosen.MinVersion != tls.VersionTLS13 || len(chosen.Certificates) != 1 {
		t.Fatalf("it is served with another configuration: %+v", chosen)
	}
	return chosen.Certificates[0].Certificate[0]
}

// Whoever makes a new authority under the Operator Lifecycle Manager has it trusted alone, long before the files change.
func TestNewCertificateIsServedBeforeItIsMounted(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	host := ServiceName + "." + own + ".svc"
	before, after := issued(t, host), issued(t, host)
	mount(t, before)
	stored := secretOf(before)
	w := newCluster(t, stored, crd(nil))
	serving := w.serving("")
	become := func(bundle Bundle) {
		t.Helper()
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(stored), stored); err != nil {
			t.Fatal(err)
		}
		stored.Data = secretOf(bundle).Data
		if err := w.Update(t.Context(), stored); err != nil {
			t.Fatal(err)
		}
	}
	reconciled(t, serving)
	if fresh(t, serving) != nil {
		t.Error("the files are not served, and they have the certificate of the Secret")
	}

	become(after)
	reconciled(t, serving)
	pair, err := after.Pair()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(fresh(t, serving), pair.Certificate[0]) {
		t.Error("the new certificate is not served")
	}
	if trusted := w.conversion(t).Webhook.ClientConfig.CABundle; !bytes.Contains(trusted, after.CA) || !bytes.Contains(trusted, before.CA) {
		t.Errorf("the API server trusts %s", trusted)
	}

	mount(t, after)
	reconciled(t, serving)
	if fresh(t, serving) != nil {
		t.Error("the files have caught up and are not served")
	}
}

func TestOnlyAFitCertificateIsServedInPlaceOfTheFiles(t *testing.T) {
	host := ServiceName + "." + own + ".svc"
	good, other := issued(t, host), issued(t, host)
	for name, tc := range map[string]struct {
		stored *corev1.Secret
		named  bool // the folder of the files
		fails  bool
	}{
		"of another authority": {stored: secretOf(Bundle{CA: other.CA, Cert: good.Cert, Key: good.Key}), fails: true},
		"with another key":     {stored: secretOf(Bundle{CA: good.CA, Cert: good.Cert, Key: other.Key}), fails: true},
		"for another Service":  {stored: secretOf(issued(t, "elsewhere.svc")), fails: true},
		"in a named folder":    {stored: secretOf(good), named: true},
		"of cert-manager": {stored: func() *corev1.Secret {
			stored := secretOf(good)
			stored.Data[keyCertManager] = stored.Data[keyOLM]
			delete(stored.Data, keyOLM)
			return stored
		}()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			mount(t, other)
			w := newCluster(t, tc.stored, crd(nil))
			serving := w.serving("")
			if tc.named {
				serving.options.CertDir = t.TempDir()
			}
			if _, err := serving.Reconcile(t.Context(), reconcile.Request{}); (err != nil) != tc.fails {
				t.Errorf("the error is %v, want one: %t", err, tc.fails)
			}
			if fresh(t, serving) != nil {
				t.Error("it is served")
			}
		})
	}
}
