// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"maps"
	"slices"
	"strings"

	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/tree"
)

// longestService is the length of a name of a Service.
const longestService = 63

// Labels by which a Service chooses the pods of one version.
const (
	// HashLabel is on pods of Deployments, CloneSets and Advanced DaemonSets.
	HashLabel = "pod-template-hash"
	// RevisionLabel is on those of StatefulSets and DaemonSets.
	RevisionLabel = "controller-revision-hash"
)

// CanaryName is the name of the Service of the new version.
func CanaryName(stable string) string {
	return rollable.Shortened(stable+"-canary", longestService)
}

// Pods are those of the new version, as a Service chooses them.
type Pods struct {
	// Label and Hash are those of the version.
	Label, Hash string
	// Patched are labels that only pods of the new version have: they replace those in the selector.
	Patched map[string]string
	// Append also adds those that are not in the selector.
	Append bool
}

// CanaryService is the Service of the new version, made from that of the user.
func CanaryService(stable map[string]any, names Names, pods Pods) (map[string]any, error) {
	selector := tree.Texts(stable, "spec", "selector")
	switch {
	case tree.Text(stable, "spec", "type") == "ExternalName":
		return nil, Refuse("the Service %s has the type ExternalName, so it has no pods", names.Stable)
	case len(selector) == 0:
		return nil, Refuse("the Service %s has no selector, so its pods cannot be told apart", names.Stable)
	}
	delete(selector, pods.Label) // it may be pinned
	for key, value := range pods.Patched {
		if _, has := selector[key]; has || pods.Append {
			selector[key] = value
		}
	}
	selector[pods.Label] = pods.Hash
	spec := tree.Clone(tree.Map(stable, "spec"))
	for _, key := range []string{
		"clusterIPs", "ipFamilies", "externalIPs", "loadBalancerIP", "loadBalancerClass", "loadBalancerSourceRanges", "allocateLoadBalancerNodePorts", "healthCheckNodePort",
	} {
		delete(spec, key)
	}
	if spec["clusterIP"] != "None" {
		delete(spec, "clusterIP")
	}
	if spec["type"] == "LoadBalancer" {
		spec["type"] = "NodePort" // no second load balancer
	}
	for _, port := range tree.Items(spec, "ports") {
		delete(port, "nodePort")
	}
	spec["selector"] = tree.FromTexts(selector)
	metadata := map[string]any{"name": names.Canary}
	CopyMetadata(metadata, stable)
	annotations := tree.Texts(metadata, "annotations")
	maps.DeleteFunc(annotations, func(key, _ string) bool { return strings.HasPrefix(key, "external-dns.alpha.kubernetes.io/") }) // no second record
	tree.Set(metadata, tree.FromTexts(annotations), "annotations")
	return map[string]any{"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}, nil
}

// AlignService changes the pods and ports of a Service of the operator to what they should be.
func AlignService(stored, want map[string]any) map[string]any {
	after := tree.Clone(stored)
	after["spec"].(map[string]any)["selector"] = tree.Map(want, "spec", "selector")
	same := func(a, b map[string]any) bool {
		a = tree.Clone(a)
		delete(a, "nodePort")
		return tree.Same(a, b)
	}
	if !slices.EqualFunc(tree.Items(stored, "spec", "ports"), tree.Items(want, "spec", "ports"), same) {
		tree.Set(after, tree.List(tree.Items(want, "spec", "ports")), "spec", "ports")
	}
	return tree.Patch(stored, after)
}

// Pinned is the version that a Service is pinned to; empty: it is not.
func Pinned(service map[string]any, label string) string {
	return tree.Text(service, "spec", "selector", label)
}

// Pin lets a Service have the pods of one version only; an empty hash lets it have all again. Nothing else of its selector changes.
func Pin(service map[string]any, label, hash string) map[string]any {
	if len(tree.Texts(service, "spec", "selector")) == 0 {
		return nil // it has no pods to choose from
	}
	after := tree.Clone(service)
	if hash == "" {
		delete(tree.Map(after, "spec", "selector"), label)
	} else {
		tree.Set(after, hash, "spec", "selector", label)
	}
	return tree.Patch(service, after)
}

// Owned says whether an object belongs to the Rollout with this UID. Others of the same name are left alone.
func Owned(object map[string]any, uid string) bool {
	return slices.ContainsFunc(tree.Items(object, "metadata", "ownerReferences"), func(ref map[string]any) bool {
		return ref["controller"] == true && tree.Text(ref, "uid") == uid
	})
}
