// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/api/policy/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/podunavailablebudget/podguard"
	"github.com/kruise-operator/kruise-operator/internal/engine/disruption"
	"github.com/kruise-operator/kruise-operator/internal/kube/budgets"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/scenario"
)

// barePods are three ready pods without a workload, with a budget for one of them.
func barePods(t *testing.T, n *environment.Namespace) {
	t.Helper()
	for i := range 3 {
		n.Apply(strings.ReplaceAll(barePod, "NAME", fmt.Sprint("p", i)))
	}
	n.Apply(budgetManifest("web", `{selector: {matchLabels: {app: web}}, maxUnavailable: 1, protectTotalReplicas: 3}`))
	awaitBudget(n, "web", 1, 3, 2, 3)
}

const barePod = `
apiVersion: v1
kind: Pod
metadata: {name: NAME, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: web, image: "example/web:v1", resources: {requests: {cpu: 10m}}}]
`

// asksSoFar is how often the API server has asked about pods with budgets.
func asksSoFar(t *testing.T) int {
	t.Helper()
	core, err := kubernetes.NewForConfig(env.Cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	text, err := core.RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	asks := 0
	for line := range strings.Lines(string(text)) {
		var count float64
		if strings.HasPrefix(line, "apiserver_admission_webhook_request_total{") && strings.Contains(line, ".disruption.operator.kruise.io") {
			if _, err := fmt.Sscanf(line[strings.LastIndex(line, " "):], "%g", &count); err != nil {
				t.Fatal(err)
			}
			asks += int(count)
		}
	}
	return asks
}

// It runs alone, since the API server counts for all namespaces.
func TestNobodyIsAskedAboutPodsWithoutABudget(t *testing.T) {
	n, other := env.Namespace(t), env.Namespace(t)
	none := asksSoFar(t)
	debugged(t, other, 3)
	disrupt := func(pod string) {
		t.Helper()
		other.PatchPod(pod, `{"spec":{"containers":[{"name":"web","image":"example/web:v2"}]}}`)
		if err := evict(t.Context(), n.Client, other.Pod(pod), metav1.DryRunAll); err != nil {
			t.Error(err)
		}
		if err := n.Client.Delete(t.Context(), other.Pod(pod)); err != nil {
			t.Error(err)
		}
	}
	disrupt("p0")
	barePods(t, n)
	disrupt("p1")
	n.Apply(deploymentManifest("api", 1, "example/web:v1"))
	n.Eventually("the pod of the API runs", func(ctx context.Context) error {
		pods, err := n.ListPods(ctx, "app=api")
		if err == nil && (len(pods) != 1 || !environment.IsReady(&pods[0])) {
			err = fmt.Errorf("there are %d", len(pods))
		}
		return err
	})
	if err := n.Client.Delete(t.Context(), &n.Pods("app=api")[0]); err != nil {
		t.Error(err)
	}
	n.PatchPod("p2", `{"metadata":{"labels":{"a":"b"}}}`)
	if got := asksSoFar(t); got != none {
		t.Errorf("the API server has asked %d times about pods without a budget, or about changes that disrupt nothing", got-none)
	}
	if err := n.Client.Delete(t.Context(), n.Pod("p2")); err != nil {
		t.Error(err)
	}
	if got := asksSoFar(t); got == none {
		t.Error("nothing is counted for a pod with a budget")
	}
}

// A drain waits for the budget, goes on when there is room, and ends well.
func TestADrainWaitsForTheBudget(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	node := ownNodes(t, n, 1)[0]
	for i := range 3 {
		n.Apply(strings.ReplaceAll(barePod, "NAME", fmt.Sprint("p", i)) + "  nodeSelector: {e2e: " + n.Name + "}\n  tolerations: [{key: e2e, operator: Exists}]\n")
	}
	n.Apply(budgetManifest("web", `{selector: {matchLabels: {app: web}}, maxUnavailable: 1, protectTotalReplicas: 3}`))
	awaitBudget(n, "web", 1, 3, 2, 3)
	drained := make(chan error, 1)
	go func() {
		out, err := n.Kubectl("drain", node, "--force", "--ignore-daemonsets", "--timeout=5m")
		if err != nil || !strings.Contains(out, "will retry") || !strings.Contains(out, "PodUnavailableBudget web allows no more pods") {
			err = fmt.Errorf("%w: %s", err, out)
		}
		drained <- err
	}()
	n.Eventually("one pod is gone", func(ctx context.Context) error { return count(ctx, n, 2) })
	n.Consistently(3*time.Second, "no other pod goes, and the drain waits", func(ctx context.Context) error {
		select {
		case err := <-drained:
			return fmt.Errorf("the drain ended: %w", err)
		default:
			return count(ctx, n, 2)
		}
	})
	tolerate(t, n, 3)
	if err := <-drained; err != nil {
		t.Error(err)
	}
	if err := count(t.Context(), n, 0); err != nil {
		t.Error(err)
	}
}

func count(ctx context.Context, n *environment.Namespace, want int) error {
	pods, err := n.ListPods(ctx, "app=web")
	if err == nil && len(pods) != want {
		err = fmt.Errorf("%d pods are there, want %d", len(pods), want)
	}
	return err
}

// A PodDisruptionBudget beside it has to allow an eviction, too. What it denies is given back. A pod that is deleted by force is noticed at once.
func TestAnAllowedEvictionThatDoesNotHappenIsGivenBack(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	barePods(t, n)
	n.Apply("apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: web}\nspec: {minAvailable: 3, selector: {matchLabels: {app: web}}}\n")
	n.Eventually("the PodDisruptionBudget is counted", func(context.Context) error {
		if out, err := n.Kubectl("get", "pdb", "web", "--output=jsonpath={.status.currentHealthy}"); err != nil || out != "3" {
			return fmt.Errorf("%s %w", out, err)
		}
		return nil
	})
	if err := evict(t.Context(), n.Client, n.Pod("p0")); !apierrors.IsTooManyRequests(err) || strings.Contains(err.Error(), "PodUnavailableBudget") {
		t.Errorf("an eviction that the PodDisruptionBudget denies: %v", err)
	}
	if err := evict(t.Context(), n.Client, n.Pod("p1")); !apierrors.IsTooManyRequests(err) || !strings.Contains(err.Error(), "PodUnavailableBudget web") {
		t.Errorf("while the first one is recorded: %v", err)
	}
	awaitBudget(n, "web", 1, 3, 2, 3)
	n.Eventually("the pod has an event", func(context.Context) error {
		out, err := n.Kubectl("get", "events", "--field-selector=involvedObject.name=p0,reason=NotDeleted")
		if err == nil && !strings.Contains(out, "p0") {
			err = fmt.Errorf("there is none: %s", out)
		}
		return err
	})
	if out, err := n.Kubectl("delete", "pod", "p1", "--force", "--grace-period=0"); err != nil {
		t.Fatal(out)
	}
	n.EventuallyWithin(10*time.Second, "the pod's record is over before its time", func(ctx context.Context) error {
		budget := &v1beta1.PodUnavailableBudget{}
		if err := n.Client.Get(ctx, client.ObjectKey{Namespace: n.Name, Name: "web"}, budget); err != nil {
			return err
		}
		if len(budget.Status.DisruptedPods) > 0 {
			return fmt.Errorf("recorded are %v", budget.Status.DisruptedPods)
		}
		return nil
	})
	awaitBudget(n, "web", 0, 2, 2, 3)
}

// E2: a budget that allows nothing holds up neither the scaling in of its workload nor its end.
func TestAWorkloadShrinksAndGoesDespiteItsBudget(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	n.Apply(deploymentManifest("web", 4, "example/web:v1"))
	n.Apply(budgetManifest("web", `{targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, maxUnavailable: 0}`))
	awaitBudget(n, "web", 0, 4, 4, 4)
	if err := n.Client.Delete(t.Context(), &n.Pods("app=web")[0]); !apierrors.IsForbidden(err) {
		t.Errorf("a deletion: %v", err)
	}
	if err := n.Client.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(n.Name), client.MatchingLabels{"app": "web"}); !apierrors.IsForbidden(err) {
		t.Errorf("a deletion of all: %v", err)
	}
	n.Eventually("the denial is an event of the pod", func(context.Context) error {
		out, err := n.Kubectl("get", "events", "--field-selector=reason=PubPreventPodDeletion")
		if err == nil && !strings.Contains(out, "PodUnavailableBudget web allows no more pods") {
			err = fmt.Errorf("there are %s", out)
		}
		return err
	})
	if out, err := n.Kubectl("scale", "deployment", "web", "--replicas=2"); err != nil {
		t.Fatal(out)
	}
	awaitBudget(n, "web", 0, 2, 2, 2)
	if out, err := n.Kubectl("delete", "deployment", "web", "--wait=false"); err != nil {
		t.Fatal(out)
	}
	n.EventuallyWithin(2*time.Minute, "its pods are gone", func(ctx context.Context) error { return count(ctx, n, 0) })
}

// Three replicas of the webhook, and fifty clients at once.
func TestReplicasOfTheWebhookTogetherAllowNoMore(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	n.Apply(deploymentManifest("web", 10, "example/web:v1"))
	n.Apply(budgetManifest("web", `{targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, maxUnavailable: 3}`))
	awaitBudget(n, "web", 3, 10, 7, 10)
	pods := n.Pods("app=web")
	replicas := make([]*podguard.Handler, 3)
	for i := range replicas {
		ledger := &budgets.Ledger{Live: n.Client, Client: n.Client, Clock: clock.RealClock{}}
		replicas[i] = &podguard.Handler{Reader: n.Client, Ledger: ledger, Gates: disruption.Gates{Delete: true}}
	}
	var allowed sync.Map
	var group sync.WaitGroup
	var odd atomic.Int32
	for i := range 50 {
		group.Go(func() {
			pod := &pods[i%len(pods)]
			raw, err := json.Marshal(pod)
			if err != nil {
				t.Error(err)
				return
			}
			answer := replicas[i%3].Handle(ctrl.LoggerInto(t.Context(), logr.Discard()), ctrladmission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Operation: admissionv1.Delete, Namespace: n.Name, Name: pod.Name, OldObject: runtime.RawExtension{Raw: raw},
			}})
			switch {
			case answer.Allowed:
				allowed.Store(pod.Name, true)
			case answer.Result.Code != http.StatusForbidden || !strings.Contains(answer.Result.Message, "allows no more"):
				odd.Add(1)
			}
		})
	}
	group.Wait()
	names := 0
	allowed.Range(func(any, any) bool { names++; return true })
	if names != 3 || odd.Load() > 0 {
		t.Errorf("%d pods may go, want 3; %d answers are odd", names, odd.Load())
	}
}

// Updates of the spec, resizes and labels that take pods out of service count; other changes do not.
func TestUpdatesWaitForTheBudget(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	barePods(t, n)
	patch := func(pod, kind, text string, subresource ...string) error {
		object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: n.Name, Name: pod}}
		with := client.RawPatch(types.PatchType(kind), []byte(text))
		if len(subresource) > 0 {
			return n.Client.SubResource(subresource[0]).Patch(t.Context(), object, with)
		}
		return n.Client.Patch(t.Context(), object, with)
	}
	const strategic, image = string(types.StrategicMergePatchType), `{"spec":{"containers":[{"name":"web","image":"example/web:v2"}]}}`
	const resize = `{"spec":{"containers":[{"name":"web","resources":{"requests":{"cpu":"20m"}}}]}}`
	const leave = `{"metadata":{"labels":{"unavailable-pod.kruise.io/test":"true"}}}`
	if err := patch("p0", strategic, image); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"another image": patch("p1", strategic, image), "a label that takes it out of service": patch("p1", strategic, leave),
	} {
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "PodUnavailableBudget web") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := patch("p1", strategic, `{"metadata":{"labels":{"a":"b"}}}`); err != nil {
		t.Errorf("another label: %v", err)
	}
	awaitBudget(n, "web", 1, 3, 2, 3)
	if err := patch("p1", strategic, leave); err != nil {
		t.Errorf("with room: %v", err)
	}
	awaitBudget(n, "web", 0, 2, 2, 3)
	if err := patch("p2", strategic, image); !apierrors.IsForbidden(err) {
		t.Errorf("while another pod is out of service: %v", err)
	}
	if err := patch("p2", strategic, resize, "resize"); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "PodUnavailableBudget web") {
		t.Errorf("a resize: %v", err)
	}
	n.PatchPod("p1", `{"metadata":{"labels":{"unavailable-pod.kruise.io/test":null}}}`)
	awaitBudget(n, "web", 1, 3, 2, 3)
	if err := patch("p2", strategic, resize, "resize"); err != nil {
		t.Errorf("a resize with room: %v", err)
	}
}

// A CloneSet, a SidecarSet and a restart ask by themselves, wait, and name the budget.
func TestUpdatesInPlaceAndRestartsWaitForTheBudget(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	pod := recreatePod(t, n)
	n.Apply(budgetManifest("web", `{selector: {matchLabels: {app: web}}, maxUnavailable: 0}`))
	awaitBudget(n, "web", 0, 1, 1, 1)
	n.Apply(recreate("once", pod.Name, "app", ""))
	requestIs(n, "once", "waits for the budget", func(r *appsv1beta1.ContainerRecreateRequest) bool {
		return says(r, appsv1beta1.RecreateReconciling, metav1.ConditionTrue, "PodUnavailableBudget web")
	})
	n.ChangeCloneSet("web", func(set *appsv1beta1.CloneSet) {
		set.Spec.UpdateStrategy.RollingUpdate = &appsv1beta1.RollingUpdateCloneSetStrategy{PodUpdatePolicy: "InPlaceIfPossible"}
		set.Spec.Template.Spec.Containers[1].Image = "example/log:v2"
	})
	waits(n, "cloneset/web")
	if is := n.Pod(pod.Name); is == nil || is.Spec.Containers[1].Image != "example/log:v1" {
		t.Errorf("the pod was touched: %+v", is)
	}
	tolerate(t, n, 1)
	requestIs(n, "once", "succeeds", over(metav1.ConditionTrue))
	n.SettledCloneSet("web")
	if is := n.Pod(pod.Name); is == nil || is.UID != pod.UID || is.Spec.Containers[1].Image != "example/log:v2" {
		t.Errorf("the pod was not updated in place: %+v", is)
	}
}

func TestASidecarSetWaitsForTheBudget(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	s := newSidecars(t, n, agentLimits("0", "2"))
	s.deploy(2)
	n.Apply(budgetManifest("web", `{selector: {matchLabels: {app: `+scenario.Name+`}}, maxUnavailable: 0}`))
	awaitBudget(n, "web", 0, 2, 2, 2)
	s.update(agentImage(agentV2))
	waits(n, "sidecarset/"+n.Name)
	if got := s.images("agent"); got[agentV1] != 2 {
		t.Errorf("the pods have %v", got)
	}
	tolerate(t, n, 1)
	s.EventuallyWithin(2*time.Minute, "all pods are updated", func(context.Context) error {
		if got := s.images("agent"); got[agentV2] != 2 {
			return fmt.Errorf("the pods have %v", got)
		}
		return nil
	})
}

// waits waits until an object names the budget in a condition.
func waits(n *environment.Namespace, object string) {
	n.Eventually(object+" waits for the budget", func(context.Context) error {
		out, err := n.Kubectl("get", object, "--output=jsonpath={.status.conditions}")
		if err != nil || !strings.Contains(out, "PodUnavailableBudget web") {
			err = fmt.Errorf("it says %s, %w", out, err)
		}
		return err
	})
}

func tolerate(t *testing.T, n *environment.Namespace, unavailable int) {
	t.Helper()
	if out, err := n.Kubectl("patch", "pub", "web", "--type=merge", "--patch", fmt.Sprintf(`{"spec":{"maxUnavailable":%d}}`, unavailable)); err != nil {
		t.Fatal(out)
	}
}

func TestADaemonSetWaitsForTheBudget(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	ownNodes(t, n, 2)
	n.Apply(strings.ReplaceAll(`
apiVersion: apps.kruise.io/v1beta1
kind: DaemonSet
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  updateStrategy: {rollingUpdate: {maxUnavailable: 2}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      nodeSelector: {e2e: NODES}
      tolerations: [{key: e2e, operator: Exists}]
      containers: [{name: main, image: "example/web:v1"}]
`, "NODES", n.Name))
	n.Apply(budgetManifest("web", `{selector: {matchLabels: {app: web}}, maxUnavailable: 0, protectTotalReplicas: 2}`))
	awaitBudget(n, "web", 0, 2, 2, 2)
	if out, err := n.Kubectl("patch", "daemonsets.apps.kruise.io/web", "--type=json", `--patch=[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"example/web:v2"}]`); err != nil {
		t.Fatal(out)
	}
	waits(n, "daemonsets.apps.kruise.io/web")
	tolerate(t, n, 1)
	n.EventuallyWithin(2*time.Minute, "all pods are updated", func(context.Context) error {
		pods := n.Pods("app=web")
		for i := range pods {
			if pods[i].Spec.Containers[0].Image != "example/web:v2" || !environment.IsReady(&pods[i]) {
				return fmt.Errorf("pod %s has %s", pods[i].Name, pods[i].Spec.Containers[0].Image)
			}
		}
		if len(pods) != 2 {
			return fmt.Errorf("there are %d", len(pods))
		}
		return nil
	})
}

// A job that fails deletes its other pods as the budget allows.
func TestABroadcastJobWaitsForTheBudget(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	nodes := ownNodes(t, n, 2)
	n.Apply(broadcastJob(n, runsOn, "  failurePolicy: {type: FailFast}"))
	n.Apply(budgetManifest("web", `{selector: {matchLabels: {broadcastjob-name: scan}}, maxUnavailable: 0, protectTotalReplicas: 2}`))
	awaitBudget(n, "web", 0, 2, 2, 2)
	ends(t, n, nodes[0], 1)
	waits(n, "broadcastjob/scan")
	if job := awaitJob(n, appsv1beta1.BroadcastJobFailed, 2, 1, 0, 1); job.Status.CompletionTime != nil {
		t.Errorf("the job has ended: %+v", job.Status)
	}
	tolerate(t, n, 2)
	awaitJob(n, appsv1beta1.BroadcastJobFailed, 2, 0, 0, 1)
}

func TestAStatefulSetWaitsForTheBudget(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	n.Apply(`
apiVersion: apps.kruise.io/v1beta1
kind: StatefulSet
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: "example/web:v1"}]
`)
	n.Settled("web")
	n.Apply(budgetManifest("web", `{targetRef: {apiVersion: apps.kruise.io/v1beta1, kind: StatefulSet, name: web}, maxUnavailable: 0}`))
	awaitBudget(n, "web", 0, 2, 2, 2)
	n.SetImage("web", "example/web:v2")
	waits(n, "statefulsets.apps.kruise.io/web")
	tolerate(t, n, 1)
	n.Settled("web")
	for _, pod := range n.Pods("app=web") {
		if pod.Spec.Containers[0].Image != "example/web:v2" {
			t.Errorf("pod %s has %s", pod.Name, pod.Spec.Containers[0].Image)
		}
	}
}
