// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package takeover_test takes a cluster over from OpenKruise, step by step as documented, and finds everything untouched.
package takeover_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers"
	"github.com/kruise-operator/kruise-operator/internal/preflight"
	"github.com/kruise-operator/kruise-operator/internal/takeover"
	"github.com/kruise-operator/kruise-operator/internal/testutil/fixtures"
	"github.com/kruise-operator/kruise-operator/tests/framework/audit"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
	"github.com/kruise-operator/kruise-operator/tests/framework/rights"
)

// quiet is how long the operator runs after it has seen every set.
const quiet = 5 * time.Second

// fixture must be left as it is by the operator.
type fixture struct {
	pods      map[types.NamespacedName]corev1.Pod
	claims    map[types.NamespacedName]corev1.PersistentVolumeClaim
	revisions map[types.NamespacedName]appsv1.ControllerRevision
	sets      map[types.NamespacedName]v1beta1.StatefulSet
	cloneSets map[types.NamespacedName]v1beta1.CloneSet
	sidecars  map[types.NamespacedName]v1beta1.SidecarSet
}

func read(t *testing.T, c client.Client) fixture {
	t.Helper()
	pods, claims, revisions := &corev1.PodList{}, &corev1.PersistentVolumeClaimList{}, &appsv1.ControllerRevisionList{}
	sets, cloneSets, sidecars := &v1beta1.StatefulSetList{}, &v1beta1.CloneSetList{}, &v1beta1.SidecarSetList{}
	for _, list := range []client.ObjectList{pods, claims, revisions, sets, cloneSets, sidecars} {
		if err := c.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	return fixture{byName(pods.Items), byName(claims.Items), byName(revisions.Items), byName(sets.Items), byName(cloneSets.Items), byName(sidecars.Items)}
}

func byName[T any, P interface {
	*T
	client.Object
}](items []T) map[types.NamespacedName]T {
	all := map[types.NamespacedName]T{}
	for i := range items {
		all[client.ObjectKeyFromObject(P(&items[i]))] = items[i]
	}
	return all
}

// reports is the output of `kruise-preflight -o json`.
type reports struct {
	Ready    bool                `json:"ready"`
	Findings []preflight.Finding `json:"findings"`
}

// blockers are the subjects blocking the takeover.
func (r reports) blockers() []string {
	var subjects []string
	for _, f := range r.Findings {
		if f.Severity == preflight.Blocker {
			subjects = append(subjects, f.Subject)
		}
	}
	return subjects
}

// find returns the finding about a subject with a text.
func (r reports) find(t *testing.T, subject, part string) {
	t.Helper()
	for _, f := range r.Findings {
		if f.Subject == subject && strings.Contains(f.Finding+" -> "+f.Next, part) {
			return
		}
	}
	t.Errorf("no finding about %q says %q", subject, part)
}

// TestTakeover follows the documented steps on a cluster OpenKruise left, with sets in the
// middle of their lives and with surprises: an operator started too early, objects nobody
// will reconcile, and OpenKruise coming back.
func TestTakeover(t *testing.T) {
	t.Parallel()
	c := cluster.StartForTest(t, cluster.Options{ControlPlane: cluster.APIServerOnly, Audit: &cluster.Audit{}})
	direct, err := client.New(c.Config(), client.Options{Scheme: environment.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	kruise := installOpenKruise(t, c, direct, "statefulset-v1alpha1/state.yaml", "statefulset-midway/state.yaml", "statefulset-pvc-policy/state.yaml",
		"persistentpodstate/state.yaml", "sidecarset/state.yaml", "podprobemarker/state.yaml", "cloneset-simple/state.yaml", "cloneset-midway/state.yaml",
		"cloneset-surge/state.yaml", "cloneset-env/state.yaml", "cloneset-env-waiting/state.yaml")
	before := read(t, direct)
	if len(before.sets) < 5 || len(before.pods) < 17 || len(before.claims) < 8 || len(before.revisions) < 5 || len(before.cloneSets) < 5 || len(before.sidecars) != 2 {
		t.Fatalf("restored are %d and %d sets, %d pods, %d claims and %d revisions",
			len(before.sets), len(before.cloneSets), len(before.pods), len(before.claims), len(before.revisions))
	}
	kruise.run()
	// One kind is left out, so its objects have no controller.
	kinds := slices.DeleteFunc(controllers.Table().Switchable().Names(), func(name string) bool { return name == "PersistentPodState" })
	o, err := operator.New(t.Context(), c, operator.Options{Args: []string{"--kinds=" + strings.Join(kinds, ",")}})
	if err != nil {
		t.Fatal(err)
	}
	n := namespaceOf(t, c, direct)

	// OpenKruise runs: everything is found, nothing is taken from it.
	table, err := step(t, c, o, "1. Check")
	if err != nil || !strings.Contains(table, "BLOCKER") {
		t.Fatalf("preflight finds nothing in the way: %v\n%s", err, table)
	}
	t.Logf("preflight prints:\n%s", table)
	found := preflightSays(t, c, o)
	found.find(t, "lease kruise-system/kruise-manager", "kubectl -n kruise-system scale deployment/kruise-controller-manager --replicas=0")
	found.find(t, "mutatingwebhookconfiguration kruise-mutating-webhook-configuration", "the creation of any pod")
	found.find(t, "validatingwebhookconfiguration kruise-validating-webhook-configuration", "kruise-preflight --remove-webhooks")
	found.find(t, "crd statefulsets.apps.kruise.io", "--clear-conversion")
	found.find(t, "deployment kruise-system/kruise-controller-manager", "start the operator with --statefulset-workers=7")
	found.find(t, "daemonset kruise-system/kruise-daemon", "delete daemonset/kruise-daemon")
	found.find(t, "pods cloneset-env-waiting/web-68fpv", "in the middle of an update in place")
	for _, flag := range []string{"--remove-webhooks", "--clear-conversion"} {
		if _, err := shell(t, c, o, "kruise-preflight "+flag); err == nil || !strings.Contains(err.Error(), "Scale its manager down first") {
			t.Fatalf("%s while OpenKruise runs: %v", flag, err)
		}
	}
	if err := o.Install(t.Context()); err == nil || !strings.Contains(err.Error(), "run `kruise-preflight`") {
		t.Fatalf("installed over the conversion of OpenKruise: %v", err)
	}

	applying := "kubectl apply --dry-run=server -k config/crd"
	if _, err := shell(t, c, o, applying); err == nil || !strings.Contains(err.Error(), "spec.conversion") {
		t.Fatalf("the API server takes an apply over the conversion of OpenKruise: %v", err)
	}

	// The documented way.
	created := createPods(t, direct)
	kruise.stop()
	for _, title := range []string{"2. Stop its manager", "3. Clear its conversion"} {
		if _, err := step(t, c, o, title); err != nil {
			t.Fatalf("step %s: %v", title, err)
		}
	}
	// Only users' decisions and the webhooks are left in the way.
	if left := preflightSays(t, c, o).blockers(); slices.ContainsFunc(left, func(s string) bool {
		return !strings.Contains(s, "webhookconfiguration") && (!strings.HasSuffix(s, "s.apps.kruise.io") || strings.HasPrefix(s, "crd"))
	}) {
		t.Fatalf("step 3 leaves %q", left)
	}
	for _, server := range []string{"", " --server-side --force-conflicts"} {
		if out, err := shell(t, c, o, applying+server); err != nil {
			t.Errorf("the CRDs cannot be applied with kubectl%s: %v\n%s", server, err, out)
		}
	}
	if _, err := step(t, c, o, "4. Install this operator"); err != nil {
		t.Fatalf("step 4: %v", err)
	}
	checkReplaced(t, direct)

	// Somebody starts OpenKruise again, and this operator too.
	kruise.run()
	log, err := audit.Open(c.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitWaiting(n, o, takeover.OpenKruiseRuns)
	n.Consistently(quiet, "the operator leaves all to OpenKruise", func(ctx context.Context) error { return waits(ctx, o, takeover.OpenKruiseRuns) })
	events, _ := writes(t, log)
	kruise.stop()
	awaitWaiting(n, o, takeover.UnservedKinds)
	if refused, made := created.counts(); made > 0 || refused == 0 {
		t.Errorf("%d pods were created before the old webhook was removed, %d refused", made, refused)
	}
	// Sidecars are injected although everything else waits.
	if out, err := step(t, c, o, "6. Remove its webhooks"); err != nil {
		t.Fatalf("step 6: %v\n%s", err, out)
	}
	n.Eventually("pods are created", func(context.Context) error {
		if refused, made := created.counts(); made < 5 {
			return fmt.Errorf("%d were refused, %d made", refused, made)
		}
		return nil
	})
	injected, _ := writes(t, log)
	events = append(events, slices.DeleteFunc(injected, func(e auditv1.Event) bool { return registersInjection(&e) })...)
	ownCalls := []string{"secrets", "customresourcedefinitions", "mutatingwebhookconfigurations", "validatingwebhookconfigurations"}
	events = slices.DeleteFunc(events, func(e auditv1.Event) bool { // it lets the API server call it, as docs/operations/from-openkruise.md says
		return slices.Contains(ownCalls, e.ObjectRef.Resource)
	})
	if len(events) > 0 {
		t.Errorf("while it waits the operator writes:\n%s", audit.Count(events))
	}
	checkWorld(t, before, read(t, direct), true)

	// The user accepts it.
	if err := o.Stop(); err != nil {
		t.Fatal(err)
	}
	o.SetArgs("--accept-unserved-kinds", "--statefulset-workers=7", "--kinds="+strings.Join(kinds, ","))
	began := time.Now()
	if err := o.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.Eventually("every set is observed, with conditions of this operator", func(context.Context) error {
		return observed(read(t, direct))
	})
	t.Logf("measured: taken over %.1f s after the start, of which the lease was valid for %s", time.Since(began).Seconds(), validity)
	n.Consistently(quiet, "the operator runs", func(context.Context) error {
		select {
		case <-o.Done():
			return fmt.Errorf("it ended")
		default:
			return nil
		}
	})
	checkWorld(t, before, read(t, direct), false)
	checkWrites(t, log, len(before.sets)+len(before.cloneSets)+len(before.sidecars))
	checkWaiting(t, read(t, direct))
	if _, found := kruise.lease(t.Context()); found {
		t.Error("the lease that lapsed is still there")
	}
	if out, err := step(t, c, o, "7. Check again"); err != nil || !strings.Contains(out, "statefulset-midway") {
		t.Errorf("step 7: %v\n%s", err, out)
	}
	created.check()

	reapply(n, t, direct)

	// OpenKruise acts again, and users' changes meanwhile are its business.
	kruise.run()
	awaitWaiting(n, o, takeover.OpenKruiseRuns)
	if _, err := log.Next(func(*auditv1.Event) bool { return true }); err != nil {
		t.Fatal(err)
	}
	changed := &v1beta1.StatefulSet{}
	for _, set := range before.sets {
		if set.Namespace == "statefulset-v1alpha1" {
			changed = set.DeepCopy()
		}
	}
	patch := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"example/web:v3"}]`))
	if err := direct.Patch(t.Context(), changed, patch); err != nil {
		t.Fatal(err)
	}
	n.Consistently(validity, "the operator leaves the change to OpenKruise", func(ctx context.Context) error { return waits(ctx, o, takeover.OpenKruiseRuns) })
	if events, counts := writes(t, log); len(events) > 0 {
		t.Errorf("while OpenKruise is back the operator writes:\n%s", counts)
	}
	kruise.release()
	n.Eventually("the operator acts on the change", func(ctx context.Context) error {
		set := &v1beta1.StatefulSet{}
		if err := direct.Get(ctx, client.ObjectKeyFromObject(changed), set); err != nil {
			return err
		}
		if set.Status.UpdateRevision == before.sets[client.ObjectKeyFromObject(set)].Status.UpdateRevision {
			return fmt.Errorf("the update revision is still %s", set.Status.UpdateRevision)
		}
		return nil
	})
	checkRights(t, c)
}

// checkRights finds no refused request of the operator, and no unneeded right to the Lease.
func checkRights(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	given, err := rights.Of("../../../config/rbac")
	if err != nil {
		t.Fatal(err)
	}
	given = slices.DeleteFunc(given, func(r rights.Right) bool { return r.Name != takeover.Lease().Name })
	if len(given) == 0 {
		t.Fatal("no role speaks of OpenKruise's lease")
	}
	events, err := audit.Begin(c.AuditLog()).Next(audit.ByUser(operator.ServiceAccountUser))
	if err != nil {
		t.Fatal(err)
	}
	if err := rights.Check(given, events, takeover.Namespace); err != nil {
		t.Error(err)
	}
}

// preflightSays returns the findings, whatever they are.
func preflightSays(t *testing.T, c *cluster.Cluster, o *operator.Operator) reports {
	t.Helper()
	out, err := shell(t, c, o, "kruise-preflight -o json")
	var found reports
	if parseErr := json.Unmarshal([]byte(out), &found); parseErr != nil {
		t.Fatalf("preflight prints no JSON: %v: %v\n%s", parseErr, err, out)
	}
	if found.Ready != (err == nil) {
		t.Fatalf("preflight says ready=%t and ends with %v", found.Ready, err)
	}
	return found
}

// waits returns an error unless the operator waits for this reason.
func waits(ctx context.Context, o *operator.Operator, reason takeover.Reason) error {
	text, err := o.Metrics(ctx)
	if err != nil {
		return err
	}
	if want := fmt.Sprintf("kruise_takeover_waiting{reason=%q} 1\n", reason); !strings.Contains(text, want) {
		return fmt.Errorf("its metrics do not have %s", want)
	}
	return nil
}

func awaitWaiting(n *environment.Namespace, o *operator.Operator, reason takeover.Reason) {
	n.Eventually("the operator waits: "+string(reason), func(ctx context.Context) error { return waits(ctx, o, reason) })
}

// checkReplaced finds nothing of OpenKruise's schema and conversion in our kinds' CRDs.
func checkReplaced(t *testing.T, c client.Client) {
	t.Helper()
	crds, err := filepath.Glob("../../../config/crd/bases/apps.kruise.io_*.yaml")
	if err != nil || len(crds) == 0 {
		t.Fatalf("no CRDs: %v", err)
	}
	for _, file := range crds {
		resource := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "apps.kruise.io_"), ".yaml")
		crd := &unstructured.Unstructured{}
		crd.SetAPIVersion("apiextensions.k8s.io/v1")
		crd.SetKind("CustomResourceDefinition")
		if err := c.Get(t.Context(), client.ObjectKey{Name: resource + ".apps.kruise.io"}, crd); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(crd.Object["spec"])
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "kruise-webhook-service") {
			t.Errorf("%s is still converted by OpenKruise", crd.GetName())
		}
		if strings.Contains(string(text), `"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true`) {
			t.Errorf("%s still has OpenKruise's schema", crd.GetName())
		}
	}
}

// checkWorld finds pods, claims and revisions untouched, and the sets as far as users see them; with statuses, to the last byte.
func checkWorld(t *testing.T, before, after fixture, statuses bool) {
	t.Helper()
	// Uncontrolled revisions record the API server's way of injection, too.
	maps.DeleteFunc(after.revisions, func(name types.NamespacedName, r appsv1.ControllerRevision) bool {
		_, known := before.revisions[name]
		owner := metav1.GetControllerOf(&r)
		return !known && (owner == nil || !strings.HasPrefix(owner.APIVersion, "apps"))
	})
	if !statuses { // volume claim templates are noted on the revisions that have none noted
		for name, r := range after.revisions {
			delete(r.Annotations, shared.AnnotationRecordedClaims)
			r.ResourceVersion, r.ManagedFields = before.revisions[name].ResourceVersion, before.revisions[name].ManagedFields
			after.revisions[name] = r
		}
	}
	for what, diff := range map[string]string{
		"pods":      cmp.Diff(before.pods, after.pods),
		"claims":    cmp.Diff(before.claims, after.claims),
		"revisions": cmp.Diff(before.revisions, after.revisions),
	} {
		if diff != "" {
			t.Errorf("%s changed (-before +after):\n%s", what, diff)
		}
	}
	for name, was := range before.sets {
		is := after.sets[name]
		if was.Status.CurrentRevision != is.Status.CurrentRevision || was.Status.UpdateRevision != is.Status.UpdateRevision ||
			was.Status.Replicas != is.Status.Replicas || was.Status.ReadyReplicas != is.Status.ReadyReplicas || was.Status.UpdatedReplicas != is.Status.UpdatedReplicas {
			t.Errorf("the status of %s was %+v and is %+v", name, was.Status, is.Status)
		}
		if diff := cmp.Diff(was.Spec, is.Spec); diff != "" {
			t.Errorf("the spec of %s changed:\n%s", name, diff)
		}
		if statuses {
			if diff := cmp.Diff(was.Status, is.Status); diff != "" {
				t.Errorf("the status of %s changed:\n%s", name, diff)
			}
		}
	}
	for name, was := range before.sidecars {
		is := after.sidecars[name]
		if diff := cmp.Diff(was.Spec, is.Spec) + cmp.Diff(was.Annotations, is.Annotations); diff != "" {
			t.Errorf("SidecarSet %s changed:\n%s", name.Name, diff)
		}
		was.Status.Conditions, is.Status.Conditions = nil, nil
		if diff := cmp.Diff(was.Status, is.Status); diff != "" {
			t.Errorf("the status of SidecarSet %s changed:\n%s", name.Name, diff)
		}
	}
	for name, was := range before.cloneSets {
		is := after.cloneSets[name]
		if diff := cmp.Diff(was.Spec, is.Spec); diff != "" {
			t.Errorf("the spec of %s changed:\n%s", name, diff)
		}
		if !statuses { // conditions are those of this operator
			was.Status.Conditions, is.Status.Conditions = nil, nil
		}
		if diff := cmp.Diff(was.Status, is.Status); diff != "" {
			t.Errorf("the status of %s changed:\n%s", name, diff)
		}
	}
}

// observed returns an error unless this operator has looked at every set.
func observed(w fixture) error {
	for name, set := range w.sets {
		if set.Status.ObservedGeneration != set.Generation || !hasCondition(&set, v1beta1.StatefulSetProgressing) {
			return fmt.Errorf("%s has the status %+v", name, set.Status)
		}
	}
	for name, set := range w.sidecars {
		if set.Status.ObservedGeneration != set.Generation || len(set.Status.Conditions) == 0 {
			return fmt.Errorf("SidecarSet %s has the status %+v", name.Name, set.Status)
		}
	}
	for name, set := range w.cloneSets {
		if set.Status.ObservedGeneration != set.Generation || condition(&set, v1beta1.CloneSetReconciling) == nil {
			return fmt.Errorf("%s has the status %+v", name, set.Status)
		}
	}
	return nil
}

// checkWaiting finds each CloneSet's reason to wait in the conditions.
func checkWaiting(t *testing.T, w fixture) {
	t.Helper()
	for name, part := range map[string]string{
		"cloneset-env-waiting/web": "node daemon",
		"cloneset-midway/cache":    "hook",
		"cloneset-surge/api":       "maxUnavailable",
	} {
		namespace, base, _ := strings.Cut(name, "/")
		set := w.cloneSets[types.NamespacedName{Namespace: namespace, Name: base}]
		var said []string
		for _, c := range set.Status.Conditions {
			said = append(said, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
		}
		if !strings.Contains(strings.Join(said, "\n"), part) {
			t.Errorf("the conditions of %s do not speak of %q:\n%s", name, part, strings.Join(said, "\n"))
		}
	}
}

// reapply applies the users' last manifests in their version: by a replace, which drops
// OpenKruise's defaults, and by an apply. Neither is a change.
func reapply(n *environment.Namespace, t *testing.T, c client.Client) {
	t.Helper()
	before := read(t, c)
	for _, name := range []string{"cloneset-simple", "cloneset-midway", "cloneset-surge", "cloneset-env", "cloneset-env-waiting", "statefulset-v1alpha1", "statefulset-midway"} {
		var set *unstructured.Unstructured
		for _, object := range slices.Concat(fixtures.Applied(t, name)...) {
			if object.GetKind() == "CloneSet" || object.GetKind() == "StatefulSet" {
				set = object
			}
		}
		set.SetNamespace(name)
		live := set.DeepCopy()
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(set), live); err != nil {
			t.Fatal(err)
		}
		replaced := set.DeepCopy()
		replaced.SetResourceVersion(live.GetResourceVersion())
		if err := c.Update(t.Context(), replaced); err != nil {
			t.Errorf("replacing %s %s: %v", set.GetKind(), name, err)
		}
		if err := c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(set), client.FieldOwner("user"), client.ForceOwnership); err != nil {
			t.Errorf("applying %s %s: %v", set.GetKind(), name, err)
		}
	}
	n.Eventually("the reapplied sets are observed", func(context.Context) error { return observed(read(t, c)) })
	n.Consistently(quiet, "nothing follows from it", func(context.Context) error {
		after := read(t, c)
		for what, diff := range map[string]string{"pods": cmp.Diff(before.pods, after.pods), "revisions": cmp.Diff(before.revisions, after.revisions)} {
			if diff != "" {
				return fmt.Errorf("%s changed (-before +after):\n%s", what, diff)
			}
		}
		return nil
	})
}

func condition(set *v1beta1.CloneSet, kind v1beta1.CloneSetConditionType) *v1beta1.CloneSetCondition {
	for i := range set.Status.Conditions {
		if set.Status.Conditions[i].Type == kind {
			return &set.Status.Conditions[i]
		}
	}
	return nil
}

// writes are the operator's since the last call. Admission's dry runs about templates write
// nothing.
func writes(t *testing.T, log *audit.Log) ([]auditv1.Event, audit.Counts) {
	t.Helper()
	events, err := log.Next(func(e *auditv1.Event) bool {
		return audit.ByUser(operator.ServiceAccountUser)(e) && !strings.Contains(e.RequestURI, "dryRun=All") && slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, e.Verb)
	})
	if err != nil {
		t.Fatal(err)
	}
	return events, audit.Count(events)
}

// registersInjection is true for requests to have the API server inject SidecarSets into
// new pods.
func registersInjection(e *auditv1.Event) bool {
	switch e.ObjectRef.Resource {
	case "mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "mutatingwebhookconfigurations":
		return true
	case "controllerrevisions":
		name := e.ObjectRef.Name
		return e.ObjectRef.Namespace == "kruise-system" && (name == "" || strings.HasPrefix(name, "sidecarset-") || strings.HasPrefix(name, "kruise-operator-sidecars-"))
	}
	return false
}

// checkWrites finds only writes to the sets' statuses and to SidecarSets' registrations in
// the audit log.
func checkWrites(t *testing.T, log *audit.Log, sets int) {
	t.Helper()
	events, _ := writes(t, log)
	counts := audit.Count(slices.DeleteFunc(events, func(e auditv1.Event) bool { return e.ObjectRef != nil && registersInjection(&e) }))
	statuses := 0
	for request, n := range counts {
		switch {
		case request.Resource == "statefulsets/status", request.Resource == "clonesets/status", request.Resource == "sidecarsets/status":
			statuses += n
		case request.Resource == "events", request == audit.Request{Verb: "delete", Resource: "leases", Code: 200}:
		case n == 1 && request.Verb == "patch" && request.Resource == "podprobemarkers/status":
			// One marker. Its nodes' lists stay: an omitted field of a probe there is the
			// kubelet's default.
		case n == 3 && request.Verb == "patch" && request.Resource == "controllerrevisions": // three sets have volume claims, which are noted
		default:
			t.Errorf("%d times %s %s (%d)", n, request.Verb, request.Resource, request.Code)
		}
	}
	if statuses < sets {
		t.Errorf("%d statuses were written, %d sets exist; all writes:\n%s", statuses, sets, counts)
	}
	t.Logf("measured: %d status writes for %d sets, and one for the marker", statuses, sets)
}

func hasCondition(set *v1beta1.StatefulSet, kind appsv1.StatefulSetConditionType) bool {
	return slices.ContainsFunc(set.Status.Conditions, func(c appsv1.StatefulSetCondition) bool { return c.Type == kind })
}

// namespaceOf gives the waiting verbs.
func namespaceOf(t *testing.T, c *cluster.Cluster, direct client.Client) *environment.Namespace {
	t.Helper()
	watching, err := client.NewWithWatch(c.Config(), client.Options{Scheme: direct.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return (&environment.Environment{Cluster: c, Client: watching}).Namespace(t)
}
