// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package conditions builds the conditions of a status, in whatever type a kind stores them: the kind translates its own type from and
// to Condition, and everything between is here.
package conditions

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// Condition is one statement about an object.
type Condition struct {
	Type            string
	Status          corev1.ConditionStatus
	Reason, Message string
	// LastTransitionTime is since when the status holds, LastUpdateTime since when the whole
	// condition does. A List fills them in. Types without LastUpdateTime leave it out.
	LastTransitionTime, LastUpdateTime metav1.Time
	// LastProbeTime is OpenKruise's, in types with one. A List keeps it while the status stays.
	LastProbeTime *metav1.Time
}

// New is a statement without times.
func New[T ~string](kind T, is bool, reason, message string) Condition {
	status := corev1.ConditionFalse
	if is {
		status = corev1.ConditionTrue
	}
	return Condition{Type: string(kind), Status: status, Reason: reason, Message: message}
}

// Find returns the condition of a type, if there is one.
func Find[T ~string](all []Condition, kind T) (Condition, bool) {
	i := slices.IndexFunc(all, func(c Condition) bool { return c.Type == string(kind) })
	if i < 0 {
		return Condition{}, false
	}
	return all[i], true
}

// EqualIgnoringMessages compares types, statuses and reasons, in their order. Messages and times
// can change with every pass.
func EqualIgnoringMessages[T any](a, b []T) bool { return slices.EqualFunc(From(a), From(b), alike) }

// Contains says that the list has a condition with the same type, status and reason, whatever its
// message.
func Contains(all []Condition, c Condition) bool {
	return slices.ContainsFunc(all, func(other Condition) bool { return alike(c, other) })
}

// Begun are the conditions of a status that are True now, and were not, or for another reason.
func Begun[T any](before, after []T) (begun []Condition) {
	was := From(before)
	for _, c := range From(after) {
		if c.Status == corev1.ConditionTrue && !Contains(was, c) {
			begun = append(begun, c)
		}
	}
	return begun
}

func alike(a, b Condition) bool {
	return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason
}

// maxMessage is the longest message of a metav1.Condition, in bytes, by its schema. Other types
// have the same limit: the faults of a template, or a webhook's answer, could make a status too
// large.
const maxMessage = 32768

// List builds the conditions of a status. A condition keeps its transition time while its status
// stays, and its update time while all of it stays. Others are dropped. Messages are cut to
// maxMessage.
type List struct {
	before, after []Condition
	now           metav1.Time
}

// NewList returns an empty list for a status with the conditions before.
func NewList(before []Condition, now time.Time) *List {
	return &List{before: before, now: podstate.Time(now)}
}

// Now is the time of changes, in whole seconds.
func (l *List) Now() metav1.Time { return l.now }

// Set adds conditions and fills in missing times.
func (l *List) Set(conditions ...Condition) {
	for _, c := range conditions {
		c.Message = strings.ToValidUTF8(c.Message[:min(len(c.Message), maxMessage)], "")
		old, known := Find(l.before, c.Type)
		same := known && old.Status == c.Status
		if c.LastTransitionTime = l.now; same && !old.LastTransitionTime.IsZero() {
			c.LastTransitionTime = old.LastTransitionTime
		}
		if same {
			c.LastProbeTime = old.LastProbeTime
		}
		if c.LastUpdateTime.IsZero() {
			c.LastUpdateTime = l.now
			if same && old.Reason == c.Reason && old.Message == c.Message && !old.LastUpdateTime.IsZero() {
				c.LastUpdateTime = old.LastUpdateTime
			}
		}
		l.after = append(l.after, c)
	}
}

// SetIf adds a condition if there is one.
func (l *List) SetIf(c Condition, ok bool) {
	if ok {
		l.Set(c)
	}
}

// Keep adds the conditions of some types as they were before, where there were any.
func (l *List) Keep(kinds ...string) {
	for _, kind := range kinds {
		if old, ok := Find(l.before, kind); ok {
			l.after = append(l.after, old)
		}
	}
}

// Was says that the condition of a type was there before, with this status.
func (l *List) Was(kind string, is corev1.ConditionStatus) bool {
	old, ok := Find(l.before, kind)
	return ok && old.Status == is
}

// All returns the new list.
func (l *List) All() []Condition { return l.after }

// Ignored collects the user's settings without effect, one sentence each.
type Ignored struct {
	// GateOff names fields with their feature gate off, Unparsable unreadable values, NoEffect
	// other ones.
	GateOff, Unparsable, NoEffect []string
}

// ByGate notes that the feature gate of a field, or of an annotation, is off.
func (i *Ignored) ByGate(field, gate string) {
	i.GateOff = append(i.GateOff, field+" is ignored because feature gate "+gate+" is off")
}

// SetIfEdited adds the condition about a job with an edit after its end. The end was observed at a generation. Once there, the condition stays.
func (l *List) SetIfEdited(observed, generation int64) {
	const kind = "FieldsIgnored"
	if _, known := Find(l.before, kind); known || observed > 0 && observed < generation {
		l.Set(New(kind, true, appsv1beta1.ReasonNoEffect, "spec was changed after the job had ended. Nothing but its time to live has an effect: create another job"))
	}
}

// FieldsIgnored is the condition of the given type about Ignored; false if nothing is.
func FieldsIgnored[T ~string](kind T, ignored Ignored) (Condition, bool) {
	reason := appsv1beta1.ReasonFeatureGateOff
	switch {
	case len(ignored.Unparsable) > 0:
		reason = appsv1beta1.ReasonUnreadable
	case len(ignored.GateOff) == 0:
		reason = appsv1beta1.ReasonNoEffect
	}
	all := slices.Concat(ignored.GateOff, ignored.Unparsable, ignored.NoEffect)
	return New(kind, true, reason, strings.Join(all, "; ")), len(all) > 0
}

// First joins the first few parts of a message and says how many there are beside them, if any: "a, b and 3 more" with the separator ", ", and
// "a; b; and 3 more" with "; ". Messages are read by people, and lists in them have a limit.
func First(parts []string, most int, separator string) string {
	if len(parts) <= most {
		return strings.Join(parts, separator)
	}
	return fmt.Sprintf("%s%s and %d more", strings.Join(parts[:most], separator), strings.TrimRight(separator, ", "), len(parts)-most)
}
