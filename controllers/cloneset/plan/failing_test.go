// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset/podsettest"
)

// refused makes all pods of a set fail as a node does that refuses them, n in all: the last one some time ago, after they were there for a
// while.
func refused(w *simulation, n int, ago, lived time.Duration) {
	running := w.Pods[0]
	w.Pods = nil
	failed := podsettest.Now().Add(-ago)
	for i := range n {
		pod := running.DeepCopy()
		pod.Name, pod.UID = fmt.Sprintf("web-f%02d", i), types.UID(fmt.Sprintf("uid-f%02d", i))
		pod.CreationTimestamp = metav1.NewTime(failed.Add(-lived))
		pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "NodeAffinity", Message: "Pod was rejected", StartTime: ptr.To(metav1.NewTime(failed))}
		w.Pods = append(w.Pods, pod)
		failed = failed.Add(-time.Minute)
	}
}

// evicted makes of failed pods such as ran and were evicted.
func evicted(w *simulation) {
	for _, pod := range w.Pods {
		pod.Status.Reason = "Evicted"
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", ContainerID: "sim://a"}}
	}
}

// A pod that its node refused was replaced hundreds of times a minute, and each one left its volume claims behind.
func TestPodsThatFailAtOnceAreReplacedLessAndLessOften(t *testing.T) {
	cases := map[string]struct {
		replicas   int32
		failed     int
		ago, lived time.Duration
		change     func(*simulation)
		created    int
		held       string
		recheck    time.Duration
	}{
		"the first failure is waited for a second":        {replicas: 1, failed: 1, ago: 400 * time.Millisecond, held: podset.ReasonBackOff, recheck: 600 * time.Millisecond},
		"and then it is tried again":                      {replicas: 1, failed: 1, ago: time.Second, created: 1},
		"after the second one twice as long":              {replicas: 1, failed: 2, ago: time.Second, held: podset.ReasonBackOff, recheck: time.Second},
		"after the third one the set says so":             {replicas: 1, failed: 3, ago: 3 * time.Second, held: podset.ReasonPodsFail, recheck: time.Second},
		"also while it tries again":                       {replicas: 1, failed: 3, ago: 4 * time.Second, held: podset.ReasonPodsFail, created: 1, recheck: 30*time.Minute - 3*time.Second},
		"never longer than a quarter of an hour":          {replicas: 1, failed: 40, ago: 14 * time.Minute, held: podset.ReasonPodsFail, recheck: time.Minute},
		"and then it is tried again, too":                 {replicas: 1, failed: 40, ago: 15 * time.Minute, held: podset.ReasonPodsFail, created: 1, recheck: 15*time.Minute + time.Second},
		"three pods that failed once each are no pattern": {replicas: 3, failed: 3, ago: time.Second, created: 3},
		"another template is another try":                 {replicas: 1, failed: 40, change: image("2"), created: 1},
		"a pod that ran for a while failed for itself":    {replicas: 1, failed: 40, lived: 11 * time.Minute, created: 1},
		"what is long ago is forgotten":                   {replicas: 1, failed: 3, ago: 31 * time.Minute, created: 1},
		"pods that were evicted have not failed":          {replicas: 1, failed: 40, change: evicted, created: 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, 1, claimTemplates("data"))
			refused(w, tc.failed, tc.ago, tc.lived)
			w.do(replicas(tc.replicas))
			if tc.change != nil {
				w.do(tc.change)
			}
			w.Plan = Plan(Parse(w.set, w.o), w.snapshot())
			created := 0
			for _, a := range w.Plan.Actions {
				if a.Step == podset.StepCreate {
					created++
				}
			}
			w.expect("created", created, tc.created)
			w.expect("held", w.held(), tc.held)
			w.expect("recheck", w.Plan.RecheckAfter, tc.recheck)
		})
	}
}

// A set that was scaled in while pods failed was stalled for hours when it was scaled out again: each of the old failures counted as one of the new pod.
func TestAnOldRowOfFailuresDoesNotCountWithANewOne(t *testing.T) {
	w := newSimulation(t, 1)
	refused(w, 30, 0, 0)
	for _, pod := range w.Pods[1:] {
		pod.CreationTimestamp = metav1.NewTime(pod.CreationTimestamp.Add(-time.Hour))
		pod.Status.StartTime = ptr.To(metav1.NewTime(pod.Status.StartTime.Add(-time.Hour)))
	}
	w.Plan = Plan(Parse(w.set, w.o), w.snapshot())
	w.expect("held", w.held(), podset.ReasonBackOff)
	w.expect("recheck", w.Plan.RecheckAfter, time.Second)
}

func TestASetWhosePodsFailAgainAndAgainIsStalled(t *testing.T) {
	w := newSimulation(t, 1)
	refused(w, 3, 0, 0)
	s := w.snapshot()
	status, _ := Status(Parse(w.set, w.o), s, Plan(Parse(w.set, w.o), s), planning.Outcome{})
	c, _ := conditions.Find(conditions.From(status.Conditions), appsv1beta1.CloneSetStalled)
	if c.Status != corev1.ConditionTrue || c.Reason != appsv1beta1.ReasonPodsFail || !strings.Contains(c.Message, "web-f00 (NodeAffinity: Pod was rejected)") {
		t.Errorf("condition Stalled is %+v", c)
	}
}

// A set whose node was repaired had one pod deleted. The replacement used to wait for a quarter of an hour, since each of thirty old failures counted as
// one of its own.
func TestAPodThatBecomesAvailableEndsARowOfFailures(t *testing.T) {
	w := newSimulation(t, 1)
	running := w.Pods[0].DeepCopy()
	running.CreationTimestamp = metav1.NewTime(podsettest.Now().Add(-30 * time.Second))
	refused(w, 30, time.Minute, 0)
	w.Pods = append(w.Pods, running)
	w.do(replicas(2))
	w.expectActions("1 Create ScaleOut 1")
	w.expect("held", w.held(), "")
}
