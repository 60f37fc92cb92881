// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package rolling_test compares the model of the Deployment controller, by which package rolling was proven, with the real one.
package rolling_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kruise-operator/kruise-operator/internal/engine/rolling"
	"github.com/kruise-operator/kruise-operator/internal/engine/rolling/testutil"
	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
)

// inParallel is how many schedules run at once: they mostly wait.
const inParallel = 12

// readyAfter is how long a pod takes.
const readyAfter = 150 * time.Millisecond

var shared cluster.Shared

func TestMain(m *testing.M) {
	code := m.Run()
	if err := shared.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func start(t *testing.T) (*cluster.Cluster, kubernetes.Interface) {
	t.Helper()
	c := shared.ForTest(t)
	config := rest.CopyConfig(c.Config())
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	simnode.StartForTest(t, config, simnode.Options{Delays: simnode.Delays{Ready: readyAfter}})
	return c, client
}

// TestBatchesOfADeploymentWithTheRealController runs random schedules: new pods stay within the step, ready ones within the limits of
// the user, and at rest the ReplicaSets have the sizes that the model gives. The controller stands still now and then, so that it acts by
// what it saw earlier.
func TestBatchesOfADeploymentWithTheRealController(t *testing.T) {
	c, client := start(t)
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	go disturb(t, c, stop)
	t.Run("schedules", func(t *testing.T) {
		slots := make(chan struct{}, inParallel)
		var all sync.WaitGroup
		for i := range sample.Number(inParallel, 500) {
			seed := uint64(sample.Day()*1000 + i)
			slots <- struct{}{}
			all.Go(func() {
				defer func() { <-slots }()
				t.Run(fmt.Sprint(seed), func(t *testing.T) { run(t, client, seed) })
			})
		}
		all.Wait()
	})
}

// disturb lets the controllers stand still now and then.
func disturb(t *testing.T, c *cluster.Cluster, stop chan struct{}) {
	random := rand.New(rand.NewPCG(1, 1))
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(random.IntN(2000)) * time.Millisecond):
		}
		if err := c.Suspend(cluster.ControllerManager, time.Duration(random.IntN(300))*time.Millisecond); err != nil {
			t.Error(err)
			return
		}
	}
}

// schedule is a release with what its user does.
type schedule struct {
	*deployment
	random *rand.Rand
	watch  *watcher
	model  testutil.Release
	// stormy: the user acts at any time, so that the model cannot tell what comes out.
	stormy       bool
	third, scale int
	step         int
}

func run(t *testing.T, client kubernetes.Interface, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 7))
	plan := testutil.Plan{
		Surge: random.IntN(4), Unavailable: random.IntN(4), Steps: []int{10 + random.IntN(30), 45 + random.IntN(50), 100},
	}
	if plan.Surge+plan.Unavailable == 0 {
		plan.Unavailable = 1 // the API server refuses two zeros
	}
	replicas := 1 + random.IntN(9)
	s := &schedule{random: random, watch: &watcher{version: -1}, stormy: seed%2 == 1, third: random.IntN(2), scale: random.IntN(3)}
	s.model = testutil.Started(plan, replicas)
	s.deployment = newDeployment(t, client, plan, replicas)
	t.Logf("%d pods, %+v, stormy: %t, scaled %d times, third versions: %d", replicas, plan, s.stormy, s.scale, s.third)
	s.start(s.watch)
	s.template(1)
	s.allow()
	for !s.batch() {
		s.user()
	}
	s.watch.set(func(w *watcher) { w.free = true })
	s.restore()
	s.until("the release ends", func() bool {
		now := s.read()
		sizes, all := now.sizes(), int(*now.deployment.Spec.Replicas)
		return now.caughtUp() && sizes[version(&now.deployment.Spec.Template)] == all && now.ready() == all
	})
	s.watch.set(func(w *watcher) {
		for _, broken := range w.broken {
			t.Error(broken)
		}
		if w.oldest > 1 && !s.stormy {
			t.Errorf("%d pods of the oldest version went before those of the middle one", w.oldest)
		}
	})
}

// allow tells the watcher what the present step and size allow.
func (s *schedule) allow() {
	now := s.read()
	v := s.view(now, s.step)
	s.watch.set(func(w *watcher) {
		w.version, w.limit = version(&now.deployment.Spec.Template), v.Limit
		w.least = v.Replicas - v.Unavailable
		w.sizes = now.sizes()
	})
}

// batch moves until the step has what it allows, and compares with the model. It says whether that was the last step.
func (s *schedule) batch() (last bool) {
	s.Helper()
	s.until("the step is reached", func() bool {
		now := s.read()
		if s.stormy && s.random.IntN(60) == 0 {
			s.user()
			return false
		}
		v := s.view(now, s.step)
		step := rolling.Next(v)
		rests := step.Verb == rolling.Reached && now.deployment.Spec.Paused && !v.Uncounting
		if v.Last && v.Loose { // the controller goes on until no old pod is left
			rests = v.New.Replicas >= v.Replicas && total(now.sizes()) == v.Replicas
		}
		if rests && v.CaughtUp && now.ready() >= v.Replicas {
			return true
		}
		if s.random.IntN(4) == 0 {
			time.Sleep(time.Duration(s.random.IntN(200)) * time.Millisecond)
		}
		s.act(now, step, v)
		return false
	})
	s.compare()
	if s.step+1 == len(s.plan.Steps) {
		return true
	}
	s.step++
	s.model.Approve(s.plan)
	s.allow()
	return false
}

// orders is how many orders of the model are tried.
const orders = 2000

// compare wants an end that the model can come to, and goes on from there. One pod may be of another version: the real controller shares
// a surplus in orders that the model does not have. Then the rest of the schedule has no model.
func (s *schedule) compare() {
	s.Helper()
	if s.stormy {
		return
	}
	got := s.read().sizes()
	var sizes [][testutil.Versions]int
	for _, end := range s.model.Ends(s.plan, orders, s.random.IntN) {
		if end.Sizes() == got {
			s.model = end
			return
		}
		sizes = append(sizes, end.Sizes())
	}
	if slices.ContainsFunc(sizes, func(end [testutil.Versions]int) bool { return moved(end, got) == 1 }) {
		s.Logf("step %d: one pod is of another version than in the model: %v, and %v there", s.step, got, sizes)
		s.stormy = true
		return
	}
	s.Fatalf("step %d: the ReplicaSets have the sizes %v, and in the model one of %v", s.step, got, sizes)
}

func total(sizes [testutil.Versions]int) (n int) {
	for _, size := range sizes {
		n += size
	}
	return n
}

// moved is how many pods are of other versions.
func moved(a, b [testutil.Versions]int) int {
	more, less := 0, 0
	for i := range a {
		more += max(0, b[i]-a[i])
		less += max(0, a[i]-b[i])
	}
	return max(more, less)
}

// user does something, or nothing.
func (s *schedule) user() {
	s.Helper()
	switch {
	case s.third > 0 && s.random.IntN(3) == 0:
		s.third--
		s.step = 0
		s.template(2)
		s.model.Template(2)
		s.allow()
	case s.scale > 0 && s.random.IntN(2) == 0:
		s.scale--
		to := 1 + s.random.IntN(9)
		s.watch.set(func(w *watcher) { w.free, w.excused = true, true })
		s.Helper()
		s.deployment.scale(to)
		s.model.Scale(to)
		s.allow()
	}
}
