// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package operatorconfig

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/yaml"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// clientAnnotation remembers how the API server reaches the operator while a configuration has no entry that says so.
const clientAnnotation = "operator.kruise.io/webhook-client"

// Webhooks keeps the entries of disabled kinds out of the operator's own webhook configurations.
type Webhooks struct {
	// Client reads past the cache and writes.
	Client client.Client
	// Manifests are the configurations with all entries, as they are installed.
	Manifests []byte
}

// Apply takes out the entries of the disabled kinds and puts back those of all others. A configuration that does not exist is left alone.
func (w *Webhooks) Apply(ctx context.Context, disabled sets.Set[string]) error {
	all, err := documents(w.Manifests)
	if err != nil {
		return fmt.Errorf("reading the webhook manifests: %w", err)
	}
	var failed []error
	for _, full := range all {
		if err := w.applyTo(ctx, full, disabled); err != nil {
			failed = append(failed, fmt.Errorf("keeping %s: %w", full.GetName(), err))
		}
	}
	return errors.Join(failed...)
}

// documents are the objects of manifests.
func documents(manifests []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
}

func (w *Webhooks) applyTo(ctx context.Context, full *unstructured.Unstructured, disabled sets.Set[string]) error {
	have := &unstructured.Unstructured{}
	have.SetGroupVersionKind(full.GroupVersionKind())
	if err := w.Client.Get(ctx, client.ObjectKeyFromObject(full), have); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	want := have.DeepCopy()
	changed, err := trim(want, full, disabled)
	if err != nil || !changed {
		return err
	}
	if err := w.Client.Update(ctx, want); err != nil { // of what was read, or a conflict
		return err
	}
	ctrl.LoggerFrom(ctx).Info("Changed webhooks to those of the enabled kinds", "configuration", full.GetName(), "disabled", sets.List(disabled))
	return nil
}

// trim makes a configuration have the entries of full whose kinds are not disabled, and leaves entries alone that full does not have.
// Entries that are put back lead where the others do, or did when the last of them was taken out.
func trim(have, full *unstructured.Unstructured, disabled sets.Set[string]) (changed bool, err error) {
	entries, err := entriesOf(have)
	if err != nil {
		return false, err
	}
	all, err := entriesOf(full)
	if err != nil {
		return false, err
	}
	leads, err := clientOf(have, entries, all)
	if err != nil {
		return false, err
	}
	off := false
	for _, entry := range all {
		at := slices.IndexFunc(entries, func(e map[string]any) bool { return e["name"] == entry["name"] })
		switch wanted := !concerns(entry, disabled); {
		case !wanted && at >= 0:
			entries, changed, off = slices.Delete(entries, at, at+1), true, true
		case !wanted:
			off = true
		case at < 0 && leads == nil:
			return false, errors.New("nothing says how the API server reaches the operator; apply its webhook configurations again")
		case at < 0:
			entry["clientConfig"] = leads.to(pathOf(entry))
			entries, changed = append(entries, entry), true
		}
	}
	if !changed {
		return false, nil
	}
	annotations := have.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	delete(annotations, clientAnnotation)
	if off && leads != nil {
		text, err := json.Marshal(leads)
		if err != nil {
			return false, err
		}
		annotations[clientAnnotation] = string(text)
	}
	have.SetAnnotations(annotations)
	list := make([]any, len(entries))
	for i := range entries {
		list[i] = entries[i]
	}
	return true, unstructured.SetNestedSlice(have.Object, list, "webhooks")
}

func entriesOf(configuration *unstructured.Unstructured) ([]map[string]any, error) {
	list, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", configuration.GetName(), err)
	}
	entries := make([]map[string]any, 0, len(list))
	for _, one := range list {
		entry, ok := one.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("reading %s: a webhook is not an object", configuration.GetName())
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// concerns says whether an entry is about one of the kinds alone.
func concerns(entry map[string]any, kinds sets.Set[string]) bool {
	resources := resourcesOf(kinds)
	rules, _ := entry["rules"].([]any)
	for _, one := range rules {
		rule, _ := one.(map[string]any)
		of, _, _ := unstructured.NestedStringSlice(rule, "resources")
		if len(of) == 0 || !resources.HasAll(of...) {
			return false
		}
	}
	return len(rules) > 0
}

// resourcesOf are the resources that the kinds are served as.
func resourcesOf(kinds sets.Set[string]) sets.Set[string] {
	resources := sets.New[string]()
	for kind := range kinds {
		resources.Insert(strings.ToLower(kind) + "s")
	}
	return resources
}

// caller says how the API server reaches the operator, without the path.
type caller struct {
	// URL is set outside of the cluster, Service inside of it.
	URL     string         `json:"url,omitempty"`
	Service map[string]any `json:"service,omitempty"`
	// CABundle is the authority, in base64.
	CABundle string `json:"caBundle,omitempty"`
}

// to returns the clientConfig for a path.
func (c *caller) to(path string) map[string]any {
	to := map[string]any{}
	if c.CABundle != "" {
		to["caBundle"] = c.CABundle
	}
	if c.URL != "" {
		to["url"] = c.URL + path
		return to
	}
	service := map[string]any{"path": path}
	for key, value := range c.Service {
		service[key] = value
	}
	to["service"] = service
	return to
}

// clientOf finds out how the API server reaches the operator: from an entry of ours, or else from the annotation. It is nil when neither
// says it.
func clientOf(have *unstructured.Unstructured, entries, all []map[string]any) (*caller, error) {
	for _, entry := range entries {
		at := slices.IndexFunc(all, func(e map[string]any) bool { return e["name"] == entry["name"] })
		if at < 0 {
			continue
		}
		from := &caller{}
		from.CABundle, _, _ = unstructured.NestedString(entry, "clientConfig", "caBundle")
		if url, ok, _ := unstructured.NestedString(entry, "clientConfig", "url"); ok {
			from.URL = strings.TrimSuffix(url, pathOf(all[at]))
		} else if service, ok, _ := unstructured.NestedMap(entry, "clientConfig", "service"); ok {
			delete(service, "path")
			from.Service = service
		}
		return from, nil
	}
	text, ok := have.GetAnnotations()[clientAnnotation]
	if !ok {
		return nil, nil
	}
	from := &caller{}
	if err := json.Unmarshal([]byte(text), from); err != nil {
		return nil, fmt.Errorf("reading the annotation %s: %w", clientAnnotation, err)
	}
	if port, ok := from.Service["port"].(float64); ok {
		from.Service["port"] = int64(port) // as objects have it
	}
	return from, nil
}

// pathOf is where an entry of the manifests is served.
func pathOf(entry map[string]any) string {
	path, _, _ := unstructured.NestedString(entry, "clientConfig", "service", "path")
	return path
}
