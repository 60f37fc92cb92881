// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
)

// The scenarios of kinds that run a pod on each node. The operator and the bare client name the node of a pod, so that the scheduler is in neither
// figure.
const (
	nodesScenario      = "nodes"
	nodeMemoryScenario = "node memory"
	// recreateUnavailable is on how many nodes, in percent, pods are recreated at a time.
	recreateUnavailable = 10
	// nodeLabel is what the nodes of these scenarios have.
	nodeLabel = "bench"
)

var daemonSet = workload{
	kind: "DaemonSet",
	build: func(s shape) client.Object {
		rolling := &v1beta1.RollingUpdateDaemonSet{Type: v1beta1.StandardRollingUpdateType, MaxUnavailable: percent(s.unavailable)}
		if s.policy == shared.InPlaceIfPossible {
			rolling.Type = v1beta1.InplaceRollingUpdateType
		}
		template := s.template()
		template.Spec.NodeSelector = map[string]string{nodeLabel: "true"}
		return &v1beta1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.name},
			Spec: v1beta1.DaemonSetSpec{
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": s.name}}, Template: template, BurstReplicas: percent(100),
				UpdateStrategy: v1beta1.DaemonSetUpdateStrategy{RollingUpdate: rolling},
			},
		}
	},
	settled: func(object client.Object) (bool, string) {
		set, ok := object.(*v1beta1.DaemonSet)
		if !ok {
			return false, ""
		}
		s := set.Status
		return s.ObservedGeneration == set.Generation && s.UpdatedNumberScheduled == s.DesiredNumberScheduled &&
			s.NumberAvailable == s.DesiredNumberScheduled && s.DesiredNumberScheduled > 0, fmt.Sprintf("%+v", s)
	},
}

var broadcastJob = workload{
	kind: "BroadcastJob",
	build: func(s shape) client.Object {
		return &v1beta1.BroadcastJob{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.name},
			Spec:       v1beta1.BroadcastJobSpec{Template: taskTemplate()},
		}
	},
	settled: func(object client.Object) (bool, string) {
		job, ok := object.(*v1beta1.BroadcastJob)
		if !ok {
			return false, ""
		}
		return job.Status.Phase == v1beta1.BroadcastJobCompleted, fmt.Sprintf("phase %s, %d of %d", job.Status.Phase, job.Status.Succeeded, job.Status.Desired)
	},
}

// taskTemplate is a pod that ends as soon as it runs.
func taskTemplate() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{simnode.CompleteAfter: "0s"}},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, NodeSelector: map[string]string{nodeLabel: "true"},
			Containers: []corev1.Container{{Name: "main", Image: imageBefore}},
		},
	}
}

// onNodes adds nodes, lets the operator name them in pods, and puts both back afterwards.
func (b *run) onNodes(ctx context.Context, do func(nodes []string) error) error {
	nodes := make([]string, b.options.nodes)
	for i := range nodes {
		nodes[i] = fmt.Sprintf("bench-%d", i)
	}
	fmt.Fprintf(os.Stderr, "adding %d nodes\n", len(nodes))
	err := parallel(ctx, nodes, func(ctx context.Context, name string) error {
		return b.nodes.Add(ctx, name, map[string]string{nodeLabel: "true"})
	})
	if err == nil {
		err = b.again(ctx, "--assign-pods-by-scheduler=false", "--assign-bcj-pods-by-scheduler=false")
	}
	if err == nil {
		err = do(nodes)
	}
	return errors.Join(err, b.again(ctx), parallel(ctx, nodes, b.nodes.Remove))
}

// again starts the operator anew, with more arguments.
func (b *run) again(ctx context.Context, args ...string) error {
	if err := b.operator.Stop(); err != nil {
		return err
	}
	b.operator.SetArgs(append(args, b.options.args...)...)
	return b.operator.Run(ctx)
}

// daemons starts a DaemonSet on all nodes, updates it in place and by recreating its pods, as often as there are runs. With the last one it counts
// the passes that heartbeats and a flapping node lead to, and measures the memory of a new process.
func (b *run) daemons(ctx context.Context) (figures []figure, err error) {
	err = b.onNodes(ctx, func(nodes []string) error {
		var starts, updates, recreations []figure
		var wakes figure
		for i := range b.options.runs {
			bare, err := b.rawDaemons(ctx, i, nodes)
			if err != nil {
				return fmt.Errorf("the bare client: %w", err)
			}
			b.progress(daemonSet.kind, nodesScenario, i, "the operator")
			of := shape{pods: len(nodes), policy: shared.InPlaceIfPossible, unavailable: b.options.unavailable}
			start, update, s, err := b.startAndMove(ctx, fmt.Sprintf("daemons-%d", i), of, "update in place")
			if err != nil {
				return err
			}
			if i == b.options.runs-1 {
				if wakes, err = b.nodeEvents(ctx, s, nodes); err != nil {
					return err
				}
			}
			if err := b.remove(ctx, s); err != nil {
				return err
			}
			of.policy, of.unavailable = shared.RecreatePods, recreateUnavailable
			_, recreation, s, err := b.startAndMove(ctx, fmt.Sprintf("daemons-recreated-%d", i), of, fmt.Sprintf("recreate, maxUnavailable %d%%", recreateUnavailable))
			if err != nil {
				return err
			}
			if err := b.remove(ctx, s); err != nil {
				return err
			}
			starts = append(starts, beside(start, bare.ready))
			updates = append(updates, beside(update, bare.update))
			recreations = append(recreations, beside(recreation, bare.recreate))
		}
		figures = []figure{median(starts), median(updates), median(recreations), wakes}
		return nil
	})
	return figures, err
}

// startAndMove starts a DaemonSet and moves it to another image.
func (b *run) startAndMove(ctx context.Context, name string, of shape, scenario string) (start, move figure, s *subject, err error) {
	if s, err = b.subject(ctx, daemonSet, name, of); err != nil {
		return start, move, nil, err
	}
	if start, err = b.start(ctx, s); err != nil {
		return start, move, nil, fmt.Errorf("starting: %w", err)
	}
	if move, err = b.move(ctx, s, scenario); err != nil {
		return start, move, nil, fmt.Errorf("%s: %w", scenario, err)
	}
	return start, move, s, nil
}

// nodeMemory measures the resident memory of a new process beside many nodes: with a DaemonSet on all of them, and without.
func (b *run) nodeMemory(ctx context.Context) (figures []figure, err error) {
	err = b.onNodes(ctx, func(nodes []string) error {
		without, err := b.atRest(ctx)
		if err != nil {
			return err
		}
		b.progress(daemonSet.kind, nodeMemoryScenario, 0, "the operator")
		s, err := b.subject(ctx, daemonSet, "daemons-at-rest", shape{pods: len(nodes), policy: shared.InPlaceIfPossible, unavailable: b.options.unavailable})
		if err != nil {
			return err
		}
		start, err := b.start(ctx, s)
		if err != nil {
			return fmt.Errorf("starting: %w", err)
		}
		start.Scenario = fmt.Sprintf("start on %d nodes", len(nodes))
		with, err := b.atRest(ctx)
		if err != nil {
			return err
		}
		f, err := b.requests(figure{Scenario: nodeMemoryScenario, Pods: len(nodes), Seconds: b.options.idle.Seconds()})
		if err != nil {
			return err
		}
		f.PeakRSSMiB = float64(with) / (1 << 20)
		f.Note = fmt.Sprintf("RSS of a new process after %s beside %d nodes with a pod each, not the peak; with the nodes alone it is %.1f MiB",
			b.options.idle, len(nodes), float64(without)/(1<<20))
		figures = []figure{start, f}
		return b.remove(ctx, s)
	})
	return figures, err
}

// beside puts the bare client's time next to a figure.
func beside(f figure, raw time.Duration) figure {
	f.RawSeconds = raw.Seconds()
	f.Ratio = f.Seconds / f.RawSeconds
	return f
}

type rawDaemons struct{ ready, update, recreate time.Duration }

// rawDaemons is what a DaemonSet costs a client that decides nothing.
func (b *run) rawDaemons(ctx context.Context, i int, nodes []string) (took rawDaemons, err error) {
	b.progress(daemonSet.kind, nodesScenario, i, "the bare client")
	r, err := b.bare(ctx, fmt.Sprintf("daemons-raw-%d", i))
	if err != nil {
		return took, err
	}
	began := time.Now()
	if err := r.startOn(ctx, nodes, podTemplate("bench", imageBefore)); err != nil {
		return took, err
	}
	if _, err := r.awaitReady(ctx, len(nodes), imageBefore); err != nil {
		return took, err
	}
	took.ready = time.Since(began)
	if took.update, _, err = r.update(ctx, max(len(nodes)*b.options.unavailable/100, 1), imageAfter); err != nil {
		return took, err
	}
	began = time.Now()
	err = r.each(ctx, max(len(nodes)*recreateUnavailable/100, 1), func(ctx context.Context, name string, write func(func() error) error) error {
		return r.recreateOne(ctx, name, podTemplate("bench", imageBefore), write)
	})
	if err != nil {
		return took, err
	}
	if _, err = r.awaitReady(ctx, len(nodes), imageBefore); err != nil {
		return took, err
	}
	took.recreate = time.Since(began)
	return took, r.clear(ctx)
}

// startOn creates a pod on each node and writes the conditions of its gates.
func (r *raw) startOn(ctx context.Context, nodes []string, template corev1.PodTemplateSpec) error {
	return parallel(ctx, nodes, func(ctx context.Context, node string) error {
		if err := r.createOn(ctx, node, "raw-"+node, template); err != nil {
			return err
		}
		return r.patchConditions(ctx, "raw-"+node, corev1.ConditionTrue, "", shared.GateInPlaceUpdateReady, shared.GateKruisePodReady)
	})
}

func (r *raw) createOn(ctx context.Context, node, name string, template corev1.PodTemplateSpec) error {
	pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	pod.Name, pod.Namespace, pod.Spec.NodeName = name, r.namespace, node
	if _, err := r.client.CoreV1().Pods(r.namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating pod %s: %w", name, err)
	}
	return nil
}

// recreateOne deletes a pod, waits until it is gone, and creates another one on its node: three writes, and one by the kubelet.
func (r *raw) recreateOne(ctx context.Context, name string, template corev1.PodTemplateSpec, write func(func() error) error) error {
	r.mu.Lock()
	uid, node := r.pods[name].UID, r.pods[name].Spec.NodeName
	r.mu.Unlock()
	err := write(func() error { return r.client.CoreV1().Pods(r.namespace).Delete(ctx, name, metav1.DeleteOptions{}) })
	if err != nil {
		return err
	}
	if err := r.await(ctx, func(int, map[string]int) bool { return r.gone[uid] }); err != nil {
		return err
	}
	err = write(func() error {
		if err := r.createOn(ctx, node, name+"-b", template); err != nil {
			return err
		}
		return r.patchConditions(ctx, name+"-b", corev1.ConditionTrue, "", shared.GateInPlaceUpdateReady, shared.GateKruisePodReady)
	})
	if err != nil {
		return err
	}
	return r.awaitPod(ctx, name+"-b", isReady)
}

// nodeEvents counts the passes over DaemonSets that heartbeats of all nodes, and then a node that flaps, lead to.
func (b *run) nodeEvents(ctx context.Context, s *subject, nodes []string) (figure, error) {
	const flaps = 5
	if err := b.settled(ctx, s); err != nil {
		return figure{}, err
	}
	count := func(changes []string, body func(i int) string, status bool) (int, error) {
		before, err := b.operator.Reconciles(ctx, "daemonset-controller")
		if err != nil {
			return 0, err
		}
		for i, name := range changes {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
			patch := client.RawPatch(types.StrategicMergePatchType, []byte(body(i)))
			var err error
			if status {
				err = b.client.Status().Patch(ctx, node, patch)
			} else {
				err = b.client.Patch(ctx, node, patch)
			}
			if err != nil {
				return 0, err
			}
		}
		select { // the last event has to arrive
		case <-time.After(3 * time.Second):
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
		after, err := b.operator.Reconciles(ctx, "daemonset-controller")
		return after - before, err
	}
	beats, err := count(nodes, func(i int) string {
		return fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","lastHeartbeatTime":%q}]}}`, time.Now().Add(time.Duration(i)*time.Second).UTC().Format(time.RFC3339))
	}, true)
	if err != nil {
		return figure{}, err
	}
	var same []string
	for range 2 * flaps {
		same = append(same, nodes[0])
	}
	flapped, err := count(same, func(i int) string {
		return fmt.Sprintf(`{"spec":{"taints":%s}}`, []string{`[{"key":"flap","effect":"NoSchedule"}]`, "null"}[i%2])
	}, false)
	if err != nil {
		return figure{}, err
	}
	f := figure{Scenario: "heartbeats, a flapping node", Pods: s.pods, Runs: 1, Note: fmt.Sprintf(
		"%d passes for %d heartbeats, %d for %d changes of one node that concern the set; RSS of a new process at rest", beats, len(nodes), flapped, 2*flaps)}
	rss, err := b.atRest(ctx)
	f.PeakRSSMiB = float64(rss) / (1 << 20)
	return f, err
}

// broadcasts runs a pod to its end on every node, as often as there are runs.
func (b *run) broadcasts(ctx context.Context) (figures []figure, err error) {
	err = b.onNodes(ctx, func(nodes []string) error {
		var all []figure
		for i := range b.options.runs {
			f, err := b.broadcast(ctx, i, nodes)
			if err != nil {
				return err
			}
			all = append(all, f)
		}
		figures = []figure{median(all)}
		return nil
	})
	return figures, err
}

func (b *run) broadcast(ctx context.Context, i int, nodes []string) (figure, error) {
	b.progress(broadcastJob.kind, nodesScenario, i, "the bare client")
	bare, err := b.bare(ctx, fmt.Sprintf("broadcast-raw-%d", i))
	if err != nil {
		return figure{}, err
	}
	began := time.Now()
	if err := parallel(ctx, nodes, func(ctx context.Context, node string) error {
		return bare.createOn(ctx, node, "raw-"+node, taskTemplate())
	}); err != nil {
		return figure{}, err
	}
	if err := bare.awaitSucceeded(ctx, len(nodes)); err != nil {
		return figure{}, err
	}
	raw := time.Since(began)
	if err := bare.clear(ctx); err != nil {
		return figure{}, err
	}
	b.progress(broadcastJob.kind, nodesScenario, i, "the operator")
	s, err := b.subject(ctx, broadcastJob, fmt.Sprintf("broadcast-%d", i), shape{pods: len(nodes)})
	if err != nil {
		return figure{}, err
	}
	f, err := b.measure(ctx, "run to the end", s.pods, func() (took, error) {
		began := time.Now()
		if err := b.client.Create(ctx, s.object); err != nil {
			return took{}, err
		}
		err := s.watch.awaitSucceeded(ctx, s.pods)
		return took{all: time.Since(began)}, err
	}, s)
	if err != nil {
		return figure{}, err
	}
	return beside(f, raw), b.remove(ctx, s)
}

// awaitSucceeded returns when there are n pods, all of which have ended well.
func (r *raw) awaitSucceeded(ctx context.Context, n int) error {
	return r.await(ctx, func(pods int, _ map[string]int) bool {
		if pods != n {
			return false
		}
		for _, pod := range r.pods {
			if pod.Status.Phase != corev1.PodSucceeded {
				return false
			}
		}
		return true
	})
}
