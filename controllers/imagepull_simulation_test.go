// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	imagepulljob "github.com/kruise-operator/kruise-operator/controllers/imagepulljob/plan"
	nodeimage "github.com/kruise-operator/kruise-operator/controllers/nodeimage/plan"
	engineimage "github.com/kruise-operator/kruise-operator/internal/engine/image"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
)

// repository is the job's, and jobUID its identity.
const (
	repository = "web"
	jobUID     = types.UID("job-uid")
)

// pulls is a cluster with one ImagePullJob, nodes and NodeImages. Objects are never changed in place, so it can be cloned.
type pulls struct {
	// job is nil when it is gone.
	job *v1beta1.ImagePullJob
	// nodes are the UIDs of nodes by name, made how often a node of the name was made.
	nodes  map[string]types.UID
	made   map[string]int
	images map[string]*v1beta1.NodeImage
	now    time.Time
	// asked says when a node, by its UID, was asked for a tag for the last time.
	asked map[string]time.Time
}

func newPulls(nodes int, change func(*v1beta1.ImagePullJob)) *pulls {
	w := &pulls{
		job:   &v1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "pull", UID: jobUID, Generation: 1, ResourceVersion: "7"}},
		nodes: map[string]types.UID{}, made: map[string]int{}, images: map[string]*v1beta1.NodeImage{}, asked: map[string]time.Time{},
		now: time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC),
	}
	w.job.Spec.Image = repository + ":1"
	for i := range nodes {
		w.join(fmt.Sprintf("n%d", i+1))
	}
	change(w.job)
	return w
}

func (w *pulls) clone() *pulls {
	c := *w
	c.nodes, c.made, c.images, c.asked = maps.Clone(w.nodes), maps.Clone(w.made), maps.Clone(w.images), maps.Clone(w.asked)
	return &c
}

func (w *pulls) join(name string) {
	w.made[name]++
	w.nodes[name] = types.UID(fmt.Sprintf("%s-%d", name, w.made[name]))
}

func (w *pulls) changeJob(change func(*v1beta1.ImagePullJob)) {
	job := w.job.DeepCopy()
	change(job)
	w.job = job
}

func (w *pulls) changeImage(name string, change func(*v1beta1.NodeImage)) {
	image := w.images[name].DeepCopy()
	change(image)
	w.images[name] = image
}

// look is the view of the jobs' controller.
func (w *pulls) look() (*imagepulljob.Spec, imagepulljob.Snapshot) {
	spec := imagepulljob.Parse(w.job)
	s := imagepulljob.Snapshot{Now: w.now, Released: !imagepulljob.Wants(spec)}
	for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
		n := imagepulljob.Node{Name: name, UID: w.nodes[name], Ready: true}
		if image := w.images[name]; image != nil {
			n.Image = &imagepulljob.NodeImage{Meta: &image.ObjectMeta, Place: engineimage.Place{Repository: repository}, Entry: image.Spec.Images[repository], Status: image.Status.ImageStatuses[repository]}
		}
		s.Nodes = append(s.Nodes, n)
	}
	for _, name := range spec.Secrets {
		s.Secrets = append(s.Secrets, v1beta1.ImagePullSecret{Namespace: "kruise-daemon-config", Name: name})
	}
	return spec, s
}

// pass is a whole pass of the job: all of its plan, and its status.
func (w *pulls) pass() (imagepulljob.Decision, error) {
	spec, s := w.look()
	d := imagepulljob.Plan(spec, s)
	for i := range d.Actions {
		if err := w.carryOut(&d.Actions[i]); err != nil {
			return d, err
		}
	}
	status := imagepulljob.Status(spec, s, d, planning.Outcome{Done: len(d.Actions)})
	if w.job != nil {
		w.changeJob(func(job *v1beta1.ImagePullJob) { job.Status = status })
	}
	return d, nil
}

func (w *pulls) planImage(name string) nodeimage.Decision {
	return nodeimage.Plan(w.images[name], nodeimage.Snapshot{
		Now: w.now, Node: w.nodes[name] != "",
		Gone: func(of corev1.ObjectReference) bool {
			return of.UID == jobUID && (w.job == nil || w.job.DeletionTimestamp != nil)
		},
		Working: func(of corev1.ObjectReference) bool {
			return of.UID == jobUID && w.completes() && w.job.Status.CompletionTime == nil
		},
	})
}

func (w *pulls) completes() bool {
	return w.job != nil && w.job.Spec.CompletionPolicy.Type != v1beta1.CompleteNever
}

// carryOut does an action as the server would.
func (w *pulls) carryOut(a *planning.Action) error {
	name := a.Object.GetName()
	switch a.Step {
	case planning.StepDeleteJob:
		w.deleteJob()
		return nil
	case imagepulljob.StepRelease:
		after, err := merged(w.job, a)
		if err != nil {
			return err
		}
		if w.job = after; len(after.Finalizers) == 0 && after.DeletionTimestamp != nil {
			w.job = nil
		}
		return nil
	case nodeimage.StepDelete:
		delete(w.images, name)
		return nil
	case imagepulljob.StepAsk:
		w.asked[w.asking(name)] = w.now
	}
	if a.Verb == planning.VerbCreate {
		image, ok := a.Object.(*v1beta1.NodeImage)
		if !ok || w.images[name] != nil {
			return fmt.Errorf("%s is made although it is there", name)
		}
		w.images[name] = image.DeepCopy()
		w.images[name].UID = types.UID("list-of-" + string(w.nodes[name]))
		return nil
	}
	if w.images[name] == nil || w.images[name].UID != a.Object.GetUID() {
		return fmt.Errorf("%s is written as %s", name, a.Object.GetUID())
	}
	after, err := merged(w.images[name], a)
	if err == nil {
		w.images[name] = after
	}
	return err
}

// merged is an object after the merge patch of an action.
func merged[T any](object *T, a *planning.Action) (*T, error) {
	body, err := a.Change.Requests(a.Object)[0].Body(planning.Version{})
	if err != nil {
		return nil, err
	}
	before, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	text, err := jsonpatch.MergePatch(before, body)
	if err != nil {
		return nil, err
	}
	after := new(T)
	return after, json.Unmarshal(text, after)
}

// deleteJob deletes the job as the server does.
func (w *pulls) deleteJob() {
	if len(w.job.Finalizers) == 0 {
		w.job = nil
		return
	}
	w.changeJob(func(job *v1beta1.ImagePullJob) { job.DeletionTimestamp = ptr.To(metav1.NewTime(w.now)) })
}

// asking names a node and the requested tag.
func (w *pulls) asking(name string) string { return string(w.nodes[name]) + " " + w.job.Spec.Image }

// own is the NodeImage of a node, if it is of this node and not of a former one.
func (w *pulls) own(name string) *v1beta1.NodeImage {
	image := w.images[name]
	if image == nil || w.nodes[name] == "" || image.OwnerReferences[0].UID != w.nodes[name] {
		return nil
	}
	return image
}

// open are a node's tags its daemon has not ended.
func (w *pulls) open(name string) []v1beta1.ImageTagSpec {
	var open []v1beta1.ImageTagSpec
	if image := w.own(name); image != nil {
		for _, tag := range image.Spec.Images[repository].Tags {
			if answer := answerTo(image, tag); answer == nil || answer.CompletionTime == nil {
				open = append(open, tag)
			}
		}
	}
	return open
}

// answerTo is the status of a tag's present round.
func answerTo(image *v1beta1.NodeImage, tag v1beta1.ImageTagSpec) *v1beta1.ImageTagStatus {
	for _, answer := range image.Status.ImageStatuses[repository].Tags {
		if answer.Tag == tag.Tag && answer.Version == tag.Version {
			return &answer
		}
	}
	return nil
}

// answer makes a node's daemon answer for a tag. Like the real one it forgets answers nobody asks for.
func (w *pulls) answer(name string, tag v1beta1.ImageTagSpec, phase v1beta1.ImagePullPhase) {
	w.changeImage(name, func(image *v1beta1.NodeImage) {
		var kept []v1beta1.ImageTagStatus
		for _, other := range image.Spec.Images[repository].Tags {
			if before := answerTo(image, other); before != nil && other.Tag != tag.Tag {
				kept = append(kept, *before)
			}
		}
		said := v1beta1.ImageTagStatus{
			Tag: tag.Tag, Version: tag.Version, Phase: phase, StartTime: ptr.To(metav1.NewTime(w.now)), Message: "said by the node",
		}
		if phase == v1beta1.ImagePhaseSucceeded || phase == v1beta1.ImagePhaseFailed {
			said.CompletionTime = ptr.To(metav1.NewTime(w.now))
		}
		image.Status.ImageStatuses = map[string]v1beta1.ImageStatus{repository: {Tags: append(kept, said)}}
	})
}

// joint has another job ask a node for the tag: an ended round starts again, another is shared.
func (w *pulls) joint(name string, i int) {
	w.changeImage(name, func(image *v1beta1.NodeImage) {
		tag := &image.Spec.Images[repository].Tags[i]
		if answer := answerTo(image, *tag); answer != nil && answer.CompletionTime != nil {
			tag.Version++
			tag.CreatedAt = ptr.To(metav1.NewTime(w.now))
		}
		tag.OwnerReferences = append(tag.OwnerReferences, corev1.ObjectReference{Kind: "ImagePullJob", Namespace: "shop", Name: "other", UID: "other"})
	})
}

// outcomes groups nodes' answers to the job's present request by phase; "" are asked and unended.
func (w *pulls) outcomes() map[v1beta1.ImagePullPhase][]string {
	result := map[v1beta1.ImagePullPhase][]string{}
	for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
		image := w.own(name)
		if image == nil {
			continue
		}
		for _, tag := range image.Spec.Images[repository].Tags {
			if repository+":"+tag.Tag != w.job.Spec.Image || !ownedByJob(tag) {
				continue
			}
			phase := v1beta1.ImagePullPhase("")
			if answer := answerTo(image, tag); answer != nil && answer.CompletionTime != nil {
				phase = answer.Phase
			}
			result[phase] = append(result[phase], name)
		}
	}
	return result
}

func ownedByJob(tag v1beta1.ImageTagSpec) bool {
	return slices.ContainsFunc(tag.OwnerReferences, func(o corev1.ObjectReference) bool { return o.UID == jobUID })
}

// key is equal for clusters with the same future.
func (w *pulls) key() string {
	var b strings.Builder
	most := longest
	if w.completes() {
		most = 2 * time.Hour // all tries of a node, and ten minutes
	}
	age := func(at *metav1.Time) int {
		if at == nil {
			return -1
		}
		return int(min(w.now.Sub(at.Time), most) / time.Second)
	}
	if w.job != nil {
		job, s := w.job, &w.job.Status
		fmt.Fprintf(&b, "%v %v %s %d %d %d %d %d;", job.DeletionTimestamp != nil, job.Finalizers, job.Spec.Image, ptr.Deref(job.Spec.Parallelism, intstr.IntOrString{}).IntVal,
			s.Desired, s.Active, s.Succeeded, s.Failed)
		if job.Spec.CompletionPolicy.ActiveDeadlineSeconds != nil && s.CompletionTime == nil {
			fmt.Fprint(&b, age(s.StartTime))
		}
		fmt.Fprint(&b, s.CompletionTime != nil)
		if job.Spec.CompletionPolicy.TTLSecondsAfterFinished != nil {
			fmt.Fprint(&b, age(s.CompletionTime))
		}
		for _, c := range s.Conditions {
			fmt.Fprint(&b, c.Type, c.Status, c.Reason)
		}
	}
	for _, name := range []string{"n1", "n2", "n3", "n4"} {
		fmt.Fprint(&b, ";", w.nodes[name])
		image := w.images[name]
		if image == nil {
			continue
		}
		fmt.Fprint(&b, " ", image.UID)
		for _, tag := range image.Spec.Images[repository].Tags {
			answer := answerTo(image, tag)
			fmt.Fprintf(&b, " %s %d %d", tag.Tag, tag.Version, len(tag.OwnerReferences))
			switch {
			case answer == nil:
				fmt.Fprint(&b, "asked", age(tag.CreatedAt))
			case answer.CompletionTime == nil:
				fmt.Fprint(&b, "begun", age(answer.StartTime))
			default:
				fmt.Fprint(&b, answer.Phase, age(answer.CompletionTime))
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(w.asked)) {
		fmt.Fprint(&b, ";", key, w.now.Sub(w.asked[key]) > almostADay)
	}
	return b.String()
}

// longest is more than anything in a cluster takes.
const longest = 25 * time.Hour

// almostADay is the shortest time before a never completing job asks a node again.
const almostADay = 23*time.Hour + 45*time.Minute
