// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// The scorecard tests of this project. `operator-sdk scorecard` runs one in a pod, with the bundle at /bundle, and reads the result
// from its output; the suites run them beside a cluster. They need the operator installed, nodes and a default storage class.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	bundle := ""
	limit := time.Duration(0)
	root := &cobra.Command{Use: "scorecard", SilenceUsage: true, SilenceErrors: true}
	root.PersistentFlags().StringVar(&bundle, "bundle", "/bundle", "The folder of the bundle.")
	root.PersistentFlags().DurationVar(&limit, "limit", 3*time.Minute, "How long a test may take.")
	for name, check := range map[string]func(context.Context, *fixture) error{
		"samples-become-ready":        samplesBecomeReady,
		"updates-keep-pods":           updatesKeepPods,
		"disabled-kinds-cost-nothing": disabledKindsCostNothing,
	} {
		root.AddCommand(&cobra.Command{Use: name, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), limit)
			defer cancel()
			w := &fixture{bundle: bundle}
			return report(os.Stdout, name, w, w.run(ctx, name, check))
		}})
	}
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "scorecard:", err)
		os.Exit(1)
	}
}

// report prints the result in the form of scorecard.operatorframework.io/v1alpha3. A failed test is a result, not an error.
func report(out io.Writer, name string, w *fixture, failure error) error {
	type result struct {
		Name   string   `json:"name"`
		State  string   `json:"state"`
		Log    string   `json:"log,omitempty"`
		Errors []string `json:"errors,omitempty"`
	}
	r := result{Name: name, State: "pass", Log: strings.Join(w.notes, "\n")}
	if failure != nil {
		r.State, r.Errors = "fail", []string{failure.Error()}
	}
	text, err := json.MarshalIndent(map[string]any{"results": []result{r}}, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, string(text))
	return err
}

// fixture is a test's namespace.
type fixture struct {
	bundle    string
	config    *rest.Config
	client    client.Client
	namespace string
	notes     []string
	made      []*unstructured.Unstructured
}

func (w *fixture) run(ctx context.Context, name string, check func(context.Context, *fixture) error) (err error) {
	if w.config, err = ctrl.GetConfig(); err != nil {
		return fmt.Errorf("finding the cluster: %w", err)
	}
	if w.client, err = client.New(w.config, client.Options{Scheme: scheme.Scheme}); err != nil {
		return fmt.Errorf("connecting to the cluster: %w", err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-"}}
	if err := w.client.Create(ctx, namespace); err != nil {
		return fmt.Errorf("creating a namespace: %w", err)
	}
	w.namespace = namespace.Name
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		for _, object := range w.made { // Some lie in no namespace.
			err = errors.Join(err, client.IgnoreNotFound(w.client.Delete(ctx, object)))
		}
		err = errors.Join(err, client.IgnoreNotFound(w.client.Delete(ctx, namespace)))
	}()
	return check(ctx, w)
}

// samples are the examples of the ClusterServiceVersion.
func (w *fixture) samples() ([]*unstructured.Unstructured, error) {
	files, err := filepath.Glob(filepath.Join(w.bundle, "manifests", "*.clusterserviceversion.yaml"))
	if err != nil || len(files) != 1 {
		return nil, fmt.Errorf("%d ClusterServiceVersions in the bundle: %w", len(files), err)
	}
	content, err := os.ReadFile(files[0])
	if err != nil {
		return nil, err
	}
	csv := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(content, &csv.Object); err != nil {
		return nil, fmt.Errorf("reading the ClusterServiceVersion: %w", err)
	}
	var samples []*unstructured.Unstructured
	if err := json.Unmarshal([]byte(csv.GetAnnotations()["alm-examples"]), &samples); err != nil {
		return nil, fmt.Errorf("reading the examples: %w", err)
	}
	var usable []*unstructured.Unstructured
	for _, sample := range samples {
		if why := leftOut(sample); why != "" {
			w.notes = append(w.notes, fmt.Sprintf("%s %s is left out: %s", sample.GetKind(), sample.GetName(), why))
			continue
		}
		usable = append(usable, sample)
	}
	if len(usable) == 0 {
		return nil, errors.New("the bundle has no examples")
	}
	return usable, nil
}

// leftOut says why an example is not created here.
func leftOut(sample *unstructured.Unstructured) string {
	switch sample.GetKind() {
	case "Kruise":
		return "it would change how the operator itself runs"
	case "BroadcastJob", "ImageListPullJob", "ImagePullJob", "NodeImage":
		return "whether it succeeds depends on the registries that the node reaches"
	case "ContainerRecreateRequest", "EphemeralJob":
		return "pods that it names would have to run"
	case "Rollout", "BatchRelease":
		return "the workload that it names is no example of this operator"
	case "NodePodProbe", "PodProbeMarker":
		return "there is no pod that it could probe"
	}
	if copied, _, _ := unstructured.NestedString(sample.Object, "spec", "resource", "kind"); copied == "Secret" {
		return "nobody has the right to write Secrets until an administrator gives it"
	}
	return ""
}

// samplesBecomeReady creates every example and waits until it is ready.
func samplesBecomeReady(ctx context.Context, w *fixture) error {
	samples, err := w.samples()
	if err != nil {
		return err
	}
	for _, sample := range samples {
		if err := w.create(ctx, sample); err != nil {
			return err
		}
	}
	for _, sample := range samples {
		if err := w.ready(ctx, sample); err != nil {
			return err
		}
		w.notes = append(w.notes, fmt.Sprintf("%s %s %s is ready", sample.GetAPIVersion(), sample.GetKind(), sample.GetName()))
	}
	return nil
}

// create creates a sample, again while webhooks are not yet served.
func (w *fixture) create(ctx context.Context, sample *unstructured.Unstructured) error {
	sample.SetNamespace(w.namespace)
	return until(ctx, "creating "+sample.GetKind()+" "+sample.GetName(), func() error {
		made := sample.DeepCopy()
		err := w.client.Create(ctx, made)
		if err == nil {
			w.made = append(w.made, made)
		}
		return client.IgnoreAlreadyExists(err)
	})
}

// ready waits for a complete status: all replicas for a workload, and for any other kind a
// condition Ready or Available, or nothing to do and nothing in the way.
func (w *fixture) ready(ctx context.Context, object *unstructured.Unstructured) error {
	return until(ctx, object.GetKind()+" "+object.GetName()+" is ready", func() error {
		if err := w.client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		status, _, err := unstructured.NestedMap(object.Object, "status")
		if err != nil {
			return err
		}
		if replicas, found, err := unstructured.NestedInt64(object.Object, "spec", "replicas"); err == nil && found {
			if status["observedGeneration"] == object.GetGeneration() && status["readyReplicas"] == replicas && status["updatedReadyReplicas"] == replicas {
				return nil
			}
			return fmt.Errorf("its status is %v", status)
		}
		conditions := conditionsOf(status)
		if conditions["Ready"] == "True" || conditions["Available"] == "True" || conditions["Reconciling"] == "False" && conditions["Stalled"] == "False" {
			return nil
		}
		return fmt.Errorf("its status is %v", status)
	})
}

// conditionsOf are the states of an object's conditions by their types.
func conditionsOf(status map[string]any) map[string]string {
	list, ok := status["conditions"].([]any)
	if !ok {
		return nil
	}
	states := map[string]string{}
	for _, condition := range list {
		if c, ok := condition.(map[string]any); ok {
			states[fmt.Sprint(c["type"])] = fmt.Sprint(c["status"])
		}
	}
	return states
}

// updatesKeepPods changes the image of every example updated in place and checks that its
// pods are the same.
func updatesKeepPods(ctx context.Context, w *fixture) error {
	samples, err := w.samples()
	if err != nil {
		return err
	}
	updated := 0
	for _, sample := range samples {
		policy, _, _ := unstructured.NestedString(sample.Object, "spec", "updateStrategy", "rollingUpdate", "podUpdatePolicy")
		partition, _, _ := unstructured.NestedInt64(sample.Object, "spec", "updateStrategy", "rollingUpdate", "partition")
		_, surge, _ := unstructured.NestedFieldNoCopy(sample.Object, "spec", "updateStrategy", "rollingUpdate", "maxSurge")
		if policy != "InPlaceIfPossible" || partition != 0 || surge {
			continue
		}
		if err := w.create(ctx, sample); err != nil {
			return err
		}
		if err := w.ready(ctx, sample); err != nil {
			return err
		}
		before, err := w.pods(ctx, sample)
		if err != nil {
			return err
		}
		err = w.client.Patch(ctx, sample, client.RawPatch(types.JSONPatchType,
			[]byte(`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"openkruise/guestbook:v2"}]`)))
		if err != nil {
			return fmt.Errorf("changing the image of %s: %w", sample.GetName(), err)
		}
		if err := w.ready(ctx, sample); err != nil {
			return err
		}
		after, err := w.pods(ctx, sample)
		if err != nil {
			return err
		}
		for name, pod := range before {
			now, found := after[name]
			if !found || now.uid != pod.uid {
				return fmt.Errorf("%s %s lost pod %s", sample.GetKind(), sample.GetName(), name)
			}
			if now.image == pod.image {
				return fmt.Errorf("pod %s still runs %s", name, pod.image)
			}
		}
		updated++
		w.notes = append(w.notes, fmt.Sprintf("%s %s kept its %d pods", sample.GetKind(), sample.GetName(), len(before)))
	}
	if updated == 0 {
		return errors.New("no example updates in place")
	}
	return nil
}

// pod is the part kept by an update in place, and the changed part.
type pod struct {
	uid   types.UID
	image string
}

func (w *fixture) pods(ctx context.Context, object *unstructured.Unstructured) (map[string]pod, error) {
	labels, _, err := unstructured.NestedStringMap(object.Object, "spec", "selector", "matchLabels")
	if err != nil {
		return nil, err
	}
	list := &corev1.PodList{}
	if err := w.client.List(ctx, list, client.InNamespace(w.namespace), client.MatchingLabels(labels)); err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	found := map[string]pod{}
	for i := range list.Items {
		found[list.Items[i].Name] = pod{uid: list.Items[i].UID, image: list.Items[i].Spec.Containers[0].Image}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has no pods", object.GetName())
	}
	return found, nil
}

// until asks until there is no error or ctx is done.
func until(ctx context.Context, what string, check func() error) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %w", what, ctx.Err(), err)
		}
	}
}
