// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
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

// AskOthers adds to a snapshot what others say: the server's faults with the template, and if requests that hold pods are over.
// Waiting for answers does not count as the cost of the pass. The node daemon is deployed while pods wait for it.
func (p *Pass) AskOthers(
	ctx context.Context, object client.Object, snapshot *podset.Snapshot, template *corev1.PodTemplateSpec, claims ...corev1.PersistentVolumeClaim,
) {
	began := p.Clock.Now()
	defer func() { p.Waited(p.Clock.Now().Sub(began)) }()
	var templateWait, requestsWait time.Duration
	snapshot.UpdateFault, templateWait = p.TemplateFault(ctx, object, snapshot.Reported().Update.Name, template, claims)
	snapshot.OverRequests, requestsWait = p.OverRequests(ctx, snapshot.Pods)
	snapshot.Retries = p.Retries()
	p.LookAgain(templateWait, requestsWait, p.needNodeDaemon(snapshot.Pods))
}

// Waited says that part of the pass was spent waiting for the API server. It does not count as its cost.
func (p *Pass) Waited(span time.Duration) { p.asked += span }

// TemplateFault returns the server's fault with a workload's template, in one line, and
// when to ask again. Otherwise the fault would show only when pods are created or edited,
// much later with a partition or a pause.
//
// The server is asked once per template, in the first pass whose status is about another. A
// faulty template is checked again after a change of the spec or a restart. Without an
// answer it is asked again after a while; until then an earlier answer about this template
// holds. A workload being deleted has no fault.
func (p *Pass) TemplateFault(
	ctx context.Context, object client.Object, update string, template *corev1.PodTemplateSpec, claims []corev1.PersistentVolumeClaim,
) (fault string, wait time.Duration) {
	if object.GetDeletionTimestamp() != nil {
		return "", 0
	}
	earlier, reported := p.reportedFault(update)
	known := &p.Memory.verdict
	if known.revision == update {
		earlier, reported = known.fault, true
		if known.fault == "" || known.generation == object.GetGeneration() {
			return known.fault, 0
		}
	}
	open := &known.open
	if reported && earlier == "" && open.revision != update {
		*known = verdict{}
		return "", 0
	}
	now, generation := p.Clock.Now(), object.GetGeneration()
	if open.revision != update || open.generation != generation {
		*open = question{revision: update, generation: generation}
	}
	if wait := open.until.Sub(now); wait > 0 {
		return earlier, wait
	}
	fault, err := p.askAbout(ctx, object.GetNamespace(), template, claims)
	if err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("Template not checked", "err", err.Error())
		wait = min(firstTemplateDelay<<min(open.tries, 16), longestTemplateDelay)
		open.tries, open.until = open.tries+1, now.Add(wait)
		return earlier, wait
	}
	*known = verdict{revision: update, generation: generation, fault: fault}
	return fault, 0
}

// reportedFault is the fault that the stored status reports of a revision; false when it is about another one. The server was asked before it was written.
func (p *Pass) reportedFault(update string) (fault string, reported bool) {
	about, _, _ := unstructured.NestedString(p.Stored.Object, "status", "updateRevision")
	if revision.HashOf(about) != revision.HashOf(update) {
		return "", false
	}
	condition, faulty := conditions.True(p.Stored.Object, appsv1beta1.StatefulSetTemplateInvalid)
	return condition.Message, !faulty || condition.Message != ""
}

// askAbout asks the server for a template's faults.
func (p *Pass) askAbout(ctx context.Context, namespace string, template *corev1.PodTemplateSpec, claims []corev1.PersistentVolumeClaim) (fault string, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.WriteTimeout)
	defer cancel()
	checker := templatecheck.Checker{Client: p.Client, LaunchOrder: p.LaunchOrder}
	faults, err := checker.Check(ctx, namespace, template, claims)
	lines := make([]string, len(faults))
	for i, fault := range faults {
		lines[i] = fault.String()
	}
	return strings.Join(lines, "; "), err
}
