// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/kube/templatecheck"
)

const (
	// firstTemplateDelay, doubled with every try in a row up to longestTemplateDelay, is when the server is asked again about a template after it did not
	// answer. It never answers while a webhook of others does not support dry runs.
	firstTemplateDelay   = 10 * time.Second
	longestTemplateDelay = 30 * time.Minute
)

// verdict is the server's answer about a workload's template, cached for as long as it is needed.
type verdict struct {
	revision string
	// generation is the workload's when the server was asked. Claim templates are part of
	// the question, but not of a revision.
	generation int64
	// fault is the server's, in one line; empty when it would take the template.
	fault string
	// open is the question without an answer.
	open question
}

// question has no answer of the server.
type question struct {
	revision   string
	generation int64
	// tries is how often in a row it was asked, until when it is asked no more.
	tries int
	until time.Time
}

// Template is a template to check on the server.
type Template struct {
	// Revision is the name of its revision.
	Revision string
	Pod      *corev1.PodTemplateSpec
	Claims   []corev1.PersistentVolumeClaim
	// Reported: the stored status is about this revision, and Fault is its fault there. The
	// server was asked before.
	Reported bool
	Fault    string
}

// TemplateFault returns the server's fault with a workload's template, in one line, and
// when to ask again. Otherwise the fault would show only when pods are created or edited,
// much later with a partition or a pause.
//
// The server is asked once per template, in the first pass whose status is about another. A
// faulty template is checked again after a change of the spec or a restart. Without an
// answer it is asked again after a while; until then an earlier answer about this template
// holds. A workload being deleted has no fault.
func (p *Pass) TemplateFault(ctx context.Context, object client.Object, template Template) (fault string, wait time.Duration) {
	if object.GetDeletionTimestamp() != nil {
		return "", 0
	}
	known := &p.Memory.verdict
	if known.revision == template.Revision {
		template.Reported, template.Fault = true, known.fault
		if known.fault == "" || known.generation == object.GetGeneration() {
			return known.fault, 0
		}
	}
	open := &known.open
	if template.Reported && template.Fault == "" && open.revision != template.Revision {
		*known = verdict{}
		return "", 0
	}
	now, generation := p.Clock.Now(), object.GetGeneration()
	if open.revision != template.Revision || open.generation != generation {
		*open = question{revision: template.Revision, generation: generation}
	}
	if wait := open.until.Sub(now); wait > 0 {
		return template.Fault, wait
	}
	fault, err := p.askAbout(ctx, object, template)
	if err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("Template not checked", "err", err.Error())
		wait = min(firstTemplateDelay<<min(open.tries, 16), longestTemplateDelay)
		open.tries, open.until = open.tries+1, now.Add(wait)
		return template.Fault, wait
	}
	*known = verdict{revision: template.Revision, generation: generation, fault: fault}
	return fault, 0
}

// askAbout asks the server for a template's faults.
func (p *Pass) askAbout(ctx context.Context, object client.Object, template Template) (fault string, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.WriteTimeout)
	defer cancel()
	checker := templatecheck.Checker{Client: p.Client, LaunchOrder: p.LaunchOrder}
	faults, err := checker.Check(ctx, object.GetNamespace(), template.Pod, template.Claims)
	lines := make([]string, len(faults))
	for i, fault := range faults {
		lines[i] = fault.String()
	}
	return strings.Join(lines, "; "), err
}
