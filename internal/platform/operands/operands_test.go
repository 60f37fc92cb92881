// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package operands

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestRender(t *testing.T) {
	ports := map[string]any{}
	for _, base := range Bases() {
		objects, err := Render(base, Values{Namespace: "elsewhere", MetricsPort: 9090})
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range objects {
			if object.GetNamespace() != "elsewhere" || object.GetLabels()["app.kubernetes.io/managed-by"] != "kruise-operator" {
				t.Errorf("%s %s has namespace %q and labels %v", object.GetKind(), object.GetName(), object.GetNamespace(), object.GetLabels())
			}
			switch object.GetKind() {
			case "NetworkPolicy":
				ingress, _, _ := unstructured.NestedSlice(object.Object, "spec", "ingress")
				ports["NetworkPolicy"] = ingress[0].(map[string]any)["ports"]
			case "Service":
				ports["Service"], _, _ = unstructured.NestedSlice(object.Object, "spec", "ports")
			default:
				ports[object.GetKind()] = object.GetName()
			}
		}
	}
	if diff := cmp.Diff(map[string]any{
		"NetworkPolicy":  []any{map[string]any{"port": int64(9090)}},
		"Service":        []any{map[string]any{"name": "metrics", "port": int64(9090), "targetPort": int64(9090)}},
		"ServiceMonitor": "kruise-operator-metrics",
		"PodMonitor":     "kruise-daemon-metrics",
		"PrometheusRule": "kruise-operator-alerts",
	}, ports); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// An alert leads to advice, and uses existing metrics. The least of a queue's series never fires an alert: there
// is one for each priority, and mostly one is empty.
func TestTheAlertAboutQueuesAddsUpTheirPriorities(t *testing.T) {
	objects, err := Render("prometheus", Values{Namespace: "x", MetricsPort: 1})
	if err != nil {
		t.Fatal(err)
	}
	depth := regexp.MustCompile(`([a-z]+ by \([a-z, ]*\)) \(workqueue_depth`)
	found := 0
	for _, object := range objects {
		text, err := object.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		found += strings.Count(string(text), "workqueue_depth")
		for _, of := range depth.FindAllStringSubmatch(string(text), -1) {
			if of[1] == "sum by (name, instance)" {
				found--
			}
		}
	}
	if found != 0 {
		t.Errorf("%d times the depth of a queue is not that of all of its priorities", found)
	}
}

func TestEveryAlertHasARunbook(t *testing.T) {
	page, err := os.ReadFile("../../../docs/operations/alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := os.ReadFile("../../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := Render("prometheus", Values{Namespace: "x", MetricsPort: 1})
	if err != nil {
		t.Fatal(err)
	}
	own := regexp.MustCompile(`kruise_[a-z_]+`)
	sections, found := strings.Count(string(page), "\n## "), 0
	for _, object := range objects {
		if object.GetKind() != "PrometheusRule" {
			continue
		}
		found++
		groups, _, _ := unstructured.NestedSlice(object.Object, "spec", "groups")
		rules := groups[0].(map[string]any)["rules"].([]any)
		if len(rules) != sections {
			t.Errorf("%d alerts, and %d sections in docs/operations/alerts.md", len(rules), sections)
		}
		for _, rule := range rules {
			r := rule.(map[string]any)
			name := r["alert"].(string)
			if !strings.Contains(string(page), "\n## "+name+"\n") {
				t.Errorf("docs/operations/alerts.md has no section %s", name)
			}
			annotations := r["annotations"].(map[string]any)
			if url, _ := annotations["runbook_url"].(string); !strings.HasSuffix(url, "/docs/operations/alerts.md#"+strings.ToLower(name)) {
				t.Errorf("%s: the runbook is %q", name, url)
			}
			for _, field := range []any{annotations["summary"], annotations["description"], r["labels"].(map[string]any)["severity"]} {
				if text, _ := field.(string); text == "" {
					t.Errorf("%s lacks a summary, a description or a severity", name)
				}
			}
			for _, metric := range own.FindAllString(r["expr"].(string), -1) {
				if !strings.Contains(string(metrics), "`"+metric+"`") {
					t.Errorf("%s: docs/reference/metrics.md does not know %s", name, metric)
				}
			}
		}
	}
	if found != 1 {
		t.Errorf("%d PrometheusRules are rendered, want 1", found)
	}
}

func TestPortOf(t *testing.T) {
	for address, want := range map[string]int{"0": 0, ":8080": 8080, "127.0.0.1:9": 9, "[::1]:443": 443, "x": -1, ":y": -1} {
		port, err := PortOf(address)
		if (err != nil) != (want < 0) || (err == nil && port != want) {
			t.Errorf("%q: %d, %v", address, port, err)
		}
	}
}
