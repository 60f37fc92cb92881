// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// Asked is what others are asked about before a workload is planned.
type Asked struct {
	Template *corev1.PodTemplateSpec
	Claims   []corev1.PersistentVolumeClaim
	// UpdateRevision and Conditions are the stored status's.
	UpdateRevision string
	Conditions     []conditions.Condition
}

// AskOthers adds to a snapshot what others say: the server's faults with the template, and if requests that hold pods are over.
// Waiting for answers does not count as the cost of the pass. The node daemon is deployed while pods wait for it.
func (p *Pass) AskOthers(ctx context.Context, object client.Object, snapshot *podset.Snapshot, asked Asked) {
	began := p.Clock.Now()
	defer func() { p.asked += p.Clock.Now().Sub(began) }()
	revision := snapshot.Reported().Update.Name
	template := Template{Revision: revision, Pod: asked.Template, Claims: asked.Claims}
	template.Reported, template.Fault = podset.TemplateReported(asked.UpdateRevision, asked.Conditions, revision)
	var templateWait, requestsWait time.Duration
	snapshot.UpdateFault, templateWait = p.TemplateFault(ctx, object, template)
	snapshot.OverRequests, requestsWait = p.OverRequests(ctx, snapshot.Pods)
	snapshot.Retries = p.Retries()
	p.LookAgain(templateWait, requestsWait, p.needNodeDaemon(snapshot.Pods))
}

// Waited says that part of the pass was spent waiting for the API server. It does not count as its cost.
func (p *Pass) Waited(span time.Duration) { p.asked += span }
