// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package rollable is the table of workloads that a Rollout can release.
package rollable

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Workload is a kind of workload.
type Workload struct {
	// Kind is its kind in the version that the operator reads.
	Kind schema.GroupVersionKind
	// Type is the value of the label workload-type.
	Type string
	// Native: Kubernetes runs it, and it goes on without us.
	Native bool
	// Sized: its size is spec.replicas; otherwise that of its status.
	Sized bool
	// Beside: a release can add new pods to all old ones.
	Beside bool
	// Extra: a release can put new pods into a Deployment beside it.
	Extra bool
	// Partition is where its spec says how many pods, or which ordinals, stay at the version before. Nil: nowhere.
	Partition []string
	// KeepsOne: a percentage below 100 leaves at least one pod at the version before.
	KeepsOne bool
}

// All are the kinds of workloads. Another one is a row here, and a file where its pods are moved.
func All() []Workload {
	partition := []string{"updateStrategy", "rollingUpdate", "partition"}
	apps, own := schema.GroupVersion{Group: "apps", Version: "v1"}, schema.GroupVersion{Group: "apps.kruise.io", Version: "v1beta1"}
	return []Workload{
		{Kind: apps.WithKind("Deployment"), Type: "deployment", Native: true, Sized: true, Extra: true, Beside: true, KeepsOne: true},
		{Kind: apps.WithKind("StatefulSet"), Type: "statefulset", Native: true, Sized: true, Partition: partition},
		{Kind: apps.WithKind("DaemonSet"), Type: "daemonset", Native: true},
		{Kind: own.WithKind("CloneSet"), Type: "cloneset", Sized: true, Beside: true, Partition: partition},
		{Kind: own.WithKind("StatefulSet"), Type: "statefulset", Sized: true, Partition: partition},
		{Kind: own.WithKind("DaemonSet"), Type: "daemonset", Partition: partition},
	}
}

// Of is the workload of an API version and a kind. Versions of a group are the same.
func Of(apiVersion, kind string) (Workload, bool) {
	version, err := schema.ParseGroupVersion(apiVersion)
	for _, w := range All() {
		if err == nil && w.Kind.GroupKind() == version.WithKind(kind).GroupKind() {
			return w, true
		}
	}
	return Workload{}, false
}

// Names are the kinds in words.
func Names() string {
	var names []string
	for _, w := range All() {
		names = append(names, w.Kind.Kind+" of "+w.Kind.Group)
	}
	return strings.Join(names, ", ")
}

// Limit is how many of so many pods may be new by a step, which is a number or a percentage, rounded up.
func (w Workload) Limit(step intstr.IntOrString, replicas int) int {
	value, percent, err := Size(step)
	switch {
	case err != nil || replicas <= 0:
		return 0
	case !percent:
		return min(value, replicas)
	}
	limit := (value*replicas + 99) / 100
	if w.KeepsOne && value < 100 && replicas > 1 {
		limit = min(limit, replicas-1)
	}
	return min(limit, replicas)
}

// Size reads the replicas of a step.
func Size(step intstr.IntOrString) (value int, percent bool, err error) {
	if step.Type == intstr.Int {
		value = step.IntValue()
	} else {
		digits, found := strings.CutSuffix(step.StrVal, "%")
		value, err = strconv.Atoi(digits)
		if err != nil || !found || strings.HasPrefix(digits, "+") {
			return 0, true, fmt.Errorf("must be a number, or a percentage such as 20%%")
		}
		percent = true
	}
	switch {
	case value <= 0:
		return 0, percent, fmt.Errorf("must be above 0")
	case percent && value > 100:
		return 0, percent, fmt.Errorf("must be at most 100%%")
	}
	return value, percent, nil
}

// Digest stands for a text, in at most 13 letters and digits.
func Digest(text []byte) string {
	sum := fnv.New64a()
	_, _ = sum.Write(text)
	return strconv.FormatUint(sum.Sum64(), 36)
}

// Shortened keeps the begin of a name that is too long, and a digest of all of it.
func Shortened(name string, longest int) string {
	if len(name) <= longest {
		return name
	}
	end := "-" + Digest([]byte(name))
	return strings.TrimRight(name[:longest-len(end)], "-./") + end
}
