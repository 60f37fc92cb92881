// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	engineimage "github.com/kruise-operator/kruise-operator/internal/engine/image"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
)

// list is a NodeImage with one tag asked for ten minutes before noon.
func list(change func(*appsv1beta1.ImageTagSpec), answer *appsv1beta1.ImageTagStatus) *appsv1beta1.NodeImage {
	tag := appsv1beta1.ImageTagSpec{
		Tag: "1", CreatedAt: ptr.To(metav1.NewTime(noon().Add(-10 * time.Minute))),
		PullPolicy:      &appsv1beta1.ImageTagPullPolicy{TTLSecondsAfterFinished: ptr.To(int32(60))},
		OwnerReferences: []corev1.ObjectReference{{Kind: "ImagePullJob", UID: "a"}, {Kind: "ImagePullJob", UID: "b"}},
	}
	change(&tag)
	image := &appsv1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u", ResourceVersion: "7", Labels: map[string]string{"a": "b"}}}
	image.Spec.Images = map[string]appsv1beta1.ImageSpec{"nginx": {Tags: []appsv1beta1.ImageTagSpec{tag}}}
	if answer != nil {
		image.Status.ImageStatuses = map[string]appsv1beta1.ImageStatus{"nginx": {Tags: []appsv1beta1.ImageTagStatus{*answer}}}
	}
	return image
}

func noon() time.Time { return time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC) }

func endedBefore(ago time.Duration) *appsv1beta1.ImageTagStatus {
	return &appsv1beta1.ImageTagStatus{Tag: "1", Phase: appsv1beta1.ImagePhaseSucceeded, CompletionTime: ptr.To(metav1.NewTime(noon().Add(-ago)))}
}

func pullingFor(long time.Duration) *appsv1beta1.ImageTagStatus {
	return &appsv1beta1.ImageTagStatus{Tag: "1", Phase: appsv1beta1.ImagePhasePulling, StartTime: ptr.To(metav1.NewTime(noon().Add(-long)))}
}

func bodyOf(t *testing.T, a planning.Action) map[string]any {
	t.Helper()
	text, err := a.Change.Requests(a.Object)[0].Body(planning.Version{})
	if err != nil {
		t.Fatal(err)
	}
	var body map[string]any
	if err := json.Unmarshal(text, &body); err != nil {
		t.Fatal(err)
	}
	return body
}

// A hand-written tag is pulled in the node daemon's default mode, too; and no daemon stays for an ended one.
func TestATagWrittenByHandNeedsTheNodeDaemon(t *testing.T) {
	byHand := func(change func(*appsv1beta1.ImageTagSpec)) func(*appsv1beta1.ImageTagSpec) {
		return func(s *appsv1beta1.ImageTagSpec) {
			s.CreatedAt, s.OwnerReferences = ptr.To(metav1.NewTime(noon().Add(-time.Minute))), nil
			change(s)
		}
	}
	as := func(*appsv1beta1.ImageTagSpec) {}
	for name, tc := range map[string]struct {
		image   *appsv1beta1.NodeImage
		noNode  bool
		virtual bool
		want    bool
	}{
		"written a minute ago":          {image: list(byHand(as), nil), want: true},
		"it is being pulled":            {image: list(byHand(as), pullingFor(time.Minute)), want: true},
		"signed by something but a job": {image: list(byHand(func(s *appsv1beta1.ImageTagSpec) { s.OwnerReferences = []corev1.ObjectReference{{Kind: "CloneSet"}} }), nil), want: true},
		"it is to be pulled once more":  {image: list(byHand(func(s *appsv1beta1.ImageTagSpec) { s.Version = 1 }), endedBefore(0)), want: true},
		"it has ended":                  {image: list(byHand(as), endedBefore(0))},
		"it is to be given up":          {image: list(byHand(func(s *appsv1beta1.ImageTagSpec) { s.CreatedAt = ptr.To(metav1.NewTime(noon().Add(-10 * time.Minute))) }), nil)},
		"it goes, as it has no time":    {image: list(byHand(func(s *appsv1beta1.ImageTagSpec) { s.CreatedAt = nil }), nil)},
		"a job has the daemon by itself": {image: list(byHand(func(s *appsv1beta1.ImageTagSpec) {
			s.OwnerReferences = []corev1.ObjectReference{{Kind: "ImagePullJob"}}
		}), nil)},
		"there is no such node":     {image: list(byHand(as), nil), noNode: true},
		"the node is a virtual one": {image: list(byHand(as), nil), virtual: true},
		"its node is gone, and it stays": {image: func() *appsv1beta1.NodeImage {
			image := list(byHand(as), nil)
			image.Labels[LabelFake] = "true"
			return image
		}(), noNode: true},
	} {
		t.Run(name, func(t *testing.T) {
			never := func(corev1.ObjectReference) bool { return false }
			d := Plan(tc.image, Snapshot{Now: noon(), Node: !tc.noNode, Virtual: tc.virtual, Labels: tc.image.Labels, Gone: never, Working: never})
			if d.NeedsDaemon != tc.want {
				t.Errorf("it needs the daemon: %t, want %t", d.NeedsDaemon, tc.want)
			}
		})
	}
}

func TestPlan(t *testing.T) {
	as := func(*appsv1beta1.ImageTagSpec) {}
	yesterday := func(s *appsv1beta1.ImageTagSpec) { s.CreatedAt = ptr.To(metav1.NewTime(noon().Add(-24 * time.Hour))) }
	for name, tc := range map[string]struct {
		image   *appsv1beta1.NodeImage
		gone    map[types.UID]bool
		working bool
		noNode  bool
		want    planning.Step
		images  any
		recheck time.Duration
	}{
		"a tag that has ended lately stays":    {image: list(as, endedBefore(time.Second)), recheck: 59 * time.Second},
		"a tag goes when it has expired":       {image: list(as, endedBefore(time.Minute)), want: StepPrune, images: map[string]any{"nginx": nil}},
		"a tag of another round has not ended": {image: list(func(s *appsv1beta1.ImageTagSpec) { s.Version = 1; s.CreatedAt = ptr.To(metav1.NewTime(noon())) }, endedBefore(time.Hour)), recheck: 10 * time.Minute},
		"a tag that does not say when it was asked for goes": {
			image: list(func(s *appsv1beta1.ImageTagSpec) { s.CreatedAt, s.OwnerReferences = nil, nil }, nil), want: StepPrune, images: map[string]any{"nginx": nil},
		},
		"a tag goes with the last of its jobs": {image: list(as, endedBefore(0)), gone: map[types.UID]bool{"a": true, "b": true}, want: StepPrune, images: map[string]any{"nginx": nil}},
		"a tag that never had a job stays":     {image: list(func(s *appsv1beta1.ImageTagSpec) { s.OwnerReferences = nil }, endedBefore(0)), recheck: time.Minute},
		"a silent node is given up":            {image: list(as, nil), want: StepGiveUp},
		"a list without a node goes":           {image: list(as, endedBefore(0)), noNode: true, want: StepDelete},
		"a tag stays while one of its jobs is at work": {
			image: list(as, endedBefore(time.Hour)), working: true, recheck: time.Minute,
		},
		"a tag that waits for its turn is not silent": {
			image: list(as, &appsv1beta1.ImageTagStatus{Tag: "1", Phase: appsv1beta1.ImagePhaseWaiting}), recheck: 24*time.Hour - 10*time.Minute,
		},
		"a node that pulls for long is not silent": {
			image: list(yesterday, pullingFor(4*10*time.Minute+3*30*time.Second+9*time.Minute)), recheck: time.Minute,
		},
		"a node that pulls for longer than all of its tries is given up": {
			image: list(yesterday, pullingFor(4*10*time.Minute+3*30*time.Second+10*time.Minute)), want: StepGiveUp,
		},
		"a node whose clock is behind by hours is not late": {
			image: list(func(s *appsv1beta1.ImageTagSpec) { s.PullPolicy.ActiveDeadlineSeconds = ptr.To(int64(60)) }, pullingFor(5*time.Hour)), recheck: time.Minute,
		},
		"nor is one whose tries have no deadline": {
			image: list(as, pullingFor(5*time.Hour)), recheck: 4*10*time.Minute + 3*30*time.Second,
		},
		"the time that a tag waits for its turn is no part of its deadline": {
			image: list(func(s *appsv1beta1.ImageTagSpec) { s.PullPolicy.ActiveDeadlineSeconds = ptr.To(int64(0)) },
				&appsv1beta1.ImageTagStatus{Tag: "1", Phase: appsv1beta1.ImagePhaseWaiting}),
			recheck: 24*time.Hour - 10*time.Minute,
		},
		"nor is the time that it has waited": {
			image:   list(func(s *appsv1beta1.ImageTagSpec) { s.PullPolicy.ActiveDeadlineSeconds = ptr.To(int64(60)) }, pullingFor(time.Minute)),
			recheck: 10 * time.Minute,
		},
		"a deadline that is longer than time can say is none": {
			image:   list(func(s *appsv1beta1.ImageTagSpec) { s.PullPolicy.ActiveDeadlineSeconds = ptr.To(int64(math.MaxInt64)) }, pullingFor(time.Minute)),
			recheck: 4*10*time.Minute + 3*30*time.Second + 9*time.Minute,
		},
		"a node over its deadline is given up": {
			image: list(func(s *appsv1beta1.ImageTagSpec) { s.PullPolicy.ActiveDeadlineSeconds = ptr.To(int64(0)) },
				&appsv1beta1.ImageTagStatus{Tag: "1", Phase: appsv1beta1.ImagePhasePulling}),
			want: StepGiveUp,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := Plan(tc.image, Snapshot{
				Now: noon(), Node: !tc.noNode, Labels: map[string]string{"a": "b"}, Gone: func(o corev1.ObjectReference) bool { return tc.gone[o.UID] },
				Working: func(o corev1.ObjectReference) bool { return tc.working && o.UID == "b" },
			})
			if d.RecheckAfter != tc.recheck {
				t.Errorf("looked at again after %s, want %s", d.RecheckAfter, tc.recheck)
			}
			if tc.want == "" {
				if len(d.Actions) > 0 {
					t.Errorf("actions %+v", d.Actions)
				}
				return
			}
			if len(d.Actions) != 1 || d.Actions[0].Step != tc.want {
				t.Fatalf("actions %+v, want %s", d.Actions, tc.want)
			}
			if tc.images != nil {
				spec, _ := bodyOf(t, d.Actions[0])["spec"].(map[string]any)
				if diff := cmp.Diff(tc.images, spec["images"]); diff != "" {
					t.Errorf("images:\n%s", diff)
				}
			}
		})
	}
}

// Tags kept apart for a namespace are counted, expire and fail like others.
func TestTagsThatAreKeptApartForANamespaceEnd(t *testing.T) {
	apart := func(answer *appsv1beta1.ImageTagStatus) *appsv1beta1.NodeImage {
		image := list(func(*appsv1beta1.ImageTagSpec) {}, endedBefore(time.Second))
		image.Spec.NamespacedImages = map[string]appsv1beta1.ImageSpec{"b/nginx": image.Spec.Images["nginx"]}
		if answer != nil {
			image.Status.NamespacedImageStatuses = map[string]appsv1beta1.ImageStatus{"b/nginx": {Tags: []appsv1beta1.ImageTagStatus{*answer}}}
		}
		return image
	}
	never := func(corev1.ObjectReference) bool { return false }
	s := Snapshot{Now: noon(), Node: true, Labels: map[string]string{"a": "b"}, Gone: never, Working: never}
	expired := Plan(apart(endedBefore(time.Hour)), s)
	want := any(map[string]any{"namespacedImages": map[string]any{"b/nginx": nil}})
	if diff := cmp.Diff(want, bodyOf(t, expired.Actions[0])["spec"]); diff != "" {
		t.Error(diff)
	}
	silent := Plan(apart(nil), s)
	status := bodyOf(t, silent.Actions[0])["status"].(map[string]any)
	if status["desired"] != 2.0 || status["succeeded"] != 1.0 || status["failed"] != 1.0 || len(silent.GivenUp) != 1 {
		t.Errorf("%v", status)
	}
}

func TestOneJobOfTwoIsGone(t *testing.T) {
	d := Plan(list(func(*appsv1beta1.ImageTagSpec) {}, endedBefore(0)), Snapshot{
		Now: noon(), Node: true, Labels: map[string]string{"a": "c", "x": "y"}, Gone: func(o corev1.ObjectReference) bool { return o.UID == "a" },
	})
	if len(d.Actions) != 1 {
		t.Fatalf("%d writes for owners and labels, want 1", len(d.Actions))
	}
	body := bodyOf(t, d.Actions[0])
	labels := map[string]any{"uid": "u", "resourceVersion": "7", "labels": map[string]any{"a": "c", "x": "y"}}
	if diff := cmp.Diff(labels, body["metadata"]); diff != "" {
		t.Errorf("metadata:\n%s", diff)
	}
	tags := body["spec"].(map[string]any)["images"].(map[string]any)["nginx"].(map[string]any)["tags"].([]any)
	if owners := tags[0].(map[string]any)["ownerReferences"].([]any); len(owners) != 1 || owners[0].(map[string]any)["uid"] != "b" {
		t.Errorf("owners %v", owners)
	}
}

func TestASilentNodeIsGivenUpInItsStatus(t *testing.T) {
	d := Plan(list(func(*appsv1beta1.ImageTagSpec) {}, nil), Snapshot{
		Now: noon(), Node: true, Labels: map[string]string{"a": "b"}, Gone: func(corev1.ObjectReference) bool { return false },
	})
	status := bodyOf(t, d.Actions[0])["status"].(map[string]any)
	if status["failed"] != 1.0 || status["desired"] != 1.0 || status["waiting"] != 0.0 && status["waiting"] != nil {
		t.Errorf("status %v", status)
	}
	want := []GivenUp{{
		Name: "nginx:1", Message: "node has not responded for a long time",
		Jobs: []corev1.ObjectReference{{Kind: "ImagePullJob", UID: "a"}, {Kind: "ImagePullJob", UID: "b"}},
	}}
	if diff := cmp.Diff(want, d.GivenUp); diff != "" {
		t.Error(diff)
	}
}

// A hand-written tag failed as if its node were broken, where nobody was ever to pull.
func TestATagThatNobodyPullsSaysWhy(t *testing.T) {
	for name, tc := range map[string]struct {
		snapshot Snapshot
		want     string
	}{
		"the node daemon is switched off": {Snapshot{DaemonOff: true}, "node has not responded for a long time: the operator deploys no node daemon, because " +
			"spec.nodeDaemon.mode of the Kruise object is Disabled"},
		"a virtual node": {Snapshot{DaemonOff: true, Virtual: true}, "node has not responded for a long time: it is a virtual node, on which no node daemon runs"},
	} {
		t.Run(name, func(t *testing.T) {
			s := tc.snapshot
			s.Now, s.Node, s.Labels, s.Gone = noon(), true, map[string]string{"a": "b"}, func(corev1.ObjectReference) bool { return false }
			d := Plan(list(func(*appsv1beta1.ImageTagSpec) {}, nil), s)
			if len(d.GivenUp) != 1 || d.GivenUp[0].Message != tc.want {
				t.Errorf("given up: %+v, want %q", d.GivenUp, tc.want)
			}
		})
	}
}

// A tag's jobs name their pull secrets. An ended one must not leave its copy behind while others use the repository.
func TestCopiesOfPullSecretsGoWithTheJobsThatAskForThem(t *testing.T) {
	shared := func(name string) appsv1beta1.ImagePullSecret { return engineimage.PullSecret("ns", name) }
	byHand := appsv1beta1.ImagePullSecret{Namespace: engineimage.SecretNamespace, Name: "byhand"}
	for name, tc := range map[string]struct {
		asks    map[types.UID][]appsv1beta1.ImagePullSecret
		have    []appsv1beta1.ImagePullSecret
		gone    types.UID
		want    []any
		changes bool
	}{
		"what both ask for stays": {
			asks: map[types.UID][]appsv1beta1.ImagePullSecret{"a": {shared("x")}, "b": {shared("y")}}, have: []appsv1beta1.ImagePullSecret{shared("x"), shared("y")},
		},
		"what none asks for goes, and what was written by hand stays": {
			asks: map[types.UID][]appsv1beta1.ImagePullSecret{"a": {shared("x")}, "b": nil}, have: []appsv1beta1.ImagePullSecret{shared("x"), shared("y"), byHand},
			changes: true, want: []any{
				map[string]any{"namespace": engineimage.SecretNamespace, "name": shared("x").Name, "mode": "batch"},
				map[string]any{"namespace": engineimage.SecretNamespace, "name": "byhand"},
			},
		},
		"that of a job that is gone goes": {
			asks: map[types.UID][]appsv1beta1.ImagePullSecret{"a": {shared("x")}, "b": nil}, have: []appsv1beta1.ImagePullSecret{shared("x")}, gone: "a", changes: true, want: []any{},
		},
		"everything stays while a job is not known": {
			asks: map[types.UID][]appsv1beta1.ImagePullSecret{"a": nil}, have: []appsv1beta1.ImagePullSecret{shared("x")},
		},
		"everything stays while a job has no copy of its own": {
			asks: map[types.UID][]appsv1beta1.ImagePullSecret{"a": {shared("x")}, "b": nil}, have: []appsv1beta1.ImagePullSecret{shared("of-openkruise")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			image := list(func(*appsv1beta1.ImageTagSpec) {}, endedBefore(0))
			entry := image.Spec.Images["nginx"]
			entry.PullSecrets = tc.have
			image.Spec.Images["nginx"] = entry
			d := Plan(image, Snapshot{
				Now: noon(), Node: true, Labels: map[string]string{"a": "b"}, Gone: func(o corev1.ObjectReference) bool { return o.UID == tc.gone },
				PullSecretsOf: func(o corev1.ObjectReference) ([]appsv1beta1.ImagePullSecret, bool) {
					secrets, known := tc.asks[o.UID]
					return secrets, known
				},
			})
			if !tc.changes {
				if len(d.Actions) > 0 {
					t.Errorf("actions %v", bodyOf(t, d.Actions[0]))
				}
				return
			}
			if len(d.Actions) != 1 {
				t.Fatalf("actions %+v", d.Actions)
			}
			got := bodyOf(t, d.Actions[0])["spec"].(map[string]any)["images"].(map[string]any)["nginx"].(map[string]any)["pullSecrets"]
			if diff := cmp.Diff(any(tc.want), got); diff != "" {
				t.Errorf("pull secrets (-want +got):\n%s", diff)
			}
		})
	}
}
