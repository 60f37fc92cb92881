// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides what a NodeImage no longer needs. It is pure: the time is in the snapshot.
package plan

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	engineimage "github.com/kruise-operator/kruise-operator/internal/engine/image"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// The steps of a NodeImage.
const (
	// StepDelete deletes it because its node is gone.
	StepDelete planning.Step = "DeleteNodeImage"
	// StepPrune removes unneeded entries and copies the node's labels.
	StepPrune planning.Step = "Prune"
	// StepGiveUp fails tags the node does not report.
	StepGiveUp planning.Step = "GiveUp"
)

const (
	// LabelFake keeps a NodeImage without a node.
	LabelFake = "apps.kruise.io/fake-nodeimage"
	// answerTimeout limits a node's silence about a tag, and how far it may exceed the tag's deadline or tries.
	answerTimeout = 10 * time.Minute
	// longestWait is the longest wait of a node between two tries.
	longestWait = 30 * time.Second
	// longestTurn limits how long a tag waits for its turn on a node.
	longestTurn = 24 * time.Hour
	// maxTries caps the tries counted, longestTurn each: a hand-written number may be huge.
	maxTries = 100

	messageSilent  = "node has not responded for a long time"
	messageVirtual = messageSilent + ": it is a virtual node, on which no node daemon runs"
	messageOff     = messageSilent + ": the operator deploys no node daemon, because spec.nodeDaemon.mode of the Kruise object is Disabled"
	messageLate    = "the node has not finished in the time that its tries may take"
	messageOverdue = "pulling exceeds the activeDeadlineSeconds"
)

// Kind is the planned kind, in the stored version.
func Kind() schema.GroupVersionKind { return appsv1beta1.GroupVersion().WithKind("NodeImage") }

// Snapshot is the input of a plan for a NodeImage.
type Snapshot struct {
	// Now is the time.
	Now time.Time
	// Node: a node of this name exists and is not terminating. Virtual: it cannot have a node daemon.
	Node, Virtual bool
	Labels        map[string]string
	// DaemonOff: the Kruise object forbids the node daemon.
	DaemonOff bool
	// Gone: the job of a tag no longer exists. Working: it has not ended and will end. Asked for ImagePullJobs only.
	Gone, Working func(corev1.ObjectReference) bool
	// PullSecretsOf returns the pull secrets a job has copied; false when the job is unknown.
	PullSecretsOf func(corev1.ObjectReference) ([]appsv1beta1.ImagePullSecret, bool)
}

// Decision is a plan, and the tags given up.
type Decision struct {
	planning.Plan
	// GivenUp are tags failed because the node does not end them.
	GivenUp []GivenUp
	// NeedsDaemon: the node daemon has to pull here without a job. Jobs get it deployed by themselves.
	NeedsDaemon bool
}

// GivenUp is a tag (repository:tag), why it failed, and for which jobs.
type GivenUp struct {
	Name, Message string
	Jobs          []corev1.ObjectReference
}

// Plan takes these steps:
//
//  1. delete a NodeImage whose node is gone or terminating, unless a label keeps it;
//  2. remove a tag without createdAt: nothing could ever give it up, and admission was bypassed.
//     Take jobs that are gone off their tags, and remove a tag with its last job; one without any job stays;
//  3. remove a tag once its ttlSecondsAfterFinished is over, and a repository with its last tag.
//     A tag stays while one of its jobs counts on it: the job would ask again, and never end on many nodes;
//  4. remove the copy of a pull secret when no job of the repository asks for it;
//  5. fail a tag after ten minutes without a report, or ten minutes beyond its deadline and tries.
func Plan(image *appsv1beta1.NodeImage, s Snapshot) Decision {
	d := Decision{}
	if image.DeletionTimestamp != nil {
		return d
	}
	_, fake := image.Labels[LabelFake]
	if !s.Node && !fake {
		d.Actions = append(d.Actions, planning.Action{Verb: planning.VerbDelete, Step: StepDelete, Kind: Kind(), Object: image, Reason: "NodeGone"})
		return d
	}
	changes := map[engineimage.Place]any{}
	for place, entry := range engineimage.Places(&image.Spec) {
		answers := place.Answers(&image.Status)
		var kept []appsv1beta1.ImageTagSpec
		for i := range entry.Tags {
			if tag, ok := d.keep(&entry.Tags[i], engineimage.Answer(answers, entry.Tags[i].Tag), s); ok {
				kept = append(kept, tag)
			}
		}
		if len(kept) == 0 {
			changes[place] = nil
			continue
		}
		change := map[string]any{}
		if !sameTags(kept, entry.Tags) {
			change["tags"] = kept
		}
		if secrets := s.asked(entry.PullSecrets, kept); len(secrets) < len(entry.PullSecrets) {
			change["pullSecrets"] = secrets
		}
		if len(change) > 0 {
			changes[place] = change
		}
	}
	d.prune(image, changes, s)
	d.giveUp(image, changes, s)
	return d
}

// keep returns a tag without its gone jobs; false when the tag goes.
func (d *Decision) keep(tag *appsv1beta1.ImageTagSpec, answer *appsv1beta1.ImageTagStatus, s Snapshot) (appsv1beta1.ImageTagSpec, bool) {
	kept := *tag.DeepCopy()
	if tag.CreatedAt == nil {
		return kept, false
	}
	kept.OwnerReferences = slices.DeleteFunc(kept.OwnerReferences, func(o corev1.ObjectReference) bool { return isJob(o) && s.Gone(o) })
	if len(kept.OwnerReferences) == 0 && len(tag.OwnerReferences) > 0 {
		return kept, false
	}
	if tag.PullPolicy == nil || tag.PullPolicy.TTLSecondsAfterFinished == nil || !ended(tag, answer) {
		return kept, true
	}
	ttl := time.Duration(*tag.PullPolicy.TTLSecondsAfterFinished) * time.Second
	left := ttl - s.Now.Sub(answer.CompletionTime.Time)
	if left <= 0 {
		if !slices.ContainsFunc(kept.OwnerReferences, func(o corev1.ObjectReference) bool { return isJob(o) && s.Working(o) }) {
			return kept, false
		}
		left = max(ttl, time.Minute) // the end of a job triggers no pass here
	}
	d.Recheck(left)
	return kept, true
}

// asked drops copies of pull secrets no job of these tags asks for. Hand-written ones stay. All stay while a job
// is unknown or lacks its own copies: it may pull with those OpenKruise made.
func (s *Snapshot) asked(have []appsv1beta1.ImagePullSecret, tags []appsv1beta1.ImageTagSpec) []appsv1beta1.ImagePullSecret {
	if !slices.ContainsFunc(have, func(secret appsv1beta1.ImagePullSecret) bool { return secret.Mode == engineimage.ModeShared }) {
		return have
	}
	wanted := map[appsv1beta1.ImagePullSecret]bool{}
	for i := range tags {
		for _, owner := range tags[i].OwnerReferences {
			if !isJob(owner) {
				continue
			}
			secrets, known := s.PullSecretsOf(owner)
			if !known {
				return have
			}
			for _, secret := range secrets {
				if !slices.Contains(have, secret) {
					return have
				}
				wanted[secret] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(have), func(secret appsv1beta1.ImagePullSecret) bool {
		return secret.Mode == engineimage.ModeShared && !wanted[secret]
	})
}

// prune writes the changes and the node's labels in one request.
func (d *Decision) prune(image *appsv1beta1.NodeImage, changes map[engineimage.Place]any, s Snapshot) {
	metadata := map[string]any{}
	body := map[string]any{"metadata": metadata}
	if s.Node && !maps.Equal(image.Labels, s.Labels) {
		labels := map[string]any{}
		for key := range image.Labels {
			if _, ok := s.Labels[key]; !ok && key != LabelFake {
				labels[key] = nil
			}
		}
		for key, value := range s.Labels {
			if was, ok := image.Labels[key]; !ok || was != value {
				labels[key] = value
			}
		}
		if len(labels) > 0 {
			metadata["labels"] = labels
		}
	}
	if len(changes) > 0 {
		spec := map[string]any{}
		for place, change := range changes {
			place.Set(spec, change)
		}
		body["spec"] = spec
	}
	if len(changes) == 0 && metadata["labels"] == nil {
		return
	}
	d.Actions = append(d.Actions, patch(image, StepPrune, "", body))
}

// giveUp fails tags the node does not answer for. Others, if written by hand, need the node daemon: a tag that the
// server does not let be given up must not keep it deployed.
func (d *Decision) giveUp(image *appsv1beta1.NodeImage, going map[engineimage.Place]any, s Snapshot) {
	status := image.Status.DeepCopy()
	now := podstate.Time(s.Now)
	for place, entry := range engineimage.Places(&image.Spec) {
		_, changes := going[place]
		for i := range entry.Tags {
			tag := &entry.Tags[i]
			answer := engineimage.Answer(place.Answers(&image.Status), tag.Tag)
			if tag.CreatedAt == nil || ended(tag, answer) {
				continue
			}
			limit, message := limitOf(tag, answer)
			if message == messageSilent {
				message = s.silence()
			}
			if left := limit.Sub(s.Now); left > 0 {
				d.Recheck(left)
				d.NeedsDaemon = d.NeedsDaemon || s.Node && !s.Virtual && !slices.ContainsFunc(tag.OwnerReferences, isJob)
				continue
			}
			if changes {
				continue // the next pass sees what is left
			}
			d.GivenUp = append(d.GivenUp, GivenUp{Name: place.Repository + ":" + tag.Tag, Message: message, Jobs: tag.OwnerReferences})
			fail(status, place, appsv1beta1.ImageTagStatus{
				Tag: tag.Tag, Version: tag.Version, Phase: appsv1beta1.ImagePhaseFailed, StartTime: tag.CreatedAt, CompletionTime: &now, Message: message,
			})
		}
	}
	if len(d.GivenUp) == 0 {
		return
	}
	engineimage.Count(image, status)
	d.Actions = append(d.Actions, patch(image, StepGiveUp, "status", map[string]any{"status": status}))
}

// silence explains, as far as known, why a node does not answer.
func (s *Snapshot) silence() string {
	switch {
	case s.Virtual:
		return messageVirtual
	case s.DaemonOff:
		return messageOff
	}
	return messageSilent
}

// limitOf returns the deadline of an unended tag, and the message when it is exceeded. The job must end even if
// its node dies. Start times come from the node's clock; answerTimeout covers its lag, and no pull starts before
// it is asked for.
func limitOf(tag *appsv1beta1.ImageTagSpec, answer *appsv1beta1.ImageTagStatus) (time.Time, string) {
	created := tag.CreatedAt.Time
	if answer == nil || answer.Version != tag.Version {
		return created.Add(answerTimeout), messageSilent
	}
	timeout, backoff, deadline := engineimage.Policy(tag.PullPolicy)
	limited := deadline < engineimage.NoDeadline
	began := created
	if answer.StartTime != nil && answer.StartTime.After(created) {
		began = answer.StartTime.Time
	}
	switch {
	case answer.StartTime == nil && limited && answer.Phase == appsv1beta1.ImagePhasePulling:
		return created.Add(deadline + answerTimeout), messageOverdue
	case answer.StartTime == nil:
		// It waits for its turn, outside any deadline.
		return created.Add(longestTurn), messageLate
	case limited:
		return began.Add(deadline + answerTimeout), messageOverdue
	default:
		timeout, backoff = min(timeout, longestTurn), min(backoff, maxTries)
		return began.Add(timeout*time.Duration(backoff+1) + longestWait*time.Duration(backoff) + answerTimeout), messageLate
	}
}

func fail(status *appsv1beta1.NodeImageStatus, place engineimage.Place, answer appsv1beta1.ImageTagStatus) {
	answers := place.Answers(status)
	if before := engineimage.Answer(answers, answer.Tag); before != nil {
		*before = answer
	} else {
		answers.Tags = append(answers.Tags, answer)
	}
	place.SetAnswers(status, answers.Tags)
}

func isJob(o corev1.ObjectReference) bool { return o.Kind == "ImagePullJob" }

func ended(tag *appsv1beta1.ImageTagSpec, answer *appsv1beta1.ImageTagStatus) bool {
	return answer != nil && answer.Version == tag.Version && answer.CompletionTime != nil
}

// sameTags reports that nothing was removed.
func sameTags(a, b []appsv1beta1.ImageTagSpec) bool {
	return slices.EqualFunc(a, b, func(x, y appsv1beta1.ImageTagSpec) bool {
		return x.Tag == y.Tag && len(x.OwnerReferences) == len(y.OwnerReferences)
	})
}

func patch(image *appsv1beta1.NodeImage, step planning.Step, subresource string, body map[string]any) planning.Action {
	change := planning.MergePatch(image, body)
	change.Subresource = subresource
	return planning.Action{Verb: planning.VerbPatch, Step: step, Kind: Kind(), Object: image, Reason: string(step), Change: change}
}
