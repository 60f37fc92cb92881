// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/inplace"
	"github.com/kruise-operator/kruise-operator/internal/engine/lazy"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
)

const (
	// fewReplicas is the size of a rollout too short for pulling ahead.
	fewReplicas = 3
	// retries is how often a node tries again: the kubelet pulls as well, so a pull ahead may fail.
	retries = 1
	// maxJobs is how many jobs a decision creates at most: fewer are written in one pass, and a template may have thousands of images.
	maxJobs = 20
	// keptSeconds is how long a finished job is kept, in seconds.
	keptSeconds = 600
)

// Workload is the input of a decision about pulling ahead.
type Workload struct {
	*podset.Spec
	// MaxUnavailable is a count of pods.
	MaxUnavailable int
	// AnyUpdate pulls ahead of replacements, too, and for however few pods (DaemonSet).
	AnyUpdate bool
	// Settings are the user's.
	Settings Settings
	// UpdatedReady is how many pods are ready at the update revision.
	UpdatedReady int32
	// Current and Update are the rollout's revisions; the same without one.
	Current, Update revision.Revision
	// Revisions are all stored revisions.
	Revisions map[string]revision.Revision
}

// WorkloadOf describes a workload by its parsed spec, its settings and its snapshot. updatedReady is its
// status's.
func WorkloadOf(spec *podset.Spec, settings Settings, s *podset.Snapshot, updatedReady int32) *Workload {
	return &Workload{
		Spec: spec, MaxUnavailable: spec.MaxUnavailable, Settings: settings, UpdatedReady: updatedReady,
		Current: s.Current, Update: s.Update, Revisions: s.Revisions,
	}
}

// State is the state of pulling ahead.
type State string

const (
	// Idle is the state without a rollout.
	Idle State = ""
	// NotUseful means pulling ahead would gain nothing.
	NotUseful State = "NotUseful"
	// Waiting means jobs are created as soon as enough updated pods are ready.
	Waiting State = "Waiting"
	// Wanted means there are jobs for the update revision, or the decision creates them.
	Wanted State = "Wanted"
)

// Decision is about a workload's jobs.
type Decision struct {
	State State
	// Message is one lasting sentence about the state; empty for Idle.
	Message string
	// Delete are unneeded jobs; they go first.
	Delete []*v1beta1.ImagePullJob
	// Create are jobs to create.
	Create []*v1beta1.ImagePullJob
	// Forget are revisions of former rollouts with the label "created". The next rollout to one of them has jobs again.
	Forget []revision.Revision
	// Record is the decision's label for the update revision, to be written when all of Create
	// exist. When empty, it is there already.
	Record string
}

// Writes says whether there is anything to write.
func (d Decision) Writes() bool {
	return len(d.Delete)+len(d.Create)+len(d.Forget) > 0 || d.Record != ""
}

// Decide names the jobs of a workload. Jobs are its present ones.
//
// Without a rollout there should be none. In a rollout, the first that holds:
//
//  1. the update revision is labeled as having its jobs: they are left alone, whatever became of
//     them;
//  2. the update does not edit pods, moves them all at once, or changes no image: no job;
//  3. fewer updated pods are ready than the user wants to see first: no job yet;
//  4. there is a job for each changed image.
//
// Jobs and labels of other revisions go in any case. A revision with the label "not worth it" is decided about
// again: the workload may have grown since.
func Decide(w Workload, jobs []*v1beta1.ImagePullJob) Decision {
	var d Decision
	rollout := w.Current.Name != w.Update.Name
	hash := w.Update.Hash()
	exist := map[string]bool{}
	for _, job := range jobs {
		exist[job.Name] = true
		if job.DeletionTimestamp == nil && (!rollout || job.Labels[shared.LabelRevisionHash] != hash) {
			d.Delete = append(d.Delete, job)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.Revisions)) {
		if r := w.Revisions[name]; (!rollout || name != w.Update.Name) && recorded(r, shared.LabelPreDownloadCreated) {
			d.Forget = append(d.Forget, r)
		}
	}
	if !rollout {
		return d
	}
	if recorded(w.Update, shared.LabelPreDownloadCreated) {
		d.State, d.Message = Wanted, fmt.Sprintf("Revision %s has ImagePullJobs.", w.Update.Name)
		return d
	}

	images, why := images(w)
	if why != "" {
		d.State, d.Message = NotUseful, "Images are not pulled ahead of this update: "+why
		if !recorded(w.Update, shared.LabelPreDownloadIgnored) {
			d.Record = shared.LabelPreDownloadIgnored
		}
		return d
	}
	if w.UpdatedReady < w.Settings.MinUpdatedReady {
		d.State = Waiting
		d.Message = fmt.Sprintf("Images are pulled ahead once %s ready.", podset.Count(int(w.Settings.MinUpdatedReady), "updated pod is", "updated pods are"))
		return d
	}
	d.State, d.Message = Wanted, fmt.Sprintf("Revision %s has ImagePullJobs.", w.Update.Name)
	d.Record = shared.LabelPreDownloadCreated
	for _, container := range slices.Concat(w.Update.Template.Spec.InitContainers, w.Update.Template.Spec.Containers) {
		image, ok := images[container.Name]
		name := w.Update.Name + "-" + container.Name
		if !ok || exist[name] {
			continue
		}
		if len(d.Create) == maxJobs {
			d.Record = "" // the rest follows
			break
		}
		d.Create = append(d.Create, newJob(w, hash, name, image))
	}
	return d
}

// images are the new images by container. When there is nothing to pull ahead, why says so in half a sentence.
func images(w Workload) (images map[string]string, why string) {
	switch {
	case w.OnDelete:
		return nil, "with updateStrategy.type OnDelete pods are replaced, and not moved by the set."
	case !w.AnyUpdate && w.PodUpdatePolicy != shared.InPlaceIfPossible && w.PodUpdatePolicy != shared.InPlaceOnly:
		return nil, fmt.Sprintf("podUpdatePolicy %s replaces pods.", w.PodUpdatePolicy)
	case !w.AnyUpdate && w.Replicas <= fewReplicas:
		return nil, fmt.Sprintf("it takes more than %d replicas.", fewReplicas)
	case w.Partition == 0 && w.MaxUnavailable >= w.Replicas:
		return nil, "maxUnavailable lets all pods be updated at once."
	}
	if w.AnyUpdate {
		if images = newImages(w.Current.Template, w.Update.Template); len(images) == 0 {
			return nil, "no image changes."
		}
		return images, ""
	}
	difference := inplace.CompareRevisions(w.Current, w.Update, w.PodUpdatePolicy, w.InPlace)
	switch {
	case !difference.InPlace:
		return nil, "it cannot be made in place: " + difference.Reason + "."
	case len(difference.Images) == 0:
		return nil, "no image changes."
	}
	return difference.Images, ""
}

// newImages are the changed images by container. Containers of before may be unknown (nil).
func newImages(before, after *corev1.PodTemplateSpec) map[string]string {
	known := map[string]string{}
	if before != nil {
		for _, container := range slices.Concat(before.Spec.InitContainers, before.Spec.Containers) {
			known[container.Name] = container.Image
		}
	}
	changed := map[string]string{}
	for _, container := range slices.Concat(after.Spec.InitContainers, after.Spec.Containers) {
		if known[container.Name] != container.Image {
			changed[container.Name] = container.Image
		}
	}
	return changed
}

// newJob pulls one new image to the nodes of unmoved pods.
func newJob(w Workload, hash, name, image string) *v1beta1.ImagePullJob {
	template := w.Update.Template
	labels := maps.Clone(template.Labels)
	lazy.Put(&labels, shared.LabelRevisionHash, hash)

	pods := v1beta1.ImagePullJobPodSelector{}
	if w.LabelSelector != nil {
		pods.LabelSelector = *w.LabelSelector.DeepCopy()
	}
	// Pods carry the full name of their revision or its hash alone.
	pods.MatchExpressions = append(pods.MatchExpressions, metav1.LabelSelectorRequirement{
		Key: shared.LabelControllerRevisionHash, Operator: metav1.LabelSelectorOpNotIn, Values: []string{w.Update.Name, hash},
	})
	return &v1beta1.ImagePullJob{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       w.Namespace,
			Name:            name,
			Labels:          labels,
			OwnerReferences: []metav1.OwnerReference{w.Owner},
		},
		Spec: v1beta1.ImagePullJobSpec{
			Image: image,
			ImagePullJobTemplate: v1beta1.ImagePullJobTemplate{
				PullSecrets: secrets(template.Spec.ImagePullSecrets),
				PodSelector: &pods,
				Parallelism: ptr.To(intstr.FromInt32(w.Settings.Parallelism)),
				PullPolicy: &v1beta1.PullPolicy{
					TimeoutSeconds: ptr.To(w.Settings.TimeoutSeconds), BackoffLimit: ptr.To(int32(retries)),
				},
				CompletionPolicy: v1beta1.CompletionPolicy{Type: v1beta1.CompleteAlways, TTLSecondsAfterFinished: ptr.To(int32(keptSeconds))},
				SandboxConfig:    sandbox(template),
			},
		},
	}
}

func secrets(references []corev1.LocalObjectReference) []string {
	var names []string
	for _, reference := range references {
		names = append(names, reference.Name)
	}
	return names
}

func sandbox(template *corev1.PodTemplateSpec) *v1beta1.SandboxConfig {
	if len(template.Labels)+len(template.Annotations) == 0 {
		return nil
	}
	return &v1beta1.SandboxConfig{Labels: maps.Clone(template.Labels), Annotations: maps.Clone(template.Annotations)}
}

// recorded says whether the revision remembers a decision. Only the documented value counts.
func recorded(r revision.Revision, label string) bool {
	return r.Object != nil && r.Object.Labels[label] == "true"
}
