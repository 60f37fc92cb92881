// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package webhook serves the webhooks of all kinds. Every replica serves them, leader or not.
package webhook

import (
	"context"
	"crypto/x509"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kruise-operator/kruise-operator/internal/controller"
	"github.com/kruise-operator/kruise-operator/internal/conversion"
	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/kube/templatecheck"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// +kubebuilder:webhookconfiguration:mutating=true,name=kruise-operator-mutating
// +kubebuilder:webhookconfiguration:mutating=false,name=kruise-operator-validating

// Setup registers every webhook at the manager's server, and limits the requests answered
// at one time.
func Setup(mgr ctrl.Manager, all []controller.Kind, deps admit.Deps) {
	var clients *x509.CertPool
	if deps.ClientCA != "" {
		clients = x509.NewCertPool()
		clients.AppendCertsFromPEM([]byte(deps.ClientCA)) // the configuration has checked it
	}
	Register(limiting(mgr.GetWebhookServer(), clients), all, deps)
}

// Register registers every webhook at a server. Kinds not managed are converted, too:
// otherwise the API server could not even delete their stored objects.
func Register(server webhook.Server, all []controller.Kind, deps admit.Deps) {
	var converters []conversion.Converter
	for _, kind := range all {
		if kind.Convert != nil {
			converters = append(converters, kind.Convert())
		}
		if kind.Admission != nil {
			serve(server, deps, kind.Entry, kind.Admission(deps))
		}
		if kind.Serve != nil {
			for path, handler := range kind.Serve(deps) {
				server.Register(path, handler)
			}
		}
	}
	server.Register(conversion.Path, conversion.NewHandler(converters...))
}

// serve registers the webhooks of one kind.
func serve(server webhook.Server, deps admit.Deps, kind kinds.Kind, rules admit.Rules) {
	register := func(path string, handler ctrladmission.Handler) {
		if deps.Enabled != nil && !deps.Enabled(kind.Name) {
			handler = ctrladmission.HandlerFunc(func(context.Context, ctrladmission.Request) ctrladmission.Response { return ctrladmission.Allowed("") })
		}
		server.Register(path, &ctrladmission.Webhook{Handler: handler})
	}
	mutate := rules.Defaulter()
	if _, released := rollable.Of(kind.Stored().GroupVersion().String(), kind.Name); released && (deps.Enabled == nil || deps.Enabled("Rollout")) {
		mutate = admit.Braked(mutate)
	}
	register(rules.MutatePath(), mutate)
	register(rules.ValidatePath(), rules.Validator(admit.Cluster{
		Checker: templatecheck.Checker{
			Client: deps.Client, LaunchOrder: deps.Gates.Enabled(features.PodWebhook),
		}, Protects: admit.Protection{Kind: kind.Protected, On: deps.Gates.Enabled(features.ResourcesDeletionProtection)},
	}))
}
