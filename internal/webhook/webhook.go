// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package webhook lists all webhooks that the operator serves. Every replica serves them, leader or not.
package webhook

import (
	"context"
	"errors"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	advancedcronjob "github.com/kruise-operator/kruise-operator/controllers/advancedcronjob/admission"
	broadcastjob "github.com/kruise-operator/kruise-operator/controllers/broadcastjob/admission"
	cloneset "github.com/kruise-operator/kruise-operator/controllers/cloneset/admission"
	clonesetconvert "github.com/kruise-operator/kruise-operator/controllers/cloneset/convert"
	containerrecreaterequest "github.com/kruise-operator/kruise-operator/controllers/containerrecreaterequest/admission"
	containerrecreaterequestconvert "github.com/kruise-operator/kruise-operator/controllers/containerrecreaterequest/convert"
	daemonset "github.com/kruise-operator/kruise-operator/controllers/daemonset/admission"
	daemonsetconvert "github.com/kruise-operator/kruise-operator/controllers/daemonset/convert"
	"github.com/kruise-operator/kruise-operator/controllers/deletionprotection"
	ephemeraljob "github.com/kruise-operator/kruise-operator/controllers/ephemeraljob/admission"
	imagelistpulljob "github.com/kruise-operator/kruise-operator/controllers/imagelistpulljob/admission"
	imagepulljob "github.com/kruise-operator/kruise-operator/controllers/imagepulljob/admission"
	"github.com/kruise-operator/kruise-operator/controllers/launchpriority/podlaunch"
	nodeimage "github.com/kruise-operator/kruise-operator/controllers/nodeimage/admission"
	podprobemarker "github.com/kruise-operator/kruise-operator/controllers/podprobemarker/admission"
	"github.com/kruise-operator/kruise-operator/controllers/podprobemarker/podprobes"
	sidecarset "github.com/kruise-operator/kruise-operator/controllers/sidecarset/admission"
	sidecarsetconvert "github.com/kruise-operator/kruise-operator/controllers/sidecarset/convert"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/podinject"
	statefulset "github.com/kruise-operator/kruise-operator/controllers/statefulset/admission"
	uniteddeployment "github.com/kruise-operator/kruise-operator/controllers/uniteddeployment/admission"
	"github.com/kruise-operator/kruise-operator/internal/conversion"
	"github.com/kruise-operator/kruise-operator/internal/engine/probing"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/kube/templatecheck"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// +kubebuilder:webhookconfiguration:mutating=true,name=kruise-operator-mutating
// +kubebuilder:webhookconfiguration:mutating=false,name=kruise-operator-validating

// Deps is what admission needs.
type Deps struct {
	// Client asks the API server directly; nothing it reads comes from a cache, and all it writes are dry runs.
	Client client.Client
	// Accepted are templates that the server would take, shared with the controllers. Nil remembers none.
	Accepted *templatecheck.Accepted
	// Namespace is the operator's own.
	Namespace string
	// Gates are the feature gates; each kind takes its own.
	Gates features.Set
	// Enabled says whether a kind is managed; nil: all are. Requests for other kinds are let through unchanged. They still come where the Operator
	// Lifecycle Manager owns the webhook configurations, because it keeps the entries of these kinds.
	Enabled func(kind string) bool
}

// Setup registers every webhook at the manager's webhook server, with a limit on what is answered at one time.
func Setup(mgr ctrl.Manager, deps Deps) error {
	if deps.Client == nil {
		return errors.New("setting up webhooks: there is no client")
	}
	Register(limiting(mgr.GetWebhookServer()), deps)
	return nil
}

// Register registers every webhook at a server. Conversion is also served for kinds that are not managed: without it the API server could not even delete
// their stored objects. Every kind in the table that has admission has one line here.
func Register(server webhook.Server, deps Deps) {
	server.Register(conversion.Path, conversion.NewHandler(clonesetconvert.Converter(), containerrecreaterequestconvert.Converter(), daemonsetconvert.Converter(), sidecarsetconvert.Converter()))
	// Only entries that the controller of SidecarSets writes lead there.
	server.Register(podinject.Path, &podinject.Handler{Reader: deps.Client, Namespace: deps.Namespace})
	// Only the configuration that the reconciler of the Kruise object writes leads there.
	server.Register(deletionprotection.Path, &ctrladmission.Webhook{Handler: &deletionprotection.Handler{
		Reader: deps.Client, On: deps.Gates.Enabled(features.ResourcesDeletionProtection),
		Definitions: deps.Gates.Enabled(features.DeletionProtectionForCRDCascading),
	}})
	// Only the configuration that the controller of launch priorities writes leads there.
	server.Register(podlaunch.Path, &ctrladmission.Webhook{Handler: podlaunch.Handler{}})
	// Only the configuration that the controller of PodProbeMarkers writes leads there.
	server.Register(probing.WebhookPath, &ctrladmission.Webhook{Handler: &podprobes.Handler{Reader: deps.Client}})
	serve(server, deps, advancedcronjob.Kind())
	serve(server, deps, broadcastjob.Kind())
	serve(server, deps, cloneset.Kind(cloneset.OptionsOf(deps.Gates), cloneset.Pods{Reader: deps.Client}))
	serve(server, deps, containerrecreaterequest.Kind(containerrecreaterequest.OptionsOf(deps.Gates), containerrecreaterequest.Cluster{Reader: deps.Client}))
	serve(server, deps, daemonset.Kind())
	serve(server, deps, ephemeraljob.Kind())
	serve(server, deps, imagelistpulljob.Kind(deps.Gates.Enabled(features.KruiseDaemon)))
	serve(server, deps, imagepulljob.Kind(deps.Gates.Enabled(features.KruiseDaemon)))
	serve(server, deps, nodeimage.Kind())
	serve(server, deps, podprobemarker.Kind(podprobemarker.OptionsOf(deps.Gates), podprobemarker.Workloads{Reader: deps.Client}))
	serve(server, deps, sidecarset.Kind(sidecarset.OptionsOf(deps.Gates), sidecarset.Others{Reader: deps.Client, Namespace: deps.Namespace}))
	serve(server, deps, statefulset.Kind(statefulset.OptionsOf(deps.Gates), statefulset.StorageClasses{Reader: deps.Client}))
	serve(server, deps, uniteddeployment.Kind(uniteddeployment.Workloads{Client: deps.Client}))
}

// serve registers the webhooks of one kind.
func serve[T any, P admit.Object[T]](server webhook.Server, deps Deps, kind admit.Kind[T, P]) {
	register := func(path string, handler ctrladmission.Handler) {
		if deps.Enabled != nil && !deps.Enabled(kind.Kind) {
			handler = ctrladmission.HandlerFunc(func(context.Context, ctrladmission.Request) ctrladmission.Response { return ctrladmission.Allowed("") })
		}
		server.Register(path, &ctrladmission.Webhook{Handler: handler})
	}
	entry, _ := kinds.Of(kind.Kind)
	register(kind.MutatePath(), kind.Defaulter())
	register(kind.ValidatePath(), kind.Validator(admit.Cluster{
		Checker: templatecheck.Checker{
			Client: deps.Client, Accepted: deps.Accepted, LaunchOrder: deps.Gates.Enabled(features.PodWebhook),
		}, Protects: admit.Protection{Kind: entry.Protected, On: deps.Gates.Enabled(features.ResourcesDeletionProtection)},
	}))
}
