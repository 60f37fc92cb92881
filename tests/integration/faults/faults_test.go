// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/faultproxy"
)

// rawFrom are the options of a watch from a version on.
func rawFrom(resourceVersion string) *metav1.ListOptions {
	return &metav1.ListOptions{ResourceVersion: resourceVersion}
}

// TestRolloutUnderFaults has many faults hit many pods at once. tests/chaos covers single
// ones at any moment.
func TestRolloutUnderFaults(t *testing.T) {
	const pods, limit = 40, 10
	for _, tc := range []struct {
		name   string
		faults faultproxy.Faults
	}{
		{"slow watches", faultproxy.Faults{WatchDelay: time.Second}},
		{"watches that end", faultproxy.Faults{WatchLife: time.Second}},
		{"everything at once", faultproxy.Faults{
			Refuse: 0.1, Lose: 0.1, Codes: []int{http.StatusConflict, http.StatusTooManyRequests, http.StatusInternalServerError},
			WatchDelay: 300 * time.Millisecond, WatchLife: 3 * time.Second,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sets := eachKind(t)
			faulty(t, tc.faults)

			began := time.Now()
			for _, s := range sets {
				s.apply("web", pods, "25%")
			}
			for _, s := range sets {
				s.settled("web")
			}
			started := time.Since(began)

			began = time.Now()
			for _, s := range sets {
				s.watching.startCounting()
				s.setImage("web", "example/web:v2")
			}
			for _, s := range sets {
				s.settled("web")
			}
			rolled := time.Since(began)
			for _, s := range sets {
				s.watching.verify(t, pods, limit)
			}

			counts := proxy.Counts()
			t.Logf("measured: a StatefulSet and a CloneSet of %d pods started in %s and updated in %s, %d requests, %d refused, %d answers lost, %d watches cut",
				pods, started.Round(10*time.Millisecond), rolled.Round(10*time.Millisecond), counts.Requests, counts.Refused, counts.Lost, counts.Cut)
			for _, fault := range []struct {
				asked    bool
				happened int
			}{{tc.faults.Refuse > 0, counts.Refused}, {tc.faults.Lose > 0, counts.Lost}, {tc.faults.WatchLife > 0, counts.Cut}} {
				if fault.asked && fault.happened == 0 {
					t.Errorf("a fault did not happen: %+v", counts)
				}
			}
			if started < tc.faults.WatchDelay {
				t.Errorf("the start took %s although watches are %s late", started, tc.faults.WatchDelay)
			}
			for _, s := range sets {
				for _, pod := range s.Pods() {
					if got := pod.Spec.Containers[0].Image; got != "example/web:v2" || !serves(&pod) {
						t.Errorf("pod %s has image %s and serves %t", pod.Name, got, serves(&pod))
					}
				}
			}
		})
	}
}

// TestAPIServerRestartsInMidRollout takes the API server away for as long as its start takes.
func TestAPIServerRestartsInMidRollout(t *testing.T) {
	const pods, limit = 40, 2
	sets := eachKind(t)
	for _, s := range sets {
		s.apply("web", pods, "2")
	}
	for _, s := range sets {
		s.settled("web")
	}
	for _, s := range sets {
		s.watching.startCounting()
		s.setImage("web", "example/web:v2")
	}
	for _, s := range sets {
		s.Eventually("the rollout is on its way", func(ctx context.Context) error {
			if at, err := s.progress(ctx, "web"); err != nil || at.updated < 3 {
				return errors.Join(err, fmt.Errorf("it is at %+v", at))
			}
			return nil
		})
	}
	began := time.Now()
	if err := env.Cluster.RestartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	away := time.Since(began)
	for _, s := range sets {
		if at, err := s.progress(t.Context(), "web"); err != nil || at.updatedAvailable == pods {
			t.Fatalf("the rollout of the %s was over before the API server was restarted: %+v, %v", s.kind, at, err)
		}
	}
	began = time.Now()
	for _, s := range sets {
		s.settled("web")
	}
	t.Logf("measured: the API server was away for %s, the rollouts ended %s later", away.Round(10*time.Millisecond), time.Since(began).Round(10*time.Millisecond))
	for _, s := range sets {
		s.watching.verify(t, pods, limit)
	}
	if err := env.Cluster.Exited(); err != nil {
		t.Errorf("a program did not survive the restart: %v", err)
	}
}

// TestFailingWritesMakeNoBusyLoop counts the operator's requests while none succeeds.
func TestFailingWritesMakeNoBusyLoop(t *testing.T) {
	const each, period = 3, 8 * time.Second
	for _, code := range []int{http.StatusInternalServerError, http.StatusForbidden, http.StatusConflict} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			kinds := eachKind(t)
			sets := each * len(kinds)
			forAll := func(do func(s *oneKind, name string)) {
				for _, s := range kinds {
					for i := range each {
						do(s, fmt.Sprintf("web-%c", 'a'+i))
					}
				}
			}
			forAll(func(s *oneKind, name string) { s.apply(name, 0, "2") })
			forAll(func(s *oneKind, name string) { s.settled(name) })
			faulty(t, faultproxy.Faults{Refuse: 1, Codes: []int{code}})
			forAll(func(s *oneKind, name string) { s.scale(name, 20) })
			kinds[0].Eventually("writes fail", func(context.Context) error {
				if proxy.Counts().Refused == 0 {
					return errors.New("none has failed yet")
				}
				return nil
			})
			proxy.Counts()
			kinds[0].Consistently(period, "there are no pods", func(ctx context.Context) error {
				for _, s := range kinds {
					if pods, err := s.ListPods(ctx); err != nil || len(pods) > 0 {
						return errors.Join(err, fmt.Errorf("of the %s there are %v", s.kind, environment.Names(pods)))
					}
				}
				return nil
			})
			counts := proxy.Counts()
			t.Logf("measured: %d requests in %s for %d sets whose writes all fail with %d", counts.Requests, period, sets, code)
			// One request for each set and second would be few; twenty are not yet a burden. Without pauses there are several times as many.
			if limit := 20 * sets * int(period.Seconds()); counts.Requests > limit {
				t.Errorf("%d requests in %s, want at most %d", counts.Requests, period, limit)
			}
			if counts.Refused == 0 {
				t.Error("the operator gave up")
			}

			proxy.Set(faultproxy.Faults{})
			began := time.Now()
			forAll(func(s *oneKind, name string) { s.settled(name) })
			t.Logf("measured: all %d pods are available %s after the faults ended", sets*20, time.Since(began).Round(10*time.Millisecond))
			for _, s := range kinds {
				if got := len(s.Pods()); got != each*20 {
					t.Errorf("of the %s there are %d pods, want %d", s.kind, got, each*20)
				}
			}
		})
	}
}
