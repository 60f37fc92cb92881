// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package imagepuller pulls the images that the NodeImage of the node asks for.
//
// What it promises:
//
//   - No more images of a namespace are pulled at a time than the flag --max-pulls allows; the others wait. All but one of these slots are shared by
//     all namespaces, so images of one never wait for all of another. A pull that has failed waits for its next try without a slot.
//   - A tag is pulled with the pull secrets of its jobs' namespace alone.
//   - A tag that has ended in a round is not pulled again in that round, whatever restarts. One that was being pulled is pulled again after a
//     restart: the runtime continues with the layers that it has, and an image that exists by then is not pulled unless the pull policy is
//     Always.
//   - A runtime that does not answer uses up no try.
//   - The status is written when it has changed, soon after the first change and at most every two seconds; at rest, never.
//   - Secrets are read only in the daemon's namespace, for each pull, and are not stored. A Secret that is named later is used for the remaining
//     tries.
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

// work is a round that is under way, or has ended and is not in the stored status yet.
type work struct {
	version int64
	cancel  context.CancelFunc
	status  v1beta1.ImageTagStatus
	// secrets are those that the list names now, and owners the jobs: some may come when tries have failed already.
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
	// told is when the log named a Secret that cannot be read.
	told map[string]time.Time
}

// Setup adds the puller to the daemon.
func Setup(h host.Host) error {
	p := &puller{
		host: h, client: h.Manager.GetClient(), slots: make(chan struct{}, h.MaxPulls-1), trigger: host.NewTrigger(&v1beta1.NodeImage{}, h.Node),
		rounds: map[key]*work{}, own: map[string]chan struct{}{}, plugins: newPlugins(h.CredentialProviders, h.CredentialFolder, h.Clock.Now),
	}
	return h.AddController("imagepuller", p.trigger, options(p), p.live)
}

// options are those of the controller. What the API server refuses is tried again within the minute: a status that comes later than the operator
// waits for a node would have the tag fail.
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

// note changes what is known of a round, unless it is over or another one has begun.
func (p *puller) note(t task, change func(*v1beta1.ImageTagStatus)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rounds[t.key] == t.round {
		change(&t.round.status)
	}
}

// Reconcile starts what should be pulled, ends what should not, and writes what has changed.
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

// patchOf renders the patch that makes status the status of stored. All counters are in it: a list without a status has none, and a difference
// would leave out those that are 0. It is tied to the version: the operator fails a tag that stays silent, and its word must not be lost by
// accident.
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

// dropGone has a merge patch take out what is stored in a map and no longer there.
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

// sync ends rounds that are not wanted any more and starts those that are and have not ended. It says whether it started one.
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
					// What is stored counts: it is this round's own answer, or the operator gave it up.
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

// begin starts a round. The start time of a pull that was under way when the daemon ended is kept.
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

// secretsOf are the Secrets that the list names for a round now.
func (p *puller) secretsOf(t task) []v1beta1.ImagePullSecret {
	p.mu.Lock()
	defer p.mu.Unlock()
	return t.round.secrets
}

// ownersOf are the jobs that want a round now.
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

// statusOf is what the status should be: what is known of rounds here, and of the others what is stored.
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

// slot waits for a slot: one of its namespace, or one that all share. It returns how to give it back; nil when ctx has ended.
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
