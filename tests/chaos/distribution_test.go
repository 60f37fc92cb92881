// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package chaos_test

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/tests/framework/chaos"
	"github.com/kruise-operator/kruise-operator/tests/framework/faultproxy"
)

// resourceDistribution copies a value to namespaces.
const resourceDistribution = `
apiVersion: apps.kruise.io/v1beta1
kind: ResourceDistribution
metadata: {name: LANE, labels: {` + faultproxy.LaneLabel + `: LANE}}
spec:
  resource: {apiVersion: v1, kind: ConfigMap, metadata: {name: hub}, data: {a: 'VALUE'}}
  targets: {includedNamespaces: {list: [TARGETS]}}
`

// resourceDistributions are scenarios of a ResourceDistribution: other data, other targets, and an object of somebody else.
func resourceDistributions() []chaos.Scenario {
	distribute := func(value string, targets ...string) chaos.Step {
		return chaos.Step{Settled: copied(value, targets...), Do: func(w *chaos.World) {
			w.T.Helper()
			var list []string
			for _, target := range targets {
				list = append(list, "{name: "+w.Name+target+"}")
			}
			w.Apply(strings.NewReplacer("LANE", w.Name, "VALUE", value, "TARGETS", strings.Join(list, ", ")).Replace(resourceDistribution))
		}}
	}
	all := []chaos.Scenario{
		{Name: "other-data", Steps: []chaos.Step{furtherNamespaces(distribute("1", "", "-a", "-b")), distribute("2", "", "-a", "-b")}},
		{Name: "other-targets", Steps: []chaos.Step{furtherNamespaces(distribute("1", "", "-a")), distribute("1", "-a", "-b")}},
		{Name: "a-change-by-others", Steps: []chaos.Step{distribute("1", ""), {Settled: copied("1", ""), Do: func(w *chaos.World) {
			w.T.Helper()
			copy := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.Name, Name: "hub"}}
			if err := w.Client.Patch(w.T.Context(), copy, client.RawPatch(types.MergePatchType, []byte(`{"data":{"a":"3","b":"4"}}`))); err != nil {
				w.T.Fatal(err)
			}
		}}}},
	}
	for i := range all {
		all[i].Kind = "ResourceDistribution"
	}
	return all
}

// furtherNamespaces makes two more namespaces before a step.
func furtherNamespaces(step chaos.Step) chaos.Step {
	do := step.Do
	step.Do = func(w *chaos.World) {
		w.T.Helper()
		for _, suffix := range []string{"-a", "-b"} {
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.Name + suffix}}
			if err := client.IgnoreAlreadyExists(w.Client.Create(w.T.Context(), namespace)); err != nil {
				w.T.Fatal(err)
			}
		}
		do(w)
	}
	return step
}

// copied: the namespaces have copies with this value, others none.
func copied(value string, targets ...string) func(context.Context, *chaos.World) error {
	return func(ctx context.Context, w *chaos.World) error {
		object, err := read(ctx, w, "ResourceDistribution", w.Name)
		if err != nil {
			return err
		}
		status, _ := object.Object["status"].(map[string]any)
		if status["observedGeneration"] != object.GetGeneration() || status["succeeded"] != int64(len(targets)) || status["desired"] != int64(len(targets)) {
			return fmt.Errorf("the status is %v", status)
		}
		for _, suffix := range []string{"", "-a", "-b"} {
			wanted := false
			for _, target := range targets {
				wanted = wanted || target == suffix
			}
			found := &corev1.ConfigMap{}
			err := w.Client.Get(ctx, client.ObjectKey{Namespace: w.Name + suffix, Name: "hub"}, found)
			switch {
			case !wanted && apierrors.IsNotFound(err):
			case err != nil:
				return err
			case !wanted || found.Data["a"] != value || len(found.Data) != 1:
				return fmt.Errorf("%s has %v", found.Namespace, found.Data)
			}
		}
		return nil
	}
}
