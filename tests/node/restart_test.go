// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package node_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/realnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// TestNodeProgramsRestartDuringUpdate takes the kubelet or the runtime away in the middle of an update: nothing may count as updated
// that is not, and the update ends right when they are back.
func TestNodeProgramsRestartDuringUpdate(t *testing.T) {
	n := onNode(t)
	was := start(t, n, guestbook(2))
	// Whatever happens, the next test finds a whole node.
	away := map[string]bool{}
	stop := func(program string) {
		t.Helper()
		if err := theNode().StopProgram(t.Context(), program); err != nil {
			t.Fatal(err)
		}
		away[program] = true
	}
	startAgain := func(ctx context.Context) error {
		for _, program := range []string{realnode.Containerd, realnode.Kubelet} {
			if away[program] {
				if err := theNode().StartProgram(ctx, program); err != nil {
					return err
				}
				delete(away, program)
			}
		}
		return nil
	}
	t.Cleanup(func() {
		if err := startAgain(context.Background()); err != nil {
			t.Error(err)
		}
	})

	rounds := []struct {
		name, version string
		gone          []string
	}{
		{"without a kubelet", "v2", []string{realnode.Kubelet}},
		{"without a runtime", "v1", []string{realnode.Containerd}},
		{"without either", "v2", []string{realnode.Kubelet, realnode.Containerd}},
	}
	for i, round := range rounds {
		for _, program := range round.gone {
			stop(program)
		}
		n.SetImage("web", repository+":"+round.version)
		n.Eventually("the first pod is edited", func(context.Context) error {
			if image := n.Pod("web-1").Spec.Containers[0].Image; image != repository+":"+round.version {
				return fmt.Errorf("its image is %s", image)
			}
			return nil
		})
		n.Consistently(2*time.Second, "the pod is being updated, the other one waits", func(context.Context) error {
			first, second := n.Pod("web-1"), n.Pod("web-0")
			if c := condition(first, shared.GateInPlaceUpdateReady); c.Status != corev1.ConditionFalse || environment.IsReady(first) {
				return fmt.Errorf("%s the pod counts as updated: %+v", round.name, first.Status.Conditions)
			}
			if second.Spec.Containers[0].Image == repository+":"+round.version {
				return errors.New("the other pod is edited as well")
			}
			return nil
		})
		began := time.Now()
		if err := startAgain(t.Context()); err != nil {
			t.Fatal(err)
		}
		n.Settled("web")
		t.Logf("measured: update %s: both pods available %s after it was back", round.name, seconds(time.Since(began)))
		for j, is := range n.Pods() {
			assertSamePod(t, &was[j], &is)
			assertVersion(t, &is, round.version)
			if restarts := status(&is, "web").RestartCount; int(restarts) != i+1 {
				t.Errorf("%s: pod %s has %d restarts, want %d", round.name, is.Name, restarts, i+1)
			}
		}
	}
}
