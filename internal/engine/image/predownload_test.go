// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/inplace"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
)

// rev is a stored revision of a template with these images of the containers a, b and so on.
func rev(hash string, images ...string) revision.Revision {
	template := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"note": "x"}},
		Spec:       corev1.PodSpec{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "one"}, {Name: "two"}}},
	}
	for i, image := range images {
		template.Spec.Containers = append(template.Spec.Containers, corev1.Container{Name: string(rune('a' + i)), Image: image})
	}
	return revision.Revision{
		Name: "web-" + hash, Template: template,
		Object: &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{
			Name: "web-" + hash, Labels: map[string]string{shared.LabelRevisionHash: hash},
		}},
	}
}

// workload is in the middle of a rollout from image v1 to v2.
func workload() Workload {
	return Workload{
		Spec: &podset.Spec{
			Namespace:     "ns",
			Owner:         metav1.OwnerReference{APIVersion: "apps.kruise.io/v1beta1", Kind: "StatefulSet", Name: "web", UID: "set", Controller: ptr.To(true)},
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Replicas:      10, PodUpdatePolicy: shared.InPlaceIfPossible,
		},
		MaxUnavailable: 2,
		Settings:       Settings{Parallelism: 1, TimeoutSeconds: 300},
		Current:        rev("old", "web:v1"), Update: rev("new", "web:v2"),
	}
}

func job(name, hash string) *v1beta1.ImagePullJob {
	return &v1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(name), Labels: map[string]string{shared.LabelRevisionHash: hash},
	}}
}

func going(job *v1beta1.ImagePullJob) *v1beta1.ImagePullJob {
	now := metav1.NewTime(time.Unix(1, 0))
	job.DeletionTimestamp = &now
	return job
}

// brief is a decision by the names of its jobs.
type brief struct {
	State          State
	Message        string
	Delete, Create []string
	Forget         []string
	Record         string
}

func briefOf(d Decision) brief {
	b := brief{State: d.State, Message: d.Message, Record: d.Record}
	for _, job := range d.Delete {
		b.Delete = append(b.Delete, job.Name)
	}
	for _, job := range d.Create {
		b.Create = append(b.Create, job.Name+"="+job.Spec.Image)
	}
	for _, r := range d.Forget {
		b.Forget = append(b.Forget, r.Name)
	}
	return b
}

func TestDecide(t *testing.T) {
	const not = "Images are not pulled ahead of this update: "
	ignored := func(why string) brief {
		return brief{State: NotUseful, Message: not + why, Record: shared.LabelPreDownloadIgnored}
	}
	wanted := brief{
		State: Wanted, Message: "Revision web-new has ImagePullJobs.", Create: []string{"web-new-a=web:v2"}, Record: shared.LabelPreDownloadCreated,
	}
	label := func(key string) func(*Workload) {
		return func(w *Workload) { w.Update.Object.Labels[key] = "true" }
	}
	cases := map[string]struct {
		change []func(*Workload)
		jobs   []*v1beta1.ImagePullJob
		want   brief
	}{
		"a changed image gets a job": {want: wanted},
		"of several containers only those whose image changes": {
			change: []func(*Workload){func(w *Workload) {
				w.Current, w.Update = rev("old", "web:v1", "side:v1", "log:v1"), rev("new", "web:v2", "side:v1", "log:v2")
			}},
			want: brief{State: Wanted, Message: wanted.Message, Create: []string{"web-new-a=web:v2", "web-new-c=log:v2"}, Record: wanted.Record},
		},
		"two containers of the same new image get a job each": {
			change: []func(*Workload){func(w *Workload) {
				w.Current, w.Update = rev("old", "web:v1", "web:v1"), rev("new", "web:v2", "web:v2")
			}},
			want: brief{State: Wanted, Message: wanted.Message, Create: []string{"web-new-a=web:v2", "web-new-b=web:v2"}, Record: wanted.Record},
		},
		"what exists already is not created again, and the decision is recorded": {
			jobs: []*v1beta1.ImagePullJob{job("web-new-a", "new")},
			want: brief{State: Wanted, Message: wanted.Message, Record: wanted.Record},
		},
		"without a rollout there is nothing to do": {change: []func(*Workload){func(w *Workload) { w.Current = w.Update }}},
		"the label of a former rollout goes, that of this one stays": {
			change: []func(*Workload){label(shared.LabelPreDownloadCreated), func(w *Workload) {
				w.Current.Object.Labels[shared.LabelPreDownloadCreated] = "true"
				w.Revisions = map[string]revision.Revision{w.Current.Name: w.Current, w.Update.Name: w.Update}
			}},
			want: brief{State: Wanted, Message: wanted.Message, Forget: []string{"web-old"}},
		},
		"after the rollout its label goes": {
			change: []func(*Workload){label(shared.LabelPreDownloadCreated), func(w *Workload) {
				w.Current, w.Revisions = w.Update, map[string]revision.Revision{w.Update.Name: w.Update}
			}},
			want: brief{Forget: []string{"web-new"}},
		},
		"after the rollout all jobs go, but for those on their way": {
			change: []func(*Workload){func(w *Workload) { w.Current = w.Update }, label(shared.LabelPreDownloadCreated)},
			jobs:   []*v1beta1.ImagePullJob{job("web-new-a", "new"), going(job("web-new-b", "new")), job("web-old-a", "old")},
			want:   brief{Delete: []string{"web-new-a", "web-old-a"}},
		},
		"another template takes away the jobs of the one before": {
			jobs: []*v1beta1.ImagePullJob{job("web-mid-a", "mid"), job("web-mid-b", "mid")},
			want: brief{
				State: Wanted, Message: wanted.Message, Delete: []string{"web-mid-a", "web-mid-b"}, Create: wanted.Create, Record: wanted.Record,
			},
		},
		"also when the update itself is not worth a job": {
			change: []func(*Workload){func(w *Workload) { w.PodUpdatePolicy = shared.RecreatePods }},
			jobs:   []*v1beta1.ImagePullJob{job("web-mid-a", "mid"), job("web-new-a", "new")},
			want: brief{
				State: NotUseful, Message: not + "podUpdatePolicy ReCreate replaces pods.", Delete: []string{"web-mid-a"}, Record: shared.LabelPreDownloadIgnored,
			},
		},
		"jobs that were created are not created again": {
			change: []func(*Workload){label(shared.LabelPreDownloadCreated)},
			want:   brief{State: Wanted, Message: wanted.Message},
		},
		"nor taken away when the set changes its mind": {
			change: []func(*Workload){label(shared.LabelPreDownloadCreated), func(w *Workload) { w.PodUpdatePolicy, w.Replicas = shared.RecreatePods, 1 }},
			jobs:   []*v1beta1.ImagePullJob{job("web-new-a", "new")},
			want:   brief{State: Wanted, Message: wanted.Message},
		},
		"a revision that was not worth it may be so now": {
			change: []func(*Workload){label(shared.LabelPreDownloadIgnored)},
			want:   wanted,
		},
		"that it is not worth it is remembered once": {
			change: []func(*Workload){label(shared.LabelPreDownloadIgnored), func(w *Workload) { w.Replicas = 3 }},
			want:   brief{State: NotUseful, Message: not + "it takes more than 3 replicas."},
		},
		"not with ReCreate": {
			change: []func(*Workload){func(w *Workload) { w.PodUpdatePolicy = shared.RecreatePods }},
			want:   ignored("podUpdatePolicy ReCreate replaces pods."),
		},
		"not with OnDelete": {
			change: []func(*Workload){func(w *Workload) { w.OnDelete = true }},
			want:   ignored("with updateStrategy.type OnDelete pods are replaced, and not moved by the set."),
		},
		"not for three replicas": {
			change: []func(*Workload){func(w *Workload) { w.Replicas = 3 }},
			want:   ignored("it takes more than 3 replicas."),
		},
		"for four": {change: []func(*Workload){func(w *Workload) { w.Replicas = 4 }}, want: wanted},
		"not when all pods are updated at once": {
			change: []func(*Workload){func(w *Workload) { w.MaxUnavailable = 10 }},
			want:   ignored("maxUnavailable lets all pods be updated at once."),
		},
		"when all are but those of the partition": {
			change: []func(*Workload){func(w *Workload) { w.MaxUnavailable, w.Partition = 10, 1 }},
			want:   wanted,
		},
		"with InPlaceOnly": {change: []func(*Workload){func(w *Workload) { w.PodUpdatePolicy = shared.InPlaceOnly }}, want: wanted},
		"not for a change that replaces pods": {
			change: []func(*Workload){func(w *Workload) { w.Update.Template.Spec.Containers[0].Command = []string{"sh"} }},
			want: ignored("it cannot be made in place: spec.template.spec.containers[0].command changed: " +
				"only image, resources and metadata can change in place."),
		},
		"not when the old revision is gone": {
			change: []func(*Workload){func(w *Workload) { w.Current.Template = nil }},
			want:   ignored("it cannot be made in place: the revision of the pod is no longer recorded, so it cannot be compared with the new one."),
		},
		"not for labels alone": {
			change: []func(*Workload){func(w *Workload) {
				w.Update = rev("new", "web:v1")
				w.Update.Template.Labels["version"] = "2"
			}},
			want: ignored("no image changes."),
		},
		"not for an image of an init container": {
			change: []func(*Workload){func(w *Workload) {
				w.Update.Template.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "init:v1"}}
			}},
			want: ignored("it cannot be made in place: spec.template.spec.initContainers changed: only image, resources and metadata can change in place."),
		},
		"not with changed claim templates, behind their gate": {
			change: []func(*Workload){func(w *Workload) {
				w.InPlace = inplace.Options{ClaimTemplates: true}
				w.Current.Object.Annotations = map[string]string{shared.AnnotationClaimTemplates: "1"}
				w.Update.Object.Annotations = map[string]string{shared.AnnotationClaimTemplates: "2"}
			}},
			want: ignored("it cannot be made in place: spec.volumeClaimTemplates changed: claims cannot be added to a pod or taken from it."),
		},
		"not before enough updated pods are ready": {
			change: []func(*Workload){func(w *Workload) { w.Settings.MinUpdatedReady, w.UpdatedReady = 2, 1 }},
			want:   brief{State: Waiting, Message: "Images are pulled ahead once 2 updated pods are ready."},
		},
		"then at once": {
			change: []func(*Workload){func(w *Workload) { w.Settings.MinUpdatedReady, w.UpdatedReady = 2, 2 }},
			want:   wanted,
		},
		"a revision that has only just been named": {
			change: []func(*Workload){func(w *Workload) { w.Update.Object = nil }},
			want:   wanted,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := workload()
			for _, change := range tc.change {
				change(&w)
			}
			if diff := cmp.Diff(tc.want, briefOf(Decide(w, tc.jobs))); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}

// Of thousands of images all jobs were made in each pass, and a few of them written.
func TestManyImagesGetTheirJobsAFewAtATime(t *testing.T) {
	var before, after []string
	for i := range maxJobs + 5 {
		before, after = append(before, fmt.Sprintf("web:v1.%d", i)), append(after, fmt.Sprintf("web:v2.%d", i))
	}
	w := workload()
	w.Current, w.Update = rev("old", before...), rev("new", after...)
	d := Decide(w, nil)
	if len(d.Create) != maxJobs || d.Record != "" {
		t.Fatalf("%d jobs are created, and %q is recorded", len(d.Create), d.Record)
	}
	var jobs []*v1beta1.ImagePullJob
	for _, created := range d.Create {
		jobs = append(jobs, job(created.Name, "new"))
	}
	if d = Decide(w, jobs); len(d.Create) != 5 || d.Record != shared.LabelPreDownloadCreated {
		t.Errorf("then %d jobs are created, and %q is recorded", len(d.Create), d.Record)
	}
}

func TestNewJob(t *testing.T) {
	w := workload()
	w.Settings = Settings{Parallelism: 5, TimeoutSeconds: 60}
	w.LabelSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpExists}}
	selector, template := w.LabelSelector.DeepCopy(), w.Update.Template.DeepCopy()

	got := Decide(w, nil).Create
	want := []*v1beta1.ImagePullJob{{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "web-new-a",
			Labels:          map[string]string{"app": "web", "controller.kubernetes.io/hash": "new"},
			OwnerReferences: []metav1.OwnerReference{w.Owner},
		},
		Spec: v1beta1.ImagePullJobSpec{
			Image: "web:v2",
			ImagePullJobTemplate: v1beta1.ImagePullJobTemplate{
				PullSecrets: []string{"one", "two"},
				PodSelector: &v1beta1.ImagePullJobPodSelector{LabelSelector: metav1.LabelSelector{
					MatchLabels: map[string]string{"app": "web"},
					MatchExpressions: []metav1.LabelSelectorRequirement{
						{Key: "tier", Operator: metav1.LabelSelectorOpExists},
						{Key: "controller-revision-hash", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"web-new", "new"}},
					},
				}},
				Parallelism:      ptr.To(intstr.FromInt32(5)),
				PullPolicy:       &v1beta1.PullPolicy{TimeoutSeconds: ptr.To(int32(60)), BackoffLimit: ptr.To(int32(1))},
				CompletionPolicy: v1beta1.CompletionPolicy{Type: "Always", TTLSecondsAfterFinished: ptr.To(int32(600))},
				SandboxConfig: &v1beta1.SandboxConfig{
					Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"note": "x"},
				},
			},
		},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	// Nobody's object is written to.
	got[0].Labels["app"], got[0].Spec.SandboxConfig.Labels["app"] = "changed", "changed"
	got[0].Spec.PodSelector.MatchExpressions[0].Key = "changed"
	if diff := cmp.Diff(selector, w.LabelSelector) + cmp.Diff(template, w.Update.Template); diff != "" {
		t.Errorf("the workload was changed:\n%s", diff)
	}
}
