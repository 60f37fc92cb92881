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
	"k8s.io/utils/ptr"

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

// Finding is one obstacle, loss or setting.
type Finding struct {
	Severity Severity `json:"severity"`
	// Subject is its object, as kubectl would name it.
	Subject string `json:"subject"`
	// Finding describes it, Next is the administrator's next step.
	Finding string `json:"finding"`
	Next    string `json:"next"`
}

// of is a finding of the severity.
func (s Severity) of(subject, next, finding string, arguments ...any) Finding {
	return Finding{Severity: s, Subject: subject, Finding: fmt.Sprintf(finding, arguments...), Next: next}
}

// Options are the flags of the operator to come.
type Options struct {
	// Table is all kinds of this operator.
	Table kinds.Table
	// Served are the kinds to manage.
	Served []string
	// AcceptUnserved leaves objects of other kinds without a controller.
	AcceptUnserved bool
	// FeatureGates is the value of --feature-gates.
	FeatureGates string
}

// Findings are all findings, in the order of work.
func Findings(c Cluster, w Options) []Finding {
	var all []Finding
	for _, find := range []func(Cluster, Options) []Finding{
		findVersion, findPods, findObjects, findGates, findSettings, findStoredVersions, // while OpenKruise still runs
		findManagers, findConversions, findWebhooks, findDaemons, findUnconfirmed,
	} {
		all = append(all, find(c, w)...)
	}
	return all
}

// Blocked counts the blockers.
func Blocked(all []Finding) int {
	return len(slices.DeleteFunc(slices.Clone(all), func(f Finding) bool { return f.Severity != Blocker }))
}

// runs is true if OpenKruise's manager acts.
func (c Cluster) runs() bool {
	return slices.ContainsFunc(c.Leases, func(l LeaseState) bool { return l.Status == takeover.Renewed })
}

// mayRun also holds while a Deployment wants replicas: without leader election they renew no Lease.
func (c Cluster) mayRun() bool {
	return c.runs() || slices.ContainsFunc(c.Managers, func(m Manager) bool { return m.Replicas > 0 })
}

// minimumVersion is the oldest Kubernetes for the operator: from it on, the kubelet reports a pod's generation.
const minimumVersion = "1.34.0"

func findVersion(c Cluster, _ Options) []Finding {
	is, err := version.ParseGeneric(c.Version)
	if err != nil || is.AtLeast(version.MustParseGeneric(minimumVersion)) {
		return nil
	}
	return []Finding{Blocker.of("cluster", "update the cluster first", "runs Kubernetes %s; this operator needs %s or later", c.Version, minimumVersion)}
}

// findPods finds work for OpenKruise's node daemon.
func findPods(c Cluster, _ Options) (all []Finding) {
	if len(c.WaitingPods) > 0 {
		all = append(all, Warning.of("pods "+some(c.WaitingPods),
			"let OpenKruise finish these updates first; what still waits afterwards stays out of service, says so in the conditions of its workload, and is recreated by the label apps.kruise.io/specified-delete=true",
			"in the middle of an update in place that only OpenKruise's node daemon can finish: %d. Their containers read changed labels or annotations through their environment",
			len(c.WaitingPods)))
	}
	if len(c.OpenRequests) > 0 {
		all = append(all, Warning.of("containerrecreaterequests "+some(c.OpenRequests), "let OpenKruise finish them, or delete them and make them again after the takeover",
			"open: %d. OpenKruise's node daemon carries them out. Once that is gone they end by their deadline only", len(c.OpenRequests)))
	}
	return all
}

func findObjects(c Cluster, w Options) (all []Finding) {
	known := takeover.Kinds()
	for _, o := range c.CRDs {
		name, without := o.Name, "nobody is known to do so" // of a later OpenKruise, or of another operator in its groups
		i := slices.IndexFunc(known, func(k takeover.Kind) bool { return k.GroupKind == o.GroupKind })
		if i >= 0 {
			without = known[i].Without
		}
		const unserved = "%d (%s); this operator does not manage them: %s"
		switch {
		case o.Unread != "":
			all = append(all, Blocker.of(name,
				"if a conversion is named that does not answer, start OpenKruise's manager again and write every object of the kind once (kubectl get "+name+" -A -o json | kubectl replace -f -), so that none is stored in an older version",
				"cannot be listed: %s", o.Unread))
		case len(o.Objects) == 0 || without == "" || i >= 0 && slices.Contains(w.Served, o.Kind):
		case w.AcceptUnserved:
			all = append(all, Warning.of(name, "accepted; start the operator with --accept-unserved-kinds", unserved, len(o.Objects), some(o.Objects), without))
		default:
			all = append(all, Blocker.of(name, "delete them while OpenKruise still runs, or accept it with --accept-unserved-kinds, here and at `run`",
				unserved, len(o.Objects), some(o.Objects), without))
		}
	}
	return all
}

func findSettings(c Cluster, w Options) (all []Finding) {
	for _, m := range c.Managers {
		carried, _ := ParseManagerArgs(m.Args, w.Table)
		if m.Namespace != takeover.Namespace {
			carried = append(carried, "--namespace="+m.Namespace) // where it keeps the revisions of SidecarSets
		}
		if len(carried) > 0 {
			all = append(all, Note.of("deployment "+m.String(), "start the operator with "+strings.Join(carried, " "), "runs with settings that this operator knows"))
		}
	}
	return all
}

func findStoredVersions(c Cluster, _ Options) (all []Finding) {
	for _, crd := range c.CRDs {
		older := strings.Join(slices.DeleteFunc(slices.Clone(crd.Stored), func(v string) bool { return v == crd.Storage }), ", ")
		ours := ptr.Deref(crd.Ours, kinds.Kind{}).Versions
		unknown := strings.Join(slices.DeleteFunc(slices.Clone(crd.Stored), func(v string) bool { return slices.Contains(ours, v) }), ", ")
		migrate := fmt.Sprintf("while OpenKruise still runs, write every object once (kubectl get %s -A -o json | kubectl replace -f -), then drop the version: "+
			"kubectl patch crd %s --subresource=status --type=merge -p '{\"status\":{\"storedVersions\":[%q]}}'", crd.Name, crd.Name, crd.Storage)
		switch subject := "crd " + crd.Name; {
		case crd.Ours != nil && unknown != "":
			all = append(all, Blocker.of(subject, migrate, "may hold objects stored as %s, which this operator's CRD does not have; the API server refuses it", unknown))
		case crd.Ours == nil && older != "" && crd.ConvertedBy.Name != "":
			all = append(all, Warning.of(subject, migrate,
				"may hold objects stored as %s. Once OpenKruise has stopped nobody converts them: listing the kind fails, and with it the garbage collection of the whole cluster", older))
		}
	}
	return all
}

func findManagers(c Cluster, _ Options) (all []Finding) {
	for _, l := range c.Leases {
		subject, stop := "lease "+l.String(), scale(l.Namespace)+", and wait until its pods are gone"
		switch {
		case l.Status == takeover.Renewed && l.Namespace != takeover.Namespace:
			all = append(all, Blocker.of(subject, stop+", before this operator is started",
				"is renewed by %s: OpenKruise acts. It is not in namespace %s, where this operator looks: nothing would keep the two from acting at once", l.Holder, takeover.Namespace))
		case l.Status == takeover.Renewed:
			all = append(all, Blocker.of(subject, stop, "is renewed by %s: OpenKruise acts, and this operator waits as long as it does", l.Holder))
		case c.Leader != "" && l.NamespacedName == takeover.Lease():
			all = append(all, Blocker.of(subject, "wait 30 seconds; if it stays so, look at `Not acting` in the log: objects of other kinds need `run --accept-unserved-kinds`",
				"has lapsed, and this operator (%s) has not taken over: nothing is managed", c.Leader))
		default:
			all = append(all, Note.of(subject, "nothing; this operator deletes it when it takes over", "has lapsed: OpenKruise has stopped"))
		}
	}
	if c.runs() {
		return all
	}
	for _, m := range c.Managers {
		if m.Replicas > 0 {
			all = append(all, Blocker.of("deployment "+m.String(), scale(m.Namespace), "wants %d replicas, though none holds the Lease: one may begin at any time", m.Replicas))
		}
	}
	return all
}

func scale(namespace string) string {
	return fmt.Sprintf("kubectl -n %s scale deployment/%s --replicas=0", namespace, managerName)
}

func findConversions(c Cluster, _ Options) (all []Finding) {
	var left []string
	for _, crd := range c.CRDs {
		by := strings.TrimPrefix(crd.ConvertedBy.String(), "/")
		others := strings.Join(slices.DeleteFunc(slices.Clone(crd.Versions), func(v string) bool { return v == crd.Storage }), ", ")
		switch {
		case by == "":
		case crd.Ours == nil:
			left = append(left, crd.Name)
		case crd.clears():
			all = append(all, Blocker.of("crd "+crd.Name, "when OpenKruise has stopped: "+Program+" --clear-conversion",
				"is converted by %s. This operator needs no conversion for it, and an apply would keep the stanza, which the API server refuses", by))
		default:
			all = append(all, Note.of("crd "+crd.Name, "between stopping OpenKruise and installing this operator, requests in "+others+" fail: keep that short",
				"is converted by %s; from its installation on this operator converts it", by))
		}
	}
	if len(left) > 0 {
		all = append(all, Warning.of("crd "+strings.Join(left, ", "), "use the stored version; when there are no objects of a kind any more, delete its CRD",
			"converted by OpenKruise, of kinds that are not here. When it has stopped, requests in another version than the stored one fail, reads of v1alpha1 as \"corrupt object\""))
	}
	return all
}

// clears is true if the conversion has to become None.
func (crd CRD) clears() bool {
	return crd.ConvertedBy.Name != "" && crd.Ours != nil && !crd.Ours.Converted
}

func findDaemons(c Cluster, _ Options) (all []Finding) {
	for _, d := range c.Daemons {
		f := Note.of("daemonset "+d.String(), fmt.Sprintf("when no pod waits for it any more: kubectl -n %s delete daemonset/%s", d.Namespace, d.Name),
			"goes on restarting containers and reporting about them; this operator does not need it")
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
func findUnconfirmed(c Cluster, w Options) (all []Finding) {
	for _, kind := range slices.Sorted(maps.Keys(c.Unconfirmed)) {
		if slices.Contains(w.Served, kind) {
			all = append(all, Warning.of(kind, "look at these objects, and delete those that nobody wants any more; then kubectl patch kruise cluster --type=merge -p "+
				fmt.Sprintf(`'{"spec":{"confirmedKinds":[%q]}}'`, kind)+", with the kinds that the list has already", "%s", confirmation.Message(kind, c.Unconfirmed[kind])))
		}
	}
	return all
}

// some names the first few of a list.
func some[T interface{ ~string | types.NamespacedName }](items []T) string {
	var names []string
	for _, item := range items[:min(len(items), named)] {
		names = append(names, fmt.Sprint(item))
	}
	if len(items) > named {
		names = append(names, "...")
	}
	return strings.Join(names, ", ")
}
