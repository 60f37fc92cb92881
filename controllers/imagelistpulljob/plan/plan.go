// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
)

// The steps of a list.
const (
	// StepCreateJob creates the ImagePullJob of an image.
	StepCreateJob planning.Step = "CreateImagePullJob"
	// StepDeletePullJob deletes an ImagePullJob the list no longer wants.
	StepDeletePullJob planning.Step = "DeleteImagePullJob"
)

// Reasons of actions.
const (
	reasonNew      = "New"
	reasonOutdated = "Outdated"
)

// maxDeleted is how many ImagePullJobs one plan deletes; the rest is for the next one.
const maxDeleted = 500

// Decision is a plan, and its reasons.
type Decision struct {
	planning.Plan
	// Ended: every image is pulled or given up, and none is to be pulled again.
	Ended bool
	// children are the jobs of spec.Images, in this order; nil: none yet.
	children []*Child
	// blocked are images waiting for a job of the same name to go.
	blocked []string
}

// Plan takes these steps:
//
//  1. do nothing while the list is being deleted: its jobs go with it;
//  2. delete an ended list when its time to live is over, and do nothing else for it;
//  3. create a job for each image, unless one pulls it as the list says;
//  4. delete all other jobs, after creating their replacements;
//  5. end the list when every image's job has, unless it never ends.
func Plan(spec *Spec, s Snapshot) Decision {
	d := Decision{}
	switch {
	case spec.Deleting:
		return d
	case ended(spec):
		d.Ended = true
		d.Expire(Kind(), spec.List, spec.List.Status.CompletionTime, spec.TTL, s.Now)
		return d
	case spec.Invalid != nil || !spec.Managed:
		return d
	}
	kept := d.match(spec, s)
	d.create(spec, s)
	d.deleteOthers(s, kept)
	d.Ended = !spec.Never && !slices.ContainsFunc(d.children, func(c *Child) bool { return c == nil || !c.done(spec) })
	if d.Ended {
		d.Ends(spec.TTL)
	}
	return d
}

// match finds the job of each image. Where there are several, it takes the one with the most progress, then the oldest.
func (d *Decision) match(spec *Spec, s Snapshot) map[*Child]bool {
	byImage := map[string]*Child{}
	for i := range s.Children {
		c := &s.Children[i]
		if c.Terminating || !c.as(spec) {
			continue
		}
		if known := byImage[c.Image]; known == nil || before(c, known) {
			byImage[c.Image] = c
		}
	}
	kept := map[*Child]bool{}
	for _, image := range spec.Images {
		c := byImage[image]
		d.children = append(d.children, c)
		kept[c] = true
	}
	return kept
}

// before: a is rather kept than b.
func before(a, b *Child) bool {
	if a.Ended != b.Ended {
		return a.Ended
	}
	at, bt := a.Object.GetCreationTimestamp(), b.Object.GetCreationTimestamp()
	return cmp.Or(at.Compare(bt.Time), cmp.Compare(a.Object.GetName(), b.Object.GetName())) < 0
}

// create creates missing jobs. A terminating job of the name must go first; its end triggers a pass.
func (d *Decision) create(spec *Spec, s Snapshot) {
	taken := map[string]bool{}
	for i := range s.Children {
		if s.Children[i].Terminating {
			taken[s.Children[i].Object.GetName()] = true
		}
	}
	for i, image := range spec.Images {
		if d.children[i] != nil {
			continue
		}
		job := spec.newChild(image)
		if taken[job.Name] {
			d.blocked = append(d.blocked, image)
			continue
		}
		d.Actions = append(d.Actions, planning.Action{
			Verb: planning.VerbCreate, Step: StepCreateJob, Kind: KindImagePullJob(), Object: job, Slot: planning.Slot(image), Reason: reasonNew,
			Success: planning.Event{Reason: "SuccessfulCreate", Message: fmt.Sprintf("Created ImagePullJob %s for image %s", job.Name, image)},
			Failure: planning.Event{Warning: true, Reason: "FailedCreate", Message: fmt.Sprintf("Creating ImagePullJob %s for image %s", job.Name, image)},
		})
	}
}

func (d *Decision) deleteOthers(s Snapshot, kept map[*Child]bool) {
	deleted := 0
	for i := range s.Children {
		c := &s.Children[i]
		if kept[c] || c.Terminating {
			continue
		}
		if deleted++; deleted > maxDeleted {
			return // the deletions before it trigger a pass over the list
		}
		name := c.Object.GetName()
		d.Actions = append(d.Actions, planning.Action{
			Verb: planning.VerbDelete, Step: StepDeletePullJob, Kind: KindImagePullJob(), Object: c.Object, Slot: planning.Slot(c.Image), Reason: reasonOutdated,
			Propagation: metav1.DeletePropagationBackground,
			Success:     planning.Event{Reason: "SuccessfulDelete", Message: fmt.Sprintf("Deleted ImagePullJob %s of image %s", name, c.Image)},
			Failure:     planning.Event{Warning: true, Reason: "FailedDelete", Message: fmt.Sprintf("Deleting ImagePullJob %s of image %s", name, c.Image)},
		})
	}
}
