// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/audit"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
)

// unitedDeployment is the kind whose subsets are CloneSets.
var unitedDeployment = workload{
	kind: "UnitedDeployment",
	settled: func(object client.Object) (bool, string) {
		set, ok := object.(*v1beta1.UnitedDeployment)
		if !ok {
			return false, ""
		}
		for _, c := range set.Status.Conditions {
			if c.Type == v1beta1.UnitedDeploymentReconciling && c.Reason == v1beta1.ReasonComplete {
				return set.Status.ObservedGeneration == set.Generation && set.Status.ReadyReplicas == *set.Spec.Replicas, ""
			}
		}
		return false, fmt.Sprintf("%+v", set.Status)
	},
}

// buildUnited is a UnitedDeployment whose workloads are the CloneSets of a shape.
func buildUnited(of shape, subsets int) (*v1beta1.UnitedDeployment, error) {
	spec := cloneSetOf(of).Spec
	spec.Replicas, spec.Selector = nil, nil
	raw, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	labels := map[string]string{"app": of.name}
	set := &v1beta1.UnitedDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: of.namespace, Name: of.name},
		Spec: v1beta1.UnitedDeploymentSpec{
			Replicas: ptr.To(int32(of.pods * subsets)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: v1beta1.SubsetTemplate{CloneSetTemplate: &v1beta1.WorkloadTemplate{
				Metadata: metav1.ObjectMeta{Labels: labels}, Spec: runtime.RawExtension{Raw: raw},
			}},
		},
	}
	for i := range subsets {
		set.Spec.Topology.Subsets = append(set.Spec.Topology.Subsets, v1beta1.Subset{Name: fmt.Sprintf("s-%03d", i)})
	}
	return set, nil
}

func cloneSetOf(of shape) *v1beta1.CloneSet {
	set, _ := cloneSet.build(of).(*v1beta1.CloneSet) // build makes no other
	return set
}

// subsets starts a UnitedDeployment of many CloneSets, changes its image, adds a pod to each and watches it at rest. Beside its start and its
// change stand those of as many equal CloneSets alone.
func (b *run) subsets(ctx context.Context) ([]figure, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Minute)
	defer cancel()
	const start, change = "start", "another image"
	var starts, changes, grown, rests []figure
	for i := range b.options.runs {
		b.progress(unitedDeployment.kind, subsetsScenario, i, "the CloneSets alone")
		aloneStart, aloneChange, err := b.cloneSetsAlone(ctx, i)
		if err != nil {
			return nil, fmt.Errorf("the CloneSets alone: %w", err)
		}
		b.progress(unitedDeployment.kind, subsetsScenario, i, "the UnitedDeployment")
		u, err := b.united(ctx, fmt.Sprintf("united-%d", i))
		if err != nil {
			return nil, err
		}
		started, err := u.step(ctx, start, imageBefore, func() error { return b.client.Create(ctx, u.object) })
		if err != nil {
			return nil, fmt.Errorf("starting: %w", err)
		}
		started.beside(aloneStart)
		path := "/spec/template/cloneSetTemplate/spec/template/spec/containers/0/image"
		changed, err := u.step(ctx, change, imageAfter, func() error { return u.patch(ctx, "replace", path, imageAfter) })
		if err != nil {
			return nil, fmt.Errorf("changing the image: %w", err)
		}
		changed.beside(aloneChange)
		u.pods += b.options.subsets
		more, err := u.step(ctx, "one more pod each", imageAfter, func() error { return u.patch(ctx, "replace", "/spec/replicas", u.pods) })
		if err != nil {
			return nil, fmt.Errorf("scaling: %w", err)
		}
		rest, err := u.rest(ctx)
		if err != nil {
			return nil, err
		}
		starts, changes, grown, rests = append(starts, started), append(changes, changed), append(grown, more), append(rests, rest)
		if err := u.removeAll(ctx); err != nil {
			return nil, err
		}
	}
	all := []figure{median(starts), median(changes), median(grown), median(rests)}
	for i := range all {
		if all[i].RawSeconds == 0 {
			all[i].Ratio = 0
		}
	}
	return all, nil
}

// beside puts the figures of the CloneSets alone beside those of the UnitedDeployment.
func (f *figure) beside(alone figure) {
	f.RawSeconds = alone.Seconds
	f.Note += fmt.Sprintf(": %.2f ms of CPU a pod", alone.CPUMillisPod)
}

// cloneSetsAlone starts the CloneSets without a UnitedDeployment, and changes the image of all.
func (b *run) cloneSetsAlone(ctx context.Context, i int) (start, change figure, err error) {
	of := b.subsetShape()
	first, err := b.subject(ctx, cloneSet, fmt.Sprintf("united-alone-%d", i), of)
	if err != nil {
		return start, change, err
	}
	sets, names := make([]*subject, b.options.subsets), make([]string, b.options.subsets)
	for i := range sets {
		names[i] = strconv.Itoa(i)
		of.namespace, of.name = first.object.GetNamespace(), "set-"+names[i]
		sets[i] = &subject{workload: cloneSet, pods: of.pods, watch: first.watch, object: cloneSet.build(of)}
	}
	pods := of.pods * len(sets)
	each := func(image string, do func(context.Context, client.Object) error) (figure, error) {
		return b.measure(ctx, "alone", pods, func() (took, error) {
			began := time.Now()
			err := parallel(ctx, names, func(ctx context.Context, name string) error {
				at, err := strconv.Atoi(name)
				if err != nil {
					return err
				}
				return do(ctx, sets[at].object)
			})
			if err != nil {
				return took{}, err
			}
			_, err = first.watch.awaitReady(ctx, pods, image)
			return took{all: time.Since(began)}, err
		}, sets...)
	}
	if start, err = each(imageBefore, func(ctx context.Context, set client.Object) error { return b.client.Create(ctx, set) }); err != nil {
		return start, change, err
	}
	patch := client.RawPatch(types.JSONPatchType, fmt.Appendf(nil, `[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":%q}]`, imageAfter))
	if change, err = each(imageAfter, func(ctx context.Context, set client.Object) error { return b.client.Patch(ctx, set, patch) }); err != nil {
		return start, change, err
	}
	if err := b.client.DeleteAllOf(ctx, &v1beta1.CloneSet{}, client.InNamespace(of.namespace)); err != nil {
		return start, change, err
	}
	return start, change, first.watch.clear(ctx)
}

func (b *run) subsetShape() shape {
	return shape{pods: b.options.subsetPods, policy: shared.InPlaceIfPossible, unavailable: b.options.unavailable}
}

// united is a UnitedDeployment under measurement. What happens to its workloads is counted.
type united struct {
	*run
	*subject
	events atomic.Int64
	// applied is when a workload was last seen with a spec that is new, in nanoseconds since the epoch.
	applied atomic.Int64
}

func (b *run) united(ctx context.Context, name string) (*united, error) {
	namespace, err := b.namespace(ctx, name)
	if err != nil {
		return nil, err
	}
	pods, err := newRaw(ctx, b.cluster.Config(), namespace)
	if err != nil {
		return nil, err
	}
	of := b.subsetShape()
	of.namespace, of.name = namespace, "bench"
	object, err := buildUnited(of, b.options.subsets)
	if err != nil {
		return nil, err
	}
	u := &united{run: b, subject: &subject{workload: unitedDeployment, object: object, pods: of.pods * b.options.subsets, watch: pods}}
	watching, err := client.NewWithWatch(b.cluster.Config(), client.Options{Scheme: b.client.Scheme()})
	if err != nil {
		return nil, err
	}
	w, err := watching.Watch(ctx, &v1beta1.CloneSetList{}, client.InNamespace(namespace))
	if err != nil {
		return nil, err
	}
	go u.count(w)
	return u, nil
}

// count counts what happens to the workloads, and notes when their specs change.
func (u *united) count(w watch.Interface) {
	generations := map[string]int64{}
	for event := range w.ResultChan() {
		if event.Type != watch.Added && event.Type != watch.Modified && event.Type != watch.Deleted {
			continue
		}
		u.events.Add(1)
		if set, ok := event.Object.(*v1beta1.CloneSet); ok && generations[set.Name] != set.Generation {
			generations[set.Name] = set.Generation
			u.applied.Store(time.Now().UnixNano())
		}
	}
}

func (u *united) patch(ctx context.Context, op, path string, value any) error {
	body, err := json.Marshal([]map[string]any{{"op": op, "path": path, "value": value}})
	if err != nil {
		return err
	}
	return u.client.Patch(ctx, u.object, client.RawPatch(types.JSONPatchType, body))
}

// step changes the UnitedDeployment, waits until all pods are ready with the image, and says what it cost.
func (u *united) step(ctx context.Context, name, image string, change func() error) (figure, error) {
	reconciles, err := u.reconciles(ctx)
	if err != nil {
		return figure{}, err
	}
	events := u.events.Load()
	var began, taken time.Time
	f, err := u.measure(ctx, name, u.pods, func() (took, error) {
		began = time.Now()
		if err := change(); err != nil {
			return took{}, err
		}
		taken = time.Now()
		_, err := u.watch.awaitReady(ctx, u.pods, image)
		return took{all: time.Since(began)}, err
	}, u.subject)
	if err != nil {
		return f, err
	}
	now, err := u.reconciles(ctx)
	f.Note = fmt.Sprintf("%d writes of %d workloads, the change taken after %.1f s and the last of them after %.1f s; %d reconciles for %d events of them; raw: as many CloneSets alone",
		f.Requests["patch clonesets 200"]+f.Requests["patch clonesets 201"], u.options.subsets, taken.Sub(began).Seconds(),
		time.Unix(0, u.applied.Load()).Sub(began).Seconds(), now-reconciles, u.events.Load()-events)
	return f, err
}

// removeAll deletes the UnitedDeployment, its workloads and their pods.
func (u *united) removeAll(ctx context.Context) error {
	if err := u.client.Delete(ctx, u.object, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		return err
	}
	if err := u.client.DeleteAllOf(ctx, &v1beta1.CloneSet{}, client.InNamespace(u.object.GetNamespace())); err != nil {
		return err
	}
	return u.watch.clear(ctx)
}

// rest watches the operator while there is nothing to do.
func (u *united) rest(ctx context.Context) (figure, error) {
	if _, err := u.log.Next(audit.ByUser(operator.ServiceAccountUser)); err != nil {
		return figure{}, err
	}
	reconciles, err := u.reconciles(ctx)
	if err != nil {
		return figure{}, err
	}
	select {
	case <-time.After(u.options.idle):
	case <-ctx.Done():
		return figure{}, context.Cause(ctx)
	}
	f, err := u.requests(figure{Scenario: "at rest", Pods: u.pods, Seconds: u.options.idle.Seconds()})
	if err != nil {
		return f, err
	}
	usage, err := u.operator.Usage()
	if err != nil {
		return f, err
	}
	f.PeakRSSMiB = float64(usage.RSS) / (1 << 20)
	now, err := u.reconciles(ctx)
	f.Note = fmt.Sprintf("%d writes and %d reconciles in %s", f.Writes, now-reconciles, u.options.idle)
	return f, err
}

// reconciles is how many passes over UnitedDeployments there were.
func (u *united) reconciles(ctx context.Context) (int, error) {
	return u.operator.Reconciles(ctx, "uniteddeployment-controller")
}
