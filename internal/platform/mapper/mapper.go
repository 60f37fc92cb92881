// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package mapper maps kinds to resources, and looks up each kind only once.
package mapper

import (
	"fmt"
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// New returns the manager's mapper. It remembers found kinds: every metadata write asks, and
// controller-runtime's mapper sorts all resources of the group each time. Missing kinds are looked up again:
// their CRD may come later.
func New(server *rest.Config, client *http.Client) (meta.RESTMapper, error) {
	dynamic, err := apiutil.NewDynamicRESTMapper(server, client)
	if err != nil {
		return nil, fmt.Errorf("making the mapper of kinds to resources: %w", err)
	}
	return &mapper{RESTMapper: dynamic}, nil
}

type mapper struct {
	meta.RESTMapper
	known sync.Map // schema.GroupVersionKind to *meta.RESTMapping
}

// RESTMapping implements meta.RESTMapper.
func (m *mapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if len(versions) != 1 {
		return m.RESTMapper.RESTMapping(kind, versions...)
	}
	key := kind.WithVersion(versions[0])
	if known, ok := m.known.Load(key); ok {
		return known.(*meta.RESTMapping), nil //nolint:forcetypeassert // nothing else is stored
	}
	mapping, err := m.RESTMapper.RESTMapping(kind, versions...)
	if err != nil {
		return nil, err
	}
	m.known.Store(key, mapping)
	return mapping, nil
}
