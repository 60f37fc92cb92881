// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package packaging

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/binaries"
	"github.com/kruise-operator/kruise-operator/tests/framework/images"
)

// validation is the output of `operator-sdk bundle validate -o json-alpha1`.
type validation struct {
	Passed  bool `json:"passed"`
	Outputs []struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"outputs"`
}

// validators are the applicable optional validators: without the deprecated operatorhub and
// community, and without multiarch, which asks a container engine about images in a
// registry. checkPlatforms applies its rule without one.
func validators() [][]string {
	return [][]string{
		{"--select-optional=suite=operatorframework"},
		{"--select-optional=name=alpha-deprecated-apis", "--optional-values=k8s-version=1.37"},
	}
}

// Validate runs every applicable validator on a bundle folder. A warning is an error.
func Validate(ctx context.Context, bundle string, progress io.Writer) error {
	sdk, err := program(ctx, binaries.OperatorSDK, progress)
	if err != nil {
		return err
	}
	for _, selection := range validators() {
		args := append([]string{"bundle", "validate", bundle, "-o", "json-alpha1"}, selection...)
		output, err := exec.CommandContext(ctx, sdk, args...).Output()
		result := validation{}
		if parseErr := json.Unmarshal(output, &result); parseErr != nil {
			return fmt.Errorf("operator-sdk %s: %w, %w\n%s", strings.Join(args, " "), err, parseErr, output)
		}
		if !result.Passed || len(result.Outputs) > 0 || err != nil {
			return fmt.Errorf("%s finds fault with the bundle:\n%s", strings.Join(selection, " "), output)
		}
		if progress != nil {
			fmt.Fprintf(progress, "%s: no error, no warning\n", strings.TrimPrefix(selection[0], "--select-optional="))
		}
	}
	if err := checkPlatforms(filepath.Join(bundle, "manifests", csvFile)); err != nil {
		return err
	}
	if progress != nil {
		fmt.Fprintln(progress, "platforms: labels and affinity name the architectures that images are built for")
	}
	return nil
}

// checkPlatforms compares the labels, for catalogs' filters, and the affinity, for pods'
// placement, with the images' platforms.
func checkPlatforms(name string) error {
	csv, err := readObject(name)
	if err != nil {
		return err
	}
	var architectures []string
	for _, platform := range images.Platforms() {
		architectures = append(architectures, platform.Architecture)
	}
	const prefix = "operatorframework.io/arch."
	var labels []string
	for label, value := range csv.GetLabels() {
		if arch, found := strings.CutPrefix(label, prefix); found && value == "supported" {
			labels = append(labels, arch)
		}
	}
	slices.Sort(labels)
	if !slices.Equal(labels, architectures) {
		return fmt.Errorf("the labels %s* name %v, images are built for %v", prefix, labels, architectures)
	}
	parsed := struct {
		Spec struct {
			Install struct {
				Spec struct {
					Deployments []struct {
						Spec appsv1.DeploymentSpec `json:"spec"`
					} `json:"deployments"`
				} `json:"spec"`
			} `json:"install"`
		} `json:"spec"`
	}{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(csv.Object, &parsed); err != nil {
		return fmt.Errorf("reading the deployments: %w", err)
	}
	want := []corev1.NodeSelectorRequirement{
		{Key: corev1.LabelOSStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"linux"}},
		{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: architectures},
	}
	deployments := parsed.Spec.Install.Spec.Deployments
	if len(deployments) == 0 {
		return errors.New("the bundle installs no deployment")
	}
	for _, deployment := range deployments {
		affinity := deployment.Spec.Template.Spec.Affinity
		if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
			return errors.New("a deployment has no node affinity")
		}
		for _, term := range affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			if !equality.Semantic.DeepEqual(term.MatchExpressions, want) {
				return fmt.Errorf("the node affinity is %v, images are built for %v", term.MatchExpressions, architectures)
			}
		}
	}
	return nil
}
