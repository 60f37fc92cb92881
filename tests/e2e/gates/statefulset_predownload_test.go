// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package gates_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/limits"
	"github.com/kruise-operator/kruise-operator/tests/framework/scenario"
)

// awaitJobs waits until these are all the pull jobs of the namespace, and returns them in the order of their names.
func awaitJobs(s *scenario.Scenario, names ...string) []v1beta1.ImagePullJob {
	list := &v1beta1.ImagePullJobList{}
	s.Eventually(fmt.Sprintf("the pull jobs are %v", names), func(ctx context.Context) error {
		if err := s.Client.List(ctx, list, client.InNamespace(s.Name())); err != nil {
			return err
		}
		slices.SortFunc(list.Items, func(a, b v1beta1.ImagePullJob) int { return strings.Compare(a.Name, b.Name) })
		var got []string
		for _, job := range list.Items {
			got = append(got, job.Name)
		}
		if !slices.Equal(got, names) {
			return fmt.Errorf("they are %v", got)
		}
		return nil
	})
	return list.Items
}

// awaitPreDownload waits until the set says this about pulling ahead; empty for nothing at all.
func awaitPreDownload(s *scenario.Scenario, reason string) (message string) {
	s.Eventually("the set says "+reason+" about pulling ahead", func(context.Context) error {
		conditions := s.Set().Status.Conditions
		at := slices.IndexFunc(conditions, func(c appsv1.StatefulSetCondition) bool { return c.Type == v1beta1.StatefulSetImagePreDownload })
		if at < 0 {
			if reason != "" {
				return fmt.Errorf("the conditions are %+v", conditions)
			}
			return nil
		}
		if c := conditions[at]; c.Reason != reason || c.Status != corev1.ConditionFalse {
			return fmt.Errorf("it is %+v", c)
		}
		message = conditions[at].Message
		return nil
	})
	return message
}

// labels are the revision's.
func labels(t *testing.T, s *scenario.Scenario, name string) map[string]string {
	t.Helper()
	revision := &appsv1.ControllerRevision{}
	if err := s.Client.Get(t.Context(), client.ObjectKey{Namespace: s.Name(), Name: name}, revision); err != nil {
		t.Fatal(err)
	}
	return revision.Labels
}

// revisionOtherThan waits until the set has another update revision than before.
func revisionOtherThan(s *scenario.Scenario, before ...string) string {
	var now string
	s.Eventually("there is another update revision", func(context.Context) error {
		if now = s.Set().Status.UpdateRevision; slices.Contains(before, now) {
			return fmt.Errorf("it is %s", now)
		}
		return nil
	})
	return now
}

// A rollout has one job for each changed image while it lasts; another template has its own; nobody waits for them.
func TestImagesArePulledAhead(t *testing.T) {
	t.Parallel()
	s := scenario.Start(t, env, 5, limits.Rules{}, scenario.Held, func(set *v1beta1.StatefulSet) {
		set.Annotations = map[string]string{shared.AnnotationPreDownloadParallelism: "3", shared.AnnotationPreDownloadTimeoutSeconds: "60"}
		set.Spec.Template.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
		set.Spec.Template.Spec.Containers = append(set.Spec.Template.Spec.Containers, corev1.Container{Name: "side", Image: "example/side:v1"})
	})
	s.Done()
	awaitJobs(s)
	first := s.Set().Status.UpdateRevision

	s.Update(scenario.Image(scenario.V2))
	second := revisionOtherThan(s, first)
	job := awaitJobs(s, second+"-main")[0]
	hash := second[strings.LastIndexByte(second, '-')+1:]
	want := v1beta1.ImagePullJobSpec{
		Image: scenario.V2,
		ImagePullJobTemplate: v1beta1.ImagePullJobTemplate{
			PullSecrets: []string{"registry"},
			PodSelector: &v1beta1.ImagePullJobPodSelector{LabelSelector: metav1.LabelSelector{
				MatchLabels: map[string]string{"app": scenario.Name},
				MatchExpressions: []metav1.LabelSelectorRequirement{
					{Key: "controller-revision-hash", Operator: metav1.LabelSelectorOpNotIn, Values: []string{second, hash}},
				},
			}},
			Parallelism:      ptr.To(intstr.FromInt32(3)),
			PullPolicy:       &v1beta1.PullPolicy{TimeoutSeconds: ptr.To(int32(60)), BackoffLimit: ptr.To(int32(1))},
			CompletionPolicy: v1beta1.CompletionPolicy{Type: "Always", TTLSecondsAfterFinished: ptr.To(int32(600))},
			ImagePullPolicy:  "IfNotPresent", // the default of admission
			SandboxConfig:    &v1beta1.SandboxConfig{Labels: job.Spec.SandboxConfig.Labels, Annotations: job.Spec.SandboxConfig.Annotations},
		},
	}
	if diff := cmp.Diff(want, job.Spec); diff != "" {
		t.Errorf("the job (-want +got):\n%s", diff)
	}
	set := s.Set()
	if !metav1.IsControlledBy(&job, set) || job.OwnerReferences[0].Kind != "StatefulSet" || job.Labels[shared.LabelRevisionHash] != hash || job.Labels["app"] != scenario.Name {
		t.Errorf("the metadata of the job is %+v", job.ObjectMeta)
	}
	if message := awaitPreDownload(s, v1beta1.ReasonPulling); !strings.Contains(message, second) {
		t.Errorf("the set says %q", message)
	}
	s.AwaitUpdating(scenario.V2, 4) // nobody has pulled, and the first pod moves
	s.Eventually("the revision remembers", func(context.Context) error {
		if got := labels(t, s, second)[shared.LabelPreDownloadCreated]; got != "true" {
			return fmt.Errorf("it has %q", got)
		}
		return nil
	})
	s.Eventually("there is one event about the job", func(ctx context.Context) error {
		list := &eventsv1.EventList{}
		if err := s.Client.List(ctx, list, client.InNamespace(s.Name())); err != nil {
			return err
		}
		count := 0
		for _, event := range list.Items {
			if event.Reason == "CreatedImagePullJob" && event.Regarding.Name == scenario.Name {
				count++
			}
		}
		if count != 1 {
			return fmt.Errorf("there are %d", count)
		}
		return nil
	})

	// A job deleted by its user does not come back.
	if err := s.Client.Delete(t.Context(), &job); err != nil {
		t.Fatal(err)
	}
	awaitJobs(s)
	s.Label("touched", "yes", 0)
	s.Consistently(half, "it stays away", func(ctx context.Context) error {
		list := &v1beta1.ImagePullJobList{}
		if err := s.Client.List(ctx, list, client.InNamespace(s.Name())); err != nil || len(list.Items) > 0 {
			return fmt.Errorf("the jobs are %v: %w", list.Items, err)
		}
		return nil
	})

	// Another template in the middle of it: both images.
	s.Update(scenario.Image(scenario.V3), func(set *v1beta1.StatefulSet) { set.Spec.Template.Spec.Containers[1].Image = "example/side:v2" })
	third := revisionOtherThan(s, first, second)
	awaitJobs(s, third+"-main", third+"-side")

	// And a third one with jobs in place of the others.
	s.Update(scenario.Image(scenario.V2))
	fourth := revisionOtherThan(s, first, second, third)
	awaitJobs(s, fourth+"-main", fourth+"-side")

	s.Release(0, 1, 2, 3, 4)
	s.Done()
	awaitJobs(s)
	awaitPreDownload(s, "")
}

// Refused or pointless pull jobs change nothing about the rollout.
func TestRolloutsDoNotDependOnPullJobs(t *testing.T) {
	t.Parallel()
	s := scenario.Start(t, env, 4, limits.Rules{}, scenario.Held)
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Name(), Name: "no-jobs"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/imagepulljobs.apps.kruise.io": resource.MustParse("0")}},
	}
	if err := s.Client.Create(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	s.Done()
	first := s.Set().Status.UpdateRevision
	s.Update(scenario.Image(scenario.V2))
	s.AwaitUpdating(scenario.V2, 3)
	second := revisionOtherThan(s, first)
	if message := awaitPreDownload(s, v1beta1.ReasonRequestFailed); !strings.Contains(message, second+"-main") {
		t.Errorf("the set says %q", message)
	}
	s.Release(0, 1, 2, 3)
	s.Done()
	awaitJobs(s)
	awaitPreDownload(s, "")

	s.Update(scenario.Replicas(3))
	s.AwaitOrdinals(0, 1, 2)
	s.Done()
	s.Annotate(simnode.RestartDelay, "never", 0, 1, 2)
	s.Update(scenario.Image(scenario.V3))
	third := revisionOtherThan(s, first, second)
	awaitPreDownload(s, v1beta1.ReasonPreDownloadNotUseful)
	s.Eventually("the revision remembers", func(context.Context) error {
		if got := labels(t, s, third)[shared.LabelPreDownloadIgnored]; got != "true" {
			return fmt.Errorf("it has %q", got)
		}
		return nil
	})
	s.Release(0, 1, 2)
	s.Done()
	awaitJobs(s)
}
