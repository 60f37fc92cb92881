// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/tests/framework/audit"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
	"github.com/kruise-operator/kruise-operator/tests/framework/repository"
)

// ofOperator logs the operator's requests alone: writing those of all costs the API server CPU.
const ofOperator = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
  users: [` + operator.ServiceAccountUser + `]
- level: None
`

// rollouts measures releases of Deployments.
type rollouts struct {
	pods, steps, pairs, resting, releases, size, routes int
	ready, rest                                         time.Duration

	core      *kubernetes.Clientset
	objects   dynamic.ResourceInterface
	process   *operator.Operator
	log       *audit.Log
	namespace string
	observer  *pods
	// version counts changes of images.
	version int
}

func rolloutsCommand() *cobra.Command {
	r := &rollouts{}
	cmd := &cobra.Command{
		Use: "rollouts", Short: "Release a Deployment by steps and by itself in turn; then many Rollouts at rest, and many releases at once", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.run(cmd.Context()) },
	}
	cmd.Flags().IntVar(&r.pods, "pods", 1000, "how many pods the Deployment has; 0 leaves this part out")
	cmd.Flags().IntVar(&r.steps, "steps", 10, "in how many steps they are replaced; alone, one step is the surge")
	cmd.Flags().DurationVar(&r.ready, "ready", 5*time.Second, "how long a pod runs until it is ready")
	cmd.Flags().IntVar(&r.pairs, "pairs", 2, "how often both ways are measured in turn")
	cmd.Flags().IntVar(&r.resting, "resting", 1000, "how many Rollouts are at rest; 0 leaves this part out")
	cmd.Flags().DurationVar(&r.rest, "rest", 5*time.Minute, "how long they are watched")
	cmd.Flags().IntVar(&r.releases, "releases", 100, "how many releases go on at once; 0 leaves this part out")
	cmd.Flags().IntVar(&r.routes, "routes", 50, "how many releases with traffic go on at once; 0 leaves this part out")
	cmd.Flags().IntVar(&r.size, "size", 20, "how many pods each of them has")
	return cmd
}

func (r *rollouts) run(ctx context.Context) (err error) {
	if err := repository.EnterRoot(); err != nil {
		return err
	}
	c, err := cluster.Start(ctx, cluster.Options{Progress: os.Stderr, Audit: &cluster.Audit{Policy: ofOperator}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	nodes, err := simnode.Start(ctx, c.Config(), simnode.Options{Nodes: 40})
	if err != nil {
		return err
	}
	defer nodes.Stop()
	if err := r.open(ctx, c); err != nil {
		return err
	}
	if r.pods > 0 {
		if err := r.turns(ctx); err != nil {
			return err
		}
	}
	if r.releases > 0 {
		if err := r.atOnce(ctx); err != nil {
			return err
		}
	}
	if r.routes > 0 {
		if err := r.routed(ctx, c.Config()); err != nil {
			return err
		}
	}
	if r.resting == 0 {
		return nil
	}
	return r.atRest(ctx)
}

// open starts the operator.
func (r *rollouts) open(ctx context.Context, c *cluster.Cluster) (err error) {
	config := rest.CopyConfig(c.Config())
	config.QPS = -1
	if r.core, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	dynamics, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	b := &bench{config: config, core: r.core}
	if err := b.makeNamespace(ctx); err != nil {
		return err
	}
	r.namespace = b.namespace
	r.objects = dynamics.Resource(schema.GroupVersionResource{Group: "rollouts.kruise.io", Version: "v1beta1", Resource: "rollouts"}).Namespace(r.namespace)
	if r.observer, err = follow(ctx, r.core, r.namespace); err != nil {
		return err
	}
	if r.process, err = operator.New(ctx, c, operator.Options{}); err != nil {
		return err
	}
	if err := errors.Join(r.process.Install(ctx), r.process.Run(ctx)); err != nil {
		return err
	}
	r.log, err = audit.Open(c.AuditLog())
	return err
}

// requests are those of the operator since the last call.
func (r *rollouts) requests() (audit.Counts, error) {
	events, err := r.log.Next(audit.ByUser(operator.ServiceAccountUser))
	return audit.Count(events), err
}

func image(version int) string { return fmt.Sprintf("registry.k8s.io/pause:3.%d", version) }

// deploy creates a Deployment.
func (r *rollouts) deploy(ctx context.Context, name string, replicas, surge int) error {
	labels := map[string]string{"app": name}
	_, err := r.core.AppsV1().Deployments(r.namespace).Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
		Replicas: ptr.To(int32(replicas)), Selector: &metav1.LabelSelector{MatchLabels: labels}, //nolint:gosec // a number of pods
		Strategy: appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: ptr.To(intstr.FromInt(surge)), MaxUnavailable: ptr.To(intstr.FromInt(0))}},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{simnode.ReadyDelay: r.ready.String()}},
			Spec:       corev1.PodSpec{TerminationGracePeriodSeconds: new(int64), Containers: []corev1.Container{{Name: "main", Image: image(r.version)}}},
		},
	}}, metav1.CreateOptions{})
	return err
}

// change releases another image of a Deployment, under another rollout-id.
func (r *rollouts) change(ctx context.Context, name string) error {
	patch := fmt.Sprintf(`{"metadata":{"labels":{"rollouts.kruise.io/rollout-id":"r%d"}},"spec":{"template":{"spec":{"containers":[{"name":"main","image":%q}]}}}}`, r.version, image(r.version))
	_, err := r.core.AppsV1().Deployments(r.namespace).Patch(ctx, name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// create makes a Rollout of a Deployment, in steps that do not wait.
func (r *rollouts) create(ctx context.Context, name string, steps int) error {
	var all []any
	for i := range steps {
		all = append(all, map[string]any{"replicas": fmt.Sprintf("%d%%", (i+1)*100/steps), "pause": map[string]any{"duration": int64(0)}})
	}
	_, err := r.objects.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rollouts.kruise.io/v1beta1", "kind": "Rollout", "metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"workloadRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
			"strategy":    map[string]any{"canary": map[string]any{"steps": all}},
		},
	}}, metav1.CreateOptions{})
	return err
}

// until waits for a state of all Rollouts.
func (r *rollouts) until(ctx context.Context, what string, holds func(*unstructured.Unstructured) bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stepTimeout, errors.New("not all Rollouts are "+what))
	defer cancel()
	for {
		all, err := r.objects.List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		if len(all.Items) > 0 && !slices.ContainsFunc(all.Items, func(o unstructured.Unstructured) bool { return !holds(&o) }) {
			return nil
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// has is true for a condition of a status.
func has(o *unstructured.Unstructured, kind, status string) bool {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	return slices.ContainsFunc(all, func(c any) bool {
		is, _ := c.(map[string]any)
		return is["type"] == kind && is["status"] == status
	})
}

func guarded(o *unstructured.Unstructured) bool { return has(o, "Guarded", "True") }

// over: the release of the present version is over.
func (r *rollouts) over(o *unstructured.Unstructured) bool {
	id, _, _ := unstructured.NestedString(o.Object, "status", "canaryStatus", "observedRolloutID")
	phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
	return id == fmt.Sprintf("r%d", r.version) && phase == "Healthy" && has(o, "Succeeded", "True")
}

// allReady waits until so many pods are ready with the present version, and there is no other.
func (r *rollouts) allReady(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stepTimeout, errors.New("it takes too long"))
	defer cancel()
	return r.observer.allReady(ctx, n, image(r.version))
}

// turns releases the Deployment by itself and by a Rollout.
func (r *rollouts) turns(ctx context.Context) error {
	if err := errors.Join(r.deploy(ctx, "web", r.pods, r.pods/r.steps), r.allReady(ctx, r.pods)); err != nil {
		return err
	}
	for pair := range r.pairs {
		var seconds [2]float64
		for i := range seconds {
			if err := pause(ctx, quietTime); err != nil {
				return err
			}
			var err error
			if (pair+i)%2 == 0 {
				seconds[0], err = r.released(ctx)
			} else {
				seconds[1], err = r.stepped(ctx)
			}
			if err != nil {
				return err
			}
		}
		fmt.Printf("%d pods in %d steps: %.1f s by itself, %.1f s by a Rollout, %.2f times\n", r.pods, r.steps, seconds[0], seconds[1], seconds[1]/seconds[0])
	}
	return r.gone(ctx, "web")
}

// released is how long a new version takes until all pods have it.
func (r *rollouts) released(ctx context.Context) (seconds float64, err error) {
	r.version++
	began := time.Now()
	if err := r.change(ctx, "web"); err != nil {
		return 0, err
	}
	err = r.allReady(ctx, r.pods)
	return time.Since(began).Seconds(), err
}

// stepped is the same with a Rollout. It prints the writes.
func (r *rollouts) stepped(ctx context.Context) (seconds float64, err error) {
	if err := errors.Join(r.create(ctx, "web", r.steps), r.until(ctx, "guarded", guarded), pause(ctx, quietTime)); err != nil {
		return 0, err
	}
	if _, err := r.requests(); err != nil {
		return 0, err
	}
	if seconds, err = r.released(ctx); err != nil {
		return 0, err
	}
	if err := r.until(ctx, "over", r.over); err != nil {
		return 0, err
	}
	all, err := r.requests()
	if err != nil {
		return 0, err
	}
	r.tell(all, r.steps, r.pods)
	return seconds, r.removed(ctx)
}

// tell prints the writes of a release.
func (r *rollouts) tell(all audit.Counts, batches, pods int) {
	labels := all.Sum(func(q audit.Request) bool { return q.IsWrite() && q.Resource == "pods" })
	events := all.Sum(func(q audit.Request) bool { return q.IsWrite() && q.Resource == "events" })
	fmt.Printf("  %.1f writes for a batch, %.2f for the labels of a pod, %d events; reads %d\n",
		float64(all.Writes()-labels)/float64(batches), float64(labels)/float64(pods), events,
		all.Sum(func(q audit.Request) bool { return !q.IsWrite() && q.Verb != "watch" && q.Resource != "leases" }))
	for line := range strings.Lines(all.String()) {
		fmt.Print("    ", line)
	}
	fmt.Println()
}

// removed deletes all Rollouts, and waits.
func (r *rollouts) removed(ctx context.Context) error {
	if err := r.objects.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return err
	}
	for {
		all, err := r.objects.List(ctx, metav1.ListOptions{})
		if err != nil || len(all.Items) == 0 {
			return err
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// gone deletes a Deployment with its pods.
func (r *rollouts) gone(ctx context.Context, name string) error {
	deployments := r.core.AppsV1().Deployments(r.namespace)
	if err := deployments.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)}); err != nil {
		return err
	}
	for {
		if _, err := deployments.Get(ctx, name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			return nil
		} else if err != nil {
			return err
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// each calls do for the first names, a few at a time.
func each(ctx context.Context, n int, do func(context.Context, string) error) error {
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(16)
	for i := range n {
		all.Go(func() error { return do(ctx, fmt.Sprintf("web-%d", i)) })
	}
	return all.Wait()
}

// atOnce releases many Deployments at the same time, by themselves and by Rollouts in two steps.
func (r *rollouts) atOnce(ctx context.Context) error {
	pods := r.releases * r.size
	deploy := func(ctx context.Context, name string) error { return r.deploy(ctx, name, r.size, r.size/2) }
	if err := errors.Join(each(ctx, r.releases, deploy), r.allReady(ctx, pods), pause(ctx, quietTime)); err != nil {
		return err
	}
	release := func() (float64, error) {
		r.version++
		began := time.Now()
		err := errors.Join(each(ctx, r.releases, r.change), r.allReady(ctx, pods))
		return time.Since(began).Seconds(), err
	}
	alone, err := release()
	if err != nil {
		return err
	}
	create := func(ctx context.Context, name string) error { return r.create(ctx, name, 2) }
	if err := errors.Join(each(ctx, r.releases, create), r.until(ctx, "guarded", guarded), pause(ctx, quietTime)); err != nil {
		return err
	}
	if _, err := r.requests(); err != nil {
		return err
	}
	seconds, err := release()
	if err != nil {
		return err
	}
	if err := r.until(ctx, "over", r.over); err != nil {
		return err
	}
	all, err := r.requests()
	if err != nil {
		return err
	}
	used, err := r.process.Usage()
	fmt.Printf("%d releases of %d pods at once: %.1f s by themselves, %.1f s by Rollouts in two steps; memory at most %d MiB\n", r.releases, r.size, alone, seconds, used.PeakRSS>>20)
	r.tell(all, 2*r.releases, pods)
	return errors.Join(err, r.removed(ctx), each(ctx, r.releases, r.gone))
}

// atRest prints requests and memory of an operator that has just started, with no Rollout and with many.
func (r *rollouts) atRest(ctx context.Context) error {
	without, err := r.restarted(ctx)
	if err != nil {
		return err
	}
	deploy := func(ctx context.Context, name string) error {
		return errors.Join(r.deploy(ctx, name, 0, 1), r.create(ctx, name, r.steps))
	}
	if err := errors.Join(each(ctx, r.resting, deploy), r.until(ctx, "guarded", guarded)); err != nil {
		return err
	}
	with, err := r.restarted(ctx)
	if err != nil {
		return err
	}
	if _, err := r.requests(); err != nil {
		return err
	}
	if err := pause(ctx, r.rest); err != nil {
		return err
	}
	all, err := r.requests()
	if err != nil {
		return err
	}
	resting := all.Sum(func(q audit.Request) bool { return q.Verb != "watch" && q.Resource != "leases" })
	fmt.Printf("%d Rollouts at rest: %d requests in %s beside watches and the lease, memory %d MiB without and %d MiB with them\n",
		r.resting, resting, r.rest, without>>20, with>>20)
	for line := range strings.Lines(all.String()) {
		fmt.Print("    ", line)
	}
	fmt.Println()
	return nil
}

// restarted is the memory of the operator a while after it has started.
func (r *rollouts) restarted(ctx context.Context) (int64, error) {
	if err := errors.Join(r.process.Stop(), r.process.Run(ctx), pause(ctx, time.Minute)); err != nil {
		return 0, err
	}
	used, err := r.process.Usage()
	return used.RSS, err
}
