// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
	"github.com/kruise-operator/kruise-operator/tests/framework/audit"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
)

// run holds what the scenarios share.
type run struct {
	options  options
	cluster  *cluster.Cluster
	operator *operator.Operator
	core     *kubernetes.Clientset
	client   client.Client
	log      *audit.Log
}

func (b *run) connect() error {
	var err error
	if b.core, err = kubernetes.NewForConfig(b.cluster.Config()); err != nil {
		return err
	}
	types, err := scheme.New()
	if err != nil {
		return err
	}
	if b.client, err = client.New(b.cluster.Config(), client.Options{Scheme: types}); err != nil {
		return err
	}
	b.log, err = audit.Open(b.cluster.AuditLog())
	return err
}

func (b *run) all(ctx context.Context) ([]figure, error) {
	var figures []figure
	var starts, updates []figure
	for i := range b.options.runs {
		fmt.Fprintf(os.Stderr, "run %d of %d: the bare client\n", i+1, b.options.runs)
		raw, err := b.raw(ctx, i)
		if err != nil {
			return figures, fmt.Errorf("the bare client: %w", err)
		}
		fmt.Fprintf(os.Stderr, "run %d of %d: the operator\n", i+1, b.options.runs)
		start, update, err := b.rollout(ctx, i, i == b.options.runs-1)
		if err != nil {
			return figures, err
		}
		start.RawSeconds, start.RawExistSeconds, update.RawSeconds = raw.ready, raw.exist, raw.update
		starts, updates = append(starts, start), append(updates, update)
	}
	figures = append(figures, median(starts), median(updates))
	restart, err := b.restart(ctx)
	if err != nil {
		return figures, err
	}
	figures = append(figures, restart)
	idle, err := b.idle(ctx)
	if err != nil {
		return figures, err
	}
	return append(figures, idle), nil
}

// median takes the run in the middle, by seconds, with the bare client's own median beside it.
func median(figures []figure) figure {
	bySeconds := func(get func(figure) float64) float64 {
		sorted := slices.SortedFunc(slices.Values(figures), func(a, b figure) int { return cmp.Compare(get(a), get(b)) })
		return get(sorted[len(sorted)/2])
	}
	raw := bySeconds(func(f figure) float64 { return f.RawSeconds })
	rawExist := bySeconds(func(f figure) float64 { return f.RawExistSeconds })
	slices.SortFunc(figures, func(a, b figure) int { return cmp.Compare(a.Seconds, b.Seconds) })
	f := figures[len(figures)/2]
	f.Runs, f.RawSeconds, f.RawExistSeconds, f.Ratio = len(figures), raw, rawExist, f.Seconds/raw
	return f
}

type rawFigures struct{ exist, ready, update float64 }

func (b *run) raw(ctx context.Context, i int) (rawFigures, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	namespace, err := b.namespace(ctx, fmt.Sprintf("raw-%d", i))
	if err != nil {
		return rawFigures{}, err
	}
	r, err := newRaw(ctx, b.cluster.Config(), namespace)
	if err != nil {
		return rawFigures{}, err
	}
	exist, ready, err := r.start(ctx, b.options.pods, podTemplate("example/app:v1"))
	if err != nil {
		return rawFigures{}, err
	}
	update, err := r.update(ctx, b.window(), "example/app:v2")
	if err != nil {
		return rawFigures{}, err
	}
	return rawFigures{exist.Seconds(), ready.Seconds(), update.Seconds()}, r.clear(ctx)
}

func (b *run) window() int { return max(b.options.pods*b.options.unavailable/100, 1) }

// rollout starts a set and moves it to another image, and measures both. The last set stays for the scenarios that follow.
func (b *run) rollout(ctx context.Context, i int, keep bool) (start, update figure, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	namespace, err := b.namespace(ctx, fmt.Sprintf("set-%d", i))
	if err != nil {
		return start, update, err
	}
	watch, err := newRaw(ctx, b.cluster.Config(), namespace)
	if err != nil {
		return start, update, err
	}
	set := &v1beta1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bench"}}
	set.Spec = v1beta1.StatefulSetSpec{
		Replicas:            ptr.To(int32(b.options.pods)),
		Selector:            &metav1.LabelSelector{MatchLabels: map[string]string{"app": "bench"}},
		Template:            podTemplate("example/app:v1"),
		ServiceName:         "bench",
		PodManagementPolicy: appsv1.ParallelPodManagement,
		UpdateStrategy: v1beta1.StatefulSetUpdateStrategy{RollingUpdate: &v1beta1.RollingUpdateStatefulSetStrategy{
			PodUpdatePolicy: shared.InPlaceIfPossible,
			MaxUnavailable:  ptr.To(intstr.FromString(strconv.Itoa(b.options.unavailable) + "%")),
		}},
	}
	start, err = b.measure(ctx, "start", func() (exist, done time.Duration, err error) {
		began := time.Now()
		if err := b.client.Create(ctx, set); err != nil {
			return 0, 0, err
		}
		if err := watch.await(ctx, func(pods map[string]*corev1.Pod) bool { return len(pods) == b.options.pods }); err != nil {
			return 0, 0, err
		}
		exist = time.Since(began)
		err = watch.await(ctx, func(pods map[string]*corev1.Pod) bool { return countReady(pods, "") == b.options.pods })
		return exist, time.Since(began), err
	}, set)
	if err != nil {
		return start, update, fmt.Errorf("starting: %w", err)
	}
	update, err = b.measure(ctx, "update in place", func() (exist, done time.Duration, err error) {
		began := time.Now()
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"example/app:v2"}]}}}}`))
		if err := b.client.Patch(ctx, set, patch); err != nil {
			return 0, 0, err
		}
		err = watch.await(ctx, func(pods map[string]*corev1.Pod) bool {
			return countReady(pods, "example/app:v2") == b.options.pods
		})
		return 0, time.Since(began), err
	}, set)
	if err != nil {
		return start, update, fmt.Errorf("updating: %w", err)
	}
	if keep {
		return start, update, nil
	}
	if err := b.client.Delete(ctx, set, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		return start, update, err
	}
	return start, update, watch.clear(ctx)
}

// measure runs a scenario and books what the operator asked of the server meanwhile and until the set's status says it is over.
func (b *run) measure(ctx context.Context, name string, do func() (exist, done time.Duration, err error), set *v1beta1.StatefulSet) (figure, error) {
	if _, err := b.log.Next(audit.ByUser(operator.ServiceAccountUser)); err != nil {
		return figure{}, err
	}
	before, err := b.operator.Usage()
	if err != nil {
		return figure{}, err
	}
	exist, done, err := do()
	if err != nil {
		return figure{}, err
	}
	if set != nil {
		if err := b.settled(ctx, set); err != nil {
			return figure{}, err
		}
	}
	after, err := b.operator.Usage()
	if err != nil {
		return figure{}, err
	}
	f, err := b.requests(figure{Scenario: name, Seconds: done.Seconds(), ExistSeconds: exist.Seconds()})
	f.CPUMillisPod = float64((after.CPU - before.CPU).Milliseconds()) / float64(b.options.pods)
	f.PeakRSSMiB = float64(after.PeakRSS) / (1 << 20)
	return f, err
}

// requests adds to a figure what the operator asked of the server since it was last asked.
func (b *run) requests(f figure) (figure, error) {
	events, err := b.log.Next(audit.ByUser(operator.ServiceAccountUser))
	if err != nil {
		return figure{}, err
	}
	counts := audit.Count(events)
	f.Pods, f.Runs = b.options.pods, 1
	f.Writes, f.Conflicts = counts.Writes(), counts.Conflicts()
	f.WritesPerPod = float64(f.Writes) / float64(f.Pods)
	f.Requests = make(map[string]int, len(counts))
	for r, n := range counts {
		f.Requests[fmt.Sprintf("%s %s %d", r.Verb, r.Resource, r.Code)] = n
	}
	return f, nil
}

// settled waits until the set's status says that all pods are available at the update revision.
func (b *run) settled(ctx context.Context, set *v1beta1.StatefulSet) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := b.client.Get(ctx, client.ObjectKeyFromObject(set), set); err != nil {
			return err
		}
		s := set.Status
		if s.ObservedGeneration == set.Generation && s.UpdatedAvailableReplicas == *set.Spec.Replicas && s.CurrentRevision == s.UpdateRevision {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the status: %w; it is %+v", context.Cause(ctx), s)
		}
	}
}

// restart stops the operator gracefully while a standby waits, and measures how long it takes until somebody acts again: until a pod
// that was deleted at the same moment is back.
func (b *run) restart(ctx context.Context) (figure, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	namespace := fmt.Sprintf("bench-set-%d", b.options.runs-1)
	standby, err := operator.Start(ctx, b.cluster, operator.Options{Name: "standby", LeaderElect: true})
	if err != nil {
		return figure{}, fmt.Errorf("starting a standby: %w", err)
	}
	old := b.operator
	victim, err := b.core.CoreV1().Pods(namespace).Get(ctx, "bench-0", metav1.GetOptions{})
	if err != nil {
		return figure{}, err
	}
	b.operator = standby
	f, err := b.measure(ctx, "graceful restart", func() (exist, done time.Duration, err error) {
		if err := old.Stop(); err != nil {
			return 0, 0, err
		}
		began := time.Now()
		none := int64(0)
		if err := b.core.CoreV1().Pods(namespace).Delete(ctx, victim.Name, metav1.DeleteOptions{GracePeriodSeconds: &none}); err != nil {
			return 0, 0, err
		}
		for {
			pod, err := b.core.CoreV1().Pods(namespace).Get(ctx, victim.Name, metav1.GetOptions{})
			if err == nil && pod.UID != victim.UID {
				return 0, time.Since(began), nil
			}
			if err != nil && !apierrors.IsNotFound(err) {
				return 0, 0, err
			}
			select {
			case <-ctx.Done():
				return 0, 0, context.Cause(ctx)
			case <-time.After(10 * time.Millisecond):
			}
		}
	}, nil)
	f.Note = "seconds until a pod deleted right after the stop is back; the writes are for that pod and the set's status"
	return f, err
}

// idle watches a new process of the operator while there is nothing to do: what is counted includes all that a start costs.
func (b *run) idle(ctx context.Context) (figure, error) {
	set := &v1beta1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("bench-set-%d", b.options.runs-1), Name: "bench"}}
	if err := b.settled(ctx, set); err != nil {
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
	f, err := b.requests(figure{Scenario: "restart, then idle", Seconds: b.options.idle.Seconds()})
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
