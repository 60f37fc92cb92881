// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package imagepuller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/daemon/cri"
	"github.com/kruise-operator/kruise-operator/internal/daemon/cri/critest"
)

var errKilled = errors.New("the daemon was killed")

// mortal is a daemon's world until it is killed at the given request to the runtime or API
// server. Afterwards it reaches nothing.
type mortal struct {
	cri.Runtime
	// at is the step, 0 for none; carriedOut requests take effect, their answer is lost.
	at         int
	carriedOut bool
	end        context.CancelFunc

	mu    sync.Mutex
	steps []string
	// dead: it reaches nothing more. over: its last request has ended, too.
	dead, over bool
}

func (m *mortal) step(name string, do func() error) error {
	m.mu.Lock()
	if m.dead {
		m.mu.Unlock()
		return errKilled
	}
	m.steps = append(m.steps, name)
	m.dead = len(m.steps) == m.at
	dies := m.dead
	m.mu.Unlock()
	var err error
	if !dies || m.carriedOut {
		err = do()
	}
	if dies {
		m.mu.Lock()
		m.over = true
		m.mu.Unlock()
		m.end()
		return errKilled
	}
	return err
}

func (m *mortal) killed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.over
}

// Of implements cri.Runtime: it is the only one.
func (m *mortal) Of(string) cri.Runtime { return m }

// ImageID implements cri.Runtime.
func (m *mortal) ImageID(ctx context.Context, reference string) (id string, err error) {
	err = m.step("look", func() error { id, err = m.Runtime.ImageID(ctx, reference); return err })
	return id, err
}

// PullImage implements cri.Runtime.
func (m *mortal) PullImage(ctx context.Context, pull cri.Pull) (id string, err error) {
	err = m.step("pull", func() error { id, err = m.Runtime.PullImage(ctx, pull); return err })
	return id, err
}

// client is the API server as the daemon sees it.
func (m *mortal) client(c client.WithWatch) client.Client {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			return m.step(fmt.Sprintf("read %T", object), func() error { return c.Get(ctx, key, object, options...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			return m.step("write", func() error { return c.SubResource(sub).Patch(ctx, object, patch, options...) })
		},
	})
}

// live runs a daemon until its node is done, or it is killed.
func (m *mortal) live(t *testing.T, c client.WithWatch, runtime *critest.Runtime, clock *clocktesting.FakeClock) v1beta1.NodeImageStatus {
	t.Helper()
	d := start(t, m.client(c), runtime, 1)
	defer d.end()
	m.Runtime, m.end = runtime, d.end
	d.p.Runtime, d.p.Clock = m, clock
	deadline := time.Now().Add(time.Minute)
	for {
		_, err := d.p.Reconcile(d.lifetime, reconcile.Request{NamespacedName: client.ObjectKey{Name: "n1"}})
		list := &v1beta1.NodeImage{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: "n1"}, list); err != nil {
			t.Fatal(err)
		}
		if s := list.Status; m.killed() || s.Desired > 0 && s.Succeeded+s.Failed == s.Desired {
			return s
		}
		if err != nil && !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatalf("the status is %+v", list.Status)
		}
		select {
		case <-d.p.Changed:
		case <-time.After(2 * time.Millisecond):
			clock.Step(time.Second)
		}
	}
}

// TestKilledAtEveryStep kills the daemon at each request, carried out or not, and restarts
// it. A pulled image is not pulled again unless the registry is to be asked, only the lost
// try may be repeated, and the status is right.
func TestKilledAtEveryStep(t *testing.T) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "registry"}, Data: map[string][]byte{
		corev1.DockerConfigJsonKey: []byte(`{"auths":{"docker.io":{"username":"me","password":"secret"}}}`),
	}}
	always := tag("1", 0)
	always.ImagePullPolicy = v1beta1.PullAlways
	for name, tc := range map[string]struct {
		tags []v1beta1.ImageTagSpec
		// refused is how many pulls the registry refuses at first.
		refused int
		// steps are the least of a living daemon; pulls are its pulls, again the additional
		// ones after a kill.
		steps, pulls, again int
		failed              int32
	}{
		"an image":                         {tags: []v1beta1.ImageTagSpec{tag("1", 0)}, steps: 6, pulls: 1},
		"two images":                       {tags: []v1beta1.ImageTagSpec{tag("1", 0), tag("2", 0)}, steps: 9, pulls: 2},
		"an image that may have moved":     {tags: []v1beta1.ImageTagSpec{always}, steps: 5, pulls: 1, again: 1},
		"an image at the second try":       {tags: []v1beta1.ImageTagSpec{tag("1", 1)}, refused: 1, steps: 8, pulls: 2},
		"an image that cannot be had":      {tags: []v1beta1.ImageTagSpec{tag("1", 0)}, refused: 9, steps: 6, pulls: 1, again: 1, failed: 1},
		"an image that cannot be had, two": {tags: []v1beta1.ImageTagSpec{tag("1", 1)}, refused: 9, steps: 8, pulls: 2, again: 2, failed: 1},
	} {
		t.Run(name, func(t *testing.T) {
			images := map[string]v1beta1.ImageSpec{"nginx": {
				Tags: tc.tags, PullSecrets: []v1beta1.ImagePullSecret{{Namespace: namespace, Name: "registry"}},
			}}
			// once runs to the end, killed at a step, and tells if the step was reached.
			once := func(at int, carriedOut bool) bool {
				what := fmt.Sprintf("killed at step %d, carried out: %v", at, carriedOut)
				refused := 0
				runtime := &critest.Runtime{OnPull: func(context.Context, cri.Pull) error {
					if refused++; refused <= tc.refused {
						return errors.New("denied")
					}
					return nil
				}}
				c, ok := store(t, images, secret).(client.WithWatch)
				if !ok {
					t.Fatal("the API server cannot be watched")
				}
				clock := clocktesting.NewFakeClock(time.Now())
				first := &mortal{at: at, carriedOut: carriedOut}
				status := first.live(t, c, runtime, clock)
				if first.killed() {
					status = (&mortal{}).live(t, c, runtime, clock)
				} else if at > 0 && len(first.steps) < tc.steps {
					t.Fatalf("there are only %d steps: %v", len(first.steps), first.steps)
				}
				pulls := len(runtime.Calls())
				most := tc.pulls
				if first.killed() {
					most += tc.again
				}
				all := int32(len(tc.tags))
				if pulls < tc.pulls || pulls > most || status.Failed != tc.failed || status.Succeeded != all-tc.failed || status.Pulling+status.Waiting != 0 {
					t.Errorf("%s: %d pulls, want %d to %d; the status is %+v; steps %v", what, pulls, tc.pulls, most, status, first.steps)
				}
				for _, answer := range status.ImageStatuses["nginx"].Tags {
					if answer.StartTime == nil || answer.CompletionTime == nil {
						t.Errorf("%s: %+v", what, answer)
					}
				}
				return first.killed()
			}
			at := 1
			for once(at, false) && once(at, true) {
				at++
			}
			t.Logf("killed at %d steps", at-1)
		})
	}
}
