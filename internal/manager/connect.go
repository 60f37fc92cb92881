// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/kube/pages"
	"github.com/kruise-operator/kruise-operator/internal/platform/connection"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
	"github.com/kruise-operator/kruise-operator/internal/platform/serviceaccount"
	"github.com/kruise-operator/kruise-operator/internal/platform/version"
)

// connectAs connects with the rights of a service account, <namespace>/<name>, or of the caller. The client has no cache.
func connectAs(ctx context.Context, account string) (*rest.Config, client.Client, error) {
	server, err := connection.Config(version.UserAgent())
	if err != nil {
		return nil, nil, err
	}
	if account != "" {
		name, err := serviceaccount.Parse(account)
		if err != nil {
			return nil, nil, fmt.Errorf("--service-account: %w", err)
		}
		if server, err = serviceaccount.As(ctx, server, name); err != nil {
			return nil, nil, err
		}
	}
	return directTo(server)
}

func directTo(server *rest.Config) (*rest.Config, client.Client, error) {
	server.UserAgent = version.UserAgent()
	pages.Bound(server)
	types, err := scheme.New()
	if err != nil {
		return nil, nil, err
	}
	direct, err := client.New(server, client.Options{Scheme: types})
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	return server, direct, nil
}
