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
	"encoding/json"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/daemon/host"
	"github.com/kruise-operator/kruise-operator/internal/engine/image"
)

const (
	// firstRetry and lastRetry are when to try again after an error of the API server: the wait doubles.
	firstRetry = 500 * time.Millisecond
	lastRetry  = 50 * time.Second
)

// key names a tag.
type key struct {
	image.Place
	tag string
}

// work is a round under way, or ended and not yet in the stored status.
type work struct {
	version int64
	cancel  context.CancelFunc
	status  v1beta1.ImageTagStatus
	// secrets and owners, the jobs, are the list's now: some may come after failed tries.
	secrets []v1beta1.ImagePullSecret
	owners  []corev1.ObjectReference
}

// puller is the worker of a node.
type puller struct {
	host   host.Host
	client client.Client
	// plugins know credentials beside Secrets; nil knows none.
	plugins *plugins
	slots   chan struct{}
	// own are the slots of namespaces, one each.
	own     map[string]chan struct{}
	trigger *host.Trigger
	// writes are when the status was written last.
	writes host.Writes

	mu       sync.Mutex
	rounds   map[key]*work
	id       types.UID
	lifetime context.Context
}

// Setup adds the puller to the daemon.
func Setup(h host.Host) error {
	p := &puller{
		host: h, client: h.Manager.GetClient(), slots: make(chan struct{}, h.MaxPulls-1), trigger: host.NewTrigger(&v1beta1.NodeImage{}, h.Node),
		rounds: map[key]*work{}, own: map[string]chan struct{}{}, plugins: newPlugins(h.CredentialProviders, h.CredentialFolder),
	}
	return h.AddController("imagepuller", p.trigger, options(p), p.live)
}

// options are the controller's. Refused writes are retried within the minute: the operator
// fails a tag if its node stays silent too long.
func options(p *puller) controller.Options {
	return controller.Options{
		Reconciler:  p,
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
	}
}

// live lets pulls begin, until the daemon ends.
func (p *puller) live(lifetime context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lifetime = lifetime
}

func (p *puller) uid() types.UID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.id
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
func (p *puller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if req.Name != p.host.Node {
		return reconcile.Result{}, nil
	}
	stored := &v1beta1.NodeImage{}
	err := p.client.Get(ctx, client.ObjectKey{Name: p.host.Node}, stored)
	if apierrors.IsNotFound(err) || err == nil && stored.DeletionTimestamp != nil {
		p.endAll()
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading the node's images: %w", err)
	}
	started := p.sync(stored) //nolint:contextcheck // a pull outlives the pass that starts it
	if started {
		return reconcile.Result{RequeueAfter: host.Settling}, nil // most are being pulled by then: one write less
	}
	status := p.statusOf(stored)
	if equality.Semantic.DeepEqual(stored.Status, status) {
		return reconcile.Result{}, nil
	}
	if wait := p.writes.Wait(p.host.Clock.Now()); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	body, err := patchOf(stored, status)
	if err != nil {
		return reconcile.Result{}, err
	}
	err = p.client.Status().Patch(ctx, &v1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: stored.Name}}, client.RawPatch(types.MergePatchType, body))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return reconcile.Result{RequeueAfter: host.Settling}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("writing the status: %w", err)
	}
	p.writes.Note(p.host.Clock.Now())
	ctrl.LoggerFrom(ctx).V(1).Info("Status written", "desired", status.Desired, "succeeded", status.Succeeded, "failed", status.Failed)
	return reconcile.Result{}, nil
}

// patchOf renders the patch from stored to status. It has all counters: a new status has
// none, and a difference would omit zeros. It is tied to the version: the operator fails a
// silent tag, and its word must not be lost.
func patchOf(stored *v1beta1.NodeImage, status v1beta1.NodeImageStatus) ([]byte, error) {
	text, err := json.Marshal(status)
	if err != nil {
		return nil, fmt.Errorf("rendering the status: %w", err)
	}
	content := map[string]any{}
	if err := json.Unmarshal(text, &content); err != nil {
		return nil, fmt.Errorf("rendering the status: %w", err)
	}
	dropGone(content, "imageStatuses", stored.Status.ImageStatuses)
	dropGone(content, "namespacedImageStatuses", stored.Status.NamespacedImageStatuses)
	if _, ok := content["waiting"]; !ok {
		content["waiting"] = 0
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": stored.UID, "resourceVersion": stored.ResourceVersion}, "status": content,
	})
	if err != nil {
		return nil, fmt.Errorf("rendering the status: %w", err)
	}
	return body, nil
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
func (p *puller) sync(stored *v1beta1.NodeImage) (started bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.id = stored.UID
	wanted := map[key]int64{}
	for place, entry := range image.Places(&stored.Spec) {
		for i := range entry.Tags {
			wanted[key{place, entry.Tags[i].Tag}] = entry.Tags[i].Version
		}
	}
	for at, round := range p.rounds {
		if version, ok := wanted[at]; !ok || version != round.version {
			round.cancel()
			delete(p.rounds, at)
		}
	}
	if p.lifetime == nil {
		return false
	}
	for place, entry := range image.Places(&stored.Spec) {
		for i := range entry.Tags {
			tag := entry.Tags[i]
			at := key{place, tag.Tag}
			answer := image.Answer(place.Answers(&stored.Status), tag.Tag)
			ended := answer != nil && answer.Version == tag.Version && answer.CompletionTime != nil
			if round := p.rounds[at]; round != nil {
				if ended {
					// The stored answer counts: it is this round's, or the operator gave it
					// up.
					round.cancel()
					delete(p.rounds, at)
				}
				round.secrets, round.owners = entry.PullSecrets, tag.OwnerReferences
				continue
			}
			if ended {
				continue
			}
			p.begin(task{key: at, tag: *tag.DeepCopy(), sandbox: entry.SandboxConfig}, answer, entry.PullSecrets)
			started = true
		}
	}
	return started
}

// begin starts a round. An interrupted pull keeps its start time.
func (p *puller) begin(t task, before *v1beta1.ImageTagStatus, secrets []v1beta1.ImagePullSecret) {
	ctx, cancel := context.WithCancel(p.lifetime)
	round := &work{version: t.tag.Version, cancel: cancel, secrets: secrets, owners: t.tag.OwnerReferences}
	round.status = v1beta1.ImageTagStatus{Tag: t.tag.Tag, Version: t.tag.Version, Phase: v1beta1.ImagePhaseWaiting}
	if before != nil && before.Version == t.tag.Version {
		round.status.StartTime = before.StartTime
	}
	t.round, p.rounds[t.key] = round, round
	go p.run(ctx, t)
}

// secretsOf are the list's Secrets for a round now.
func (p *puller) secretsOf(t task) []v1beta1.ImagePullSecret {
	p.mu.Lock()
	defer p.mu.Unlock()
	return t.round.secrets
}

// ownersOf are the jobs of a round now.
func (p *puller) ownersOf(t task) []corev1.ObjectReference {
	p.mu.Lock()
	defer p.mu.Unlock()
	return t.round.owners
}

func (p *puller) endAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for at, round := range p.rounds {
		round.cancel()
		delete(p.rounds, at)
	}
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

// slot waits for a slot, its namespace's or a shared one. It returns the release; nil if
// ctx has ended.
func (p *puller) slot(ctx context.Context, namespace string) func() {
	p.mu.Lock()
	own, known := p.own[namespace]
	if !known {
		own = make(chan struct{}, 1)
		p.own[namespace] = own
	}
	p.mu.Unlock()
	select {
	case own <- struct{}{}:
		return func() { <-own }
	default:
	}
	select {
	case p.slots <- struct{}{}:
		return func() { <-p.slots }
	case own <- struct{}{}:
		return func() { <-own }
	case <-ctx.Done():
		return nil
	}
}
