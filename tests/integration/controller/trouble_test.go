// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package controller_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/audit"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/install"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
)

// stored reads a set as stored, even if it does not fit its type.
func stored(ctx context.Context, n *environment.Namespace, name string) (*unstructured.Unstructured, error) {
	set := &unstructured.Unstructured{}
	set.SetGroupVersionKind(v1beta1.GroupVersion().WithKind("StatefulSet"))
	return set, n.Client.Get(ctx, types.NamespacedName{Namespace: n.Name, Name: name}, set)
}

func TestSetThatCannotBeDecodedIsContained(t *testing.T) {
	n := env.Namespace(t)
	for _, config := range []client.Object{
		&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "kruise-operator-mutating"}},
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "kruise-operator-validating"}},
	} {
		if err := n.Client.Delete(t.Context(), config); err != nil {
			t.Fatal(err)
		}
	}
	// The API server goes on calling a webhook for a moment after its configuration is gone.
	broken := environment.StatefulSetManifest("broken", 2, "      containers:\n      - name: main\n        image: example/web:v1\n", "      containers: none\n")
	n.Eventually("the API server stores a template that cannot be decoded", func(ctx context.Context) error {
		cmd := n.Cluster.Kubectl(ctx, "apply", "--namespace="+n.Name, "-f", "-")
		cmd.Stdin = strings.NewReader(broken)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	if err := n.Operator.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The operator has its certificate trusted again as soon as it sees the new configurations.
	n.Eventually("the API server reaches the operator again", n.Operator.CheckReached)
	n.Eventually("the set is stalled and says why", func(ctx context.Context) error {
		set, err := stored(ctx, n, "broken")
		if err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(set.Object, "status", "conditions")
		for _, entry := range conditions {
			c, _ := entry.(map[string]any)
			message, _ := c["message"].(string)
			if c["type"] == "Stalled" && c["status"] == "True" && c["reason"] == "Undecodable" && strings.Contains(message, "cannot be decoded") {
				return nil
			}
		}
		return fmt.Errorf("the conditions are %v", conditions)
	})
	n.Eventually("one event says so too", func(context.Context) error {
		found := events(t, n, "broken", "Undecodable")
		if len(found) != 1 || found[0].Type != corev1.EventTypeWarning || found[0].Series != nil {
			return fmt.Errorf("there are %d: %+v", len(found), found)
		}
		return nil
	})

	n.Apply(environment.StatefulSetManifest("fine", 2))
	n.Settled("fine")
	n.SetImage("fine", "example/web:v2")
	n.Settled("fine")
	if got := environment.Names(n.Pods()); !slices.Equal(got, []string{"fine-0", "fine-1"}) {
		t.Errorf("the pods are %v, want those of the other set", got)
	}

	// Mending the template is all it takes.
	set, err := stored(t.Context(), n, "broken")
	if err != nil {
		t.Fatal(err)
	}
	patch := `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"example/web:v1"}]}}}}`
	if err := n.Client.Patch(t.Context(), set, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
	mended := n.Settled("broken")
	if !is(mended, v1beta1.StatefulSetStalled, corev1.ConditionFalse) {
		t.Errorf("after mending the conditions are %+v", mended.Status.Conditions)
	}
}

func TestFieldWhoseGateIsOffIsKeptAndNamed(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	n.Apply(environment.StatefulSetManifest("web", 2, "  serviceName: web\n", "  serviceName: web\n  ordinals: {start: 5}\n"))
	set := n.Settled("web")
	if got := environment.Names(n.Pods()); !slices.Equal(got, []string{"web-0", "web-1"}) {
		t.Errorf("the pods are %v, want web-0 and web-1", got)
	}
	if set.Spec.Ordinals == nil || set.Spec.Ordinals.Start != 5 {
		t.Errorf("spec.ordinals is %+v, want it kept", set.Spec.Ordinals)
	}
	n.Eventually("a condition names field and gate", func(context.Context) error {
		c := condition(n.StatefulSet("web"), v1beta1.StatefulSetFieldsIgnored)
		if c == nil || c.Status != corev1.ConditionTrue || !strings.Contains(c.Message, "spec.ordinals.start") || !strings.Contains(c.Message, "StatefulSetStartOrdinal") {
			return fmt.Errorf("FieldsIgnored is %+v", c)
		}
		return nil
	})
}

func TestTemplateThatTheServerRefuses(t *testing.T) {
	n := env.Namespace(t)
	refused := environment.StatefulSetManifest("web", 10, "        image: example/web:v1\n", "        image: example/web:v1\n        ports: [{containerPort: 70000}]\n")
	cmd := n.Cluster.Kubectl(t.Context(), "apply", "--namespace="+n.Name, "-f", "-")
	cmd.Stdin = strings.NewReader(refused)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Warning:") || !strings.Contains(string(out), "containerPort") {
		t.Fatalf("applying such a template: %v: %s; want it taken with a warning", err, out)
	}
	n.Eventually("the condition carries the server's words", func(context.Context) error {
		c := condition(n.StatefulSet("web"), v1beta1.StatefulSetFailedCreatePod)
		if c == nil || c.Status != corev1.ConditionTrue || !strings.Contains(c.Message, "containerPort") {
			return fmt.Errorf("FailedCreatePod is %+v", c)
		}
		return nil
	})
	n.Eventually("a warning says so", func(context.Context) error {
		if found := events(t, n, "web", "FailedCreate"); len(found) == 0 || found[0].Type != corev1.EventTypeWarning {
			return fmt.Errorf("the events are %+v", found)
		}
		return nil
	})

	log := openLog(t)
	const period = 10 * time.Second
	n.Consistently(period, "the set stays without pods", func(context.Context) error {
		if pods := n.Pods(); len(pods) > 0 {
			return fmt.Errorf("there are pods %v", environment.Names(pods))
		}
		return nil
	})
	requests, err := log.Next(func(e *auditv1.Event) bool {
		return audit.ByUser(operator.ServiceAccountUser)(e) && e.ObjectRef != nil && e.ObjectRef.Namespace == n.Name
	})
	if err != nil {
		t.Fatal(err)
	}
	counts := audit.Count(requests)
	t.Logf("measured: %d requests in %s for 10 pods that the server refuses", len(requests), period)
	if len(requests) > 60 {
		t.Errorf("%d requests in %s, want at most 60:\n%s", len(requests), period, counts)
	}

	began := time.Now()
	n.Change("web", func(set *v1beta1.StatefulSet) { set.Spec.Template.Spec.Containers[0].Ports[0].ContainerPort = 7000 })
	set := n.Settled("web")
	t.Logf("measured: %s from the mended template to 10 pods", time.Since(began).Round(time.Millisecond))
	if waited := time.Since(began); waited > 5*time.Second {
		t.Errorf("a mended template waited %s for its pods, want it tried at once", waited)
	}
	if c := condition(set, v1beta1.StatefulSetFailedCreatePod); c != nil {
		t.Errorf("FailedCreatePod is still %+v", c)
	}
}

// sidecars selects pods for another container.
const sidecars = `
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: of-a-kind-that-is-off}
spec:
  selector: {matchLabels: {app: web}}
  containers: [{name: agent, image: "example/agent:v1"}]
`

// A disabled kind costs the API server nothing, and its sets are not reconciled.
// SidecarSets register nothing for pods.
func TestKindThatIsOff(t *testing.T) {
	if err := env.Operator.Stop(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if err := errors.Join(env.Operator.Install(ctx), env.Operator.Run(ctx)); err != nil {
			t.Errorf("starting the operator again: %v", err)
		}
	})
	log := openLog(t)
	off, err := operator.Start(t.Context(), env.Cluster, operator.Options{Name: "off", Args: []string{"--kinds="}})
	if err != nil {
		t.Fatal(err)
	}
	n := env.Namespace(t)
	n.Apply(environment.StatefulSetManifest("web", 2))
	injecting := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(sidecars), &injecting.Object); err != nil {
		t.Fatal(err)
	}
	if err := n.Client.Create(t.Context(), injecting); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Client.Delete(context.WithoutCancel(t.Context()), injecting); err != nil {
			t.Error(err)
		}
	})
	n.Consistently(2*time.Second, "the sets are left alone", func(ctx context.Context) error {
		if set := n.StatefulSet("web"); set.Status.ObservedGeneration != 0 || len(n.Pods()) > 0 {
			return fmt.Errorf("the status is %+v and there are %d pods", set.Status, len(n.Pods()))
		}
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: n.Name, GenerateName: "web-", Labels: map[string]string{"app": "web"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example/web:v1"}}},
		}
		if err := n.Client.Create(ctx, pod, client.DryRunAll); err != nil {
			return err
		}
		if len(pod.Spec.Containers) != 1 {
			return fmt.Errorf("a pod has %d containers", len(pod.Spec.Containers))
		}
		return nil
	})
	if err := n.Client.Get(t.Context(), client.ObjectKeyFromObject(injecting), injecting); err != nil {
		t.Fatal(err)
	}
	if status, _, _ := unstructured.NestedMap(injecting.Object, "status"); len(status) > 0 || len(injecting.GetAnnotations()) > 0 {
		t.Errorf("the SidecarSet has annotations %v and status %v", injecting.GetAnnotations(), status)
	}
	// The log has a watch when it ends.
	if err := off.Stop(); err != nil {
		t.Fatal(err)
	}
	requests, err := log.Next(func(e *auditv1.Event) bool {
		if !audit.ByUser(operator.ServiceAccountUser)(e) || e.ObjectRef == nil {
			return false
		}
		write := audit.Request{Verb: e.Verb}.IsWrite()
		switch of := e.ObjectRef; of.Resource {
		case "statefulsets", "pods", "controllerrevisions", "persistentvolumeclaims":
			// SidecarSets' remains in the operator's own namespace are looked for once, for
			// removal.
			return of.Namespace != install.Namespace || write
		case "sidecarsets", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings":
			return write
		case "mutatingwebhookconfigurations":
			return write && of.Name == "kruise-operator-pods"
		}
		return false
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(requests) > 0 {
		t.Errorf("an operator whose kinds are off made these requests:\n%s", audit.Count(requests))
	}
}

// Before the server was asked first, an edit was refused halfway, and a pod was deleted
// whose replacement was refused.
func TestNoPodIsTakenAwayForATemplateThatTheServerRefuses(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]shared.PodUpdatePolicy{"in place": shared.InPlaceIfPossible, "by replacing": shared.RecreatePods} {
		t.Run(name, func(t *testing.T) {
			n := env.Namespace(t)
			n.Apply(environment.StatefulSetManifest("web", 3))
			n.Change("web", func(set *v1beta1.StatefulSet) { set.Spec.UpdateStrategy.RollingUpdate.PodUpdatePolicy = policy })
			n.Settled("web")
			before := uids(n.Pods())
			n.Change("web", func(set *v1beta1.StatefulSet) {
				set.Spec.Template.Spec.Containers[0].Image = ""
			})
			stalled := func(context.Context) error {
				set := n.StatefulSet("web")
				c := condition(set, v1beta1.StatefulSetStalled)
				if c == nil || c.Status != corev1.ConditionTrue || c.Reason != v1beta1.ReasonInvalidTemplate || !strings.Contains(c.Message, "spec.template.spec.containers[0].image") {
					return fmt.Errorf("the conditions are %+v", set.Status.Conditions)
				}
				if set.Status.AvailableReplicas != 3 {
					return fmt.Errorf("%d pods are available", set.Status.AvailableReplicas)
				}
				if diff := cmp.Diff(before, uids(n.Pods())); diff != "" {
					return fmt.Errorf("the pods (-before +now):\n%s", diff)
				}
				return nil
			}
			n.Eventually("the set is stalled and serves", stalled)
			n.Consistently(time.Second, "the set is stalled and serves", stalled)
			n.Change("web", func(set *v1beta1.StatefulSet) { set.Spec.Template.Spec.Containers[0].Image = "example/web:v2" })
			n.Settled("web")
		})
	}
}
