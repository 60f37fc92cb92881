// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// The steps of a job.
const (
	// StepAsk asks a node to pull.
	StepAsk planning.Step = "AskNode"
	// StepSecrets gives a pulling node the pull secrets it lacked.
	StepSecrets planning.Step = "AddSecrets"
	// StepRelease lets the job go.
	StepRelease planning.Step = "Release"
)

const (
	// answering is how long nodes may be silent before the status says so.
	answering = time.Minute
	// namespaceRecheck is when to look for the node daemon's namespace again.
	namespaceRecheck = 2 * time.Second
	// askableRecheck is the wait for a node that cannot be asked now: changes of a NodeImage by others trigger no pass.
	askableRecheck = 10 * time.Second
	// maxAsked is how many nodes one plan asks: more could not be written in its time slice.
	maxAsked = 500
)

// Decision is a plan, and its reasons.
type Decision struct {
	planning.Plan
	// Ended: every node has answered, or the deadline is over. Nothing is done any more. Overdue:
	// the deadline ended it in this pass.
	Ended, Overdue bool
	// nodes are all; silent were asked a minute ago without an answer. trying have failed once or wait for their
	// container runtime, and go on.
	nodes          []nodeState
	silent, trying []string
	// count is the nodes at each stage; those asked now are active.
	count map[stage]int
}

// ended: the stored status says so, for good, even if the job is changed to never complete.
func ended(spec *Spec) bool { return spec.Job.Status.CompletionTime != nil }

// Wants reports if the job needs copies of its pull secrets now.
func Wants(spec *Spec) bool {
	return len(spec.Secrets) > 0 && spec.Invalid == nil && !spec.Deleting && !ended(spec)
}

// Plan takes these steps:
//
//  1. release a deleted or ended job's finalizer once its copies of secrets are released; the controller of NodeImages
//     removes its tags;
//  2. delete an ended job when its time to live is over;
//  3. end the job when every node has answered, or its deadline is over;
//  4. ask no node while pull secrets cannot be copied: it would pull without credentials;
//  5. give pulling nodes pull secrets added later, for their remaining tries;
//  6. ask further nodes, as parallelism allows: ready ones first, by name.
//
// Lowering parallelism stops no node already asked.
func Plan(spec *Spec, s Snapshot) Decision {
	d := Decision{count: map[stage]int{}}
	if s.Released && !Wants(spec) {
		d.Unfinalize(StepRelease, Kind(), spec.Job, Finalizer, "SecretsReleased", planning.Event{})
	}
	if spec.Deleting {
		return d
	}
	if ended(spec) {
		d.Ended = true
		d.Expire(Kind(), spec.Job, spec.Job.Status.CompletionTime, spec.TTL, s.Now)
		return d
	}
	if spec.Invalid != nil {
		return d
	}
	for i := range s.Nodes {
		at := spec.look(&s.Nodes[i])
		d.nodes = append(d.nodes, at)
		d.count[at.stage]++
		if at.stage == active && at.message != "" {
			d.trying = append(d.trying, at.Name)
		}
		if at.stage == active && at.silent {
			if left := answering - s.Now.Sub(at.since); left > 0 {
				d.Recheck(left)
			} else {
				d.silent = append(d.silent, at.Name)
			}
		}
	}
	if d.Plan.Overdue(spec.Job.Status.StartTime, spec.Deadline, s.Now) {
		d.Ended, d.Overdue = true, true
	} else if !spec.Never && d.count[idle]+d.count[active] == 0 {
		d.Ended = true
	}
	if d.Ended {
		d.Ends(spec.TTL)
		return d
	}
	if s.NoNamespace {
		d.Recheck(namespaceRecheck) // it comes with the node daemon, and its creation triggers no pass
		return d
	}
	if s.Uncopied != "" {
		return d // who copies says when to try again
	}
	d.addSecrets(spec, s)
	d.ask(spec, s)
	return d
}

// addSecrets gives pulling nodes the pull secrets added since. Their round stays the same.
func (d *Decision) addSecrets(spec *Spec, s Snapshot) {
	for i := range d.nodes {
		at := &d.nodes[i]
		if at.stage != active || !spec.askable(at.Node) {
			continue
		}
		entry, have := at.Image.Entry, at.Image.Entry.PullSecrets
		entry.PullSecrets = withSecrets(slices.Clone(have), s.Secrets)
		if len(entry.PullSecrets) == len(have) || len(d.Actions) >= maxAsked {
			continue
		}
		d.Actions = append(d.Actions, planning.Action{
			Verb: planning.VerbPatch, Step: StepSecrets, Kind: KindNodeImage(), Slot: planning.Slot(at.Name), Reason: "PullSecrets",
			Object: &appsv1beta1.NodeImage{ObjectMeta: *at.Image.Meta},
			Change: at.Image.merge(entry),
		})
	}
}

// noteParallelism: nodes wait because as many pull as may.
const noteParallelism = "Parallelism"

// ask asks as many nodes as may pull at once. One the server refused leaves its place to others until its next try.
func (d *Decision) ask(spec *Spec, s Snapshot) {
	free := min(spec.Parallelism-d.count[active], maxAsked)
	var refused []*nodeState
	waiting := 0
	for _, ready := range []bool{true, false} {
		for i := range d.nodes {
			at := &d.nodes[i]
			switch {
			case at.stage != idle || at.Ready != ready:
			case d.SetAside(s.Retries, planning.RetryKey{Step: StepAsk, Name: at.Name}, free > 0):
				refused = append(refused, at)
			case free <= 0:
				waiting++
			case d.askNode(spec, s, at):
				if at.Image == nil {
					// Another job may just have made the NodeImage, without this image. Its event does not reach this job.
					d.Recheck(afterCreation)
				}
				d.begins(at)
				free--
			}
		}
	}
	for _, at := range refused {
		if d.askNode(spec, s, at) && free > 0 {
			d.begins(at)
			free--
		}
	}
	if waiting > 0 {
		d.Held = append(d.Held, planning.Note{
			Reason: noteParallelism, Message: fmt.Sprintf("%s: spec.parallelism is %d", podset.Count(waiting, "node waits", "nodes wait"), spec.Parallelism),
		})
	}
}

// askNode asks a node, unless it cannot be asked now.
func (d *Decision) askNode(spec *Spec, s Snapshot, at *nodeState) bool {
	if !spec.askable(at.Node) {
		d.Recheck(askableRecheck)
		return false
	}
	d.Actions = append(d.Actions, spec.asking(at.Node, s))
	return true
}

// begins counts an asked node as pulling.
func (d *Decision) begins(at *nodeState) {
	at.stage = active
	d.count[idle]--
	d.count[active]++
}

// afterCreation is when to look for the image in a created NodeImage.
const afterCreation = time.Second

func (s *Spec) asking(n *Node, snapshot Snapshot) planning.Action {
	action := planning.Action{
		Verb: planning.VerbPatch, Step: StepAsk, Kind: KindNodeImage(), Slot: planning.Slot(n.Name), Reason: "Parallelism",
		Failure: planning.Event{Warning: true, Reason: "FailedCreate", Message: "Asking node " + n.Name + " to pull"},
	}
	entry := s.entry(n, snapshot.Now, snapshot.Secrets)
	if n.Image == nil {
		// It goes with its node.
		action.Verb, action.KeepExisting = planning.VerbCreate, true
		action.Object = &appsv1beta1.NodeImage{
			ObjectMeta: metav1.ObjectMeta{
				Name:            n.Name,
				Labels:          n.Labels,
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID}},
			},
			Spec: appsv1beta1.NodeImageSpec{Images: map[string]appsv1beta1.ImageSpec{s.Image.Repository: entry}},
		}
		return action
	}
	action.Object = &appsv1beta1.NodeImage{ObjectMeta: *n.Image.Meta}
	action.Change = n.Image.merge(entry)
	return action
}

// merge turns the entry of the job's repository into another one, by a merge patch.
func (i *NodeImage) merge(entry appsv1beta1.ImageSpec) planning.RawPatch {
	// API types can always be rendered.
	was, _ := json.Marshal(i.Entry)
	is, _ := json.Marshal(entry)
	change, _ := jsonpatch.CreateMergePatch(was, is)
	spec := map[string]any{}
	i.Place.Set(spec, json.RawMessage(change))
	return planning.MergePatch(i.Meta, map[string]any{"spec": spec})
}
