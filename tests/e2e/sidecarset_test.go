// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecarspec"
	"github.com/kruise-operator/kruise-operator/tests/framework/audit"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/limits"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
	"github.com/kruise-operator/kruise-operator/tests/framework/scenario"
)

const (
	agentV1   = "example/agent:v1"
	agentV2   = "example/agent:v2"
	agentV3   = "example/agent:v3"
	agentIdle = "example/idle:v1"
)

// sidecars is a SidecarSet for one namespace's pods, under its name. It injects nothing:
// these tests' pods come with injected sidecars, to see updates alone.
type sidecars struct {
	*environment.Namespace
	t testing.TB
}

func newSidecars(t testing.TB, n *environment.Namespace, changes ...func(*v1beta1.SidecarSet)) *sidecars {
	t.Helper()
	set := &v1beta1.SidecarSet{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name},
		Spec: v1beta1.SidecarSetSpec{
			Selector:          &metav1.LabelSelector{MatchLabels: map[string]string{"app": scenario.Name}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: n.Name}},
			Containers:        []v1beta1.SidecarContainer{{Container: corev1.Container{Name: "agent", Image: agentV1}}},
			InjectionStrategy: v1beta1.SidecarSetInjectionStrategy{Paused: true},
		},
	}
	for _, change := range changes {
		change(set)
	}
	if err := n.Client.Create(t.Context(), set); err != nil {
		t.Fatalf("creating the SidecarSet: %v", err)
	}
	t.Cleanup(func() { _ = client.IgnoreNotFound(n.Client.Delete(context.WithoutCancel(t.Context()), set)) })
	return &sidecars{Namespace: n, t: t}
}

func (s *sidecars) set(ctx context.Context) (*v1beta1.SidecarSet, error) {
	set := &v1beta1.SidecarSet{}
	err := s.Client.Get(ctx, types.NamespacedName{Name: s.Name}, set)
	return set, err
}

// update changes the set.
func (s *sidecars) update(changes ...func(*v1beta1.SidecarSet)) {
	s.t.Helper()
	s.Eventually("the SidecarSet is changed", func(ctx context.Context) error {
		set, err := s.set(ctx)
		if err != nil {
			return err
		}
		for _, change := range changes {
			change(set)
		}
		return s.Client.Update(ctx, set)
	})
}

func agentImage(image string) func(*v1beta1.SidecarSet) {
	return func(set *v1beta1.SidecarSet) { set.Spec.Containers[0].Image = image }
}

func agentLimits(partition, maxUnavailable string) func(*v1beta1.SidecarSet) {
	return func(set *v1beta1.SidecarSet) {
		set.Spec.UpdateStrategy.Partition, set.Spec.UpdateStrategy.MaxUnavailable = ptr.To(intstr.Parse(partition)), ptr.To(intstr.Parse(maxUnavailable))
	}
}

func agentPaused(paused bool) func(*v1beta1.SidecarSet) {
	return func(set *v1beta1.SidecarSet) { set.Spec.UpdateStrategy.Paused = paused }
}

func agentHot(set *v1beta1.SidecarSet) {
	set.Spec.Containers[0].UpgradeStrategy = v1beta1.SidecarUpgradeStrategy{UpgradeType: v1beta1.HotUpgrade, HotUpgradeEmptyImage: agentIdle}
}

// awaits waits for the status's numbers of pods, and its reason for rest.
func (s *sidecars) awaits(updated, ready int32, reason string) {
	s.t.Helper()
	s.Eventually(fmt.Sprintf("%d pods are updated, %d ready, and it rests because of %s", updated, ready, reason), func(ctx context.Context) error {
		set, err := s.set(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(set.Status.Conditions, func(c metav1.Condition) bool { return c.Type == string(v1beta1.SidecarSetReconciling) })
		if is := set.Status; i < 0 || is.ObservedGeneration != set.Generation || is.UpdatedPods != updated || is.ReadyPods != ready || is.Conditions[i].Reason != reason {
			return fmt.Errorf("the status is %+v", is)
		}
		return nil
	})
}

// injected adds the set's injection to a template.
func (s *sidecars) injected(template *corev1.PodTemplateSpec) {
	s.t.Helper()
	set, err := s.set(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	hashes, err := sidecarspec.HashesOf(sidecarspec.PayloadOf(&set.Spec, nil))
	if err != nil {
		s.t.Fatal(err)
	}
	entry := func(hash string) string {
		text, err := json.Marshal(map[string]shared.SidecarSetUpgrade{s.Name: {SidecarSetHash: hash, SidecarSetName: s.Name, SidecarList: []string{"agent"}}})
		if err != nil {
			s.t.Fatal(err)
		}
		return string(text)
	}
	if template.Annotations == nil {
		template.Annotations = map[string]string{}
	}
	template.Annotations[shared.AnnotationSidecarSetInjectedList] = s.Name
	template.Annotations[shared.AnnotationSidecarSetHash] = entry(hashes.Hash)
	template.Annotations[shared.AnnotationSidecarSetHashWithoutImage] = entry(hashes.WithoutImage)
	c := set.Spec.Containers[0]
	if c.UpgradeStrategy.UpgradeType != v1beta1.HotUpgrade {
		template.Spec.Containers = append(template.Spec.Containers, corev1.Container{Name: "agent", Image: c.Image})
		return
	}
	template.Spec.Containers = append(template.Spec.Containers,
		corev1.Container{Name: "agent-1", Image: c.Image}, corev1.Container{Name: "agent-2", Image: c.UpgradeStrategy.HotUpgradeEmptyImage})
	for key, value := range map[string]string{
		shared.AnnotationSidecarSetVersionPrefix + "agent-1": "1", shared.AnnotationSidecarSetVersionAltPrefix + "agent-1": "0",
		shared.AnnotationSidecarSetVersionPrefix + "agent-2": "0", shared.AnnotationSidecarSetVersionAltPrefix + "agent-2": "1",
		shared.AnnotationSidecarSetWorkingContainer: `{"agent":"agent-1"}`,
	} {
		template.Annotations[key] = value
	}
}

// deploy makes a native Deployment whose pods have the sidecars.
func (s *sidecars) deploy(replicas int32) {
	s.t.Helper()
	s.deployAs(replicas, s.injected)
}

// deployAs makes a Deployment of the cluster's own, with a change of its template.
func (s *sidecars) deployAs(replicas int32, change func(*corev1.PodTemplateSpec)) {
	s.t.Helper()
	labels := map[string]string{"app": scenario.Name}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, Name: scenario.Name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: scenario.V1}}},
			},
		},
	}
	change(&deployment.Spec.Template)
	if err := s.Client.Create(s.t.Context(), deployment); err != nil {
		s.t.Fatalf("creating the Deployment: %v", err)
	}
}

// images counts pods by the intended image of a container.
func (s *sidecars) images(container string) map[string]int {
	s.t.Helper()
	all := map[string]int{}
	for _, pod := range s.Pods("app=" + scenario.Name) {
		for _, c := range pod.Spec.Containers {
			if c.Name == container {
				all[c.Image]++
			}
		}
	}
	return all
}

// restarts are how often the containers of this name have restarted, by the UID of their pod.
func (s *sidecars) restarts(container string) map[types.UID]int32 {
	s.t.Helper()
	all := map[types.UID]int32{}
	for _, pod := range s.Pods("app=" + scenario.Name) {
		for _, c := range pod.Status.ContainerStatuses {
			if c.Name == container {
				all[pod.UID] = c.RestartCount
			}
		}
	}
	return all
}

// TestSidecarSetUpdatesPodsOfADeployment gives the sidecars in pods of a Deployment new images in place: by parts, paused, and to the end.
func TestSidecarSetUpdatesPodsOfADeployment(t *testing.T) {
	t.Parallel()
	s := newSidecars(t, env.Namespace(t), agentLimits("1", "2"))
	s.deploy(4)
	s.awaits(4, 4, v1beta1.ReasonComplete)
	before := s.restarts("main")

	s.update(agentImage(agentV2))
	s.awaits(3, 4, v1beta1.ReasonPartitionReached)
	if got := s.images("agent"); got[agentV1] != 1 || got[agentV2] != 3 {
		t.Errorf("a partition of 1 leaves %v", got)
	}
	s.update(agentLimits("0", "2"))
	s.awaits(4, 4, v1beta1.ReasonComplete)

	s.update(agentPaused(true), agentImage(agentV3))
	s.awaits(0, 4, v1beta1.ReasonPaused)
	s.Consistently(scenario.Quiet, "paused, no pod changes", func(context.Context) error {
		if got := s.images("agent"); got[agentV2] != 4 {
			return fmt.Errorf("images %v", got)
		}
		return nil
	})
	log, err := audit.Open(env.Cluster.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	s.update(agentPaused(false))
	s.awaits(4, 4, v1beta1.ReasonComplete)

	after := s.restarts("main")
	if len(before) != 4 || len(after) != 4 {
		t.Errorf("%d pods, before %d", len(after), len(before))
	}
	for uid, restarts := range after {
		if was, known := before[uid]; !known || restarts != was {
			t.Errorf("pod %s: known %v, its own container has restarted %d times", uid, known, restarts)
		}
	}
	for uid, restarts := range s.restarts("agent") {
		if restarts != 2 {
			t.Errorf("the sidecar of pod %s has restarted %d times", uid, restarts)
		}
	}
	// The condition SidecarSetUpgradable was written by the first update.
	byOperator := audit.ByUser(operator.ServiceAccountUser)
	events, err := log.Next(func(e *auditv1.Event) bool {
		return byOperator(e) && e.ObjectRef != nil && e.ObjectRef.Namespace == s.Name && e.ObjectRef.Resource == "pods"
	})
	if err != nil {
		t.Fatal(err)
	}
	writes := 0
	for i := range events {
		if events[i].Verb != "get" && events[i].ResponseStatus != nil && events[i].ResponseStatus.Code < 300 {
			writes++
		}
	}
	if writes != 4 {
		t.Errorf("%d writes for 4 pods", writes)
	}
}

// TestPodsThatWereThereBeforeTheirSidecarSetAreNamed: a condition and an event name pods
// older than their set, but no ended one. Re-created they have the sidecar, and the
// condition is gone.
func TestPodsThatWereThereBeforeTheirSidecarSetAreNamed(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	(&sidecars{Namespace: n, t: t}).deployAs(2, func(*corev1.PodTemplateSpec) {})
	n.Apply(`apiVersion: v1
kind: Pod
metadata: {name: over, labels: {app: ` + scenario.Name + `}, annotations: {` + simnode.CompleteAfter + `: 1ms}}
spec: {restartPolicy: Never, containers: [{name: main, image: "` + scenario.V1 + `"}]}`)
	n.Eventually("two pods run and one has ended", func(context.Context) error {
		phases := map[corev1.PodPhase]int{}
		for _, pod := range n.Pods("app=" + scenario.Name) {
			phases[pod.Status.Phase]++
		}
		if phases[corev1.PodRunning] != 2 || phases[corev1.PodSucceeded] != 1 {
			return fmt.Errorf("phases %v", phases)
		}
		return nil
	})
	var old []string
	for _, pod := range n.Pods("app=" + scenario.Name) {
		if pod.Name != "over" {
			old = append(old, n.Name+"/"+pod.Name)
		}
	}
	slices.Sort(old)
	s := newSidecars(t, n, func(set *v1beta1.SidecarSet) { set.Spec.InjectionStrategy.Paused = false })
	without := func(ctx context.Context) (string, error) {
		set, err := s.set(ctx)
		if err != nil {
			return "", err
		}
		if c := meta.FindStatusCondition(set.Status.Conditions, string(v1beta1.SidecarSetPodsWithoutSidecar)); c != nil && c.Status == metav1.ConditionTrue {
			return c.Message, nil
		}
		return "", nil
	}
	names := "2: " + strings.Join(old, ", ")
	s.Eventually("the condition and an event name the two", func(ctx context.Context) error {
		message, err := without(ctx)
		if err != nil || !strings.HasSuffix(message, names) {
			return fmt.Errorf("condition %q: %w", message, err)
		}
		events := &corev1.EventList{}
		if err := s.Client.List(ctx, events, client.InNamespace(metav1.NamespaceDefault)); err != nil {
			return err
		}
		if !slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return e.InvolvedObject.Name == s.Name && e.Reason == "PodsWithoutSidecar" && strings.HasSuffix(e.Message, names)
		}) {
			return errors.New("there is no event")
		}
		return nil
	})
	s.Eventually("the set injects", func(ctx context.Context) error {
		set, err := s.set(ctx)
		if err == nil && !meta.IsStatusConditionTrue(set.Status.Conditions, string(v1beta1.SidecarSetInjectionPath)) {
			err = fmt.Errorf("the conditions are %+v", set.Status.Conditions)
		}
		return err
	})
	for _, pod := range n.Pods("app=" + scenario.Name) {
		if err := n.Client.Delete(t.Context(), &pod); err != nil {
			t.Fatal(err)
		}
	}
	s.Eventually("the new pods have the sidecar", func(context.Context) error {
		if got := s.images("agent"); got[agentV1] != 2 || len(s.Pods("app="+scenario.Name)) != 2 {
			return fmt.Errorf("%v", got)
		}
		return nil
	})
	s.update(agentImage(agentV2)) // a changed set is looked at again at once, and not only after a minute
	s.Eventually("the condition is gone", func(ctx context.Context) error {
		message, err := without(ctx)
		if err == nil && message != "" {
			err = errors.New(message)
		}
		return err
	})
}

// TestPodsThatKeepFormerVolumesAreNamed: running pods never follow an edit of volumes, also when they get an image later. Nothing said so.
func TestPodsThatKeepFormerVolumesAreNamed(t *testing.T) {
	t.Parallel()
	s := newSidecars(t, env.Namespace(t), func(set *v1beta1.SidecarSet) {
		set.Spec.InjectionStrategy.Paused = false
		set.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "spool", MountPath: "/spool"}}
		set.Spec.Volumes = []corev1.Volume{{Name: "spool", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	})
	ignored := func(want string) {
		t.Helper()
		s.Eventually(fmt.Sprintf("the condition says %q", want), func(ctx context.Context) error {
			set, err := s.set(ctx)
			if err != nil {
				return err
			}
			message := ""
			if c := meta.FindStatusCondition(set.Status.Conditions, string(v1beta1.SidecarSetFieldsIgnored)); c != nil {
				message = c.Message
			}
			if set.Status.ObservedGeneration != set.Generation || !strings.HasPrefix(message, want) || want == "" && message != "" {
				return fmt.Errorf("the status is %+v", set.Status)
			}
			return nil
		})
	}
	s.Eventually("the set injects", func(ctx context.Context) error {
		set, err := s.set(ctx)
		if err == nil && !meta.IsStatusConditionTrue(set.Status.Conditions, string(v1beta1.SidecarSetInjectionPath)) {
			err = fmt.Errorf("the conditions are %+v", set.Status.Conditions)
		}
		return err
	})
	s.deployAs(2, func(*corev1.PodTemplateSpec) {})
	s.awaits(2, 2, v1beta1.ReasonComplete)
	ignored("")

	s.update(func(set *v1beta1.SidecarSet) { set.Spec.Volumes[0].EmptyDir.Medium = corev1.StorageMediumMemory })
	ignored("spec.volumes: 2 pods keep what an earlier spec said until recreated, such as " + s.Name + "/")
	s.update(agentImage(agentV2))
	s.awaits(2, 2, v1beta1.ReasonComplete)
	ignored("spec.volumes: 2 pods keep ")

	for _, pod := range s.Pods("app=" + scenario.Name) {
		if err := s.Client.Delete(t.Context(), &pod); err != nil {
			t.Fatal(err)
		}
	}
	ignored("")
	s.awaits(2, 2, v1beta1.ReasonComplete)
}

// TestSidecarSetUpgradesHot has the second container of each pair run the new image at the end, and the first one none.
func TestSidecarSetUpgradesHot(t *testing.T) {
	t.Parallel()
	s := newSidecars(t, env.Namespace(t), agentHot, agentLimits("0", "2"))
	s.deploy(3)
	s.awaits(3, 3, v1beta1.ReasonComplete)
	s.update(agentImage(agentV2))
	s.awaits(3, 3, v1beta1.ReasonComplete)
	if first, second := s.images("agent-1"), s.images("agent-2"); first[agentIdle] != 3 || second[agentV2] != 3 {
		t.Errorf("the first containers have %v, the second %v", first, second)
	}
	for _, pod := range s.Pods("app=" + scenario.Name) {
		if got := pod.Annotations[shared.AnnotationSidecarSetWorkingContainer]; got != `{"agent":"agent-2"}` {
			t.Errorf("pod %s says that %s works", pod.Name, got)
		}
	}
}

// TestSidecarSetAndCloneSetUpdateTheSamePods changes a CloneSet's image and a sidecar's at
// once: both reach all pods, which stay.
func TestSidecarSetAndCloneSetUpdateTheSamePods(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	s := newSidecars(t, n, agentLimits("0", "2"))
	// Neither knows of the other's very recent outages.
	clones := scenario.StartClonesIn(t, n, 4, limits.Rules{Foreign: true}, scenario.CloneLimits("2", "0"), scenario.ClonePolicy(shared.InPlaceOnly), scenario.CloneTemplate(s.injected))
	before := identitiesWhenDone(clones)
	s.awaits(4, 4, v1beta1.ReasonComplete)
	verify := s.judgesSidecars(2)
	s.update(agentImage(agentV2))
	clones.Update(scenario.CloneImage(scenario.V2))
	clones.Done()
	s.awaits(4, 4, v1beta1.ReasonComplete)
	clones.Await("all have the image and none is new", scenario.Number(4, "updated", scenario.WithImage(scenario.V2)), scenario.Number(0, "new", newComers(before)))
	if got := s.images("agent"); got[agentV2] != 4 {
		t.Errorf("the sidecars have %v", got)
	}
	if edited := verify(); edited != 4 {
		t.Errorf("%d sidecars were changed", edited)
	}
}

// judgesSidecars watches every change of the pods. The returned function fails the test if
// a ready pod got another sidecar while maxUnavailable were out of service for one, and
// returns the number of changed sidecars.
func (s *sidecars) judgesSidecars(maxUnavailable int) func() int {
	s.t.Helper()
	list := &corev1.PodList{}
	if err := s.Client.List(s.t.Context(), list, client.InNamespace(s.Name)); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	stream, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return s.Client.Watch(ctx, &corev1.PodList{}, &client.ListOptions{Namespace: s.Name, Raw: &options})
		},
	})
	if err != nil {
		cancel()
		s.t.Fatal(err)
	}
	judge := sidecarJudge{pods: map[types.UID]*corev1.Pod{}, taken: map[types.UID]bool{}, most: maxUnavailable}
	for i := range list.Items {
		judge.pods[list.Items[i].UID] = &list.Items[i]
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range stream.ResultChan() {
			if pod, is := event.Object.(*corev1.Pod); is {
				judge.see(pod)
			} else if ctx.Err() == nil {
				judge.faults = append(judge.faults, fmt.Sprintf("the watch ended: %v", event.Object))
			}
		}
	}()
	return func() int {
		s.t.Helper()
		// The watch reports all earlier changes before this one.
		const end = "e2e.example.com/end"
		last := s.Pods("app=" + scenario.Name)[0]
		if err := s.Client.Patch(s.t.Context(), &last, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+end+`":"yes"}}}`))); err != nil {
			s.t.Fatal(err)
		}
		s.Eventually("the watch has told of everything", func(context.Context) error {
			if !judge.saw(last.UID, end) {
				return fmt.Errorf("it has not told of the annotation of %s", last.Name)
			}
			return nil
		})
		cancel()
		stream.Stop()
		<-done
		for _, fault := range judge.faults {
			s.t.Error(fault)
		}
		return judge.edited
	}
}

// sidecarJudge judges the changes of sidecars of a set.
type sidecarJudge struct {
	mutex  sync.Mutex
	pods   map[types.UID]*corev1.Pod
	taken  map[types.UID]bool
	most   int
	edited int
	faults []string
}

func (j *sidecarJudge) saw(pod types.UID, annotation string) bool {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return j.pods[pod] != nil && j.pods[pod].Annotations[annotation] != ""
}

func (j *sidecarJudge) see(pod *corev1.Pod) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	before := j.pods[pod.UID]
	j.pods[pod.UID] = pod
	is := func(c corev1.Container) bool { return c.Name == "agent" }
	image := pod.Spec.Containers[slices.IndexFunc(pod.Spec.Containers, is)].Image
	edited := before != nil && before.Spec.Containers[slices.IndexFunc(before.Spec.Containers, is)].Image != image
	runs := slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.Name == "agent" && c.Ready && strings.HasSuffix(c.Image, image)
	})
	switch {
	case edited:
		j.edited++
		// A pod out of service anyway is free.
		if environment.IsReady(before) {
			j.taken[pod.UID] = true
			if len(j.taken) > j.most {
				j.faults = append(j.faults, fmt.Sprintf("pod %s gets another sidecar, and then %d are out of service for one; maxUnavailable is %d", pod.Name, len(j.taken), j.most))
			}
		}
	case pod.DeletionTimestamp != nil || runs && pod.Status.ObservedGeneration >= pod.Generation:
		// The sidecar serves again. The pod's readiness is also its workload's matter.
		delete(j.taken, pod.UID)
	}
}

// TestSidecarSetOfBothVersions writes and reads a set through both versions.
func TestSidecarSetOfBothVersions(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	name := n.Name
	t.Cleanup(func() {
		_ = client.IgnoreNotFound(n.Client.Delete(context.WithoutCancel(t.Context()), &v1beta1.SidecarSet{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	})
	n.Apply(`apiVersion: apps.kruise.io/v1alpha1
kind: SidecarSet
metadata:
  name: ` + name + `
  labels: {apps.kruise.io/sidecarset-custom-version: "1.4"}
spec:
  namespace: ` + name + `
  selector: {matchLabels: {app: web}}
  containers: [{name: agent, image: "example/agent:v1", futureField: {a: 1}}]`)
	set := &v1beta1.SidecarSet{}
	if err := n.Client.Get(t.Context(), types.NamespacedName{Name: name}, set); err != nil {
		t.Fatal(err)
	}
	if got := set.Spec.NamespaceSelector; got == nil || got.MatchLabels[corev1.LabelMetadataName] != name || set.Spec.CustomVersion != "1.4" {
		t.Errorf("in v1beta1 it selects namespaces by %v and has version %q", got, set.Spec.CustomVersion)
	}
	c := set.Spec.Containers[0]
	if c.PodInjectPolicy != v1beta1.BeforeAppContainer || c.UpgradeStrategy.UpgradeType != v1beta1.ColdUpgrade || c.ShareVolumePolicy.Type != v1beta1.ShareVolumePolicyDisabled {
		t.Errorf("defaults of the container: %+v", c)
	}
	out, err := n.Kubectl("get", "sidecarsets.v1alpha1.apps.kruise.io", name, "-o", "jsonpath={.spec.namespace} {.metadata.labels} {.spec.containers[0].futureField.a}")
	if err != nil || out != name+` {"apps.kruise.io/sidecarset-custom-version":"1.4"} 1` {
		t.Errorf("in v1alpha1 it is %q: %v", out, err)
	}
	out, err = n.Kubectl("get", "sidecarset", name)
	if err != nil {
		t.Error(err)
	}
	t.Log(out)
}

// TestSidecarSetSelectsNamespacesByLabel updates pods of a namespace selected by label, and
// drops them when it loses the label. The pods get the set's annotations with the new
// image.
func TestSidecarSetSelectsNamespacesByLabel(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	label := func(value string) {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"team":"`+value+`"}}}`))
		if err := n.Client.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}, patch); err != nil {
			t.Fatal(err)
		}
	}
	label(n.Name)
	configure(t, "SidecarSet_PatchPodMetadata_WhiteList", `{"rules":[{"allowedAnnotationKeyExprs":["^e2e.example.com/.*$"]}]}`)
	s := newSidecars(t, n, func(set *v1beta1.SidecarSet) {
		set.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": n.Name, corev1.LabelMetadataName: n.Name}}
		set.Spec.PatchPodMetadata = []v1beta1.SidecarSetPatchPodMetadata{{Annotations: map[string]string{"e2e.example.com/agent": "yes"}}}
	})
	s.deploy(2)
	s.awaits(2, 2, v1beta1.ReasonComplete)
	s.update(agentImage(agentV2))
	s.awaits(2, 2, v1beta1.ReasonComplete)
	for _, pod := range s.Pods("app=" + scenario.Name) {
		if pod.Annotations["e2e.example.com/agent"] != "yes" {
			t.Errorf("pod %s has annotations %v", pod.Name, pod.Annotations)
		}
	}
	label("other")
	s.awaits(0, 0, v1beta1.ReasonNoPods)
}
