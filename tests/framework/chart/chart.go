// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package chart writes the templates of charts/kruise-operator from the manifests in
// config/default. It inserts the values; the rest of the chart is handwritten.
package chart

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/internal/testutil/kustomized"
)

// Folder is where the chart is, relative to the top of the repository.
const Folder = "charts/kruise-operator"

// namespace is the manifests' one, replaced by a value.
const namespace = "kruise-system"

const (
	kindDefinition = "CustomResourceDefinition"
	keep           = "helm.sh/resource-policy"
)

// Write writes the generated templates of the chart in the working copy at root.
func Write(root string) error {
	chart := filepath.Join(root, Folder)
	objects, err := kustomized.Build(filesys.MakeFsOnDisk(), filepath.Join(root, "config", "default"))
	if err != nil {
		return err
	}
	var definitions, operator bytes.Buffer
	definitions.WriteString("{{- if .Values.crds.managed }}\n")
	for _, object := range objects {
		to := &operator
		if object.GetKind() == kindDefinition {
			to = &definitions
		}
		if object.GetKind() == "Namespace" {
			continue
		}
		if err := insert(object); err != nil {
			return fmt.Errorf("inserting values into %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		text, err := yaml.Marshal(object.Object)
		if err != nil {
			return err
		}
		to.WriteString("---\n" + expand(string(text)))
	}
	definitions.WriteString("{{- end }}\n")
	for name, content := range map[string]*bytes.Buffer{"crds.yaml": &definitions, "operator.yaml": &operator} {
		header := "{{- /* Generated from config/default by `make chart`. Do not edit. */ -}}\n"
		if err := os.WriteFile(filepath.Join(chart, "templates", name), append([]byte(header), content.Bytes()...), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// value stands for an expression of Helm while an object is encoded.
func value(expression string) string { return "⟦" + expression + "⟧" }

// expand makes templates of encoded objects. Existing braces are text.
func expand(text string) string {
	text = strings.ReplaceAll(text, "{{", "⟦`{{`⟧")
	return strings.NewReplacer("⟦", "{{ ", "⟧", " }}", namespace, "{{ .Values.installation.namespace }}").Replace(text)
}

// insert puts values into an object.
func insert(object *unstructured.Unstructured) error {
	switch object.GetKind() {
	case kindDefinition:
		annotations := object.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[keep] = "keep"
		object.SetAnnotations(annotations)
	case "Deployment":
		return insertManager(object)
	case "ServiceAccount":
		return unstructured.SetNestedField(object.Object, value(".Values.serviceAccount.annotations | toJson"), "metadata", "annotations")
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
		return each(object.Object, func(entry map[string]any) {
			entry["timeoutSeconds"] = value(".Values.webhookConfiguration.timeoutSeconds")
		}, "webhooks")
	case "Service":
		if strings.HasSuffix(object.GetName(), "-metrics") {
			return each(object.Object, func(port map[string]any) { port["port"] = value(".Values.manager.metrics.port") }, "spec", "ports")
		}
	}
	return nil
}

// insertManager puts values into the manager's Deployment.
func insertManager(object *unstructured.Unstructured) error {
	pod := func(path ...string) []string { return append([]string{"spec", "template", "spec"}, path...) }
	affinity, _, err := unstructured.NestedMap(object.Object, pod("affinity", "nodeAffinity")...)
	if err != nil {
		return err
	}
	encoded, err := json.Marshal(affinity)
	if err != nil {
		return err
	}
	for _, field := range []struct {
		path       []string
		expression string
	}{
		{[]string{"spec", "replicas"}, ".Values.manager.replicas"},
		{pod("affinity", "nodeAffinity"), ".Values.manager.nodeAffinity | default (fromJson `" + string(encoded) + "`) | toJson"},
		{pod("nodeSelector"), ".Values.manager.nodeSelector | toJson"},
		{pod("tolerations"), ".Values.manager.tolerations | toJson"},
		{pod("imagePullSecrets"), ".Values.imagePullSecrets | toJson"},
		{pod("hostNetwork"), ".Values.manager.hostNetwork"},
	} {
		if err := unstructured.SetNestedField(object.Object, value(field.expression), field.path...); err != nil {
			return err
		}
	}
	return each(object.Object, insertContainer, pod("containers")...)
}

// insertContainer puts values into the manager's container.
func insertContainer(container map[string]any) {
	args, _ := container["args"].([]any)
	list := make([]string, len(args))
	for i, arg := range args {
		list[i] = fmt.Sprintf("%q", arg)
	}
	container["args"] = value("concat (list " + strings.Join(list, " ") + `) (include "kruise-operator.args" . | fromJsonArray) | toJson`)
	container["image"] = value(".Values.manager.image.repository") + ":" + value(".Values.manager.image.tag | default .Chart.AppVersion")
	container["imagePullPolicy"] = value(".Values.manager.image.pullPolicy")
	container["resources"] = value(".Values.manager.resources | toJson")
	ports, _ := container["ports"].([]any)
	for _, one := range ports {
		port, _ := one.(map[string]any)
		switch port["name"] {
		case "webhook":
			port["containerPort"] = value(".Values.manager.webhook.port")
		case "metrics":
			port["containerPort"] = value(".Values.manager.metrics.port")
		}
	}
}

// each changes the items of a list.
func each(object map[string]any, change func(map[string]any), path ...string) error {
	list, _, err := unstructured.NestedSlice(object, path...)
	if err != nil {
		return err
	}
	for _, one := range list {
		if item, is := one.(map[string]any); is {
			change(item)
		}
	}
	return unstructured.SetNestedSlice(object, list, path...)
}
