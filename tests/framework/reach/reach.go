// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package reach finds out if the API server reaches the webhooks of an operator outside of
// the cluster. If it cannot, every write of our kinds fails.
package reach

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/controllers"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
)

const (
	// noticeTimeout is the API server's time to notice a new webhook configuration and a
	// new listener.
	noticeTimeout = 15 * time.Second
	// interval is the time between two tries.
	interval = 200 * time.Millisecond
	// tryTimeout ends one try: an address that swallows packets holds the API server for
	// the webhook's own ten seconds.
	tryTimeout = 12 * time.Second
)

// Kinds are Check's: the kinds with admission.
func Kinds() []string {
	var names []string
	for _, kind := range controllers.Table().Where(func(k kinds.Kind) bool { return k.Admission }) {
		names = append(names, kind.Name)
	}
	return names
}

// Check returns nil if the webhook configurations call the URL and an answer comes from
// there. It creates, as a dry run, an object of an enabled kind, in its oldest version: a
// converted one if there is any, since conversion precedes webhooks and one question then
// proves both. Without admission it does nothing. The error suggests a remedy.
func Check(ctx context.Context, c client.Client, url string, enabled ...string) error {
	candidates := controllers.Table().Where(func(k kinds.Kind) bool { return k.Admission && slices.Contains(enabled, k.Name) })
	if len(candidates) == 0 {
		return nil
	}
	kind := candidates[max(slices.IndexFunc(candidates, func(k kinds.Kind) bool { return k.Converted }), 0)]
	var last error
	err := wait.PollUntilContextTimeout(ctx, interval, noticeTimeout, true, func(ctx context.Context) (bool, error) {
		try, cancel := context.WithTimeout(ctx, tryTimeout)
		defer cancel()
		err := ask(try, c, url, kind)
		// A try cut off by noticeTimeout explains nothing.
		if ctx.Err() == nil || last == nil {
			last = err
		}
		return err == nil, nil
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("checking that the API server reaches the webhooks at %s: %w", url, ctx.Err())
	case errors.Is(last, errElsewhere):
		return fmt.Errorf("the API server does not ask this process at %s about a %s: the webhook configurations "+
			"kruise-operator-mutating and kruise-operator-validating are missing or lead elsewhere; run `make install` with the same URL", url, kind.Name)
	case isCallFailure(last):
		return fmt.Errorf("the API server cannot reach the webhooks of this process at %s: %w; set WEBHOOK_URL to an address "+
			"of this machine that the API server can call and run `make install` again, or run the operator in the cluster", url, last)
	case meta.IsNoMatchError(last) || apierrors.IsNotFound(last):
		return fmt.Errorf("the API server does not know our kinds; run `make install` first: %w", last)
	default:
		return fmt.Errorf("checking that the API server reaches the webhooks at %s: %w", url, last)
	}
}

// errElsewhere: the API server is configured to call another address, or none.
var errElsewhere = errors.New("the webhook configurations lead elsewhere")

// ask makes the API server call a kind's webhooks. A refusal is an answer, too.
func ask(ctx context.Context, c client.Client, url string, kind kinds.Kind) error {
	for _, name := range []string{"Mutating", "Validating"} {
		configuration := &unstructured.Unstructured{}
		configuration.SetAPIVersion("admissionregistration.k8s.io/v1")
		configuration.SetKind(name + "WebhookConfiguration")
		err := c.Get(ctx, client.ObjectKey{Name: "kruise-operator-" + strings.ToLower(name)}, configuration)
		if apierrors.IsNotFound(err) {
			return errElsewhere
		}
		if err != nil {
			return err
		}
		if !calls(configuration, strings.TrimRight(url, "/")+"/", strings.ToLower(kind.Name)) {
			return errElsewhere
		}
	}
	err := c.Create(ctx, question(kind), client.DryRunAll)
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) {
		return nil
	}
	return err
}

// calls is true if a configuration has entries about a kind, all beginning with the URL.
func calls(configuration *unstructured.Unstructured, url, kind string) bool {
	found := false
	entries, _, _ := unstructured.NestedSlice(configuration.Object, "webhooks")
	for _, entry := range entries {
		webhook, _ := entry.(map[string]any)
		to, _, _ := unstructured.NestedString(webhook, "clientConfig", "url")
		if !strings.HasSuffix(to, "-"+kind) {
			continue
		}
		if !strings.HasPrefix(to, url) {
			return false
		}
		found = true
	}
	return found
}

// isCallFailure is true for a failed call of a webhook, for admission or conversion. The
// API server has no reason of its own for it.
func isCallFailure(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	message := status.Status().Message
	return strings.Contains(message, "failed calling webhook") || strings.Contains(message, "conversion webhook for")
}

// question is an object with nothing in its spec. Webhooks are called before the schema refuses it.
func question(kind kinds.Kind) client.Object {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	object.SetGroupVersionKind(kind.GroupKind().WithVersion(kind.Versions[0]))
	object.SetGenerateName("kruise-operator-reach-probe-")
	if kind.Scope == kinds.Namespaced {
		object.SetNamespace(metav1.NamespaceDefault)
	}
	return object
}
