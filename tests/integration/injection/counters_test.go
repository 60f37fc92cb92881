// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package injection_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/controllers/sidecarset"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
)

// counted is a line of the API server's metrics about one of its calls of webhooks, evaluations of policies or of their match conditions: its labels
// and its value.
var counted = regexp.MustCompile(`^apiserver_(?:admission_webhook_request_total|admission_webhook_admission_duration_seconds_count|` +
	`admission_match_condition_\w+|mutating_admission_policy_check_total)\{(.*)\} (\S+)$`)

// sums adds up the API server's matching metrics by the pattern's first group. The second
// group is the value.
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

// metrics are the API server's.
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

// Without a SidecarSet the API server calls and evaluates nothing of ours for pods: before
// the first one, after the last one, and with the kind switched off, with or without a
// running operator.
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
			off := w.off()
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

// anchorAlone checks that at most the policy's binding without pods is left.
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
