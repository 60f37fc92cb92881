// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package probing

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// maxMessage is the longest message of a result, in bytes.
const maxMessage = 1024

// maxError is the longest error of a failed try, in bytes.
const maxError = 256

// Container is the runtime's view of a probe's newest container.
type Container struct {
	// Found: there is one.
	Found bool
	// ID is the runtime's.
	ID string
	// Running: it runs, since Started.
	Running bool
	Started time.Time
}

// Outcome is how one try of a probe ended.
type Outcome struct {
	// Success is the probe's result. It means nothing with an Error.
	Success bool
	// Message is the probe's message.
	Message string
	// Error says why the probe could not be carried out; empty when it was.
	Error string
}

// Machine is the state of one probe of one container on its node. Each try is two calls: Begin with
// the runtime's view of the container, and, if that says so, End with the outcome. The zero value
// knows nothing.
type Machine struct {
	probe corev1.Probe
	// container is the ID behind the results; empty if unknown.
	container string
	// last and run are the last outcome, and how many in a row were like it.
	last bool
	run  int32
	// errors is how many tries in a row could not be made.
	errors int32
	// state is the answer so far.
	state appsv1alpha1.ContainerProbeState
}

// NewMachine returns a machine for a probe with its stored result; nil when there is none.
func NewMachine(probe *corev1.Probe, before *appsv1alpha1.ContainerProbeState) *Machine {
	m := &Machine{}
	probe.DeepCopyInto(&m.probe)
	if before != nil {
		m.state = *before.DeepCopy()
	}
	return m
}

// State is the result to report.
func (m *Machine) State() appsv1alpha1.ContainerProbeState { return *m.state.DeepCopy() }

// Redefine goes on with another probe. If it does another thing, nothing is known any more; other
// times and thresholds hold from the next try on.
func (m *Machine) Redefine(probe *corev1.Probe, now time.Time) {
	if !equality.Semantic.DeepEqual(m.probe.ProbeHandler, probe.ProbeHandler) {
		m.forget(now)
	}
	probe.DeepCopyInto(&m.probe)
}

// Begin says whether to carry the probe out now:
//
//  1. without a container nothing is known and nothing changes;
//  2. another container than before: the earlier result no longer holds, and counting starts anew;
//  3. a stopped container has failed, without a try;
//  4. a new one is left alone for initialDelaySeconds.
func (m *Machine) Begin(c Container, name string, now time.Time) bool {
	if !c.Found {
		return false
	}
	if m.replaced(c) {
		m.forget(now)
	}
	m.container = c.ID
	if !c.Running {
		m.run = 0
		m.say(appsv1alpha1.ProbeFailed, "Container("+name+") is Non-running", now)
		m.errors, m.state.Error = 0, ""
		return false
	}
	return now.Sub(c.Started) >= time.Duration(m.probe.InitialDelaySeconds)*time.Second
}

// replaced says that the container is not the one of the results. A new daemon knows that only of a
// container with a start after the last of them.
func (m *Machine) replaced(c Container) bool {
	if m.container != "" {
		return m.container != c.ID
	}
	return m.state.LastProbeTime != nil && c.Started.Truncate(time.Second).After(m.state.LastProbeTime.Time)
}

// forget drops all knowledge. Without any there is still nothing to say.
func (m *Machine) forget(now time.Time) {
	m.run = 0
	if m.state.State != "" {
		m.say(appsv1alpha1.ProbeUnknown, "", now)
	}
}

// End takes the outcome of a try. An impossible try leaves the state and the row of results as they
// are. Only failureThreshold such tries in a row are reported, so a restart of the runtime is not.
func (m *Machine) End(o Outcome, now time.Time) {
	if o.Error != "" {
		if m.errors++; m.errors >= max(m.probe.FailureThreshold, 1) {
			m.errors = max(m.probe.FailureThreshold, 1) // it need not count further
			m.state.Error = clip(o.Error, maxError)
		}
		return
	}
	m.errors, m.state.Error = 0, ""
	if o.Success != m.last {
		m.run = 0
	}
	m.last = o.Success
	m.run++
	state, threshold := appsv1alpha1.ProbeFailed, m.probe.FailureThreshold
	if o.Success {
		state, threshold = appsv1alpha1.ProbeSucceeded, m.probe.SuccessThreshold
	}
	if m.run < max(threshold, 1) {
		return
	}
	m.run = max(threshold, 1) // it need not count further
	m.say(state, clip(o.Message, maxMessage), now)
}

// say sets the state and message to report.
func (m *Machine) say(state appsv1alpha1.ProbeState, message string, now time.Time) {
	at := podstate.Time(now)
	if m.state.State != state {
		m.state.State = state
		m.state.LastTransitionTime = &at
	} else if m.state.Message == message {
		return
	}
	m.state.Message = message
	probed := metav1.Time{Time: at.Time}
	m.state.LastProbeTime = &probed
}

// clip cuts a text to a length in bytes, and takes out all but text: the API server would store
// something else.
func clip(text string, most int) string {
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}
