// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/kruise-operator/kruise-operator/internal/kube/pages"
	"github.com/kruise-operator/kruise-operator/internal/testutil/listserver"
)

// TestListsOfUsersAreReadWithinBounds: webhooks' clients come from this configuration.
func TestListsOfUsersAreReadWithinBounds(t *testing.T) {
	kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	server := &listserver.Server{Lists: map[schema.GroupVersionKind][][]byte{}}
	for i := range 20 {
		server.Lists[kind] = append(server.Lists[kind], fmt.Appendf(nil, `{"metadata":{"name":"m%02d"},"data":{"a":"%s"}}`, i, strings.Repeat("x", 1<<20)))
	}
	reader := server.Client(t, scheme.Scheme, func(config *rest.Config) {
		if _, _, err := directTo(config); err != nil {
			t.Fatal(err)
		}
	})
	limits := pages.Limits{Objects: 100, Bytes: 5 << 20}
	more, err := pages.Read(t.Context(), reader, &corev1.ConfigMapList{}, limits, func(*corev1.ConfigMapList) bool { return true })
	if err != nil || !more || server.Sent > limits.Bytes+len(server.Asked) {
		t.Errorf("read %d bytes, more: %v, %v", server.Sent, more, err)
	}
}
