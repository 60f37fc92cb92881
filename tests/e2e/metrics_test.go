// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Prometheus shows the token of its service account, and needs the right to get the path.
func TestMetricsAreForThoseWhoMayGetThem(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: n.Name, Name: "prometheus"}}
	request := &authenticationv1.TokenRequest{}
	if err := errors.Join(env.Client.Create(t.Context(), account), env.Client.SubResource("token").Create(t.Context(), account, request)); err != nil {
		t.Fatal(err)
	}
	scraper := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the operator makes the certificate for itself
	}}
	scrape := func(ctx context.Context, token string, want int) (text string, err error) {
		ask, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d/metrics", env.Operator.MetricsPort()), nil)
		if err != nil {
			return "", err
		}
		if token != "" {
			ask.Header.Set("Authorization", "Bearer "+token)
		}
		answer, err := scraper.Do(ask)
		if err != nil {
			return "", err
		}
		defer func() { _ = answer.Body.Close() }()
		body, err := io.ReadAll(answer.Body)
		if err == nil && answer.StatusCode != want {
			err = fmt.Errorf("the answer is %s, want %d", answer.Status, want)
		}
		return string(body), err
	}
	for who, asks := range map[string]struct {
		token string
		want  int
	}{
		"nobody":               {want: http.StatusUnauthorized},
		"a forged token":       {token: "forged", want: http.StatusUnauthorized},
		"who has no right yet": {token: request.Status.Token, want: http.StatusForbidden},
	} {
		n.Eventually(who+" gets nothing", func(ctx context.Context) error { // metrics may be served a moment later than probes
			_, err := scrape(ctx, asks.token, asks.want)
			return err
		})
	}
	name := metav1.ObjectMeta{Name: "scrapes-in-" + n.Name}
	for _, object := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}}}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: n.Name, Name: account.Name}},
		},
	} {
		if err := env.Client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := env.Client.Delete(context.WithoutCancel(t.Context()), object); err != nil {
				t.Error(err)
			}
		})
	}
	n.Eventually("who has the right gets metrics", func(ctx context.Context) error {
		text, err := scrape(ctx, request.Status.Token, http.StatusOK)
		if err == nil && !strings.Contains(text, "controller_runtime_reconcile_total") {
			err = fmt.Errorf("they are %q", text)
		}
		return err
	})
}
