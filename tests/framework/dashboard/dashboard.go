// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package dashboard writes the Grafana dashboard of the operator and the node daemon.
package dashboard

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// File is where the dashboard is, relative to the top of the repository.
const File = "config/grafana/kruise-operator.json"

// row is a heading and the panels below it, three in a line.
type row struct {
	title  string
	panels []panel
}

// panel is a graph; one with a legend for columns is a table of the current values.
type panel struct {
	title, about, unit string
	table              bool
	queries            []query
}

// query is an expression and how its series are named.
type query struct{ expr, legend string }

// ours selects the operator's own series of shared metrics.
const ours = `job="kruise-operator-metrics"`

// largest is the value of the best-informed replica: only the leader counts some metrics.
func largest(metric, by string) query {
	return query{fmt.Sprintf("max by (%[2]s) (%[1]s)", metric, by), legend(by)}
}

// perSecond adds up how fast counters grow.
func perSecond(metric, by string) query {
	return query{fmt.Sprintf("sum by (%[2]s) (rate(%[1]s[$__rate_interval]))", metric, by), legend(by)}
}

// quantile is within how many seconds this share of a histogram's cases was done.
func quantile(share float64, histogram, labels, by string) query {
	both := strings.Trim(by+", le", ", ")
	q := fmt.Sprintf("histogram_quantile(%g, sum by (%s) (rate(%s_bucket{%s}[$__rate_interval])))", share, both, histogram, labels)
	return query{q, strings.TrimSpace(fmt.Sprintf("%g%% %s", share*100, legend(by)))}
}

// legend names series by their labels.
func legend(by string) string {
	if by == "" {
		return ""
	}
	return "{{" + strings.ReplaceAll(by, ", ", "}} {{") + "}}"
}

// rows are the dashboard.
func rows() []row {
	return []row{
		{"Rollouts", []panel{
			{title: "Under way, by kind", queries: []query{largest(`sum by (kind, instance) (kruise_objects{state="Reconciling"})`, "kind")}},
			{title: "Stalled, by kind and reason", about: "Nothing moves until somebody changes something. docs/operations/troubleshooting.md explains the reasons.",
				table: true, queries: []query{largest(`kruise_objects{state="Stalled"}`, "kind, reason")}},
			{title: "What rollouts wait for", queries: []query{largest(`kruise_objects{state="Reconciling"}`, "kind, reason")}},
			{title: "Actions", unit: "ops", queries: []query{perSecond(`kruise_podset_actions_total{result="ok"}`, "kind, verb")}},
			{title: "Actions that were refused or are in doubt", unit: "ops",
				queries: []query{perSecond(`kruise_podset_actions_total{result=~"refused|doubt"}`, "kind, verb, result")}},
			{title: "Rollouts, by state", queries: []query{largest(`kruise_rollouts{state!="Rest"}`, "state")}},
			{title: "Releases that ended", unit: "ops", queries: []query{perSecond("kruise_rollout_releases_total{}", "result")}},
			{title: "Pods held out of service", queries: []query{largest("kruise_pods_held_not_ready{}", "holder")}},
		}},
		{"Sidecars", []panel{
			{title: "SidecarSets by what InjectionPath says", queries: []query{largest("kruise_sidecarset_injection{}", "status, reason")}},
			{title: "Pods of SidecarSets", queries: []query{largest("kruise_sidecarset_pods{}", "state")}},
			{title: "Stops by the sidecar terminator", unit: "ops", queries: []query{perSecond("kruise_sidecar_terminator_stops_total{}", "method, result")}},
		}},
		{"Budgets and copies", []panel{
			{title: "Denials by PodUnavailableBudgets", unit: "ops", queries: []query{perSecond("kruise_podunavailablebudget_denials_total{}", "operation")}},
			{title: "Copies of ResourceDistributions", queries: []query{largest("kruise_resourcedistribution_copies{}", "state")}},
		}},
		{"Images and restarts", []panel{
			{title: "Pulls on nodes", unit: "ops", queries: []query{perSecond("kruise_daemon_pulls_total{}", "result")}},
			{title: "Time of a pull", unit: "s", queries: []query{
				quantile(0.5, "kruise_daemon_pull_duration_seconds", "", ""), quantile(0.95, "kruise_daemon_pull_duration_seconds", "", "")}},
			{title: "Answers to ImagePullJobs", unit: "ops", queries: []query{perSecond("kruise_imagepulljob_nodes_total{}", "result")}},
			{title: "Nodes without a container runtime", queries: []query{{`sum by (runtime) (kruise_daemon_cri_up{} == bool 0)`, legend("runtime")}}},
			{title: "Ends of ContainerRecreateRequests", unit: "ops", queries: []query{perSecond("kruise_recreate_requests_total{}", "reason")}},
			{title: "Time of a ContainerRecreateRequest", unit: "s", queries: []query{quantile(0.95, "kruise_recreate_request_duration_seconds", "", "")}},
		}},
		{"Admission", []panel{
			{title: "Latency", unit: "s", queries: []query{quantile(0.99, "controller_runtime_webhook_latency_seconds", ours, "webhook")}},
			{title: "Requests", unit: "reqps", queries: []query{perSecond("controller_runtime_webhook_requests_total{"+ours+"}", "webhook, code")}},
		}},
		{"Controllers and API requests", []panel{
			{title: "Objects in the queue", queries: []query{largest("sum by (name, instance) (workqueue_depth{"+ours+"})", "name")}},
			{title: "Time in the queue", unit: "s", queries: []query{quantile(0.99, "workqueue_queue_duration_seconds", ours, "name")}},
			{title: "Time of a pass", unit: "s", queries: []query{quantile(0.99, "controller_runtime_reconcile_time_seconds", ours, "controller")}},
			{title: "Failed passes", unit: "ops", queries: []query{perSecond("controller_runtime_reconcile_errors_total{"+ours+"}", "controller")}},
			{title: "API requests", unit: "reqps", queries: []query{perSecond("rest_client_requests_total{"+ours+"}", "method, code")}},
			{title: "Passes that waited for the cache", unit: "ops", queries: []query{perSecond("kruise_podset_stale_views_total{}", "kind")}},
		}},
		{"Processes", []panel{
			{title: "Replicas", queries: []query{{"sum(up{" + ours + "})", "up"}, {"sum(kruise_manager_is_leader{})", "leads"}}},
			{title: "Memory", unit: "bytes", queries: []query{{"process_resident_memory_bytes{" + ours + "}", legend("pod")}}},
			{title: "CPU", unit: "short", queries: []query{perSecond("process_cpu_seconds_total{"+ours+"}", "pod")}},
		}},
	}
}

const (
	width, height = 8, 8
	perLine       = 3
)

// Render returns the dashboard in Grafana's format.
func Render() ([]byte, error) {
	var panels []map[string]any
	add := func(kind, title string, x, y, w, h int) map[string]any {
		made := map[string]any{"id": len(panels) + 1, "type": kind, "title": title, "gridPos": map[string]int{"x": x, "y": y, "w": w, "h": h}}
		panels = append(panels, made)
		return made
	}
	y := 0
	for _, r := range rows() {
		add("row", r.title, 0, y, width*perLine, 1)
		y++
		for i, p := range r.panels {
			p.fill(add(p.kind(), p.title, i%perLine*width, y+i/perLine*height, width, height))
		}
		y += (len(r.panels) + perLine - 1) / perLine * height
	}
	text, err := json.MarshalIndent(map[string]any{
		"uid": "kruise-operator", "title": "Kruise Operator", "tags": []string{"kruise"}, "schemaVersion": 39, "refresh": "30s", "timezone": "browser",
		"time":       map[string]string{"from": "now-3h", "to": "now"},
		"templating": map[string]any{"list": []any{map[string]any{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}}},
		"panels":     panels,
	}, "", "  ")
	return append(text, '\n'), err
}

func (p panel) kind() string {
	if p.table {
		return "table"
	}
	return "timeseries"
}

// fill adds a panel's content.
func (p panel) fill(to map[string]any) {
	source := map[string]string{"type": "prometheus", "uid": "${datasource}"}
	var targets []any
	for i, q := range p.queries {
		target := map[string]any{"refId": string(rune('A' + i)), "datasource": source, "expr": q.expr, "legendFormat": q.legend}
		if p.table {
			target["instant"], target["format"] = true, "table"
		}
		targets = append(targets, target)
	}
	to["datasource"], to["targets"], to["description"] = source, targets, p.about
	to["fieldConfig"] = map[string]any{"defaults": map[string]any{"unit": p.unit, "min": 0}, "overrides": []any{}}
	if p.table {
		hidden := map[string]bool{"Time": true}
		to["transformations"] = []any{map[string]any{"id": "organize", "options": map[string]any{"excludeByName": hidden, "renameByName": map[string]string{"Value": "objects"}}}}
	}
}

// Write writes the dashboard of the working copy at root.
func Write(root string) error {
	text, err := Render()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, File), text, 0o644)
}
