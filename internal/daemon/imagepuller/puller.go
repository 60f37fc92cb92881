// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package imagepuller pulls the images in the node's NodeImage.
//
// Its promises:
//
//   - At most --max-pulls images of a namespace are pulled at a time. All namespaces share
//     all but one of these slots, so images of one never wait for all of another. A failed
//     pull waits for its next try without a slot.
//   - A tag is pulled with the pull secrets of its jobs' namespace alone.
//   - A tag ended in a round is not pulled again in this round, whatever restarts. An
//     interrupted pull starts again: the runtime keeps its layers, and an image there by
//     then is pulled only with the policy Always.
//   - A silent runtime uses up no try.
//   - The status is written when it has changed, soon after the first change and at most every two seconds; at rest, never.
//   - Secrets are read for each pull, in the daemon's namespace only, and not stored. One
//     named later serves the remaining tries.
package imagepuller

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/daemon/host"
	"github.com/kruise-operator/kruise-operator/internal/engine/image"
)

// key names a tag.
type key struct {
	image.Place
	tag string
}

// work is a round under way, or ended and not yet in the stored status.
type work struct {
	cancel context.CancelFunc
	status v1beta1.ImageTagStatus
	// secrets and owners, the jobs, are the list's now: some may come after failed tries.
	secrets []v1beta1.ImagePullSecret
	owners  []corev1.ObjectReference
}

// puller is the worker of a node.
type puller struct {
	*host.Keeper
	// plugins know credentials beside Secrets; nil knows none.
	plugins *plugins
	slots   *host.Slots

	mu     sync.Mutex
	rounds map[key]*work
}

// Setup adds the puller to the daemon.
func Setup(h host.Host) error {
	p := newPuller(h, h.Manager.GetClient())
	return p.Start("imagepuller", p)
}

func newPuller(h host.Host, c client.Client) *puller {
	return &puller{
		Keeper: host.NewKeeper(h, c, &v1beta1.NodeImage{}), plugins: newPlugins(h.CredentialProviders, h.CredentialFolder),
		slots: host.NewSlots(h.MaxPulls-1, 1), rounds: map[key]*work{},
	}
}

// note changes a round's state, unless it is over or another has begun.
func (p *puller) note(t task, change func(*v1beta1.ImageTagStatus)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rounds[t.key] == t.round {
		change(&t.round.status)
	}
}

// Reconcile starts and ends pulls, and writes the changes.
func (p *puller) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	stored := &v1beta1.NodeImage{}
	there, err := p.Read(ctx, stored)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !there {
		stored = &v1beta1.NodeImage{} // nothing is wanted
	}
	if started := p.sync(ctx, stored); started {
		return reconcile.Result{RequeueAfter: host.Settling}, nil // most are being pulled by then: one write less
	}
	status := p.statusOf(stored)
	if !there || equality.Semantic.DeepEqual(stored.Status, status) {
		return reconcile.Result{}, nil
	}
	change, err := changeOf(stored, status)
	if err != nil {
		return reconcile.Result{}, err
	}
	_, result, err := p.Write(ctx, stored, change)
	return result, err
}

// changeOf is the merge patch from the stored status to another one. It has all counters: a new status has
// none, and a difference would omit zeros.
func changeOf(stored *v1beta1.NodeImage, status v1beta1.NodeImageStatus) (map[string]any, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return nil, fmt.Errorf("rendering the status: %w", err)
	}
	dropGone(content, "imageStatuses", stored.Status.ImageStatuses)
	dropGone(content, "namespacedImageStatuses", stored.Status.NamespacedImageStatuses)
	if _, ok := content["waiting"]; !ok {
		content["waiting"] = 0
	}
	return content, nil
}

// dropGone makes a merge patch remove missing keys of a map.
func dropGone(content map[string]any, field string, stored map[string]v1beta1.ImageStatus) {
	images, _ := content[field].(map[string]any)
	for key := range stored {
		if images == nil {
			images = map[string]any{}
			content[field] = images
		}
		if _, ok := images[key]; !ok {
			images[key] = nil
		}
	}
}

// sync ends unwanted rounds and starts wanted ones not ended yet. It is true if it started
// one.
func (p *puller) sync(ctx context.Context, stored *v1beta1.NodeImage) (started bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wanted := sets.New[key]()
	for place, entry := range image.Places(&stored.Spec) {
		for i := range entry.Tags {
			tag := entry.Tags[i]
			at := key{place, tag.Tag}
			wanted.Insert(at)
			answer := image.Answer(place.Answers(&stored.Status), tag.Tag)
			// The stored answer counts: it is this round's, or the operator gave it up.
			ended := answer != nil && answer.Version == tag.Version && answer.CompletionTime != nil
			if round := p.rounds[at]; round != nil && (ended || round.status.Version != tag.Version) {
				p.end(at)
			}
			if round := p.rounds[at]; round != nil {
				round.secrets, round.owners = entry.PullSecrets, tag.OwnerReferences
			} else if !ended {
				p.begin(ctx, task{key: at, list: stored.UID, tag: *tag.DeepCopy(), sandbox: entry.SandboxConfig}, answer, entry.PullSecrets)
				started = true
			}
		}
	}
	for at := range p.rounds {
		if !wanted.Has(at) {
			p.end(at)
		}
	}
	return started
}

// end ends a round.
func (p *puller) end(at key) {
	p.rounds[at].cancel()
	delete(p.rounds, at)
}

// begin starts a round. It outlives the pass, and ends with the daemon. An interrupted pull keeps its start time.
func (p *puller) begin(ctx context.Context, t task, before *v1beta1.ImageTagStatus, secrets []v1beta1.ImagePullSecret) {
	ctx, cancel := context.WithCancel(ctx)
	round := &work{cancel: cancel, secrets: secrets, owners: t.tag.OwnerReferences}
	round.status = v1beta1.ImageTagStatus{Tag: t.tag.Tag, Version: t.tag.Version, Phase: v1beta1.ImagePhaseWaiting}
	if before != nil && before.Version == t.tag.Version {
		round.status.StartTime = before.StartTime
	}
	t.round, p.rounds[t.key] = round, round
	go p.run(ctx, t)
}

// listed are the list's Secrets and jobs for a round now.
func (p *puller) listed(t task) ([]v1beta1.ImagePullSecret, []corev1.ObjectReference) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return t.round.secrets, t.round.owners
}

// statusOf is the wanted status: own rounds as known here, others as stored.
func (p *puller) statusOf(stored *v1beta1.NodeImage) v1beta1.NodeImageStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	status := v1beta1.NodeImageStatus{FirstSyncStatus: stored.Status.FirstSyncStatus}
	for place, entry := range image.Places(&stored.Spec) {
		var tags []v1beta1.ImageTagStatus
		for i := range entry.Tags {
			name := entry.Tags[i].Tag
			if round := p.rounds[key{place, name}]; round != nil {
				tags = append(tags, round.status)
			} else if answer := image.Answer(place.Answers(&stored.Status), name); answer != nil {
				tags = append(tags, *answer)
			}
		}
		if len(tags) > 0 {
			place.SetAnswers(&status, tags)
		}
	}
	image.Count(stored, &status)
	return status
}
