// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/jobsidecar"
)

// Marks of containers, as env writes them.
const (
	strict = jobsidecar.EnvTerminate + "=true"
	ignore = jobsidecar.EnvTerminate + "=TRUE," + jobsidecar.EnvIgnoreExitCode + "=True"
	exit   = jobsidecar.EnvTerminateImage + "=exit0:v1"
)

// pod builds a pod. Each container is "name mark state": a list of variables or -; running, waiting or an exit code.
func pod(policy corev1.RestartPolicy, containers ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "job-1", UID: "uid"}}
	p.Spec.RestartPolicy, p.Status.Phase = policy, corev1.PodRunning
	p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](10)
	for _, text := range containers {
		parts := strings.Fields(text)
		c := corev1.Container{Name: parts[0], Image: parts[0] + ":v1"}
		if parts[1] != "-" {
			for variable := range strings.SplitSeq(parts[1], ",") {
				name, value, _ := strings.Cut(variable, "=")
				c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: value})
			}
		}
		status := corev1.ContainerStatus{Name: c.Name, ContainerID: "containerd://" + c.Name}
		switch parts[2] {
		case "running":
			status.State.Running = &corev1.ContainerStateRunning{}
		case "waiting":
			status.State.Waiting = &corev1.ContainerStateWaiting{}
		default:
			code, err := strconv.ParseInt(parts[2], 10, 32)
			if err != nil {
				panic(err) // a mistake in the table
			}
			status.State.Terminated = &corev1.ContainerStateTerminated{ExitCode: int32(code)}
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, status)
	}
	return p
}

const (
	never     = corev1.RestartPolicyNever
	onFailure = corev1.RestartPolicyOnFailure
)

func TestDue(t *testing.T) {
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"the main container is done":                      {pod(never, "main - 0", "side "+strict+" running"), true},
		"it has failed, and is not started again":         {pod(never, "main - 1", "side "+strict+" running"), true},
		"it has failed, and is started again":             {pod(onFailure, "main - 1", "side "+strict+" running"), false},
		"it waits for its next start":                     {pod(onFailure, "main - waiting", "side "+strict+" running"), false},
		"it is done under OnFailure":                      {pod(onFailure, "main - 0", "side "+strict+" waiting"), true},
		"one of two is done":                              {pod(never, "m1 - 0", "m2 - running", "side "+strict+" running"), false},
		"both are done":                                   {pod(never, "m1 - 0", "m2 - 1", "side "+strict+" running"), true},
		"the sidecar has ended":                           {pod(never, "main - 0", "side "+strict+" 0"), false},
		"one of two sidecars has ended":                   {pod(never, "main - 0", "s1 "+strict+" 0", "s2 "+ignore+" running"), true},
		"there are only sidecars":                         {pod(never, "side "+strict+" running"), true},
		"there is no sidecar":                             {pod(never, "main - 0", "other - running"), false},
		"only the exit code is to be ignored: no sidecar": {pod(never, "main - 0", "other "+jobsidecar.EnvIgnoreExitCode+"=true running"), false},
		"another value is no mark":                        {pod(never, "main - 0", "other "+jobsidecar.EnvTerminate+"=1 running"), false},
		"an empty image is no mark":                       {pod(never, "main - 0", "other "+jobsidecar.EnvTerminateImage+"= running"), false},
		"an image is a mark":                              {pod(never, "main - 0", "side "+exit+" running"), true},
		"the pod runs for ever":                           {pod(corev1.RestartPolicyAlways, "main - 0", "side "+strict+" running"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Due(tc.pod); got != tc.want {
				t.Errorf("due: %v", got)
			}
		})
	}
	for name, change := range map[string]func(*corev1.Pod){
		"it is being deleted":     func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.Now()) },
		"it is pending":           func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending },
		"statuses are incomplete": func(p *corev1.Pod) { p.Status.ContainerStatuses = p.Status.ContainerStatuses[:1] },
		"the mark comes from elsewhere": func(p *corev1.Pod) {
			p.Spec.Containers[1].Env[0].ValueFrom = &corev1.EnvVarSource{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := pod(never, "main - 0", "side "+strict+" running")
			change(p)
			if Due(p) {
				t.Error("it is due")
			}
		})
	}
}

// request is one of the operator's, over or not; it has stopped the killed containers.
func request(over bool, killed ...string) *v1beta1.ContainerRecreateRequest {
	r := &v1beta1.ContainerRecreateRequest{ObjectMeta: metav1.ObjectMeta{
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "job-1", UID: "uid", Controller: ptr.To(true)}},
	}}
	r.Spec.TTLSecondsAfterFinished = ptr.To[int32](timeToLive)
	r.Spec.Strategy = &v1beta1.ContainerRecreateRequestStrategy{TerminationGracePeriodSeconds: ptr.To[int64](10)}
	if over {
		r.Status.Phase = v1beta1.RecreateCompleted
	}
	for _, name := range killed {
		r.Status.ContainerRecreateStates = append(r.Status.ContainerRecreateStates, v1beta1.ContainerRecreateRequestContainerRecreateState{
			Name: name, IsKilled: true, ContainerID: "containerd://" + name,
		})
	}
	return r
}

// judged is a pod the kubelet calls failed.
func judged(p *corev1.Pod) *corev1.Pod {
	p.Status.Phase = corev1.PodFailed
	return p
}

func TestPlan(t *testing.T) {
	restarted := pod(onFailure, "main - 0", "side "+strict+" running")
	restarted.Status.ContainerStatuses[1].ContainerID = "containerd://side-1"
	failed := pod(never, "main - 0", "side "+ignore+" running")
	failed.Status.Phase = corev1.PodSucceeded
	overwritten := pod(never, "main - 0", "side "+ignore+" running")
	overwritten.Status.Conditions = []corev1.PodCondition{Terminated(time.Unix(0, 0))}
	for name, tc := range map[string]struct {
		pod     *corev1.Pod
		virtual bool
		request *v1beta1.ContainerRecreateRequest
		// want is what is done: "request a,b", "phase Succeeded", "image a=b", or nothing.
		want string
	}{
		"a sidecar is stopped by a request":                      {pod: pod(never, "main - 0", "side "+strict+" running"), want: "request side"},
		"one that has both marks, too":                           {pod: pod(never, "main - 0", "side "+strict+","+exit+" running"), want: "request side"},
		"while there is a request, there is no other":            {pod: pod(never, "main - 0", "side "+strict+" running"), request: request(false)},
		"nor when it is over, until it is deleted":               {pod: pod(never, "main - 0", "side "+strict+" running"), request: request(true)},
		"a sidecar whose exit code is ignored is stopped, too":   {pod: pod(never, "main - 0", "side "+ignore+" running"), want: "request side"},
		"it has not stopped yet":                                 {pod: pod(never, "main - 0", "side "+ignore+" running"), request: request(false)},
		"it could not be stopped":                                {pod: pod(never, "main - 0", "side "+ignore+" running"), request: request(true)},
		"it has stopped: the phase":                              {pod: pod(never, "main - 0", "side "+ignore+" running"), request: request(false, "side"), want: "phase Succeeded"},
		"by the main containers":                                 {pod: pod(never, "main - 1", "side "+ignore+" running"), request: request(true, "side"), want: "phase Failed"},
		"the kubelet was faster":                                 {pod: judged(pod(never, "main - 0", "side "+ignore+" 143")), request: request(true, "side"), want: "phase Succeeded"},
		"a code that counts is not corrected":                    {pod: judged(pod(never, "main - 0", "s1 "+strict+" 143", "s2 "+ignore+" 143"))},
		"a pod that ended with its phase has a sidecar running":  {pod: failed, want: "request side"},
		"a phase that the kubelet overwrote is written again":    {pod: overwritten, want: "phase Succeeded"},
		"beside the request, too":                                {pod: overwritten, request: request(false), want: "phase Succeeded"},
		"both kinds are stopped together":                        {pod: pod(never, "main - 0", "s1 "+strict+" running", "s2 "+ignore+" running"), want: "request s1,s2"},
		"their request is under way":                             {pod: pod(never, "main - 0", "s1 "+strict+" 0", "s2 "+ignore+" running"), request: request(false, "s1")},
		"and then the phase":                                     {pod: pod(never, "main - 0", "s1 "+strict+" 0", "s2 "+ignore+" running"), request: request(true, "s1", "s2"), want: "phase Succeeded"},
		"a sidecar that is started again after its stop":         {pod: restarted, request: request(true, "side"), want: "phase Succeeded"},
		"it is being started again, and the request is not over": {pod: restarted, request: request(false, "side")},
		"it runs, but was never stopped":                         {pod: pod(onFailure, "main - 0", "side "+strict+" running"), request: request(true)},
		"the very instance that was to be stopped runs":          {pod: pod(onFailure, "main - 0", "side "+strict+" running"), request: request(true, "side")},
		"an image alone does nothing on a node":                  {pod: pod(never, "main - 0", "side "+exit+" running")},
		"on a virtual node the image is exchanged":               {pod: pod(never, "main - 0", "side "+exit+" running"), virtual: true, want: "image side=exit0:v1"},
		"that is all there":                                      {pod: pod(never, "main - 0", "side "+strict+" running", "s2 "+ignore+" running"), virtual: true},
		"one that has ended keeps its image":                     {pod: pod(never, "main - 0", "s1 "+exit+" 0", "s2 "+exit+" running"), virtual: true, want: "image s2=exit0:v1"},
		"nothing for a pod that is not due":                      {pod: pod(never, "main - running", "side "+strict+" running")},
	} {
		t.Run(name, func(t *testing.T) {
			d := Plan(Snapshot{Now: time.Unix(0, 0), Pod: tc.pod, Virtual: tc.virtual, Request: tc.request})
			if got := told(t, d); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestAnImageThatWasExchangedStays(t *testing.T) {
	p := pod(never, "main - 0", "side "+exit+" running")
	p.Spec.Containers[1].Image = "exit0:v1"
	if d := Plan(Snapshot{Pod: p, Virtual: true}); d.Images != nil || d.Stopped != nil {
		t.Errorf("%+v", d)
	}
}

func TestTheRequestThatStopsSidecars(t *testing.T) {
	p := pod(never, "main - 0", "side "+strict+" running")
	r := Plan(Snapshot{Pod: p}).Create
	owner := metav1.GetControllerOf(r)
	if r.Name != "sidecar-termination-uid" || r.Namespace != "ns" || owner == nil || owner.APIVersion != "v1" || owner.Kind != "Pod" || owner.UID != "uid" {
		t.Errorf("%+v", r.ObjectMeta)
	}
	if r.Spec.PodName != "job-1" || !r.Spec.Strategy.ForceRecreate || r.Spec.Strategy.FailurePolicy != v1beta1.RecreateIgnore ||
		*r.Spec.ActiveDeadlineSeconds != 130 || *r.Spec.TTLSecondsAfterFinished != 30 {
		t.Errorf("%+v", r.Spec)
	}
	p.Spec.TerminationGracePeriodSeconds = nil
	if got := *Plan(Snapshot{Pod: p}).Create.Spec.ActiveDeadlineSeconds; got != 150 {
		t.Errorf("without a grace period the deadline is %d", got)
	}
}

// Whole pods, from the end of the main containers to the sidecars'. Each step is a state of the pod and its
// request, and the next action.
func TestPodsUntilTheirEnd(t *testing.T) {
	crashed := func(p *corev1.Pod) *corev1.Pod {
		for i := range p.Status.ContainerStatuses {
			if status := &p.Status.ContainerStatuses[i]; status.State.Waiting != nil {
				status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 143}
			}
		}
		return p
	}
	decided := func(phase corev1.PodPhase, p *corev1.Pod) *corev1.Pod {
		p.Status.Phase = phase
		p.Status.Conditions = []corev1.PodCondition{Terminated(time.Unix(0, 0))}
		return p
	}
	type step struct {
		pod     *corev1.Pod
		virtual bool
		request *v1beta1.ContainerRecreateRequest
		want    string
	}
	exchanged := pod(never, "main - 0", "side "+exit+" running")
	exchanged.Spec.Containers[1].Image = "exit0:v1"
	for name, steps := range map[string][]step{
		"a good sidecar under Never": {
			{pod: pod(never, "main - running", "side "+strict+" running")},
			{pod: pod(never, "main - 0", "side "+strict+" running"), want: "request side"},
			{pod: pod(never, "main - 0", "side "+strict+" 0"), request: request(true, "side")},
		},
		"the main container fails under Never": {
			{pod: pod(never, "main - 2", "side "+strict+" running"), want: "request side"},
			{pod: pod(never, "main - 2", "side "+strict+" 0"), request: request(true, "side")},
		},
		"the main container fails once under OnFailure": {
			{pod: pod(onFailure, "main - 1", "side "+strict+" running")},
			{pod: pod(onFailure, "main - running", "side "+strict+" running")},
			{pod: pod(onFailure, "main - 0", "side "+strict+" running"), want: "request side"},
		},
		"the code 143 counts": {
			{pod: pod(never, "main - 0", "side "+strict+" running"), want: "request side"},
			{pod: pod(never, "main - 0", "side "+strict+" 143"), request: request(true, "side")},
		},
		"the code 137 counts": {
			{pod: pod(never, "main - 0", "side "+strict+" running"), want: "request side"},
			{pod: pod(never, "main - 0", "side "+strict+" 137"), request: request(true, "side")},
		},
		"an ignored code does not count: first the stop, then the phase": {
			{pod: pod(never, "main - 0", "side "+ignore+" running"), want: "request side"},
			{pod: pod(never, "main - 0", "side "+ignore+" running"), request: request(false)},
			{pod: pod(never, "main - 0", "side "+ignore+" running"), request: request(false, "side"), want: "phase Succeeded"},
			{pod: decided(corev1.PodSucceeded, pod(never, "main - 0", "side "+ignore+" 137")), request: request(true, "side")},
			{pod: decided(corev1.PodFailed, pod(never, "main - 0", "side "+ignore+" 137")), request: request(true, "side"), want: "phase Succeeded"},
		},
		"sidecars of both kinds": {
			{pod: pod(never, "main - 0", "s1 "+strict+" running", "s2 "+ignore+" running"), want: "request s1,s2"},
			{pod: pod(never, "main - 0", "s1 "+strict+" 0", "s2 "+ignore+" running"), request: request(false, "s1")},
			{pod: judged(pod(never, "main - 0", "s1 "+strict+" 0", "s2 "+ignore+" 143")), request: request(true, "s1", "s2"), want: "phase Succeeded"},
			{pod: decided(corev1.PodSucceeded, pod(never, "main - 0", "s1 "+strict+" 0", "s2 "+ignore+" 143")), request: request(true, "s1", "s2")},
		},
		"a virtual node": {
			{pod: pod(never, "main - running", "side "+exit+" running"), virtual: true},
			{pod: pod(never, "main - 0", "side "+exit+" running"), virtual: true, want: "image side=exit0:v1"},
			{pod: exchanged, virtual: true},
		},
		"two main containers": {
			{pod: pod(never, "m1 - 0", "m2 - running", "side "+strict+" running")},
			{pod: pod(never, "m1 - 0", "m2 - 0", "side "+strict+" running"), want: "request side"},
		},
		"the sidecar has ended before": {
			{pod: pod(never, "main - running", "side "+strict+" 0")},
			{pod: pod(never, "main - 0", "side "+strict+" 0")},
		},
		"the sidecar waits for its next start": {
			{pod: crashed(pod(onFailure, "main - running", "side "+strict+" waiting"))},
			{pod: crashed(pod(onFailure, "main - 0", "side "+strict+" waiting")), want: "phase Succeeded"},
			{pod: decided(corev1.PodSucceeded, crashed(pod(onFailure, "main - 0", "side "+strict+" waiting")))},
		},
		"a sidecar waits for its next start beside one that runs": {
			{pod: crashed(pod(onFailure, "main - 0", "s1 "+strict+" waiting", "s2 "+strict+" running")), want: "request s2"},
			{pod: crashed(pod(onFailure, "main - 0", "s1 "+strict+" waiting", "s2 "+strict+" running")), request: request(false)},
			{pod: crashed(pod(onFailure, "main - 0", "s1 "+strict+" waiting", "s2 "+strict+" 0")), request: request(true, "s2"), want: "phase Succeeded"},
		},
		"one that has not been started yet has not crashed": {
			{pod: pod(onFailure, "main - 0", "side "+strict+" waiting"), want: "request side"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for i, s := range steps {
				if got := told(t, Plan(Snapshot{Now: time.Unix(0, 0), Pod: s.pod, Virtual: s.virtual, Request: s.request})); got != s.want {
					t.Errorf("step %d: %q, want %q", i+1, got, s.want)
				}
			}
		})
	}
}

func TestSinceMain(t *testing.T) {
	p := pod(never, "m1 - 0", "m2 - 1", "side "+strict+" 0")
	for i, second := range []int64{10, 20, 30} {
		p.Status.ContainerStatuses[i].State.Terminated.FinishedAt = metav1.Unix(second, 0)
	}
	if got, ok := SinceMain(p, time.Unix(32, 0)); !ok || got != 12*time.Second {
		t.Errorf("%v %v after the last main container", got, ok)
	}
	if got, ok := SinceMain(p, time.Unix(5, 0)); !ok || got != 0 {
		t.Errorf("%v %v by a clock that is behind", got, ok)
	}
	for name, p := range map[string]*corev1.Pod{
		"one runs": pod(never, "m1 - 0", "m2 - running", "side "+strict+" 0"), "there is none": pod(never, "side "+strict+" 0"),
	} {
		if _, ok := SinceMain(p, time.Unix(32, 0)); ok {
			t.Errorf("a time although of the main containers %s", name)
		}
	}
}

// told is a decision in words: "request a,b", "phase Succeeded", "image a=b", or nothing.
func told(t *testing.T, d Decision) string {
	t.Helper()
	var did []string
	if d.Create != nil {
		var names []string
		for _, c := range d.Create.Spec.Containers {
			names = append(names, c.Name)
		}
		if !slices.Equal(names, d.Stopped) {
			t.Errorf("names %v, tells of %v", names, d.Stopped)
		}
		did = append(did, "request "+strings.Join(names, ","))
	}
	if d.Phase != "" {
		did = append(did, "phase "+string(d.Phase))
	}
	for container, image := range d.Images {
		did = append(did, "image "+container+"="+image)
	}
	return strings.Join(did, "; ")
}

// A pod was Succeeded, and used no quota, while its sidecar ran on for its grace period of a year.
func TestAPodThatRunsOnForAYearHasNotSucceeded(t *testing.T) {
	p := pod(never, "main - 0", "side "+ignore+" running")
	p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](365 * 24 * 3600)
	d := Plan(Snapshot{Pod: p})
	if d.Phase != "" || d.Create == nil || *d.Create.Spec.Strategy.TerminationGracePeriodSeconds != longestGrace || *d.Create.Spec.ActiveDeadlineSeconds != longestGrace+longest {
		t.Errorf("%+v", d)
	}
	own := request(true, "side")
	own.Spec.Strategy.TerminationGracePeriodSeconds = p.Spec.TerminationGracePeriodSeconds
	if d := Plan(Snapshot{Pod: p, Request: own}); d.Phase != "" || !d.Taken {
		t.Errorf("with a request that the user made: %+v", d)
	}
}

// An evicted pod has failed, whatever its exit codes.
func TestAnEvictedPodHasFailed(t *testing.T) {
	evicted := judged(pod(never, "main - 0", "side "+ignore+" 137"))
	evicted.Status.Reason = "Evicted"
	if d := Plan(Snapshot{Pod: evicted}); d.Phase != "" {
		t.Errorf("%+v", d)
	}
}

// Anybody may create a request of this name. It stops nothing, and after it the pod gets its own.
func TestARequestOfSomebodyElseIsNotWaitedFor(t *testing.T) {
	done := pod(never, "main - 0", "side "+strict+" running")
	foreign := &v1beta1.ContainerRecreateRequest{}
	foreign.Namespace, foreign.Name = "ns", RequestName(done)
	d := Plan(Snapshot{Pod: done, Request: foreign})
	if !d.Taken || d.Create != nil || d.Phase != "" {
		t.Errorf("the name is taken: %+v", d)
	}
	foreign.Status.Phase = v1beta1.RecreateCompleted
	if d := Plan(Snapshot{Pod: done, Request: foreign}); !d.Taken || d.Phase != "" {
		t.Errorf("its end says nothing about the sidecar: %+v", d)
	}
	if d := Plan(Snapshot{Pod: done}); d.Taken || d.Create == nil {
		t.Errorf("when it is gone: %+v", d)
	}
}
