// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// Record is the place of an update of some containers on the pod, by somebody without the pod. Such
// an update changes images alone. It has no grace period, no lifecycle state and no readiness gate,
// and leaves the labels to the workload. It goes Begin, Check and Continue until Check says Done.
//
// Several owners can share the two annotations. An edit writes the observed values back with the
// owner's member changed, so it is tied to the observed version of the pod.
type Record struct {
	// State and Evidence are the keys of the two annotations.
	State, Evidence string
	// Member is the name of the owner. The value of each annotation is a JSON object with one member for every owner.
	Member string
}

// Begin returns the edit for new images, or its first batch with launch priorities. images are the
// wanted images of all the owner's containers, by name; running ones and missing containers are
// left out. Unproven containers stay part of Check, so an update can begin during another one. The
// edit is zero when the record names the revision and every image is right.
func (r Record) Begin(pod *corev1.Pod, revision string, images map[string]string, now time.Time) edit.Edit {
	// An unreadable record is replaced: images has all that is wanted.
	earlier, found, err := r.read(pod)
	wanted := change{images: maps.Clone(images)}.against(pod)
	if err == nil && found && earlier.Revision == revision && wanted.isZero() && earlier.pending().isZero() {
		return edit.Edit{}
	}
	var update run
	update.Revision, update.UpdateTimestamp = revision, podstate.Time(now)
	update.evidence.Generation = earlier.evidence.Generation
	report := readReport(pod)
	earlier.copyUnproven(pod, report, now, &update.LastContainerStatuses, &update.evidence)
	update.UpdateImages = len(update.LastContainerStatuses) > 0
	e := update.start(pod, wanted, now)
	r.write(&e, pod, update)
	return e
}

// Check is the progress of the update: None without a record, Done with proof of every changed
// image.
func (r Record) Check(pod *corev1.Pod, now time.Time) Status { return r.Read(pod).Check(pod, now) }

// Continue returns the edit of the next batch, after Check's ReasonNextBatch. False: there is
// nothing to write now.
func (r Record) Continue(pod *corev1.Pod, now time.Time) (edit.Edit, bool) {
	update, found, err := r.read(pod)
	if err != nil || !found || update.check(pod, Options{}, now).Reason != ReasonNextBatch {
		return edit.Edit{}, false
	}
	e := update.start(pod, update.pending(), now)
	r.write(&e, pod, update)
	return e, true
}

// Recorded is a decoded Record of a pod: many looks at a pod with the same annotations decode it
// once.
type Recorded struct {
	record          Record
	state, evidence string
	update          run
	found           bool
	err             error
}

// Read decodes the record.
func (r Record) Read(pod *corev1.Pod) Recorded {
	update, found, err := r.read(pod)
	return Recorded{record: r, state: pod.Annotations[r.State], evidence: pod.Annotations[r.Evidence], update: update, found: found, err: err}
}

// Current says that Read would find the same on the pod.
func (d *Recorded) Current(pod *corev1.Pod) bool {
	return d.record != Record{} && d.state == pod.Annotations[d.record.State] && d.evidence == pod.Annotations[d.record.Evidence]
}

// Unproven says that a container is part of the update without proof of its new image: its status
// may be the container's before, or a later batch changes it.
func (d Recorded) Unproven(pod *corev1.Pod, container string, now time.Time) bool {
	if d.err != nil {
		return true
	}
	if _, later := d.update.NextContainerImages[container]; later {
		return true
	}
	_, changed := d.update.LastContainerStatuses[container]
	return changed && (!d.update.observed(pod) || !d.update.effectOn(pod, container, readReport(pod), now).proven)
}

// Check is Record.Check for the pod of this record.
func (d Recorded) Check(pod *corev1.Pod, now time.Time) Status {
	switch {
	case d.err != nil:
		return malformed(d.err)
	case !d.found:
		return Status{}
	}
	return d.update.check(pod, Options{}, now)
}

// Revision is the record's revision; empty without an update, or if it is unreadable.
func (d Recorded) Revision() string { return d.update.Revision }

// Began is the begin of the record's last batch; zero without one, or if it is unreadable.
func (d Recorded) Began() time.Time { return d.update.began() }

func (r Record) read(pod *corev1.Pod) (update run, found bool, err error) {
	states, err := members(pod, r.State)
	if err != nil || states[r.Member] == nil {
		return run{}, err != nil, err
	}
	// Unreadable evidence counts as absent, as for a whole pod.
	evidence, _ := members(pod, r.Evidence)
	update, err = decodeRun(states[r.Member], evidence[r.Member])
	if err != nil {
		return run{}, true, fmt.Errorf("decoding annotation %s: %w", r.State, err)
	}
	return update, true, nil
}

func (r Record) write(e *edit.Edit, pod *corev1.Pod, update run) {
	state, evidence := update.encode(pod.Generation, e.Generation(pod))
	setMember(e, pod, r.State, r.Member, state)
	setMember(e, pod, r.Evidence, r.Member, evidence)
}

// members are the members of an annotation's value; none when the pod does not have the annotation.
func members(pod *corev1.Pod, key string) (map[string]json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	raw, found := pod.Annotations[key]
	if !found {
		return all, nil
	}
	if err := json.Unmarshal([]byte(raw), &all); err != nil {
		return nil, fmt.Errorf("decoding annotation %s: %w", key, err)
	}
	return all, nil
}

// setMember sets or, with a nil value, removes a member. Other members stay as they are, unless the annotation cannot be decoded.
func setMember(e *edit.Edit, pod *corev1.Pod, key, member string, value json.RawMessage) {
	all, err := members(pod, key)
	if err != nil {
		all = map[string]json.RawMessage{}
	}
	if value == nil {
		delete(all, member)
	} else {
		all[member] = value
	}
	if len(all) == 0 {
		remove(e, pod, key)
		return
	}
	text, _ := json.Marshal(all) // it is JSON already
	e.SetAnnotation(key, string(text))
}
