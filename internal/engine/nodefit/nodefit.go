// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package nodefit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// Pod is the part of a pod template about nodes. The zero value fits every node without taints.
type Pod struct {
	nodeName    string
	affinity    nodeaffinity.RequiredNodeAffinity
	tolerations []corev1.Toleration
}

// Compile reads a pod template, with added tolerations. It keeps parts of spec, which must not
// change afterwards.
//
// An unreadable node affinity matches no node, as everywhere in Kubernetes.
func Compile(spec *corev1.PodSpec, added ...corev1.Toleration) Pod {
	return Pod{
		nodeName:    spec.NodeName,
		affinity:    nodeaffinity.NewRequiredNodeAffinity(spec.NodeSelector, spec.Affinity),
		tolerations: Tolerations(spec.Tolerations, added...),
	}
}

// Result is about a pod on a node.
type Result struct {
	// ShouldRun: the node should have the pod, so it is created.
	ShouldRun bool
	// ShouldContinueRunning: a present pod may stay. A taint NoSchedule keeps new pods away and
	// lets it stay.
	ShouldContinueRunning bool
	// Reason is the first rule against it; it completes "the node ...". Empty: none.
	Reason string
}

// Fit decides about one node. The first rule that holds:
//
//  1. The template names another node: the pod should neither run nor stay.
//  2. The node lacks something of nodeSelector or the required node affinity: neither.
//  3. The node has an untolerated taint NoSchedule or NoExecute: it should not run, and stays
//     unless one of these is NoExecute.
//  4. The node is cordoned, and its taint is not tolerated: it should not run, and stays. The
//     control plane adds that taint itself; this rule holds in the moment before.
//  5. Otherwise it should run.
func (p Pod) Fit(node *corev1.Node) Result {
	if p.nodeName != "" && p.nodeName != node.Name {
		return Result{Reason: "is not the one that spec.template.spec.nodeName names"}
	}
	if match, err := p.affinity.Match(node); !match || err != nil {
		return Result{Reason: "does not match nodeSelector and node affinity of the template"}
	}
	result := Result{ShouldRun: true, ShouldContinueRunning: true}
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		if taint.Effect != corev1.TaintEffectNoSchedule && taint.Effect != corev1.TaintEffectNoExecute || p.tolerates(taint) {
			continue
		}
		if result.ShouldRun {
			result.ShouldRun, result.Reason = false, "has taint "+taint.ToString()+", which the template does not tolerate"
		}
		if taint.Effect == corev1.TaintEffectNoExecute {
			result.ShouldContinueRunning = false
		}
	}
	if node.Spec.Unschedulable && result.ShouldRun && !p.tolerates(&corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}) {
		result.ShouldRun, result.Reason = false, "is cordoned"
	}
	return result
}

// tolerates is true if a toleration matches the taint. A server with the gate TaintTolerationComparisonOperators off stores
// none that compares numbers.
func (p Pod) tolerates(taint *corev1.Taint) bool {
	return scheduling.TolerationsTolerateTaint(klog.Logger{}, p.tolerations, taint, true) //nolint:forbidigo // it logs nothing
}

// DaemonTolerations are every daemon pod's: it stays on an unready or unreachable node, and runs on
// one under pressure or cordoned. One on the network of the host also runs where the network of
// pods does not work yet.
func DaemonTolerations(hostNetwork bool) []corev1.Toleration {
	exists := func(key string, effect corev1.TaintEffect) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect}
	}
	tolerations := []corev1.Toleration{
		exists(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute),
		exists(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute),
		exists(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule),
		exists(corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule),
		exists(corev1.TaintNodePIDPressure, corev1.TaintEffectNoSchedule),
		exists(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule),
	}
	if hostNetwork {
		tolerations = append(tolerations, exists(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule))
	}
	return tolerations
}

// Tolerations are a template's and the added ones. An added one replaces the same one with a
// limited time. The result shares nothing with of.
func Tolerations(of []corev1.Toleration, added ...corev1.Toleration) []corev1.Toleration {
	all := slices.Clone(of)
	for _, toleration := range added {
		same := slices.IndexFunc(all, func(t corev1.Toleration) bool { return t.MatchToleration(&toleration) })
		if same < 0 {
			all = append(all, toleration)
		} else {
			all[same] = toleration
		}
	}
	return all
}

// WhyNone says why no node fits: how many nodes there are for each of the most frequent reasons, three reasons at most. reasons has one entry for
// each node; it completes "the node ...".
func WhyNone(reasons []string) string {
	if len(reasons) == 0 {
		return "the cluster has no node."
	}
	const most = 3
	count := map[string]int{}
	for _, reason := range reasons {
		count[reason]++
	}
	sorted := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
	})
	var texts []string
	for _, reason := range sorted[:min(len(sorted), most)] {
		texts = append(texts, fmt.Sprintf("%d of %d because the node %s", count[reason], len(reasons), reason))
	}
	return strings.Join(texts, "; ") + "."
}
