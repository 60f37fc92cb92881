// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package simnode

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
)

// node is one simulated node.
type node struct {
	name string
	ip   string
	uid  types.UID

	mu   sync.RWMutex
	down bool
	// renewed is when the lease was renewed last.
	renewed atomic.Pointer[time.Time]
	// renewing: a renewal is under way.
	renewing atomic.Bool
}

func (n *Nodes) node(name string) *node {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.nodes[name]
}

func (n *Nodes) addInitial(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(n.options.Workers)
	for i := range max(n.options.Nodes, 0) {
		labels := map[string]string{
			corev1.LabelTopologyRegion: "sim",
			corev1.LabelTopologyZone:   "zone-" + string(rune('a'+i%3)),
		}
		maps.Copy(labels, n.options.NodeLabels(i))
		group.Go(func() error { return n.Add(ctx, n.options.NodeName(i), labels) })
	}
	return group.Wait()
}

// Add makes one more node, or takes over an existing one with the pods on it, and returns when it is Ready. The labels
// come on top of hostname, OS, architecture and NodeLabel. A new node has the taints from the first moment.
func (n *Nodes) Add(ctx context.Context, name string, labels map[string]string, taints ...corev1.Taint) error {
	object := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64", NodeLabel: "true",
		}},
		Spec: corev1.NodeSpec{Taints: taints},
	}
	maps.Copy(object.Labels, labels)

	created, err := n.client.CoreV1().Nodes().Create(ctx, object, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		created, err = n.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	}
	if err != nil {
		return fmt.Errorf("creating node %s: %w", name, err)
	}
	ip := ""
	for _, address := range created.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			ip = address.Address
			n.nodeIPs.claim(ip)
		}
	}
	if ip == "" {
		if ip, err = n.nodeIPs.take(); err != nil {
			return fmt.Errorf("finding an address for node %s: %w", name, err)
		}
	}
	added := &node{name: name, ip: ip, uid: created.UID}
	if err := n.renewLease(ctx, added); err != nil {
		return err
	}
	if err := n.patchNodeStatus(ctx, added, n.nodeStatus(added, created)); err != nil {
		return err
	}
	if err := n.removeStartTaint(ctx, name); err != nil {
		return err
	}
	n.mu.Lock()
	n.nodes[name] = added
	n.mu.Unlock()
	n.resync(name)
	return nil
}

// Remove takes a node away for good: it falls silent and its object is deleted. The
// cluster's controllers deal with its pods.
func (n *Nodes) Remove(ctx context.Context, name string) error {
	gone := n.node(name)
	if gone == nil {
		return fmt.Errorf("removing node %s: %w", name, errUnknownNode)
	}
	gone.mu.Lock() // waits for what its kubelet is doing
	gone.down = true
	gone.mu.Unlock()
	n.mu.Lock()
	delete(n.nodes, name)
	n.mu.Unlock()
	if err := n.client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("removing node %s: %w", name, err)
	}
	return nil
}

// SetDown makes a node fall silent, or brings it back. A silent node renews no lease and its pods stay as they are,
// deleted ones too.
//
// The node controller would notice after its grace period, most of a minute. SetDown does its part at once instead: the
// conditions of the node become Unknown and its pods not Ready. Taints and evictions stay with the node controller.
func (n *Nodes) SetDown(ctx context.Context, name string, down bool) error {
	target := n.node(name)
	if target == nil {
		return fmt.Errorf("setting node %s down: %w", name, errUnknownNode)
	}
	target.mu.Lock()
	target.down = down
	target.mu.Unlock()
	if !down {
		if err := n.renewLease(ctx, target); err != nil {
			return err
		}
		if err := n.patchNodeStatus(ctx, target, corev1.NodeStatus{Conditions: healthy()}); err != nil {
			return err
		}
		n.resync(name)
		return nil
	}

	if err := n.patchNodeStatus(ctx, target, corev1.NodeStatus{Conditions: silent()}); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(n.options.Workers)
	for _, pod := range n.podsOn(name) {
		group.Go(func() error { return n.markNotReady(ctx, pod) })
	}
	return group.Wait()
}

// markNotReady acts as the node controller on a silent node's pods.
func (n *Nodes) markNotReady(ctx context.Context, pod *corev1.Pod) error {
	is := findCondition(pod.Status.Conditions, corev1.PodReady)
	if is == nil || is.Status != corev1.ConditionTrue {
		return nil
	}
	patch := podPatch{}
	patch.Metadata.UID = pod.UID
	now := seconds(time.Now())
	patch.Status.Conditions = []conditionPatch{{
		Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: &now, ObservedGeneration: is.ObservedGeneration,
	}}
	data, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("encoding a condition: %w", err)
	}
	_, err = n.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, "status")
	if err != nil && !gone(err) {
		return fmt.Errorf("marking pod %s/%s not ready: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

func (n *Nodes) podsOn(name string) []*corev1.Pod {
	if n.pods == nil {
		return nil
	}
	var out []*corev1.Pod
	for _, obj := range n.pods.GetStore().List() {
		if pod, ok := obj.(*corev1.Pod); ok && pod.Spec.NodeName == name {
			out = append(out, pod)
		}
	}
	return out
}

// resync looks at all pods of a node again.
func (n *Nodes) resync(name string) {
	for _, pod := range n.podsOn(name) {
		n.queue.Add(cache.MetaObjectToName(pod))
	}
}

func (n *Nodes) nodeStatus(of *node, object *corev1.Node) corev1.NodeStatus {
	return corev1.NodeStatus{
		Capacity:    n.options.Capacity,
		Allocatable: n.options.Capacity,
		Conditions:  healthy(),
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: of.ip}, {Type: corev1.NodeHostName, Address: of.name},
		},
		NodeInfo: corev1.NodeSystemInfo{
			KubeletVersion:          n.options.KubeletVersion,
			ContainerRuntimeVersion: "containerd://2.0.0",
			OperatingSystem:         object.Labels[corev1.LabelOSStable],
			Architecture:            object.Labels[corev1.LabelArchStable],
			KernelVersion:           "6.0.0-simulated",
			OSImage:                 "simulated",
			MachineID:               digest(of.name)[:32],
			SystemUUID:              digest(of.name)[32:],
			BootID:                  string(of.uid),
		},
	}
}

func healthy() []corev1.NodeCondition {
	return []corev1.NodeCondition{
		nodeCondition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
		nodeCondition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
		nodeCondition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
		nodeCondition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status"),
	}
}

func silent() []corev1.NodeCondition {
	var out []corev1.NodeCondition
	for _, c := range healthy() {
		out = append(out, nodeCondition(c.Type, corev1.ConditionUnknown, "NodeStatusUnknown", "Kubelet stopped posting node status."))
	}
	return out
}

func nodeCondition(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason, message string) corev1.NodeCondition {
	now := seconds(time.Now())
	return corev1.NodeCondition{
		Type: kind, Status: status, Reason: reason, Message: message, LastHeartbeatTime: now, LastTransitionTime: now,
	}
}

func (n *Nodes) patchNodeStatus(ctx context.Context, of *node, status corev1.NodeStatus) error {
	data, err := json.Marshal(map[string]any{"status": pruned(status)})
	if err != nil {
		return fmt.Errorf("encoding the status of node %s: %w", of.name, err)
	}
	_, err = n.client.CoreV1().Nodes().Patch(ctx, of.name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("writing the status of node %s: %w", of.name, err)
	}
	return nil
}

// pruned omits unset fields: some of a node's status are encoded even when empty, and would
// overwrite.
func pruned(status corev1.NodeStatus) map[string]any {
	out := map[string]any{"conditions": status.Conditions}
	if len(status.Addresses) > 0 {
		out["addresses"], out["nodeInfo"] = status.Addresses, status.NodeInfo
		out["capacity"], out["allocatable"] = status.Capacity, status.Allocatable
	}
	return out
}

// removeStartTaint removes admission's taint of new nodes. The node controller would, too,
// but a cluster may have none.
func (n *Nodes) removeStartTaint(ctx context.Context, name string) error {
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		object, err := n.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		taints := slices.DeleteFunc(slices.Clone(object.Spec.Taints), func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeNotReady })
		if len(taints) == len(object.Spec.Taints) {
			return true, nil
		}
		object.Spec.Taints = taints
		_, err = n.client.CoreV1().Nodes().Update(ctx, object, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return fmt.Errorf("removing the start taint of node %s: %w", name, err)
	}
	return nil
}

// heartbeats renews the leases of all living nodes, four times in a lease. Each node has
// its own time, like kubelets, and none waits for another.
func (n *Nodes) heartbeats(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		for _, target := range n.due() {
			n.work.Go(func() {
				defer target.renewing.Store(false)
				if err := n.renewUnlessDown(ctx, target); err != nil && ctx.Err() == nil {
					n.options.Log.Error(err, "cannot send a heartbeat", "Node", target.name)
				}
			})
		}
	}, n.options.LeaseDuration/80)
}

// due returns the nodes due for renewal, without one under way.
func (n *Nodes) due() (out []*node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, of := range n.nodes {
		if renewed := of.renewed.Load(); (renewed == nil || time.Since(*renewed) >= n.options.LeaseDuration/4) && of.renewing.CompareAndSwap(false, true) {
			out = append(out, of)
		}
	}
	return out
}

// renewUnlessDown renews a living node's lease. If it ran out, the node controller may have
// marked the node not ready, and it reports its status again, like a kubelet.
func (n *Nodes) renewUnlessDown(ctx context.Context, target *node) error {
	target.mu.RLock()
	defer target.mu.RUnlock()
	if target.down {
		return nil
	}
	before := target.renewed.Load()
	if err := n.renewLease(ctx, target); err != nil {
		return err
	}
	if before == nil || time.Since(*before) < n.options.LeaseDuration {
		return nil
	}
	return n.patchNodeStatus(ctx, target, corev1.NodeStatus{Conditions: healthy()})
}

// renewLease renews the lease of a node, or creates it. The namespace of leases appears a moment after a new API server.
func (n *Nodes) renewLease(ctx context.Context, of *node) error {
	leases := n.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	now := metav1.NewMicroTime(time.Now())
	renewal := []byte(fmt.Sprintf(`{"spec":{"renewTime":%q}}`, now.UTC().Format(metav1.RFC3339Micro)))
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: of.name, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Node", Name: of.name, UID: of.uid},
		}},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &of.name, LeaseDurationSeconds: new(int32(n.options.LeaseDuration / time.Second)), RenewTime: &now,
		},
	}
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		_, err := leases.Patch(ctx, of.name, types.MergePatchType, renewal, metav1.PatchOptions{})
		if apierrors.IsNotFound(err) {
			_, err = leases.Create(ctx, lease, metav1.CreateOptions{})
		}
		if apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return fmt.Errorf("renewing the lease of node %s: %w", of.name, err)
	}
	of.renewed.Store(&now.Time)
	return nil
}
