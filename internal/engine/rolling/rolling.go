// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rolling

const (
	// MinReadySeconds keeps new pods from ever counting as available.
	MinReadySeconds = 1<<31 - 2
	// ProgressDeadlineSeconds has to be larger than MinReadySeconds.
	ProgressDeadlineSeconds = 1<<31 - 1
)

// Set is a ReplicaSet.
type Set struct {
	// Replicas is its size by its spec.
	Replicas int
	// Ready are its pods that are ready by the minReadySeconds of the user.
	Ready int
	// Desired is the size of the Deployment when its controller last scaled the set.
	Desired int
	// Slow: its pods never count as available.
	Slow bool
}

// stay are the ready pods that are left when the size of the spec is reached: pods that are not ready go first.
func (s Set) stay() int { return min(s.Ready, s.Replicas) }

// View is what was read of a Deployment.
type View struct {
	// Replicas is its size, Limit how many pods may be new.
	Replicas, Limit int
	// Surge and Unavailable are the limits of the user.
	Surge, Unavailable int
	// Moving: our numbers are in its spec, not those of the user.
	Moving bool
	// Uncounting: it is paused with our minReadySeconds.
	Uncounting bool
	// Loose: it is not paused, and has the numbers of the user.
	Loose bool
	// InForce is the maxSurge of its spec while it moves.
	InForce int
	// Last: every pod may be new, for good.
	Last bool
	// Patient: new pods of the step are not ready yet.
	Patient bool
	// Observed: the Deployment controller has seen the spec.
	Observed bool
	// CaughtUp: by its status, its controller has seen the ReplicaSets as they are, and these have the size of their spec.
	CaughtUp bool
	// Refused: pods of a ReplicaSet cannot be made, so it will not have the size of its spec.
	Refused bool
	// Counted: pods of the New ReplicaSet count as available.
	Counted bool
	// New is the ReplicaSet of the template, Old are the others, the oldest first.
	New Set
	Old []Set
	// Stable is the index in Old of the version before the release; -1: it is not there. The caller fills it in.
	Stable int
}

// Verb is what to do next.
type Verb string

// All verbs.
const (
	// Wait for pods or for the Deployment controller.
	Wait Verb = "wait"
	// Uncount writes our minReadySeconds to the paused Deployment. Without a surge its controller takes an old pod, the oldest first, when
	// it resumes while new pods count as available.
	Uncount Verb = "uncount"
	// Move writes our numbers with the Surge.
	Move Verb = "move"
	// Lower gives an old set another size: a lower one, but where too few old pods are kept.
	Lower Verb = "lower"
	// Note gives an old set the size of the Deployment, and notes it as the controller does. Without the note it stands still.
	Note Verb = "note"
	// Slow keeps the pods of a set from counting as available, Quick gives the set the minReadySeconds of the user back.
	Slow  Verb = "slow"
	Quick Verb = "quick"
	// Reached: there are as many new and old pods as there should be.
	Reached Verb = "reached"
	// Free writes the numbers of the user: its controller does the rest. Stop pauses it, and nothing else.
	Free Verb = "free"
	Stop Verb = "stop"
)

// Step is one write, or none.
type Step struct {
	Verb Verb
	// Surge is for Move.
	Surge int
	// Set is the index in Old, for all others. Replicas is its next size.
	Set, Replicas int
}

// MaxUnavailable belongs to a surge while a Deployment moves: the API server refuses two zeros.
func MaxUnavailable(surge int) int {
	if surge > 0 {
		return 0
	}
	return 1
}

// Parked is the surge between batches: it keeps every pod that is there, and starts none.
func Parked(v View) int { return max(0, v.New.Replicas+v.old()-v.Replicas) }

// Next takes the batch one write further.
func Next(v View) Step {
	room := v.room()
	reached := room <= 0 && v.New.Replicas >= v.limit()
	switch {
	case v.Loose && !v.Last:
		return Step{Verb: Stop}
	case v.Loose || !v.Observed:
		return Step{Verb: Wait}
	case v.Last && v.CaughtUp && v.versions() < 2:
		return Step{Verb: Free}
	case reached && (v.CaughtUp || !v.Moving):
		return Step{Verb: Reached}
	case !v.Moving && v.CaughtUp:
		return v.begin(min(v.Surge, max(0, room)))
	case reached || !v.Moving:
		return Step{Verb: Wait}
	}
	if step := v.remind(); step.Verb != Reached {
		return step
	}
	may := min(v.mayGo(), room)
	if now := min(may, room-v.InForce); now > 0 && v.settled() {
		return v.lower(now)
	}
	if surge := v.surge(room, may); surge != v.InForce {
		return Step{Verb: Move, Surge: surge}
	}
	return Step{Verb: Wait}
}

// begin resumes a paused Deployment.
func (v View) begin(surge int) Step {
	switch {
	case surge > 0 || v.New.Replicas == 0 || !v.Counted:
		return Step{Verb: Move, Surge: surge}
	case v.Uncounting:
		return Step{Verb: Wait}
	}
	return Step{Verb: Uncount}
}

// versions is how many old versions have pods.
func (v View) versions() (n int) {
	for _, s := range v.Old {
		n += min(s.Replicas, 1)
	}
	return n
}

// forgotten is the only set with pods, when its size was that of the Deployment before replicas changed; else -1.
func (v View) forgotten() int {
	only := -1
	for i, s := range v.Old {
		if s.Replicas > 0 && only >= 0 || v.New.Replicas > 0 {
			return -1
		}
		if s.Replicas > 0 {
			only = i
		}
	}
	if only >= 0 && v.Old[only].Replicas == v.Replicas && v.Old[only].Desired != v.Replicas {
		return only
	}
	return -1
}

// remind keeps the controller from standing still; Reached: it goes on.
func (v View) remind() Step {
	if i := v.forgotten(); i >= 0 {
		return Step{Verb: Note, Set: i, Replicas: v.Old[i].Replicas}
	}
	return Step{Verb: Reached}
}

func (v View) limit() int { return min(v.Limit, v.Replicas) }

func (v View) old() (n int) {
	for _, s := range v.Old {
		n += s.Replicas
	}
	return n
}

// room is how many old pods may still be replaced. New pods beyond the limit stay; a change of replicas made them. Old pods beyond
// replicas are none: the Deployment controller takes them.
func (v View) room() int {
	old := min(v.old(), v.Replicas)
	return min(old, old-v.Replicas+max(v.limit(), v.New.Replicas))
}

// mayGo is how many old pods the maxUnavailable of the user lets go. Old pods that are not ready go besides.
func (v View) mayGo() int {
	ready, unready := v.New.stay(), 0
	for _, s := range v.Old {
		ready += s.stay()
		unready += s.Replicas - s.stay()
	}
	return max(0, ready-v.Replicas+v.Unavailable) + unready
}

// settled: the Deployment controller takes no old pod by itself. It takes those beyond replicas. Without a surge it takes one while none
// has gone, and one while new pods count as available.
func (v View) settled() bool {
	return v.InForce > 0 && v.old() <= v.Replicas || v.uncounted() && v.old() < v.Replicas
}

func (v View) uncounted() bool { return v.New.Replicas > 0 && v.CaughtUp && !v.Counted }

// surge is the next one: once may old pods are gone, no more new pods start than room allows.
func (v View) surge(room, may int) int {
	next := max(0, min(v.Surge, room-may))
	if v.InForce == 0 && v.New.Replicas > 0 && !v.settled() {
		next = max(0, min(next, room-1)) // the controller still takes one
	}
	switch {
	case next == 0 && v.Surge > 0 && room > 0 && !v.uncounted() && (v.InForce > 0 || v.New.Replicas == 0):
		return 1
	case next < v.InForce && (v.Patient || next > v.InForce/2) && may < room:
		// Smaller at the end of a step, by halves at least: pods that become ready one by one cost few writes.
		return v.InForce
	}
	return next
}

// lower takes n old pods from the sets that have the most to lose: those that are not ready, then the newest version, the oldest last.
func (v View) lower(n int) Step {
	newest := -1
	for i, s := range v.Old {
		if s.Replicas == 0 {
			continue
		}
		newest = i
		if unready := s.Replicas - s.stay(); unready > 0 {
			return Step{Verb: Lower, Set: i, Replicas: s.Replicas - min(n, unready)}
		}
	}
	s := v.Old[newest]
	return Step{Verb: Lower, Set: newest, Replicas: s.Replicas - min(n, s.Replicas)}
}
