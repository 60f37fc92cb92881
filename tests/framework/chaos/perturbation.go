// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package chaos perturbs an operator's view of a real API server, and its writes, and
// judges its behavior.
//
// A [Scenario] is a user's work with one kind, step by step. A [Lane] is a namespace with
// its own operator, confined to it by a proxy. A scenario first runs undisturbed, for the
// number of writes and the end. Then each run has one [Perturbation], and must reach the
// same end without breaking a limit and without many more writes.
package chaos

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Kind is a way to disturb the operator.
type Kind string

// The kinds of perturbations.
const (
	// None leaves it alone.
	None Kind = "none"
	// Crash commits a write, drops the answer, kills the operator and starts it afresh.
	Crash Kind = "crash"
	// Stale is Crash, and for a while the new operator sees one resource as it was a few writes before.
	Stale Kind = "stale"
	// Missed cuts a resource's watch at a creation, deletes the object as a user would, and
	// lets the operator list again afterwards: it sees neither creation nor deletion.
	Missed Kind = "missed"
	// Fault lets a write fail, or its answer.
	Fault Kind = "fault"
	// Failover commits a write, drops the answer and kills the leader. Another replica takes over after a lease of two seconds: its cache is
	// warm, and lags behind by a few writes in one resource.
	Failover Kind = "failover"
	// Compacted cuts a resource's watch as if etcd had been compacted: resuming from an old
	// version gets a 410, and so does the next list's second page.
	Compacted Kind = "compacted"
	// Stolen gives a new pod another owner, and deletes it a moment later. The operator
	// must not touch it.
	Stolen Kind = "stolen"
)

// Kinds are all kinds of perturbations but None.
func Kinds() []Kind { return []Kind{Crash, Stale, Failover, Missed, Fault, Compacted, Stolen} }

// Perturbation is one disturbance of a run.
type Perturbation struct {
	Kind Kind
	// At is the write it happens at, counted from 1 in the run. For Missed and Stolen it is
	// the creation among those of Resource.
	At int
	// Resource is such as pods or controllerrevisions.apps; not for Crash and Fault.
	Resource string
	// Fault is one of Faults.
	Fault string
}

// fault is one way for a write to fail.
type fault struct {
	name string
	// code answers the request; 0 breaks the connection. With committed, the write was carried out before.
	code      int
	committed bool
	message   string
}

// faults are all of them.
func faults() []fault {
	return []fault{
		{name: "conflict", code: http.StatusConflict, message: "the object has been modified; please apply your changes to the latest version and try again"},
		{name: "busy", code: http.StatusTooManyRequests, message: "too many requests, please try again later"},
		{name: "error", code: http.StatusInternalServerError, message: "an internal error of the test"},
		{name: "quota", code: http.StatusForbidden, message: "exceeded quota: test, requested: pods=1, used: pods=1, limited: pods=1"},
		{name: "denied", code: http.StatusForbidden, message: "admission webhook \"test.example.io\" denied the request: not now"},
		{name: "lost", committed: true},
		{name: "timeout", code: http.StatusGatewayTimeout, committed: true, message: "the server was unable to return a response in the time allotted"},
	}
}

// Faults are the names of the ways a write can fail.
func Faults() []string {
	var names []string
	for _, f := range faults() {
		names = append(names, f.name)
	}
	return names
}

// String is a text for Parse, such as stale@7:pods.
func (p Perturbation) String() string {
	if p.Kind == None {
		return string(None)
	}
	text := fmt.Sprintf("%s@%d", p.Kind, p.At)
	if detail := p.Resource + p.Fault; detail != "" {
		text += ":" + detail
	}
	return text
}

// Parse reads String's text.
func Parse(text string) (Perturbation, error) {
	if text == string(None) {
		return Perturbation{Kind: None}, nil
	}
	kind, rest, found := strings.Cut(text, "@")
	at, detail, _ := strings.Cut(rest, ":")
	p := Perturbation{Kind: Kind(kind)}
	var err error
	if p.At, err = strconv.Atoi(at); !found || err != nil || p.At < 1 {
		return p, fmt.Errorf("%q is no perturbation: want one such as crash@7 or stale@7:pods", text)
	}
	switch p.Kind {
	case Crash:
		if detail != "" {
			return p, fmt.Errorf("%q: a crash has no detail", text)
		}
	case Stale, Missed, Failover, Compacted, Stolen:
		if p.Resource = detail; detail == "" {
			return p, fmt.Errorf("%q: no resource is named", text)
		}
	case Fault:
		if p.Fault = detail; !slices.Contains(Faults(), detail) {
			return p, fmt.Errorf("%q: know the faults %s", text, strings.Join(Faults(), ", "))
		}
	default:
		return p, fmt.Errorf("%q: know %v", text, Kinds())
	}
	return p, nil
}

// Disturbs: somebody else changes pods, too, so limits on the operator alone cannot be
// judged from outside.
func (p Perturbation) Disturbs() bool { return p.Kind == Missed || p.Kind == Stolen }

// All are the perturbations of a scenario after its undisturbed run: a crash after each
// write, each resource stale after every third write, each creation missed, each pod
// stolen, and two faults at each write, so all faults meet all phases. The leader changes
// at every third write, with another resource each time; every resource is compacted at
// every sixth.
func All(r *Result) []Perturbation {
	var all []Perturbation
	names := Faults()
	for at := 1; at <= r.Writes; at++ {
		all = append(all, Perturbation{Kind: Crash, At: at})
		for i := range 2 {
			all = append(all, Perturbation{Kind: Fault, At: at, Fault: names[(2*at+i)%len(names)]})
		}
	}
	for at := 1; at <= r.Writes && len(r.Resources) > 0; at += 3 {
		all = append(all, Perturbation{Kind: Failover, At: at, Resource: r.Resources[at/3%len(r.Resources)]})
	}
	for at := 1; at <= r.Created["pods"]; at++ {
		all = append(all, Perturbation{Kind: Stolen, At: at, Resource: "pods"})
	}
	for i, resource := range r.Resources {
		for at := 1 + i%6; at <= r.Writes; at += 6 {
			all = append(all, Perturbation{Kind: Compacted, At: at, Resource: resource})
		}
		for at := 1 + i%3; at <= r.Writes; at += 3 {
			all = append(all, Perturbation{Kind: Stale, At: at, Resource: resource})
		}
		for at := 1; at <= r.Created[resource]; at++ {
			all = append(all, Perturbation{Kind: Missed, At: at, Resource: resource})
		}
	}
	return all
}
