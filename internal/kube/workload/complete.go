// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/image"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// About is the part of a workload that others are asked about before it is planned.
type About struct {
	Template *corev1.PodTemplateSpec
	Claims   []corev1.PersistentVolumeClaim
	// UpdateRevision and Conditions are those of the stored status.
	UpdateRevision string
	Conditions     []conditions.Condition
	// PreDownload describes it for what pulls images ahead of an update; nil when nothing is to be pulled.
	PreDownload func() *image.Workload
}

// Complete adds to a snapshot what has to be asked of others: the faults that the server finds in the template, whether requests that hold pods are over,
// and which nodes have images that were pulled ahead. It returns when to ask again. Waiting for answers does not count as the cost of the pass.
func (p *Pass) Complete(ctx context.Context, object client.Object, snapshot *podset.Snapshot, about About) time.Duration {
	began := p.Clock.Now()
	defer func() { p.asked += p.Clock.Now().Sub(began) }()
	revision := snapshot.Reported().Update.Name
	template := Template{Revision: revision, Pod: about.Template, Claims: about.Claims}
	template.Reported, template.Fault = podset.TemplateReported(about.UpdateRevision, about.Conditions, revision)
	var templateWait, requestsWait time.Duration
	snapshot.UpdateFault, templateWait = p.TemplateFault(ctx, object, template)
	snapshot.OverRequests, requestsWait = p.OverRequests(ctx, snapshot.Pods)
	p.FindImages(ctx, about.PreDownload, snapshot.Update.Name, snapshot.Pods)
	snapshot.Retries = p.Retries()
	return earliest(templateWait, requestsWait)
}
