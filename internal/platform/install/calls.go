// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/platform/callback"
)

// clientConfig is how the API server calls the operator; webhook configurations have the same fields.
type clientConfig = apiextensionsv1.WebhookClientConfig

// callByURL makes the calls that an object of the manifests asks for go to a URL. An authority that the object in the cluster trusts
// stays trusted beside ca, because the operator that runs may still have a certificate of it.
func callByURL(ctx context.Context, c client.Client, object *unstructured.Unstructured, base string, ca []byte, now time.Time) error {
	stored := object.DeepCopy()
	if err := c.Get(ctx, client.ObjectKeyFromObject(object), stored); apierrors.IsNotFound(err) {
		stored.Object = nil
	} else if err != nil {
		return fmt.Errorf("reading %s: %w", title(object), err)
	}
	present := map[string]*clientConfig{}
	if err := eachCall(stored, func(name string, config clientConfig) *clientConfig {
		present[name] = &config
		return &config
	}); err != nil {
		return err
	}
	return eachCall(object, func(name string, config clientConfig) *clientConfig {
		path := ptr.Deref(ptr.Deref(config.Service, apiextensionsv1.ServiceReference{}).Path, "")
		return callback.ClientConfig(present[name], clientConfig{URL: ptr.To(base + path), CABundle: ca}, now)
	})
}

// Trust makes the API server trust an authority, beside what it trusts already, wherever it calls the operator at the webhook URL. What
// is not installed, or leads elsewhere, is left alone.
func Trust(ctx context.Context, c client.Client, o Options, ca []byte) error {
	objects, err := render()
	if err != nil {
		return err
	}
	for _, object := range objects {
		if !calls(object) {
			continue
		}
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error { return trust(ctx, c, object, o, ca) })
		if err != nil {
			return fmt.Errorf("trusting the webhook certificate in %s: %w", title(object), err)
		}
	}
	return nil
}

func trust(ctx context.Context, c client.Client, object *unstructured.Unstructured, o Options, ca []byte) error {
	stored := object.DeepCopy()
	if err := c.Get(ctx, client.ObjectKeyFromObject(object), stored); err != nil {
		return client.IgnoreNotFound(err)
	}
	before := stored.DeepCopy()
	changed := false
	if err := eachCall(stored, func(_ string, config clientConfig) *clientConfig {
		if !strings.HasPrefix(ptr.Deref(config.URL, ""), o.base()+"/") {
			return &config
		}
		wanted := config
		wanted.CABundle = ca
		is := callback.ClientConfig(&config, wanted, o.Now)
		changed = changed || !slices.Equal(is.CABundle, config.CABundle)
		return is
	}); err != nil || !changed {
		return err
	}
	return c.Patch(ctx, stored, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// calls says whether an object makes the API server call the operator.
func calls(object *unstructured.Unstructured) bool {
	found := false
	err := eachCall(object.DeepCopy(), func(_ string, config clientConfig) *clientConfig {
		found = true
		return &config
	})
	return found || err != nil
}

// eachCall replaces the configuration of every call that an object asks for: those of its webhooks, by their names, or that of its
// conversion, which has no name. An object without content has none.
func eachCall(object *unstructured.Unstructured, becomes func(name string, config clientConfig) *clientConfig) error {
	replace := func(name string, holder map[string]any) error {
		content, ok := holder["clientConfig"].(map[string]any)
		if !ok {
			return fmt.Errorf("reading %s: a call without clientConfig", title(object))
		}
		var config clientConfig
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &config); err != nil {
			return fmt.Errorf("reading %s: %w", title(object), err)
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(becomes(name, config))
		holder["clientConfig"] = content
		return err
	}
	if conversion, found, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "conversion", "webhook"); found {
		holder, ok := conversion.(map[string]any)
		if !ok {
			return fmt.Errorf("reading %s: the conversion is not an object", title(object))
		}
		return replace("", holder)
	}
	webhooks, _, _ := unstructured.NestedFieldNoCopy(object.Object, "webhooks")
	entries, _ := webhooks.([]any)
	for _, entry := range entries {
		holder, ok := entry.(map[string]any)
		if !ok {
			return fmt.Errorf("reading %s: a webhook is not an object", title(object))
		}
		name, _ := holder["name"].(string)
		if err := replace(name, holder); err != nil {
			return err
		}
	}
	return nil
}
