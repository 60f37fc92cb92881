// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package simnode

import (
	"fmt"
	"maps"
	"net/netip"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// NodeLabel marks every simulated node, with the value "true".
const NodeLabel = AnnotationPrefix + "node"

// Options configure the simulation. The zero value is three large nodes in three zones,
// without delays.
type Options struct {
	// Nodes is how many nodes Start makes. Zero means 3; a negative number none, for
	// callers of Add.
	Nodes int
	// NodeName names node i, counted from 0. When nil, it is "sim-<i>".
	NodeName func(i int) string
	// NodeLabels adds labels to node i, or replaces the ones every node has: hostname, OS, architecture, NodeLabel,
	// region and zone ("zone-a", "zone-b", "zone-c" in turn).
	NodeLabels func(i int) map[string]string
	// Capacity of every node. Resources left out are cpu 256, memory 1Ti, ephemeral-storage 4Ti, pods 5000.
	Capacity corev1.ResourceList
	// KubeletVersion is the nodes' version; when empty, the API server's.
	KubeletVersion string
	// LeaseDuration without a heartbeat makes a node count as gone. Zero means 40 s;
	// heartbeats come four times as often.
	LeaseDuration time.Duration

	// Delays are for pods without annotations. Zero is at once.
	Delays Delays
	// BackOff is a failing container's first wait. It doubles with every failure up to
	// MaxBackOff. Zero means 1 s and 30 s.
	BackOff, MaxBackOff time.Duration
	// ImageID is the image ID of an image name. When nil, it is DefaultImageID.
	ImageID func(image string) string
	// PodCIDR is where pod addresses come from, each given to one pod at a time. When zero, it is 10.128.0.0/10. Several
	// Starts on one cluster do not know of each other's addresses.
	PodCIDR netip.Prefix
	// NodeCIDR is where node addresses come from. When zero, it is 172.24.0.0/14.
	NodeCIDR netip.Prefix

	// Workers is how many pods, and as many claims, are worked on at the same time. Zero means 32.
	Workers int

	// Provisioner makes volumes for claims of classes with the provisioner named
	// Provisioner. It needs a kube-controller-manager's persistent volume controller, which
	// asks for volumes and binds them.
	Provisioner bool
	// ProvisionDelay is from the creation of a claim until its volume exists, at the earliest.
	ProvisionDelay time.Duration
	// ExpandDelay is from a claim asking for more until its volume has it.
	ExpandDelay time.Duration
	// Log takes errors. When unset, they are dropped.
	Log logr.Logger
}

func (o Options) withDefaults() (Options, error) {
	o.Nodes = orDefault(o.Nodes, 3)
	if o.NodeName == nil {
		o.NodeName = func(i int) string { return fmt.Sprintf("sim-%d", i) }
	}
	if o.NodeLabels == nil {
		o.NodeLabels = func(int) map[string]string { return nil }
	}
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("256"),
		corev1.ResourceMemory:           resource.MustParse("1Ti"),
		corev1.ResourceEphemeralStorage: resource.MustParse("4Ti"),
		corev1.ResourcePods:             resource.MustParse("5000"),
	}
	maps.Copy(capacity, o.Capacity)
	o.Capacity = capacity
	o.LeaseDuration = orDefault(o.LeaseDuration, 40*time.Second)
	if o.LeaseDuration < time.Second {
		return o, fmt.Errorf("the lease duration %s is below one second", o.LeaseDuration)
	}
	o.BackOff = orDefault(o.BackOff, time.Second)
	o.MaxBackOff = max(o.BackOff, orDefault(o.MaxBackOff, 30*time.Second))
	if o.ImageID == nil {
		o.ImageID = DefaultImageID
	}
	if !o.PodCIDR.IsValid() {
		o.PodCIDR = netip.MustParsePrefix("10.128.0.0/10")
	}
	if !o.NodeCIDR.IsValid() {
		o.NodeCIDR = netip.MustParsePrefix("172.24.0.0/14")
	}
	o.Workers = orDefault(o.Workers, 32)
	if o.Log.GetSink() == nil {
		o.Log = logr.Discard()
	}
	return o, nil
}

func orDefault[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}
