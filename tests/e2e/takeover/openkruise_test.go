// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package takeover_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/takeover"
	"github.com/kruise-operator/kruise-operator/internal/testutil/fixtures"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/images"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
	"github.com/kruise-operator/kruise-operator/tests/framework/repository"
)

// page is the documentation with the commands.
const page = "../../../docs/operations/from-openkruise.md"

// openKruiseCRD is a CRD as OpenKruise installs it, as far as a takeover is concerned: versions, conversion, and a schema of its own.
const openKruiseCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: %[1]s.%[2]s
spec:
  group: %[2]s
  names: {kind: %[3]s, plural: %[1]s, singular: %[4]s, listKind: %[3]sList}
  scope: %[5]s
  conversion: %[8]s
  versions:
  - name: v1alpha1
    served: true
    storage: %[6]t
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
  - name: v1beta1
    served: %[7]t
    storage: %[7]t
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// converted is the conversion of OpenKruise's converted kinds.
const converted = `{strategy: Webhook, webhook: {conversionReviewVersions: [v1, v1beta1], clientConfig: {service: {namespace: kruise-system, name: kruise-webhook-service, path: /convert, port: 443}}}}`

// openKruise is OpenKruise, as far as others see it.
type openKruise struct {
	t      *testing.T
	client client.Client
	stop   func()
}

// installOpenKruise makes an empty cluster look like OpenKruise's: CRDs with its
// conversion, the fixtures' objects, its Deployment and daemon, and last webhook
// configurations without a server.
func installOpenKruise(t *testing.T, c *cluster.Cluster, direct client.Client, states ...string) *openKruise {
	t.Helper()
	if err := c.InstallCRDs(t.Context(), definitions(t)); err != nil {
		t.Fatal(err)
	}
	fixtures.Restore(t.Context(), t, direct, append([]string{"cluster/state.yaml"}, states...)...)

	labels := map[string]string{"control-plane": "controller-manager"}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "manager", Image: "openkruise/kruise-manager:v1.9.0", Command: []string{"/manager"},
			Args: []string{"--enable-leader-election", "--feature-gates=ImagePullJobGate=true,ResourceDistributionGate=true", "--statefulset-workers=7"},
		}}},
	}
	daemon := template.DeepCopy()
	daemon.Labels = map[string]string{"control-plane": "daemon"}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: takeover.Namespace}},
		&appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: takeover.Namespace, Name: "kruise-controller-manager"},
			Spec:       appsv1.DeploymentSpec{Replicas: ptr.To[int32](2), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
		},
		&appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: takeover.Namespace, Name: "kruise-daemon"},
			Spec:       appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: daemon.Labels}, Template: *daemon},
		},
	} {
		if err := client.IgnoreAlreadyExists(direct.Create(t.Context(), object)); err != nil {
			t.Fatal(err)
		}
	}
	for _, object := range fixtures.Objects(t, "cluster/installation.yaml") {
		switch object.GetKind() {
		case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
			trust(t, object, c.CA())
		case "Lease":
			continue
		}
		for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "generation"} {
			unstructured.RemoveNestedField(object.Object, "metadata", field)
		}
		unstructured.RemoveNestedField(object.Object, "status")
		if object.GetKind() == "Service" { // the address is another cluster's
			unstructured.RemoveNestedField(object.Object, "spec", "clusterIP")
			unstructured.RemoveNestedField(object.Object, "spec", "clusterIPs")
		}
		if err := client.IgnoreAlreadyExists(direct.Create(t.Context(), object)); err != nil {
			t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
	return &openKruise{t: t, client: direct, stop: func() {}}
}

// definitions writes OpenKruise's CRDs into a folder.
func definitions(t *testing.T) string {
	t.Helper()
	scopes := map[string]string{"SidecarSet": "Cluster", "ResourceDistribution": "Cluster", "NodeImage": "Cluster", "NodePodProbe": "Cluster"}
	alpha := map[string]bool{"PodProbeMarker": true, "NodePodProbe": true, "EphemeralJob": true}
	converts := []string{
		"StatefulSet", "CloneSet", "DaemonSet", "SidecarSet", "UnitedDeployment", "WorkloadSpread", "PersistentPodState", "ResourceDistribution",
		"ContainerRecreateRequest",
	}
	dir := t.TempDir()
	for _, kind := range takeover.Kinds() {
		scope := scopes[kind.Kind]
		if scope == "" {
			scope = "Namespaced"
		}
		conversion := "{strategy: None}"
		if slices.Contains(converts, kind.Kind) {
			conversion = converted
		}
		crd := fmt.Sprintf(openKruiseCRD, kind.Resource, kind.Group, kind.Kind, strings.ToLower(kind.Kind), scope, alpha[kind.Kind], !alpha[kind.Kind], conversion)
		if err := os.WriteFile(filepath.Join(dir, kind.Resource+".yaml"), []byte(crd), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// trust puts an authority where the recorded configurations have a placeholder.
func trust(t *testing.T, object *unstructured.Unstructured, ca []byte) {
	t.Helper()
	entries, _, err := unstructured.NestedSlice(object.Object, "webhooks")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		config := entry.(map[string]any)["clientConfig"].(map[string]any)
		config["caBundle"] = base64.StdEncoding.EncodeToString(ca)
	}
	if err := unstructured.SetNestedSlice(object.Object, entries, "webhooks"); err != nil {
		t.Fatal(err)
	}
}

// validity is the Lease's: short, so the test need not wait long for its end.
const validity = 3 * time.Second

// run renews the Lease as a leading manager does, until it is stopped.
func (o *openKruise) run() {
	o.t.Helper()
	if err := o.renew(o.t.Context()); err != nil {
		o.t.Fatalf("taking the lease: %v", err)
	}
	ctx, cancel := context.WithCancel(o.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(validity / 6)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if err := o.renew(ctx); err != nil && ctx.Err() == nil {
					o.t.Errorf("renewing the lease: %v", err)
				}
			}
		}
	}()
	o.stop = func() { cancel(); <-done }
	o.t.Cleanup(o.stop)
}

// renew writes the Lease with a clock an hour behind: nobody may compare it with another.
func (o *openKruise) renew(ctx context.Context) error {
	now := metav1.NewMicroTime(time.Now().Add(-time.Hour))
	lease, found := o.lease(ctx)
	lease.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("manager-0"), LeaseDurationSeconds: ptr.To(int32(validity.Seconds())), AcquireTime: &now, RenewTime: &now,
	}
	if !found {
		return o.client.Create(ctx, lease)
	}
	return o.client.Update(ctx, lease)
}

// release gives the Lease back, like a manager's orderly end.
func (o *openKruise) release() {
	o.t.Helper()
	o.stop()
	lease, _ := o.lease(o.t.Context())
	lease.Spec.HolderIdentity = ptr.To("")
	if err := o.client.Update(o.t.Context(), lease); err != nil {
		o.t.Fatalf("giving the lease back: %v", err)
	}
}

func (o *openKruise) lease(ctx context.Context) (lease *coordinationv1.Lease, found bool) {
	lease = &coordinationv1.Lease{}
	if err := o.client.Get(ctx, takeover.Lease(), lease); err != nil {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: takeover.Namespace, Name: takeover.Lease().Name}}, false
	}
	return lease, true
}

// step runs the commands of one step of the page, like a user, and returns their output.
func step(t *testing.T, c *cluster.Cluster, o *operator.Operator, title string) (string, error) {
	t.Helper()
	return shell(t, c, o, commandsOf(t, title))
}

// commandsOf are the commands of one step of the page.
func commandsOf(t *testing.T, title string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "# "+title+"\n")
	section, _, _ = strings.Cut(section, "\n##")
	_, block, hasBlock := strings.Cut(section, "\n```sh\n")
	block, _, _ = strings.Cut(block, "\n```")
	if !found || !hasBlock {
		t.Fatalf("%s has no commands under %q", page, title)
	}
	return block
}

// shell runs commands with kubectl and kruise-preflight at hand.
func shell(t *testing.T, c *cluster.Cluster, o *operator.Operator, commands string) (string, error) {
	t.Helper()
	kubectl := c.Kubectl(t.Context())
	if kubectl.Err != nil {
		t.Fatal(kubectl.Err)
	}
	checks := filepath.Join(c.Dir(), images.Preflight("").Name)
	if _, err := os.Stat(checks); err != nil {
		if err := images.CompileTo(t.Context(), images.Preflight(""), checks); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-eu", "-o", "pipefail", "-c", commands)
	path := strings.Join([]string{filepath.Dir(kubectl.Path), c.Dir(), os.Getenv("PATH")}, string(os.PathListSeparator))
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.AdminKubeconfig(), "WEBHOOK_URL="+o.WebhookURL(), "PATH="+path)
	root, err := repository.Root()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Dir = root
	var out, errors bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errors
	err = cmd.Run()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, errors.String())
	}
	return out.String(), err
}
