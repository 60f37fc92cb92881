// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import "errors"

// Reading is one route as it was read, and what its provider would change.
type Reading struct {
	RouteState
	// Set is the change of SetRoutes, End that of EndRoutes. DisownRoutes patches with Disown.
	Set, End Change
	Disown   map[string]any
}

// Read asks a provider about a route; object is nil when it is not there, own is that of Beside.
func Read(p Provider, name string, object, own map[string]any, names Names, share Share, goal Goal) (Reading, error) {
	r := Reading{RouteState: RouteState{Name: name, Exists: object != nil}}
	var err error
	if r.End, err = p.Want(object, own, names, Share{}); err != nil && !r.refused(err) {
		return r, err
	}
	r.Back, r.Rest = r.End.Done() && err == nil, r.End.Later
	if goal.Routes() && object != nil {
		if r.Set, err = p.Want(object, own, names, share); err != nil && !r.refused(err) {
			return r, err
		}
		r.Current, r.Rest = r.Set.Done() && err == nil, r.Set.Later
	}
	r.Disown = Disown(object)
	r.Marked = len(r.Disown) > 0
	r.Sight, r.Why = p.Seen(object, own)
	return r, nil
}

// refused notes what only the user can change.
func (r *Reading) refused(err error) bool {
	var refusal *Refusal
	if errors.As(err, &refusal) {
		r.Fault = refusal.Reason
	}
	return refusal != nil
}
