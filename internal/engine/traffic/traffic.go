// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package traffic is what all ways of routing requests to a new version share. It has no client, clock, randomness or log.
//
// A provider gets an object as it is stored, and answers with a patch. Nobody else's field is lost, and nothing depends on what the
// operator remembers: the state before the release follows from the object and the note in it.
package traffic

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
)

// Share is what the new version gets. Requests that match all go to it; of the others it gets a weight.
type Share struct {
	// Weight is in percent; nil: the other requests go as before the release.
	Weight *int32 `json:"weight,omitempty"`
	// Matches choose requests; one of them has to match.
	Matches []v1beta1.HTTPRouteMatch `json:"matches,omitempty"`
	// Headers are changed in requests to the new version.
	Headers *v1beta1.HTTPHeaderFilter `json:"headers,omitempty"`
}

// None says that the new version gets nothing, and routes are as before the release.
func (s Share) None() bool { return s.Weight == nil && len(s.Matches) == 0 }

// Routed says that some request goes to the new version.
func (s Share) Routed() bool { return len(s.Matches) > 0 || s.Weight != nil && *s.Weight > 0 }

// Names are those of a Rollout and of its Services.
type Names struct {
	Rollout string
	// Stable is the Service of the user, Canary that of the new version. They are one when there is none for the new version.
	Stable, Canary string
}

// Change makes objects as they should be.
type Change struct {
	// Patch is a merge patch for the object of the user; empty: it stays.
	Patch map[string]any
	// Own is the object of the Rollout to create or replace; nil: it stays.
	Own map[string]any
	// Gone: that object is to be deleted. Later: when the gateway has seen the rest.
	Gone, Later bool
	// Corrected: somebody else changed what the operator had set.
	Corrected bool
}

// Done says that all is as it should be, but for what is deleted later.
func (c Change) Done() bool { return len(c.Patch) == 0 && c.Own == nil && !c.Gone }

// Sight is whether a gateway has seen an object.
type Sight int

// What a gateway says.
const (
	// Behind: it has not seen the last change.
	Behind Sight = iota
	// Silent: it says nothing about objects like this; time has to do.
	Silent
	// Seen: the last change is in force.
	Seen
	// Refused: it does not accept the object.
	Refused
)

// Refusal says what the user has to change before requests can be routed.
type Refusal struct{ Reason string }

// Error implements error.
func (r *Refusal) Error() string { return r.Reason }

// Refuse makes a Refusal.
func Refuse(format string, args ...any) error { return &Refusal{Reason: fmt.Sprintf(format, args...)} }

// ErrNever is about a match of a step: no request can have it together with one of the route.
var ErrNever = errors.New("no request can match")

// Provider is a way of routing requests. It gets the object of the user as it is stored, and the one of the Rollout beside it; nil: there is none.
type Provider interface {
	// Check says what of a share it can never express; path is that of the step.
	Check(share Share, names Names, path *field.Path) field.ErrorList
	// Beside is the name of the object of the same kind that a Rollout may have beside one of the user; empty: none.
	Beside(name string, names Names) string
	// Want says how the object becomes what the share needs. A fault of the object or of the share is a Refusal. Without a share it becomes what
	// it was before the release, with the edits that its user made meanwhile; then it may be nil, and only the Rollout's own is left to end.
	Want(object, own map[string]any, names Names, share Share) (Change, error)
	// Seen says whether the gateway has seen both.
	Seen(object, own map[string]any) (Sight, string)
}
