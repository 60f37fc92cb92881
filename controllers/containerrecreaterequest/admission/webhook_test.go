// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/restart"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
	"github.com/kruise-operator/kruise-operator/internal/testutil/admissiontest"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// running is a pod on a node with all fields a request copies.
func running() *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0", UID: "uid"}}
	pod.Spec.NodeName = "node-a"
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](45)
	pod.Spec.Containers = []corev1.Container{
		{Name: "app", Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 8080}}, Lifecycle: &corev1.Lifecycle{
			PreStop: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/drain", Port: intstr.FromString("web")}},
		}},
		{Name: "log", Ports: []corev1.ContainerPort{{ContainerPort: 9}}, Lifecycle: &corev1.Lifecycle{
			PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"flush"}}},
		}},
		{Name: "waiting"},
	}
	pod.Spec.InitContainers = []corev1.Container{{Name: "once"}, {Name: "mesh", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{
		{Name: "app", ContainerID: "containerd://app", RestartCount: 3}, {Name: "log", ContainerID: "containerd://log"}, {Name: "waiting"},
	}
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "once", ContainerID: "containerd://once"}, {Name: "mesh", ContainerID: "containerd://mesh"}}
	return pod
}

const plain = `{"metadata":{"name":"web","namespace":"default"},"spec":{"podName":"web-0","containers":[{"name":"app"},{"name":"log"},{"name":"mesh"}]}}`

// cluster has a pod and its node, changed by change; lookups return err, if any.
func cluster(t *testing.T, err error, change func(*corev1.Pod, *corev1.Node)) Cluster {
	t.Helper()
	types, schemeErr := scheme.New()
	if schemeErr != nil {
		t.Fatal(schemeErr)
	}
	pod, node := running(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}}
	if change != nil {
		change(pod, node)
	}
	funcs := interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
		if err != nil {
			return err
		}
		return c.Get(ctx, key, object, options...)
	}}
	return Cluster{Reader: fake.NewClientBuilder().WithScheme(types).WithObjects(pod, node).WithInterceptorFuncs(funcs).Build()}
}

// admitted is a request as it is stored.
func admitted(t *testing.T, kind admit.Kind[appsv1beta1.ContainerRecreateRequest, *appsv1beta1.ContainerRecreateRequest], object string) string {
	t.Helper()
	return admissiontest.Mutated(t, object, kind.Defaulter().Handle(t.Context(), admissiontest.Request(kind.GroupVersionKind, "v1beta1", object, "")))
}

// Anybody on the network could ask the webhook for any pod's UID, node, container IDs and hook commands.
func TestAnAnswerTellsNothingOfThePod(t *testing.T) {
	kind := Kind(true, cluster(t, nil, func(_ *corev1.Pod, node *corev1.Node) { node.Labels = map[string]string{"type": "virtual-kubelet"} }))
	object := admissiontest.Merge(t, plain, `{"metadata":{"labels":{"crr.apps.kruise.io/pod-uid":"guess","crr.apps.kruise.io/active":"true"}}}`)
	stored := admitted(t, kind, object)
	got := admissiontest.Parse[appsv1beta1.ContainerRecreateRequest](t, stored)
	if pin := got.Labels[restart.LabelPin]; len(got.Labels) != 1 || len(validation.IsValidLabelValue(pin)) > 0 {
		t.Errorf("labels %v", got.Labels)
	}
	want := appsv1beta1.ContainerRecreateRequestSpec{
		PodName: "web-0", Containers: []appsv1beta1.ContainerRecreateRequestContainer{{Name: "app"}, {Name: "log"}, {Name: "mesh"}},
		Strategy: &appsv1beta1.ContainerRecreateRequestStrategy{FailurePolicy: "Fail"},
	}
	if diff := cmp.Diff(want, got.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	other := admissiontest.Parse[appsv1beta1.ContainerRecreateRequest](t, admitted(t, kind, object))
	if other.Labels[restart.LabelPin] == got.Labels[restart.LabelPin] {
		t.Error("two answers show that the pod is the same")
	}
	pod := running()
	if !restart.Pinned(&got, pod) {
		t.Error("the controller does not find the pod")
	}
	pod.Status.ContainerStatuses[1].ContainerID = "containerd://new"
	if restart.Pinned(&got, pod) {
		t.Error("another instance counts")
	}
}

// filled is a request after the controller has filled it in.
func filled(t *testing.T, stored string, change func(*appsv1beta1.ContainerRecreateRequest)) string {
	t.Helper()
	r := admissiontest.Parse[appsv1beta1.ContainerRecreateRequest](t, stored)
	restart.Fill(&r, running(), false)
	if change != nil {
		change(&r)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Filled-in commands run in containers, so only the pod's own are allowed, whoever writes them.
func TestARequestIsFilledInWithWhatItsPodSays(t *testing.T) {
	kind := Kind(true, cluster(t, nil, nil))
	stored := admitted(t, kind, plain)
	for name, tc := range map[string]struct {
		change  func(*appsv1beta1.ContainerRecreateRequest)
		refused bool
	}{
		"as the pod says": {},
		"a hook of one's own": {func(r *appsv1beta1.ContainerRecreateRequest) {
			r.Spec.Containers[2].PreStop = &appsv1beta1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}}
		}, true},
		"another pod":  {func(r *appsv1beta1.ContainerRecreateRequest) { r.Spec.PodName = "web-1" }, true},
		"another node": {func(r *appsv1beta1.ContainerRecreateRequest) { r.Labels["crr.apps.kruise.io/node-name"] = "node-b" }, true},
		"the pin goes": {func(r *appsv1beta1.ContainerRecreateRequest) {
			*r = admissiontest.Parse[appsv1beta1.ContainerRecreateRequest](t, stored)
			delete(r.Labels, restart.LabelPin)
		}, true},
		"the pin is another": {func(r *appsv1beta1.ContainerRecreateRequest) {
			*r = admissiontest.Parse[appsv1beta1.ContainerRecreateRequest](t, stored)
			r.Labels[restart.LabelPin] = "x"
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			sent := filled(t, stored, tc.change)
			response := kind.Validator(admit.Cluster{}).Handle(t.Context(), admissiontest.Request(kind.GroupVersionKind, "v1beta1", sent, stored))
			if response.Allowed == tc.refused {
				t.Errorf("allowed %v: %v", response.Allowed, response.Result)
			}
		})
	}
}

func TestWhatCannotBeTiedIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*corev1.Pod, *corev1.Node)
		patch  string
		err    error
		off    bool
		want   string // empty: it is taken
	}{
		"as it is":          {},
		"the daemon is off": {off: true, want: "spec: Forbidden: feature gate KruiseDaemon is off"},
		"no such pod":       {patch: `{"spec":{"podName":"nobody"}}`, want: `spec.podName: Invalid value: "nobody": there is no such pod`},
		"a pod on no node":  {change: func(p *corev1.Pod, _ *corev1.Node) { p.Spec.NodeName = "" }, want: "nothing of the pod can be restarted"},
		"a node whose name is no label": {change: func(p *corev1.Pod, _ *corev1.Node) {
			p.Spec.NodeName = strings.Repeat("n", 60) + ".example"
		}, want: "nothing of the pod can be restarted"},
		"no such node":         {change: func(p *corev1.Pod, _ *corev1.Node) { p.Spec.NodeName = "gone" }, want: ""},
		"a pod that has ended": {change: func(p *corev1.Pod, _ *corev1.Node) { p.Status.Phase = corev1.PodFailed }, want: "nothing of the pod can be restarted"},
		"a pod that has ended, whose sidecars are stopped": {change: func(p *corev1.Pod, _ *corev1.Node) {
			p.Status.Phase = corev1.PodSucceeded
			p.Status.Conditions = []corev1.PodCondition{{Type: "SidecarTerminated", Status: corev1.ConditionTrue}}
		}},
		"a pod that is being deleted": {change: func(p *corev1.Pod, _ *corev1.Node) {
			p.DeletionTimestamp, p.Finalizers = ptr.To(metav1.Now()), []string{"example.io/x"}
		}, want: "nothing of the pod can be restarted"},
		"no such container":                              {patch: `{"spec":{"containers":[{"name":"x"}]}}`, want: `spec.containers[0].name: Invalid value: "x": the pod has no such container`},
		"an init container":                              {patch: `{"spec":{"containers":[{"name":"once"}]}}`, want: `spec.containers[0].name: Invalid value: "once": the pod has no such container`},
		"a container that never started":                 {patch: `{"spec":{"containers":[{"name":"waiting"}]}}`, want: "the container has not been started yet"},
		"a container twice":                              {patch: `{"spec":{"containers":[{"name":"app"},{"name":"app"}]}}`, want: `spec.containers[1].name: Duplicate value: "app"`},
		"a hook of one's own":                            {patch: `{"spec":{"containers":[{"name":"mesh","preStop":{"exec":{"command":["x"]}}}]}}`, want: "spec.containers[0].preStop: Forbidden"},
		"ports of one's own":                             {patch: `{"spec":{"containers":[{"name":"mesh","ports":[{"containerPort":1}]}]}}`, want: "spec.containers[0].ports: Forbidden"},
		"another instance":                               {patch: `{"spec":{"containers":[{"name":"app","statusContext":{"containerID":"containerd://old","restartCount":3}}]}}`, want: "spec.containers[0].statusContext: Forbidden"},
		"a server that does not answer":                  {err: errors.New("timeout"), want: "Internal error: looking up web-0: timeout"},
		"no pod at all, which the other webhook refuses": {patch: `{"spec":{"podName":""}}`},
	} {
		t.Run(name, func(t *testing.T) {
			kind := Kind(!tc.off, cluster(t, tc.err, tc.change))
			object := admissiontest.Merge(t, plain, tc.patch)
			response := kind.Defaulter().Handle(t.Context(), admissiontest.Request(kind.GroupVersionKind, "v1beta1", object, ""))
			switch {
			case tc.want == "" && !response.Allowed:
				t.Errorf("refused: %v", response.Result)
			case tc.want != "" && (response.Allowed || !strings.Contains(response.Result.Message, tc.want)):
				t.Errorf("allowed %v: %v, want %q", response.Allowed, response.Result, tc.want)
			}
		})
	}
}

// TestTheManifestOfARequestCanBeAppliedAgain: kubectl apply sends
// the whole list of containers, without the filled-in fields.
func TestTheManifestOfARequestCanBeAppliedAgain(t *testing.T) {
	kind := Kind(true, cluster(t, nil, nil))
	stored := filled(t, admitted(t, kind, plain), nil)
	for version, tc := range map[string]struct {
		containers string
		refused    bool
	}{
		"v1beta1":  {containers: `[{"name":"app"},{"name":"log"},{"name":"mesh"}]`},
		"v1alpha1": {containers: `[{"name":"app"},{"name":"log"},{"name":"mesh"}]`},
		"others":   {containers: `[{"name":"app"},{"name":"log"}]`, refused: true},
		"an order": {containers: `[{"name":"log"},{"name":"app"},{"name":"mesh"}]`, refused: true},
		"a hook":   {containers: `[{"name":"app"},{"name":"log"},{"name":"mesh","preStop":{"exec":{"command":["x"]}}}]`, refused: true},
	} {
		sent := admissiontest.Merge(t, stored, `{"spec":{"containers":`+tc.containers+`}}`)
		is := admissiontest.Mutated(t, sent, kind.Defaulter().Handle(t.Context(), admissiontest.Request(kind.GroupVersionKind, version, sent, stored)))
		response := kind.Validator(admit.Cluster{}).Handle(t.Context(), admissiontest.Request(kind.GroupVersionKind, version, is, stored))
		if response.Allowed == tc.refused {
			t.Errorf("%s: allowed %v: %v", version, response.Allowed, response.Result)
		}
		if diff := cmp.Diff(admissiontest.Parse[map[string]any](t, stored)["spec"], admissiontest.Parse[map[string]any](t, is)["spec"]); !tc.refused && diff != "" {
			t.Errorf("%s: the spec (-stored +sent):\n%s", version, diff)
		}
	}
}

func TestUpdatesAskNobody(t *testing.T) {
	kind := Kind(false, cluster(t, errors.New("timeout"), nil))
	object := admissiontest.Merge(t, plain, `{"spec":{"podName":"another"}}`)
	if response := kind.Defaulter().Handle(t.Context(), admissiontest.Request(kind.GroupVersionKind, "v1beta1", object, plain)); !response.Allowed {
		t.Errorf("refused: %v", response.Result)
	}
}

func TestValidate(t *testing.T) {
	for name, tc := range map[string]struct{ patch, want string }{
		"as it is":      {"", ""},
		"no pod":        {`{"spec":{"podName":""}}`, "spec.podName: Required value"},
		"no containers": {`{"spec":{"containers":[]}}`, "spec.containers: Required value"},
		"two seconds":   {`{"spec":{"activeDeadlineSeconds":2}}`, "spec.activeDeadlineSeconds: Invalid value: 2: must be 3 or more"},
		"three seconds": {`{"spec":{"activeDeadlineSeconds":3}}`, ""},
		// The schemas refuse these too, but OpenKruise's v1alpha1 has stored such requests.
		"a negative time to run": {
			`{"spec":{"strategy":{"minStartedSeconds":-1}}}`, "spec.strategy.minStartedSeconds: Invalid value: -1: must be 0 or more",
		},
		"a negative grace period": {
			`{"spec":{"strategy":{"terminationGracePeriodSeconds":-1}}}`, "spec.strategy.terminationGracePeriodSeconds: Invalid value: -1",
		},
		"a negative unready grace period": {
			`{"spec":{"strategy":{"unreadyGracePeriodSeconds":-1}}}`, "spec.strategy.unreadyGracePeriodSeconds: Invalid value: -1",
		},
		"a negative time to live": {`{"spec":{"ttlSecondsAfterFinished":-1}}`, "spec.ttlSecondsAfterFinished: Invalid value: -1"},
		"another policy":          {`{"spec":{"strategy":{"failurePolicy":"Retry"}}}`, `spec.strategy.failurePolicy: Unsupported value: "Retry"`},
	} {
		t.Run(name, func(t *testing.T) {
			r := admissiontest.Parse[appsv1beta1.ContainerRecreateRequest](t, admissiontest.Merge(t, plain, tc.patch))
			got := ""
			if errs := Validate(&r); len(errs) > 0 {
				got = errs[0].Error()
			}
			if tc.want == "" && got != "" || !strings.HasPrefix(got, tc.want) {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestWhatMayNotChange(t *testing.T) {
	const labels = `{"metadata":{"labels":{"crr.apps.kruise.io/pod-uid":"uid","crr.apps.kruise.io/node-name":"node-a","crr.apps.kruise.io/active":"true"}}}`
	const held = `{"status":{"conditions":[{"type":"PreRecreateGrace","status":"True","lastTransitionTime":"2026-01-01T10:00:05Z","reason":"r","message":""}]}}`
	for name, tc := range map[string]struct{ status, patch, want string }{
		"a label of the user": {"", `{"metadata":{"labels":{"team":"a"}}}`, ""},
		"the spec":            {"", `{"spec":{"podName":"another"}}`, "spec: Forbidden: cannot be changed"},
		"the pod":             {"", `{"metadata":{"labels":{"crr.apps.kruise.io/pod-uid":"other"}}}`, "metadata.labels[crr.apps.kruise.io/pod-uid]: Forbidden"},
		"the node":            {"", `{"metadata":{"labels":{"crr.apps.kruise.io/node-name":null}}}`, "metadata.labels[crr.apps.kruise.io/node-name]: Forbidden"},
		"that it is active":   {"", `{"metadata":{"labels":{"crr.apps.kruise.io/active":null}}}`, "metadata.labels[crr.apps.kruise.io/active]: Forbidden"},
		"since when the pod is out of service": {
			held, `{"metadata":{"annotations":{"crr.apps.kruise.io/unready-acquired":"2026-01-01T11:00:00Z"}}}`,
			"metadata.annotations[crr.apps.kruise.io/unready-acquired]: Forbidden: is 2026-01-01T10:00:05Z",
		},
		"since when the pod is out of service, with the same time": {
			held, `{"metadata":{"annotations":{"crr.apps.kruise.io/unready-acquired":"2026-01-01T10:00:05Z"}}}`, "",
		},
		"since when, as only an annotation says": {
			`{"metadata":{"annotations":{"crr.apps.kruise.io/unready-acquired":"2026-01-01T10:00:05Z"}}}`,
			`{"metadata":{"annotations":{"crr.apps.kruise.io/unready-acquired":"2026-01-01T11:00:00Z"}}}`,
			"metadata.annotations[crr.apps.kruise.io/unready-acquired]: Forbidden",
		},
		"since when, before it is":                {"", `{"metadata":{"annotations":{"crr.apps.kruise.io/unready-acquired":"2026-01-01T11:00:00Z"}}}`, ""},
		"that it is active, when it is completed": {`{"status":{"phase":"Completed"}}`, `{"metadata":{"labels":{"crr.apps.kruise.io/active":null}}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			old := admissiontest.Merge(t, admissiontest.Merge(t, plain, labels), tc.status)
			object := admissiontest.Merge(t, old, tc.patch)
			kind := Kind(true, Cluster{})
			was := admissiontest.Parse[appsv1beta1.ContainerRecreateRequest](t, old)
			is := admissiontest.Parse[appsv1beta1.ContainerRecreateRequest](t, object)
			got := ""
			if errs := kind.Faults(&is, &was); len(errs) > 0 {
				got = errs[0].Error()
			}
			if tc.want == "" && got != "" || !strings.HasPrefix(got, tc.want) {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
