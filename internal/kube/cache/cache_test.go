// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/testutil"
)

const group = "apps.kruise.io"

// sidecars is the annotation of a kind for others' pods.
const sidecars = "example.com/sidecars"

func ofStatefulSet() kinds.Kind {
	return kinds.Kind{Name: "StatefulSet", Group: group, Needs: kinds.Needs{ControlsPods: true, OwnsRevisions: true}}
}

func ofSidecarSet() kinds.Kind {
	return kinds.Kind{Name: "SidecarSet", Group: group, Needs: kinds.Needs{PodAnnotation: sidecars, OwnsRevisions: true}}
}

func ofCronJob() kinds.Kind {
	return kinds.Kind{Name: "AdvancedCronJob", Group: group, Needs: kinds.Needs{Controls: []schema.GroupVersionKind{jobKind()}}}
}

func jobKind() schema.GroupVersionKind { return batchv1.SchemeGroupVersion.WithKind("Job") }

// transform returns the cache's transformation of a kind.
func transform(t *testing.T, c Contents, kind schema.GroupVersionKind) toolscache.TransformFunc {
	t.Helper()
	for object, options := range c.Options(nil).ByObject {
		if u, ok := object.(*unstructured.Unstructured); ok && u.GroupVersionKind() == kind {
			return options.Transform
		}
	}
	t.Fatalf("nothing is said about %s", kind)
	return nil
}

// controlledAs returns a full pod with this controller's version and kind.
func controlledAs(name, apiVersion, kind string) *corev1.Pod {
	pod := testutil.Pod(name).UID("pod").Labels(map[string]string{"app": "web"}).ControlledBy(testutil.StatefulSet("web").UID("set").Obj()).Obj()
	pod.OwnerReferences[0].APIVersion, pod.OwnerReferences[0].Kind = apiVersion, kind
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	pod.Annotations = map[string]string{"note": "x"}
	pod.Status.Phase = corev1.PodRunning
	return pod
}

func TestEachNeedKeepsExactlyItsPods(t *testing.T) {
	orphan := controlledAs("web-0", "", "")
	orphan.OwnerReferences = nil
	annotated := controlledAs("web-0", "apps/v1", "ReplicaSet")
	annotated.Annotations[sidecars] = "logs"
	pods := map[string]*corev1.Pod{
		"of a set":                         controlledAs("web-0", "apps.kruise.io/v1beta1", "StatefulSet"),
		"of a set in the older version":    controlledAs("web-0", "apps.kruise.io/v1alpha1", "StatefulSet"),
		"of a native set":                  controlledAs("web-0", "apps/v1", "StatefulSet"),
		"of a kind that is off":            controlledAs("web-0", "apps.kruise.io/v1beta1", "CloneSet"),
		"of others, with the annotation":   annotated,
		"of others, without an annotation": controlledAs("web-0", "apps/v1", "ReplicaSet"),
		"of nobody":                        orphan,
	}
	cases := map[string]struct {
		enabled []kinds.Kind
		whole   []string
	}{
		"nothing is on":         {nil, nil},
		"controls pods":         {[]kinds.Kind{ofStatefulSet()}, []string{"of a set", "of a set in the older version"}},
		"edits pods of others":  {[]kinds.Kind{ofSidecarSet()}, []string{"of others, with the annotation"}},
		"needs nothing of pods": {[]kinds.Kind{ofCronJob()}, nil},
		"both": {
			[]kinds.Kind{ofStatefulSet(), ofSidecarSet()},
			[]string{"of a set", "of a set in the older version", "of others, with the annotation"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			trim := transform(t, ContentsFor(tc.enabled...), podKind())
			whole := map[string]bool{}
			for _, kept := range tc.whole {
				whole[kept] = true
			}
			for pod, full := range pods {
				want := full.DeepCopy()
				want.ManagedFields = nil
				if !whole[pod] {
					want = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
						Namespace: want.Namespace, Name: want.Name, UID: want.UID, Labels: want.Labels, OwnerReferences: want.OwnerReferences,
					}, Status: corev1.PodStatus{Phase: want.Status.Phase}}
				}
				object := any(full.DeepCopy())
				for range 2 { // An informer may transform an object again.
					var err error
					if object, err = trim(object); err != nil {
						t.Fatal(err)
					}
				}
				if diff := cmp.Diff(want, object); diff != "" {
					t.Errorf("pod %s (-want +got):\n%s", pod, diff)
				}
			}
		})
	}
}

func TestRevisionsOfOthersLoseTheirData(t *testing.T) {
	trim := transform(t, ContentsFor(ofStatefulSet(), ofSidecarSet()), revisionKind())
	for kind, want := range map[string]int{"StatefulSet": 2, "SidecarSet": 2, "CloneSet": 0} {
		got, err := trim(&appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{Name: "web-1", OwnerReferences: controlledAs("x", "apps.kruise.io/v1beta1", kind).OwnerReferences},
			Data:       runtime.RawExtension{Raw: []byte("{}")}, Revision: 4,
		})
		if err != nil {
			t.Fatal(err)
		}
		if kept, ok := got.(*appsv1.ControllerRevision); !ok || len(kept.Data.Raw) != want || kept.Revision != 4 {
			t.Errorf("revision of a %s: %+v", kind, got)
		}
	}
}

func TestObjectsOfFurtherKindsAreKeptWholeForTheirControllers(t *testing.T) {
	trim := transform(t, ContentsFor(ofCronJob()), jobKind())
	for kind, whole := range map[string]bool{"AdvancedCronJob": true, "CronJob": false} {
		got, err := trim(&batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: "job", OwnerReferences: controlledAs("x", "apps.kruise.io/v1beta1", kind).OwnerReferences},
			Status:     batchv1.JobStatus{Succeeded: 1},
		})
		if err != nil {
			t.Fatal(err)
		}
		if job, ok := got.(*batchv1.Job); !ok || job.Name != "job" || (job.Status.Succeeded == 1) != whole {
			t.Errorf("job of a %s: %+v", kind, got)
		}
	}
}

func TestObjectsOfKindsOfTheTableAreKeptWholeWhoeverControlsThem(t *testing.T) {
	own := testutil.Kinds("CloneSet", "StatefulSet")
	united := testutil.Kinds("UnitedDeployment")[0]
	united.Needs.Controls = []schema.GroupVersionKind{own[0].Stored(), own[1].Stored(), {Group: "apps", Version: "v1", Kind: "Deployment"}}
	trimmed := map[schema.GroupVersionKind]bool{}
	for object, how := range ContentsFor(united).Options(own).ByObject {
		if how.Transform != nil {
			trimmed[object.GetObjectKind().GroupVersionKind()] = true
		}
	}
	for _, kind := range united.Needs.Controls {
		if want := kind.Group == "apps"; trimmed[kind] != want {
			t.Errorf("%s is trimmed: %v, want %v", kind, trimmed[kind], want)
		}
	}
}

func TestIndexesFindOursAndOrphans(t *testing.T) {
	ours := controlledAs("web-0", "apps.kruise.io/v1alpha1", "StatefulSet")
	native := controlledAs("web-1", "apps/v1", "StatefulSet")
	ours.ManagedFields, native.ManagedFields = nil, nil
	native.Annotations[sidecars] = "logs, mesh"
	orphan := testutil.Pod("web-2").Obj()
	elsewhere := testutil.Pod("web-3").Namespace("elsewhere").Obj()
	elsewhere.Annotations = map[string]string{sidecars: "mesh"}
	reader, err := testutil.NewIndexedClient(clientgoscheme.Scheme, nil, func(indexer client.FieldIndexer) error {
		return ContentsFor(ofStatefulSet(), ofSidecarSet()).Index(t.Context(), indexer)
	}, ours, native, orphan, elsewhere)
	if err != nil {
		t.Fatal(err)
	}

	var controlled, anywhere, orphans corev1.PodList
	if err := Controlled(t.Context(), reader, &controlled, testutil.Namespace, "set"); err != nil {
		t.Fatal(err)
	}
	if err := Controlled(t.Context(), reader, &anywhere, metav1.NamespaceAll, "set"); err != nil {
		t.Fatal(err)
	}
	if err := Orphans(t.Context(), reader, &orphans, testutil.Namespace); err != nil {
		t.Fatal(err)
	}
	for what, tc := range map[string]struct {
		got  []corev1.Pod
		want []string
	}{
		"controlled":               {controlled.Items, []string{"web-0"}},
		"controlled, anywhere":     {anywhere.Items, []string{"web-0"}},
		"orphans":                  {orphans.Items, []string{"web-2"}},
		"annotated, anywhere":      {annotated(t, reader, metav1.NamespaceAll, "mesh"), []string{"web-1", "web-3"}},
		"annotated, the other one": {annotated(t, reader, testutil.Namespace, "logs"), []string{"web-1"}},
	} {
		if diff := cmp.Diff(tc.want, names(tc.got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}

// Each name takes several hundred bytes of the index: a pod's 256 KiB of annotations took
// 80 MB.
func TestAPodThatListsVeryManySidecarSetsTakesLittleOfTheIndex(t *testing.T) {
	var list strings.Builder
	for i := range 40_000 {
		fmt.Fprintf(&list, "s%d,", i)
	}
	pod := testutil.Pod("web-0").Obj()
	pod.Annotations = map[string]string{sidecars: "mesh, logs," + list.String()}
	values := map[string][]string{}
	if err := ContentsFor(ofSidecarSet()).Index(t.Context(), indexing{values, pod}); err != nil {
		t.Fatal(err)
	}
	if got := values[byAnnotation(sidecars)]; len(got) < 2 || len(got) > 1000 || got[0] != "mesh" || got[1] != "logs" {
		t.Errorf("%d values", len(got))
	}
}

// indexing notes the values of a pod in each index.
type indexing struct {
	values map[string][]string
	pod    *corev1.Pod
}

func (i indexing) IndexField(_ context.Context, object client.Object, field string, of client.IndexerFunc) error {
	if _, is := object.(*corev1.Pod); is {
		i.values[field] = of(i.pod)
	}
	return nil
}

func annotated(t *testing.T, reader client.Reader, namespace, name string) []corev1.Pod {
	t.Helper()
	found, err := Annotated(t.Context(), reader, sidecars, namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	var pods []corev1.Pod
	for _, pod := range found {
		pods = append(pods, *pod)
	}
	return pods
}

func names(pods []corev1.Pod) []string {
	var all []string
	for i := range pods {
		all = append(all, pods[i].Name)
	}
	return all
}

// TestPodsForEphemeralContainers: a kind adding containers to others' pods sees the fields
// it decides by; nothing else is kept.
func TestPodsForEphemeralContainers(t *testing.T) {
	full := controlledAs("web-0", "apps/v1", "ReplicaSet")
	full.CreationTimestamp = metav1.Unix(1000, 0)
	full.Spec.NodeName = "n1"
	full.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug"}}}
	full.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{Name: "debug"}}
	full.Status.PodIP = "10.0.0.1"
	kept, err := transform(t, ContentsFor(), podKind())(full.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: full.Namespace, Name: full.Name, UID: full.UID, ResourceVersion: full.ResourceVersion, Labels: full.Labels,
			OwnerReferences: full.OwnerReferences, CreationTimestamp: full.CreationTimestamp,
		},
		Spec:   corev1.PodSpec{NodeName: "n1", EphemeralContainers: full.Spec.EphemeralContainers},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, EphemeralContainerStatuses: full.Status.EphemeralContainerStatuses},
	}
	if diff := cmp.Diff(want, kept); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
}

func TestFurtherPodsAreKeptWhole(t *testing.T) {
	trim := transform(t, ContentsFor().Keeping(func(pod *corev1.Pod) bool { return pod.Annotations["note"] == "x" }), podKind())
	for note, whole := range map[string]bool{"x": true, "y": false} {
		pod := controlledAs("web-0", "apps/v1", "ReplicaSet")
		pod.Annotations["note"] = note
		kept, err := trim(pod)
		if err != nil {
			t.Fatal(err)
		}
		if got := kept.(*corev1.Pod).Annotations != nil; got != whole {
			t.Errorf("with the note %s it is kept whole: %v", note, got)
		}
	}
}

// What probes, budgets and spreads need of others' pods is kept with any others.
func TestFactsOfPodsAreKept(t *testing.T) {
	full := controlledAs("web-0", "apps/v1", "ReplicaSet")
	full.Annotations[corev1.LastAppliedConfigAnnotation] = "{}"
	full.Spec = corev1.PodSpec{
		NodeName: "n1", ServiceAccountName: "x", NodeSelector: map[string]string{"zone": "a"},
		Containers: []corev1.Container{{
			Name: "app", Image: "example/app:v1", Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 80, Protocol: corev1.ProtocolTCP}, {ContainerPort: 81}},
		}},
		InitContainers: []corev1.Container{
			{Name: "setup", Image: "example/setup:v1"}, {Name: "mesh", Image: "example/mesh:v1", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)},
		},
		EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug"}}},
	}
	full.Generation, full.Status.ObservedGeneration = 3, 2
	full.Status.PodIP, full.Status.HostIP = "10.0.0.1", "192.0.2.1"
	full.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodInitialized, Status: corev1.ConditionTrue, Message: "m"}}
	probes := kinds.Kind{Name: "PodProbeMarker", Group: group, Needs: kinds.Needs{PodFacts: true}}
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: full.Namespace, Name: full.Name, UID: full.UID, ResourceVersion: full.ResourceVersion, Labels: full.Labels,
			OwnerReferences: full.OwnerReferences, Annotations: map[string]string{"note": "x"}, Generation: 3,
		},
		Spec: corev1.PodSpec{
			NodeName: "n1", NodeSelector: full.Spec.NodeSelector, Containers: []corev1.Container{{Name: "app", Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 80}}}},
			InitContainers: []corev1.Container{{Name: "mesh", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ObservedGeneration: 2, PodIP: "10.0.0.1", Conditions: full.Status.Conditions},
	}
	want.CreationTimestamp, want.Spec.EphemeralContainers = full.CreationTimestamp, full.Spec.EphemeralContainers
	kept := any(full.DeepCopy())
	for range 2 { // An informer may transform an object again.
		var err error
		if kept, err = transform(t, ContentsFor(probes), podKind())(kept); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, kept); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
}

// Anybody can put the label on objects of any size: of those that no distribution controls only the identity is kept, of the others no data.
func TestOfCopiesOnlyTheNeededMetadataIsKept(t *testing.T) {
	kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	owner := kinds.Kind{Group: "apps.kruise.io", Name: "ResourceDistribution", Needs: kinds.Needs{Distributed: []schema.GroupVersionKind{kind}}}
	for object, options := range ContentsFor(owner).Options(nil).ByObject {
		if object.GetObjectKind().GroupVersionKind() != kind {
			continue
		}
		if options.Label == nil || options.Label.String() != shared.LabelDistributed {
			t.Errorf("selected is %s", options.Label)
		}
		for controlled, fields := range map[bool]int{true: 1, false: 0} {
			full := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
				Name: "hub", Labels: map[string]string{shared.LabelDistributed: "true"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
				Annotations: map[string]string{shared.AnnotationDistributedHash: "h", "large": "text"},
			}}
			if controlled {
				full.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps.kruise.io/v1alpha1", Kind: "ResourceDistribution", Controller: ptr.To(true)}}
			}
			trimmed, err := options.Transform(full)
			kept, ok := trimmed.(*metav1.PartialObjectMetadata)
			if err != nil || !ok || kept.Name != "hub" || len(kept.ManagedFields) != fields || len(kept.Annotations) != fields {
				t.Errorf("controlled %t: kept is %+v, %v", controlled, trimmed, err)
			}
		}
		return
	}
	t.Error("copies are not in the cache")
}
