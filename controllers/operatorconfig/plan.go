// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package operatorconfig

import (
	"slices"
	"time"

	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
)

const (
	// settle is how long a leader gives other replicas to report that they exist and have seen the same change.
	settle = 2 * time.Second
	// followTimeout is how long a leader waits for replicas that do not follow: they may be gone.
	followTimeout = 30 * time.Second
	// unreportedDelay is how long a leader waits when nobody can report, because the object is gone.
	unreportedDelay = 5 * time.Second
	// pollInterval is how often a leader looks for replicas that have followed, beside the events of the object.
	pollInterval = 500 * time.Millisecond
)

// View is what decides whether a replica restarts.
type View struct {
	// Now is the time; Since is when this replica first saw the wanted configuration, or its generation.
	Now, Since time.Time
	// Self is this replica's name.
	Self string
	// Leads says whether it is the leader; Alone that there can be no others, since no lease is used.
	Leads, Alone bool
	// Blind says that there is no object, so that nobody can report.
	Blind bool
	// Running and Wanted are the hashes of configurations; Generation is that of the spec that is wanted.
	Running, Wanted string
	Generation      int64
	// Appeared is a kind that a restart takes up: its CRD was missing when the manager was built and is served now, or it has its first object.
	Appeared string
	// Replicas are what replicas have reported, this one possibly among them.
	Replicas []operatorv1alpha1.ReplicaStatus
	// Gone are the replicas of which it is known that they do not exist any more.
	Gone []string
}

// Step is what a replica does about its configuration.
type Step struct {
	// Restart: now.
	Restart bool
	// WaitsFor are the other replicas that do not run with it yet, sorted.
	WaitsFor []string
	// Recheck is when time alone could change the answer; zero: never.
	Recheck time.Duration
	// Forget are the replicas whose reports say nothing any more, sorted.
	Forget []string
}

// Plan decides whether the replica restarts. Standbys go first: when the leader releases its lease, whoever takes it has the new
// configuration already and its caches full.
func Plan(v View) Step {
	var step Step
	var behind []string
	for _, replica := range v.Replicas {
		switch {
		case replica.Name == v.Self:
		case slices.Contains(v.Gone, replica.Name):
			step.Forget = append(step.Forget, replica.Name)
		case replica.ObservedGeneration < v.Generation:
			behind = append(behind, replica.Name)
		}
	}
	slices.Sort(step.Forget)
	slices.Sort(behind)
	waited := v.Now.Sub(v.Since)
	current := v.Running == v.Wanted && v.Appeared == ""
	switch late := waited >= followTimeout; {
	case len(behind) > 0 && late && v.Leads:
		step.Forget = append(step.Forget, behind...)
		slices.Sort(step.Forget)
		step.Restart = !current
	case current && len(behind) > 0 && v.Leads:
		step.WaitsFor, step.Recheck = behind, followTimeout-waited
	case current:
	case !v.Leads || v.Alone:
		step.Restart = true
	case v.Blind && waited < unreportedDelay:
		step.Recheck = unreportedDelay - waited
	case !v.Blind && waited < settle:
		step.WaitsFor, step.Recheck = behind, settle-waited
	case len(behind) > 0:
		step.WaitsFor, step.Recheck = behind, pollInterval
	default:
		step.Restart = true
	}
	return step
}
