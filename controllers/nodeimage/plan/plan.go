// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides what a NodeImage does not need any more. It is pure: the time is in the snapshot.
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
	// StepPrune takes out what nothing needs any more, and makes its labels those of the node.
	StepPrune planning.Step = "Prune"
	// StepGiveUp fails tags about which the node says nothing.
	StepGiveUp planning.Step = "GiveUp"
)

const (
	// LabelFake keeps a NodeImage without a node.
	LabelFake = "apps.kruise.io/fake-nodeimage"
	// answerTimeout is how long a node may say nothing about a tag, and how long it may overdraw the deadline of one, or the tries that it has.
	answerTimeout = 10 * time.Minute
	// longestWait is the longest wait of a node between two tries.
	longestWait = 30 * time.Second
	// longestTurn is how long a tag may wait for its turn on a node that has answered.
	longestTurn = 24 * time.Hour
	// maxTries is how many tries are allowed for, and longestTurn each: what is written by hand may say anything.
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
	// Node says that a node of its name exists and is not terminating. Its labels are Labels. Virtual says that there can be no node daemon on it.
	Node, Virtual bool
	Labels        map[string]string
	// DaemonOff says that the Kruise object keeps the operator from deploying the node daemon.
	DaemonOff bool
	// Gone says that the job of a tag no longer exists, Working that the job has not ended and will end. They are asked about ImagePullJobs
	// only.
	Gone, Working func(corev1.ObjectReference) bool
	// PullSecretsOf are the pull secrets that a job has copied; false when the job is not known.
	PullSecretsOf func(corev1.ObjectReference) ([]appsv1beta1.ImagePullSecret, bool)
}

// Decision is a plan, and which tags were given up.
type Decision struct {
	planning.Plan
	// GivenUp are tags that have failed because the node does not end them.
	GivenUp []GivenUp
	// NeedsDaemon says that the node daemon has something to pull here that no job asks for: jobs have it deployed by themselves.
	NeedsDaemon bool
}

// GivenUp is a tag, with its repository before it, and why it has failed for which jobs.
type GivenUp struct {
	Name, Message string
	Jobs          []corev1.ObjectReference
}

// Plan says what to do now:
//
//  1. a NodeImage whose node is gone or terminating is deleted, unless a label keeps it;
//  2. a tag without createdAt goes: nothing could ever give it up. Admission fills that in, so somebody has passed it by;
//     jobs that are gone are taken off their tags, and a tag goes with the last of its jobs; one that never had any stays;
//  3. a tag goes when it has ended longer ago than its ttlSecondsAfterFinished, and a repository with its last tag. It stays while one of its jobs
//     counts on it: without the answer that job would ask the node again, and a job of many nodes would never end;
//  4. the copy of a pull secret goes when none of the jobs of its repository asks for it;
//  5. a tag has failed if the node reports nothing about it for ten minutes, or if it exceeds its deadline and its tries by ten minutes.
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
	d.NeedsDaemon = s.Node && !s.Virtual && s.asksByHand(image)
	return d
}

// asksByHand says that a NodeImage has a tag that was written by hand, that has not ended, and that is not to be given up yet. A tag that cannot
// be given up, since the server refuses it, must not keep the node daemon deployed.
func (s *Snapshot) asksByHand(image *appsv1beta1.NodeImage) bool {
	for place, entry := range engineimage.Places(&image.Spec) {
		for i := range entry.Tags {
			tag := &entry.Tags[i]
			if tag.CreatedAt == nil || slices.ContainsFunc(tag.OwnerReferences, func(o corev1.ObjectReference) bool { return o.Kind == "ImagePullJob" }) {
				continue
			}
			answer := engineimage.Answer(place.Answers(&image.Status), tag.Tag)
			if ended(tag, answer) {
				continue
			}
			if limit, _ := limitOf(tag, answer); s.Now.Before(limit) {
				return true
			}
		}
	}
	return false
}

// keep returns a tag without the jobs that are gone; false when the tag goes.
func (d *Decision) keep(tag *appsv1beta1.ImageTagSpec, answer *appsv1beta1.ImageTagStatus, s Snapshot) (appsv1beta1.ImageTagSpec, bool) {
	kept := *tag.DeepCopy()
	if tag.CreatedAt == nil {
		return kept, false
	}
	kept.OwnerReferences = slices.DeleteFunc(kept.OwnerReferences, func(o corev1.ObjectReference) bool {
		return o.Kind == "ImagePullJob" && s.Gone(o)
	})
	if len(kept.OwnerReferences) == 0 && len(tag.OwnerReferences) > 0 {
		return kept, false
	}
	if tag.PullPolicy == nil || tag.PullPolicy.TTLSecondsAfterFinished == nil || !ended(tag, answer) {
		return kept, true
	}
	ttl := time.Duration(*tag.PullPolicy.TTLSecondsAfterFinished) * time.Second
	left := ttl - s.Now.Sub(answer.CompletionTime.Time)
	if left <= 0 {
		if !slices.ContainsFunc(kept.OwnerReferences, func(o corev1.ObjectReference) bool { return o.Kind == "ImagePullJob" && s.Working(o) }) {
			return kept, false
		}
		left = max(ttl, time.Minute) // the end of a job triggers no pass here
	}
	d.Recheck(left)
	return kept, true
}

// asked leaves out copies of pull secrets that no job of these tags asks for. What was written by hand stays, and everything does while a job is not
// known, or does not have its own copies yet: it may pull with those that OpenKruise made for it.
func (s *Snapshot) asked(have []appsv1beta1.ImagePullSecret, tags []appsv1beta1.ImageTagSpec) []appsv1beta1.ImagePullSecret {
	if !slices.ContainsFunc(have, func(secret appsv1beta1.ImagePullSecret) bool { return secret.Mode == engineimage.ModeShared }) {
		return have
	}
	wanted := map[appsv1beta1.ImagePullSecret]bool{}
	for i := range tags {
		for _, owner := range tags[i].OwnerReferences {
			if owner.Kind != "ImagePullJob" {
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

// prune writes what has changed, and the labels of the node, in one request.
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

// giveUp fails tags that the node does not answer for.
func (d *Decision) giveUp(image *appsv1beta1.NodeImage, going map[engineimage.Place]any, s Snapshot) {
	status := image.Status.DeepCopy()
	now := podstate.Time(s.Now)
	for place, entry := range engineimage.Places(&image.Spec) {
		if _, changes := going[place]; changes {
			continue // the next pass sees what is left
		}
		for i := range entry.Tags {
			tag := &entry.Tags[i]
			answer := engineimage.Answer(place.Answers(&image.Status), tag.Tag)
			if ended(tag, answer) {
				continue
			}
			limit, message := limitOf(tag, answer)
			if message == messageSilent {
				message = s.silence()
			}
			if left := limit.Sub(s.Now); left > 0 {
				d.Recheck(left)
				continue
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

// silence is why a node says nothing, as far as that is known.
func (s *Snapshot) silence() string {
	switch {
	case s.Virtual:
		return messageVirtual
	case s.DaemonOff:
		return messageOff
	}
	return messageSilent
}

// limitOf is the deadline of a node for a tag that has not ended, and the message when it is exceeded. A node that dies while it pulls, or
// before it does, says nothing more, and its job has to end all the same. The time at which it began is of its own clock: answerTimeout is more than that is
// behind, and no node begins before it is asked.
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
		// It waits for its turn, which no deadline counts.
		return created.Add(longestTurn), messageLate
	case limited:
		return began.Add(deadline + answerTimeout), messageOverdue
	default:
		timeout, backoff = min(timeout, longestTurn), min(backoff, maxTries)
		return began.Add(timeout*time.Duration(backoff+1) + longestWait*time.Duration(backoff) + answerTimeout), messageLate
	}
}

// fail makes an answer that of a tag.
func fail(status *appsv1beta1.NodeImageStatus, place engineimage.Place, answer appsv1beta1.ImageTagStatus) {
	answers := place.Answers(status)
	if before := engineimage.Answer(answers, answer.Tag); before != nil {
		*before = answer
	} else {
		answers.Tags = append(answers.Tags, answer)
	}
	place.SetAnswers(status, answers.Tags)
}

func ended(tag *appsv1beta1.ImageTagSpec, answer *appsv1beta1.ImageTagStatus) bool {
	return answer != nil && answer.Version == tag.Version && answer.CompletionTime != nil
}

// sameTags says that nothing was taken out.
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
