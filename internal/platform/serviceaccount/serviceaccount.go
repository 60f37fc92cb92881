// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package serviceaccount gives a process outside of the cluster just its rights inside: the user's credentials
// only request tokens for the operator's service account.
package serviceaccount

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/oauth2"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/utils/ptr"
)

const (
	// lifetime is requested for tokens. The server may change it; a token is replaced shortly before its end.
	lifetime = time.Hour
	// tokenTimeout is how long the server may take to issue one.
	tokenTimeout = 15 * time.Second
)

// Parse parses <namespace>/<name>.
func Parse(text string) (types.NamespacedName, error) {
	namespace, name, found := strings.Cut(text, "/")
	if !found || namespace == "" || name == "" || strings.Contains(name, "/") {
		return types.NamespacedName{}, fmt.Errorf("service account %q must be <namespace>/<name>", text)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}

// As returns a configuration for the same API server acting as the service account. It requests the first token
// at once, to report missing permissions or a missing account.
func As(ctx context.Context, own *rest.Config, account types.NamespacedName) (*rest.Config, error) {
	client, err := kubernetes.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("acting as service account %s: %w", account, err)
	}
	tokens := transport.NewCachedTokenSource(&source{ctx: ctx, client: client, account: account})
	if _, err := tokens.Token(); err != nil {
		return nil, err
	}
	as := rest.AnonymousClientConfig(own)
	as.WrapTransport = transport.TokenSourceWrapTransport(tokens)
	return as, nil
}

// source asks the API server for a token whenever the last one is about to end.
type source struct {
	// ctx is the process's: token sources take none.
	ctx     context.Context
	client  kubernetes.Interface
	account types.NamespacedName
}

// Token implements oauth2.TokenSource.
func (s *source) Token() (*oauth2.Token, error) {
	ctx, cancel := context.WithTimeout(s.ctx, tokenTimeout)
	defer cancel()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(lifetime.Seconds()))}}
	answer, err := s.client.CoreV1().ServiceAccounts(s.account.Namespace).CreateToken(ctx, s.account.Name, request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("asking for a token of service account %s, which `make install` creates: %w", s.account, err)
	}
	return &oauth2.Token{AccessToken: answer.Status.Token, Expiry: answer.Status.ExpirationTimestamp.Time}, nil
}
