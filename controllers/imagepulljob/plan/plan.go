// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// The steps of a job.
const (
	// StepAsk asks a node to pull.
	StepAsk planning.Step = "AskNode"
	// StepSecrets gives a node that pulls already the pull secrets that it was not given then.
	StepSecrets planning.Step = "AddSecrets"
	// StepRelease lets the job go.
	StepRelease planning.Step = "Release"
)

const (
	// answering is how long nodes may be silent before the status says so.
	answering = time.Minute
	// namespaceRecheck is when to look for the node daemon's namespace again.
	namespaceRecheck = 2 * time.Second
	// askableRecheck is when to look again at a node that cannot be asked now: what changes in a NodeImage without the job triggers no pass.
	askableRecheck = 10 * time.Second
	// maxAsked is how many nodes one plan asks: more could not be written in its time slice.
	maxAsked = 500
)

// Stage is the stage of a job.
type Stage string

// The stages of a job.
const (
	// Running: nodes pull, or wait for their turn.
	Running Stage = "Running"
	// Ended: every node has answered, or the deadline is over. Nothing is done any more.
	Ended Stage = "Ended"
)

// Decision is a plan, and its reasons.
type Decision struct {
	planning.Plan
	// Stage is what the job is at. Overdue says that its deadline ended it in this pass.
	Stage   Stage
	Overdue bool
	// nodes are the nodes, silent those that were asked a minute ago and have not answered. trying have failed at least once, or wait for their
	// container runtime, and go on.
	nodes          []nodeState
	silent, trying []string
	// count is how many nodes are at each stage, with those that are asked now counted as active.
	count map[stage]int
}

// ended says that the stored status says that the job is over. It stays so, also when it is changed to one that never completes.
func ended(spec *Spec) bool { return spec.Job.Status.CompletionTime != nil }

// Wants says whether the job needs copies of its pull secrets now.
func Wants(spec *Spec) bool {
	return len(spec.Secrets) > 0 && spec.Invalid == nil && !spec.Deleting && !ended(spec)
}

// Plan says what to do now:
//
//  1. a job that is being deleted, or has ended, loses its finalizer when its copies of secrets are released; the controller of NodeImages
//     removes its tags;
//  2. a job that has ended is deleted when its time to live is over;
//  3. the job ends when every node has answered, and when its deadline is over;
//  4. no node is asked while there is no place for copies of its pull secrets, or they cannot be made: it would pull without credentials;
//  5. nodes that pull get copies of pull secrets that were added later, for their remaining tries;
//  6. nodes that were not asked yet are asked, as parallelism allows: those that are ready first, in the order of their names.
//
// Nodes that were asked before parallelism was lowered go on.
func Plan(spec *Spec, s Snapshot) Decision {
	d := Decision{Stage: Running, count: map[stage]int{}}
	d.release(spec, s)
	if spec.Deleting {
		return d
	}
	if ended(spec) {
		d.Stage = Ended
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
		d.Stage, d.Overdue = Ended, true
	} else if !spec.Never && d.count[idle]+d.count[active] == 0 {
		d.Stage = Ended
	}
	if d.Stage == Ended {
		if spec.TTL >= 0 {
			d.Recheck(max(spec.TTL, time.Second))
		}
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

// addSecrets gives nodes that pull the copies of pull secrets that were not there when they were asked. Their round stays the same.
func (d *Decision) addSecrets(spec *Spec, s Snapshot) {
	for i := range d.nodes {
		at := &d.nodes[i]
		if at.stage != active || !spec.askable(at.Node) {
			continue
		}
		have := at.Image.Entry.PullSecrets
		all := withSecrets(slices.Clone(have), s.Secrets)
		if len(all) == len(have) || len(d.Actions) >= maxAsked {
			continue
		}
		d.Actions = append(d.Actions, planning.Action{
			Verb: planning.VerbPatch, Step: StepSecrets, Kind: KindNodeImage(), Slot: planning.Slot(at.Name), Reason: "PullSecrets",
			Object: &appsv1beta1.NodeImage{ObjectMeta: *at.Image.Meta},
			Change: at.Image.merge(map[string]any{"pullSecrets": all}),
		})
	}
}

// release takes the finalizer off a job that needs it no more.
func (d *Decision) release(spec *Spec, s Snapshot) {
	if !s.Released || Wants(spec) {
		return
	}
	finalizers := slices.DeleteFunc(slices.Clone(spec.Job.Finalizers), func(name string) bool { return name == Finalizer })
	if len(finalizers) == len(spec.Job.Finalizers) {
		return
	}
	d.Actions = append(d.Actions, planning.Action{
		Verb: planning.VerbPatch, Step: StepRelease, Kind: Kind(), Object: spec.Job, Reason: "SecretsReleased",
		Change: planning.MetadataPatch(spec.Job, map[string]any{"finalizers": finalizers}),
	})
}

// noteParallelism: nodes wait because as many pull as may.
const noteParallelism = "Parallelism"

// ask asks as many nodes as may pull beside those that do. One that the server refused to ask leaves its place to the others until its next try.
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
					// Another job may have made the NodeImage just before, for its own image alone. No event of that object is about this job.
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

// begins counts a node that is asked among those that pull.
func (d *Decision) begins(at *nodeState) {
	at.stage = active
	d.count[idle]--
	d.count[active]++
}

// afterCreation is when to look whether a NodeImage that was made has the image.
const afterCreation = time.Second

// asking is the write by which a node is asked.
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
	change := map[string]any{"pullSecrets": entry.PullSecrets, "tags": entry.Tags}
	if wanted := s.Job.Spec.SandboxConfig; wanted != nil {
		change["sandboxConfig"] = replacing(ptr.Deref(n.Image.Entry.SandboxConfig, appsv1beta1.SandboxConfig{}), wanted)
	}
	action.Change = n.Image.merge(change)
	return action
}

// replacing is a merge patch that leaves nothing of what was there: the last job says with what an image is pulled.
func replacing(was appsv1beta1.SandboxConfig, wanted *appsv1beta1.SandboxConfig) map[string]any {
	texts := func(was, wanted map[string]string) map[string]any {
		change := map[string]any{}
		for key := range was {
			change[key] = nil
		}
		for key, value := range wanted {
			change[key] = value
		}
		return change
	}
	return map[string]any{"labels": texts(was.Labels, wanted.Labels), "annotations": texts(was.Annotations, wanted.Annotations)}
}

// merge is a merge patch of the entry of the job's repository.
func (i *NodeImage) merge(entry map[string]any) planning.RawPatch {
	spec := map[string]any{}
	i.Place.Set(spec, entry)
	return planning.MergePatch(i.Meta, map[string]any{"spec": spec})
}
