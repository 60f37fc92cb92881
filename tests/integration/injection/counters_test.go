// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package injection_test

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/controllers/sidecarset"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
	"github.com/kruise-operator/kruise-operator/tests/framework/install"
)

// counted is a line of the API server's metrics about one of its calls of webhooks, evaluations of policies or of their match conditions: its labels
// and its value.
var counted = regexp.MustCompile(`^apiserver_(?:admission_webhook_request_total|admission_webhook_admission_duration_seconds_count|` +
	`admission_match_condition_\w+|mutating_admission_policy_check_total)\{(.*)\} (\S+)$`)

// calledFor is a line about the calls of one webhook: its name and their number.
var calledFor = regexp.MustCompile(`^apiserver_admission_webhook_request_total\{.*name="(sidecarset-[^"]*)".*\} (\S+)$`)

// sums adds up the values of the API server's metrics whose lines match, by what the first group of the pattern has found. The second group is the value.
func (w *fixture) sums(t *testing.T, pattern *regexp.Regexp) map[string]float64 {
	t.Helper()
	sums := map[string]float64{}
	for line := range strings.Lines(string(w.metrics(t))) {
		match := pattern.FindStringSubmatch(strings.TrimSpace(line))
		if match == nil {
			continue
		}
		value, err := strconv.ParseFloat(match[2], 64)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		sums[match[1]] += value
	}
	return sums
}

// calls are how often the API server has called the operator for each set, by the name of its entry.
func (w *fixture) calls(t *testing.T) map[string]float64 {
	t.Helper()
	return w.sums(t, calledFor)
}

// Several sets on one pod cost one call each, whatever they inject: the first call injects them all and mounts the token, so nothing changes after it. Sets by
// policy add none.
func TestEachSetIsCalledOnceForAPod(t *testing.T) {
	w := shared
	for name, policy := range map[string]bool{"all by webhook": false, "one by policy": true} {
		t.Run(name, func(t *testing.T) {
			if policy {
				w.needsPolicies(t)
			}
			namespace := w.namespace(t, nil)
			i := w.injection(policy)
			t.Cleanup(func() { w.switchedOff(t) })
			set := func(name, more string) {
				w.apply(t, strings.NewReplacer("SET", name, "HOME", namespace, "MORE", more).Replace(`
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: SET}
spec:
  selector: {matchLabels: {app: shop}}
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: HOME}}
  MORE
`))
			}
			// What two sets merge into is left to the webhook by the policy.
			const merging = `patchPodMetadata: [{annotations: {shared: '{"a": "b"}'}, patchPolicy: MergePatchJson}]`
			set("log", `containers: [{name: agent, image: "example/agent:v1"}]`)
			set("mesh", merging+`
  containers: [{name: mesh, image: "example/mesh:v1", upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: "example/empty:v1"}}]`)
			set("trace", merging+`
  initContainers: [{name: prepare, image: "example/prepare:v1"}]
  containers: [{name: before, image: "example/trace:v1", shareVolumePolicy: {type: enabled}}, {name: after, image: "example/trace:v1", podInjectPolicy: AfterAppContainer}]`)
			paths := map[string]sidecarset.Path{"log": sidecarset.PathWebhook, "mesh": sidecarset.PathWebhook, "trace": sidecarset.PathWebhook}
			if policy {
				paths["log"] = sidecarset.PathPolicy
			}
			for name, path := range paths {
				w.inForce(t, i, name, path)
			}
			before := w.calls(t)
			const pods = 5
			for range pods {
				pod, err := w.pod(t, namespace, shop)
				if err != nil {
					t.Fatal(err)
				}
				if got := containers(pod); got != "agent mesh-1 mesh-2 before web after" {
					t.Errorf("containers: %s", got)
				}
				for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
					if !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return strings.HasPrefix(m.Name, "kube-api-access-") }) {
						t.Errorf("container %s is without the token", c.Name)
					}
				}
			}
			after := w.calls(t)
			for name, path := range paths {
				want := float64(pods)
				if path == sidecarset.PathPolicy {
					want = 0
				}
				if got := after[sidecar.EntryName(name)] - before[sidecar.EntryName(name)]; got != want {
					t.Errorf("set %s was called %v times for %d pods, want %v", name, got, pods, want)
				}
			}
		})
	}
}

// metrics are those of the API server.
func (w *fixture) metrics(t *testing.T) []byte {
	t.Helper()
	core, err := kubernetes.NewForConfig(w.cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	data, err := core.RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// counts are how often the API server has done something of ours for pods so far.
func (w *fixture) counts(t *testing.T) int {
	t.Helper()
	total := 0.0
	for labels, value := range w.sums(t, counted) {
		if strings.Contains(labels, "sidecarset-") || strings.Contains(labels, sidecar.PolicyName) {
			total += value
		}
	}
	return int(total)
}

// during returns how much of ours the API server does while it creates twenty pods of each of two kinds.
func (w *fixture) during(t *testing.T, namespace, want string) int {
	t.Helper()
	before := w.counts(t)
	for range 20 {
		pod, err := w.pod(t, namespace, namedShop)
		if err != nil {
			t.Fatal(err)
		}
		if got := containers(pod); got != want {
			t.Fatalf("containers: %s, want %s", got, want)
		}
		if _, err := w.pod(t, namespace, `{metadata: {generateName: other-, labels: {app: other}}, spec: {containers: [{name: web, image: w}]}}`); err != nil {
			t.Fatal(err)
		}
	}
	return w.counts(t) - before
}

// Without a SidecarSet the API server calls and evaluates nothing of ours for pods: before the first one, after the last one, and with the kind
// switched off. It does not matter whether the operator runs.
func TestNothingIsEvaluatedWithoutSets(t *testing.T) {
	w := shared
	namespace := w.namespace(t, nil)
	for _, tc := range []struct {
		name   string
		policy bool
		path   sidecarset.Path
		set    string
		least  int
	}{
		{"by policy", true, sidecarset.PathPolicy, byPolicy, 20},
		{"by webhook", false, sidecarset.PathWebhook, byPolicy, 20},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.policy {
				w.needsPolicies(t)
			}
			i := w.injection(tc.policy)
			nothing := func(when string) {
				t.Helper()
				if got := w.during(t, namespace, "web"); got != 0 {
					t.Errorf("%s: %d calls and evaluations", when, got)
				}
				w.stop()
				defer w.serve(t.Context())
				if got := w.during(t, namespace, "web"); got != 0 {
					t.Errorf("%s, with the operator dead: %d calls and evaluations", when, got)
				}
			}
			if _, err := i.Reconcile(t.Context(), "none", sidecarset.Latest{}); err != nil {
				t.Fatal(err)
			}
			nothing("before the first set")
			set := w.apply(t, tc.set)
			w.inForce(t, i, "log", tc.path)
			const injected = "agent mesh-1 mesh-2 web"
			if got := w.during(t, namespace, injected); got < tc.least {
				t.Errorf("with a set only %d are counted: nothing would be noticed", got)
			}

			// The kind is switched off, and on again.
			off := w.without(t)
			if _, err := off.Reconcile(t.Context(), "", sidecarset.Latest{}); err != nil {
				t.Fatal(err)
			}
			w.creating(t, namespace, "web")
			nothing("with the kind off")
			i = w.injection(tc.policy)
			w.inForce(t, i, "log", tc.path)
			w.creating(t, namespace, injected)

			w.remove(t, set)
			if _, err := i.Reconcile(t.Context(), "log", sidecarset.Latest{}); err != nil {
				t.Fatal(err)
			}
			w.creating(t, namespace, "web")
			nothing("after the last set")
			w.anchorAlone(t, tc.policy)
		})
	}
}

// without is the injection of an operator whose kind SidecarSet is off.
func (w *fixture) without(t *testing.T) *sidecarset.Injection {
	t.Helper()
	return sidecarset.NewInjection(sidecarset.InjectionOptions{
		Client: w.client, Live: w.client, Namespace: install.Namespace, PreferPolicy: true, Clock: clock.RealClock{},
		Sets: func(context.Context) ([]unstructured.Unstructured, error) { return nil, nil },
	})
}

// anchorAlone checks that of the policy at most the binding that matches no pod is left.
func (w *fixture) anchorAlone(t *testing.T, there bool) {
	t.Helper()
	if !w.servesPolicies(t) {
		return
	}
	bindings := &admissionv1.MutatingAdmissionPolicyBindingList{}
	if err := w.client.List(t.Context(), bindings, client.Limit(10)); err != nil {
		t.Fatal(err)
	}
	for _, binding := range bindings.Items {
		if binding.Name != sidecar.AnchorName {
			t.Errorf("binding %s is left", binding.Name)
		}
	}
	if len(bindings.Items) == 0 && there {
		t.Error("the anchor is gone")
	}
}
