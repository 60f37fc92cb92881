// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package controller_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/audit"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
)

// pod is the test's own.
func pod(n *environment.Namespace, name string, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: n.Name, Name: name, Labels: labels},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: ptr.To[int64](1),
			Containers:                    []corev1.Container{{Name: "main", Image: "example/web:v1"}},
		},
	}
}

func TestAdoptsOrphansAfterALookAtTheLiveSet(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	match := map[string]string{"app": "web"}
	orphan := pod(n, "web-0", match)
	stranger := pod(n, "other", match)
	unlike := pod(n, "web-7", map[string]string{"app": "else"})
	holder := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: n.Name, Name: "holder"}}
	if err := n.Client.Create(t.Context(), holder); err != nil {
		t.Fatal(err)
	}
	taken := pod(n, "web-9", match)
	taken.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "holder", UID: holder.UID, Controller: ptr.To(true)}}
	for _, p := range []*corev1.Pod{orphan, stranger, unlike, taken} {
		if err := n.Client.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	log := openLog(t)
	n.Apply(environment.StatefulSetManifest("web", 2, onDelete()...))
	set := n.StatefulSet("web")
	n.Eventually("the orphan has a controller", func(context.Context) error {
		if got := n.Pod("web-0"); got == nil || controllerOf(got) != set.UID {
			return fmt.Errorf("the pod is %+v", got)
		}
		return nil
	})
	n.Eventually("the missing pod exists", func(context.Context) error {
		if n.Pod("web-1") == nil {
			return fmt.Errorf("the pods are %v", environment.Names(n.Pods()))
		}
		return nil
	})
	if n.Pod("web-0").UID != orphan.UID {
		t.Error("the orphan was replaced")
	}
	for _, p := range []*corev1.Pod{stranger, unlike, taken} {
		got := n.Pod(p.Name)
		if got == nil || got.UID != p.UID || controllerOf(got) == set.UID {
			t.Errorf("pod %s, which is not the set's, is now %+v", p.Name, got)
		}
	}

	// The read past the cache comes before the write.
	requests, err := log.Next(func(e *auditv1.Event) bool {
		return audit.ByUser(operator.ServiceAccountUser)(e) && e.ObjectRef != nil && e.ObjectRef.Namespace == n.Name
	})
	if err != nil {
		t.Fatal(err)
	}
	looked := slices.IndexFunc(requests, func(e auditv1.Event) bool { return e.Verb == "get" && e.ObjectRef.Resource == "statefulsets" })
	adopted := slices.IndexFunc(requests, func(e auditv1.Event) bool {
		return e.Verb == "patch" && e.ObjectRef.Resource == "pods" && e.ObjectRef.Name == "web-0"
	})
	if looked < 0 || adopted < looked {
		t.Errorf("the set was read live by request %d and the pod adopted by request %d:\n%s", looked, adopted, audit.Count(requests))
	}
}

func TestReleasesAPodWhoseLabelsStopMatching(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	n.Apply(environment.StatefulSetManifest("web", 2))
	set := n.Settled("web")
	released := n.Pod("web-1")
	n.PatchPod("web-1", `{"metadata":{"labels":{"app":"mine-now"}}}`)
	n.Eventually("the pod is released", func(context.Context) error {
		if got := n.Pod("web-1"); controllerOf(got) != "" {
			return fmt.Errorf("it is controlled by %s", controllerOf(got))
		}
		return nil
	})
	n.Eventually("the name is missed and its holder named", func(context.Context) error {
		c := condition(n.StatefulSet("web"), v1beta1.StatefulSetFailedCreatePod)
		if c == nil || c.Status != corev1.ConditionTrue || !strings.Contains(c.Message, "a pod with this name exists and is controlled by nobody") {
			return fmt.Errorf("FailedCreatePod is %+v", c)
		}
		return nil
	})
	if got := n.Pod("web-1"); got == nil || got.UID != released.UID || got.DeletionTimestamp != nil {
		t.Errorf("the released pod is now %+v", got)
	}
	if err := n.Client.Delete(t.Context(), n.Pod("web-1")); err != nil {
		t.Fatal(err)
	}
	n.Settled("web")
	if got := n.Pod("web-1"); got.UID == released.UID || controllerOf(got) != set.UID {
		t.Errorf("the pod in its place is %s, controlled by %s", got.UID, controllerOf(got))
	}
	n.Eventually("the failure is over", func(context.Context) error {
		if c := condition(n.StatefulSet("web"), v1beta1.StatefulSetFailedCreatePod); c != nil {
			return fmt.Errorf("FailedCreatePod is %+v", c)
		}
		return nil
	})
}

func TestTakesOverWhatADeletedSetLeft(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	n.Apply(environment.StatefulSetManifest("web", 3))
	n.Settled("web")
	n.SetImage("web", "example/web:v2")
	first := n.Settled("web")
	pods, history := uids(n.Pods()), revisions(t, n)
	if len(history) != 2 {
		t.Fatalf("there are %d revisions, want 2", len(history))
	}
	if err := n.Client.Delete(t.Context(), first, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		t.Fatal(err)
	}
	n.Eventually("the set is gone and its objects belong to nobody", func(ctx context.Context) error {
		if err := n.Client.Get(ctx, client.ObjectKeyFromObject(first), &v1beta1.StatefulSet{}); client.IgnoreNotFound(err) != nil || err == nil {
			return fmt.Errorf("the set exists: %w", err)
		}
		for _, p := range n.Pods() {
			if len(p.OwnerReferences) > 0 {
				return fmt.Errorf("pod %s has the owners %+v", p.Name, p.OwnerReferences)
			}
		}
		for _, r := range revisions(t, n) {
			if len(r.OwnerReferences) > 0 {
				return fmt.Errorf("revision %s has the owners %+v", r.Name, r.OwnerReferences)
			}
		}
		return nil
	})
	if got := uids(n.Pods()); !maps.Equal(got, pods) {
		t.Fatalf("deleting the set with --cascade=orphan touched its pods: %v, were %v", got, pods)
	}

	n.Apply(environment.StatefulSetManifest("web", 3, "example/web:v1", "example/web:v2"))
	second := n.Settled("web")
	if got := uids(n.Pods()); !maps.Equal(got, pods) {
		t.Errorf("the pods are %v, were %v", got, pods)
	}
	for _, p := range n.Pods() {
		if controllerOf(&p) != second.UID {
			t.Errorf("pod %s is controlled by %q, want the new set", p.Name, controllerOf(&p))
		}
	}
	now := revisions(t, n)
	if len(now) != 2 || second.Status.UpdateRevision != first.Status.UpdateRevision {
		t.Errorf("there are %d revisions and the set is at %s, want 2 and %s", len(now), second.Status.UpdateRevision, first.Status.UpdateRevision)
	}
	for i := range now {
		if controllerOf(&now[i]) != second.UID {
			t.Errorf("revision %s is controlled by %q, want the new set", now[i].Name, controllerOf(&now[i]))
		}
	}
}

// OpenKruise's pods have v1alpha1 in their owner references. They are the set's like any
// other.
func TestOwnerReferencesOfTheOlderVersionCount(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	n.Apply(environment.StatefulSetManifest("web", 2))
	set := n.Settled("web")
	for _, name := range []string{"web-0", "web-1"} {
		n.PatchPod(name, fmt.Sprintf(`{"metadata":{"ownerReferences":[{"uid":%q,"apiVersion":"apps.kruise.io/v1alpha1"}]}}`, set.UID))
	}
	if got := n.Pod("web-0").OwnerReferences; len(got) != 1 || got[0].APIVersion != "apps.kruise.io/v1alpha1" {
		t.Fatalf("the owners are %+v", got)
	}
	n.PatchPod("web-0", `{"metadata":{"annotations":{"`+simnode.NotReady+`":"true"}}}`)
	n.Eventually("the status follows the pod", func(context.Context) error {
		if got := n.StatefulSet("web").Status.ReadyReplicas; got != 1 {
			return fmt.Errorf("%d are ready, want 1", got)
		}
		return nil
	})
	before := n.Pod("web-1").UID
	if err := n.Client.Delete(t.Context(), n.Pod("web-1")); err != nil {
		t.Fatal(err)
	}
	n.Eventually("the deleted pod is replaced", func(context.Context) error {
		if got := n.Pod("web-1"); got == nil || got.UID == before {
			return fmt.Errorf("the pod is %+v", got)
		}
		return nil
	})
	n.Consistently(time.Second, "the other pod stays", func(context.Context) error {
		if got := n.Pod("web-0"); got == nil || got.DeletionTimestamp != nil || controllerOf(got) != set.UID {
			return fmt.Errorf("the pod is %+v", got)
		}
		return nil
	})
}
