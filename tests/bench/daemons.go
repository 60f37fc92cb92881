// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/daemon"
	"github.com/kruise-operator/kruise-operator/internal/daemon/cri"
	"github.com/kruise-operator/kruise-operator/tests/framework/simdaemon"
)

// The scenarios of kinds for which the node daemon does the work.
const (
	pullsScenario    = "pulls"
	restartsScenario = "restarts"
	restScenario     = "daemon at rest"
	// pullTakes is how long each simulated pull takes, for the operator and for the bare client.
	pullTakes = 200 * time.Millisecond
	// pullParallelism is how many nodes pull at a time.
	pullParallelism = 50
	// restarting is how many simulated nodes have a daemon of their own while containers are restarted.
	restarting = 10
)

var (
	imagePullJob = workload{kind: "ImagePullJob"}
	recreateKind = workload{kind: "ContainerRecreateRequest"}
	nodeDaemon   = workload{kind: "NodeDaemon"}
)

// pullers stand for the daemons of all nodes: each pull takes pullTakes, and costs one write of a status.
type pullers struct {
	client client.WithWatch
	mu     sync.Mutex
	// done are the nodes whose status says that an image is there, by image.
	done map[string]map[string]bool
	// changed is closed when that changes.
	changed chan struct{}
}

func (b *run) pullers(ctx context.Context) (*pullers, error) {
	c, err := client.NewWithWatch(b.cluster.Config(), client.Options{Scheme: b.client.Scheme()})
	if err != nil {
		return nil, err
	}
	p := &pullers{client: c, done: map[string]map[string]bool{}, changed: make(chan struct{})}
	go func() {
		for ctx.Err() == nil {
			if err := p.follow(ctx); err != nil && ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, "bench: the daemons look again:", err)
			}
		}
	}()
	return p, nil
}

// follow serves what is there, and what changes until the watch ends.
func (p *pullers) follow(ctx context.Context) error {
	list := &v1beta1.NodeImageList{}
	if err := p.client.List(ctx, list); err != nil {
		return err
	}
	for i := range list.Items {
		go p.pull(ctx, &list.Items[i])
	}
	watch, err := p.client.Watch(ctx, &v1beta1.NodeImageList{}, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	if err != nil {
		return err
	}
	defer watch.Stop()
	for event := range watch.ResultChan() {
		object, is := event.Object.(*v1beta1.NodeImage)
		if !is {
			return fmt.Errorf("the watch says %+v", event.Object)
		}
		go p.pull(ctx, object)
	}
	return nil
}

// pull carries out what a NodeImage asks for, and writes its status when that is not said there yet.
func (p *pullers) pull(ctx context.Context, object *v1beta1.NodeImage) {
	statuses := map[string]v1beta1.ImageStatus{}
	missing := false
	for name, spec := range object.Spec.Images {
		for _, tag := range spec.Tags {
			image := name + ":" + tag.Tag
			at := slices.IndexFunc(object.Status.ImageStatuses[name].Tags, func(s v1beta1.ImageTagStatus) bool { return s.Tag == tag.Tag && s.Version == tag.Version })
			if at >= 0 {
				p.note(image, object.Name)
			} else {
				missing = true
			}
			now := metav1.Now()
			statuses[name] = v1beta1.ImageStatus{Tags: append(statuses[name].Tags, v1beta1.ImageTagStatus{
				Tag: tag.Tag, Version: tag.Version, Phase: v1beta1.ImagePhaseSucceeded, Progress: 100, StartTime: &now, CompletionTime: &now,
			})}
		}
	}
	if !missing {
		return
	}
	select {
	case <-time.After(pullTakes):
	case <-ctx.Done():
		return
	}
	n := int32(len(statuses))
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": object.ResourceVersion},
		"status":   v1beta1.NodeImageStatus{Desired: n, Succeeded: n, ImageStatuses: statuses},
	})
	if err != nil {
		return
	}
	err = p.client.Status().Patch(ctx, object, client.RawPatch(types.MergePatchType, body))
	switch {
	case err == nil, ctx.Err() != nil, apierrors.IsNotFound(err):
	case apierrors.IsConflict(err):
		if err := p.client.Get(ctx, client.ObjectKeyFromObject(object), object); err == nil {
			p.pull(ctx, object)
		}
	default:
		fmt.Fprintln(os.Stderr, "bench: the daemon of", object.Name+":", err)
	}
}

func (p *pullers) note(image, node string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done[image][node] {
		return
	}
	if p.done[image] == nil {
		p.done[image] = map[string]bool{}
	}
	p.done[image][node] = true
	close(p.changed)
	p.changed = make(chan struct{})
}

// await waits until nodes have an image.
func (p *pullers) await(ctx context.Context, image string, nodes ...string) error {
	for {
		p.mu.Lock()
		there := !slices.ContainsFunc(nodes, func(node string) bool { return !p.done[image][node] })
		changed := p.changed
		p.mu.Unlock()
		if there {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// pulls has an ImagePullJob pull an image on all nodes, some at a time. The bare client asks each node by a patch of its NodeImage and waits for its
// status, as many nodes at a time.
func (b *run) pulls(ctx context.Context) (figures []figure, err error) {
	err = b.onNodes(ctx, func(nodes []string) error {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
		defer cancel()
		p, err := b.pullers(ctx)
		if err != nil {
			return err
		}
		if err := b.nodeImages(ctx, nodes); err != nil {
			return err
		}
		b.progress(imagePullJob.kind, pullsScenario, 0, "the bare client")
		raw, err := b.rawPulls(ctx, p, nodes)
		if err != nil {
			return fmt.Errorf("the bare client: %w", err)
		}
		b.progress(imagePullJob.kind, pullsScenario, 0, "the operator")
		namespace, err := b.namespace(ctx, "pulls")
		if err != nil {
			return err
		}
		job := &v1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pull"}}
		body := fmt.Sprintf(`{"spec":{"image":"registry.example/web:v2","parallelism":%d,"selector":{"matchLabels":{%q:"true"}},"completionPolicy":{"type":"Always"}}}`,
			pullParallelism, nodeLabel)
		if err := json.Unmarshal([]byte(body), job); err != nil {
			return err
		}
		f, err := b.measure(ctx, fmt.Sprintf("pull on all nodes, parallelism %d", pullParallelism), len(nodes), func() (took, error) {
			began := time.Now()
			if err := b.client.Create(ctx, job); err != nil {
				return took{}, err
			}
			if err := p.await(ctx, "registry.example/web:v2", nodes...); err != nil {
				return took{}, fmt.Errorf("waiting for the nodes: %w", err)
			}
			all := time.Since(began)
			return took{all: all}, b.poll(ctx, func() (bool, error) {
				err := b.client.Get(ctx, client.ObjectKeyFromObject(job), job)
				return job.Status.CompletionTime != nil && int(job.Status.Succeeded) == len(nodes), err
			})
		})
		if err != nil {
			return err
		}
		f.Note = fmt.Sprintf("%s of the manager's CPU; each pull takes %s, so %.1f s are the least", time.Duration(f.CPUMillisPod*float64(len(nodes))*1e6).Round(time.Millisecond),
			pullTakes, (pullTakes * time.Duration((len(nodes)+pullParallelism-1)/pullParallelism)).Seconds())
		figures = []figure{beside(f, raw)}
		return b.client.Delete(ctx, job)
	})
	return figures, err
}

// nodeImages waits until every node has its NodeImage.
func (b *run) nodeImages(ctx context.Context, nodes []string) error {
	return b.poll(ctx, func() (bool, error) {
		list := &v1beta1.NodeImageList{}
		if err := b.client.List(ctx, list); err != nil {
			return false, err
		}
		have := map[string]bool{}
		for i := range list.Items {
			have[list.Items[i].Name] = true
		}
		for _, node := range nodes {
			if have[node] {
				continue
			}
			object := &v1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: node}}
			if err := client.IgnoreAlreadyExists(b.client.Create(ctx, object)); err != nil {
				return false, err
			}
		}
		return true, nil
	})
}

func (b *run) rawPulls(ctx context.Context, p *pullers, nodes []string) (time.Duration, error) {
	const repository, tag = "registry.example/raw", "v1"
	queue := make(chan string, len(nodes))
	for _, node := range nodes {
		queue <- node
	}
	close(queue)
	patch := func(ctx context.Context, node string, images any) error {
		body, err := json.Marshal(map[string]any{"spec": map[string]any{"images": map[string]any{repository: images}}})
		if err != nil {
			return err
		}
		return b.client.Patch(ctx, &v1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: node}}, client.RawPatch(types.MergePatchType, body))
	}
	began := time.Now()
	var workers sync.WaitGroup
	failed := make([]error, pullParallelism)
	for i := range pullParallelism {
		workers.Go(func() {
			for node := range queue {
				err := patch(ctx, node, map[string]any{"tags": []any{map[string]any{"tag": tag, "createdAt": metav1.Now()}}})
				if err == nil {
					err = p.await(ctx, repository+":"+tag, node)
				}
				if err != nil {
					failed[i] = err
					return
				}
			}
		})
	}
	workers.Wait()
	all := time.Since(began)
	if err := errors.Join(failed...); err != nil {
		return 0, err
	}
	return all, parallel(ctx, nodes, func(ctx context.Context, node string) error { return client.IgnoreNotFound(patch(ctx, node, nil)) })
}

// poll asks until something holds.
func (b *run) poll(ctx context.Context, holds func() (bool, error)) error {
	for {
		done, err := holds()
		if done || err != nil {
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// recreations asks for a restart of one container of many pods at once. The bare client kills the containers itself and waits until they run again.
func (b *run) recreations(ctx context.Context) (figures []figure, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	names := make([]string, b.options.requests)
	nodes := b.nodes.Names()
	nodes = nodes[:min(restarting, len(nodes))]
	pods, err := b.bare(ctx, "restarts")
	if err != nil {
		return nil, err
	}
	template := podTemplate("bench", imageBefore)
	template.Spec.Containers = append(template.Spec.Containers, corev1.Container{Name: "other", Image: imageBefore})
	placed := map[string]string{}
	for i := range names {
		names[i] = fmt.Sprintf("raw-%d", i)
		placed[names[i]] = nodes[i%len(nodes)]
	}
	err = parallel(ctx, names, func(ctx context.Context, name string) error {
		if err := pods.createOn(ctx, placed[name], name, template); err != nil {
			return err
		}
		return pods.patchConditions(ctx, name, corev1.ConditionTrue, "", "InPlaceUpdateReady", "KruisePodReady")
	})
	if err != nil {
		return nil, err
	}
	if _, err := pods.awaitReady(ctx, len(names), imageBefore); err != nil {
		return nil, err
	}
	stop, err := b.runDaemons(ctx, nodes)
	if err != nil {
		return nil, err
	}
	defer stop()
	b.progress(recreateKind.kind, restartsScenario, 0, "the bare client")
	began := time.Now()
	for _, name := range names {
		if err := b.nodes.KillContainer(pods.namespace, name, "main", 143); err != nil {
			return nil, err
		}
	}
	if err := pods.awaitRestarts(ctx, names, 1); err != nil {
		return nil, err
	}
	raw := time.Since(began)
	b.progress(recreateKind.kind, restartsScenario, 0, "the operator")
	f, err := b.measure(ctx, fmt.Sprintf("%d requests at once", len(names)), len(names), func() (took, error) {
		began := time.Now()
		err := parallel(ctx, names, func(ctx context.Context, name string) error {
			return b.client.Create(ctx, &v1beta1.ContainerRecreateRequest{
				ObjectMeta: metav1.ObjectMeta{Namespace: pods.namespace, Name: name},
				Spec: v1beta1.ContainerRecreateRequestSpec{
					PodName: name, Containers: []v1beta1.ContainerRecreateRequestContainer{{Name: "main"}}, ActiveDeadlineSeconds: ptr.To[int64](300),
				},
			})
		})
		if err == nil {
			err = b.allRecreated(ctx, pods.namespace, len(names), false)
		}
		all := time.Since(began)
		if err == nil {
			err = b.allRecreated(ctx, pods.namespace, len(names), true) // so that the last writes are in the figure
		}
		return took{all: all}, err
	})
	if err != nil {
		return nil, err
	}
	f.Note = "raw: the containers are killed and run again, without requests; both until the last runs"
	return []figure{beside(f, raw)}, pods.clear(ctx)
}

// allRecreated waits until all requests have succeeded and, for tidy, the operator has nothing left to do for them.
func (b *run) allRecreated(ctx context.Context, namespace string, n int, tidy bool) error {
	return b.poll(ctx, func() (bool, error) {
		list := &v1beta1.ContainerRecreateRequestList{}
		if err := b.client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return false, err
		}
		done := 0
		for i := range list.Items {
			switch r := &list.Items[i]; {
			case r.Status.Phase != v1beta1.RecreateCompleted, tidy && r.Labels[v1beta1.LabelRequestActive] != "":
			case len(r.Status.ContainerRecreateStates) == 1 && r.Status.ContainerRecreateStates[0].IsKilled:
				done++
			default:
				return false, fmt.Errorf("request %s has failed: %+v", r.Name, r.Status)
			}
		}
		return done == n, nil
	})
}

// awaitRestarts waits until the container main of each pod has been restarted so often and runs.
func (r *raw) awaitRestarts(ctx context.Context, names []string, times int32) error {
	return r.await(ctx, func(int, map[string]int) bool {
		for _, name := range names {
			pod := r.pods[name]
			if pod == nil {
				return false
			}
			at := slices.IndexFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == "main" })
			if at < 0 || pod.Status.ContainerStatuses[at].RestartCount < times || pod.Status.ContainerStatuses[at].State.Running == nil {
				return false
			}
		}
		return true
	})
}

// runDaemons runs the daemons of some nodes in this process until they are stopped.
func (b *run) runDaemons(ctx context.Context, nodes []string) (stop func(), err error) {
	return b.runDaemonsCounting(ctx, nodes, nil)
}

// runDaemonsCounting counts the commands that the daemons carry out, too.
func (b *run) runDaemonsCounting(ctx context.Context, nodes []string, commands *atomic.Int64) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for _, node := range nodes {
		// Containers that are stopped end as by SIGTERM, and every command succeeds.
		runtime := &simdaemon.Runtime{Nodes: b.nodes, ExitCode: 143}
		runtime.OnExec = func(context.Context, cri.Container, []string) (cri.ExecResult, error) {
			if commands != nil {
				commands.Add(1)
			}
			return cri.ExecResult{}, nil
		}
		mgr, err := daemon.New(b.cluster.Config(), daemon.Options{Node: node, Namespace: "default", Address: "0", MaxPulls: 1}, runtime)
		if err != nil {
			cancel()
			return nil, err
		}
		runtime.Pods = mgr.GetClient()
		running.Go(func() {
			if err := mgr.Start(ctx); err != nil {
				fmt.Fprintln(os.Stderr, "bench: the daemon of", node+":", err)
			}
		})
	}
	return func() { cancel(); running.Wait() }, nil
}
