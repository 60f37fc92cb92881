// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/ordinal"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset/podsettest"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
)

// small is a set as far as an exploration needs it.
type small struct {
	replicas, partition, max int32
	reserve                  int32 // an ordinal; -1 for none
	image, current           string
	ordered                  bool
	policy                   shared.PodUpdatePolicy
	preDelete, inPlaceUpdate bool // hooks
}

func (s small) hooks() *shared.Lifecycle {
	var l shared.Lifecycle
	if s.preDelete {
		l.PreDelete = finalizerHook("example.io/delete")
	}
	if s.inPlaceUpdate {
		l.InPlaceUpdate = finalizerHook("example.io/update")
	}
	return &l
}

func (s small) template(image string) *corev1.PodTemplateSpec {
	template := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web:" + image}}},
	}
	if s.preDelete {
		template.Finalizers = append(template.Finalizers, "example.io/delete")
	}
	if s.inPlaceUpdate {
		template.Finalizers = append(template.Finalizers, "example.io/update")
	}
	return template
}

func (s small) set() *appsv1beta1.StatefulSet {
	set := &appsv1beta1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "set-uid"}}
	set.Spec.Replicas = &s.replicas
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	set.Spec.Template = *s.template(s.image)
	set.Spec.Lifecycle = s.hooks()
	if s.reserve >= 0 {
		set.Spec.ReserveOrdinals = []intstr.IntOrString{intstr.FromInt32(s.reserve)}
	}
	if !s.ordered {
		set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
	}
	set.Spec.UpdateStrategy.RollingUpdate = &appsv1beta1.RollingUpdateStatefulSetStrategy{
		Partition: &s.partition, MaxUnavailable: ptr.To(intstr.FromInt32(s.max)), PodUpdatePolicy: s.policy,
	}
	set.Status.CurrentRevision = s.current
	return set
}

func (s small) wanted() []string {
	var names []string
	for o := int32(0); int32(len(names)) < s.replicas; o++ {
		if o != s.reserve {
			names = append(names, ordinal.PodName("web", int(o)))
		}
	}
	return names
}

func (s small) revisions() map[string]revision.Revision {
	all := map[string]revision.Revision{}
	for _, image := range []string{"1", "2", "3"} {
		all["web-"+image] = revision.Revision{Name: "web-" + image, Template: s.template(image)}
	}
	return all
}

// step is one pass over a small set.
func step(w *podsettest.World[small]) (podset.Plan, small) {
	set, o := w.Set.set(), Options{AutoDeletePVC: true, PodIndexLabel: true}
	revisions := w.Set.revisions()
	update := revisions["web-"+w.Set.image]
	s := podset.Snapshot{
		Now: podsettest.Now(), Pods: Pods(set, w.Pods, podsettest.Now(), o), Claims: w.ClaimsByName(),
		Update: update, Current: CurrentRevision(set, update, revisions), Revisions: revisions,
	}
	plan := Plan(set, s, o)
	after := w.Set
	after.current = Status(set, s, plan, podset.Outcome{}, o).CurrentRevision
	return plan, after
}

// done says that every wanted pod, and no other, runs what it should and is available.
func done(w *podsettest.World[small], plan podset.Plan) bool {
	if len(plan.Actions) > 0 || len(w.Pods) != int(w.Set.replicas) {
		return false
	}
	for rank, name := range w.Set.wanted() {
		pod := w.Pod(name)
		if pod == nil || !podsettest.Available(pod, 0) {
			return false
		}
		if rank >= int(w.Set.partition) && !podsettest.Runs(pod, "web-"+w.Set.image, w.Set.template(w.Set.image)) {
			return false
		}
	}
	return true
}

// TestExplore visits every world that small sets can get into, and shows that the limit holds in each of them and that the set
// finds its way out of each.
func TestExplore(t *testing.T) {
	harm := []podsettest.Move{podsettest.Crash, podsettest.Kill, podsettest.Evict, podsettest.Ask}
	cases := map[string]struct {
		start      small
		changes    func(small) []podsettest.Change[small]
		neverReady []string
		maxHarm    int
	}{
		"Parallel, recreate, image and partition change": {
			start:   small{replicas: 2, max: 1, reserve: -1, image: "1", policy: shared.RecreatePods},
			maxHarm: 1, changes: func(s small) []podsettest.Change[small] {
				if s.image != "1" {
					return nil
				}
				all, canary := s, s
				all.image = "2"
				canary.image, canary.partition = "2", 1
				return []podsettest.Change[small]{{Name: "image 2", To: all}, {Name: "image 2 for one pod", To: canary}}
			},
		},
		"Parallel, in place, a broken image is fixed": {
			start:      small{replicas: 2, max: 1, reserve: -1, image: "1", policy: shared.InPlaceIfPossible},
			neverReady: []string{"web:2"}, changes: func(s small) []podsettest.Change[small] {
				switch next := s; s.image {
				case "1":
					next.image = "2"
					return []podsettest.Change[small]{{Name: "the broken image", To: next}}
				case "2":
					next.image = "3"
					return []podsettest.Change[small]{{Name: "the fixed image", To: next}}
				}
				return nil
			},
		},
		"Parallel, in place, both hooks": {
			start: small{replicas: 1, max: 1, reserve: -1, image: "1", policy: shared.InPlaceIfPossible, preDelete: true, inPlaceUpdate: true},
			changes: func(s small) []podsettest.Change[small] {
				if s.image != "1" {
					back := s
					back.image = "1"
					return []podsettest.Change[small]{{Name: "back to image 1", To: back}}
				}
				next := s
				next.image = "2"
				return []podsettest.Change[small]{{Name: "image 2", To: next}}
			},
		},
		"OrderedReady, recreate, image change and scale in": {
			start:   small{replicas: 3, max: 1, reserve: -1, image: "1", ordered: true, policy: shared.RecreatePods},
			maxHarm: 1, changes: func(s small) []podsettest.Change[small] {
				if s.image != "1" || s.replicas != 3 {
					return nil
				}
				next, fewer := s, s
				next.image = "2"
				fewer.replicas = 1
				return []podsettest.Change[small]{{Name: "image 2", To: next}, {Name: "one replica", To: fewer}}
			},
		},
		"OrderedReady, scale in through the preDelete hook": {
			start: small{replicas: 3, max: 1, reserve: -1, image: "1", ordered: true, policy: shared.RecreatePods, preDelete: true},
			changes: func(s small) []podsettest.Change[small] {
				next := s
				next.replicas = 4 - s.replicas
				return []podsettest.Change[small]{{Name: "other replicas", To: next}}
			},
		},
		"Parallel and reserved ordinals": {
			start:   small{replicas: 2, max: 1, reserve: -1, image: "1", policy: shared.RecreatePods},
			maxHarm: 1, changes: func(s small) []podsettest.Change[small] {
				next := s
				next.reserve = 1
				return []podsettest.Change[small]{{Name: "ordinal 1 is reserved", To: next}}
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			podsettest.Explore(t, podsettest.Exploration[small]{
				Start:   []*podsettest.World[small]{{Set: tc.start}},
				Step:    step,
				Cluster: podsettest.Cluster{Hooks: tc.start.hooks(), NeverReady: tc.neverReady},
				Harm:    harm, MaxHarm: tc.maxHarm,
				Changes: func(w *podsettest.World[small]) []podsettest.Change[small] { return tc.changes(w.Set) },
				Always: []podsettest.Invariant[small]{
					podsettest.AtMostUnavailable(func(s small) podsettest.Bounds {
						return podsettest.Bounds{Wanted: s.wanted(), Max: int(s.max)}
					}),
					podsettest.OnlyWanted(small.wanted),
					podsettest.OneActionEach[small](),
					podsettest.HooksHold[small](tc.start.hooks()),
					podsettest.NothingNeedless(func(w *podsettest.World[small], pod *corev1.Pod) bool {
						_, asked := pod.Labels[shared.LabelSpecifiedDelete]
						wanted := false
						for _, name := range w.Set.wanted() {
							wanted = wanted || name == pod.Name
						}
						return asked || !wanted || pod.Status.Phase == corev1.PodFailed || pod.Labels[shared.LabelControllerRevisionHash] != "web-"+w.Set.image
					}),
				},
				Goal: func(w *podsettest.World[small], plan podset.Plan) bool {
					// A broken image never gets ready; that it can be fixed is what counts.
					for _, image := range tc.neverReady {
						if "web:"+w.Set.image == image {
							return true
						}
					}
					return done(w, plan)
				},
			})
		})
	}
}
