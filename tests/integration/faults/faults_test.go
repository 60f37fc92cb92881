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
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/faultproxy"
)

// rawFrom are the options of a watch that begins at a version.
func rawFrom(resourceVersion string) *metav1.ListOptions {
	return &metav1.ListOptions{ResourceVersion: resourceVersion}
}

func TestRolloutUnderFaults(t *testing.T) {
	const pods, limit = 40, 10
	for _, tc := range []struct {
		name   string
		faults faultproxy.Faults
	}{
		{"no faults", faultproxy.Faults{}},
		{"conflicts", faultproxy.Faults{Refuse: 0.2, Codes: []int{http.StatusConflict}}},
		{"too many requests", faultproxy.Faults{Refuse: 0.05, Codes: []int{http.StatusTooManyRequests}}},
		{"internal errors", faultproxy.Faults{Refuse: 0.1, Codes: []int{http.StatusInternalServerError}}},
		{"lost answers", faultproxy.Faults{Lose: 0.1}},
		{"slow watches", faultproxy.Faults{WatchDelay: time.Second}},
		{"watches that end", faultproxy.Faults{WatchLife: time.Second}},
		{"everything at once", faultproxy.Faults{
			Refuse: 0.1, Lose: 0.1, Codes: []int{http.StatusConflict, http.StatusTooManyRequests, http.StatusInternalServerError},
			WatchDelay: 300 * time.Millisecond, WatchLife: 3 * time.Second,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := env.Namespace(t)
			watching := observe(t, n)
			faulty(t, tc.faults)

			began := time.Now()
			n.Apply(environment.StatefulSetManifest("web", pods, "maxUnavailable: 1", "maxUnavailable: 25%"))
			n.Settled("web")
			started := time.Since(began)

			watching.startCounting()
			began = time.Now()
			n.SetImage("web", "example/web:v2")
			n.Settled("web")
			rolled := time.Since(began)
			watching.verify(t, pods, limit)

			counts := proxy.Counts()
			t.Logf("measured: %d pods started in %s and updated in %s, %d requests, %d refused, %d answers lost, %d watches cut",
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
			for _, pod := range n.Pods() {
				if got := pod.Spec.Containers[0].Image; got != "example/web:v2" || !serves(&pod) {
					t.Errorf("pod %s has image %s and serves %t", pod.Name, got, serves(&pod))
				}
			}
		})
	}
}

// TestAPIServerRestartsInMidRollout takes the API server away for as long as its start takes.
func TestAPIServerRestartsInMidRollout(t *testing.T) {
	const pods, limit = 40, 2
	n := env.Namespace(t)
	watching := observe(t, n)
	n.Apply(environment.StatefulSetManifest("web", pods, "maxUnavailable: 1", "maxUnavailable: 2"))
	n.Settled("web")
	watching.startCounting()
	n.SetImage("web", "example/web:v2")
	n.Eventually("the rollout is on its way", func(ctx context.Context) error {
		set := &v1beta1.StatefulSet{}
		if err := n.Client.Get(ctx, client.ObjectKey{Namespace: n.Name, Name: "web"}, set); err != nil {
			return err
		}
		if s := set.Status; s.ObservedGeneration != set.Generation || s.UpdatedReplicas < 3 {
			return fmt.Errorf("the status is %+v", s)
		}
		return nil
	})
	began := time.Now()
	if err := n.Cluster.RestartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	away := time.Since(began)
	if s := n.StatefulSet("web").Status; s.UpdatedAvailableReplicas == pods {
		t.Fatal("the rollout was over before the API server was restarted")
	}
	began = time.Now()
	n.Settled("web")
	t.Logf("measured: the API server was away for %s, the rollout ended %s later", away.Round(10*time.Millisecond), time.Since(began).Round(10*time.Millisecond))
	watching.verify(t, pods, limit)
	if err := n.Cluster.Exited(); err != nil {
		t.Errorf("a program did not survive the restart: %v", err)
	}
}

// TestFailingWritesMakeNoBusyLoop counts what the operator asks while nothing that it asks for is done.
func TestFailingWritesMakeNoBusyLoop(t *testing.T) {
	const sets, period = 5, 8 * time.Second
	for _, code := range []int{http.StatusInternalServerError, http.StatusForbidden, http.StatusConflict} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			n := env.Namespace(t)
			name := func(i int) string { return fmt.Sprintf("web-%c", 'a'+i) }
			for i := range sets {
				n.Apply(environment.StatefulSetManifest(name(i), 0, "maxUnavailable: 1", "maxUnavailable: 2"))
			}
			for i := range sets {
				n.Settled(name(i))
			}
			faulty(t, faultproxy.Faults{Refuse: 1, Codes: []int{code}})
			for i := range sets {
				n.Change(name(i), func(set *v1beta1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](20) })
			}
			n.Eventually("writes fail", func(context.Context) error {
				if proxy.Counts().Refused == 0 {
					return errors.New("none has failed yet")
				}
				return nil
			})
			proxy.Counts()
			n.Consistently(period, "there are no pods", func(ctx context.Context) error {
				pods, err := n.ListPods(ctx)
				if err == nil && len(pods) > 0 {
					err = fmt.Errorf("there are %v", environment.Names(pods))
				}
				return err
			})
			counts := proxy.Counts()
			t.Logf("measured: %d requests in %s for %d sets whose writes all fail with %d", counts.Requests, period, sets, code)
			// One request for each set and second would be patient; fifteen are not yet a burden. Without pauses there are several times as many.
			if limit := 15 * sets * int(period.Seconds()); counts.Requests > limit {
				t.Errorf("%d requests in %s, want at most %d", counts.Requests, period, limit)
			}
			if counts.Refused == 0 {
				t.Error("the operator gave up")
			}

			proxy.Set(faultproxy.Faults{})
			began := time.Now()
			for i := range sets {
				n.Settled(name(i))
			}
			t.Logf("measured: all %d pods are available %s after the faults ended", sets*20, time.Since(began).Round(10*time.Millisecond))
		})
	}
}
