// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/tests/framework/faultproxy"
)

// Requests to nodes are in no namespace, and last as long as the nodes.
const (
	nodeImages    = "nodeimages.apps.kruise.io"
	nodePodProbes = "nodepodprobes.apps.kruise.io"
)

func ofNodes() []string { return []string{nodeImages, nodePodProbes} }

// kindsOf are the resources in a scenario's state.
func kindsOf() map[string]schema.GroupVersionKind {
	ours := func(kind string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1beta1", Kind: kind}
	}
	return map[string]schema.GroupVersionKind{
		"pods":                                     {Version: "v1", Kind: "Pod"},
		"persistentvolumeclaims":                   {Version: "v1", Kind: "PersistentVolumeClaim"},
		"controllerrevisions.apps":                 {Group: "apps", Version: "v1", Kind: "ControllerRevision"},
		"deployments.apps":                         {Group: "apps", Version: "v1", Kind: "Deployment"},
		"statefulsets.apps":                        {Group: "apps", Version: "v1", Kind: "StatefulSet"},
		"jobs.batch":                               {Group: "batch", Version: "v1", Kind: "Job"},
		"advancedcronjobs.apps.kruise.io":          ours("AdvancedCronJob"),
		"broadcastjobs.apps.kruise.io":             ours("BroadcastJob"),
		"clonesets.apps.kruise.io":                 ours("CloneSet"),
		"daemonsets.apps.kruise.io":                ours("DaemonSet"),
		"ephemeraljobs.apps.kruise.io":             ours("EphemeralJob"),
		nodeImages:                                 ours("NodeImage"),
		nodePodProbes:                              {Group: "apps.kruise.io", Version: "v1alpha1", Kind: "NodePodProbe"},
		"podprobemarkers.apps.kruise.io":           {Group: "apps.kruise.io", Version: "v1alpha1", Kind: "PodProbeMarker"},
		"containerrecreaterequests.apps.kruise.io": ours("ContainerRecreateRequest"),
		"imagelistpulljobs.apps.kruise.io":         ours("ImageListPullJob"),
		"imagepulljobs.apps.kruise.io":             ours("ImagePullJob"),
		"persistentpodstates.apps.kruise.io":       ours("PersistentPodState"),
		"batchreleases.rollouts.kruise.io":         {Group: "rollouts.kruise.io", Version: "v1beta1", Kind: "BatchRelease"},
		"resourcedistributions.apps.kruise.io":     ours("ResourceDistribution"),
		"rollouts.rollouts.kruise.io":              {Group: "rollouts.kruise.io", Version: "v1beta1", Kind: "Rollout"},
		"trafficroutings.rollouts.kruise.io":       {Group: "rollouts.kruise.io", Version: "v1alpha1", Kind: "TrafficRouting"},
		"ingresses.networking.k8s.io":              {Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"},
		"podunavailablebudgets.policy.kruise.io":   {Group: "policy.kruise.io", Version: "v1beta1", Kind: "PodUnavailableBudget"},
		"sidecarsets.apps.kruise.io":               ours("SidecarSet"),
		"statefulsets.apps.kruise.io":              ours("StatefulSet"),
		"uniteddeployments.apps.kruise.io":         ours("UnitedDeployment"),
		"workloadspreads.apps.kruise.io":           ours("WorkloadSpread"),
	}
}

func kindOf(resource string) (schema.GroupVersionKind, bool) {
	kind, found := kindsOf()[resource]
	return kind, found
}

func resources() []string {
	var all []string
	for resource := range kindsOf() {
		all = append(all, resource)
	}
	slices.Sort(all)
	return all
}

// within are the options for the lane's objects of a resource.
func within(w *World, resource string) []any {
	if resource == "sidecarsets.apps.kruise.io" || resource == "resourcedistributions.apps.kruise.io" { // they are in no namespace
		return []any{client.MatchingLabels{faultproxy.LaneLabel: w.Name}}
	}
	switch resource {
	case nodeImages: // nor are these, which have the labels of their nodes
		return []any{client.MatchingLabels{"chaos": w.Lane.Name}}
	case nodePodProbes: // which have none
		return []any{client.MatchingFields{"metadata.name": faultproxy.OwnNode(w.Name)}}
	}
	return []any{client.InNamespace(w.Name)}
}

// list reads the namespace's objects of a resource.
func list(ctx context.Context, w *World, resource string) ([]unstructured.Unstructured, error) {
	kind, _ := kindOf(resource)
	kind.Kind += "List"
	objects := &unstructured.UnstructuredList{}
	objects.SetGroupVersionKind(kind)
	var options []client.ListOption
	for _, option := range within(w, resource) {
		if o, is := option.(client.ListOption); is {
			options = append(options, o)
		}
	}
	if err := w.Client.List(ctx, objects, options...); err != nil {
		return nil, fmt.Errorf("listing %s: %w", resource, err)
	}
	return objects.Items, nil
}

// stateOf is the part of the namespace that must end the same in each run, as text.
func stateOf(ctx context.Context, w *World, s Scenario, lenient bool) (string, error) {
	var names, lines []string
	for _, resource := range resources() {
		all, err := list(ctx, w, resource)
		if err != nil {
			return "", err
		}
		for i := range all {
			o := all[i].Object
			if resource == "pods" && s.RandomNames {
				names = append(names, all[i].GetName())
			}
			line, err := json.Marshal(essence(resource, o, lenient))
			if err != nil {
				return "", fmt.Errorf("encoding %s %s: %w", resource, all[i].GetName(), err)
			}
			lines = append(lines, resource+" "+string(line))
		}
	}
	text := strings.Join(lines, "\n")
	for _, name := range names {
		text = strings.ReplaceAll(text, name, "POD")
		if at := strings.LastIndex(name, "-"); at >= 0 {
			text = strings.ReplaceAll(text, `"`+name[at+1:]+`"`, `"ID"`)
		}
	}
	text = strings.ReplaceAll(text, w.Name, "NAMESPACE")
	if s.AnyRound {
		text = regexp.MustCompile(`,"version":\d+`).ReplaceAllString(text, "") // the first one is left out
	}
	for _, c := range changing() {
		text = c.pattern.ReplaceAllString(text, c.with)
	}
	return sorted(text), nil
}

func sorted(text string) string {
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

type change struct {
	pattern *regexp.Regexp
	with    string
}

// changing are the differences of any two runs.
func changing() []change {
	return []change{
		{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "TIME"},
		{regexp.MustCompile(`applied-hash":"[0-9a-f]+"`), `applied-hash":"HASH"`}, // of the owner's UID, too
		{regexp.MustCompile(`tick-\d+`), "RUN"},
		{regexp.MustCompile(`warm-[0-9a-f]{10}`), "JOB"},                                                                             // a digest of the UID of the list, too
		{regexp.MustCompile(`"ttlSecondsAfterFinished":\d{4,}`), `"ttlSecondsAfterFinished":"SPREAD"`},                               // of a tag, by the UID of its job
		{regexp.MustCompile(`\\"generation\\":\d+`), `\"generation\":N`},                                                             // in an annotation: of two owners, either may update the pod first
		{regexp.MustCompile(`\\"lastContainerStatuses\\":\{\\"(agent[^"\\]*)\\":\{[^}]*\}`), `\"lastContainerStatuses\":{\"$1\":{}`}, // empty when it had not started yet
		{regexp.MustCompile(`("version(?:alt)?\.sidecarset\.kruise\.io/[^"]+":)"\d{2,}"`), `$1"VERSION"`},                            // of the set when the pod was upgraded
		{regexp.MustCompile(`("rollouts.kruise.io/control-sequence":)"\d+"`), `$1"N"`},                                               // the number of writes to the workload
		{regexp.MustCompile(`"observedWorkloadGeneration":\d+`), `"observedWorkloadGeneration":N`},                                   // the same
		{regexp.MustCompile(`"IP":"[0-9a-f.:]+"`), `"IP":"IP"`},
		{regexp.MustCompile(`containerd://[0-9a-f]+`), "CONTAINER"},
		{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UID"},
	}
}

// withoutHistory omits a pod's history: a deleted one's replacement has another past.
func withoutHistory(pod map[string]any) {
	delete(pod, "restarts")
	annotations, _ := pod["annotations"].(map[string]any)
	kept := map[string]any{}
	for key, value := range annotations {
		if !slices.Contains([]string{"apps.kruise.io/inplace-update-state", "operator.kruise.io/inplace-evidence"}, key) {
			kept[key] = value
		}
	}
	pod["annotations"] = kept
}

// essence is the part of an object that must be the same.
func essence(resource string, object map[string]any, lenient bool) map[string]any {
	get := func(path ...string) any {
		value, _, _ := unstructured.NestedFieldNoCopy(object, path...)
		return value
	}
	e := map[string]any{
		"name": get("metadata", "name"), "labels": get("metadata", "labels"), "annotations": get("metadata", "annotations"),
		"finalizers": get("metadata", "finalizers"), "deleted": get("metadata", "deletionTimestamp") != nil,
	}
	switch resource {
	case "pods":
		e["labels"] = withoutTopology(get("metadata", "labels"))
		e["phase"] = get("status", "phase")
		e["conditions"] = conditions(get("status", "conditions"))
		e["images"], e["gates"] = each(get("spec", "containers"), "image"), get("spec", "readinessGates")
		e["ephemeral"] = each(get("spec", "ephemeralContainers"), "name")
		e["restarts"] = each(get("status", "containerStatuses"), "restartCount")
		if lenient {
			withoutHistory(e)
		}
	case "controllerrevisions.apps":
		e["revision"] = get("revision")
	case "persistentvolumeclaims":
		delete(e, "annotations") // they name a node, which is up to the scheduler
		e["resources"] = get("spec", "resources")
	default:
		e["spec"], e["status"] = get("spec"), withoutTimes(get("status"))
		released := get("metadata", "annotations", "rollouts.kruise.io/control-sequence") != nil
		if status, is := e["status"].(map[string]any); is && (released || get("metadata", "ownerReferences") != nil) {
			delete(status, "observedGeneration") // how many steps the operator took to change it is up to the order of events
		}
	}
	return e
}

// withoutTopology omits labels of the pod's node.
func withoutTopology(of any) map[string]any {
	labels, _ := of.(map[string]any)
	kept := map[string]any{}
	for key, value := range labels {
		if !strings.HasPrefix(key, "topology.kubernetes.io/") {
			kept[key] = value
		}
	}
	return kept
}

// conditions are types, statuses and reasons.
func conditions(of any) []string {
	var all []string
	list, _ := of.([]any)
	for _, item := range list {
		if c, is := item.(map[string]any); is {
			all = append(all, fmt.Sprint(c["type"], "=", c["status"], " ", c["reason"]))
		}
	}
	slices.Sort(all)
	return all
}

// each is one field of all items of a list.
func each(of any, field string) []any {
	all := []any{}
	list, _ := of.([]any)
	for _, item := range list {
		if m, is := item.(map[string]any); is {
			all = append(all, m[field])
		}
	}
	return all
}

// withoutTimes omits times and versions of objects.
func withoutTimes(value any) any {
	switch v := value.(type) {
	case map[string]any:
		kept := map[string]any{}
		for key, field := range v {
			if !strings.HasSuffix(key, "Time") && key != "resourceVersion" && key != "finished" { // the last one is of UIDs
				kept[key] = withoutTimes(field)
			}
		}
		return kept
	case []any:
		kept := make([]any, len(v))
		for i := range v {
			kept[i] = withoutTimes(v[i])
		}
		return kept
	}
	return value
}

// difference tells two states apart: changed lines about a resource, and missing or surplus
// ones.
func difference(want, got string) string {
	var out []string
	wanted, have := strings.Split(want, "\n"), strings.Split(got, "\n")
	missing := slices.DeleteFunc(slices.Clone(wanted), func(line string) bool { return slices.Contains(have, line) })
	surplus := slices.DeleteFunc(have, func(line string) bool { return slices.Contains(wanted, line) })
	for _, line := range missing {
		resource, object, _ := strings.Cut(line, " ")
		at := slices.IndexFunc(surplus, func(other string) bool { return strings.HasPrefix(other, resource+" ") })
		if at < 0 {
			out = append(out, "want "+line)
			continue
		}
		_, other, _ := strings.Cut(surplus[at], " ")
		out = append(out, resource+", wanted with -, what there is with +:\n"+cmp.Diff(decoded(object), decoded(other)))
		surplus = slices.Delete(surplus, at, at+1)
	}
	for _, line := range surplus {
		out = append(out, "got  "+line)
	}
	return strings.Join(out, "\n")
}

// decoded is a value in JSON, or the text itself.
func decoded(text string) any {
	var value any
	if json.Unmarshal([]byte(text), &value) != nil {
		return text
	}
	return value
}
