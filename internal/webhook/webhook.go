// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package webhook is the list of everything the API server may ask the operator. Every replica answers, leader or not.
package webhook

import (
	"context"
	"errors"
	"fmt"
	"sync"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kruise-operator/kruise-operator/internal/conversion"
	"github.com/kruise-operator/kruise-operator/internal/kube/templatecheck"
	"github.com/kruise-operator/kruise-operator/internal/webhook/cloneset"
	"github.com/kruise-operator/kruise-operator/internal/webhook/reach"
	"github.com/kruise-operator/kruise-operator/internal/webhook/statefulset"
)

// +kubebuilder:webhookconfiguration:mutating=true,name=kruise-operator-mutating
// +kubebuilder:webhookconfiguration:mutating=false,name=kruise-operator-validating

// Deps is what admission needs.
type Deps struct {
	// Client asks the API server directly; nothing it reads comes from a cache, and all it writes are dry runs.
	Client client.Client
	// Accepted are templates that the server would take, shared with the controllers. Nil remembers none.
	Accepted *templatecheck.Accepted
	// CloneSet and StatefulSet are the gates of their admission.
	CloneSet    cloneset.Options
	StatefulSet statefulset.Options
	// Protects says whether the label policy.kruise.io/delete-protection is honored.
	Protects bool
	// Enabled says whether a kind is looked after; nil: all are. Requests for others are let through as they are: where the Operator
	// Lifecycle Manager owns the webhook configurations, their entries stay.
	Enabled func(kind string) bool
	// Reached is told of every request, so that the process can find out whether the API server reaches it. It may be nil.
	Reached *reach.Probe
}

// Setup registers every webhook at the manager's webhook server.
func Setup(mgr ctrl.Manager, deps Deps) error {
	if deps.Client == nil {
		return errors.New("setting up webhooks: there is no client")
	}
	Register(mgr.GetWebhookServer(), deps)
	return nil
}

// Reach serves the webhooks for a moment and proves that the API server, told to call url, reaches them. It returns when the
// server has stopped, so that its port is free again.
func Reach(ctx context.Context, server webhook.Server, deps Deps, url string) error {
	deps.Reached = reach.New()
	deps.Reached.Enabled = deps.Enabled
	Register(server, deps)
	serving, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- server.Start(serving) }()
	checked := make(chan error, 1)
	var checking sync.WaitGroup
	checking.Go(func() { checked <- deps.Reached.Check(serving, deps.Client, url) })
	select {
	case err := <-checked:
		stop()
		return errors.Join(err, <-ended)
	case err := <-ended:
		stop()
		checking.Wait() // it was cut off, and says nothing about the server
		return fmt.Errorf("serving webhooks: %w", err)
	}
}

// Register registers every webhook at a server, and what the API server may ask about kinds that are not looked after, too: without
// conversion it could not even delete what is stored.
func Register(server webhook.Server, deps Deps) {
	serve := func(kind, path string, handler admission.Handler) {
		if deps.Enabled != nil && !deps.Enabled(kind) {
			handler = admission.HandlerFunc(func(context.Context, admission.Request) admission.Response { return admission.Allowed("") })
		}
		server.Register(path, &admission.Webhook{Handler: deps.Reached.Watch(handler)})
	}
	templates := templatecheck.Checker{Client: deps.Client, Accepted: deps.Accepted}
	classes := statefulset.StorageClasses{Reader: deps.Client}

	server.Register(conversion.Path, conversion.Handler{})
	serve("CloneSet", cloneset.MutatePath, &cloneset.Defaulter{})
	serve("CloneSet", cloneset.ValidatePath, &cloneset.Validator{
		Options: deps.CloneSet, Protects: deps.Protects, Templates: templates, Pods: cloneset.Pods{Reader: deps.Client},
	})
	serve("StatefulSet", statefulset.MutatePath, &statefulset.Defaulter{Options: deps.StatefulSet})
	serve("StatefulSet", statefulset.ValidatePath, &statefulset.Validator{
		Options: deps.StatefulSet, Protects: deps.Protects, Templates: templates, Classes: classes,
	})
}
