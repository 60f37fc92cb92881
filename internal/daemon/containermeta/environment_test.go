// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package containermeta

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/daemon/cri"
	"github.com/kruise-operator/kruise-operator/internal/engine/inplace"
)

// newSilentBench has a runtime like cri-dockerd, silent about environments. A command in
// the container prints instead.
func newSilentBench(t *testing.T, print func(container string) (cri.ExecResult, error), change ...func(*corev1.Pod)) *bench {
	t.Helper()
	b := newBench(t, change...)
	b.runtime.OnStop = func(_ context.Context, c cri.Container, _ time.Duration) error {
		b.make(c.Name, c.Attempt+1)
		return nil
	}
	b.runtime.OnExec = func(_ context.Context, c cri.Container, command []string) (cri.ExecResult, error) {
		if !slices.Equal(command, []string{"cat", "/proc/self/environ"}) {
			t.Errorf("ran %q", command)
		}
		return print(c.ID)
	}
	b.make("app", 1)
	return b
}

func prints(variables ...string) (cri.ExecResult, error) {
	return cri.ExecResult{Stdout: []byte(strings.Join(variables, "\x00") + "\x00")}, nil
}

// If the runtime is silent, a command in the container answers, once per instance.
func TestAContainerIsAskedForWhatTheRuntimeDoesNotTell(t *testing.T) {
	b := newSilentBench(t, func(container string) (cri.ExecResult, error) {
		if container == "app-1" {
			return prints("PATH=/bin", "NOTE=of two lines\nRELEASE=r2", "RELEASE=r1")
		}
		return prints("PATH=/bin", "NOTE=of two lines\nRELEASE=r1", "RELEASE=r2")
	})
	b.passes(10)
	if got := b.calls(); got != "Exec app-1, Stop app-1, Exec app-2" {
		t.Errorf("asked of the runtime: %q", got)
	}
	pod := b.pod()
	for i, id := range []string{"containerd://app-2", "containerd://log-0"} {
		pod.Status.ContainerStatuses[i].ContainerID = id
	}
	if s := inplace.Check(pod, inplace.Options{EnvFromMetadata: true}, b.clock.Now()); s.Progress != inplace.Done {
		t.Errorf("with the report %s the update is %+v", pod.Annotations[shared.AnnotationRuntimeContainersMeta], s)
	}
}

// Unknown values are no reason for a stop. The user hears why the update waits, and the
// container is not asked in every pass.
func TestAnEnvironmentThatIsNotKnown(t *testing.T) {
	for what, tc := range map[string]struct {
		print func(string) (cri.ExecResult, error)
		why   string
	}{
		"an image without the command": {
			func(string) (cri.ExecResult, error) { return cri.ExecResult{ExitCode: 127}, nil }, "ended with code 127",
		},
		"a command that cannot be run": {
			func(id string) (cri.ExecResult, error) {
				return cri.ExecResult{}, errors.New("container " + id + ": no such file")
			}, "container app: no such file",
		},
		"a command that prints nothing": {
			func(string) (cri.ExecResult, error) { return cri.ExecResult{}, nil }, "is empty or cut off",
		},
		"output that is cut off": {
			func(string) (cri.ExecResult, error) { return cri.ExecResult{Stdout: []byte("RELEASE=r")}, nil }, "is empty or cut off",
		},
		"output without the variable": {
			func(string) (cri.ExecResult, error) { return prints("PATH=/bin") }, "does not print all variables",
		},
	} {
		t.Run(what, func(t *testing.T) {
			silent := true
			b := newSilentBench(t, func(container string) (cri.ExecResult, error) {
				if silent {
					return tc.print(container)
				}
				return prints("RELEASE=r2")
			})
			b.passes(30)
			if got := b.calls(); strings.Contains(got, "Stop") || strings.Count(got, "Exec") > 6 {
				t.Errorf("asked of the runtime in a minute: %q", got)
			}
			if b.writes != 1 || !strings.Contains(b.pod().Annotations[shared.AnnotationRuntimeContainersMeta], `"hashes":{"plainHash":255}`) {
				t.Errorf("after %d writes the report is %s", b.writes, b.pod().Annotations[shared.AnnotationRuntimeContainersMeta])
			}
			event := ""
			for len(b.events.Events) > 0 {
				event += <-b.events.Events
			}
			if strings.Count(event, "EnvironmentUnknown") != 1 || !strings.Contains(event, tc.why) || strings.Contains(event, "app-1") {
				t.Errorf("events: %s; want one with %q", event, tc.why)
			}
			silent = false
			b.passes(30)
			if b.writes != 2 {
				t.Errorf("%d writes; the report should follow when the container answers", b.writes)
			}
		})
	}
}

// Only a waiting update needs the container's values.
func TestNoContainerIsAskedWithoutAnUpdate(t *testing.T) {
	b := newSilentBench(t, func(string) (cri.ExecResult, error) { return prints("RELEASE=r1") }, func(p *corev1.Pod) { p.Annotations = nil })
	b.passes(3)
	if got := b.calls(); got != "" || b.writes == 0 {
		t.Errorf("asked of the runtime: %q, %d writes", got, b.writes)
	}
}

// A silent runtime proves nothing about a container, and a stopped container cannot be
// asked.
func TestAContainerThatCannotBeAskedNowIsAskedLater(t *testing.T) {
	away := true
	b := newSilentBench(t, func(string) (cri.ExecResult, error) {
		if away {
			return cri.ExecResult{}, cri.ErrUnavailable
		}
		return prints("RELEASE=r2")
	})
	for range 5 {
		if err := b.pass(); !errors.Is(err, cri.ErrUnavailable) {
			t.Errorf("nobody comes back: %v", err)
		}
	}
	away = false
	b.exited = true
	b.make("app", 2)
	b.passes(2)
	if got := b.calls(); strings.Contains(got, "app-2") {
		t.Errorf("asked of the runtime: %q", got)
	}
	b.exited = false
	b.make("app", 3)
	b.passes(2)
	if got := b.calls(); !strings.HasSuffix(got, "Exec app-3") || b.told("EnvironmentUnknown") != 0 {
		t.Errorf("asked of the runtime: %q", got)
	}
}
