// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Command demo shows the main job before your eyes: a real local control plane with simulated nodes, the operator, and the
// guestbook: started with 3 pods, scaled to 300 and moved to another image in place. It stays up until Ctrl-C; with DEMO=once
// in the environment it ends by itself, with 0 when every pod kept its identity and 1 otherwise.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
	"github.com/kruise-operator/kruise-operator/tests/framework/repository"
)

const (
	sample   = "config/samples/apps_v1alpha1_statefulset.yaml"
	set      = "demo-v1-guestbook-kruise"
	oldImage = "openkruise/guestbook:v1"
	newImage = "openkruise/guestbook:v2"
	replicas = 300
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := demo(ctx)
	// After Ctrl-C errors such as "signal: killed" are normal; only a demo meant to end by
	// itself has failed.
	if ctx.Err() != nil && !once() {
		fmt.Println("\nstopped")
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// once is true if the demo ends by itself.
func once() bool { return os.Getenv("DEMO") == "once" }

func demo(ctx context.Context) error {
	if err := repository.EnterRoot(); err != nil {
		return err
	}
	fmt.Println("Starting a control plane: etcd, kube-apiserver, kube-controller-manager, kube-scheduler.")
	fmt.Println("The first time its programs are built from source, which takes some minutes.")
	began := time.Now()
	c, err := cluster.Start(ctx, cluster.Options{Progress: os.Stdout})
	if err != nil {
		return err
	}
	defer func() { _ = c.Stop() }()
	nodes, err := simnode.Start(ctx, c.Config(), simnode.Options{Nodes: 10, Delays: simnode.RealisticDelays()})
	if err != nil {
		return err
	}
	defer nodes.Stop()
	fmt.Printf("Kubernetes %s with 10 simulated nodes is up after %s.\n\n", c.Version(), time.Since(began).Round(time.Second))

	fmt.Println("Building and starting the operator as a local process, with the rights of its own service account.")
	if _, err := operator.Start(ctx, c, operator.Options{}); err != nil {
		return err
	}

	d := &demonstration{cluster: c}
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching() // before the cluster stops, so that the watch does not complain about it
	if err := d.watch(watching); err != nil {
		return err
	}
	if err := d.tell(ctx); err != nil {
		return err
	}
	if once() {
		return nil
	}
	fmt.Printf(`
The cluster stays up until Ctrl-C. In another terminal:

  export KUBECONFIG=%s
  %s get sts.apps.kruise.io
  %[2]s get pods -o wide
  %[2]s patch sts.apps.kruise.io/%s --type=json --patch '%s'
  %[2]s label pod %[3]s-7 apps.kruise.io/specified-delete=true
  %[2]s scale sts.apps.kruise.io/%[3]s --replicas=20
`, c.AdminKubeconfig(), c.Kubectl(ctx).Path, set, setImage("openkruise/guestbook:v3"))
	<-ctx.Done()
	return nil
}

// demonstration is a demo's content.
type demonstration struct {
	cluster *cluster.Cluster
	pods    corelisters.PodNamespaceLister
}

func (d *demonstration) watch(ctx context.Context) error {
	core, err := kubernetes.NewForConfig(d.cluster.Config())
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(core, 0, informers.WithNamespace("default"))
	pods := factory.Core().V1().Pods()
	d.pods = pods.Lister().Pods("default")
	informer := pods.Informer()
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return context.Cause(ctx)
	}
	return nil
}

func (d *demonstration) tell(ctx context.Context) error {
	if err := d.kubectl(ctx, "apply", "-f", sample); err != nil {
		return err
	}
	if _, err := d.follow(ctx, "3 pods start", 3, oldImage); err != nil {
		return err
	}
	if err := d.kubectl(ctx, "scale", "sts.apps.kruise.io/"+set, fmt.Sprintf("--replicas=%d", replicas)); err != nil {
		return err
	}
	if _, err := d.follow(ctx, fmt.Sprintf("%d pods start at once", replicas), replicas, oldImage); err != nil {
		return err
	}
	if err := d.kubectl(ctx, "get", "sts.apps.kruise.io"); err != nil {
		return err
	}
	before, err := d.identities()
	if err != nil {
		return err
	}
	// Three at a time would take minutes for 300 pods; the demo should not.
	if err := d.kubectl(ctx, "patch", "sts.apps.kruise.io/"+set, "--type=merge", "--patch", `{"spec":{"updateStrategy":{"rollingUpdate":{"maxUnavailable":"20%"}}}}`); err != nil {
		return err
	}
	if err := d.kubectl(ctx, "patch", "sts.apps.kruise.io/"+set, "--type=json", "--patch", setImage(newImage)); err != nil {
		return err
	}
	took, err := d.follow(ctx, "the same pods move to "+newImage+", a fifth of them at a time", replicas, newImage)
	if err != nil {
		return err
	}
	if err := d.kubectl(ctx, "get", "sts.apps.kruise.io"); err != nil {
		return err
	}
	after, err := d.identities()
	if err != nil {
		return err
	}
	return compare(os.Stdout, before, after, took)
}

// kubectl runs kubectl and shows the command and its output.
func (d *demonstration) kubectl(ctx context.Context, args ...string) error {
	fmt.Println("\n$ kubectl " + strings.Join(args, " "))
	cmd := d.cluster.Kubectl(ctx, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("kubectl %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// setImage is a patch of the first container's image. ("kubectl set image" knows only the kinds it was built with.)
func setImage(image string) string {
	return fmt.Sprintf(`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":%q}]`, image)
}
