// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/kruise-operator/kruise-operator/internal/confirmation"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/takeover"
)

// Severity says how much a finding matters.
type Severity string

// The severities.
const (
	// Blocker: the takeover fails, or breaks something, until it is dealt with.
	Blocker Severity = "blocker"
	// Warning: something will not work as before.
	Warning Severity = "warning"
	// Note: good to know, or a setting to carry over.
	Note Severity = "note"
)

// Finding is one thing that a takeover meets.
type Finding struct {
	Severity Severity `json:"severity"`
	// Subject is what it is about, as kubectl would name it.
	Subject string `json:"subject"`
	// Finding is what was found, Next what to do about it.
	Finding string `json:"finding"`
	Next    string `json:"next"`
}

// Options are what the operator will be started with.
type Options struct {
	// Table is all kinds that this operator has.
	Table kinds.Table
	// Served are the kinds that this operator will manage.
	Served []string
	// AcceptUnserved says that objects of other kinds may be left without a controller.
	AcceptUnserved bool
	// FeatureGates is what --feature-gates will be.
	FeatureGates string
}

// Findings says what a takeover of the cluster meets, in the order in which to deal with it.
func Findings(c Cluster, w Options) []Finding {
	var all []Finding
	for _, find := range []func(Cluster, Options) []Finding{
		findVersion, findPods, findRequests, findObjects, findUses, findSettings, findStoredVersions, // while OpenKruise still runs
		findManagers, findWebhooks, findConversions, findDaemons, findUnconfirmed,
	} {
		all = append(all, find(c, w)...)
	}
	return all
}

// Blocked counts the findings that have to be dealt with first.
func Blocked(all []Finding) int {
	n := 0
	for _, f := range all {
		if f.Severity == Blocker {
			n++
		}
	}
	return n
}

// Runs says whether OpenKruise's manager acts or is about to.
func (c Cluster) Runs() bool {
	return slices.ContainsFunc(c.Leases, func(l LeaseState) bool { return l.Status == takeover.Renewed })
}

// mayRun says that it does so, or that one of its Deployments wants replicas: without leader election they renew no Lease.
func (c Cluster) mayRun() bool {
	return c.Runs() || slices.ContainsFunc(c.Managers, func(m Manager) bool { return m.Replicas > 0 })
}

// minimumVersion is the oldest Kubernetes that the operator runs on. From it on a pod's status says which generation the kubelet has seen.
const minimumVersion = "1.34.0"

func findVersion(c Cluster, _ Options) []Finding {
	is, err := version.ParseGeneric(c.Version)
	if err != nil || is.AtLeast(version.MustParseGeneric(minimumVersion)) {
		return nil
	}
	return []Finding{{
		Severity: Blocker, Subject: "cluster", Finding: fmt.Sprintf("runs Kubernetes %s; this operator needs %s or later", c.Version, minimumVersion),
		Next: "update the cluster first",
	}}
}

func findPods(c Cluster, _ Options) []Finding {
	if len(c.WaitingPods) == 0 {
		return nil
	}
	return []Finding{{
		Severity: Warning, Subject: "pods " + some(c.WaitingPods),
		Finding: fmt.Sprintf("%s in the middle of an update in place that only OpenKruise's node daemon can finish: their containers read changed labels or annotations through their environment",
			are(len(c.WaitingPods))),
		Next: "let OpenKruise finish these updates first; what still waits afterwards stays out of service, says so in the conditions of its workload, and is recreated by the label apps.kruise.io/specified-delete=true",
	}}
}

func findRequests(c Cluster, _ Options) []Finding {
	if len(c.OpenRequests) == 0 {
		return nil
	}
	return []Finding{{
		Severity: Warning, Subject: "containerrecreaterequests " + some(c.OpenRequests),
		Finding: fmt.Sprintf("%s open: OpenKruise's node daemon carries them out. Once that is gone they end by their deadline only", are(len(c.OpenRequests))),
		Next:    "let OpenKruise finish them, or delete them and make them again after the takeover",
	}}
}

func findObjects(c Cluster, w Options) []Finding {
	var all []Finding
	unserved := map[string]takeover.Kind{}
	for _, kind := range takeover.Unserved(w.Served) {
		unserved[kind.String()] = kind
	}
	for _, o := range c.Objects {
		name := o.Resource + "." + o.Group
		if o.Unread != "" {
			all = append(all, Finding{
				Severity: Blocker, Subject: name, Finding: "cannot be listed: " + o.Unread,
				Next: "if a conversion is named that does not answer, start OpenKruise's manager again and write every object of the kind once (kubectl get " + name + " -A -o json | kubectl replace -f -), so that none is stored in an older version",
			})
			continue
		}
		if len(o.Malformed) > 0 {
			all = append(all, Finding{
				Severity: Warning, Subject: name, Finding: "some cannot be read as workloads, so nothing is known of what they use: " + some(o.Malformed),
				Next: "look at their specs",
			})
		}
		kind, alone := unserved[o.String()]
		known := slices.ContainsFunc(takeover.Kinds(), func(k takeover.Kind) bool { return k.GroupKind == o.GroupKind })
		if o.Count == 0 || (known && !alone) {
			continue
		}
		if !known { // of a later OpenKruise, or of another operator in its groups
			kind.Without = "nobody is known to do so"
		}
		f := Finding{
			Severity: Blocker, Subject: name,
			Finding: fmt.Sprintf("%d (%s); this operator does not manage them: %s", o.Count, some(o.Names, o.Count), kind.Without),
			Next:    "delete them while OpenKruise still runs, or accept it with --accept-unserved-kinds, here and at `run`",
		}
		if w.AcceptUnserved {
			f.Severity, f.Next = Warning, "accepted; start the operator with --accept-unserved-kinds"
		}
		if len(o.Finalizers) > 0 {
			var held []string
			for _, finalizer := range slices.Sorted(maps.Keys(o.Finalizers)) {
				held = append(held, fmt.Sprintf("%s on %d", finalizer, o.Finalizers[finalizer]))
			}
			f.Finding += "; once OpenKruise has stopped, deleting them waits forever for finalizers: " + strings.Join(held, ", ")
		}
		all = append(all, f)
	}
	return all
}

func findSettings(c Cluster, w Options) []Finding {
	var all []Finding
	for _, m := range c.Managers {
		subject := "deployment " + m.String()
		s := ParseManagerArgs(m.Args, w.Table)
		if len(s.Args) > 0 {
			all = append(all, Finding{
				Severity: Note, Subject: subject, Finding: strings.Join(append([]string{"runs with settings that this operator knows"}, s.Notes...), "; "),
				Next: "start the operator with " + strings.Join(s.Args, " "),
			})
		}
		if len(s.Dropped) > 0 {
			all = append(all, Finding{
				Severity: Note, Subject: subject, Finding: "runs with settings that do not come along: " + strings.Join(s.Dropped, "; "),
				Next: "look for what you need of them in docs/operations/configuration.md",
			})
		}
		if m.RevisionNamespace != takeover.Namespace {
			all = append(all, Finding{
				Severity: Note, Subject: subject, Finding: "keeps its Lease and the revisions of SidecarSets in namespace " + m.RevisionNamespace,
				Next: "start the operator with --namespace=" + m.RevisionNamespace + ", so that the revisions are found",
			})
		}
	}
	return all
}

func findStoredVersions(c Cluster, _ Options) []Finding {
	var all []Finding
	for _, crd := range c.CRDs {
		older := slices.DeleteFunc(slices.Clone(crd.Stored), func(v string) bool { return v == crd.Storage })
		unknown := slices.DeleteFunc(slices.Clone(crd.Stored), func(v string) bool { return slices.Contains(crd.OursVersions, v) })
		migrate := fmt.Sprintf("while OpenKruise still runs, write every object once (kubectl get %s -A -o json | kubectl replace -f -), then drop the version: "+
			"kubectl patch crd %s --subresource=status --type=merge -p '{\"status\":{\"storedVersions\":[%q]}}'", crd.Name, crd.Name, crd.Storage)
		switch {
		case crd.Ours && len(unknown) > 0:
			all = append(all, Finding{
				Severity: Blocker, Subject: "crd " + crd.Name,
				Finding: fmt.Sprintf("may hold objects stored as %s, which this operator's CRD does not have; the API server refuses it", strings.Join(unknown, ", ")),
				Next:    migrate,
			})
		case !crd.Ours && len(older) > 0 && crd.ConvertedBy.Name != "":
			all = append(all, Finding{
				Severity: Warning, Subject: "crd " + crd.Name,
				Finding: fmt.Sprintf("may hold objects stored as %s. Once OpenKruise has stopped nobody converts them: listing the kind fails, and with it the garbage collection of the whole cluster",
					strings.Join(older, ", ")),
				Next: migrate,
			})
		case crd.Ours && len(older) > 0:
			all = append(all, Finding{
				Severity: Note, Subject: "crd " + crd.Name,
				Finding: fmt.Sprintf("may hold objects stored as %s; they are read as they are, and the operator stores them as %s once it acts", strings.Join(older, ", "), crd.Storage),
				Next:    "nothing",
			})
		}
	}
	return all
}

func findManagers(c Cluster, _ Options) []Finding {
	var all []Finding
	for _, l := range c.Leases {
		scale := fmt.Sprintf("kubectl -n %s scale deployment/%s --replicas=0, and wait until its pods are gone", l.Namespace, managerName)
		for _, m := range c.Managers {
			if m.Namespace == l.Namespace {
				scale = fmt.Sprintf("kubectl -n %s scale deployment/%s --replicas=0, and wait until its pods are gone", m.Namespace, m.Name)
			}
		}
		switch {
		case l.Status == takeover.Renewed && l.Namespace != takeover.Namespace:
			all = append(all, Finding{
				Severity: Blocker, Subject: "lease " + l.String(),
				Finding: fmt.Sprintf("is renewed by %s: OpenKruise acts. It is not in namespace %s, where this operator looks: nothing would keep the two from acting at once", l.Holder, takeover.Namespace),
				Next:    scale + ", before this operator is started",
			})
		case l.Status == takeover.Renewed:
			all = append(all, Finding{
				Severity: Blocker, Subject: "lease " + l.String(), Finding: fmt.Sprintf("is renewed by %s: OpenKruise acts, and this operator waits as long as it does", l.Holder),
				Next: scale,
			})
		case c.Leader != "" && l.NamespacedName == takeover.Lease():
			all = append(all, Finding{
				Severity: Blocker, Subject: "lease " + l.String(),
				Finding: fmt.Sprintf("has lapsed, and this operator (%s) has not taken over: nothing is managed", c.Leader),
				Next:    "wait 30 seconds; if it stays so, look at `Not acting` in the log: objects of other kinds need `run --accept-unserved-kinds`",
			})
		default:
			all = append(all, Finding{
				Severity: Note, Subject: "lease " + l.String(), Finding: "has lapsed: OpenKruise has stopped", Next: "nothing; this operator deletes it when it takes over",
			})
		}
	}
	if c.Runs() {
		return all
	}
	for _, m := range c.Managers {
		if m.Replicas > 0 {
			all = append(all, Finding{
				Severity: Blocker, Subject: "deployment " + m.String(), Finding: fmt.Sprintf("wants %d replicas, though none holds the Lease: one may begin at any time", m.Replicas),
				Next: fmt.Sprintf("kubectl -n %s scale deployment/%s --replicas=0", m.Namespace, m.Name),
			})
		}
	}
	return all
}

func findWebhooks(c Cluster, _ Options) []Finding {
	var all []Finding
	for _, w := range c.Webhooks {
		f := Finding{
			Severity: Blocker, Subject: strings.ToLower(w.Kind) + " " + w.Name,
			Finding: fmt.Sprintf("%d entries lead to OpenKruise. When it has stopped, what they are asked about fails", len(w.Entries)),
			Next:    "when OpenKruise has stopped: kruise-operator preflight --remove-webhooks",
		}
		if w.OnPods {
			f.Finding += ", the creation of any pod included"
		}
		if w.Others > 0 {
			f.Finding += fmt.Sprintf("; %d more entries lead elsewhere and stay", w.Others)
		}
		all = append(all, f)
	}
	return all
}

func findConversions(c Cluster, _ Options) []Finding {
	var all []Finding
	var left []string
	for _, crd := range c.CRDs {
		if crd.ConvertedBy.Name == "" {
			continue
		}
		if !crd.Ours {
			left = append(left, crd.Name)
			continue
		}
		f := Finding{Subject: "crd " + crd.Name}
		others := strings.Join(slices.DeleteFunc(slices.Clone(crd.Versions), func(v string) bool { return v == crd.Storage }), ", ")
		if crd.clears() {
			f.Severity = Blocker
			f.Finding = fmt.Sprintf("is converted by %s. This operator needs no conversion for it, and an apply would keep the stanza, which the API server refuses", crd.converter())
			f.Next = "when OpenKruise has stopped: kruise-operator preflight --clear-conversion"
		} else {
			f.Severity = Note
			f.Finding = fmt.Sprintf("is converted by %s; from its installation on this operator converts it", crd.converter())
			f.Next = "between stopping OpenKruise and installing this operator, requests in " + others + " fail: keep that short"
		}
		all = append(all, f)
	}
	if len(left) > 0 {
		all = append(all, Finding{
			Severity: Warning, Subject: "crd " + strings.Join(left, ", "),
			Finding: "converted by OpenKruise, of kinds that are not here. When it has stopped, requests in another version than the stored one fail, reads of v1alpha1 as \"corrupt object\"",
			Next:    "use the stored version; when there are no objects of a kind any more, delete its CRD",
		})
	}
	return all
}

// converter names who converts it, as kubectl would.
func (crd CRD) converter() string { return strings.TrimPrefix(crd.ConvertedBy.String(), "/") }

// clears says that the conversion has to be None before this operator can be installed.
func (crd CRD) clears() bool { return crd.ConvertedBy.Name != "" && crd.Ours && !crd.OursConverts }

func findDaemons(c Cluster, _ Options) []Finding {
	var all []Finding
	for _, d := range c.Daemons {
		f := Finding{
			Severity: Note, Subject: "daemonset " + d.String(), Finding: "goes on restarting containers and reporting about them; this operator does not need it",
			Next: fmt.Sprintf("when no pod waits for it any more: kubectl -n %s delete daemonset/%s", d.Namespace, d.Name),
		}
		if !c.mayRun() {
			f.Severity = Warning
			f.Finding += ". By default both listen on port 10221, so that the one of this operator cannot start beside it, and restarts of containers do not end; " +
				"with another port, images are pulled and probes are run twice"
		}
		all = append(all, f)
	}
	return all
}

// findUnconfirmed is about an upgrade of this operator, not about OpenKruise.
func findUnconfirmed(c Cluster, w Options) []Finding {
	var all []Finding
	for _, kind := range slices.Sorted(maps.Keys(c.Unconfirmed)) {
		if !slices.Contains(w.Served, kind) {
			continue
		}
		all = append(all, Finding{
			Severity: Warning, Subject: kind, Finding: confirmation.Message(kind, c.Unconfirmed[kind]),
			Next: "look at these objects, and delete those that nobody wants any more; then kubectl patch kruise cluster --type=merge -p " +
				fmt.Sprintf(`'{"spec":{"confirmedKinds":[%q]}}'`, kind) + ", with the kinds that the list has already",
		})
	}
	return all
}

func are(n int) string {
	if n == 1 {
		return "1 is"
	}
	return fmt.Sprintf("%d are", n)
}

// some names the first few of a list, whose whole length may be given.
func some[T interface{ ~string | types.NamespacedName }](items []T, count ...int) string {
	total := len(items)
	if len(count) > 0 {
		total = count[0]
	}
	var names []string
	for _, item := range items[:min(len(items), named)] {
		names = append(names, fmt.Sprint(item))
	}
	if total > len(names) {
		names = append(names, "...")
	}
	return strings.Join(names, ", ")
}
