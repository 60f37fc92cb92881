// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
)

// open prepares the cluster and all contenders. Close its result, even with an error.
func open(ctx context.Context, o options) (*bench, error) {
	b := &bench{options: o}
	var own *cluster.Cluster
	var err error
	if o.installed {
		b.config, err = installed()
	} else if own, err = b.startCluster(ctx); err == nil {
		b.config = own.Config()
	}
	if err != nil {
		return b, err
	}
	if err := b.connect(ctx); err != nil {
		return b, err
	}
	b.bare = &bare{bench: b}
	b.contenders = []*contender{{actor: b.bare, name: "bare client"}}
	if own != nil {
		return b, b.addOwn(ctx, own)
	}
	s, err := b.discover()
	b.contenders = append(b.contenders, &contender{actor: s, name: "operator"})
	return b, err
}

// installed is the cluster of $KUBECONFIG. A default file is not looked for, since the cluster gets work to do.
func installed() (*rest.Config, error) {
	if os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		return nil, errors.New("--installed: KUBECONFIG is not set; it names the cluster whose operator is measured")
	}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
}

// connect makes the namespace and looks at its pods.
func (b *bench) connect(ctx context.Context) (err error) {
	b.config.QPS = -1
	fast := rest.CopyConfig(b.config)
	fast.ContentType, fast.AcceptContentTypes, fast.DisableCompression = protobuf, protobuf, true
	if b.core, err = kubernetes.NewForConfig(fast); err != nil {
		return err
	}
	discover, err := discovery.NewDiscoveryClientForConfig(b.config)
	if err != nil {
		return err
	}
	version, err := discover.ServerVersion()
	if err != nil {
		return err
	}
	b.version = version.GitVersion
	fmt.Fprintf(os.Stderr, "Kubernetes %s at %s\n", b.version, b.config.Host)
	if err := b.fits(ctx); err != nil {
		return err
	}
	if err := b.makeNamespace(ctx); err != nil {
		return err
	}
	b.observer, err = follow(ctx, b.core, b.namespace)
	return err
}

// fits leaves half of an installed cluster's room for pods to others.
func (b *bench) fits(ctx context.Context) error {
	if !b.installed {
		return nil
	}
	nodes, err := b.core.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var room int64
	for i := range nodes.Items {
		if node := &nodes.Items[i]; !node.Spec.Unschedulable && !hasTaint(node) {
			room += node.Status.Allocatable.Pods().Value() / 2
		}
	}
	if int64(b.pods) > room {
		return fmt.Errorf("--pods: at most %d here, half of what the nodes can run, not %d", room, b.pods)
	}
	return nil
}

func hasTaint(node *corev1.Node) bool {
	for _, taint := range node.Spec.Taints {
		if taint.Effect != corev1.TaintEffectPreferNoSchedule {
			return true
		}
	}
	return false
}

// startCluster runs a control plane with simulated nodes.
func (b *bench) startCluster(ctx context.Context) (*cluster.Cluster, error) {
	c, err := cluster.Start(ctx, cluster.Options{Progress: os.Stderr})
	if err != nil {
		return nil, err
	}
	b.cleanUp = append(b.cleanUp, c.Stop)
	nodes, err := simnode.Start(ctx, c.Config(), simnode.Options{Nodes: 20})
	if err != nil {
		return nil, err
	}
	b.cleanUp = append(b.cleanUp, func() error { nodes.Stop(); return nil })
	return c, nil
}

// addOwn adds this tree's operator, and those of the revisions to compare. All have this
// tree's CRDs.
func (b *bench) addOwn(ctx context.Context, c *cluster.Cluster) error {
	process, err := operator.New(ctx, c, operator.Options{Args: b.operatorArg})
	if err != nil {
		return err
	}
	if err := process.Install(ctx); err != nil {
		return err
	}
	if len(b.against) > 0 {
		// Another revision may need rights this tree no longer gives.
		if err := b.allowAll(ctx); err != nil {
			return err
		}
	}
	programs, names := map[string]string{"operator": process.Program()}, []string{"operator"}
	for _, revision := range b.against {
		name := "operator at " + revision
		if programs[name], err = compile(ctx, revision, c.Dir()); err != nil {
			return err
		}
		names = append(names, name)
	}
	for _, name := range names {
		s, err := b.discover()
		if err != nil {
			return err
		}
		s.process, s.program = process, programs[name]
		b.contenders = append(b.contenders, &contender{actor: s, name: name})
	}
	return nil
}

func (b *bench) allowAll(ctx context.Context) error {
	_, err := b.core.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "bench-operators"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "kruise-system", Name: "kruise-operator-manager"}},
	}, metav1.CreateOptions{})
	return err
}

// compile returns the path of the operator of a revision.
func compile(ctx context.Context, revision, folder string) (path string, err error) {
	tree := filepath.Join(folder, "against-"+strings.ReplaceAll(revision, "/", "-"))
	path = tree + "-operator"
	git := func(args ...string) error { return command(exec.CommandContext(ctx, "git", args...)) }
	if err := git("worktree", "add", "--quiet", "--detach", tree, revision); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, git("worktree", "remove", "--force", tree)) }()
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-ldflags", "-s -w", "-o", path, ".")
	build.Dir, build.Env = tree, append(os.Environ(), "CGO_ENABLED=0")
	return path, command(build)
}

func command(c *exec.Cmd) error {
	if output, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", c, err, output)
	}
	return nil
}
