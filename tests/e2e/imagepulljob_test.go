// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/daemon"
	"github.com/kruise-operator/kruise-operator/internal/daemon/cri"
	"github.com/kruise-operator/kruise-operator/internal/daemon/cri/critest"
	"github.com/kruise-operator/kruise-operator/internal/daemon/host"
	"github.com/kruise-operator/kruise-operator/internal/kube/installowner"
	"github.com/kruise-operator/kruise-operator/internal/platform/operands"
	"github.com/kruise-operator/kruise-operator/tests/framework/audit"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
)

// installDaemon applies the operator's objects for the daemon, but the DaemonSet: the tests
// run their own daemons.
func installDaemon(t *testing.T) {
	t.Helper()
	objects, err := operands.RenderDaemon(operands.Daemon{Namespace: "kruise-system", Image: "none"})
	if err != nil {
		t.Fatal(err)
	}
	policy, err := operands.RenderDaemonPolicy()
	if err != nil {
		t.Fatal(err)
	}
	objects = append(objects, policy...)
	owner, err := installowner.Find(t.Context(), env.Client)
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		if object.GetKind() == "DaemonSet" {
			continue
		}
		if object.GetKind() == "Namespace" { // as the operator makes it: it uses no other
			object.SetOwnerReferences([]metav1.OwnerReference{owner})
		}
		if err := env.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("test"), client.ForceOwnership); err != nil {
			t.Fatal(err)
		}
	}
}

// daemonConfig is a daemon's access to the API server: with a token bound to a pod on the
// node, as in a cluster. Without a node it is bound to nothing.
func daemonConfig(t *testing.T, node string) *rest.Config {
	t.Helper()
	request := &authenticationv1.TokenRequest{}
	if node != "" {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: operands.DaemonNamespace, GenerateName: "daemon-"}}
		pod.Spec = corev1.PodSpec{
			NodeName: node, ServiceAccountName: operands.DaemonName, Containers: []corev1.Container{{Name: "daemon", Image: "example/daemon:v1"}},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		}
		if err := env.Client.Create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = env.Client.Delete(context.WithoutCancel(t.Context()), pod, client.GracePeriodSeconds(0)) })
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: operands.DaemonNamespace, Name: operands.DaemonName}}
	if err := env.Client.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(env.Cluster.Config())
	config.BearerToken = request.Status.Token
	return config
}

// runDaemon runs the daemon of a node until the returned function is called, or the test ends.
func runDaemon(t *testing.T, node string, runtime cri.Runtime) (stop func()) {
	t.Helper()
	mgr, err := daemon.New(daemonConfig(t, node), daemon.Options{Node: node, Namespace: operands.DaemonNamespace, Address: "0", MaxPulls: 2}, runtime, host.NewMetrics(prometheus.NewRegistry()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the daemon of %s: %v", node, err)
		}
		ended <- nil
	}
	t.Cleanup(stop)
	return stop
}

func pullJob(spec string) string {
	return "apiVersion: apps.kruise.io/v1beta1\nkind: ImagePullJob\nmetadata: {name: pull}\nspec:\n  image: registry.example/web:v2\n" + spec
}

func awaitPull(n *environment.Namespace, what string, ok func(*v1beta1.ImagePullJob) bool) *v1beta1.ImagePullJob {
	job := &v1beta1.ImagePullJob{}
	n.EventuallyWithin(2*time.Minute, what, func(ctx context.Context) error {
		if err := n.Client.Get(ctx, client.ObjectKey{Namespace: n.Name, Name: "pull"}, job); err != nil {
			return err
		}
		if !ok(job) {
			return fmt.Errorf("the status is %+v", job.Status)
		}
		return nil
	})
	return job
}

const pulled = "registry.example/web:v2"

// mayReadSecrets follows the kind's page for a namespace with pull secrets.
func mayReadSecrets(t *testing.T, n *environment.Namespace) {
	t.Helper()
	const name = "kruise-operator-read-pull-secrets"
	if err := n.Client.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: n.Name, Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "kruise-system", Name: "kruise-operator-manager"}},
	}); err != nil {
		t.Fatal(err)
	}
}

// Users choose nodes, with credentials; the nodes pull two at a time, with few writes; a
// new node is served; nothing is left after the job.
func TestImagePullJob(t *testing.T) {
	n := env.Namespace(t)
	installDaemon(t)
	nodes := ownNodes(t, n, 4)
	release := make(chan struct{})
	runtimes := map[string]*critest.Runtime{}
	for _, node := range nodes {
		runtimes[node] = &critest.Runtime{OnPull: func(ctx context.Context, _ cri.Pull) error {
			select {
			case <-release:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		runDaemon(t, node, runtimes[node])
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: n.Name, Name: "registry"}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{"registry.example":{"username":"u","password":"p"}}}`)},
	}
	if err := n.Client.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	mayReadSecrets(t, n)
	log, err := audit.Open(env.Cluster.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	n.Apply(pullJob("  selector: {matchLabels: {e2e: " + n.Name + "}}\n  parallelism: 2\n  pullSecrets: [registry]\n  completionPolicy: {type: Never}\n"))
	awaitPull(n, "two nodes pull", func(j *v1beta1.ImagePullJob) bool { return j.Status.Desired == 4 && j.Status.Active == 2 })
	asked := 0
	for _, node := range nodes {
		asked += runtimes[node].Pulls(pulled)
	}
	if asked > 2 {
		t.Errorf("%d nodes pull, and parallelism is 2", asked)
	}
	close(release)
	job := awaitPull(n, "all nodes have the image", func(j *v1beta1.ImagePullJob) bool { return j.Status.Succeeded == 4 })
	if job.Status.Message != "job is running, progress 100.0%" || job.Status.CompletionTime != nil {
		t.Errorf("status %+v", job.Status)
	}
	for _, node := range nodes {
		calls := runtimes[node].Calls()
		if len(calls) != 1 || calls[0].Pull.Credentials == nil || calls[0].Pull.Credentials.Password != "p" {
			t.Errorf("%s: %d pulls, credentials %v; want one with those of the Secret", node, len(calls), len(calls) > 0 && calls[0].Pull.Credentials != nil)
		}
	}
	checkCost(t, log, nodes)

	joined := n.OwnNode(n.Name+"-late", nil)
	runtimes[joined] = &critest.Runtime{}
	runDaemon(t, joined, runtimes[joined])
	awaitPull(n, "the node that joined has the image", func(j *v1beta1.ImagePullJob) bool { return j.Status.Succeeded == 5 })

	if err := n.Client.Delete(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	n.EventuallyWithin(time.Minute, "nothing is left of the job", func(ctx context.Context) error {
		if err := n.Client.Get(ctx, client.ObjectKeyFromObject(job), &v1beta1.ImagePullJob{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("reading the job answers %s", fmt.Sprint(err))
		}
		copies := &corev1.SecretList{}
		if err := n.Client.List(ctx, copies, client.InNamespace(operands.DaemonNamespace)); err != nil {
			return err
		}
		for i := range copies.Items {
			if strings.HasPrefix(copies.Items[i].Annotations["imagepulljobs.kruise.io/source-key"], n.Name+"/") {
				return errors.New("there is a copy of its Secret")
			}
		}
		for _, node := range append(slices.Clone(nodes), joined) {
			list := &v1beta1.NodeImage{}
			if err := n.Client.Get(ctx, client.ObjectKey{Name: node}, list); err != nil {
				return err
			}
			if len(list.Spec.Images) > 0 || list.Status.Desired != 0 {
				return fmt.Errorf("NodeImage %s has %+v, %+v", node, list.Spec, list.Status)
			}
		}
		return nil
	})
}

// checkCost compares the writes since log began with their limits: one for each node's
// list, two for each node's status, one for the Secret, and the job's own.
func checkCost(t *testing.T, log *audit.Log, nodes []string) {
	t.Helper()
	lists, statuses, secrets := 0, 0, 0
	events, err := log.Next(func(e *auditv1.Event) bool {
		return e.ObjectRef != nil && e.ResponseStatus != nil && e.ResponseStatus.Code < 300
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range events {
		e := &events[i]
		if !slices.Contains([]string{"create", "patch", "update"}, e.Verb) {
			continue
		}
		switch ref := e.ObjectRef; {
		case ref.Resource == "nodeimages" && ref.Subresource == "" && e.User.Username == operator.ServiceAccountUser:
			lists++
		case ref.Resource == "nodeimages" && ref.Subresource == "status":
			statuses++
		case ref.Resource == "secrets" && ref.Namespace == operands.DaemonNamespace:
			secrets++
		}
	}
	t.Logf("measured: %d nodes took %d writes of lists, %d of their statuses and %d of Secrets", len(nodes), lists, statuses, secrets)
	if lists != len(nodes) || statuses > 2*len(nodes) || secrets != 1 {
		t.Errorf("want %d, at most %d, and 1", len(nodes), 2*len(nodes))
	}
}

// The daemon ends in the middle of a pull, and another one goes on. The job names a failed
// node and the reason.
func TestImagePullJobSurvivesItsDaemon(t *testing.T) {
	n := env.Namespace(t)
	installDaemon(t)
	nodes := ownNodes(t, n, 2)
	began := make(chan struct{}, 1)
	first := &critest.Runtime{OnPull: func(ctx context.Context, _ cri.Pull) error { began <- struct{}{}; <-ctx.Done(); return ctx.Err() }}
	stop := runDaemon(t, nodes[0], first)
	runDaemon(t, nodes[1], &critest.Runtime{OnPull: func(context.Context, cri.Pull) error { return errors.New("access denied") }})
	n.Apply(pullJob("  selector: {matchLabels: {e2e: " + n.Name + "}}\n  parallelism: 2\n  pullPolicy: {backoffLimit: 0}\n"))
	<-began
	stop()
	second := &critest.Runtime{}
	runDaemon(t, nodes[0], second)
	job := awaitPull(n, "the job ends", func(j *v1beta1.ImagePullJob) bool { return j.Status.CompletionTime != nil })
	if s := job.Status; s.Succeeded != 1 || s.Failed != 1 || !slices.Equal(s.FailedNodes, nodes[1:]) || s.Message != "job has completed" {
		t.Errorf("status %+v", s)
	}
	if second.Pulls(pulled) != 1 {
		t.Errorf("the daemon that came after pulled %d times", second.Pulls(pulled))
	}
	at := slices.IndexFunc(job.Status.Conditions, func(c metav1.Condition) bool { return c.Type == v1beta1.ImagePullJobStalled })
	if at < 0 || job.Status.Conditions[at].Status != metav1.ConditionTrue || !strings.Contains(job.Status.Conditions[at].Message, "access denied") {
		t.Errorf("conditions %+v", job.Status.Conditions)
	}
}

// A list of images: each is pulled to every node, an edit affects only its changes, and the
// list names failed images and nodes.
func TestImageListPullJob(t *testing.T) {
	n := env.Namespace(t)
	installDaemon(t)
	nodes := ownNodes(t, n, 2)
	for _, node := range nodes {
		runDaemon(t, node, &critest.Runtime{OnPull: func(_ context.Context, p cri.Pull) error {
			if strings.HasSuffix(p.Image, "broken:v1") {
				return errors.New("access denied")
			}
			return nil
		}})
	}
	apply := func(images string) {
		n.Apply("apiVersion: apps.kruise.io/v1beta1\nkind: ImageListPullJob\nmetadata: {name: bundle}\nspec:\n  images: [" + images + "]\n" +
			"  selector: {matchLabels: {e2e: " + n.Name + "}}\n  parallelism: 2\n  pullPolicy: {backoffLimit: 0}\n  completionPolicy: {type: Never}\n")
	}
	list := &v1beta1.ImageListPullJob{}
	await := func(what string, ok func(*v1beta1.ImageListPullJobStatus) bool) {
		t.Helper()
		n.EventuallyWithin(2*time.Minute, what, func(ctx context.Context) error {
			if err := n.Client.Get(ctx, client.ObjectKey{Namespace: n.Name, Name: "bundle"}, list); err != nil {
				return err
			}
			if !ok(&list.Status) {
				return fmt.Errorf("the status is %+v", list.Status)
			}
			return nil
		})
	}
	jobs := func() map[string]string {
		t.Helper()
		all := &v1beta1.ImagePullJobList{}
		if err := n.Client.List(t.Context(), all, client.InNamespace(n.Name)); err != nil {
			t.Fatal(err)
		}
		uids := map[string]string{}
		for i := range all.Items {
			if !metav1.IsControlledBy(&all.Items[i], list) {
				t.Errorf("%s is not controlled by the list", all.Items[i].Name)
			}
			if all.Items[i].DeletionTimestamp == nil {
				uids[all.Items[i].Spec.Image] = string(all.Items[i].UID)
			}
		}
		return uids
	}
	apply("registry.example/web:v2, registry.example/broken:v1")
	await("both images have been answered", func(s *v1beta1.ImageListPullJobStatus) bool { return s.Desired == 2 && s.Completed == 2 })
	if s := list.Status; s.Succeeded != 1 || len(s.FailedImageStatuses) != 1 || s.FailedImageStatuses[0].Name != "registry.example/broken:v1" {
		t.Errorf("status %+v", s)
	}
	if c := meta.FindStatusCondition(list.Status.Conditions, "Stalled"); c == nil || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "access denied") {
		t.Errorf("conditions %+v", list.Status.Conditions)
	}
	before := jobs()
	apply("registry.example/web:v2, registry.example/api:v1")
	await("the other image is there", func(s *v1beta1.ImageListPullJobStatus) bool {
		return s.ObservedGeneration == list.Generation && s.Succeeded == 2 && s.Desired == 2 && len(s.FailedImageStatuses) == 0
	})
	after := jobs()
	if after["registry.example/web:v2"] != before["registry.example/web:v2"] || len(after) != 2 || after["registry.example/api:v1"] == "" {
		t.Errorf("jobs by image %v, before %v", after, before)
	}

	n.Apply("apiVersion: apps.kruise.io/v1beta1\nkind: ImageListPullJob\nmetadata: {name: once}\nspec:\n  images: [registry.example/web:v3]\n" +
		"  selector: {matchLabels: {e2e: " + n.Name + "}}\n  completionPolicy: {type: Always, ttlSecondsAfterFinished: 1}\n")
	n.EventuallyWithin(2*time.Minute, "a list whose time to live is over is gone", func(ctx context.Context) error {
		err := n.Client.Get(ctx, client.ObjectKey{Namespace: n.Name, Name: "once"}, list)
		if err == nil {
			return fmt.Errorf("the status is %+v", list.Status)
		}
		return client.IgnoreNotFound(err)
	})
}

// A stolen token of one node's daemon can write only this node's objects.
func TestADaemonWritesOnlyWhatBelongsToItsNode(t *testing.T) {
	n := env.Namespace(t)
	installDaemon(t)
	nodes := ownNodes(t, n, 2)
	for _, node := range nodes {
		list := &v1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: node}}
		if err := n.Client.Create(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = env.Client.Delete(context.WithoutCancel(t.Context()), list) })
		probes := &v1alpha1.NodePodProbe{ObjectMeta: metav1.ObjectMeta{Name: node}}
		if err := n.Client.Create(t.Context(), probes); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = env.Client.Delete(context.WithoutCancel(t.Context()), probes) })
	}
	as := func(node string) client.Client {
		t.Helper()
		c, err := client.New(daemonConfig(t, node), client.Options{Scheme: env.Client.Scheme(), Mapper: env.Client.RESTMapper()})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	own, unbound := as(nodes[0]), as("")
	status := func(c client.Client, node string) error {
		list := &v1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: node}}
		return c.Status().Patch(t.Context(), list, client.RawPatch("application/merge-patch+json", []byte(`{"status":{"desired":0,"pulling":0,"succeeded":0,"failed":0}}`)))
	}
	// A policy takes a moment to be known to the server.
	n.EventuallyWithin(time.Minute, "the status of another node's list cannot be written", func(context.Context) error {
		if err := status(own, nodes[1]); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "does not belong to its node") {
			return fmt.Errorf("the answer is %s", fmt.Sprint(err))
		}
		return nil
	})
	if err := status(own, nodes[0]); err != nil {
		t.Errorf("its own: %v", err)
	}
	results := func(node string) error {
		probes := &v1alpha1.NodePodProbe{ObjectMeta: metav1.ObjectMeta{Name: node}}
		return own.Status().Patch(t.Context(), probes, client.RawPatch("application/merge-patch+json", []byte(`{"status":{"podProbeStatuses":[]}}`)))
	}
	if err := results(nodes[0]); err != nil {
		t.Errorf("its own results of probes: %v", err)
	}
	if err := results(nodes[1]); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "does not belong to its node") {
		t.Errorf("results of another node's probes: %v", err)
	}
	if err := status(unbound, nodes[0]); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "not bound to a node") {
		t.Errorf("with a token without a node: %v", err)
	}
	for what, err := range map[string]error{
		"the spec of its own list": own.Patch(t.Context(), &v1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: nodes[0]}},
			client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"images":{}}}`))),
		"what its own node probes": own.Patch(t.Context(), &v1alpha1.NodePodProbe{ObjectMeta: metav1.ObjectMeta{Name: nodes[0]}},
			client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"podProbes":[]}}`))),
		"a Secret of users": own.Get(t.Context(), client.ObjectKey{Namespace: n.Name, Name: "any"}, &corev1.Secret{}),
		"a list of Secrets": own.List(t.Context(), &corev1.SecretList{}, client.InNamespace(operands.DaemonNamespace)),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// The daemon reports containers' environments in one annotation of its node's pods, and can
// write nothing else of them.
func TestADaemonWritesOneAnnotationOfPods(t *testing.T) {
	n := env.Namespace(t)
	installDaemon(t)
	nodes := ownNodes(t, n, 2)
	c, err := client.New(daemonConfig(t, nodes[0]), client.Options{Scheme: env.Client.Scheme(), Mapper: env.Client.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	pods := map[string]*corev1.Pod{}
	for _, node := range nodes {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: n.Name, Name: node, Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"}}}
		pod.Spec = corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "example/web:v1"}}, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}}
		if err := n.Client.Create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		pods[node] = pod
	}
	patch := func(node, body string) error {
		return c.Status().Patch(t.Context(), pods[node].DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(body)))
	}
	const report = `{"metadata":{"annotations":{"apps.kruise.io/runtime-containers-meta":"{}"}}}`
	n.EventuallyWithin(time.Minute, "a label cannot be written", func(context.Context) error { // a policy takes a moment to be known
		if err := patch(nodes[0], `{"metadata":{"labels":{"a":"other"}}}`); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "runtime-containers-meta") {
			return fmt.Errorf("the answer is %s", fmt.Sprint(err))
		}
		return nil
	})
	if err := patch(nodes[0], report); err != nil {
		t.Errorf("the report: %v", err)
	}
	if err := patch(nodes[0], `{"metadata":{"annotations":{"apps.kruise.io/runtime-containers-meta":"{\"containers\":[]}"}}}`); err != nil {
		t.Errorf("another report: %v", err)
	}
	for what, err := range map[string]error{
		"a pod of another node":       patch(nodes[1], report),
		"another annotation":          patch(nodes[0], `{"metadata":{"annotations":{"x":"y"}}}`),
		"an annotation that is taken": patch(nodes[0], `{"metadata":{"annotations":{"c":null}}}`),
		"a condition":                 patch(nodes[0], `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`),
		"its spec":                    c.Patch(t.Context(), pods[nodes[0]].DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(report))),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
