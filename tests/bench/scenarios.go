// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
	"github.com/kruise-operator/kruise-operator/tests/framework/audit"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
	"github.com/kruise-operator/kruise-operator/tests/framework/speed"
)

// run holds what the scenarios share.
type run struct {
	options  options
	cluster  *cluster.Cluster
	nodes    *simnode.Nodes
	operator *operator.Operator
	core     *kubernetes.Clientset
	client   client.Client
	log      *audit.Log
	// restarts counts the operators that stood by.
	restarts int
}

func (b *run) connect() error {
	var err error
	if b.core, err = kubernetes.NewForConfig(b.cluster.Config()); err != nil {
		return err
	}
	kinds, err := scheme.New()
	if err != nil {
		return err
	}
	if b.client, err = client.New(b.cluster.Config(), client.Options{Scheme: kinds}); err != nil {
		return err
	}
	b.log, err = audit.Open(b.cluster.AuditLog())
	return err
}

// The names of the scenarios.
const (
	inPlaceScenario = "in-place"
	kubeletScenario = "busy kubelet"
	replaceScenario = "replace"
	manyScenario    = "many"
	largeScenario   = "large"
	foreignScenario = "foreign pods"
	subsetsScenario = "subsets"

	// quietTime is how long nothing is asked before a part is measured.
	quietTime = 5 * time.Second
)

// scenarioNames are the scenarios in the order in which they are measured.
var scenarioNames = []string{inPlaceScenario, kubeletScenario, replaceScenario, manyScenario, largeScenario, foreignScenario, subsetsScenario, nodesScenario, nodeMemoryScenario, schedulesScenario,
	pullsScenario, restartsScenario, probesScenario, restScenario, sidecarUpgradeScenario, sidecarMemoryScenario, sidecarCreationScenario}

// all measures the scenarios that were asked for of every kind that was asked for.
func (b *run) all(ctx context.Context) ([]figure, error) {
	var figures []figure
	for _, of := range []struct {
		workload
		scenario string
		measure  func(context.Context) ([]figure, error)
	}{
		{statefulSet, inPlaceScenario, b.statefulSet},
		{cloneSet, inPlaceScenario, b.cloneSet},
		{cloneSet, kubeletScenario, b.busyKubelet},
		{cloneSet, replaceScenario, b.replaced},
		{cloneSet, manyScenario, b.manySets},
		{cloneSet, largeScenario, b.large},
		{cloneSet, foreignScenario, b.foreign},
		{unitedDeployment, subsetsScenario, b.subsets},
		{daemonSet, nodesScenario, b.daemons},
		{daemonSet, nodeMemoryScenario, b.nodeMemory},
		{broadcastJob, nodesScenario, b.broadcasts},
		{advancedCronJob, schedulesScenario, b.dueAtOnce},
		{imagePullJob, pullsScenario, b.pulls},
		{recreateKind, restartsScenario, b.recreations},
		{probeMarker, probesScenario, b.probes},
		{nodeDaemon, restScenario, b.atRestOnNode},
		{sidecarSet, sidecarUpgradeScenario, b.sidecarUpgrade},
		{sidecarSet, sidecarMemoryScenario, b.sidecarMemory},
		{sidecarSet, sidecarCreationScenario, b.podCreation},
	} {
		if !slices.Contains(b.options.kinds, of.kind) || !slices.Contains(b.options.scenarios, of.scenario) {
			continue
		}
		measured, err := of.measure(ctx)
		for _, f := range measured {
			f.Kind = of.kind
			figures = append(figures, f)
		}
		if err != nil {
			return figures, fmt.Errorf("%s: %w", of.kind, err)
		}
	}
	return figures, nil
}

// statefulSet starts a set, updates it in place, and measures a restart and rest with it.
func (b *run) statefulSet(ctx context.Context) ([]figure, error) {
	figures, last, err := b.inPlace(ctx, statefulSet, "update in place", shape{pods: b.options.pods})
	if err != nil {
		return figures, err
	}
	restart, err := b.restart(ctx, last)
	if err != nil {
		return figures, err
	}
	figures = append(figures, restart)
	idle, err := b.idle(ctx, last)
	if err != nil {
		return figures, err
	}
	return append(figures, idle), b.remove(ctx, last)
}

// cloneSet starts a set and updates it in place.
func (b *run) cloneSet(ctx context.Context) ([]figure, error) {
	figures, last, err := b.inPlace(ctx, cloneSet, "update in place", shape{pods: b.options.clones})
	if err != nil {
		return figures, err
	}
	return figures, b.remove(ctx, last)
}

// busyKubelet starts and updates a CloneSet on nodes that write the status of a pod whenever its readiness gate becomes False, which is
// between the operator's first and second write.
func (b *run) busyKubelet(ctx context.Context) ([]figure, error) {
	const scenario = "in place, busy kubelet"
	of := shape{pods: b.options.clones, annotations: map[string]string{simnode.ReportGates: "true"}}
	figures, last, err := b.inPlace(ctx, cloneSet, scenario, of)
	if err != nil {
		return figures, err
	}
	return figures[1:], b.remove(ctx, last) // its start is that of inPlaceScenario
}

// subject is a set under measurement and what is seen of its pods.
type subject struct {
	workload
	object client.Object
	pods   int
	watch  *raw
}

// median takes the run in the middle, by seconds, with the bare client's own median and that of the ratios of all runs beside it.
func median(figures []figure) figure {
	sorted := func(get func(figure) float64) []float64 {
		var values []float64
		for _, f := range figures {
			values = append(values, get(f))
		}
		slices.Sort(values)
		return values
	}
	middle := func(values []float64) float64 { return values[len(values)/2] }
	raw := middle(sorted(func(f figure) float64 { return f.RawSeconds }))
	rawExist := middle(sorted(func(f figure) float64 { return f.RawExistSeconds }))
	rawTail := middle(sorted(func(f figure) float64 { return f.RawTail }))
	var ratios []float64
	if raw > 0 {
		ratios = sorted(func(f figure) float64 { return f.Seconds / f.RawSeconds })
	}
	slices.SortFunc(figures, func(a, b figure) int { return cmp.Compare(a.Seconds, b.Seconds) })
	f := figures[len(figures)/2]
	f.Runs, f.RawSeconds, f.RawExistSeconds, f.RawTail = len(figures), raw, rawExist, rawTail
	if len(ratios) > 0 {
		f.Ratio, f.Ratios = middle(ratios), ratios
	}
	return f
}

// inPlace starts a set and moves it to another image in place, as often as there are runs. The last set stays.
func (b *run) inPlace(ctx context.Context, w workload, scenario string, of shape) (figures []figure, last *subject, err error) {
	var starts, updates []figure
	of.policy, of.unavailable = shared.InPlaceIfPossible, b.options.unavailable
	for i := range b.options.runs {
		b.progress(w.kind, "start and "+scenario, i, "the bare client")
		bare, err := b.rawInPlace(ctx, w, i, of)
		if err != nil {
			return figures, nil, fmt.Errorf("the bare client: %w", err)
		}
		b.progress(w.kind, "start and "+scenario, i, "the operator")
		last, err = b.subject(ctx, w, fmt.Sprintf("%s-%s-%d", strings.ToLower(w.kind), namePart(scenario), i), of)
		if err != nil {
			return figures, nil, err
		}
		start, err := b.start(ctx, last)
		if err != nil {
			return figures, nil, fmt.Errorf("starting: %w", err)
		}
		update, err := b.move(ctx, last, scenario)
		if err != nil {
			return figures, nil, fmt.Errorf("updating: %w", err)
		}
		start.RawSeconds, start.RawExistSeconds = bare.ready, bare.exist
		update.RawSeconds, update.RawTail = bare.update, bare.tail
		starts, updates = append(starts, start), append(updates, update)
		if i < b.options.runs-1 {
			if err := b.remove(ctx, last); err != nil {
				return figures, nil, err
			}
		}
	}
	return []figure{median(starts), median(updates)}, last, nil
}

type rawFigures struct{ exist, ready, update, tail float64 }

// namePart makes a scenario a part of a name.
func namePart(scenario string) string {
	return strings.NewReplacer(" ", "-", ",", "").Replace(scenario)
}

func (b *run) rawInPlace(ctx context.Context, w workload, i int, of shape) (rawFigures, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	r, err := b.bare(ctx, fmt.Sprintf("%s-raw-%d-%d", strings.ToLower(w.kind), len(of.annotations), i))
	if err != nil {
		return rawFigures{}, err
	}
	of.name = "bench"
	exist, ready, err := r.start(ctx, of.pods, of.template())
	if err != nil {
		return rawFigures{}, err
	}
	update, tail, err := r.update(ctx, max(of.pods*of.unavailable/100, 1), imageAfter)
	if err != nil {
		return rawFigures{}, err
	}
	return rawFigures{exist.Seconds(), ready.Seconds(), update.Seconds(), tail}, r.clear(ctx)
}

// replaced moves a CloneSet to another image by replacing its pods, some more than replicas at a time.
func (b *run) replaced(ctx context.Context) ([]figure, error) {
	const scenario = "replace with surge"
	var figures []figure
	pods := b.options.recreated
	for i := range b.options.runs {
		b.progress(cloneSet.kind, scenario, i, "the bare client")
		seconds, err := b.rawReplace(ctx, i, pods)
		if err != nil {
			return nil, fmt.Errorf("the bare client: %w", err)
		}
		b.progress(cloneSet.kind, scenario, i, "the operator")
		s, err := b.subject(ctx, cloneSet, fmt.Sprintf("replaced-%d", i), shape{pods: pods, policy: shared.RecreatePods, surge: b.options.surge})
		if err != nil {
			return nil, err
		}
		if _, err := b.start(ctx, s); err != nil {
			return nil, fmt.Errorf("starting: %w", err)
		}
		f, err := b.move(ctx, s, scenario)
		if err != nil {
			return nil, fmt.Errorf("replacing: %w", err)
		}
		f.RawSeconds = seconds
		figures = append(figures, f)
		if err := b.remove(ctx, s); err != nil {
			return nil, err
		}
	}
	f := median(figures)
	f.Note = fmt.Sprintf("maxSurge %d%%, maxUnavailable 0; at least three writes for a pod", b.options.surge)
	return []figure{f}, nil
}

func (b *run) rawReplace(ctx context.Context, i, pods int) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	r, err := b.bare(ctx, fmt.Sprintf("replaced-raw-%d", i))
	if err != nil {
		return 0, err
	}
	if _, _, err := r.start(ctx, pods, podTemplate("bench", imageBefore)); err != nil {
		return 0, err
	}
	took, err := r.replace(ctx, max(pods*b.options.surge/100, 1), podTemplate("bench", imageAfter))
	if err != nil {
		return 0, err
	}
	return took.Seconds(), r.clear(ctx)
}

// manySets starts many small CloneSets at once. The bare client makes as many sets and pods.
func (b *run) manySets(ctx context.Context) ([]figure, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	each := max(b.options.clones/b.options.sets, 1)
	pods := each * b.options.sets
	b.progress(cloneSet.kind, "many sets", 0, "the bare client")
	bare, err := b.bare(ctx, "many-raw")
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := b.rawSets(ctx, bare.namespace); err != nil {
		return nil, fmt.Errorf("the bare client: %w", err)
	}
	if _, _, err := bare.start(ctx, pods, podTemplate("bench", imageBefore)); err != nil {
		return nil, fmt.Errorf("the bare client: %w", err)
	}
	ready := time.Since(began)
	if err := b.client.DeleteAllOf(ctx, &v1beta1.CloneSet{}, client.InNamespace(bare.namespace)); err != nil {
		return nil, err
	}
	if err := bare.clear(ctx); err != nil {
		return nil, err
	}
	b.progress(cloneSet.kind, "many sets", 0, "the operator")
	first, err := b.subject(ctx, cloneSet, "many", shape{pods: each, policy: shared.InPlaceIfPossible, unavailable: b.options.unavailable})
	if err != nil {
		return nil, err
	}
	sets := make([]*subject, b.options.sets)
	names := make([]string, len(sets))
	for i := range sets {
		names[i] = strconv.Itoa(i)
		sets[i] = &subject{workload: cloneSet, pods: each, watch: first.watch, object: cloneSet.build(shape{
			namespace: first.object.GetNamespace(), name: "set-" + names[i], pods: each, policy: shared.InPlaceIfPossible, unavailable: b.options.unavailable,
		})}
	}
	f, err := b.measure(ctx, fmt.Sprintf("start %d sets of %d", len(sets), each), pods, func() (took, error) {
		began := time.Now()
		err := parallel(ctx, names, func(ctx context.Context, name string) error {
			i, err := strconv.Atoi(name)
			if err != nil {
				return err
			}
			return b.client.Create(ctx, sets[i].object)
		})
		if err != nil {
			return took{}, err
		}
		_, err = first.watch.awaitReady(ctx, pods, imageBefore)
		return took{all: time.Since(began)}, err
	}, sets...)
	f.RawSeconds = ready.Seconds()
	f.Ratio = f.Seconds / f.RawSeconds
	f.Note = "the making of the sets, their revisions and statuses included, as for the bare client"
	if err != nil {
		return nil, err
	}
	for _, s := range sets {
		if err := b.client.Delete(ctx, s.object, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
			return nil, err
		}
	}
	return []figure{f}, first.watch.clear(ctx)
}

// rawSets makes what the sets of manySets need beside their pods: the sets, which the operator leaves alone but for the one write of their
// status that says so, and a revision for each.
func (b *run) rawSets(ctx context.Context, namespace string) error {
	names := make([]string, b.options.sets)
	for i := range names {
		names[i] = fmt.Sprintf("raw-%d", i)
	}
	return parallel(ctx, names, func(ctx context.Context, name string) error {
		set := cloneSet.build(shape{namespace: namespace, name: name, pods: 1, policy: shared.InPlaceIfPossible, unavailable: b.options.unavailable})
		set.SetAnnotations(map[string]string{shared.AnnotationPaused: "true"})
		if err := b.client.Create(ctx, set); err != nil {
			return err
		}
		template, err := json.Marshal(podTemplate(name, imageBefore))
		if err != nil {
			return err
		}
		return b.client.Create(ctx, &appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(set, v1beta1.GroupVersion().WithKind(cloneSet.kind)),
			}},
			Data: runtime.RawExtension{Raw: template}, Revision: 1,
		})
	})
}

// large grows a CloneSet and measures a restart and rest with it.
func (b *run) large(ctx context.Context) ([]figure, error) {
	pods := b.options.large
	b.progress(cloneSet.kind, "a large set", 0, "the bare client")
	rawCtx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	bare, err := b.bare(rawCtx, "large-raw")
	if err != nil {
		return nil, err
	}
	_, ready, err := bare.start(rawCtx, pods, podTemplate("bench", imageBefore))
	if err != nil {
		return nil, err
	}
	if err := bare.clear(rawCtx); err != nil {
		return nil, err
	}
	b.progress(cloneSet.kind, "a large set", 0, "the operator")
	s, err := b.subject(ctx, cloneSet, "large", shape{pods: pods, policy: shared.InPlaceIfPossible, unavailable: b.options.unavailable})
	if err != nil {
		return nil, err
	}
	start, err := b.start(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("starting: %w", err)
	}
	start.RawSeconds, start.Ratio = ready.Seconds(), start.Seconds/ready.Seconds()
	figures := []figure{start}
	restart, err := b.restart(ctx, s)
	if err != nil {
		return figures, err
	}
	figures = append(figures, restart)
	idle, err := b.idle(ctx, s)
	if err != nil {
		return figures, err
	}
	return append(figures, idle), b.remove(ctx, s)
}

// subject builds a set in a namespace of its own, and does not create it yet.
func (b *run) subject(ctx context.Context, w workload, name string, of shape) (*subject, error) {
	if err := b.quiet(ctx); err != nil {
		return nil, err
	}
	namespace, err := b.namespace(ctx, name)
	if err != nil {
		return nil, err
	}
	watch, err := newRaw(ctx, b.cluster.Config(), namespace)
	if err != nil {
		return nil, err
	}
	of.namespace, of.name = namespace, "bench"
	return &subject{workload: w, object: w.build(of), pods: of.pods, watch: watch}, nil
}

// bare returns a bare client in a namespace of its own.
func (b *run) bare(ctx context.Context, name string) (*raw, error) {
	if err := b.quiet(ctx); err != nil {
		return nil, err
	}
	namespace, err := b.namespace(ctx, name)
	if err != nil {
		return nil, err
	}
	return newRaw(ctx, b.cluster.Config(), namespace)
}

// quiet waits until the cluster has done what is left of the step before, such as collecting what was deleted. Otherwise that would be counted
// against whoever comes second.
func (b *run) quiet(ctx context.Context) error {
	select {
	case <-time.After(quietTime):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// start creates the set and waits until its pods are ready.
func (b *run) start(ctx context.Context, s *subject) (figure, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	return b.measure(ctx, "start", s.pods, func() (took, error) {
		began := time.Now()
		if err := b.client.Create(ctx, s.object); err != nil {
			return took{}, err
		}
		if err := s.watch.await(ctx, func(pods int, _ map[string]int) bool { return pods == s.pods }); err != nil {
			return took{}, err
		}
		exist := time.Since(began)
		_, err := s.watch.awaitReady(ctx, s.pods, imageBefore)
		return took{exist: exist, all: time.Since(began)}, err
	}, s)
}

// move changes the image of the set and waits until its pods are ready with it, and no others are left.
func (b *run) move(ctx context.Context, s *subject, scenario string) (figure, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	return b.measure(ctx, scenario, s.pods, func() (took, error) {
		began := time.Now()
		patch := fmt.Appendf(nil, `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":%q}]}}}}`, imageAfter)
		if err := b.client.Patch(ctx, s.object, client.RawPatch(types.MergePatchType, patch)); err != nil {
			return took{}, err
		}
		half, err := s.watch.awaitReady(ctx, s.pods, imageAfter)
		all := time.Since(began)
		return took{all: all, tail: tailOf(began, half, all)}, err
	}, s)
}

// remove deletes the set and its pods and waits until they are gone.
func (b *run) remove(ctx context.Context, s *subject) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	if err := b.client.Delete(ctx, s.object, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		return err
	}
	return s.watch.clear(ctx)
}

func (b *run) progress(kind, scenario string, i int, who string) {
	fmt.Fprintf(os.Stderr, "%s, %s, run %d: %s\n", kind, scenario, i+1, who)
}

// took is how long a scenario took: until all pods existed, until its end, and how its second half compares to the first.
type took struct {
	exist, all time.Duration
	tail       float64
}

// measure runs a scenario and books what the operator asked of the server meanwhile and until the sets' statuses say it is over.
func (b *run) measure(ctx context.Context, name string, pods int, do func() (took, error), sets ...*subject) (figure, error) {
	codec, err := speed.Measure()
	if err != nil {
		return figure{}, err
	}
	if _, err := b.log.Next(audit.ByUser(operator.ServiceAccountUser)); err != nil {
		return figure{}, err
	}
	before, err := b.operator.Usage()
	if err != nil {
		return figure{}, err
	}
	t, err := do()
	if err != nil {
		return figure{}, err
	}
	for _, s := range sets {
		if err := b.settled(ctx, s); err != nil {
			return figure{}, err
		}
	}
	after, err := b.operator.Usage()
	if err != nil {
		return figure{}, err
	}
	f, err := b.requests(figure{Scenario: name, Pods: pods, Seconds: t.all.Seconds(), ExistSeconds: t.exist.Seconds(), Tail: t.tail})
	f.CPUMillisPod = float64((after.CPU - before.CPU).Milliseconds()) / float64(pods)
	f.PeakRSSMiB = float64(after.PeakRSS) / (1 << 20)
	if err != nil {
		return f, err
	}
	later, err := speed.Measure()
	f.CodecMicros = float64((codec + later).Microseconds()) / 2
	return f, err
}

// requests adds to a figure what the operator asked of the server since it was last asked.
func (b *run) requests(f figure) (figure, error) {
	events, err := b.log.Next(audit.ByUser(operator.ServiceAccountUser))
	if err != nil {
		return figure{}, err
	}
	counts := audit.Count(events)
	f.Runs = 1
	f.Writes, f.Conflicts = counts.Writes(), counts.Conflicts()
	f.WritesPerPod = float64(f.Writes) / float64(f.Pods)
	f.Requests = make(map[string]int, len(counts))
	for r, n := range counts {
		f.Requests[fmt.Sprintf("%s %s %d", r.Verb, r.Resource, r.Code)] = n
	}
	return f, nil
}

// settled waits until the set's status says that all pods are available at the update revision.
func (b *run) settled(ctx context.Context, s *subject) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := b.client.Get(ctx, client.ObjectKeyFromObject(s.object), s.object); err != nil {
			return err
		}
		done, status := s.settled(s.object)
		if done {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the status: %w; it is %+v", context.Cause(ctx), status)
		}
	}
}

// restart stops the operator gracefully while a standby waits, and measures how long it takes until somebody acts again: until a pod
// that was deleted at the same moment is back.
func (b *run) restart(ctx context.Context, s *subject) (figure, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	b.restarts++
	standby, err := operator.Start(ctx, b.cluster, operator.Options{Name: fmt.Sprintf("standby-%d", b.restarts), LeaderElect: true})
	if err != nil {
		return figure{}, fmt.Errorf("starting a standby: %w", err)
	}
	old := b.operator
	namespace, victim := s.object.GetNamespace(), s.watch.any()
	b.operator = standby
	f, err := b.measure(ctx, "graceful restart", s.pods, func() (took, error) {
		if err := old.Stop(); err != nil {
			return took{}, err
		}
		began := time.Now()
		now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0)), Preconditions: metav1.NewUIDPreconditions(string(victim.UID))}
		if err := b.core.CoreV1().Pods(namespace).Delete(ctx, victim.Name, now); err != nil {
			return took{}, err
		}
		// The pod that takes its place has its name or another, but is there.
		if err := s.watch.awaitOther(ctx, victim.UID, s.pods); err != nil {
			return took{}, err
		}
		all := time.Since(began)
		return took{all: all}, s.watch.awaitAllReady(ctx, s.pods)
	}, s)
	f.Note = "seconds until a pod deleted right after the stop is back; the writes are for that pod and the set's status"
	return f, err
}

// idle watches a new process of the operator while there is nothing to do: what is counted includes all that a start costs.
func (b *run) idle(ctx context.Context, s *subject) (figure, error) {
	if err := b.settled(ctx, s); err != nil {
		return figure{}, err
	}
	if err := b.operator.Stop(); err != nil {
		return figure{}, err
	}
	if _, err := b.log.Next(audit.ByUser(operator.ServiceAccountUser)); err != nil {
		return figure{}, err
	}
	if err := b.operator.Run(ctx); err != nil {
		return figure{}, err
	}
	select {
	case <-time.After(b.options.idle):
	case <-ctx.Done():
		return figure{}, context.Cause(ctx)
	}
	usage, err := b.operator.Usage()
	if err != nil {
		return figure{}, err
	}
	f, err := b.requests(figure{Scenario: "restart, then idle", Pods: s.pods, Seconds: b.options.idle.Seconds()})
	f.PeakRSSMiB = float64(usage.RSS) / (1 << 20)
	f.Note = fmt.Sprintf("a new process with these pods, watched for %s; RSS at the end, not the peak", b.options.idle)
	return f, err
}

func (b *run) namespace(ctx context.Context, name string) (string, error) {
	name = "bench-" + name
	_, err := b.core.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	// Pods need the namespace's default service account, which a controller creates.
	for {
		if _, err := b.core.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{}); err == nil {
			return name, nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}
