// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package imagepuller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/daemon/cri"
	"github.com/kruise-operator/kruise-operator/internal/engine/image"
)

const (
	// firstWait and longestWait are between two tries: the wait doubles.
	firstWait   = time.Second
	longestWait = 30 * time.Second
	// lookForRuntime is the time between tries while the runtime is silent; they count as
	// none.
	lookForRuntime = 5 * time.Second
	// longestText limits a message in the status, in bytes, longestNote an event: the API
	// server takes 1024.
	longestText = 512
	longestNote = 1000
	// attribution identifies the puller to the runtime.
	attribution   = "apps.kruise.io/pulling-image-by"
	attributionBy = "kruise-daemon"
)

// errDeadline: all tries together took too long.
var errDeadline = errors.New("pulling exceeds the activeDeadlineSeconds")

// task is one round of pulling one tag.
type task struct {
	key
	// list is the UID of the NodeImage.
	list    types.UID
	tag     v1beta1.ImageTagSpec
	sandbox *v1beta1.SandboxConfig
	// round is its state.
	round *work
}

// tenant is the namespace of the task's slots.
func (t *task) tenant() string {
	if owners := t.tag.OwnerReferences; t.Namespace == "" && len(owners) > 0 {
		return owners[0].Namespace
	}
	return t.Namespace
}

// run pulls a tag as often as its policy allows, and notes its progress. It ends with ctx.
func (p *puller) run(ctx context.Context, t task) {
	defer p.Enqueue()
	release := p.slots.Take(ctx, t.tenant())
	if release == nil {
		return
	}
	p.Metrics.PullsInFlight.Inc()
	defer p.Metrics.PullsInFlight.Dec()
	began := p.Clock.Now()
	first := began
	p.note(t, func(s *v1beta1.ImageTagStatus) {
		if s.StartTime == nil {
			s.StartTime = stamp(began)
		}
		// Measure from began, not from the stored time: the node's clock may have been set.
		first = began.Add(-max(0, began.Sub(s.StartTime.Time).Truncate(time.Second)))
		s.Phase, s.Message = v1beta1.ImagePhasePulling, ""
	})
	p.Enqueue()
	got, err := p.pull(ctx, t, first, release)
	if ctx.Err() != nil {
		return // the tag is gone, another round has begun, or the process ends: the next one goes on
	}
	took := p.Clock.Since(began).Round(time.Millisecond)
	p.count(got, took, err)
	p.note(t, func(s *v1beta1.ImageTagStatus) {
		s.CompletionTime = stamp(p.Clock.Now())
		if err != nil {
			s.Phase, s.Message = v1beta1.ImagePhaseFailed, short(err.Error(), longestText)
			return
		}
		s.Phase, s.Progress, s.ImageID, s.Message = v1beta1.ImagePhaseSucceeded, 100, t.Repository+"@"+got.id, ""
	})
	p.emit(t, took, err)
}

// pulled is a present image: its ID, and if it was there before.
type pulled struct {
	id     string
	before bool
}

// count counts the result of an image after all tries.
func (p *puller) count(got pulled, took time.Duration, err error) {
	result := "pulled"
	switch {
	case err != nil:
		result = "failed"
	case got.before:
		result = "present"
	default:
		p.Metrics.PullDuration.Observe(took.Seconds())
	}
	p.Metrics.Pulls.WithLabelValues(result).Inc()
}

// pull tries until the image is there, a limit is reached, or ctx ends. first is when the round was begun, by this daemon or one before it: its
// deadline counts from there. release gives back the slot of the first try.
func (p *puller) pull(ctx context.Context, t task, first time.Time, release func()) (pulled, error) {
	full, err := image.Reference{Repository: t.Repository, Tag: t.tag.Tag}.Full()
	if err != nil {
		release()
		return pulled{}, err
	}
	timeout, backoff, deadline := image.Policy(t.tag.PullPolicy)
	wait := firstWait
	for failures := int32(0); release != nil; release = p.slots.Take(ctx, t.tenant()) {
		left := deadline - p.Clock.Since(first)
		if left <= 0 {
			release()
			return pulled{}, errDeadline
		}
		limit := min(timeout, left)
		got, err := p.try(ctx, t, full, limit)
		release()
		if err == nil || ctx.Err() != nil {
			return got, err
		}
		ctrl.Log.WithName("imagepuller").V(1).Info("Not pulled", "image", full, "err", err.Error())
		if errors.Is(err, cri.ErrUnavailable) {
			p.awaitRuntime(ctx, t, err, left)
			continue
		}
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("the image was not there after %s", limit.Round(time.Second))
		}
		if failures++; failures > backoff {
			return pulled{}, err
		}
		p.note(t, func(s *v1beta1.ImageTagStatus) {
			s.Phase, s.Message = v1beta1.ImagePhasePulling, short(err.Error(), longestText)
		})
		p.Enqueue()
		p.sleep(ctx, wait)
		wait = min(2*wait, longestWait)
	}
	return pulled{}, ctx.Err()
}

// awaitRuntime waits up to limit for the runtime to answer. Meanwhile the tag is Waiting,
// with the runtime's error.
func (p *puller) awaitRuntime(ctx context.Context, t task, heard error, limit time.Duration) {
	p.note(t, func(s *v1beta1.ImageTagStatus) {
		s.Phase, s.Message = v1beta1.ImagePhaseWaiting, short(heard.Error(), longestText)
	})
	p.Enqueue()
	for since := p.Clock.Now(); ctx.Err() == nil && p.Clock.Since(since) < limit; {
		p.sleep(ctx, min(lookForRuntime, limit))
		if _, err := p.NodeRuntime(ctx, p.Client).Status(ctx); err == nil {
			p.note(t, func(s *v1beta1.ImageTagStatus) { s.Phase, s.Message = v1beta1.ImagePhasePulling, "" })
			p.Enqueue()
			return
		}
	}
}

// sleep waits, but not longer than ctx.
func (p *puller) sleep(ctx context.Context, wait time.Duration) {
	timer := p.Clock.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-ctx.Done():
	}
}

// try pulls once. A present image is not pulled again unless the registry is to be asked.
func (p *puller) try(ctx context.Context, t task, full string, limit time.Duration) (pulled, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	runtime := p.NodeRuntime(ctx, p.Client)
	if t.tag.ImagePullPolicy == v1beta1.PullIfNotPresent {
		id, err := runtime.ImageID(ctx, full)
		if err == nil {
			return pulled{id: id, before: true}, nil
		}
		if !errors.Is(err, cri.ErrNotFound) {
			return pulled{}, err
		}
	}
	pull := cri.Pull{Image: full, Annotations: map[string]string{attribution: attributionBy}}
	if t.sandbox != nil {
		pull.Labels = t.sandbox.Labels
		for key, value := range t.sandbox.Annotations {
			pull.Annotations[key] = value
		}
	}
	// Ask the plugins if the registry takes no credentials of the Secrets.
	all := credentialsFor(full, p.read(ctx, t))
	id, over, failed := pullWith(ctx, runtime, pull, all)
	if over {
		return pulled{id: id}, failed
	}
	more, unknown := p.plugins.lookup(ctx, full)
	more = slices.DeleteFunc(more, func(c cri.Credentials) bool { return slices.Contains(all, c) })
	if id, over, refused := pullWith(ctx, runtime, pull, more); over {
		return pulled{id: id}, refused
	} else if refused != nil {
		failed = errors.Join(failed, refused)
	}
	if len(all)+len(more) == 0 {
		id, err := runtime.PullImage(ctx, pull)
		if err == nil || errors.Is(err, cri.ErrUnavailable) {
			return pulled{id: id}, err
		}
		failed = err
	}
	return pulled{}, errors.Join(failed, unknown)
}

// pullWith pulls with each of some credentials until it is over: the image is there, or nobody can say. Otherwise it returns why all were refused.
func pullWith(ctx context.Context, runtime cri.Runtime, pull cri.Pull, all []cri.Credentials) (id string, over bool, err error) {
	var failures []error
	for i := range all {
		pull.Credentials = &all[i]
		id, err := runtime.PullImage(ctx, pull)
		if err == nil || ctx.Err() != nil || errors.Is(err, cri.ErrUnavailable) {
			return id, true, err
		}
		failures = append(failures, err)
	}
	return "", false, errors.Join(failures...)
}

// read reads the Secrets for a pull: copies of its namespace's in the daemon's own.
func (p *puller) read(ctx context.Context, t task) []*corev1.Secret {
	var secrets []*corev1.Secret
	names, owners := p.listed(t)
	for _, name := range names {
		if name.Namespace != p.Namespace {
			continue
		}
		secret := &corev1.Secret{}
		if err := p.Client.Get(ctx, client.ObjectKey{Namespace: name.Namespace, Name: name.Name}, secret); err != nil {
			ctrl.Log.WithName("imagepuller").V(1).Info("A Secret for pulling cannot be read; going on without it", "secret", name.Name, "err", err.Error())
			continue
		}
		if p.serves(secret, t.Namespace, owners) {
			secrets = append(secrets, secret)
		}
	}
	return secrets
}

// serves is true if a Secret is for a pull. Originals serve jobs of the daemon's namespace
// and tags written by hand. A tag of v0.4.0 may have jobs of several namespaces.
func (p *puller) serves(secret *corev1.Secret, namespace string, owners []corev1.ObjectReference) bool {
	of, _, copied := strings.Cut(secret.Annotations[image.AnnotationSource], "/")
	if !copied {
		of = p.Namespace
	}
	if namespace != "" {
		return of == namespace
	}
	return len(owners) == 0 && !copied || slices.ContainsFunc(owners, func(o corev1.ObjectReference) bool { return o.Namespace == of })
}

// emit emits events on the node's list, and on every job failed by it.
func (p *puller) emit(t task, took time.Duration, err error) {
	name := t.Repository + ":" + t.tag.Tag
	list := &v1beta1.NodeImage{TypeMeta: metav1.TypeMeta{APIVersion: v1beta1.GroupVersion().String(), Kind: "NodeImage"}}
	list.Name, list.UID = p.Node, t.list
	if err == nil {
		p.Events.Eventf(list, nil, corev1.EventTypeNormal, "PullImageSucceed", "Pull", "%s was pulled in %s", name, took)
		return
	}
	note := short(fmt.Sprintf("node %s gave up pulling %s: %s", p.Node, name, err), longestNote)
	p.Events.Eventf(list, nil, corev1.EventTypeWarning, "PullImageFailed", "Pull", "%s", note)
	_, owners := p.listed(t)
	for _, owner := range owners {
		p.Events.Eventf(&owner, nil, corev1.EventTypeWarning, "PullImageFailed", "Pull", "%s", note)
	}
}

func stamp(at time.Time) *metav1.Time {
	t := metav1.NewTime(at.UTC().Truncate(time.Second))
	return &t
}

// short is a text in one line of at most limit bytes. Errors of several registries have a
// line each.
func short(text string, limit int) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	return strings.ToValidUTF8(text[:min(len(text), limit)], "")
}
