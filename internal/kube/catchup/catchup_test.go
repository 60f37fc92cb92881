// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package catchup

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// server lists pods, two a page.
type server struct {
	client.Reader
	pods   []string // "<uid>@<version>"
	listed string
	errs   []error // the answers before the first list
}

func (s *server) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if len(s.errs) > 0 {
		err := s.errs[0]
		s.errs = s.errs[1:]
		return err
	}
	var o client.ListOptions
	o.ApplyOptions(opts)
	metadata, _ := list.(*metav1.PartialObjectMetadataList)
	rest := s.pods
	if o.Continue != "" {
		rest = rest[2:]
	}
	metadata.ResourceVersion, metadata.Continue, metadata.Items = s.listed, "", nil
	for _, pod := range rest[:min(len(rest), 2)] {
		metadata.Items = append(metadata.Items, metav1.PartialObjectMetadata{ObjectMeta: object(pod)})
	}
	if len(rest) > 2 {
		metadata.Continue = "more"
	}
	return nil
}

func object(text string) metav1.ObjectMeta {
	uid, version, _ := strings.Cut(text, "@")
	return metav1.ObjectMeta{Name: uid, UID: types.UID(uid), ResourceVersion: version}
}

// store is a cache's content.
type store struct {
	mu   sync.Mutex
	at   string
	pods []string
}

func (s *store) set(at string, pods ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at, s.pods = at, pods
}

func (s *store) LastStoreSyncResourceVersion() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at
}

func (s *store) List() []any {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []any
	for _, pod := range s.pods {
		all = append(all, &corev1.Pod{ObjectMeta: object(pod)})
	}
	return all
}

// A leader elected just after another's death created a third pod of two, and took a second
// one out of service.
func TestANewLeaderWaitsUntilItsCacheHoldsWhatTheServerHad(t *testing.T) {
	type view struct {
		at   string
		pods []string
	}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil)
	cases := map[string]struct {
		server  server
		lagging []view // each has to hold passes back
		caught  view
	}{
		"a pod that was created last": {
			server: server{pods: []string{"a@3", "b@9"}, listed: "12"}, lagging: []view{{"3", []string{"a@3"}}}, caught: view{"9", []string{"a@3", "b@9"}},
		},
		"a pod that was changed last": {
			server: server{pods: []string{"a@11", "b@9"}, listed: "12"}, lagging: []view{{"9", []string{"a@3", "b@9"}}}, caught: view{"11", []string{"a@11", "b@9"}},
		},
		"a pod that was deleted last": {
			server: server{pods: []string{"a@3"}, listed: "12"}, lagging: []view{{"9", []string{"a@3", "b@9"}}}, caught: view{"11", []string{"a@3"}},
		},
		"the last pod of all was deleted": {
			server: server{listed: "12"}, lagging: []view{{"9", []string{"b@9"}}}, caught: view{"11", nil},
		},
		"a pod on the second page": {
			server: server{pods: []string{"a@3", "b@9", "c@10"}, listed: "12"}, lagging: []view{{"9", []string{"a@3", "b@9"}}}, caught: view{"10", []string{"a@3", "b@9", "c@10"}},
		},
		"a cache that is not filled yet": {
			server: server{pods: []string{"a@3"}, listed: "12"}, lagging: []view{{"", nil}}, caught: view{"12", []string{"a@3"}},
		},
		"a quiet kind, whose cache never comes to the version of the list": {
			server: server{pods: []string{"a@3"}, listed: "12000"}, caught: view{"3", []string{"a@3"}},
		},
		"a cache that is ahead of the list": {
			server: server{pods: []string{"a@3"}, listed: "12"}, caught: view{"15", []string{"a@14", "new@15"}},
		},
		"an API server that does not answer at first": {
			server: server{pods: []string{"a@3"}, listed: "12", errs: []error{apierrors.NewInternalError(context.DeadlineExceeded), context.DeadlineExceeded}},
			caught: view{"3", []string{"a@3"}},
		},
		"a kind that may not be read": {server: server{errs: []error{forbidden}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cache := &store{}
				gate := New(&tc.server, logr.Discard())
				gate.Follow(corev1.SchemeGroupVersion.WithKind("Pod"), cache)
				passes := make(chan struct{}, 1)
				pass := gate.Reconciler(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
					passes <- struct{}{}
					return reconcile.Result{}, nil
				}))
				first := tc.caught
				if len(tc.lagging) > 0 {
					first = tc.lagging[0]
				}
				cache.set(first.at, first.pods...)
				go func() { _, _ = pass.Reconcile(t.Context(), reconcile.Request{}) }()
				synctest.Wait()
				select {
				case <-passes:
					t.Error("a pass begins before the election")
				default:
				}
				go func() { _ = gate.Start(t.Context()) }()
				for _, lagging := range tc.lagging {
					cache.set(lagging.at, lagging.pods...)
					time.Sleep(Timeout / 10)
					synctest.Wait()
					select {
					case <-passes:
						t.Errorf("a pass begins on a cache at %q with %v", lagging.at, lagging.pods)
					default:
					}
				}
				cache.set(tc.caught.at, tc.caught.pods...)
				time.Sleep(3 * time.Second)
				synctest.Wait()
				select {
				case <-passes:
				default:
					t.Error("no pass begins although the cache has caught up")
				}
			})
		})
	}
}

// A list failing for an hour was asked for five times a second, each time with a line in
// the log.
func TestAListThatFailsForLongIsAskedForLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const outage = time.Hour
		asked, lines := 0, 0
		refusing := &refusing{until: time.Now().Add(outage), asked: &asked}
		gate := New(refusing, funcr.New(func(_, text string) {
			if strings.Contains(text, "Listing until it succeeds") {
				lines++
			}
		}, funcr.Options{}))
		cache := &store{}
		cache.set("12")
		gate.Follow(corev1.SchemeGroupVersion.WithKind("Pod"), cache)
		began := time.Now()
		if err := gate.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if late := time.Since(began) - outage; late < 0 || late > 3*time.Second {
			t.Errorf("the gate opens %v after the end of the outage", late)
		}
		if most := int(outage / pause); asked > most+10 {
			t.Errorf("asked %d times", asked)
		}
		if lines != 1 {
			t.Errorf("%d lines, want 1", lines)
		}
	})
}

// refusing answers from some time on.
type refusing struct {
	server
	until time.Time
	asked *int
}

func (r *refusing) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	*r.asked++
	if time.Now().Before(r.until) {
		return apierrors.NewInternalError(context.DeadlineExceeded)
	}
	return r.server.List(ctx, list, opts...)
}

func TestACacheThatNeverCatchesUpDoesNotStopTheLeaderForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := New(&server{pods: []string{"a@3"}, listed: "12"}, logr.Discard())
		gate.Follow(corev1.SchemeGroupVersion.WithKind("Pod"), &store{})
		began := time.Now()
		if err := gate.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited < Timeout || waited > Timeout+time.Second {
			t.Errorf("waited %v, want %v", waited, Timeout)
		}
		select {
		case <-gate.opened:
		default:
			t.Error("the gate is closed")
		}
	})
}

func TestAPassThatCannotWaitAnyLongerComesBack(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	gate := New(&server{}, logr.Discard())
	result, err := gate.Reconciler(nil).Reconcile(ctx, reconcile.Request{})
	if err != nil || result.RequeueAfter != again {
		t.Errorf("%+v, %v", result, err)
	}
	if gate.Follow(corev1.SchemeGroupVersion.WithKind("Pod"), &store{}); !gate.NeedLeaderElection() {
		t.Error("it runs in every replica")
	}
}
