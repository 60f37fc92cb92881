// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/image"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset/podsettest"
)

// simulation is a cluster of nodes with daemons answering on demand. Every write counts.
type simulation struct {
	t      *testing.T
	now    time.Time
	jobs   map[string]*appsv1beta1.ImagePullJob
	nodes  []string
	images map[string]*appsv1beta1.NodeImage
	// again are the UIDs of nodes made again; the others' are their names.
	again map[string]types.UID
	// secrets are the copies of the pull secrets.
	secrets []appsv1beta1.ImagePullSecret
	// uncopied is why they cannot be copied.
	uncopied string
	writes   int
	last     Decision
	// most is how many nodes were asked and had not answered, at most.
	most int
	// log is the history.
	log strings.Builder
}

// began is when every simulation begins.
func began() time.Time { return time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC) }

func newSimulation(t *testing.T, nodes int) *simulation {
	t.Helper()
	w := &simulation{t: t, now: began(), jobs: map[string]*appsv1beta1.ImagePullJob{}, images: map[string]*appsv1beta1.NodeImage{}}
	for i := range nodes {
		w.nodes = append(w.nodes, fmt.Sprintf("n%d", i+1))
	}
	return w
}

func (w *simulation) job(name string, change func(*appsv1beta1.ImagePullJobSpec)) {
	job := &appsv1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name), Generation: 1, ResourceVersion: "1"}}
	job.Spec.Image = "nginx:1.25"
	change(&job.Spec)
	w.jobs[name] = job
}

// pass plans a job once, carries everything out and writes its status.
func (w *simulation) pass(name string) *appsv1beta1.ImagePullJobStatus {
	w.t.Helper()
	job := w.jobs[name]
	spec := Parse(job)
	s := Snapshot{Now: w.now, Released: true, Secrets: w.secrets, Uncopied: w.uncopied}
	for _, node := range w.nodes {
		n := Node{Name: node, UID: w.uidOf(node), Ready: true, Labels: map[string]string{"of": node}}
		if image := w.images[node]; image != nil {
			n.Image = observed(image, job)
		}
		s.Nodes = append(s.Nodes, n)
	}
	w.last = Plan(spec, s)
	w.tell("%s plans", name)
	for i := range w.last.Actions {
		w.carryOut(name, &w.last.Actions[i])
	}
	status := Status(spec, s, w.last, planning.Outcome{Done: len(w.last.Actions)})
	if w.jobs[name] != nil {
		job.Status = status
	}
	w.most = max(w.most, int(status.Active))
	w.tellStatus(&status)
	return &status
}

// observed is a job's view of a NodeImage.
func observed(list *appsv1beta1.NodeImage, job *appsv1beta1.ImagePullJob) *NodeImage {
	_, apart := list.Spec.NamespacedImages[job.Namespace+"/nginx"]
	at := &NodeImage{Meta: &list.ObjectMeta, Place: image.PlaceFor(job.Namespace, "nginx", job.UID, list.Spec.Images["nginx"], apart)}
	for place, entry := range image.Places(&list.Spec) {
		if place == at.Place {
			at.Entry = entry
		}
	}
	at.Status = at.Place.Answers(&list.Status)
	return at
}

// tell adds a line to the log, with the time.
func (w *simulation) tell(format string, args ...any) {
	fmt.Fprintf(&w.log, "%s: %s\n", w.now.Sub(began()), fmt.Sprintf(format, args...))
}

func (w *simulation) tellStatus(s *appsv1beta1.ImagePullJobStatus) {
	fmt.Fprintf(&w.log, "  desired %d active %d succeeded %d failed %d %v %q", s.Desired, s.Active, s.Succeeded, s.Failed, s.FailedNodes, s.Message)
	for _, c := range s.Conditions {
		if c.Status == metav1.ConditionTrue {
			fmt.Fprintf(&w.log, " %s=%s", c.Type, c.Reason)
		}
	}
	if s.CompletionTime != nil {
		fmt.Fprint(&w.log, " ended")
	}
	fmt.Fprintln(&w.log)
}

// golden compares the log with its golden file.
func (w *simulation) golden() {
	w.t.Helper()
	podsettest.CompareGolden(w.t, strings.TrimPrefix(w.t.Name(), "Test"), w.log.String())
}

func (w *simulation) uidOf(node string) types.UID {
	if uid, ok := w.again[node]; ok {
		return uid
	}
	return types.UID(node)
}

func (w *simulation) carryOut(name string, a *planning.Action) {
	w.t.Helper()
	switch a.Step {
	case planning.StepDeleteJob:
		fmt.Fprintf(&w.log, "  %s %s\n", a.Step, a.Reason)
		delete(w.jobs, name)
		return
	case StepAsk, StepSecrets:
	default:
		w.t.Fatalf("step %s", a.Step)
	}
	w.writes++
	node := a.Object.GetName()
	defer func() {
		tag := w.images[node].Spec.Images["nginx"].Tags[0]
		fmt.Fprintf(&w.log, "  %s %s: tag %s, round %d, of %d jobs\n", a.Step, node, tag.Tag, tag.Version, len(tag.OwnerReferences))
	}()
	if a.Verb == planning.VerbCreate {
		image, ok := a.Object.(*appsv1beta1.NodeImage)
		if !ok || w.images[node] != nil {
			w.t.Fatalf("%s is made twice", node)
		}
		if image.Labels["of"] != node || len(image.OwnerReferences) != 1 || image.OwnerReferences[0].UID != w.uidOf(node) {
			w.t.Errorf("%s does not have the labels of its node, or does not go with it: %+v", node, image.ObjectMeta)
		}
		w.images[node] = image.DeepCopy()
		return
	}
	body, err := a.Change.Requests(a.Object)[0].Body(planning.Version{})
	if err != nil {
		w.t.Fatal(err)
	}
	before, err := json.Marshal(w.images[node])
	if err != nil {
		w.t.Fatal(err)
	}
	after, err := jsonpatch.MergePatch(before, body)
	if err != nil {
		w.t.Fatal(err)
	}
	image := &appsv1beta1.NodeImage{}
	if err := json.Unmarshal(after, image); err != nil {
		w.t.Fatal(err)
	}
	w.images[node] = image
}

// answer has nodes end their present round.
func (w *simulation) answer(phase appsv1beta1.ImagePullPhase, nodes ...string) {
	w.t.Helper()
	w.tell("%s on %s", phase, strings.Join(nodes, " "))
	for _, node := range nodes {
		image := w.images[node]
		if image == nil {
			w.t.Fatalf("%s was not asked", node)
		}
		tag := image.Spec.Images["nginx"].Tags[0]
		image.Status.ImageStatuses = map[string]appsv1beta1.ImageStatus{"nginx": {Tags: []appsv1beta1.ImageTagStatus{{
			Tag: tag.Tag, Version: tag.Version, Phase: phase, CompletionTime: ptr.To(metav1.NewTime(w.now)), Message: "said by " + node,
		}}}}
	}
}

func (w *simulation) at(seconds int) {
	w.now = began().Add(time.Duration(seconds) * time.Second)
}

func (w *simulation) pulling(job string) string {
	var names []string
	for _, at := range w.last.nodes {
		if at.stage == active {
			names = append(names, at.Name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func expect(t *testing.T, s *appsv1beta1.ImagePullJobStatus, desired, active, succeeded, failed int32, message string) {
	t.Helper()
	if s.Desired != desired || s.Active != active || s.Succeeded != succeeded || s.Failed != failed || s.Message != message {
		t.Errorf("desired %d active %d succeeded %d failed %d, %q; want %d %d %d %d, %q",
			s.Desired, s.Active, s.Succeeded, s.Failed, s.Message, desired, active, succeeded, failed, message)
	}
}

func expectCondition(t *testing.T, s *appsv1beta1.ImagePullJobStatus, kind string, status metav1.ConditionStatus, reason string) {
	t.Helper()
	for _, c := range s.Conditions {
		if c.Type == kind {
			if c.Status != status || c.Reason != reason {
				t.Errorf("%s is %s (%s: %s), want %s (%s)", kind, c.Status, c.Reason, c.Message, status, reason)
			}
			return
		}
	}
	t.Errorf("there is no condition %s in %+v", kind, s.Conditions)
}

// expire takes the tags of nodes out, as happens when they have ended for long enough.
func (w *simulation) expire(nodes ...string) {
	w.tell("the tags of %s expire", strings.Join(nodes, " "))
	for _, node := range nodes {
		w.images[node].Spec.Images = nil
	}
}
