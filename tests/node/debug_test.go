// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package node_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/deploy"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/images"
)

// looks runs a job of one container reporting its view of the pods, and waits until it has
// ended in the phase.
func looks(t *testing.T, n *environment.Namespace, name, image, target string, args []string, phase v1beta1.EphemeralJobPhase) *v1beta1.EphemeralJob {
	t.Helper()
	job := &v1beta1.EphemeralJob{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1beta1.EphemeralJobSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: v1beta1.EphemeralContainerTemplateSpec{EphemeralContainers: []corev1.EphemeralContainer{{
				EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: name, Image: image, Args: args}, TargetContainerName: target,
			}}},
		},
	}
	create(t, n, job)
	n.EventuallyWithin(2*time.Minute, "job "+name+" is "+string(phase), func(ctx context.Context) error {
		if err := n.Client.Get(ctx, client.ObjectKeyFromObject(job), job); err != nil {
			return err
		}
		if job.Status.Phase != phase {
			return fmt.Errorf("the status is %+v", job.Status)
		}
		return nil
	})
	return job
}

// seen is the report of a job's container.
func seen(t *testing.T, pod *corev1.Pod, name string) (told struct {
	Processes []string `json:"processes"`
	Answer    string   `json:"answer"`
	Job       string   `json:"job"`
}, code int32) {
	t.Helper()
	i := slices.IndexFunc(pod.Status.EphemeralContainerStatuses, func(c corev1.ContainerStatus) bool { return c.Name == name })
	if i < 0 || pod.Status.EphemeralContainerStatuses[i].State.Terminated == nil {
		t.Fatalf("pod %s reports %+v", pod.Name, pod.Status.EphemeralContainerStatuses)
	}
	ended := pod.Status.EphemeralContainerStatuses[i].State.Terminated
	if err := json.Unmarshal([]byte(ended.Message), &told); err != nil {
		t.Fatalf("container %s told %q: %v", name, ended.Message, err)
	}
	if restarts := pod.Status.EphemeralContainerStatuses[i].RestartCount; restarts != 0 {
		t.Errorf("container %s was restarted %d times", name, restarts)
	}
	return told, ended.ExitCode
}

// TestDebugContainers: an EphemeralJob's container sees the network of its pod, and the
// processes of its target container; neither it nor anything of the pod is restarted.
func TestDebugContainers(t *testing.T) {
	n := onNode(t)
	_, err := deploy.Push(t.Context(), env.Cluster, "openkruise/look:v1", images.Image{Programs: []images.Program{{Package: "tests/images/look"}}})
	if err != nil {
		t.Fatal(err)
	}
	was := start(t, n, guestbook(1))[0]
	fetch := "-url=http://127.0.0.1:3000/version"

	job := looks(t, n, "inside", "openkruise/look:v1", "web", []string{fetch}, v1beta1.EphemeralJobSucceeded)
	told, _ := seen(t, n.Pod("web-0"), "inside")
	serves := func(line string) bool {
		return strings.Contains(line, "guestbook") && strings.Contains(line, "-listen=:3000")
	}
	if told.Answer != "v1" || told.Job != string(job.UID) || !slices.ContainsFunc(told.Processes, serves) {
		t.Errorf("with a target it sees %+v", told)
	}

	looks(t, n, "beside", "openkruise/look:v1", "", []string{fetch}, v1beta1.EphemeralJobSucceeded)
	if told, _ = seen(t, n.Pod("web-0"), "beside"); told.Answer != "v1" || slices.ContainsFunc(told.Processes, serves) {
		t.Errorf("without a target it sees %+v", told)
	}

	failed := looks(t, n, "fails", "openkruise/look:v1", "", []string{"-exit=3"}, v1beta1.EphemeralJobFailed)
	if _, code := seen(t, n.Pod("web-0"), "fails"); code != 3 || failed.Status.Failed != 1 {
		t.Errorf("exit code %d, status %+v", code, failed.Status)
	}

	missing := looks(t, n, "nowhere", "openkruise/look:v1", "no-such-container", nil, v1beta1.EphemeralJobFailed)
	if message := fmt.Sprint(missing.Status.Conditions); !strings.Contains(message, "no-such-container") {
		t.Errorf("the status does not name the container: %s", message)
	}
	assertSamePod(t, &was, n.Pod("web-0"))
	assertSameContainer(t, &was, n.Pod("web-0"), "web")
}
