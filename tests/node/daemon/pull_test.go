// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/platform/operands"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/realnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

func pull(n *environment.Namespace, name, image, spec string) {
	n.Apply(fmt.Sprintf("apiVersion: apps.kruise.io/v1beta1\nkind: ImagePullJob\nmetadata: {name: %s}\nspec:\n  image: %s\n  parallelism: 2\n%s", name, image, spec))
}

func pulls(n *environment.Namespace, name, what string, ok func(*v1beta1.ImagePullJobStatus) bool) *v1beta1.ImagePullJob {
	job := &v1beta1.ImagePullJob{}
	n.EventuallyWithin(waitTimeout, what, func(ctx context.Context) error {
		if err := n.Client.Get(ctx, client.ObjectKey{Namespace: n.Name, Name: name}, job); err != nil {
			return err
		}
		if !ok(&job.Status) {
			return fmt.Errorf("the status is %+v", job.Status)
		}
		return nil
	})
	return job
}

func onBoth(s *v1beta1.ImagePullJobStatus) bool { return s.Succeeded == 2 }

// assertOnNodes asks the runtimes of the nodes themselves for an image.
func assertOnNodes(t *testing.T, image string) {
	t.Helper()
	for _, node := range env.Cluster.RealNodes() {
		names, err := node.Command(t.Context(), "ctr", "--namespace=k8s.io", "images", "list", "--quiet").CombinedOutput()
		if err != nil || !slices.Contains(strings.Fields(string(names)), image) {
			t.Errorf("%s has not %s but %s (%v)", node.Name(), image, names, err)
		}
	}
}

// assertOnce checks that each node was sent each layer once.
func assertOnce(t *testing.T, s *source, layers []string) {
	t.Helper()
	for _, layer := range layers {
		if got := s.times(layer); !slices.Equal(got, []int{1, 1}) {
			t.Errorf("%s was sent %v times, want once to each node", layer, got)
		}
	}
}

// A slow registry with credentials: both nodes pull with a copy of the Secret in the
// daemon's namespace, which goes with the job. A job without them fails, and tells where
// and why.
func TestSlowPrivateRegistry(t *testing.T) {
	n := onNodes(t)
	const repository, image = "team/private", "registry.example/team/private:v1"
	s := sourceOf(t, repository)
	layers := s.push(t, "v1", 2)
	s.network.Protect(repository, "reader", "secret")
	s.hold(layers[1])
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: n.Name, Name: "registry"}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{"registry.example":{"username":"reader","password":"secret"}}}`)},
	}
	if err := n.Client.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	mayReadSecrets(t, n)

	pull(n, "refused", image, "  pullPolicy: {backoffLimit: 0}\n")
	refused := pulls(n, "refused", "both nodes are refused", func(s *v1beta1.ImagePullJobStatus) bool { return s.Failed == 2 && s.CompletionTime != nil })
	stalled := meta.FindStatusCondition(refused.Status.Conditions, v1beta1.ImagePullJobStalled)
	if stalled == nil || stalled.Status != metav1.ConditionTrue || !strings.Contains(stalled.Message, "uthoriz") || len(refused.Status.FailedNodes) != 2 {
		t.Errorf("what was refused says %+v of %v", stalled, refused.Status.FailedNodes)
	}
	if err := n.Client.Delete(t.Context(), refused); err != nil {
		t.Fatal(err)
	}

	pull(n, "private", image, "  pullSecrets: [registry]\n  completionPolicy: {type: Never}\n")
	s.holding(n, layers[1], 2)
	pulls(n, "private", "two nodes pull", func(s *v1beta1.ImagePullJobStatus) bool { return s.Active == 2 && s.Desired == 2 && s.Succeeded == 0 })
	if got := copies(t, n); !slices.Equal(got, []string{operands.DaemonNamespace}) {
		t.Errorf("copies of the Secret are in %v, want one in the daemon's namespace", got)
	}
	s.free()
	job := pulls(n, "private", "both nodes have the image", onBoth)
	assertOnNodes(t, image)
	assertOnce(t, s, layers)
	if err := n.Client.Delete(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	n.EventuallyWithin(waitTimeout, "the copy goes with the job", func(context.Context) error {
		if got := copies(t, n); len(got) > 0 {
			return fmt.Errorf("there are copies in %v", got)
		}
		return nil
	})
}

// copies are the namespaces of copies of the test's Secret.
func copies(t *testing.T, n *environment.Namespace) []string {
	t.Helper()
	all := &corev1.SecretList{}
	if err := n.Client.List(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	var found []string
	for i := range all.Items {
		if strings.HasPrefix(all.Items[i].Annotations["imagepulljobs.kruise.io/source-key"], n.Name+"/") {
			found = append(found, all.Items[i].Namespace)
		}
	}
	return found
}

// A registry without the image: every node fails, the job ends, and names failed nodes and
// one's error.
func TestImageThatTheRegistryDoesNotHave(t *testing.T) {
	n := onNodes(t)
	s := sourceOf(t, "team/missing")
	s.push(t, "v1", 1)
	pull(n, "missing", "registry.example/team/missing:v2", "  pullPolicy: {backoffLimit: 0}\n")
	job := pulls(n, "missing", "both nodes have failed", func(s *v1beta1.ImagePullJobStatus) bool { return s.Failed == 2 && s.CompletionTime != nil })
	stalled := meta.FindStatusCondition(job.Status.Conditions, v1beta1.ImagePullJobStalled)
	if stalled == nil || stalled.Status != metav1.ConditionTrue || !strings.Contains(stalled.Message, "not found") {
		t.Errorf("what is not there says %+v", stalled)
	}
	if job.Status.Succeeded != 0 || len(job.Status.FailedNodes) != 2 {
		t.Errorf("%d nodes succeeded, and %v failed", job.Status.Succeeded, job.Status.FailedNodes)
	}
	if got := s.times("manifest"); len(got) != 2 {
		t.Errorf("the registry was asked %v times, want both nodes to ask", got)
	}
}

// The registry disappears in the middle of a pull and returns: the nodes try again, and the job neither fails nor claims an image meanwhile.
func TestRegistryDisappearsAndReturns(t *testing.T) {
	n := onNodes(t)
	s := sourceOf(t, "team/vanishing")
	layers := s.push(t, "v1", 2)
	s.hold(layers[1])
	pull(n, "pull", "registry.example/team/vanishing:v1", "  pullPolicy: {backoffLimit: 20}\n")
	s.holding(n, layers[1], 2)
	n.EventuallyWithin(waitTimeout, "the other layer is there", func(context.Context) error {
		if got := s.times(layers[0]); len(got) != 2 {
			return fmt.Errorf("it was sent %v times", got)
		}
		return nil
	})
	s.vanish()
	n.EventuallyWithin(waitTimeout, "both nodes have tried in vain", func(context.Context) error {
		if got := s.times("manifest"); len(got) != 2 || got[0] < 3 {
			return fmt.Errorf("the manifest was asked for %v times", got)
		}
		return nil
	})
	if job := pulls(n, "pull", "the job has a status", func(s *v1beta1.ImagePullJobStatus) bool { return s.Desired == 2 }); job.Status.Succeeded+job.Status.Failed > 0 {
		t.Errorf("without a registry the status is %+v", job.Status)
	}
	s.free()
	pulls(n, "pull", "both nodes have the image", func(s *v1beta1.ImagePullJobStatus) bool { return onBoth(s) && s.CompletionTime != nil })
	assertOnNodes(t, "registry.example/team/vanishing:v1")
}

// The daemon of a node dies before, in and after a pull. The next one goes on with one more pull, and asks for nothing when the image is there.
func TestDaemonDiesAroundAPull(t *testing.T) {
	n := onNodes(t)
	s := sourceOf(t, "team/mortal")
	layers := s.push(t, "v1", 2)
	node := env.Cluster.RealNodes()[0].Name()
	pull(n, "first", "openkruise/guestbook:v1", "  completionPolicy: {type: Never}\n") // so that there is a daemon
	first := daemonOn(n, node, nil)
	s.hold(layers[1])
	kill(t, first)
	pull(n, "pull", "registry.example/team/mortal:v1", "  completionPolicy: {type: Never}\n")
	s.holding(n, layers[1], 2)
	second := daemonOn(n, node, first)
	kill(t, second)
	third := daemonOn(n, node, second)
	s.free()
	pulls(n, "pull", "both nodes have the image", onBoth)
	assertOnNodes(t, "registry.example/team/mortal:v1")
	// A daemon died while it pulled, and its predecessor may have begun, too: deleted by
	// force it works on until the kubelet stops it. The runtime may have dropped its layers
	// by then; the other node is sent each layer once.
	for _, layer := range layers {
		if got := s.times(layer); len(got) != 2 || got[0] != 1 || got[1] > 3 {
			t.Errorf("%s was sent %v times, want once to one node, and at most once by each of three daemons to the other", layer, got)
		}
	}

	before := fmt.Sprint(s.times("manifest"), s.times(layers[0]), s.times(layers[1]))
	kill(t, third)
	daemonOn(n, node, third)
	n.Consistently(5*time.Second, "nothing is pulled again", func(context.Context) error {
		if now := fmt.Sprint(s.times("manifest"), s.times(layers[0]), s.times(layers[1])); now != before {
			return fmt.Errorf("the registry was asked %s times, and %s before", now, before)
		}
		return nil
	})
}

// The policy Always asks the registry although the image is there, and pulls only when the tag has moved.
func TestAlwaysAsksTheRegistry(t *testing.T) {
	n := onNodes(t)
	s := sourceOf(t, "team/moving")
	const image = "registry.example/team/moving:latest"
	layers := s.push(t, "latest", 1)
	pull(n, "first", image, "")
	pulls(n, "first", "both nodes have the image", onBoth)
	was := s.times("manifest")
	pull(n, "again", image, "  imagePullPolicy: Always\n")
	pulls(n, "again", "both nodes have asked again", onBoth)
	if is := s.times("manifest"); len(is) != 2 || is[0] <= was[0] || is[1] <= was[1] {
		t.Errorf("the manifest was asked for %v times, and %v before", is, was)
	}
	assertOnce(t, s, layers)
	moved := s.push(t, "latest", 1)
	pull(n, "moved", image, "  imagePullPolicy: Always\n")
	pulls(n, "moved", "both nodes have what the tag means now", onBoth)
	assertOnce(t, s, moved)
}

// The runtime of a node is away for 40 seconds while it pulls. The other node does not wait for it, no try is used up, and the pull goes on.
func TestRuntimeIsAwayDuringAPull(t *testing.T) {
	n := onNodes(t)
	s := sourceOf(t, "team/stopped")
	layers := s.push(t, "v1", 2)
	node := env.Cluster.RealNodes()[0]
	s.hold(layers...) // A runtime that is killed while it unpacks may refuse to unpack again.
	pull(n, "pull", "registry.example/team/stopped:v1", "  pullPolicy: {backoffLimit: 0, timeoutSeconds: 100}\n")
	s.holding(n, layers[0], 2)
	s.holding(n, layers[1], 2)
	if err := node.StopProgram(t.Context(), realnode.Containerd); err != nil {
		t.Fatal(err)
	}
	started := false
	t.Cleanup(func() {
		if !started {
			_ = node.StartProgram(context.Background(), realnode.Containerd)
		}
	})
	s.free()
	job := pulls(n, "pull", "the other node has the image", func(s *v1beta1.ImagePullJobStatus) bool { return s.Succeeded == 1 })
	n.Consistently(40*time.Second, "the pull waits for the runtime", func(ctx context.Context) error {
		if err := n.Client.Get(ctx, client.ObjectKeyFromObject(job), job); err != nil {
			return err
		}
		if job.Status.Failed > 0 || job.Status.CompletionTime != nil || job.Status.Active != 1 {
			return fmt.Errorf("the status is %+v", job.Status)
		}
		return nil
	})
	list := &v1beta1.NodeImage{}
	if err := n.Client.Get(t.Context(), client.ObjectKey{Name: node.Name()}, list); err != nil {
		t.Fatal(err)
	}
	tags := list.Status.ImageStatuses["registry.example/team/stopped"].Tags
	if len(tags) != 1 || tags[0].Phase != v1beta1.ImagePhaseWaiting {
		t.Errorf("the list says %+v, want that it waits", tags)
	}
	started = true
	if err := node.StartProgram(t.Context(), realnode.Containerd); err != nil {
		t.Fatal(err)
	}
	pulls(n, "pull", "both nodes have the image", func(s *v1beta1.ImagePullJobStatus) bool { return onBoth(s) && s.CompletionTime != nil })
	assertOnNodes(t, "registry.example/team/stopped:v1")
	n.EventuallyWithin(waitTimeout, "the node is well again", func(ctx context.Context) error {
		is := &corev1.Node{}
		if err := n.Client.Get(ctx, client.ObjectKey{Name: node.Name()}, is); err != nil {
			return err
		}
		for _, c := range is.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return errors.New("it is not ready")
	})
}
