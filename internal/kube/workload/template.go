// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/kube/templatecheck"
)

// verdict is the server's answer about a workload's template, cached for as long as it is needed.
type verdict struct {
	revision string
	// generation is that of the workload when the server was asked. Claim templates are part of the question, but not of a revision.
	generation int64
	// fault is the server's, in one line; empty when it would take the template.
	fault string
}

// Template is a template that the server may have to be asked about.
type Template struct {
	// Revision is the name of its revision.
	Revision string
	Pod      *corev1.PodTemplateSpec
	Claims   []corev1.PersistentVolumeClaim
	// Passed says that the stored status is about this revision and finds no fault: it was asked about before.
	Passed bool
}

// TemplateFault is what the server finds wrong with a workload's template, in one line. Nothing else refuses such a template before
// pods are created or edited, which can be much later: a partition or a pause may keep them.
//
// The server is asked once for a template: while the status is about another one. About a faulty one it is asked again when anything
// of the spec has changed, and after a restart. When it does not answer, nothing is known to be wrong, and the next pass asks again, if
// it still has to. A workload that is being deleted has no fault.
func (p *Pass) TemplateFault(ctx context.Context, object client.Object, template Template) string {
	if object.GetDeletionTimestamp() != nil {
		return ""
	}
	known := p.Memory.verdict
	if known.revision == template.Revision && (known.fault == "" || known.generation == object.GetGeneration()) {
		return known.fault
	}
	if template.Passed {
		p.Memory.verdict = verdict{}
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, p.WriteTimeout)
	defer cancel()
	faults, err := templatecheck.Checker{Client: p.Client, Accepted: p.Accepted, LaunchOrder: p.LaunchOrder}.Check(ctx, object.GetNamespace(), template.Pod, template.Claims)
	if err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("Template not checked", "err", err.Error())
		return ""
	}
	lines := make([]string, len(faults))
	for i, fault := range faults {
		lines[i] = fault.String()
	}
	p.Memory.verdict = verdict{revision: template.Revision, generation: object.GetGeneration(), fault: strings.Join(lines, "; ")}
	return p.Memory.verdict.fault
}
