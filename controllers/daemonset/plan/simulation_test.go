// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset/podsettest"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
)

// simulation is a cluster with one set named agent. The pods of node n1 are agent-n1a, agent-n1b and so on in the order of creation.
type simulation struct {
	t   *testing.T
	set *appsv1beta1.DaemonSet
	o   Options
	*podsettest.Simulation
	revisions map[string]revision.Revision
	// born is how many pods were created for a node; minAvailable and maxPods what was ever seen at the end of a pass, maxSurging
	// how many nodes ran two pods.
	born                              map[string]int
	minAvailable, maxPods, maxSurging int
	// fault is what the server finds wrong with the template, unrecorded why it refuses to record one; then the first one stands in for it.
	fault, unrecorded string
}

// newSimulation is a cluster of nodes with a set that is up.
func newSimulation(t *testing.T, nodes []string, change ...func(*simulation)) *simulation {
	t.Helper()
	w := &simulation{
		t: t, Simulation: podsettest.NewSimulation(t, podsettest.Now()), revisions: map[string]revision.Revision{}, born: map[string]int{},
		set: &appsv1beta1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "agent", UID: "set-uid", Generation: 1},
			Spec: appsv1beta1.DaemonSetSpec{
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "agent"}},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "agent"}},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "agent:1"}}},
				},
				UpdateStrategy: appsv1beta1.DaemonSetUpdateStrategy{RollingUpdate: &appsv1beta1.RollingUpdateDaemonSet{}},
			},
		},
	}
	w.StartClock(podsettest.Now().Add(-12 * time.Hour))
	w.Cluster.Nodes = slices.Clone(nodes)
	for _, name := range nodes {
		w.Nodes = append(w.Nodes, podsettest.NewNode(name))
	}
	w.Snapshot = func() podset.Snapshot { return w.seen().Snapshot }
	w.Step = func(podset.Snapshot) planning.Plan { return w.plan() }
	w.Report = func(podset.Snapshot, planning.Plan) { w.report() }
	w.do(change...)
	w.rest()
	w.StartClock(w.Time)
	w.Begin()
	w.watch()
	return w
}

func nodeNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("n%d", i)
	}
	return names
}

func (w *simulation) do(change ...func(*simulation)) {
	for _, c := range change {
		c(w)
	}
}

// watch forgets what was seen so far.
func (w *simulation) watch() {
	w.maxPods, w.minAvailable, w.maxSurging = len(w.Pods), w.availableNodes(), 0
}

func (w *simulation) rolling() *appsv1beta1.RollingUpdateDaemonSet {
	return w.set.Spec.UpdateStrategy.RollingUpdate
}

func value(v any) *intstr.IntOrString {
	parsed := intstr.Parse(fmt.Sprint(v))
	return &parsed
}

func partition(v any) func(*simulation) {
	return func(w *simulation) { w.rolling().Partition = value(v) }
}
func maxUnavailable(v any) func(*simulation) {
	return func(w *simulation) { w.rolling().MaxUnavailable = value(v) }
}
func maxSurge(v any) func(*simulation) {
	return func(w *simulation) { w.rolling().MaxSurge = value(v) }
}
func burst(v any) func(*simulation) {
	return func(w *simulation) { w.set.Spec.BurstReplicas = value(v) }
}
func inPlace(w *simulation) { w.rolling().Type = appsv1beta1.InplaceRollingUpdateType }
func paused(is bool) func(*simulation) {
	return func(w *simulation) { w.rolling().Paused = &is }
}
func minReady(n int32) func(*simulation) {
	return func(w *simulation) { w.set.Spec.MinReadySeconds, w.Cluster.Clock = n, true }
}
func onDelete(w *simulation) {
	w.set.Spec.UpdateStrategy = appsv1beta1.DaemonSetUpdateStrategy{Type: appsv1beta1.OnDeleteDaemonSetStrategyType}
}
func partitionedScaling(w *simulation) {
	w.set.Spec.ScaleStrategy = &appsv1beta1.DaemonSetScaleStrategy{PartitionedScaling: true}
}
func updateSelector(labels map[string]string) func(*simulation) {
	return func(w *simulation) {
		w.rolling().Selector = nil
		if labels != nil {
			w.rolling().Selector = &metav1.LabelSelector{MatchLabels: labels}
		}
	}
}
func nodeSelector(labels map[string]string) func(*simulation) {
	return func(w *simulation) { w.set.Spec.Template.Spec.NodeSelector = labels }
}

func preDelete(w *simulation) {
	hook := &shared.LifecycleHook{LabelsHandler: map[string]string{"drain": "wait"}}
	w.set.Spec.Lifecycle = &shared.Lifecycle{PreDelete: hook}
	w.Cluster.Hooks = w.set.Spec.Lifecycle
	w.set.Spec.Template.Labels["drain"] = "wait"
}

// image changes the template; the hash of the revision is the tag.
func image(tag string) func(*simulation) {
	return func(w *simulation) {
		w.set.Spec.Template.Spec.Containers[0].Image = "agent:" + tag
		w.set.Generation++
	}
}

// env changes more than an image.
func env(tag string) func(*simulation) {
	return func(w *simulation) {
		image(tag)(w)
		w.set.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "TAG", Value: tag}}
	}
}

// broken is an image that never becomes ready.
func broken(tag string) func(*simulation) {
	return func(w *simulation) { w.Cluster.NeverReady = append(w.Cluster.NeverReady, "agent:"+tag) }
}

// label labels a node.
func label(node, key, value string) func(*simulation) {
	return changeNode(node, func(n *corev1.Node) { n.Labels[key] = value })
}

func taint(node, key string, effect corev1.TaintEffect) func(*simulation) {
	return changeNode(node, func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: effect}) })
}

func untaint(node string) func(*simulation) {
	return changeNode(node, func(n *corev1.Node) { n.Spec.Taints = nil })
}

func changeNode(name string, change func(*corev1.Node)) func(*simulation) {
	return func(w *simulation) {
		i := slices.IndexFunc(w.Nodes, func(n *corev1.Node) bool { return n.Name == name })
		w.Nodes[i] = w.Nodes[i].DeepCopy()
		change(w.Nodes[i])
	}
}

func happens(name string, move podsettest.Move) func(*simulation) {
	return func(w *simulation) { w.Move(name, move) }
}

// crash makes the pods of nodes fail for good.
func crash(pods ...string) func(*simulation) {
	return func(w *simulation) {
		for _, pod := range pods {
			w.Move(pod, podsettest.Crash)
			w.Held[pod] = true
		}
	}
}

// podName is the name of the next pod for a node.
func (w *simulation) podName(node string) string {
	return "agent-" + node + string(rune('a'+w.born[node]))
}

func (w *simulation) nodes() []Node {
	objects := make([]corev1.Node, len(w.Nodes))
	for i, node := range w.Nodes {
		objects[i] = *node
	}
	return Nodes(Compile(w.set), objects)
}

func (w *simulation) spec() *Spec { return Parse(w.set, Desired(w.nodes()), w.o) }

func (w *simulation) seen() Snapshot {
	template := w.set.Spec.Template.DeepCopy()
	_, tag, _ := strings.Cut(template.Spec.Containers[0].Image, ":")
	update := revision.Revision{Name: "agent-" + tag, Template: template}
	if _, known := w.revisions[update.Name]; !known {
		w.revisions[update.Name] = update
	}
	wanted := update.Name
	if w.unrecorded != "" {
		update = w.revisions["agent-1"]
	}
	return Snapshot{
		Snapshot: podset.Snapshot{
			Unrecorded: w.unrecorded, Wanted: wanted,
			Now: w.Time, Pods: Pods(w.spec(), w.Pods, nil, w.Time), Update: update, Current: update, Revisions: w.revisions, UpdateFault: w.fault,
		},
		Nodes: w.nodes(), PodName: w.podName,
	}
}

func (w *simulation) plan() planning.Plan { return Plan(w.spec(), w.seen()) }

// availableNodes is how many nodes have an available pod.
func (w *simulation) availableNodes() int {
	nodes := map[string]bool{}
	for _, pod := range w.Pods {
		if podsettest.Available(pod, time.Duration(w.set.Spec.MinReadySeconds)*time.Second) {
			nodes[podsettest.NodeOf(pod)] = true
		}
	}
	return len(nodes)
}

// report writes the status, and notes what is seen at the end of a pass.
func (w *simulation) report() {
	for _, action := range w.Plan.Actions {
		if action.Step == podset.StepCreate {
			w.born[string(action.Slot)]++
		}
	}
	w.set.Status = Status(w.spec(), w.seen(), w.Plan, planning.Outcome{Done: len(w.Plan.Actions)})
	staying := map[string]int{}
	surging, pods := 0, 0
	for _, pod := range w.Pods {
		if pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodFailed {
			pods++
			if staying[podsettest.NodeOf(pod)]++; staying[podsettest.NodeOf(pod)] == 2 {
				surging++
			}
		}
	}
	w.maxPods, w.maxSurging = max(w.maxPods, pods), max(w.maxSurging, surging)
	w.minAvailable = min(w.minAvailable, w.availableNodes())
}

// rest changes something and lets passes and kubelets take turns until nothing changes any more.
func (w *simulation) rest(change ...func(*simulation)) {
	w.t.Helper()
	w.do(change...)
	w.Rest()
}

// when puts what happens into the log, does it and lets the set come to rest.
func (w *simulation) when(what string, change ...func(*simulation)) {
	w.t.Helper()
	w.Note(what)
	w.rest(change...)
	w.Note(fmt.Sprintf("rests: %s; %s: %s", w.counters(), w.reason(), w.message()))
}

func (w *simulation) counters() string {
	s := w.set.Status
	return fmt.Sprintf("desired %d current %d ready %d updated %d available %d misscheduled %d",
		s.DesiredNumberScheduled, s.CurrentNumberScheduled, s.NumberReady, s.UpdatedNumberScheduled, s.NumberAvailable, s.NumberMisscheduled)
}

func (w *simulation) condition(kind appsv1beta1.DaemonSetConditionType) appsv1beta1.DaemonSetCondition {
	for _, c := range w.set.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return appsv1beta1.DaemonSetCondition{}
}

// reason is that of the condition Reconciling; message is its message.
func (w *simulation) reason() string  { return w.condition(appsv1beta1.DaemonSetReconciling).Reason }
func (w *simulation) message() string { return w.condition(appsv1beta1.DaemonSetReconciling).Message }

// pods are the names without that of the set, each with its revision and what is unusual about it.
func (w *simulation) pods() string {
	var out []string
	for _, pod := range w.Pods {
		text := strings.TrimPrefix(pod.Name, "agent-") + ":" + pod.Labels[shared.LabelControllerRevisionHash]
		if pod.DeletionTimestamp != nil {
			text += " going"
		}
		if pod.Labels[shared.LabelLifecycleState] == string(shared.StatePreparingDelete) {
			text += " preparingDelete"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// at are the nodes whose pod is at a revision, in order.
func (w *simulation) at(tag string) string {
	var nodes []string
	for _, pod := range w.Pods {
		if pod.Labels[shared.LabelControllerRevisionHash] == tag && pod.DeletionTimestamp == nil {
			nodes = append(nodes, podsettest.NodeOf(pod))
		}
	}
	slices.Sort(nodes)
	return strings.Join(nodes, " ")
}

func (w *simulation) expectPods(want string) {
	w.t.Helper()
	if got := w.pods(); got != want {
		w.t.Errorf("pods %q, want %q", got, want)
	}
}

func (w *simulation) expect(what string, got, want any) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("%s: %v, want %v in\n%s", what, got, want, w)
	}
}
