// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package mapper

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// counting counts how often it is asked.
type counting struct {
	meta.RESTMapper
	asked int
}

func (c *counting) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	c.asked++
	return c.RESTMapper.RESTMapping(kind, versions...)
}

func TestMapperRemembersWhatWasFound(t *testing.T) {
	server := meta.NewDefaultRESTMapper(nil)
	inner := &counting{RESTMapper: server}
	m := &mapper{RESTMapper: inner}
	pod := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	for range 2 {
		if _, err := m.RESTMapping(pod.GroupKind(), pod.Version); !meta.IsNoMatchError(err) {
			t.Errorf("a kind that is not served: %v", err)
		}
	}
	server.Add(pod, meta.RESTScopeNamespace)
	for range 3 {
		mapping, err := m.RESTMapping(pod.GroupKind(), pod.Version)
		if err != nil || mapping.Resource.Resource != "pods" || mapping.Scope != meta.RESTScopeNamespace {
			t.Errorf("%+v, %v", mapping, err)
		}
	}
	if inner.asked != 3 {
		t.Errorf("asked %d times, want once for each failure and once more", inner.asked)
	}
	if _, err := m.RESTMapping(pod.GroupKind()); err == nil || inner.asked != 4 {
		t.Errorf("asked %d times, err %v: without a version it is not ours to answer", inner.asked, err)
	}
}
