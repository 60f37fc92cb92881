// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package node_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/realnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/limits"
)

func TestImageUpdateKeepsPod(t *testing.T) { forWorkloads(t, imageUpdateKeepsPod) }

func imageUpdateKeepsPod(t *testing.T, w workload) {
	n := onNode(t)
	began := time.Now()
	was := w.start(t, n, 1)[0]
	t.Logf("measured: one pod of two containers started and available after %s", seconds(time.Since(began)))
	was = steady(n, was)
	assertVersion(t, &was, "v1")
	box := sandbox(t, &was)
	states := follow(t, n)

	began = time.Now()
	w.change(n, func(template *corev1.PodTemplateSpec) { template.Spec.Containers[0].Image = repository + ":v2" })
	revision := w.settled(n)
	took := time.Since(began)

	is := n.Pod(was.Name)
	assertSamePod(t, &was, is)
	assertReplacedOnce(t, &was, is, "web")
	assertVersion(t, is, "v2")
	if now := sandbox(t, is); now != box {
		t.Errorf("the sandbox %s became %s", box, now)
	}
	if is.Labels[shared.LabelControllerRevisionHash] != revision || is.Labels[shared.LabelLifecycleState] != string(shared.StateNormal) {
		t.Errorf("labels after the update to %s: %v", revision, is.Labels)
	}
	if c := condition(is, shared.GateInPlaceUpdateReady); c.Status != corev1.ConditionTrue || c.Reason != "" || c.Message != "" {
		t.Errorf("after the update the condition is %+v", c)
	}

	// The way there, as every watcher of pods saw it.
	all := states.of(n, is)
	out, rest := first(t, all, "the update has begun", func(pod *corev1.Pod) bool {
		c := condition(pod, shared.GateInPlaceUpdateReady)
		return c.Status == corev1.ConditionFalse && c.Reason == shared.ReasonStartInPlaceUpdate
	})
	if c := condition(out.pod, corev1.PodReady); c.Status != corev1.ConditionFalse || c.Reason != shared.ReasonReadinessGatesNotReady || c.LastTransitionTime.IsZero() {
		t.Errorf("the pod was taken out of service, and not in the same write made not ready: %+v", c)
	}
	if out.pod.Spec.Containers[0].Image != repository+":v1" {
		t.Error("the image changed before the pod was out of service")
	}
	edited, rest := first(t, rest, "the image is changed", func(pod *corev1.Pod) bool { return pod.Spec.Containers[0].Image == repository+":v2" })
	assertEdited(t, &was, edited.pod, revision)
	seen, rest := first(t, rest, "the kubelet has seen the edit", func(pod *corev1.Pod) bool { return pod.Status.ObservedGeneration >= edited.pod.Generation })
	rest = append([]moment{seen}, rest...)
	// Until then the kubelet may still write the readiness of before.
	assertNotReadyWithOld(t, rest, &was)
	replaced, rest := first(t, rest, "the new container runs", func(pod *corev1.Pod) bool {
		is := status(pod, "web")
		return is.ContainerID != status(&was, "web").ContainerID && is.State.Running != nil
	})
	back, _ := first(t, rest, "the pod is ready again", environment.IsReady)
	t.Logf("measured: image update of one pod in place, with a pull: available after %s; out of service for %s: edited after %s, "+
		"seen by the kubelet after %s, new container after %s", seconds(took), seconds(back.at.Sub(out.at)),
		seconds(edited.at.Sub(out.at)), seconds(seen.at.Sub(out.at)), seconds(replaced.at.Sub(out.at)))
}

// assertEdited checks the pod's state just after the change of its image.
func assertEdited(t *testing.T, was, pod *corev1.Pod, revision string) {
	t.Helper()
	if pod.Labels[shared.LabelControllerRevisionHash] != revision || pod.Labels[shared.LabelLifecycleState] != string(shared.StateUpdating) {
		t.Errorf("labels at the edit: %v", pod.Labels)
	}
	if c := condition(pod, shared.GateInPlaceUpdateReady); c.Status != corev1.ConditionFalse {
		t.Errorf("the condition was %+v when the image changed", c)
	}
	var state shared.InPlaceUpdateState
	if err := json.Unmarshal([]byte(pod.Annotations[shared.AnnotationInPlaceState]), &state); err != nil {
		t.Fatalf("reading annotation %s: %v", shared.AnnotationInPlaceState, err)
	}
	last := state.LastContainerStatuses
	if state.Revision != revision || len(last) != 1 || last["web"].ImageID != status(was, "web").ImageID {
		t.Errorf("the state says %+v; the old image was %s", state, status(was, "web").ImageID)
	}
}

func TestOtherTagOfSameImage(t *testing.T) {
	n := onNode(t)
	was := start(t, n, guestbook(1))[0]
	began := time.Now()
	n.SetImage("web", repository+":v1-again")
	n.Settled("web")
	took := time.Since(began)

	is := n.Pod(was.Name)
	assertSamePod(t, &was, is)
	assertReplacedOnce(t, &was, is, "web")
	if was, is := status(&was, "web").ImageID, status(is, "web").ImageID; was != is {
		t.Errorf("the tags shall be of one image, and are of %s and %s", was, is)
	}
	t.Logf("measured: update in place to another tag of the same image: available after %s", seconds(took))
}

func TestMissingImageHealsInPlace(t *testing.T) {
	n := onNode(t)
	was := start(t, n, guestbook(2))
	n.SetImage("web", repository+":missing")
	n.Eventually("the pull fails", func(context.Context) error {
		waiting := status(n.Pod("web-1"), "web").State.Waiting
		if waiting == nil || waiting.Reason != "ErrImagePull" && waiting.Reason != "ImagePullBackOff" {
			return fmt.Errorf("the container waits for %+v", waiting)
		}
		return nil
	})
	n.Consistently(2*time.Second, "the rollout stops at the broken pod", func(context.Context) error {
		if broken := n.Pod("web-1"); environment.IsReady(broken) || broken.Labels[shared.LabelLifecycleState] != string(shared.StateUpdating) {
			return fmt.Errorf("the broken pod has labels %v and status %+v", broken.Labels, broken.Status)
		}
		if whole := n.Pod("web-0"); !environment.IsReady(whole) || whole.Spec.Containers[0].Image != repository+":v1" {
			return fmt.Errorf("the other pod has image %s and status %+v", whole.Spec.Containers[0].Image, whole.Status)
		}
		return nil
	})

	began := time.Now()
	n.SetImage("web", repository+":v2")
	n.Settled("web")
	t.Logf("measured: from the right image to both pods available after a failed pull: %s", seconds(time.Since(began)))
	for i, is := range n.Pods() {
		assertSamePod(t, &was[i], &is)
		assertVersion(t, &is, "v2")
	}
}

func TestEnvironmentChangeRecreatesPod(t *testing.T) { forWorkloads(t, environmentChangeRecreatesPod) }

func environmentChangeRecreatesPod(t *testing.T, w workload) {
	n := onNode(t)
	was := w.start(t, n, 1)[0]
	w.change(n, func(template *corev1.PodTemplateSpec) {
		template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "COLOR", Value: "green"}}
	})
	revision := w.settled(n)
	if w.named {
		if again := n.Pod(was.Name); again == nil || again.UID == was.UID {
			t.Fatalf("the pod was not replaced by one of the same name: %+v", again)
		}
	}
	// A replacement with a name of its own does not wait until the old pod is gone.
	n.Eventually("one pod is left", func(context.Context) error {
		if pods := n.Pods(); len(pods) != 1 || pods[0].UID == was.UID {
			return fmt.Errorf("the pods are %v", environment.Names(pods))
		}
		return nil
	})
	is := &n.Pods()[0]
	if env := is.Spec.Containers[0].Env; len(env) != 1 || env[0].Value != "green" {
		t.Errorf("the new pod has the environment %v", env)
	}
	if is.Labels[shared.LabelControllerRevisionHash] != revision || status(is, "web").RestartCount != 0 {
		t.Errorf("the new pod has labels %v and %d restarts", is.Labels, status(is, "web").RestartCount)
	}
	assertVersion(t, is, "v1")
}

// TestSurgeServesAllTheTime replaces the pods of a CloneSet with one more and none less: two answer at any moment.
func TestSurgeServesAllTheTime(t *testing.T) {
	n := onNode(t)
	set := guestbookClones(2)
	set.Spec.UpdateStrategy.RollingUpdate = &v1beta1.RollingUpdateCloneSetStrategy{
		PodUpdatePolicy: shared.RecreatePods, MaxUnavailable: new(intstr.FromInt32(0)), MaxSurge: new(intstr.FromInt32(1)),
	}
	create(t, n, set)
	watcher := limits.WatchCloneSetFlow(t, n.Client, n.Name, set.Name, limits.Rules{})
	n.SettledCloneSet(set.Name)
	was := n.Pods()
	began := time.Now()
	n.ChangeCloneSet(set.Name, func(set *v1beta1.CloneSet) { set.Spec.Template.Spec.Containers[0].Image = repository + ":v2" })
	n.SettledCloneSet(set.Name)
	t.Logf("measured: two pods replaced with a surge of one: available after %s", seconds(time.Since(began)))
	n.Eventually("the old pods are gone", func(context.Context) error {
		for _, old := range was {
			if n.Pod(old.Name) != nil {
				return fmt.Errorf("pod %s is there", old.Name)
			}
		}
		return nil
	})
	pods := n.Pods()
	if len(pods) != 2 {
		t.Fatalf("the pods are %v", environment.Names(pods))
	}
	for i := range pods {
		assertVersion(t, &pods[i], "v2")
	}
	if verdict := watcher.Verify(); verdict.Taken != 2 {
		t.Errorf("%d pods were taken out of service, want 2", verdict.Taken)
	}
}

func TestMetadataChangeRestartsNothing(t *testing.T) {
	n := onNode(t)
	was := steady(n, start(t, n, guestbook(1))[0])
	states := follow(t, n)
	n.Change("web", func(set *v1beta1.StatefulSet) {
		set.Spec.Template.Labels["tier"] = "front"
		set.Spec.Template.Annotations = map[string]string{"build": "77"}
	})
	set := n.Settled("web")
	is := n.Pod(was.Name)
	assertSamePod(t, &was, is)
	assertSameContainer(t, &was, is, "web")
	if is.Labels["tier"] != "front" || is.Annotations["build"] != "77" || is.Labels[shared.LabelControllerRevisionHash] != set.Status.UpdateRevision {
		t.Errorf("the pod has labels %v and annotations %v", is.Labels, is.Annotations)
	}
	assertInService(t, states.of(n, is))
}

// TestNodeProgramsRestartDuringUpdate takes the kubelet or the runtime away in the middle
// of an update: outdated pods must not count as updated, and the update ends right when
// they are back. It is the last test: the node may be called not ready for some seconds
// afterwards.
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
		n.Consistently(2*time.Second, "no pod counts as updated", func(context.Context) error {
			// The other pod may be edited as well, once its node is not ready and neither is the pod.
			for _, pod := range n.Pods() {
				edited := pod.Spec.Containers[0].Image == repository+":"+round.version
				if c := condition(&pod, shared.GateInPlaceUpdateReady); edited && (c.Status != corev1.ConditionFalse || environment.IsReady(&pod)) {
					return fmt.Errorf("%s pod %s counts as updated: %+v", round.name, pod.Name, pod.Status.Conditions)
				}
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
