// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package daemon_test shows the node daemon deployed by the operator: pods of its DaemonSet
// on two real kubelets with containerd, with users' account, policy and mount. Images come
// from a registry a test can slow down or take away.
//
// It needs Linux, root and realnode.DebianPackages; elsewhere every test is skipped with
// the reason.
package daemon_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/platform/operands"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/realnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/deploy"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/images"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
)

// waitTimeout is how long a flow with pods on nodes may take on a busy machine.
const waitTimeout = 2 * time.Minute

var (
	// env is shared by all tests; nil when unavailable says why this machine cannot have it.
	env         *environment.Environment
	unavailable error
	prepared    = sync.OnceValue(prepare)
)

func TestMain(m *testing.M) {
	if unavailable = realnode.Check(); unavailable != nil {
		os.Exit(m.Run())
	}
	environment.Main(m, environment.Options{
		Cluster:  cluster.Options{RealNodes: 2},
		Operator: operator.Options{Args: []string{"--deployment=" + deploy.Manager}},
	}, func(e *environment.Environment) { env = e })
}

// onNodes gives a test its namespace, or skips it where no node can run. Where results count, root on Linux has to be able to.
func onNodes(t *testing.T) *environment.Namespace {
	t.Helper()
	deploy.Need(t, unavailable)
	if err := prepared(); err != nil {
		t.Fatal(err)
	}
	return env.Namespace(t)
}

// prepare pushes the nodes' images. The operator is a process on this machine; a Deployment
// without pods, as in a cluster, names the daemon's image.
func prepare() error {
	ctx := context.Background()
	for _, tag := range []string{"v1", "v1-again"} { // one image
		content := images.Image{Programs: []images.Program{images.Guestbook("v1")}, User: images.NonRoot}
		if _, err := deploy.Push(ctx, env.Cluster, "openkruise/guestbook:"+tag, content); err != nil {
			return err
		}
	}
	const image = deploy.Repository + ":v1"
	if err := deploy.PushManager(ctx, env.Cluster, image, ""); err != nil {
		return err
	}
	labels, none := map[string]string{"app": "none"}, int32(0)
	return env.Client.Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: deploy.Namespace, Name: deploy.Manager},
		Spec: appsv1.DeploymentSpec{
			Replicas: &none, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: image}}},
			},
		},
	})
}

// daemonOn waits until a node has a ready daemon with another UID, and returns its pod.
func daemonOn(n *environment.Namespace, node string, was *corev1.Pod) *corev1.Pod {
	var found *corev1.Pod
	n.EventuallyWithin(waitTimeout, "the daemon of "+node+" is ready", func(ctx context.Context) error {
		list := &corev1.PodList{}
		if err := n.Client.List(ctx, list, client.InNamespace(operands.DaemonNamespace)); err != nil {
			return err
		}
		for i := range list.Items {
			pod := &list.Items[i]
			if pod.Spec.NodeName == node && environment.IsReady(pod) && pod.DeletionTimestamp == nil && (was == nil || pod.UID != was.UID) {
				found = pod
				return nil
			}
		}
		return fmt.Errorf("pods %v", environment.Names(list.Items))
	})
	return found
}

// kill ends the daemon of a node at once; the DaemonSet makes another one.
func kill(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if err := env.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
}

// mayReadSecrets follows ImagePullJob's page for a namespace with pull secrets.
func mayReadSecrets(t *testing.T, n *environment.Namespace) {
	t.Helper()
	const name = "kruise-operator-read-pull-secrets"
	if err := n.Client.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: n.Name, Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: deploy.Namespace, Name: deploy.Manager}},
	}); err != nil {
		t.Fatal(err)
	}
}

// source is a repository of the registry under a test's control. It counts requests.
type source struct {
	network    *realnode.Network
	repository string

	mutex sync.Mutex
	// asked is how often a layer, by its digest, or "manifest" was sent, by the address of the node.
	asked map[string]map[string]int
	// held are the layers kept back until release is closed.
	held    map[string]bool
	release chan struct{}
	// away: the registry does not answer, and breaks off its answers.
	away bool
}

// sourceOf takes a repository over until the test ends.
func sourceOf(t *testing.T, repository string) *source {
	t.Helper()
	network, err := env.Cluster.NodeNetwork(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := &source{network: network, repository: repository, asked: map[string]map[string]int{}, held: map[string]bool{}, release: make(chan struct{})}
	network.Intercept(repository, s.answer)
	t.Cleanup(func() { s.free(); network.Intercept(repository, nil) })
	return s
}

// push stores an image of new layers, and returns their digests.
func (s *source) push(t *testing.T, tag string, layers int64) []string {
	t.Helper()
	image, err := random.Image(256<<10, layers)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	host := images.Host()
	config = config.DeepCopy()
	config.OS, config.Architecture = host.OS, host.Architecture
	if image, err = mutate.ConfigFile(image, config); err != nil {
		t.Fatal(err)
	}
	if err := s.network.Push(t.Context(), s.repository+":"+tag, image); err != nil {
		t.Fatal(err)
	}
	return digests(t, image)
}

func digests(t *testing.T, image v1.Image) []string {
	t.Helper()
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, layer := range layers {
		digest, err := layer.Digest()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, digest.String())
	}
	return all
}

// hold keeps layers back until free is called.
func (s *source) hold(layers ...string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.release = make(chan struct{})
	for _, layer := range layers {
		s.held[layer] = true
	}
}

// free sends the held layers.
func (s *source) free() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if len(s.held) > 0 {
		close(s.release)
	}
	s.held, s.away = map[string]bool{}, false
}

// vanish breaks every transfer off, and answers none until free is called.
func (s *source) vanish() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.away = true
	close(s.release)
	s.held = map[string]bool{}
}

func (s *source) gone() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.away
}

// answer is images.Between.
func (s *source) answer(w http.ResponseWriter, r *http.Request, next http.Handler) {
	what := "manifest"
	if strings.Contains(r.URL.Path, "/blobs/") {
		what = path.Base(r.URL.Path)
	}
	node, _, _ := strings.Cut(r.RemoteAddr, ":")
	s.mutex.Lock()
	if s.asked[what] == nil {
		s.asked[what] = map[string]int{}
	}
	if r.Method == http.MethodGet || what == "manifest" {
		s.asked[what][node]++
	}
	held, release := s.held[what], s.release
	s.mutex.Unlock()
	if held {
		select {
		case <-release:
		case <-r.Context().Done():
			return
		}
	}
	if s.gone() {
		panic(http.ErrAbortHandler) // the connection breaks off
	}
	next.ServeHTTP(w, r)
}

// times counts requests for something, by node, fewest first.
func (s *source) times(what string) []int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var all []int
	for _, n := range s.asked[what] {
		all = append(all, n)
	}
	slices.Sort(all)
	return all
}

// holding waits until so many nodes wait for a layer.
func (s *source) holding(n *environment.Namespace, layer string, nodes int) {
	n.EventuallyWithin(waitTimeout, fmt.Sprintf("%d nodes pull", nodes), func(context.Context) error {
		if got := s.times(layer); len(got) != nodes {
			return fmt.Errorf("the layer was asked for %v times", got)
		}
		return nil
	})
}
