// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package packaging

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/internal/testutil/kustomized"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/binaries"
)

// Package is the operator's name in catalogs.
const Package = "kruise-operator"

const (
	csvKind = "ClusterServiceVersion"
	csvFile = Package + ".clusterserviceversion.yaml"
	// manager is the name of the Deployment and of its container's image in the manifests.
	manager = "kruise-operator-manager"
	// scorecardPlaceholder stands in config/scorecard for the image of our own tests.
	scorecardPlaceholder = "kruise-operator-scorecard:latest"
	scorecardAPI         = "scorecard.operatorframework.io/v1alpha3"
)

// Channels take new versions; the first one is the default. Before 1.0 no version is stable.
func Channels() []string { return []string{"candidate"} }

// closed channels end with lastStable: subscribers keep it until they choose another channel.
func closed() []string { return []string{"stable", "stable-v0"} }

const lastStable = "v0.4.0"

// Bundle says how the bundle of one version is made.
type Bundle struct {
	// Root is the working copy with the manifests and types.
	Root string
	// Output is the bundle's folder; its content is replaced.
	Output string
	// Dockerfile receives the Dockerfile of the bundle's image, unless it is empty.
	Dockerfile string
	// Version is the version, such as v0.1.0.
	Version string
	// Image is the manager's image: by tag for a tree, by digest for a release.
	Image string
	// ScorecardImage is the image of our own scorecard tests. Without one the bundle does not ask for them.
	ScorecardImage string
	// Created is the version's time, as RFC 3339. It is stated, not measured, so the bundle
	// does not change from day to day.
	Created string
	// Replaces and Skips are the versions before this one, SkipRange a range that may go
	// straight to it. A catalog repeats them in its channels, and decides.
	Replaces  string
	Skips     []string
	SkipRange string
	// Progress receives a line for each program to build. It may be nil.
	Progress io.Writer
}

// CSVName is the name of a version's ClusterServiceVersion.
func CSVName(version string) string { return Package + "." + version }

// Generate writes operator-sdk's findings in the types' markers into the base of the
// ClusterServiceVersion in the working copy at root.
func Generate(ctx context.Context, root string, progress io.Writer) error {
	sdk, err := program(ctx, binaries.OperatorSDK, progress)
	if err != nil {
		return err
	}
	return run(ctx, root, nil, sdk, "generate", "kustomize", "manifests", "-q", "--interactive=false", "--package="+Package)
}

// Write makes the bundle.
func (b Bundle) Write(ctx context.Context) error {
	sdk, err := program(ctx, binaries.OperatorSDK, b.Progress)
	if err != nil {
		return err
	}
	input, err := b.input()
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "kruise-operator-bundle-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	// operator-sdk writes into the folder it runs in and takes the layout from PROJECT.
	project, err := os.ReadFile(filepath.Join(b.Root, "PROJECT"))
	if err != nil {
		return fmt.Errorf("reading the project: %w", err)
	}
	if err := os.WriteFile(filepath.Join(scratch, "PROJECT"), project, 0o600); err != nil {
		return err
	}
	channels := Channels()
	err = run(ctx, scratch, input, sdk, "generate", "bundle", "-q", "--overwrite", "--package="+Package,
		"--version="+strings.TrimPrefix(b.Version, "v"), "--channels="+strings.Join(channels, ","), "--default-channel="+channels[0])
	if err != nil {
		return err
	}
	made := filepath.Join(scratch, "bundle")
	if err := removeRedundant(filepath.Join(made, "manifests")); err != nil {
		return err
	}
	if err := b.complete(filepath.Join(made, "manifests", csvFile)); err != nil {
		return err
	}
	if err := os.RemoveAll(b.Output); err != nil {
		return err
	}
	if err := os.CopyFS(b.Output, os.DirFS(made)); err != nil {
		return fmt.Errorf("writing the bundle: %w", err)
	}
	if b.Dockerfile == "" {
		return nil
	}
	dockerfile, err := os.ReadFile(filepath.Join(scratch, "bundle.Dockerfile"))
	if err != nil {
		return err
	}
	return os.WriteFile(b.Dockerfile, dockerfile, 0o644)
}

// input renders config/manifests and returns the manager's image.
func (b Bundle) input() ([]byte, error) {
	objects, err := kustomized.Build(filesys.MakeFsOnDisk(), filepath.Join(b.Root, "config", "manifests"))
	if err != nil {
		return nil, err
	}
	var input bytes.Buffer
	found := false
	for _, object := range objects {
		if object.GetKind() == "Deployment" && object.GetName() == manager {
			found = true
			if err := setImage(object, b.Image); err != nil {
				return nil, err
			}
		}
		if object.GetAPIVersion() == scorecardAPI {
			if err := setScorecardImage(object, b.ScorecardImage); err != nil {
				return nil, err
			}
		}
		text, err := yaml.Marshal(object)
		if err != nil {
			return nil, err
		}
		input.WriteString("---\n")
		input.Write(text)
	}
	if !found {
		return nil, fmt.Errorf("config/manifests has no Deployment %s", manager)
	}
	return input.Bytes(), nil
}

func setImage(deployment *unstructured.Unstructured, image string) error {
	path := []string{"spec", "template", "spec", "containers"}
	containers, _, err := unstructured.NestedSlice(deployment.Object, path...)
	if err != nil || len(containers) != 1 {
		return fmt.Errorf("the Deployment %s has %d containers, want one: %w", manager, len(containers), err)
	}
	container, ok := containers[0].(map[string]any)
	if !ok {
		return errors.New("the manager's container is not an object")
	}
	container["image"] = image
	return unstructured.SetNestedSlice(deployment.Object, containers, path...)
}

// setScorecardImage sets the image of our own tests, and removes stages without tests.
func setScorecardImage(config *unstructured.Unstructured, image string) error {
	stages, _, err := unstructured.NestedSlice(config.Object, "stages")
	if err != nil {
		return fmt.Errorf("reading the stages of the scorecard: %w", err)
	}
	var used []any
	for _, stage := range stages {
		stage, ok := stage.(map[string]any)
		if !ok {
			return errors.New("a stage of the scorecard is not an object")
		}
		tests, _, err := unstructured.NestedSlice(stage, "tests")
		if err != nil {
			return fmt.Errorf("reading the tests of the scorecard: %w", err)
		}
		var kept []any
		for _, test := range tests {
			if test, ok := test.(map[string]any); ok && test["image"] == scorecardPlaceholder {
				if image == "" {
					continue
				}
				test["image"] = image
			}
			kept = append(kept, test)
		}
		if stage["tests"] = kept; len(kept) > 0 {
			used = append(used, stage)
		}
	}
	return unstructured.SetNestedSlice(config.Object, used, "stages")
}

// removeRedundant removes the webhooks' Service, made by OLM under the same name, and
// refuses unexpected objects. A bundled ClusterRole, for one, would stay behind after an
// uninstall.
func removeRedundant(manifests string) error {
	entries, err := os.ReadDir(manifests)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := filepath.Join(manifests, entry.Name())
		object, err := readObject(name)
		if err != nil {
			return err
		}
		switch kind := object.GetKind(); kind {
		case csvKind, "CustomResourceDefinition", "PodDisruptionBudget", "NetworkPolicy":
		case "ClusterRole":
			// Roles bound later. OLM leaves them behind; their owners, set by the operator,
			// take them along.
			if name := object.GetName(); !strings.HasPrefix(name, "kruise-daemon") && !strings.HasSuffix(name, "-secrets") && name != "kruise-operator-route-istio" {
				return fmt.Errorf("config/manifests holds ClusterRole %s, and OLM would leave it behind", name)
			}
		case "Service":
			if object.GetName() != manager+"-service" {
				continue // that of the metrics
			}
			if err := os.Remove(name); err != nil {
				return err
			}
		default:
			// Decide it here, so nothing slips into a release.
			return fmt.Errorf("config/manifests holds %s %s, and nobody has said whether OLM shall install it", kind, object.GetName())
		}
	}
	return nil
}

// complete fills in the gaps operator-sdk leaves in the ClusterServiceVersion.
func (b Bundle) complete(name string) error {
	csv, err := readObject(name)
	if err != nil {
		return err
	}
	icon, err := os.ReadFile(filepath.Join(b.Root, "config", "manifests", "icon.svg"))
	if err != nil {
		return fmt.Errorf("reading the icon: %w", err)
	}
	annotations := csv.GetAnnotations()
	annotations["createdAt"] = b.Created
	annotations["containerImage"] = b.Image
	if b.SkipRange != "" {
		annotations["olm.skipRange"] = b.SkipRange
	}
	csv.SetAnnotations(annotations)
	spec, ok := csv.Object["spec"].(map[string]any)
	if !ok {
		return fmt.Errorf("%s has no spec", name)
	}
	if err := shareDescriptors(spec, filepath.Dir(filepath.Dir(name))); err != nil {
		return err
	}
	webhooks, _, err := unstructured.NestedSlice(spec, "webhookdefinitions")
	if err != nil {
		return fmt.Errorf("reading the webhooks: %w", err)
	}
	for _, webhook := range webhooks {
		// operator-sdk's names for conversion are another project's.
		if webhook, ok := webhook.(map[string]any); ok && webhook["type"] == "ConversionWebhook" {
			kinds, _, err := unstructured.NestedStringSlice(webhook, "conversionCRDs")
			if err != nil || len(kinds) != 1 {
				return fmt.Errorf("a conversion webhook is for %d kinds, want one: %w", len(kinds), err)
			}
			webhook["generateName"] = "convert." + kinds[0]
		}
	}
	spec["webhookdefinitions"] = webhooks
	spec["icon"] = []any{map[string]any{"base64data": base64.StdEncoding.EncodeToString(icon), "mediatype": "image/svg+xml"}}
	spec["relatedImages"] = []any{map[string]any{"name": "manager", "image": b.Image}}
	if b.Replaces != "" {
		spec["replaces"] = CSVName(b.Replaces)
	}
	skips := make([]any, 0, len(b.Skips))
	for _, version := range b.Skips {
		skips = append(skips, CSVName(version))
	}
	if len(skips) > 0 {
		spec["skips"] = skips
	}
	text, err := yaml.Marshal(csv)
	if err != nil {
		return err
	}
	return os.WriteFile(name, text, 0o644)
}

// shareDescriptors gives a kind's versions of one schema the same descriptors. operator-sdk
// reads the types of one package alone: a version with types from another's would show next
// to nothing.
func shareDescriptors(spec map[string]any, bundle string) error {
	kinds, err := definitions(bundle)
	if err != nil {
		return err
	}
	owned, _, err := unstructured.NestedSlice(spec, "customresourcedefinitions", "owned")
	if err != nil {
		return fmt.Errorf("reading the owned kinds: %w", err)
	}
	richest := map[string]any{}
	key := func(entry map[string]any, part, list string) (string, error) {
		kind := kinds[fmt.Sprint(entry["name"])]
		if kind == nil {
			return "", fmt.Errorf("the bundle owns %v and does not hold it", entry["name"])
		}
		for _, version := range kind.Spec.Versions {
			if version.Name == entry["version"] && version.Schema != nil {
				schema, err := json.Marshal(version.Schema.OpenAPIV3Schema.Properties[part])
				return kind.Name + list + string(schema), err
			}
		}
		return "", fmt.Errorf("%s has no version %v", kind.Name, entry["version"])
	}
	// Twice: first to find the longest list of every schema, then to hand it out.
	for range 2 {
		for _, entry := range owned {
			entry, ok := entry.(map[string]any)
			if !ok {
				return errors.New("an owned kind is not an object")
			}
			for part, list := range map[string]string{"spec": "specDescriptors", "status": "statusDescriptors"} {
				schema, err := key(entry, part, list)
				if err != nil {
					return err
				}
				own, _ := entry[list].([]any)
				best, _ := richest[schema].([]any)
				if len(own) >= len(best) {
					richest[schema] = own
					continue
				}
				entry[list] = best
			}
		}
	}
	return unstructured.SetNestedSlice(spec, owned, "customresourcedefinitions", "owned")
}

func readObject(name string) (*unstructured.Unstructured, error) {
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(content, &object.Object); err != nil {
		return nil, fmt.Errorf("reading %s: %w", filepath.Base(name), err)
	}
	return object, nil
}

// program returns the path of a program of tools/sdk, built if need be.
func program(ctx context.Context, name binaries.Name, progress io.Writer) (string, error) {
	set, err := binaries.Ensure(ctx, binaries.Options{Progress: progress}, name)
	if err != nil {
		return "", err
	}
	return set.Path(name), nil
}

// run runs a program to its end; the error has its output. A program's warnings are errors
// here: they would be lost otherwise.
func run(ctx context.Context, dir string, input []byte, path string, args ...string) error {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = dir
	if input != nil {
		cmd.Stdin = bytes.NewReader(input)
	}
	output, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", filepath.Base(path), strings.Join(args, " "), err, output)
	}
	if bytes.Contains(output, []byte("level=warning")) {
		return fmt.Errorf("%s %s warns:\n%s", filepath.Base(path), strings.Join(args, " "), output)
	}
	return nil
}
