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

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

func TestImageUpdateKeepsPod(t *testing.T) {
	n := onNode(t)
	began := time.Now()
	was := start(t, n, guestbook(1))[0]
	t.Logf("measured: one pod of two containers started and available after %s", seconds(time.Since(began)))
	assertVersion(t, &was, "v1")
	box := sandbox(t, &was)
	states := follow(t, n)

	began = time.Now()
	n.SetImage("web", repository+":v2")
	set := n.Settled("web")
	took := time.Since(began)

	is := n.Pod(was.Name)
	assertSamePod(t, &was, is)
	assertReplacedOnce(t, &was, is, "web")
	assertVersion(t, is, "v2")
	if now := sandbox(t, is); now != box {
		t.Errorf("the sandbox %s became %s", box, now)
	}
	if is.Labels[shared.LabelControllerRevisionHash] != set.Status.UpdateRevision || is.Labels[shared.LabelLifecycleState] != string(shared.StateNormal) {
		t.Errorf("labels after the update to %s: %v", set.Status.UpdateRevision, is.Labels)
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
	assertEdited(t, &was, edited.pod, set)
	for _, m := range rest {
		if environment.IsReady(m.pod) && status(m.pod, "web").ContainerID == status(&was, "web").ContainerID {
			t.Errorf("pod was ready with the old container, in resource version %s", m.pod.ResourceVersion)
		}
	}
	back, _ := first(t, rest, "the pod is ready again", environment.IsReady)
	t.Logf("measured: image update of one pod in place, with a pull: available after %s, out of service for %s",
		seconds(took), seconds(back.at.Sub(out.at)))
}

// assertEdited checks the state of the pod in which its image has just been changed.
func assertEdited(t *testing.T, was, pod *corev1.Pod, set *v1beta1.StatefulSet) {
	t.Helper()
	if pod.Labels[shared.LabelControllerRevisionHash] != set.Status.UpdateRevision || pod.Labels[shared.LabelLifecycleState] != string(shared.StateUpdating) {
		t.Errorf("labels at the edit: %v", pod.Labels)
	}
	if environment.IsReady(pod) {
		t.Error("the pod was ready when its image changed")
	}
	var state shared.InPlaceUpdateState
	if err := json.Unmarshal([]byte(pod.Annotations[shared.AnnotationInPlaceState]), &state); err != nil {
		t.Fatalf("reading annotation %s: %v", shared.AnnotationInPlaceState, err)
	}
	last := state.LastContainerStatuses
	if state.Revision != set.Status.UpdateRevision || len(last) != 1 || last["web"].ImageID != status(was, "web").ImageID {
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

func TestEnvironmentChangeRecreatesPod(t *testing.T) {
	n := onNode(t)
	was := start(t, n, guestbook(1))[0]
	n.Change("web", func(set *v1beta1.StatefulSet) {
		set.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "COLOR", Value: "green"}}
	})
	set := n.Settled("web")
	is := n.Pod(was.Name)
	if is == nil || is.UID == was.UID {
		t.Fatalf("the pod was not replaced by one of the same name: %+v", is)
	}
	if env := is.Spec.Containers[0].Env; len(env) != 1 || env[0].Value != "green" {
		t.Errorf("the new pod has the environment %v", env)
	}
	if is.Labels[shared.LabelControllerRevisionHash] != set.Status.UpdateRevision || status(is, "web").RestartCount != 0 {
		t.Errorf("the new pod has labels %v and %d restarts", is.Labels, status(is, "web").RestartCount)
	}
	assertVersion(t, is, "v1")
}

func TestMetadataChangeRestartsNothing(t *testing.T) {
	n := onNode(t)
	was := start(t, n, guestbook(1))[0]
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
	for _, m := range states.of(n, is) {
		if !environment.IsReady(m.pod) {
			t.Errorf("new labels took the pod out of service, in resource version %s", m.pod.ResourceVersion)
		}
	}
}
