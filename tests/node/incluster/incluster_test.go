// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package incluster_test installs the operator as its users do without the Operator Lifecycle Manager, with `make deploy` or kubectl and
// our image on a real node, and removes it again. Nobody but the operator's own pods acts for it.
//
// It needs the same as tests/node; elsewhere it is skipped with the reason.
package incluster_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/webhookserving"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/realnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/deploy"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

const (
	root      = "../../.."
	namespace = deploy.Namespace
	manager   = deploy.Manager
	version   = "v0.6.0"
	image     = deploy.Repository + ":" + version
	// overlay is applied by make deploy.
	overlay = root + "/dist/deploy"

	certificateSecret = "kruise-operator-webhook-certificate"
	convertedCRD      = "clonesets.apps.kruise.io"
)

var (
	// env is nil when unavailable says why this machine cannot have it.
	env         *environment.Environment
	unavailable error
)

func TestMain(m *testing.M) {
	if unavailable = realnode.Check(); unavailable != nil {
		os.Exit(m.Run())
	}
	environment.Main(m, environment.Options{
		Cluster:    cluster.Options{RealNodes: 1, Audit: &cluster.Audit{}},
		NoOperator: true,
	}, func(e *environment.Environment) { env = e })
}

// TestInstall is one scenario of several steps in sequence.
func TestInstall(t *testing.T) {
	deploy.Need(t, unavailable)
	t.Cleanup(func() {
		if t.Failed() {
			deploy.Report(env.Cluster, t.Logf)
		}
		if err := env.Cluster.Exited(); err != nil {
			t.Errorf("a component of the cluster failed: %v", err)
		}
	})
	if err := errors.Join(
		deploy.PushManager(t.Context(), env.Cluster, image, version),
		deploy.PushGuestbook(t.Context(), env.Cluster, "v1"),
	); err != nil {
		t.Fatal(err)
	}
	n := env.Namespace(t)

	for _, step := range []struct {
		name string
		do   func(*testing.T, *environment.Namespace)
	}{
		{"make deploy makes two ready managers", installs},
		{"a set is defaulted, and its pods run", serves},
		{"objects are converted", converts},
		{"the certificate changes without a gap in admission", rotates},
		{"a spoiled conversion is repaired in seconds", repairs},
		{"applying again changes nothing that the operator wrote", appliesAgain},
		{"a mounted certificate is served and trusted", mounts},
		{"without managers, pods of others are created all the same", outage},
		{"the rights were enough, and none of them is left over", rightsAreNeeded},
		{"after make undeploy, objects stay and nothing blocks", removes},
		{"the documented overlay installs from a private registry", documented},
		{"kubectl delete leaves nothing", deletes},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.do(t, n) }) {
			return
		}
	}
}

func makes(t *testing.T, args ...string) string {
	t.Helper()
	out, err := deploy.Make(t.Context(), env.Cluster, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := env.Cluster.Kubectl(t.Context(), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// ready waits until the operator has exactly so many pods, all of them ready.
func ready(n *environment.Namespace, want int) (pods []corev1.Pod) {
	n.EventuallyWithin(90*time.Second, fmt.Sprintf("%d managers are ready", want), func(ctx context.Context) (err error) {
		pods, err = deploy.Managers(ctx, env.Client, want)
		return err
	})
	return pods
}

func installs(t *testing.T, n *environment.Namespace) {
	began := time.Now()
	if out := makes(t, "deploy", "IMAGE_REPO="+deploy.Repository, "VERSION="+version); strings.Contains(out, "Warning") {
		t.Errorf("kubectl warns:\n%s", out)
	}
	pods := ready(n, 2)
	t.Logf("measured: from make deploy to two ready managers: %s", seconds(time.Since(began)))
	for _, pod := range pods {
		for _, c := range pod.Status.ContainerStatuses {
			if c.RestartCount > 0 {
				t.Errorf("%s has been restarted %d times", pod.Name, c.RestartCount)
			}
		}
	}
	// The pods above passed this gate: it refuses others in their namespace.
	intruder := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "intruder"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "intruder", Image: image}}},
	}
	if err := env.Client.Create(t.Context(), intruder, client.DryRunAll); !apierrors.IsForbidden(err) {
		t.Errorf("a pod outside of the restricted profile is not refused: %v", err)
	}
}

func serves(t *testing.T, n *environment.Namespace) {
	labels := map[string]string{"app": "guestbook"}
	set := &v1beta1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: n.Name, Name: "guestbook"},
		Spec: v1beta1.StatefulSetSpec{
			ServiceName: "guestbook", Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "openkruise/guestbook:v1"}}},
			},
		},
	}
	if err := env.Client.Create(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	if set.Spec.Replicas == nil || *set.Spec.Replicas != 1 {
		t.Errorf("replicas are not defaulted: %v", set.Spec.Replicas)
	}
	bad := set.DeepCopy()
	bad.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "other"}}
	bad.ObjectMeta = metav1.ObjectMeta{Namespace: n.Name, Name: "bad"}
	if err := env.Client.Create(t.Context(), bad); !apierrors.IsInvalid(err) {
		t.Errorf("a selector that selects other pods is not refused: %v", err)
	}
	n.Settled("guestbook")
}

func cloneSet(version string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: "apps.kruise.io", Version: version, Kind: "CloneSet"})
	return object
}

func converts(t *testing.T, n *environment.Namespace) {
	// The field moved between the versions, so only a conversion can bring it there.
	n.Apply(`
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata: {name: converted}
spec:
  replicas: 0
  selector: {matchLabels: {app: converted}}
  template:
    metadata: {labels: {app: converted}}
    spec: {containers: [{name: web, image: "openkruise/guestbook:v1"}]}
`)
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		object := cloneSet(version)
		if err := env.Client.Get(t.Context(), types.NamespacedName{Namespace: n.Name, Name: "converted"}, object); err != nil {
			t.Errorf("reading it as %s: %v", version, err)
		}
	}
}

// prober repeats questions to the operator, and keeps the errors.
type prober struct {
	stop     context.CancelFunc
	done     chan struct{}
	mutex    sync.Mutex
	asked    int
	failures []error
}

func probe(t *testing.T, n *environment.Namespace) *prober {
	ctx, stop := context.WithCancel(t.Context())
	p := &prober{stop: stop, done: make(chan struct{})}
	template := n.StatefulSet("guestbook")
	go func() {
		defer close(p.done)
		for ctx.Err() == nil {
			set := template.DeepCopy()
			set.ObjectMeta = metav1.ObjectMeta{Namespace: n.Name, GenerateName: "probe-"}
			err := errors.Join(
				env.Client.Create(ctx, set, client.DryRunAll),
				env.Client.Get(ctx, types.NamespacedName{Namespace: n.Name, Name: "converted"}, cloneSet("v1alpha1")),
			)
			if ctx.Err() != nil {
				return
			}
			p.mutex.Lock()
			p.asked++
			if err != nil {
				p.failures = append(p.failures, fmt.Errorf("%s: %w", time.Now().Format(time.TimeOnly), err))
			}
			p.mutex.Unlock()
		}
	}()
	t.Cleanup(func() { stop(); <-p.done })
	return p
}

// end stops asking and fails the test for every unanswered question.
func (p *prober) end(t *testing.T) int {
	t.Helper()
	p.stop()
	<-p.done
	for _, err := range p.failures {
		t.Error(err)
	}
	if p.asked < 10 {
		t.Errorf("only %d questions were asked", p.asked)
	}
	return p.asked
}

// served is a manager's certificate.
func served(ctx context.Context, pod *corev1.Pod) ([]byte, error) {
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}} //nolint:gosec // looked at, not trusted
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(pod.Status.PodIP, "9443"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Raw, nil
}

func rotates(t *testing.T, n *environment.Namespace) {
	pods := ready(n, 2)
	before, err := served(t.Context(), &pods[0])
	if err != nil {
		t.Fatal(err)
	}
	p := probe(t, n)
	began := time.Now()
	// The hardest change: the authority is gone, so both it and the certificate become new,
	// at an unknown time.
	kubectl(t, "--namespace="+namespace, "delete", "secret", certificateSecret)
	for i := range pods {
		n.Eventually(pods[i].Name+" serves a new certificate", func(ctx context.Context) error {
			is, err := served(ctx, &pods[i])
			if err == nil && bytes.Equal(is, before) {
				err = errors.New("it serves the old one")
			}
			return err
		})
	}
	took := time.Since(began)
	n.Consistently(2*time.Second, "no replica goes back to the old certificate", func(ctx context.Context) error {
		for i := range pods {
			is, err := served(ctx, &pods[i])
			if err == nil && bytes.Equal(is, before) {
				err = errors.New("it serves the old one")
			}
			if err != nil {
				return fmt.Errorf("%s: %w", pods[i].Name, err)
			}
		}
		return nil
	})
	t.Logf("measured: a new authority: served by both managers after %s; %d questions asked meanwhile were answered", seconds(took), p.end(t))

	first, err := served(t.Context(), &pods[0])
	if err != nil {
		t.Fatal(err)
	}
	if second, err := served(t.Context(), &pods[1]); err != nil || !bytes.Equal(first, second) {
		t.Errorf("the managers do not share one certificate (%v)", err)
	}
	for where, bundle := range bundles(t) {
		if got := strings.Count(string(bundle), "BEGIN CERTIFICATE"); got != 2 {
			t.Errorf("%s trusts %d authorities, want the old and the new one", where, got)
		}
	}
}

// bundles is whom the API server trusts, by place.
func bundles(t *testing.T) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{}
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	for name, object := range map[string]client.Object{"kruise-operator-mutating": mutating, "kruise-operator-validating": validating} {
		if err := env.Client.Get(t.Context(), client.ObjectKey{Name: name}, object); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range mutating.Webhooks {
		all[w.Name] = w.ClientConfig.CABundle
	}
	for _, w := range validating.Webhooks {
		all[w.Name] = w.ClientConfig.CABundle
	}
	config := clientConfig(t)
	encoded, _, _ := unstructured.NestedString(config, "caBundle")
	decoded, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	all[convertedCRD] = decoded
	return all
}

func readCRD(ctx context.Context) (*unstructured.Unstructured, error) {
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	return crd, env.Client.Get(ctx, client.ObjectKey{Name: convertedCRD}, crd)
}

func clientConfig(t *testing.T) map[string]any {
	t.Helper()
	crd, err := readCRD(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	config, _, err := unstructured.NestedMap(crd.Object, "spec", "conversion", "webhook", "clientConfig")
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// repairs treats a CRD as an upgrade under the Operator Lifecycle Manager does, and worse:
// no authority, and another Service.
func repairs(t *testing.T, n *environment.Namespace) {
	right := clientConfig(t)
	spoiled := map[string]any{"spec": map[string]any{"conversion": map[string]any{"webhook": map[string]any{"clientConfig": map[string]any{
		"caBundle": nil, "service": map[string]any{"namespace": "elsewhere", "name": "webhook-service"},
	}}}}}
	patch, err := json.Marshal(spoiled)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	kubectl(t, "patch", "crd", convertedCRD, "--type=merge", "--patch="+string(patch))
	// The API server goes on with the converter it has until it hears of the change, so an answer alone proves nothing.
	key := types.NamespacedName{Namespace: n.Name, Name: "converted"}
	n.EventuallyWithin(30*time.Second, "the conversion is right, and objects are converted again", func(ctx context.Context) error {
		if is := clientConfig(t); fmt.Sprint(is["service"]) != fmt.Sprint(right["service"]) {
			return fmt.Errorf("the API server calls %v, want %v", is["service"], right["service"])
		}
		return env.Client.Get(ctx, key, cloneSet("v1alpha1"))
	})
	t.Logf("measured: a spoiled conversion answers again after %s", seconds(time.Since(began)))
}

func appliesAgain(t *testing.T, _ *environment.Namespace) {
	before := bundles(t)
	// Server-side, the fields belong to another manager than after a client-side apply; the
	// first such apply takes them.
	for _, flags := range [][]string{nil, {"--server-side", "--force-conflicts"}, {"--server-side"}} {
		kubectl(t, append([]string{"apply", "-k", overlay}, flags...)...)
		for where, bundle := range bundles(t) {
			if !bytes.Equal(bundle, before[where]) {
				t.Errorf("kubectl apply %v changed whom %s trusts", flags, where)
			}
		}
	}
}

// mounts acts as the Operator Lifecycle Manager: a Secret with a certificate, mounted for
// the webhook server. Nobody may notice the change of authority either, with replicas
// exchanged one after the other.
func mounts(t *testing.T, n *environment.Namespace) {
	service := "kruise-operator-manager-service." + namespace + ".svc"
	bundle, err := webhookserving.Issue(webhookserving.Bundle{}, []string{service}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kruise-operator-manager-service-cert"},
		Data:       map[string][]byte{"tls.crt": bundle.Cert, "tls.key": bundle.Key, "olmCAKey": bundle.CA},
	}
	if err := env.Client.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	p := probe(t, n)
	kubectl(t, "--namespace="+namespace, "patch", "deployment", manager, "--patch", `
spec:
  template:
    spec:
      volumes: [{name: webhook-cert, secret: {secretName: kruise-operator-manager-service-cert}}]
      containers:
      - name: manager
        volumeMounts: [{name: webhook-cert, mountPath: /tmp/k8s-webhook-server/serving-certs, readOnly: true}]
`)
	kubectl(t, "--namespace="+namespace, "rollout", "status", "--timeout=3m", "deployment", manager)
	pods := ready(n, 2)
	t.Logf("measured: exchanged managers while %d questions were answered", p.end(t))
	pair, err := tls.X509KeyPair(bundle.Cert, bundle.Key)
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods {
		if is, err := served(t.Context(), &pods[i]); err != nil || !bytes.Equal(is, pair.Certificate[0]) {
			t.Errorf("%s does not serve the mounted certificate (%v)", pods[i].Name, err)
		}
	}
	for where, trusted := range bundles(t) {
		if !bytes.Contains(trusted, bundle.CA) {
			t.Errorf("%s does not trust the mounted certificate", where)
		}
	}
	is := secret.DeepCopy()
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), is); err != nil || is.ResourceVersion != secret.ResourceVersion {
		t.Errorf("the Secret of somebody else was written (%v)", err)
	}

	// When it is made again, nobody waits for a kubelet to update the files, which may take
	// two minutes.
	if bundle, err = webhookserving.Issue(webhookserving.Bundle{}, []string{service}, time.Now()); err != nil {
		t.Fatal(err)
	}
	is.Data = map[string][]byte{"tls.crt": bundle.Cert, "tls.key": bundle.Key, "olmCAKey": bundle.CA}
	if err := env.Client.Update(t.Context(), is); err != nil {
		t.Fatal(err)
	}
	if pair, err = tls.X509KeyPair(bundle.Cert, bundle.Key); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	n.EventuallyWithin(15*time.Second, "all replicas serve the new certificate", func(ctx context.Context) error {
		for i := range pods {
			if is, err := served(ctx, &pods[i]); err != nil || !bytes.Equal(is, pair.Certificate[0]) {
				return errors.Join(fmt.Errorf("%s serves the old one", pods[i].Name), err)
			}
		}
		return nil
	})
	t.Logf("measured: a new certificate is served after %s", seconds(time.Since(began)))
}

func outage(t *testing.T, n *environment.Namespace) {
	kubectl(t, "--namespace="+namespace, "scale", "deployment", manager, "--replicas=0")
	ready(n, 0)
	labels := map[string]string{"app": "other"}
	other := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: n.Name, Name: "other"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "openkruise/guestbook:v1"}}},
			},
		},
	}
	if err := env.Client.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	n.Eventually("the pod of a Deployment runs", func(ctx context.Context) error {
		pods, err := n.ListPods(ctx, "app=other")
		if err == nil && (len(pods) != 1 || !environment.IsReady(&pods[0])) {
			err = fmt.Errorf("pods %v", environment.Names(pods))
		}
		return err
	})
	// Guarded writes are refused meanwhile, not let through.
	set := n.StatefulSet("guestbook")
	set.ObjectMeta = metav1.ObjectMeta{Namespace: n.Name, Name: "unseen"}
	if err := env.Client.Create(t.Context(), set); err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
		t.Errorf("creating a set that no webhook can see: %v", err)
	}
	kubectl(t, "--namespace="+namespace, "scale", "deployment", manager, "--replicas=2")
	ready(n, 2)
}

// removes follows "Uninstall" in docs/operations/install.md, the Makefile's commands.
func removes(t *testing.T, n *environment.Namespace) {
	was := n.Pods("app=guestbook")
	makes(t, "undeploy")
	ready(n, 0)

	crd, err := readCRD(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if strategy, _, _ := unstructured.NestedString(crd.Object, "spec", "conversion", "strategy"); strategy != "None" {
		t.Errorf("the conversion became %q again", strategy)
	}
	is := n.Pods("app=guestbook")
	if len(is) != 1 || is[0].UID != was[0].UID || !environment.IsReady(&is[0]) {
		t.Errorf("pods %+v became %+v", environment.Names(was), environment.Names(is))
	}
	// Every kind can be written, read in every version, and deleted.
	n.Change("guestbook", func(set *v1beta1.StatefulSet) { set.Annotations = map[string]string{"written": "without the operator"} })
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		if err := env.Client.Get(t.Context(), types.NamespacedName{Namespace: n.Name, Name: "converted"}, cloneSet(version)); err != nil {
			t.Errorf("reading a CloneSet as %s: %v", version, err)
		}
	}
	kubectl(t, "--namespace="+n.Name, "delete", "--timeout=30s", "clonesets.apps.kruise.io", "converted")
	kubectl(t, "--namespace="+n.Name, "delete", "--timeout=30s", "statefulsets.apps.kruise.io", "guestbook")
}

// documented installs by docs/operations/install.md in one overlay: the image elsewhere,
// nodes with credentials, and one kind alone.
func documented(t *testing.T, n *environment.Namespace) {
	const server, repository = "registry.example", "team/kruise-operator"
	network, err := env.Cluster.NodeNetwork(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	network.Protect(repository, "reader", "secret")
	kubectl(t, "--namespace="+namespace, "create", "secret", "docker-registry", "registry",
		"--docker-server="+server, "--docker-username=reader", "--docker-password=secret")

	var merged map[string]any
	var patches []any
	for _, block := range environment.ManifestsOfPage(t, filepath.Join(root, "docs", "operations", "install.md")) {
		part := map[string]any{}
		if err := yaml.Unmarshal([]byte(block), &part); err != nil {
			t.Fatalf("%v in:\n%s", err, block)
		}
		more, _ := part["patches"].([]any)
		patches = append(patches, more...)
		if part["kind"] == "Kustomization" {
			merged = part
		}
	}
	if merged == nil || len(patches) != 2 {
		t.Fatalf("the page has the overlay %v and %d patches, want 2", merged, len(patches))
	}
	tag, _, _ := unstructured.NestedString(merged["images"].([]any)[0].(map[string]any), "newTag")
	image := server + "/" + repository + ":" + tag
	if err := deploy.PushManager(t.Context(), env.Cluster, image, version); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(env.Cluster.Dir(), "overlay")
	base, err := filepath.Abs(filepath.Join(root, "config", "default"))
	if err != nil {
		t.Fatal(err)
	}
	if base, err = filepath.Rel(folder, base); err != nil {
		t.Fatal(err)
	}
	merged["resources"], merged["patches"] = []any{base}, patches
	text, err := yaml.Marshal(merged)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(folder, 0o755), os.WriteFile(filepath.Join(folder, "kustomization.yaml"), text, 0o600)); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "apply", "-k", folder)
	for _, pod := range ready(n, 2) {
		c := pod.Spec.Containers[0]
		if c.Image != image || !slices.Contains(c.Args, "--kinds=StatefulSet") {
			t.Errorf("%s runs %s with %v", pod.Name, c.Image, c.Args)
		}
	}
}

// deletes removes a whole install, as somebody does it who reads nothing.
func deletes(t *testing.T, n *environment.Namespace) {
	began := time.Now()
	// If pods still end when the namespace controller first looks, it comes back only 21
	// seconds later, and so on: on a slow machine this alone takes more than a minute.
	// kubectl asks for each object at most five times a second, half of the measured rate.
	out, err := env.Cluster.Kubectl(t.Context(), "delete", "--timeout=4m", "-k", filepath.Join(root, "config", "default")).CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl delete: %v\n%s\n%s", err, out, leftOver(t.Context()))
	}
	t.Logf("measured: kubectl delete of everything: %s", seconds(time.Since(began)))
	left := kubectl(t, "get", "--ignore-not-found", "-o", "name", "-k", filepath.Join(root, "config", "default"))
	if strings.TrimSpace(left) != "" {
		t.Errorf("left behind:\n%s", left)
	}
	if err := env.Client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: n.Name, Name: "still"}}); err != nil {
		t.Errorf("the cluster does not take objects: %v", err)
	}
}

// leftOver names the objects a deletion waits for.
func leftOver(ctx context.Context) string {
	var all strings.Builder
	for _, args := range [][]string{
		{"get", "pods", "-n", deploy.Namespace, "-o", "wide"},
		{"get", "namespace", deploy.Namespace, "-o", "yaml"},
		{"get", "crds", "-o", "custom-columns=NAME:.metadata.name,DELETED:.metadata.deletionTimestamp,CONDITIONS:.status.conditions[*].message"},
	} {
		out, err := env.Cluster.Kubectl(ctx, args...).CombinedOutput()
		fmt.Fprintf(&all, "kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return all.String()
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
