// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kruise-operator/kruise-operator/internal/kinds"
)

// instant is a clock without waiting.
type instant struct{ clock.RealClock }

func (instant) After(time.Duration) <-chan time.Time { return clock.RealClock{}.After(0) }

func widget() kinds.Kind {
	return kinds.Kind{Name: "Widget", Plural: "widgets", Group: "example.com", Versions: []string{"v1alpha1", "v1beta1"}, Storage: "v1beta1"}
}

// server is a definition of widgets and some of them.
type server struct {
	t       *testing.T
	storage string
	stored  []string
	widgets int
	// none: there is no definition.
	none bool
	// refused objects may not be written. failing is the number of first writes to fail;
	// meanwhile runs at each write.
	refused   []string
	failing   int
	meanwhile func(*unstructured.Unstructured)

	client  client.Client
	written []string
}

func (s *server) definition() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "widgets.example.com"},
		"spec": map[string]any{"versions": []any{
			map[string]any{"name": "v1alpha1", "storage": s.storage == "v1alpha1"}, map[string]any{"name": "v1beta1", "storage": s.storage == "v1beta1"},
		}},
	}}
}

func (s *server) migration() *Migration {
	builder := fake.NewClientBuilder()
	if !s.none {
		definition := s.definition()
		if err := unstructured.SetNestedStringSlice(definition.Object, s.stored, "status", "storedVersions"); err != nil {
			s.t.Fatal(err)
		}
		builder = builder.WithObjects(definition).WithStatusSubresource(definition)
	}
	s.client = interceptor.NewClient(builder.Build(), interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			o := &client.ListOptions{}
			o.ApplyOptions(options)
			partial, is := list.(*metav1.PartialObjectMetadataList)
			if !is || partial.GroupVersionKind() != (schema.GroupVersionKind{Group: "example.com", Version: "v1beta1", Kind: "WidgetList"}) || o.Limit == 0 {
				return fmt.Errorf("a list of %T %s, limit %d", list, list.GetObjectKind().GroupVersionKind(), o.Limit)
			}
			first := 0
			if o.Continue != "" {
				_, _ = fmt.Sscan(o.Continue, &first)
			}
			partial.Items, partial.Continue = nil, ""
			for i := first; i < min(first+2, s.widgets); i++ { // pages of two
				partial.Items = append(partial.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("w%d", i)}})
			}
			if first+2 < s.widgets {
				partial.Continue = fmt.Sprint(first + 2)
			}
			return nil
		},
		Patch: func(ctx context.Context, _ client.WithWatch, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
			if body, err := patch.Data(object); err != nil || string(body) != "{}" {
				return fmt.Errorf("a patch of %s: %w", body, err)
			}
			if s.failing > 0 {
				s.failing--
				return apierrors.NewInternalError(errors.New("etcd is away"))
			}
			if slices.Contains(s.refused, object.GetName()) {
				return apierrors.NewForbidden(schema.GroupResource{}, object.GetName(), errors.New("a policy refuses it"))
			}
			s.written = append(s.written, object.GetName())
			if object.GetName() == "w1" {
				return apierrors.NewNotFound(schema.GroupResource{}, "w1")
			}
			if s.meanwhile != nil {
				definition := s.definition()
				if err := s.client.Get(ctx, client.ObjectKeyFromObject(definition), definition); err != nil {
					return err
				}
				s.meanwhile(definition)
				return s.client.Update(ctx, definition)
			}
			return nil
		},
	})
	return New(Options{Client: s.client, Kinds: []kinds.Kind{widget()}, Ready: func() bool { return true }, Changed: func() {}, Clock: instant{}, Log: logr.Discard()})
}

func (s *server) storedVersions() string {
	definition := s.definition()
	if err := s.client.Get(s.t.Context(), client.ObjectKeyFromObject(definition), definition); err != nil {
		s.t.Fatal(err)
	}
	stored, _, _ := unstructured.NestedStringSlice(definition.Object, "status", "storedVersions")
	return strings.Join(stored, " ")
}

func TestMigrate(t *testing.T) {
	both := []string{"v1alpha1", "v1beta1"}
	cases := map[string]struct {
		server server
		// written are the written objects, stored is the definition's field then.
		written []string
		stored  string
		failed  bool
	}{
		"nothing is stored in another version": {server{storage: "v1beta1", stored: []string{"v1beta1"}, widgets: 3}, nil, "v1beta1", false},
		"some objects, one of which goes":      {server{storage: "v1beta1", stored: both, widgets: 5}, []string{"w0", "w1", "w2", "w3", "w4"}, "v1beta1", false},
		"no objects":                           {server{storage: "v1beta1", stored: both}, nil, "v1beta1", false},
		"another version is stored":            {server{storage: "v1alpha1", stored: both, widgets: 3}, nil, "v1alpha1 v1beta1", false},
		"a write fails":                        {server{storage: "v1beta1", stored: both, widgets: 3, failing: 1}, nil, "v1alpha1 v1beta1", true},
		"objects that are refused keep no others from being written": {
			server{storage: "v1beta1", stored: both, widgets: 5, refused: []string{"w0", "w3"}}, []string{"w1", "w2", "w4"}, "v1alpha1 v1beta1", true,
		},
		"the stored version changes meanwhile": {
			server{storage: "v1beta1", stored: both, widgets: 1, meanwhile: func(definition *unstructured.Unstructured) {
				versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
				versions[0].(map[string]any)["storage"], versions[1].(map[string]any)["storage"] = true, false
				_ = unstructured.SetNestedSlice(definition.Object, versions, "spec", "versions")
			}},
			[]string{"w0"}, "v1alpha1 v1beta1", true,
		},
		"the authority of its conversion changes meanwhile": {
			server{storage: "v1beta1", stored: both, widgets: 1, meanwhile: func(definition *unstructured.Unstructured) {
				definition.SetAnnotations(map[string]string{"touched": "yes"})
			}},
			[]string{"w0"}, "v1beta1", false,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := tc.server
			s.t = t
			err := s.migration().Migrate(t.Context(), widget())
			if (err != nil) != tc.failed {
				t.Errorf("error %v", err)
			}
			if !slices.Equal(s.written, tc.written) {
				t.Errorf("written are %v, want %v", s.written, tc.written)
			}
			if got := s.storedVersions(); got != tc.stored {
				t.Errorf("stored are %s, want %s", got, tc.stored)
			}
		})
	}
	t.Run("there is no definition", func(t *testing.T) {
		s := server{t: t, none: true}
		if err := s.migration().Migrate(t.Context(), widget()); err != nil {
			t.Error(err)
		}
	})
}

func TestStartTriesAgainAndSaysSo(t *testing.T) {
	s := server{t: t, storage: "v1beta1", stored: []string{"v1alpha1", "v1beta1"}, widgets: 3, failing: 2}
	m := s.migration()
	var said []string
	waits, changed := 2, 0
	m.options.Changed = func() { changed++ }
	m.options.Ready = func() bool {
		said = append(said, m.Working())
		waits--
		return waits < 0
	}
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.storedVersions(); got != "v1beta1" || len(s.written) != 3 {
		t.Errorf("stored are %s, written %v", got, s.written)
	}
	if len(said) < 5 || said[2] != "" || !strings.Contains(said[3], "Widget that may be stored as v1alpha1 are being written as v1beta1") || m.Working() != "" {
		t.Errorf("it says %q, and %q at the end", said, m.Working())
	}
	if changed == 0 {
		t.Error("nobody is told of changes")
	}
}
