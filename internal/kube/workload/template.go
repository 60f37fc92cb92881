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
	// generation is that of the workload when the server was asked. Claim templates are part of the question, but not of a revision.
	generation int64
	// fault is the server's, in one line; empty when it would take the template.
	fault string
	// open is the question that the server has not answered.
	open question
}

// question is one that the server did not answer.
type question struct {
	revision   string
	generation int64
	// tries is how often in a row it was asked, until when it is asked no more.
	tries int
	until time.Time
}

// Template is a template that the server may have to be asked about.
type Template struct {
	// Revision is the name of its revision.
	Revision string
	Pod      *corev1.PodTemplateSpec
	Claims   []corev1.PersistentVolumeClaim
	// Reported says that the stored status is about this revision, and Fault what it finds wrong with it: the server was asked about it before.
	Reported bool
	Fault    string
}

// TemplateFault returns what the server finds wrong with a workload's template, in one line, and when to ask again. Nothing else refuses such a template
// before pods are created or edited, which can be much later because of a partition or a pause.
//
// The server is asked once about a template, in the first pass whose status is still about another one. About a faulty template it is asked again when
// the spec has changed, and after a restart. When it does not answer, it is asked again after a while; until then its earlier answer about this template
// holds, if there is one. A workload that is being deleted has no fault.
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

// askAbout asks the server what is wrong with a template.
func (p *Pass) askAbout(ctx context.Context, object client.Object, template Template) (fault string, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.WriteTimeout)
	defer cancel()
	checker := templatecheck.Checker{Client: p.Client, Accepted: p.Accepted, LaunchOrder: p.LaunchOrder}
	faults, err := checker.Check(ctx, object.GetNamespace(), template.Pod, template.Claims)
	lines := make([]string, len(faults))
	for i, fault := range faults {
		lines[i] = fault.String()
	}
	return strings.Join(lines, "; "), err
}
