// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/engine/inplace"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

const game = `
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: game}
spec:
  replicas: 3
  selector: {matchLabels: {app: game}}
  template:
    metadata: {labels: {app: game}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: game, image: "openkruise/guestbook:v1"}]
---
apiVersion: apps.kruise.io/v1alpha1
kind: PodProbeMarker
metadata: {name: game}
spec:
  selector: {matchLabels: {app: game}}
  probes:
  - name: idle
    containerName: game
    podConditionType: game.example/idle
    probe: {exec: {command: [/guestbook, "-check=http://127.0.0.1:3000/idle"]}, periodSeconds: 1, timeoutSeconds: 5, failureThreshold: 1}
    markerPolicy:
    - {state: Succeeded, labels: {idle: "true"}, annotations: {controller.kubernetes.io/pod-deletion-cost: "-10"}}
    - {state: Failed, labels: {busy: "true"}, annotations: {controller.kubernetes.io/pod-deletion-cost: "10"}}
  - name: page
    containerName: game
    podConditionType: game.example/page
    probe: {httpGet: {path: /idle, port: 3000}, periodSeconds: 1, timeoutSeconds: 5, failureThreshold: 1}
  - name: port
    containerName: game
    podConditionType: game.example/port
    probe: {tcpSocket: {port: 3000}, periodSeconds: 1, timeoutSeconds: 5, failureThreshold: 1}
  - name: closed
    containerName: game
    podConditionType: game.example/closed
    probe: {tcpSocket: {port: 3999}, periodSeconds: 1, timeoutSeconds: 5, failureThreshold: 1}
`

const (
	idle   = "idle=True page=True port=True closed=False labels true/ cost -10"
	busy   = "idle=False page=False port=True closed=False labels /true cost 10"
	unsaid = "idle=False page=False port=True closed=False labels / cost "
)

// tells waits until a pod reports its probes' results.
func tells(n *environment.Namespace, pod, want string) {
	n.EventuallyWithin(waitTimeout, "pod "+pod+" tells "+want, func(ctx context.Context) error {
		is := &corev1.Pod{}
		if err := n.Client.Get(ctx, client.ObjectKey{Namespace: n.Name, Name: pod}, is); err != nil {
			return err
		}
		found := map[corev1.PodConditionType]corev1.ConditionStatus{}
		for _, c := range is.Status.Conditions {
			found[c.Type] = c.Status
		}
		got := fmt.Sprintf("idle=%s page=%s port=%s closed=%s labels %s/%s cost %s",
			found["game.example/idle"], found["game.example/page"], found["game.example/port"], found["game.example/closed"],
			is.Labels["idle"], is.Labels["busy"], is.Annotations["controller.kubernetes.io/pod-deletion-cost"])
		if got != want {
			return fmt.Errorf("it tells %q", got)
		}
		return nil
	})
}

func ask(ctx context.Context, method, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return "", err
	}
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // no proxy knows the addresses of pods
	response, err := c.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	return string(body), err
}

// plays makes a server idle (PUT), or not (DELETE).
func plays(t *testing.T, pod *corev1.Pod, method string) {
	t.Helper()
	if _, err := ask(t.Context(), method, "http://"+pod.Status.PodIP+":3000/idle"); err != nil {
		t.Fatal(err)
	}
}

// TestIdleServersAreDeletedFirst is the kind's purpose, on real nodes: commands, requests
// and connections probe the servers, the idle one is marked and goes first, and with the
// marker go its marks.
func TestIdleServersAreDeletedFirst(t *testing.T) {
	n := onNodes(t)
	n.Apply(game)
	n.SettledCloneSet("game")
	pods := n.Pods("app=game")
	for i := range pods {
		tells(n, pods[i].Name, busy)
	}
	plays(t, &pods[1], http.MethodPut)
	tells(n, pods[1].Name, idle)
	plays(t, &pods[1], http.MethodDelete)
	tells(n, pods[1].Name, busy)
	plays(t, &pods[2], http.MethodPut)
	tells(n, pods[2].Name, idle)
	// The operator's view of the pod may be older than its view of the CloneSet.
	n.Consistently(3*time.Second, "the idle server stays marked", func(ctx context.Context) error {
		is := &corev1.Pod{}
		if err := n.Client.Get(ctx, client.ObjectKeyFromObject(&pods[2]), is); err != nil {
			return err
		}
		if is.Labels["idle"] != "true" {
			return fmt.Errorf("its labels are %v", is.Labels)
		}
		return nil
	})

	n.ChangeCloneSet("game", func(set *v1beta1.CloneSet) { set.Spec.Replicas = new(int32(2)) })
	n.SettledCloneSet("game")
	n.EventuallyWithin(waitTimeout, "one server is gone", func(ctx context.Context) error {
		var told []string
		for i := range pods {
			is := &corev1.Pod{}
			if err := n.Client.Get(ctx, client.ObjectKeyFromObject(&pods[i]), is); apierrors.IsNotFound(err) && i == 2 {
				return nil
			} else if err != nil {
				told = append(told, err.Error())
				continue
			}
			told = append(told, fmt.Sprintf("%s deleted at %v, %v, %v", is.Name, is.DeletionTimestamp, is.Annotations, is.Finalizers))
		}
		return fmt.Errorf("the idle one, %s, is there: %s", pods[2].Name, strings.Join(told, "; "))
	})
	for i := range 2 {
		if is := n.Pod(pods[i].Name); is == nil || is.DeletionTimestamp != nil {
			t.Errorf("server %d, which is busy, is deleted", i)
		}
	}

	marker := &v1alpha1.PodProbeMarker{ObjectMeta: metav1.ObjectMeta{Namespace: n.Name, Name: "game"}}
	if err := n.Client.Delete(t.Context(), marker); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		tells(n, pods[i].Name, unsaid)
	}
	n.EventuallyWithin(waitTimeout, "no node probes for the marker", func(ctx context.Context) error {
		all := &v1alpha1.NodePodProbeList{}
		if err := n.Client.List(ctx, all); err != nil {
			return err
		}
		for i := range all.Items {
			for _, of := range all.Items[i].Spec.PodProbes {
				if of.Namespace == n.Name {
					return fmt.Errorf("%s probes %s", all.Items[i].Name, of.Name)
				}
			}
		}
		return nil
	})
}

// reading is a set with containers taking their port from a label and from an annotation,
// and one reading neither. The image has no shell.
const reading = `
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: reading}
spec:
  replicas: 1
  selector: {matchLabels: {app: reading}}
  updateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceIfPossible}}
  template:
    metadata: {labels: {app: reading, port: "3000"}, annotations: {port: "3100"}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: labeled
        image: openkruise/guestbook:v1
        args: ["-listen=:$(PORT)"]
        env: [{name: PORT, valueFrom: {fieldRef: {fieldPath: "metadata.labels['port']"}}}]
      - name: annotated
        image: openkruise/guestbook:v1
        args: ["-listen=:$(PORT)"]
        env: [{name: PORT, valueFrom: {fieldRef: {fieldPath: "metadata.annotations['port']"}}}]
      - {name: other, image: "openkruise/guestbook:v1", args: ["-listen=:3200"]}
`

// serves waits until a pod answers on a port.
func serves(n *environment.Namespace, pod *corev1.Pod, port int) {
	n.EventuallyWithin(waitTimeout, fmt.Sprintf("pod %s serves on %d", pod.Name, port), func(ctx context.Context) error {
		_, err := ask(ctx, http.MethodGet, fmt.Sprintf("http://%s:%d/version", pod.Status.PodIP, port))
		return err
	})
}

func restarts(pod *corev1.Pod) map[string]int32 {
	all := map[string]int32{}
	for _, s := range pod.Status.ContainerStatuses {
		all[s.Name] = s.RestartCount
	}
	return all
}

// reportOf is the daemon's report of the pod's containers, by name, once it is about the
// running ones.
func reportOf(n *environment.Namespace, pod *corev1.Pod) map[string]inplace.Reported {
	var report map[string]inplace.Reported
	n.EventuallyWithin(waitTimeout, "the containers of pod "+pod.Name+" are reported", func(ctx context.Context) error {
		is := &corev1.Pod{}
		if err := n.Client.Get(ctx, client.ObjectKeyFromObject(pod), is); err != nil {
			return err
		}
		if !inplace.ReportIsCurrent(is) {
			return fmt.Errorf("the report %s is not about %+v", is.Annotations[shared.AnnotationRuntimeContainersMeta], is.Status.ContainerStatuses)
		}
		report = map[string]inplace.Reported{}
		for _, s := range is.Status.ContainerStatuses {
			report[s.Name], _ = inplace.ReportedOn(is, s.Name)
			if report[s.Name].Hashes.Plain == 0 || report[s.Name].RestartCount != uint32(s.RestartCount) {
				return fmt.Errorf("of container %s with %d restarts the report says %+v", s.Name, s.RestartCount, report[s.Name])
			}
		}
		return nil
	})
	return report
}

// TestVariablesFromMetadata: a label, then an annotation, in a container's environment
// changes in place. This container is restarted once, serves by the new value, and the
// others are left alone. The daemon reports all containers' environments. Where this is
// forbidden, the pod is replaced.
func TestVariablesFromMetadata(t *testing.T) {
	n := onNodes(t)
	n.Apply(reading)
	n.SettledCloneSet("reading")
	was := n.Pods("app=reading")[0]
	serves(n, &was, 3000)
	change := func(change func(*corev1.PodTemplateSpec)) *corev1.Pod {
		n.ChangeCloneSet("reading", func(set *v1beta1.CloneSet) { change(&set.Spec.Template) })
		n.SettledCloneSet("reading")
		var pods []corev1.Pod
		n.EventuallyWithin(waitTimeout, "the pod that was replaced is gone", func(ctx context.Context) (err error) {
			if pods, err = n.ListPods(ctx, "app=reading"); err == nil && len(pods) != 1 {
				err = fmt.Errorf("there are %d pods", len(pods))
			}
			return err
		})
		return &pods[0]
	}
	is := change(func(template *corev1.PodTemplateSpec) { template.Labels["port"] = "3001" })
	if is.UID != was.UID || fmt.Sprint(restarts(is)) != "map[annotated:0 labeled:1 other:0]" {
		t.Errorf("pod %s became %s with the restarts %v", was.UID, is.UID, restarts(is))
	}
	serves(n, is, 3001)
	is = change(func(template *corev1.PodTemplateSpec) { template.Annotations["port"] = "3101" })
	if is.UID != was.UID || fmt.Sprint(restarts(is)) != "map[annotated:1 labeled:1 other:0]" {
		t.Errorf("pod %s became %s with the restarts %v", was.UID, is.UID, restarts(is))
	}
	serves(n, is, 3101)
	before := reportOf(n, is)
	is = change(func(template *corev1.PodTemplateSpec) {
		template.Spec.Containers[2].Image = "openkruise/guestbook:v1-again"
	})
	if after := reportOf(n, is); after["other"].Hashes.Plain == before["other"].Hashes.Plain || after["labeled"] != before["labeled"] || after["annotated"] != before["annotated"] {
		t.Errorf("after an update of container other alone the report went from %+v to %+v", before, after)
	}

	settings := &operatorv1alpha1.Kruise{ObjectMeta: metav1.ObjectMeta{Name: operatorv1alpha1.KruiseName}}
	settings.Spec.NodeDaemon = &operatorv1alpha1.NodeDaemonSettings{Mode: operatorv1alpha1.NodeDaemonDisabled}
	if err := n.Client.Create(t.Context(), settings); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Client.Delete(context.WithoutCancel(t.Context()), settings); err != nil {
			t.Error(err)
		}
	})
	n.EventuallyWithin(waitTimeout, "the operator runs so", func(ctx context.Context) error {
		if err := n.Client.Get(ctx, client.ObjectKeyFromObject(settings), settings); err != nil {
			return err
		}
		at := settings.Status.Conditions
		if settings.Status.ObservedGeneration != settings.Generation || !meta.IsStatusConditionTrue(at, operatorv1alpha1.KruiseAvailable) ||
			!meta.IsStatusConditionFalse(at, operatorv1alpha1.KruiseProgressing) {
			return fmt.Errorf("the status is %+v", settings.Status)
		}
		return nil
	})
	is = change(func(template *corev1.PodTemplateSpec) { template.Labels["port"] = "3002" })
	if is.UID == was.UID {
		t.Error("without a daemon the pod was updated in place")
	}
	serves(n, is, 3002)
}
