// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package reach finds out whether the API server reaches the webhooks of this very process. A process outside the cluster needs
// to know: a cluster may be unable to call back to it, and then every write of our kinds fails.
package reach

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
)

const (
	// annotation carries the token of a probe in a dry-run object. No stored object ever has it.
	annotation = "operator.kruise.io/reach-probe"

	// patience is how long the API server may take to notice a new webhook configuration and a server that has just begun to listen.
	patience = 15 * time.Second
	// interval is the time between two tries.
	interval = 200 * time.Millisecond
	// tryTimeout ends one try: an address that swallows packets holds the API server until the webhook's own timeout of ten seconds.
	tryTimeout = 12 * time.Second
)

// Probe recognizes its own requests among those that arrive. A nil Probe watches nothing.
type Probe struct {
	// Enabled says which kinds have webhooks; nil: all have.
	Enabled func(kind string) bool

	token   string
	reached atomic.Bool
}

// New returns a probe with a token of its own.
func New() *Probe { return &Probe{token: string(uuid.NewUUID())} }

// Watch wraps a webhook so that the probe sees its requests. The webhook answers them as any other.
func (p *Probe) Watch(h admission.Handler) admission.Handler {
	if p == nil {
		return h
	}
	return admission.HandlerFunc(func(ctx context.Context, req admission.Request) admission.Response {
		if req.Operation == admissionv1.Create && req.DryRun != nil && *req.DryRun && bytes.Contains(req.Object.Raw, []byte(p.token)) {
			p.reached.Store(true)
		}
		return h.Handle(ctx, req)
	})
}

// Kinds are those that a probe can ask about, the one that it prefers first. The API server has a CloneSet converted before it calls a
// webhook, so that one question proves both.
func Kinds() []string { return []string{"CloneSet", "StatefulSet"} }

// Check asks the API server for the dry-run creation of an object in the older version and returns nil when that led to this process.
// At least one of Kinds must be enabled. url is where the API server was told to call, for the error, which says what to do.
func (p *Probe) Check(ctx context.Context, c client.Client, url string) error {
	p.reached.Store(false)
	kind := "StatefulSet"
	if p.Enabled == nil || p.Enabled("CloneSet") {
		kind = "CloneSet"
	}
	var last error
	err := wait.PollUntilContextTimeout(ctx, interval, patience, true, func(ctx context.Context) (bool, error) {
		try, cancel := context.WithTimeout(ctx, tryTimeout)
		defer cancel()
		// What a try says that was cut off by the end of patience explains nothing.
		if err := c.Create(try, p.question(kind), client.DryRunAll); ctx.Err() == nil || last == nil {
			last = err
		}
		return p.reached.Load(), nil
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("checking that the API server reaches the webhooks at %s: %w", url, ctx.Err())
	case last == nil:
		return fmt.Errorf("the API server did not ask this process at %s about a %s: the webhook configurations "+
			"kruise-operator-mutating and kruise-operator-validating are missing or lead elsewhere; run `install` with the same URL", url, kind)
	case isCallFailure(last):
		return fmt.Errorf("the API server cannot reach the webhooks of this process at %s: %w; set WEBHOOK_URL to an address "+
			"of this machine that the API server can call and run `install` again, or run the operator in the cluster", url, last)
	case meta.IsNoMatchError(last) || apierrors.IsNotFound(last):
		return fmt.Errorf("the API server does not know our kinds; run `install` first: %w", last)
	default:
		return fmt.Errorf("checking that the API server reaches the webhooks at %s: %w", url, last)
	}
}

// isCallFailure tells a webhook that could not be called, for admission or conversion, from all other failures. The API server has no
// reason of its own for it.
func isCallFailure(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	message := status.Status().Message
	return strings.Contains(message, "failed calling webhook") || strings.Contains(message, "conversion webhook for")
}

func (p *Probe) question(kind string) client.Object {
	labels := map[string]string{"app.kubernetes.io/name": "kruise-operator-reach-probe"}
	meta := metav1.ObjectMeta{
		GenerateName: "kruise-operator-reach-probe-",
		Namespace:    metav1.NamespaceDefault,
		Annotations:  map[string]string{annotation: p.token},
	}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "none", Image: "none"}}},
	}
	if kind == "CloneSet" {
		return &appsv1alpha1.CloneSet{ObjectMeta: meta, Spec: appsv1alpha1.CloneSetSpec{Selector: selector, Template: template}}
	}
	set := &appsv1alpha1.StatefulSet{ObjectMeta: meta}
	set.Spec.Selector, set.Spec.Template = selector, template
	return set
}
