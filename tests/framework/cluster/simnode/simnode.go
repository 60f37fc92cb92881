// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package simnode

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// Nodes are the simulated nodes of one Start. Its methods may be called from several goroutines.
type Nodes struct {
	options Options
	client  kubernetes.Interface
	pods    cache.SharedIndexInformer
	queue   workqueue.TypedRateLimitingInterface[cache.ObjectName]
	podIPs  *addresses
	nodeIPs *addresses
	writes  atomic.Int64

	stop context.CancelFunc
	work sync.WaitGroup

	mu    sync.Mutex
	nodes map[string]*node
	sims  map[cache.ObjectName]*entry
}

// entry is one pod's simulation and its dialog with the API server.
type entry struct {
	mu  sync.Mutex
	sim *simulation
	// latest is the pod as our last write returned it, until the cache is as new.
	latest *corev1.Pod
	// badAnnotations is the complaint already logged.
	badAnnotations string
	// deleted: the kubelet has deleted the object, its last act.
	deleted bool
}

// Start makes the nodes and returns when all are Ready. ctx bounds the start only; the
// nodes run until Stop. Existing nodes, as after an earlier Start on the same cluster, are
// taken over with their pods.
func Start(ctx context.Context, cfg *rest.Config, options Options) (*Nodes, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	client, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	if options.KubeletVersion == "" {
		version, err := client.Discovery().ServerVersion()
		if err != nil {
			return nil, fmt.Errorf("asking for the server's version: %w", err)
		}
		options.KubeletVersion = version.GitVersion
	}

	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	n := &Nodes{
		options: options,
		client:  client,
		stop:    stop,
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](20*time.Millisecond, 5*time.Second)),
		podIPs:  newAddresses(options.PodCIDR),
		nodeIPs: newAddresses(options.NodeCIDR),
		nodes:   map[string]*node{},
		sims:    map[cache.ObjectName]*entry{},
	}
	started := context.AfterFunc(ctx, stop)
	err = n.start(run)
	if !started() && err == nil {
		err = fmt.Errorf("starting the nodes: %w", ctx.Err())
	}
	if err != nil {
		n.Stop()
		return nil, err
	}
	return n, nil
}

// TB is StartForTest's part of *testing.T, *testing.B or GinkgoT().
type TB interface {
	Helper()
	Cleanup(func())
	Context() context.Context
	Fatalf(format string, args ...any)
}

// StartForTest is Start for a test, with Stop when the test ends.
func StartForTest(tb TB, cfg *rest.Config, options Options) *Nodes {
	tb.Helper()
	n, err := Start(tb.Context(), cfg, options)
	if err != nil {
		tb.Fatalf("%v", err)
	}
	tb.Cleanup(n.Stop)
	return n
}

func newClient(cfg *rest.Config) (kubernetes.Interface, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1 // no limit
	cfg.UserAgent = "simnode"
	cfg.ContentType = runtime.ContentTypeProtobuf
	cfg.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("making the client of the nodes: %w", err)
	}
	return client, nil
}

func (n *Nodes) start(ctx context.Context) error {
	context.AfterFunc(ctx, n.queue.ShutDown)
	if err := n.addInitial(ctx); err != nil {
		return err
	}
	if err := n.watchPods(ctx); err != nil {
		return err
	}
	n.work.Go(func() { n.heartbeats(ctx) })
	for range n.options.Workers {
		n.work.Go(func() { n.worker(ctx) })
	}
	if n.options.Provisioner {
		return n.startProvisioner(ctx)
	}
	return nil
}

// Stop ends the simulation and waits until everything has ended. The nodes and pods stay in the API server as they are.
func (n *Nodes) Stop() {
	n.stop()
	n.work.Wait()
}

// Writes is how many writes of pods (status patches and deletions) have been sent and not failed. A write is counted
// before anybody can see its effect.
func (n *Nodes) Writes() int64 { return n.writes.Load() }

// Names are the names of the nodes, sorted.
func (n *Nodes) Names() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Sorted(maps.Keys(n.nodes))
}

// KillContainer ends a running container with an exit code, as if its process had ended.
// The pod's restart policy may start it again, then without a wait.
func (n *Nodes) KillContainer(namespace, pod, container string, code int32) error {
	key := cache.NewObjectName(namespace, pod)
	n.mu.Lock()
	e := n.sims[key]
	n.mu.Unlock()
	if e == nil {
		return fmt.Errorf("killing container %s: no simulated node runs pod %s", container, key)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sim == nil || !e.sim.kill(container, code) {
		return fmt.Errorf("killing container %s of pod %s: it is not running", container, key)
	}
	n.queue.Add(key)
	return nil
}

func (n *Nodes) watchPods(ctx context.Context) error {
	factory := informers.NewSharedInformerFactoryWithOptions(n.client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermNotEqualSelector("spec.nodeName", "").String()
		}),
		informers.WithTransform(dropManagedFields))
	n.pods = factory.Core().V1().Pods().Informer()
	enqueue := func(obj any) {
		if pod, ok := obj.(*corev1.Pod); ok && n.node(pod.Spec.NodeName) != nil {
			n.queue.Add(cache.MetaObjectToName(pod))
		}
	}
	handler, err := n.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    enqueue,
		UpdateFunc: func(_, pod any) { enqueue(pod) },
		DeleteFunc: func(obj any) {
			if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			enqueue(obj)
		},
	})
	if err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	n.work.Go(func() { n.pods.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), handler.HasSynced) {
		return fmt.Errorf("watching pods: %w", ctx.Err())
	}
	return nil
}

func dropManagedFields(obj any) (any, error) {
	if o, ok := obj.(metav1.Object); ok {
		o.SetManagedFields(nil)
	}
	return obj, nil
}

func (n *Nodes) worker(ctx context.Context) {
	for {
		key, shutdown := n.queue.Get()
		if shutdown {
			return
		}
		wake, err := n.sync(ctx, key)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			n.options.Log.Error(err, "cannot report a pod", "Pod", key)
			n.queue.AddRateLimited(key)
		default:
			n.queue.Forget(key)
			if !wake.IsZero() {
				n.queue.AddAfter(key, time.Until(wake))
			}
		}
		n.queue.Done(key)
	}
}

// sync brings one pod up to date and returns when to look again; zero when only a change of the pod matters.
func (n *Nodes) sync(ctx context.Context, key cache.ObjectName) (time.Time, error) {
	obj, exists, err := n.pods.GetStore().GetByKey(key.String())
	if err != nil {
		return time.Time{}, fmt.Errorf("reading pod %s from the cache: %w", key, err)
	}
	if !exists {
		n.forget(key)
		return time.Time{}, nil
	}
	pod := obj.(*corev1.Pod)
	node := n.node(pod.Spec.NodeName)
	if node == nil {
		return time.Time{}, nil
	}
	// Held while the pod is worked on: SetDown returns only when nothing more comes from the node.
	node.mu.RLock()
	defer node.mu.RUnlock()
	if node.down {
		return time.Time{}, nil
	}

	e, err := n.entryFor(key, pod, node)
	if err != nil {
		return time.Time{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.latest != nil {
		order, err := resourceversion.CompareResourceVersion(pod.ResourceVersion, e.latest.ResourceVersion)
		if err == nil && order < 0 {
			pod = e.latest
		} else {
			e.latest = nil
		}
	}
	return n.rounds(ctx, e, pod)
}

// rounds advances the pod and writes its report, until nothing more is due.
func (n *Nodes) rounds(ctx context.Context, e *entry, pod *corev1.Pod) (time.Time, error) {
	for {
		v := &view{pod: pod, options: &n.options, now: time.Now(), data: n.dataFor(ctx, pod.Namespace)}
		if n.readBehavior(v, e) {
			e.sim.round(v)
		}
		want := e.sim.report(pod, v.behavior.reportGates)
		patch, err := patchFor(pod, &want, v.now)
		if err != nil {
			return time.Time{}, err
		}
		if patch != nil {
			n.writes.Add(1)
			written, err := n.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch,
				metav1.PatchOptions{FieldManager: "simnode"}, "status")
			if err != nil {
				n.writes.Add(-1)
				if gone(err) {
					return time.Time{}, nil
				}
				return time.Time{}, fmt.Errorf("writing the status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
			}
			written.ManagedFields = nil
			e.latest, pod = written, written
		}
		e.sim.written()
		if e.sim.stopped && !e.deleted {
			return time.Time{}, n.remove(ctx, e, pod)
		}
		if v.wake.IsZero() || v.wake.After(time.Now()) {
			return v.wake, nil
		}
	}
}

// dataFor reads ConfigMaps of a namespace, each once.
func (n *Nodes) dataFor(ctx context.Context, namespace string) func(name string) map[string]string {
	known := map[string]map[string]string{}
	return func(name string) map[string]string {
		if data, read := known[name]; read {
			return data
		}
		found, err := n.client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			known[name] = nil
			return nil
		}
		known[name] = map[string]string{}
		for key, value := range found.Data {
			known[name][key] = value
		}
		return known[name]
	}
}

// readBehavior fills in the pod's behavior; it is false if it cannot be simulated. With a
// faulty annotation, a simulated pod goes on as before; a new one waits and says why.
func (n *Nodes) readBehavior(v *view, e *entry) bool {
	b, err := behaviorOf(v.pod, n.options.Delays)
	if err == nil {
		e.sim.lastGood, e.badAnnotations = &b, ""
		v.behavior = b
		return true
	}
	if e.badAnnotations != err.Error() {
		e.badAnnotations = err.Error()
		n.options.Log.Error(err, "cannot understand a pod's annotations", "Pod", cache.MetaObjectToName(v.pod))
	}
	if e.sim.lastGood != nil {
		v.behavior = *e.sim.lastGood
		return true
	}
	e.sim.refuse(v.now, err.Error())
	return false
}

// remove takes the object of an ended pod away. A finalizer may still hold it; nothing is left to do then.
func (n *Nodes) remove(ctx context.Context, e *entry, pod *corev1.Pod) error {
	options := metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
	n.writes.Add(1)
	err := n.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, options)
	if err != nil {
		n.writes.Add(-1)
		if !gone(err) {
			return fmt.Errorf("removing the ended pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	e.deleted = true
	return nil
}

// gone: the pod, or this pod of its name, does not exist any more.
func gone(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) }

func (n *Nodes) entryFor(key cache.ObjectName, pod *corev1.Pod, node *node) (*entry, error) {
	n.mu.Lock()
	e := n.sims[key]
	if e == nil {
		e = &entry{}
		n.sims[key] = e
	}
	n.mu.Unlock()

	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sim != nil && e.sim.uid == pod.UID {
		return e, nil
	}
	if e.sim != nil {
		n.podIPs.release(e.sim.podIP)
	}
	ip, err := n.addressFor(pod, node)
	if err != nil {
		return nil, err
	}
	e.sim, e.latest, e.deleted, e.badAnnotations = newSimulation(pod, node.ip, ip, time.Now()), nil, false, ""
	return e, nil
}

func (n *Nodes) addressFor(pod *corev1.Pod, node *node) (string, error) {
	switch {
	case pod.Spec.HostNetwork:
		return node.ip, nil
	case pod.Status.PodIP != "":
		n.podIPs.claim(pod.Status.PodIP)
		return pod.Status.PodIP, nil
	}
	ip, err := n.podIPs.take()
	if err != nil {
		return "", fmt.Errorf("finding an address for pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return ip, nil
}

func (n *Nodes) forget(key cache.ObjectName) {
	n.mu.Lock()
	e := n.sims[key]
	delete(n.sims, key)
	n.mu.Unlock()
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sim != nil {
		n.podIPs.release(e.sim.podIP)
	}
}

var errUnknownNode = errors.New("there is no such simulated node")
