// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package olm runs the Operator Lifecycle Manager on a test cluster: its two operators and
// a catalog server, in the versions of tools/sdk, as processes beside the API server. OLM's
// writes are as in any other cluster.
package olm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/binaries"
	"github.com/kruise-operator/kruise-operator/tests/framework/repository"
)

// Namespace is where OLM and catalogs live.
const Namespace = "olm"

// CatalogSource is the name of ServeCatalog's catalog.
const CatalogSource = "kruise-operator-catalog"

// OLM is a running Operator Lifecycle Manager.
type OLM struct {
	// Client has the rights of an administrator. It knows Kubernetes' own types and takes all others unstructured.
	Client client.WithWatch

	cluster  *cluster.Cluster
	programs binaries.Set
	catalog  *cluster.Process
}

// Options configure the two operators.
type Options struct {
	// CatalogArgs are added to the catalog operator's command line, such as the images of
	// its pods.
	CatalogArgs []string
}

// Start installs OLM's kinds and runs its operators until the cluster stops.
func Start(ctx context.Context, c *cluster.Cluster, options Options, progress io.Writer) (*OLM, error) {
	programs, err := binaries.Ensure(ctx, binaries.Options{Progress: progress}, binaries.OLM, binaries.OLMCatalog, binaries.OPM)
	if err != nil {
		return nil, err
	}
	types := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(types), apiextensionsv1.AddToScheme(types)); err != nil {
		return nil, err
	}
	direct, err := client.NewWithWatch(c.Config(), client.Options{Scheme: types})
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	o := &OLM{Client: direct, cluster: c, programs: programs}
	if err := o.installKinds(ctx); err != nil {
		return nil, err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}
	if err := direct.Create(ctx, namespace); client.IgnoreAlreadyExists(err) != nil {
		return nil, fmt.Errorf("creating the namespace of OLM: %w", err)
	}
	// Without it every namespace gets a copy of every ClusterServiceVersion.
	if err := o.Apply(ctx, `{apiVersion: operators.coreos.com/v1, kind: OLMConfig, metadata: {name: cluster}, spec: {features: {disableCopiedCSVs: true}}}`); err != nil {
		return nil, err
	}
	environment := []string{"KUBECONFIG=" + c.AdminKubeconfig()}
	if _, err := c.StartProcess("olm", programs.Path(binaries.OLM),
		[]string{"--namespace", Namespace, "--writeStatusName", "", "--writePackageServerStatusName", ""}, environment); err != nil {
		return nil, err
	}
	proxy, err := serveServices(direct)
	if err != nil {
		return nil, err
	}
	c.OnStop(proxy.close)
	_, err = c.StartProcess("olm-catalog", programs.Path(binaries.OLMCatalog), append([]string{
		"--namespace", Namespace, "--writeStatusName", "", "--kubeconfig", c.AdminKubeconfig(),
	}, options.CatalogArgs...), append(environment, "GRPC_PROXY="+proxy.url()))
	return o, err
}

// installKinds applies OLM's definitions, from its operators' module, and waits until they
// are served: otherwise the operators end.
func (o *OLM) installKinds(ctx context.Context) error {
	root, err := repository.Root()
	if err != nil {
		return err
	}
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/operator-framework/api")
	list.Dir = filepath.Join(root, "tools", "sdk")
	list.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	dir, err := list.Output()
	if err != nil {
		return fmt.Errorf("finding OLM's kinds: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "crds", "*.yaml"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("finding OLM's kinds in %s: %w", dir, errors.Join(err, os.ErrNotExist))
	}
	var names []string
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(content, definition); err != nil {
			return fmt.Errorf("reading %s: %w", filepath.Base(file), err)
		}
		if err := o.Client.Create(ctx, definition); client.IgnoreAlreadyExists(err) != nil {
			return fmt.Errorf("creating %s: %w", definition.Name, err)
		}
		names = append(names, definition.Name)
	}
	for _, name := range names {
		err := Until(ctx, time.Minute, name+" is served", func(ctx context.Context) error {
			definition := &apiextensionsv1.CustomResourceDefinition{}
			if err := o.Client.Get(ctx, client.ObjectKey{Name: name}, definition); err != nil {
				return err
			}
			for _, condition := range definition.Status.Conditions {
				if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
					return nil
				}
			}
			return errors.New("not established")
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ServeCatalog serves a file-based catalog from a folder and makes it known to OLM, in place of the one before.
func (o *OLM) ServeCatalog(ctx context.Context, dir string) error {
	if o.catalog != nil {
		if err := o.cluster.StopProcess(o.catalog); err != nil {
			return err
		}
	}
	port, err := o.cluster.FreePort()
	if err != nil {
		return err
	}
	profiling, err := o.cluster.FreePort()
	if err != nil {
		return err
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	o.catalog, err = o.cluster.StartProcess("opm", o.programs.Path(binaries.OPM), []string{
		"serve", dir, "-p", strconv.Itoa(port), "--pprof-addr", net.JoinHostPort("127.0.0.1", strconv.Itoa(profiling)),
		"--termination-log", filepath.Join(o.cluster.Dir(), "opm-termination.log"),
	}, nil)
	if err != nil {
		return err
	}
	// OLM backs off for long when it finds nobody there.
	err = Until(ctx, 30*time.Second, "the catalog is served", func(ctx context.Context) error {
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return errors.Join(err, o.cluster.Exited())
		}
		return connection.Close()
	})
	if err != nil {
		return err
	}
	return o.Apply(ctx, fmt.Sprintf(`apiVersion: operators.coreos.com/v1alpha1
kind: CatalogSource
metadata: {name: %s, namespace: %s}
spec: {sourceType: grpc, address: "%s", displayName: Kruise Operator}
`, CatalogSource, Namespace, address))
}

// ServeCatalogImage lets OLM serve a catalog from an image of files alone, in a pod of
// OLM's, and waits for the connection. It needs nodes, and the images in
// Options.CatalogArgs.
func (o *OLM) ServeCatalogImage(ctx context.Context, image string) error {
	err := o.Apply(ctx, fmt.Sprintf(`apiVersion: operators.coreos.com/v1alpha1
kind: CatalogSource
metadata: {name: %s, namespace: %s}
spec: {sourceType: grpc, image: "%s", displayName: Kruise Operator, grpcPodConfig: {extractContent: {catalogDir: /configs}}}
`, CatalogSource, Namespace, image))
	if err != nil {
		return err
	}
	return Until(ctx, 2*time.Minute, "the catalog is ready", func(ctx context.Context) error {
		source := Object("CatalogSource", Namespace, CatalogSource)
		if err := o.Client.Get(ctx, client.ObjectKeyFromObject(source), source); err != nil {
			return err
		}
		state, _, err := unstructured.NestedString(source.Object, "status", "connectionState", "lastObservedState")
		if err != nil || state != "READY" {
			return errors.Join(fmt.Errorf("the connection is %q, the status %v", state, source.Object["status"]), err)
		}
		return nil
	})
}

// Apply creates or updates an object given as YAML.
func (o *OLM) Apply(ctx context.Context, manifest string) error {
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &object.Object); err != nil {
		return fmt.Errorf("parsing a manifest: %w", err)
	}
	err := o.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("test"), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

// Object returns an empty object of one of OLM's kinds.
func Object(kind, namespace, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	version := "v1alpha1"
	switch kind {
	case "OperatorGroup", "Operator":
		version = "v1"
	case "OperatorCondition":
		version = "v2"
	}
	object.SetAPIVersion("operators.coreos.com/" + version)
	object.SetKind(kind)
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

// CSV reads a ClusterServiceVersion and returns its phase and reason; the phase is empty while there is none.
func (o *OLM) CSV(ctx context.Context, namespace, name string) (phase, reason string, err error) {
	csv := Object("ClusterServiceVersion", namespace, name)
	if err := o.Client.Get(ctx, client.ObjectKeyFromObject(csv), csv); err != nil {
		if apierrors.IsNotFound(err) {
			return "", "", nil
		}
		return "", "", err
	}
	phase, _, _ = unstructured.NestedString(csv.Object, "status", "phase")
	reason, _, _ = unstructured.NestedString(csv.Object, "status", "reason")
	return phase, reason, nil
}

// Approve approves a Subscription's InstallPlan for a ClusterServiceVersion, and waits for
// its end.
//
// OLM sometimes makes two plans and forgets the first. The valid one is in the
// Subscription's status, and waits. Afterwards the status may already name the next
// version's plan. And OLM sometimes misses the arrival of the version before, and makes no
// plan until the Subscription changes: it is touched every ten seconds.
func (o *OLM) Approve(ctx context.Context, namespace, subscription, csv string) error {
	var approved []*unstructured.Unstructured
	touched := time.Now()
	touch := func(ctx context.Context, sub *unstructured.Unstructured) error {
		if time.Since(touched) < 10*time.Second {
			return nil
		}
		touched = time.Now()
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/touched":%q}}}`, touched.Format(time.RFC3339))
		return o.Client.Patch(ctx, sub, client.RawPatch(types.MergePatchType, patch))
	}
	// On a busy machine OLM takes more than a minute for the fifty objects of a plan.
	return Until(ctx, 3*time.Minute, "the InstallPlan for "+csv+" is carried out", func(ctx context.Context) error {
		var phases []string
		for _, plan := range approved {
			if err := o.Client.Get(ctx, client.ObjectKeyFromObject(plan), plan); client.IgnoreNotFound(err) != nil {
				return err
			}
			phase, _, _ := unstructured.NestedString(plan.Object, "status", "phase")
			if phase == "Complete" {
				return nil
			}
			conditions, _, _ := unstructured.NestedSlice(plan.Object, "status", "conditions")
			phases = append(phases, fmt.Sprintf("%s, which is approved, is in phase %q: %v", plan.GetName(), phase, conditions))
		}
		sub := Object("Subscription", namespace, subscription)
		if err := o.Client.Get(ctx, client.ObjectKeyFromObject(sub), sub); err != nil {
			return err
		}
		name, found, err := unstructured.NestedString(sub.Object, "status", "installPlanRef", "name")
		if err != nil || !found {
			return errors.Join(errors.New("the Subscription has no InstallPlan"), err, touch(ctx, sub))
		}
		plan := Object("InstallPlan", namespace, name)
		if err := o.Client.Get(ctx, client.ObjectKeyFromObject(plan), plan); err != nil {
			return err
		}
		names, _, err := unstructured.NestedStringSlice(plan.Object, "spec", "clusterServiceVersionNames")
		if err != nil || !slices.Contains(names, csv) {
			return errors.Join(fmt.Errorf("the InstallPlan installs %v; approved: %v", names, phases), err, touch(ctx, sub))
		}
		phase, _, err := unstructured.NestedString(plan.Object, "status", "phase")
		if err != nil {
			return err
		}
		if phase == "RequiresApproval" {
			approved = append(approved, Object("InstallPlan", namespace, name))
			err = o.Client.Patch(ctx, plan, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"approved":true}}`)))
		}
		if phase != "Complete" {
			return errors.Join(fmt.Errorf("InstallPlan %s is in phase %q", name, phase), err)
		}
		return nil
	})
}

// Until asks until there is no error or the limit has passed.
func Until(ctx context.Context, limit time.Duration, what string, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("not within %s: %s: %w", limit, what, last)
		}
	}
}
