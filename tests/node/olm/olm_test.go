// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package olm_test is the operator's whole life under the Operator Lifecycle Manager on a
// real node: its pods run our image with OLM's certificate, and a rollout continues through
// an upgrade. `make test-olm` runs it; tests/olm is the part without a node.
//
// It needs the same as tests/node; elsewhere it is skipped with the reason.
package olm_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/kube/installowner"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/binaries"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/realnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/deploy"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/images"
	"github.com/kruise-operator/kruise-operator/tests/framework/olm"
	"github.com/kruise-operator/kruise-operator/tests/framework/packaging"
	"github.com/kruise-operator/kruise-operator/tests/framework/repository"
)

const (
	system  = "kruise-system"
	manager = "kruise-operator-manager"
	service = manager + "-service"
	binding = service + "-system:auth-delegator"
	sample  = "pods.sample.operator.kruise.io"
	// to is this tree; it follows the last released version, built from its commit. again
	// is this tree under the next number: an upgrade from a version with this tree's
	// knowledge.
	to    = "v99.0.0"
	again = "v99.0.1"
	// utilImage and opmImage are OLM's images to unpack bundles.
	utilImage = "registry.example.com/olm-util:v1"
	opmImage  = "registry.example.com/opm:v1"
	// renewal is how long the authority may be missing while OLM makes another one; before
	// it was served at once, it was seven seconds and more.
	renewal = 2 * time.Second
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
	environment.Main(m, environment.Options{Cluster: cluster.Options{RealNodes: 1}, NoOperator: true},
		func(e *environment.Environment) { env = e })
}

// lifecycle is shared by TestLifecycle's steps.
type lifecycle struct {
	*environment.Namespace
	*olm.OLM
	t *testing.T
	// from is the last released version.
	from packaging.Version
	// repository has the versions and the catalog: a registry on loopback, also the nodes'.
	repository string
	pods       map[string]types.UID
}

// TestLifecycle is one scenario of several steps in sequence.
func TestLifecycle(t *testing.T) {
	deploy.Need(t, unavailable)
	t.Cleanup(func() {
		if t.Failed() {
			logManagers(t)
		}
		if err := env.Cluster.Exited(); err != nil {
			t.Errorf("a component of the cluster failed: %v", err)
		}
	})
	manager, err := olm.Start(t.Context(), env.Cluster, olm.Options{CatalogArgs: []string{"--util-image=" + utilImage, "--opmImage=" + opmImage}}, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	s := &lifecycle{Namespace: env.Namespace(t), OLM: manager, t: t}
	s.serveCatalog()
	for _, step := range []struct {
		name string
		do   func(*lifecycle)
	}{
		{"a subscription installs the operator", (*lifecycle).install},
		{"a guestbook is rolled in place", (*lifecycle).roll},
		{"an upgrade in mid-rollout restarts no pod and refuses none", (*lifecycle).upgrade},
		{"the next upgrade in mid-rollout refuses nothing at all", (*lifecycle).upgradeAgain},
		{"a certificate that is made again is served at once", (*lifecycle).renew},
		{"while OpenKruise acts, the operator is not to be upgraded", (*lifecycle).holdsUpgrades},
		{"SidecarSets that refuse pods without their sidecar are in force", (*lifecycle).failClosed},
		{"an operator that is removed while it is dead blocks nothing", (*lifecycle).remove},
	} {
		began := time.Now()
		if !t.Run(step.name, func(t *testing.T) { s.t = t; step.do(s) }) {
			return
		}
		t.Logf("measured: %s: %.1f s", step.name, time.Since(began).Seconds())
	}
}

// serveCatalog pushes two versions' images, and a catalog's, naming them by digest, for OLM
// to serve.
func (s *lifecycle) serveCatalog() {
	s.t.Helper()
	ctx := s.t.Context()
	network, err := env.Cluster.NodeNetwork(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	network.Listen(listener)
	s.repository = listener.Addr().String() + "/team/kruise-operator"
	for _, version := range []string{"v1", "v2"} {
		image, err := images.Build(ctx, images.Guestbook(version))
		if err == nil {
			err = network.Push(ctx, "openkruise/guestbook:"+version, image)
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
	push := func(reference string, content images.Image) string {
		s.t.Helper()
		image, err := content.For(ctx, images.Host())
		if err == nil {
			err = network.Push(ctx, reference, image)
		}
		if err != nil {
			s.t.Fatal(err)
		}
		digest, err := image.Digest()
		if err != nil {
			s.t.Fatal(err)
		}
		return reference[:strings.LastIndex(reference, ":")] + "@" + digest.String()
	}
	s.pushTools(push)
	root, err := repository.Root()
	if err != nil {
		s.t.Fatal(err)
	}
	folder := s.t.TempDir()
	bundle := func(version string) string { return filepath.Join(folder, version) }
	s.from = s.previous(root, bundle)
	previous := s.from
	releases := packaging.Releases{Versions: []packaging.Version{previous}}
	manager := push(s.repository+":"+to, images.Image{Programs: images.Operator(to), User: images.NonRoot})
	for _, version := range []string{to, again} {
		next := packaging.Version{Version: version, Channels: packaging.Channels(), Replaces: previous.Version, Image: manager}
		b := packaging.Bundle{
			Root: root, Output: bundle(version), Version: version, Replaces: previous.Version,
			Image: next.Image, Created: "2026-01-01T00:00:00Z", Progress: os.Stderr,
		}
		if err := b.Write(ctx); err != nil {
			s.t.Fatal(err)
		}
		content, err := packaging.BundleImage(b.Output)
		if err != nil {
			s.t.Fatal(err)
		}
		digest, err := packaging.Deliver(ctx, content, filepath.Join(folder, "bundle-"+version), s.repository+"-bundle:"+version, true)
		if err != nil {
			s.t.Fatal(err)
		}
		next.BundleImage = s.repository + "-bundle@" + digest
		releases.Versions = append(releases.Versions, next)
		previous = next
	}
	icon, err := os.ReadFile(filepath.Join(root, "config", "manifests", "icon.svg"))
	if err != nil {
		s.t.Fatal(err)
	}
	c := packaging.Catalog{Releases: releases, Bundle: bundle, Output: filepath.Join(folder, "catalog"), Icon: icon, Progress: os.Stderr}
	if err := c.Publish(ctx, filepath.Join(folder, "catalog-image"), s.repository); err != nil {
		s.t.Fatal(err)
	}
	began := time.Now()
	if err := s.ServeCatalogImage(ctx, s.repository+"-catalog:latest"); err != nil {
		s.t.Fatal(err)
	}
	s.t.Logf("measured: OLM serves the catalog from its image: %.1f s", time.Since(began).Seconds())
}

// previous builds the last released version from its commit, and pushes its images.
func (s *lifecycle) previous(root string, bundle func(string) string) packaging.Version {
	s.t.Helper()
	releases, err := packaging.ReadReleases(filepath.Join(root, "catalog", "versions.yaml"))
	if err != nil {
		s.t.Fatal(err)
	}
	last := releases.Versions[len(releases.Versions)-1]
	made, err := packaging.Release{
		Root: root, Version: packaging.Version{Version: last.Version, Commit: last.Commit, Channels: last.Channels},
		Repository: s.repository, Bundle: bundle(last.Version), Layouts: s.t.TempDir(), Push: true, Progress: os.Stderr,
	}.Make(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	_, digest, _ := strings.Cut(last.Image, "@")
	if !strings.HasSuffix(made.Image, "@"+digest) {
		s.t.Errorf("building %s again gave %s, its release says %s", last.Version, made.Image, last.Image)
	}
	return made
}

// pushTools pushes OLM's tools to unpack a bundle: its image of tools, and opm.
func (s *lifecycle) pushTools(push func(string, images.Image) string) {
	s.t.Helper()
	programs, err := binaries.Ensure(s.t.Context(), binaries.Options{Progress: os.Stderr}, binaries.CopyBundle, binaries.CopyContent, binaries.OPM)
	if err != nil {
		s.t.Fatal(err)
	}
	read := func(path string) []byte {
		s.t.Helper()
		content, err := os.ReadFile(path)
		if err != nil {
			s.t.Fatal(err)
		}
		return content
	}
	cp, err := images.Compile(s.t.Context(), images.Program{Package: "tests/images/cp"})
	if err != nil {
		s.t.Fatal(err)
	}
	probe, err := images.Compile(s.t.Context(), images.Program{Package: "tests/images/grpc_health_probe"})
	if err != nil {
		s.t.Fatal(err)
	}
	push(utilImage, images.Image{User: images.NonRoot, Path: "/bin", Files: map[string][]byte{
		"bin/cp": read(cp), "bin/cpb": read(programs.Path(binaries.CopyBundle)), "bin/copy-content": read(programs.Path(binaries.CopyContent)),
	}})
	push(opmImage, images.Image{User: images.NonRoot, Path: "/bin", Files: map[string][]byte{
		"bin/opm": read(programs.Path(binaries.OPM)), "bin/grpc_health_probe": read(probe),
	}})
}

func (s *lifecycle) until(what string, check func(context.Context) error) {
	s.t.Helper()
	if err := olm.Until(s.t.Context(), 2*time.Minute, what, check); err != nil {
		s.t.Fatal(err)
	}
}

// installed waits until a version has succeeded for good and two of its managers are ready.
func (s *lifecycle) installed(version string) {
	s.t.Helper()
	const looks = 40
	in := 0
	s.until(version+" is installed", func(ctx context.Context) error {
		phase, reason, err := s.CSV(ctx, system, packaging.CSVName(version))
		if err != nil || phase != "Succeeded" {
			in = 0
			return errors.Join(fmt.Errorf("phase %q, reason %q", phase, reason), err)
		}
		deployment := &appsv1.Deployment{}
		if err := env.Client.Get(ctx, types.NamespacedName{Namespace: system, Name: manager}, deployment); err != nil {
			return err
		}
		if st := deployment.Status; st.ObservedGeneration != deployment.Generation || st.Replicas != 2 || st.UpdatedReplicas != 2 || st.AvailableReplicas != 2 {
			in = 0
			return fmt.Errorf("the managers are %+v", st)
		}
		if in++; in < looks {
			return fmt.Errorf("seen %d times", in)
		}
		return nil
	})
}

func (s *lifecycle) install() {
	for _, manifest := range []string{
		`{apiVersion: v1, kind: Namespace, metadata: {name: kruise-system, labels: {pod-security.kubernetes.io/enforce: restricted}}}`,
		`{apiVersion: operators.coreos.com/v1, kind: OperatorGroup, metadata: {name: kruise-system, namespace: kruise-system}, spec: {}}`,
		fmt.Sprintf(`apiVersion: operators.coreos.com/v1alpha1
kind: Subscription
metadata: {name: kruise-operator, namespace: kruise-system}
spec: {name: kruise-operator, channel: %s, source: %s, sourceNamespace: %s, startingCSV: %s, installPlanApproval: Manual}
`, s.from.Channels[len(s.from.Channels)-1], olm.CatalogSource, olm.Namespace, packaging.CSVName(s.from.Version)),
	} {
		if err := s.OLM.Apply(s.t.Context(), manifest); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := s.Approve(s.t.Context(), system, "kruise-operator", packaging.CSVName(s.from.Version)); err != nil {
		s.t.Fatal(err)
	}
	s.installed(s.from.Version)
}

const guestbook = `apiVersion: apps.kruise.io/v1beta1
kind: StatefulSet
metadata: {name: guestbook}
spec:
  replicas: 4
  serviceName: guestbook
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: guestbook}}
  template:
    metadata: {labels: {app: guestbook}}
    spec:
      terminationGracePeriodSeconds: 2
      readinessGates: [{conditionType: InPlaceUpdateReady}]
      containers: [{name: web, image: "openkruise/guestbook:v1"}]
  updateStrategy:
    type: RollingUpdate
    rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, maxUnavailable: 1, minReadySeconds: 4}
---
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata: {name: converted}
spec:
  replicas: 1
  selector: {matchLabels: {app: converted}}
  template:
    metadata: {labels: {app: converted}}
    spec: {terminationGracePeriodSeconds: 2, containers: [{name: web, image: "openkruise/guestbook:v1"}]}
`

// uids are the pods of the guestbook.
func (s *lifecycle) uids() map[string]types.UID {
	s.t.Helper()
	found := map[string]types.UID{}
	pods := s.Pods("app=guestbook")
	for i := range pods {
		found[pods[i].Name] = pods[i].UID
	}
	return found
}

func (s *lifecycle) roll() {
	s.until("the sets are admitted by the operator", func(context.Context) error {
		out, err := s.kubectlApply(guestbook)
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	s.Settled("guestbook")
	s.pods = s.uids()
	s.SetImage("guestbook", "openkruise/guestbook:v2")
	s.Settled("guestbook")
	if diff := cmp.Diff(s.pods, s.uids()); diff != "" {
		s.t.Errorf("the rollout replaced pods (-before +after):\n%s", diff)
	}
}

func (s *lifecycle) kubectlApply(manifest string) (string, error) {
	file := filepath.Join(s.t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		return "", err
	}
	return s.Kubectl("apply", "-f", file)
}

// questions are asked without pause during an upgrade.
type questions struct {
	pods, conversion, admission *asking
}

func (s *lifecycle) askAll() questions {
	template := s.StatefulSet("guestbook")
	return questions{
		pods: s.ask("pods", func(ctx context.Context) error {
			return env.Client.Create(ctx, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, GenerateName: "probe-"},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "openkruise/guestbook:v1"}}},
			}, client.DryRunAll)
		}),
		conversion: s.ask("conversion", func(ctx context.Context) error {
			return env.Client.Get(ctx, types.NamespacedName{Namespace: s.Name, Name: "converted"}, cloneSet("v1alpha1"))
		}),
		admission: s.ask("admission of our kinds", func(ctx context.Context) error {
			set := template.DeepCopy()
			set.ObjectMeta = metav1.ObjectMeta{Namespace: s.Name, GenerateName: "probe-"}
			return env.Client.Create(ctx, set, client.DryRunAll)
		}),
	}
}

// end stops asking: pods must never have been refused, and the others no longer than their
// limits.
func (q questions) end(t *testing.T, conversion, admission time.Duration) {
	t.Helper()
	if gap := q.pods.end(t); gap > 0 {
		t.Errorf("pods were refused for %s", gap)
	}
	if gap := q.conversion.end(t); gap > conversion {
		t.Errorf("conversion was away for %s, want at most %s", gap, conversion)
	}
	if gap := q.admission.end(t); gap > admission {
		t.Errorf("admission of our kinds was away for %s, want at most %s", gap, admission)
	}
}

// upgrade goes from the released version to this tree.
func (s *lifecycle) upgrade() {
	s.sampleConfiguration()
	// Users of an ended channel choose another one.
	if err := s.Client.Patch(s.t.Context(), olm.Object("Subscription", system, "kruise-operator"),
		client.RawPatch(types.MergePatchType, []byte(`{"spec":{"channel":"candidate"}}`))); err != nil {
		s.t.Fatal(err)
	}
	asked := s.askAll()
	s.upgradeTo(to, "openkruise/guestbook:v1", 2)
	// An older release repairs the conversion only after the plan has overwritten it. This
	// tree keeps the certificate.
	asked.end(s.t, 5*time.Second, 0)
	if err := env.Client.Get(s.t.Context(), types.NamespacedName{Name: sample}, &admissionv1.ValidatingWebhookConfiguration{}); err != nil {
		s.t.Errorf("the scoped configuration did not survive the upgrade: %v", err)
	}
}

// upgradeAgain goes from this tree to the next version, while a SidecarSet injects by both ways.
func (s *lifecycle) upgradeAgain() {
	s.inject()
	asked := s.askAll()
	injected := []*asking{s.askInjection("sidecars by policy", ""), s.askInjection("sidecars by webhook", `{"own":2}`)}
	s.upgradeTo(again, "openkruise/guestbook:v2", 3)
	asked.end(s.t, 0, 0)
	for _, a := range injected {
		if gap := a.end(s.t); gap > 0 {
			s.t.Errorf("%s: pods were refused, or got none, for %s", a.what, gap)
		}
	}
}

// meshAnnotation is merged by the SidecarSet: pods with it go by the webhook, others by the
// policy.
const meshAnnotation = "example.com/mesh"

// inject creates a SidecarSet for other pods than the guestbook's and waits until pods get its sidecar.
func (s *lifecycle) inject() {
	s.t.Helper()
	// Sets may write only annotations the administrator allows.
	if err := env.Client.Create(s.t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "kruise-configuration"},
		Data:       map[string]string{"SidecarSet_PatchPodMetadata_WhiteList": `{"rules": [{"allowedAnnotationKeyExprs": ["^example.com/"]}]}`},
	}); err != nil {
		s.t.Fatal(err)
	}
	if err := s.OLM.Apply(s.t.Context(), fmt.Sprintf(`apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: %[1]s}
spec:
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}
  selector: {matchLabels: {mesh: "true"}}
  updateStrategy: {type: NotUpdate}
  patchPodMetadata: [{annotations: {%[2]s: '{"set":1}'}, patchPolicy: MergePatchJson}]
  containers: [{name: mesh, image: "openkruise/guestbook:v1"}]
`, s.Name, meshAnnotation)); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		set := &unstructured.Unstructured{}
		set.SetAPIVersion("apps.kruise.io/v1beta1")
		set.SetKind("SidecarSet")
		set.SetName(s.Name)
		_ = client.IgnoreNotFound(env.Client.Delete(context.WithoutCancel(s.t.Context()), set))
	})
	for _, annotation := range []string{"", `{"own":2}`} {
		s.until("pods with the annotation "+annotation+" are injected", s.injected(annotation))
	}
}

// injected asks for a pod of the SidecarSet, and looks for the sidecar and the annotation.
func (s *lifecycle) injected(annotation string) func(context.Context) error {
	return func(ctx context.Context) error {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, GenerateName: "probe-", Labels: map[string]string{"mesh": "true"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "openkruise/guestbook:v1"}}},
		}
		want := `{"set":1}`
		if annotation != "" {
			pod.Annotations, want = map[string]string{meshAnnotation: annotation}, `{"own":2,"set":1}`
		}
		if err := env.Client.Create(ctx, pod, client.DryRunAll); err != nil {
			return err
		}
		if len(pod.Spec.Containers) != 2 || pod.Annotations[meshAnnotation] != want {
			return fmt.Errorf("the pod has %d containers and the annotation %s", len(pod.Spec.Containers), pod.Annotations[meshAnnotation])
		}
		return nil
	}
}

func (s *lifecycle) askInjection(what, annotation string) *asking {
	return s.ask(what, s.injected(annotation))
}

// upgradeTo approves a version's plan while the guestbook moves to an image, and waits for
// both. Then each container of the guestbook has had so many restarts.
func (s *lifecycle) upgradeTo(version, image string, restarts int32) {
	s.SetImage("guestbook", image)
	s.until("the rollout has begun and not ended", func(context.Context) error {
		st := s.StatefulSet("guestbook").Status
		if st.UpdatedReplicas == 0 || st.UpdatedReplicas == st.Replicas {
			return fmt.Errorf("%d of %d are updated", st.UpdatedReplicas, st.Replicas)
		}
		return nil
	})
	before := s.certificate()
	if err := s.Approve(s.t.Context(), system, "kruise-operator", packaging.CSVName(version)); err != nil {
		s.t.Fatal(err)
	}
	s.installed(version)
	s.Settled("guestbook")
	if diff := cmp.Diff(s.pods, s.uids()); diff != "" {
		s.t.Errorf("the upgrade replaced pods (-before +after):\n%s", diff)
	}
	for _, pod := range s.Pods("app=guestbook") {
		// One restart for each update of its image, and none for the upgrade.
		if got := pod.Status.ContainerStatuses[0].RestartCount; got != restarts {
			s.t.Errorf("the container of %s was restarted %d times, want %d", pod.Name, got, restarts)
		}
	}
	s.until("the certificate belongs to "+version, func(context.Context) error {
		kept := s.certificate()
		if kept.UID != before.UID {
			s.t.Fatal("the upgrade exchanged the certificate")
		}
		if owners := kept.OwnerReferences; len(owners) != 1 || owners[0].Name != packaging.CSVName(version) {
			return fmt.Errorf("it belongs to %v", owners)
		}
		return nil
	})
}

// certificate is OLM's Secret for the webhooks.
func (s *lifecycle) certificate() *corev1.Secret {
	s.t.Helper()
	secret := &corev1.Secret{}
	if err := env.Client.Get(s.t.Context(), types.NamespacedName{Namespace: system, Name: service + "-cert"}, secret); err != nil {
		s.t.Fatal(err)
	}
	return secret
}

// renew has OLM make a new authority, as when the old one expires: OLM's separate writes
// leave a gap, but nobody has to wait for the replicas' replacement.
func (s *lifecycle) renew() {
	asked := s.askAll()
	before := s.certificate()
	if err := env.Client.Delete(s.t.Context(), before); err != nil {
		s.t.Fatal(err)
	}
	s.until("the managers have the new certificate mounted", func(ctx context.Context) error {
		secret, deployment := &corev1.Secret{}, &appsv1.Deployment{}
		name := types.NamespacedName{Namespace: system, Name: manager}
		if err := errors.Join(env.Client.Get(ctx, client.ObjectKeyFromObject(before), secret), env.Client.Get(ctx, name, deployment)); err != nil {
			return err
		}
		const hash = "olmcahash"
		if is := deployment.Spec.Template.Annotations[hash]; secret.UID == before.UID || is != secret.Annotations[hash] {
			return fmt.Errorf("they have that of %s, want %s", is, secret.Annotations[hash])
		}
		return nil
	})
	s.installed(again)
	asked.end(s.t, renewal, renewal)
}

// remove deletes the ClusterServiceVersion of a disabled operator.
func (s *lifecycle) remove() {
	ctx := s.t.Context()
	// No manager can start again, and running ones are killed without notice.
	nodes := &corev1.NodeList{}
	if err := env.Client.List(ctx, nodes); err != nil {
		s.t.Fatal(err)
	}
	for i := range nodes.Items {
		if err := env.Client.Patch(ctx, &nodes.Items[i], client.RawPatch(types.StrategicMergePatchType, []byte(`{"spec":{"unschedulable":true}}`))); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := env.Client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(system), client.MatchingLabels{"app.kubernetes.io/component": "manager"},
		client.GracePeriodSeconds(0)); err != nil {
		s.t.Fatal(err)
	}
	s.failsClosed()
	for _, object := range []*unstructured.Unstructured{
		olm.Object("Subscription", system, "kruise-operator"),
		olm.Object("ClusterServiceVersion", system, packaging.CSVName(again)),
	} {
		if err := env.Client.Delete(ctx, object); err != nil {
			s.t.Fatal(err)
		}
	}
	for name, object := range map[types.NamespacedName]client.Object{
		{Name: binding}: &rbacv1.ClusterRoleBinding{},
		{Name: sample}:  &admissionv1.ValidatingWebhookConfiguration{},
		{Namespace: system, Name: service + "-cert"}: &corev1.Secret{},
	} {
		s.until(name.String()+" is gone", func(ctx context.Context) error {
			err := env.Client.Get(ctx, name, object)
			if apierrors.IsNotFound(err) {
				return nil
			}
			return errors.Join(errors.New("it exists"), err)
		})
	}
	s.until("no webhook of ours is left", func(ctx context.Context) error {
		validating, mutating := &admissionv1.ValidatingWebhookConfigurationList{}, &admissionv1.MutatingWebhookConfigurationList{}
		err := errors.Join(env.Client.List(ctx, validating), env.Client.List(ctx, mutating))
		if err == nil && len(validating.Items)+len(mutating.Items) > 0 {
			err = fmt.Errorf("%d are left", len(validating.Items)+len(mutating.Items))
		}
		return err
	})
	s.until("conversion needs no operator", func(ctx context.Context) error {
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := s.Client.Get(ctx, types.NamespacedName{Name: "clonesets.apps.kruise.io"}, definition); err != nil {
			return err
		}
		if definition.Spec.Conversion.Strategy != apiextensionsv1.NoneConverter {
			return fmt.Errorf("the strategy is %s", definition.Spec.Conversion.Strategy)
		}
		return nil
	})
	s.opens()
	if diff := cmp.Diff(s.pods, s.uids()); diff != "" {
		s.t.Errorf("removing the operator touched pods (-before +after):\n%s", diff)
	}
	if out, err := s.kubectlApply(strings.ReplaceAll(guestbook, "guestbook}", "another}")); err != nil {
		s.t.Errorf("objects cannot be written: %v\n%s", err, out)
	}
	for _, kind := range []string{"statefulsets.apps.kruise.io", "clonesets.apps.kruise.io", "sidecarsets.apps.kruise.io", "pods"} {
		if out, err := s.Kubectl("delete", kind, "--all", "--timeout=60s"); err != nil {
			s.t.Errorf("%s cannot be deleted: %v\n%s", kind, err, out)
		}
	}
}

func cloneSet(version string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("apps.kruise.io/" + version)
	object.SetKind("CloneSet")
	return object
}

// sampleConfiguration makes a webhook configuration as later kinds will: on labeled pods, refusing them while nobody answers, owned
// by the installation owner alone.
func (s *lifecycle) sampleConfiguration() {
	s.t.Helper()
	owner, err := installowner.Find(s.t.Context(), env.Client)
	if err != nil {
		s.t.Fatal(err)
	}
	err = env.Client.Create(s.t.Context(), &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: sample, OwnerReferences: []metav1.OwnerReference{owner}},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: sample,
			ClientConfig: admissionv1.WebhookClientConfig{
				Service: &admissionv1.ServiceReference{Namespace: system, Name: service, Path: ptr.To("/validate-pods")},
			},
			ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"scoped": "true"}},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
			FailurePolicy:           ptr.To(admissionv1.Fail),
			SideEffects:             ptr.To(admissionv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
			TimeoutSeconds:          ptr.To(int32(1)),
		}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// asking asks for something again and again and measures for how long it was refused.
type asking struct {
	what  string
	stop  context.CancelFunc
	done  chan struct{}
	mutex sync.Mutex
	asked int
	// gap is the longest time between two answers with a refusal in it.
	gap  time.Duration
	last error
}

func (s *lifecycle) ask(what string, question func(context.Context) error) *asking {
	ctx, stop := context.WithCancel(s.t.Context())
	a := &asking{what: what, stop: stop, done: make(chan struct{})}
	s.t.Cleanup(func() { stop(); <-a.done })
	go func() {
		defer close(a.done)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		answered := time.Now()
		refused := false
		for {
			limited, cancel := context.WithTimeout(ctx, 3*time.Second)
			err := question(limited)
			cancel()
			if ctx.Err() != nil {
				return
			}
			a.mutex.Lock()
			a.asked++
			if err != nil {
				a.last, refused = err, true
			}
			if refused {
				a.gap = max(a.gap, time.Since(answered))
			}
			if err == nil {
				answered, refused = time.Now(), false
			}
			a.mutex.Unlock()
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return a
}

// end stops asking and returns the longest gap.
func (a *asking) end(t *testing.T) time.Duration {
	t.Helper()
	a.stop()
	<-a.done
	if a.asked < 20 {
		t.Errorf("%s: only %d questions were asked", a.what, a.asked)
	}
	t.Logf("measured: %s: %d questions, longest gap %.2f s", a.what, a.asked, a.gap.Seconds())
	if a.last != nil {
		t.Logf("%s: the last refusal: %v", a.what, a.last)
	}
	return a.gap
}

// logManagers shows the managers' logs for a failed test.
func logManagers(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
	defer cancel()
	for _, args := range [][]string{
		{"-n", olm.Namespace, "describe", "pods"},
		{"-n", system, "get", "pods,csv,installplans", "-o", "wide"},
		{"-n", system, "logs", "-l", "app.kubernetes.io/component=manager", "--tail=30", "--prefix"},
	} {
		out, err := env.Cluster.Kubectl(ctx, args...).CombinedOutput()
		t.Logf("kubectl %s (%v):\n%s", strings.Join(args, " "), err, out)
	}
}
