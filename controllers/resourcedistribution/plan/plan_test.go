// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
)

const (
	settings  = `{"apiVersion":"v1","data":{"a":"1"},"kind":"ConfigMap","metadata":{"name":"settings"}}`
	changed   = `{"apiVersion":"v1","data":{"a":"2"},"kind":"ConfigMap","metadata":{"name":"settings"}}`
	withLabel = `{"apiVersion":"v1","data":{"a":"1"},"kind":"ConfigMap","metadata":{"labels":{"x":"y"},"name":"settings"}}`
)

// cluster is namespaces with the objects of one name, and one distribution.
type cluster struct {
	t      *testing.T
	now    time.Time
	object *appsv1beta1.ResourceDistribution
	// namespaces have labels; a terminating one has the label terminating.
	namespaces map[string]map[string]string
	copies     map[string]*metav1.PartialObjectMetadata
	// refuse is how the server refuses a step in a namespace.
	refuse map[string]planning.Failure
	// writes are those of the last pass.
	writes []string
	last   Decision
}

func newCluster(t *testing.T, resource string, namespaces ...string) *cluster {
	t.Helper()
	c := &cluster{
		t: t, now: time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC), namespaces: map[string]map[string]string{},
		copies: map[string]*metav1.PartialObjectMetadata{}, refuse: map[string]planning.Failure{},
		object: &appsv1beta1.ResourceDistribution{ObjectMeta: metav1.ObjectMeta{Name: "hub", UID: "hub-uid", Generation: 1}},
	}
	c.object.Spec.Resource.Raw = []byte(resource)
	for _, name := range namespaces {
		name, label, _ := strings.Cut(name, ":")
		c.namespaces[name] = map[string]string{"kubernetes.io/metadata.name": name}
		if label != "" {
			c.namespaces[name][label] = "yes"
		}
	}
	return c
}

// list are namespaces to include or exclude.
func list(names ...string) appsv1beta1.ResourceDistributionTargetNamespaces {
	all := appsv1beta1.ResourceDistributionTargetNamespaces{}
	for _, name := range names {
		all.List = append(all.List, appsv1beta1.ResourceDistributionNamespace{Name: name})
	}
	return all
}

func (c *cluster) snapshot(spec *Spec) Snapshot {
	s := Snapshot{Now: c.now, Namespaces: map[string]Namespace{}, Copies: map[string]Copy{}}
	for name, has := range c.namespaces {
		s.Namespaces[name] = Namespace{Labels: has, Terminating: has["terminating"] != ""}
	}
	for namespace, object := range c.copies {
		if metav1.IsControlledBy(object, c.object) {
			s.Copies[namespace] = Observe(spec, object)
		}
	}
	return s
}

// pass plans once, carries everything out that the server takes, and writes the status.
func (c *cluster) pass() *appsv1beta1.ResourceDistributionStatus {
	c.t.Helper()
	spec := Parse(c.object)
	s := c.snapshot(spec)
	c.last, c.writes = Plan(spec, s), nil
	outcome := planning.Outcome{Steps: map[planning.Step]int{}}
	for i := range c.last.Actions {
		a := &c.last.Actions[i]
		if failure, refused := c.refuse[a.Object.GetNamespace()]; refused {
			failure.Step, failure.Slot, failure.Refused = a.Step, a.Slot, true
			outcome.Failures = append(outcome.Failures, failure)
			continue
		}
		c.writes = append(c.writes, strings.TrimSuffix(strings.ToLower(string(a.Step)), "copy")+" "+a.Object.GetNamespace())
		outcome.Done++
		outcome.Steps[a.Step]++
		c.carryOut(a)
	}
	status := Status(spec, s, c.last, outcome)
	c.object.Status = status
	return &status
}

func (c *cluster) carryOut(a *planning.Action) {
	c.t.Helper()
	namespace := a.Object.GetNamespace()
	switch a.Verb {
	case planning.VerbApply:
		known := c.copies[namespace]
		if a.OnlyNew != (known == nil) {
			c.t.Fatalf("in %s OnlyNew is %t, and there is %v", namespace, a.OnlyNew, known)
		}
		object, ok := a.Object.(*unstructured.Unstructured)
		if !ok {
			c.t.Fatalf("a %T is applied", a.Object)
		}
		c.copies[namespace] = stored(c.t, object, known)
	case planning.VerbPatch:
		c.copies[namespace].ManagedFields = slices.DeleteFunc(c.copies[namespace].ManagedFields, func(entry metav1.ManagedFieldsEntry) bool { return entry.Manager == "kubectl" })
	case planning.VerbDelete:
		delete(c.copies, namespace)
	default:
		c.t.Fatalf("verb %s", a.Verb)
	}
}

// stored is the metadata of an applied object as the server keeps it.
func stored(t *testing.T, object *unstructured.Unstructured, known *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	t.Helper()
	content, err := object.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	metadata := &metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(content, metadata); err != nil {
		t.Fatal(err)
	}
	data, _, _ := unstructured.NestedStringMap(object.Object, "data")
	metadata.UID = types.UID("uid-" + metadata.Namespace)
	owned := entry(shared.FieldManagerDistribution, metav1.ManagedFieldsOperationApply, slices.Sorted(maps.Keys(data))...)
	metadata.ManagedFields = append(metadata.ManagedFields, owned)
	if known != nil {
		metadata.Annotations = merge(known.Annotations, metadata.Annotations)
		for _, other := range known.ManagedFields {
			if other.Manager != shared.FieldManagerDistribution && other.Manager != "kubectl-edit" {
				metadata.ManagedFields = append(metadata.ManagedFields, other)
			}
		}
	}
	return metadata
}

func merge(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// entry is the managed fields of a writer of keys of data.
func entry(manager string, operation metav1.ManagedFieldsOperationType, keys ...string) metav1.ManagedFieldsEntry {
	owned := map[string]any{".": map[string]any{}}
	for _, key := range keys {
		owned["f:"+key] = map[string]any{}
	}
	raw, _ := json.Marshal(map[string]any{"f:data": owned, "f:metadata": map[string]any{"f:labels": map[string]any{"f:x": map[string]any{}}}})
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(raw))}
}

// takes makes another writer own keys of a copy instead of us.
func (c *cluster) takes(namespace string, ours, theirs []string) {
	c.copies[namespace].ManagedFields = []metav1.ManagedFieldsEntry{
		entry(shared.FieldManagerDistribution, metav1.ManagedFieldsOperationApply, ours...),
		entry("kubectl", metav1.ManagedFieldsOperationUpdate, theirs...),
	}
}

func (c *cluster) expect(what string, writes ...string) {
	c.t.Helper()
	if !slices.Equal(c.writes, writes) {
		c.t.Errorf("%s: writes %v, want %v", what, c.writes, writes)
	}
}

func counts(s *appsv1beta1.ResourceDistributionStatus) string {
	return fmt.Sprintf("desired %d succeeded %d failed %d", s.Desired, s.Succeeded, s.Failed)
}

// faulty are the conditions of a status that say True, with reason and namespaces.
func faulty(s *appsv1beta1.ResourceDistributionStatus) string {
	var all []string
	for _, c := range s.Conditions {
		if c.Status == corev1.ConditionTrue {
			all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Type, c.Reason, strings.Join(c.FailedNamespaces, " "))))
		}
	}
	return strings.Join(all, "; ")
}

func equal(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
}

// E1.
func TestEveryNamespaceButSystemAndExcludedOnes(t *testing.T) {
	c := newCluster(t, settings, "default", "kube-system", "kube-public", "t1", "t2:gold")
	c.object.Spec.Targets = appsv1beta1.ResourceDistributionTargets{AllNamespaces: true, ExcludedNamespaces: list("t1")}
	status := c.pass()
	c.expect("first", "create default", "create t2")
	equal(t, "status", counts(status), "desired 2 succeeded 2 failed 0")
	equal(t, "faults", faulty(status), "")
	var kinds []string
	for _, condition := range status.Conditions {
		kinds = append(kinds, string(condition.Type))
		if condition.Type != appsv1beta1.ResourceDistributionReconciling && condition.Type != appsv1beta1.ResourceDistributionStalled &&
			(condition.Status != corev1.ConditionFalse || condition.Reason != "Succeeded" || condition.LastTransitionTime.IsZero()) {
			t.Errorf("condition %+v", condition)
		}
	}
	equal(t, "conditions", strings.Join(kinds, " "), "GetResourceFailed CreateResourceFailed UpdateResourceFailed DeleteResourceFailed ConflictOccurred NamespaceNotExists Reconciling Stalled")
	before := status.DeepCopy()
	c.now = c.now.Add(time.Hour)
	after := c.pass()
	c.expect("at rest")
	if len(Events(before, after)) > 0 || !slices.EqualFunc(before.Conditions, after.Conditions, func(a, b appsv1beta1.ResourceDistributionCondition) bool {
		return a.Type == b.Type && a.LastTransitionTime.Equal(&b.LastTransitionTime) && a.Message == b.Message
	}) {
		t.Errorf("the status changes at rest:\n%+v\n%+v", before, after)
	}
}

// E2.
func TestANamespaceThatIsNotThereYet(t *testing.T) {
	c := newCluster(t, settings, "t1")
	c.object.Spec.Targets.IncludedNamespaces = list("t1", "t9")
	status := c.pass()
	equal(t, "status", counts(status), "desired 2 succeeded 1 failed 1")
	equal(t, "faults", faulty(status), "NamespaceNotExists namespace not found or is terminating t9; Reconciling NamespaceNotExists")
	if c.last.RecheckAfter != 0 {
		t.Errorf("it is tried again after %s", c.last.RecheckAfter)
	}
	c.namespaces["t9"] = map[string]string{}
	status = c.pass()
	c.expect("it is created", "create t9")
	equal(t, "status", counts(status), "desired 2 succeeded 2 failed 0")
	equal(t, "faults", faulty(status), "")
}

func TestWithAllNamespacesNoneIsMissing(t *testing.T) {
	c := newCluster(t, settings, "t1", "t2:gold")
	c.object.Spec.Targets = appsv1beta1.ResourceDistributionTargets{AllNamespaces: true, IncludedNamespaces: list("t9")}
	c.object.Spec.Targets.NamespaceSelector.MatchLabels = map[string]string{"gold": "yes"}
	equal(t, "status", counts(c.pass()), "desired 2 succeeded 2 failed 0")
	c.expect("both", "create t1", "create t2")
}

// Anybody can write annotations and names.
func TestOnlyTheUIDOfTheOwnerMakesAnObjectOurs(t *testing.T) {
	c := newCluster(t, settings, "t1")
	c.object.Spec.Targets.AllNamespaces = true
	c.pass()
	c.copies["t1"].OwnerReferences[0].UID = "forged"
	spec := Parse(c.object)
	if is := Observe(spec, c.copies["t1"]).State; is != Foreign {
		t.Errorf("it is %s", is)
	}
	c.object.Spec.Targets = appsv1beta1.ResourceDistributionTargets{}
	c.pass()
	c.expect("the namespace is no target")
}

// E3.
func TestAnObjectOfSomebodyElseIsLeftAlone(t *testing.T) {
	c := newCluster(t, settings, "t1", "t2:gold")
	c.object.Spec.Targets.NamespaceSelector.MatchLabels = map[string]string{"gold": "yes"}
	c.copies["t2"] = &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "t2", Name: "settings", UID: "u"}}
	c.refuse["t2"] = planning.Failure{Taken: true, Message: `configmaps "settings" is forbidden: a configmap with this name exists and is controlled by nobody`}
	status := c.pass()
	c.expect("first")
	if a := c.last.Actions; len(a) != 1 || !a[0].OnlyNew {
		t.Errorf("actions %+v", a)
	}
	equal(t, "status", counts(status), "desired 1 succeeded 0 failed 1")
	equal(t, "faults", faulty(status), "ConflictOccurred "+c.refuse["t2"].Message+" t2; Stalled DistributionFailed")
	if events := Events(&appsv1beta1.ResourceDistributionStatus{}, status); len(events) != 1 || !events[0].Warning || events[0].Reason != "DistributionFailed" {
		t.Errorf("events %+v", events)
	}
	delete(c.copies, "t2")
	delete(c.refuse, "t2")
	before := c.object.Status.DeepCopy()
	status = c.pass()
	c.expect("the user deletes it", "create t2")
	if events := Events(before, status); len(events) != 1 || events[0].Warning || events[0].Reason != "Distributed" {
		t.Errorf("events %+v", events)
	}
}

// E4, E6, and what a user may do to a namespace.
func TestNamespacesThatComeAndGo(t *testing.T) {
	c := newCluster(t, settings, "t1:gold", "t2:gold")
	c.object.Spec.Targets.NamespaceSelector.MatchLabels = map[string]string{"gold": "yes"}
	c.pass()
	delete(c.namespaces["t2"], "gold")
	status := c.pass()
	c.expect("the label goes", "delete t2")
	equal(t, "status", counts(status), "desired 1 succeeded 1 failed 0")
	c.namespaces["t1"]["terminating"] = "yes"
	delete(c.copies, "t1") // its namespace is being emptied
	status = c.pass()
	c.expect("a chosen namespace terminates")
	equal(t, "status", counts(status), "desired 0 succeeded 0 failed 0")
	equal(t, "faults", faulty(status), "")
	delete(c.namespaces, "t1")
	c.namespaces["t3"] = map[string]string{"gold": "yes"}
	c.pass()
	c.expect("another one is created", "create t3")
}

// E5.
func TestWhatOthersChange(t *testing.T) {
	c := newCluster(t, settings, "default", "t1")
	c.object.Spec.Targets.AllNamespaces = true
	c.pass()
	c.takes("default", nil, []string{"a"})
	c.pass()
	c.expect("the value of a key is changed", "update default")
	c.pass()
	c.expect("afterwards")

	c.takes("default", []string{"a"}, []string{"b"})
	c.pass()
	c.expect("a key is added", "update default")
	patch, ok := c.last.Actions[0].Change.(planning.RawPatch)
	if !ok || string(patch.Body) != `{"data":{"b":null},"metadata":{"uid":"uid-default"}}` {
		t.Errorf("the patch is %s", patch.Body)
	}
	c.pass()
	c.expect("afterwards")

	c.copies["t1"].Labels["x"], c.copies["t1"].Annotations["y"] = "y", "z"
	c.copies["t1"].ManagedFields = append(c.copies["t1"].ManagedFields, metav1.ManagedFieldsEntry{
		Manager: "kubectl-label", Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:x":{}}}}`),
	})
	c.pass()
	c.expect("labels and annotations are added")
	c.copies["t1"].ManagedFields = nil
	c.pass()
	c.expect("managed fields are cleared", "update t1")
	delete(c.copies, "t1")
	c.pass()
	c.expect("a copy is deleted", "create t1")
	c.copies["t1"].Annotations[shared.AnnotationDistributedHash] = "other"
	c.pass()
	c.expect("the hash is changed", "update t1")
}

// E7, and changes of the resource.
func TestEditsOfTheSpec(t *testing.T) {
	c := newCluster(t, settings, "t1", "t2", "t3")
	c.object.Spec.Targets.IncludedNamespaces = list("t1", "t2")
	c.pass()
	c.object.Spec.Targets.IncludedNamespaces = list("t2", "t3")
	c.object.Generation = 2
	status := c.pass()
	c.expect("other targets", "delete t1", "create t3")
	equal(t, "status", counts(status), "desired 2 succeeded 2 failed 0")
	if status.ObservedGeneration != 2 {
		t.Errorf("observed generation %d", status.ObservedGeneration)
	}
	c.object.Spec.Resource.Raw = []byte(changed)
	c.pass()
	c.expect("other data", "update t2", "update t3")
	c.object.Spec.Resource.Raw = []byte(withLabel)
	c.pass()
	c.expect("labels alone", "update t2", "update t3")
	if c.copies["t2"].Labels["x"] != "y" {
		t.Errorf("labels %v", c.copies["t2"].Labels)
	}
	c.object.Spec.Targets.ExcludedNamespaces = list("t3")
	c.pass()
	c.expect("one is excluded", "delete t3")
	c.object.Spec.Targets = appsv1beta1.ResourceDistributionTargets{}
	status = c.pass()
	c.expect("no targets", "delete t2")
	equal(t, "status", counts(status), "desired 0 succeeded 0 failed 0")
}

// E8.
func TestAnImmutableCopyIsReportedInEachNamespace(t *testing.T) {
	var names []string
	for i := range 40 {
		names = append(names, fmt.Sprintf("t%02d", i))
	}
	c := newCluster(t, `{"apiVersion":"v1","data":{"a":"1"},"immutable":true,"kind":"ConfigMap","metadata":{"name":"settings"}}`, names...)
	c.object.Spec.Targets.AllNamespaces = true
	c.pass()
	for _, name := range names {
		c.copies[name].ManagedFields[0].FieldsV1 = metav1.NewFieldsV1(`{"f:data":{"f:a":{}},"f:immutable":{}}`)
	}
	c.pass()
	c.expect("at rest")
	c.object.Spec.Resource.Raw = []byte(`{"apiVersion":"v1","data":{"a":"2"},"immutable":true,"kind":"ConfigMap","metadata":{"name":"settings"}}`)
	for _, name := range names {
		c.refuse[name] = planning.Failure{Message: "field is immutable when `immutable` is set"}
	}
	status := c.pass()
	equal(t, "status", counts(status), "desired 40 succeeded 0 failed 40")
	equal(t, "faults", faulty(status), "UpdateResourceFailed field is immutable when `immutable` is set "+strings.Join(names, " ")+"; Stalled DistributionFailed")
}

func TestRefusalsHaveACondition(t *testing.T) {
	c := newCluster(t, settings, "a", "b", "c")
	c.object.Spec.Targets.AllNamespaces = true
	c.refuse["b"] = planning.Failure{Message: "exceeded quota"}
	status := c.pass()
	equal(t, "status", counts(status), "desired 3 succeeded 2 failed 1")
	equal(t, "faults", faulty(status), "CreateResourceFailed exceeded quota b; Stalled DistributionFailed")
	c.object.Spec.Targets.ExcludedNamespaces = list("a")
	c.refuse["a"] = planning.Failure{Message: "denied"}
	equal(t, "a deletion", faulty(c.pass()), "CreateResourceFailed exceeded quota b; DeleteResourceFailed denied a; Stalled DistributionFailed")
}

func TestAConditionNamesABoundedNumberOfNamespaces(t *testing.T) {
	var names []string
	for i := range 5000 {
		names = append(names, fmt.Sprintf("team-with-a-rather-long-name-%d", i))
	}
	c := newCluster(t, settings)
	c.object.Spec.Targets.IncludedNamespaces = list(names...)
	status := c.pass()
	for _, condition := range status.Conditions {
		if len(condition.FailedNamespaces) > maxNames || !slices.IsSorted(condition.FailedNamespaces) {
			t.Errorf("%s names %d namespaces", condition.Type, len(condition.FailedNamespaces))
		}
		if condition.Type == appsv1beta1.ResourceDistributionNamespaceNotExists && !strings.HasPrefix(condition.Message, "5000 namespaces (") {
			t.Errorf("the message is %s", condition.Message)
		}
	}
	equal(t, "status", counts(status), "desired 5000 succeeded 0 failed 5000")
}

func TestSecretsWithoutARole(t *testing.T) {
	c := newCluster(t, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"pull"},"stringData":{"token":"fake"},"data":{"b":"Yg=="}}`, "a", "b", "d")
	c.object.Spec.Targets.AllNamespaces = true
	spec := Parse(c.object)
	s := c.snapshot(spec)
	s.Unreadable, s.Forbidden = map[string]string{"a": "secrets is forbidden"}, map[string]bool{"a": true}
	s.Unread = map[string]bool{"b": true}
	s.Copies["d"] = Copy{Object: &metav1.PartialObjectMetadata{}, State: Foreign}
	d := Plan(spec, s)
	if len(d.Actions) > 0 {
		t.Errorf("actions %+v", d.Actions)
	}
	status := Status(spec, s, d, planning.Outcome{})
	equal(t, "faults", faulty(&status), "GetResourceFailed secrets is forbidden a; ConflictOccurred Secret pull belongs to somebody else d; Stalled RightsMissing")
	for _, condition := range status.Conditions {
		if condition.Type == "Stalled" && condition.Message != "The operator may not write Secrets in 1 namespace (a): bind the ClusterRole kruise-operator-distribute-secrets there to its account." {
			t.Errorf("the message is %s", condition.Message)
		}
	}
	s.Unreadable, s.Unread = nil, nil
	d = Plan(spec, s)
	object, ok := d.Actions[0].Object.(*unstructured.Unstructured)
	if data, _, _ := unstructured.NestedStringMap(object.Object, "data"); !ok || data["token"] != "ZmFrZQ==" || data["b"] != "Yg==" || object.Object["stringData"] != nil {
		t.Errorf("applied is %+v", object)
	}
}

func TestReservedMetadataIsNotCopied(t *testing.T) {
	c := newCluster(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"s","namespace":"x","uid":"u","resourceVersion":"7","creationTimestamp":"2026-01-01T00:00:00Z",`+
		`"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"p"}],"managedFields":[{"manager":"m"}],"labels":{"a":"b"},"annotations":{"c":"d"},"finalizers":["e/f"]}}`, "t")
	c.object.Spec.Targets.AllNamespaces = true
	d := Plan(Parse(c.object), c.snapshot(Parse(c.object)))
	object, _ := d.Actions[0].Object.(*unstructured.Unstructured)
	metadata, _ := object.Object["metadata"].(map[string]any)
	equal(t, "metadata", strings.Join(slices.Sorted(maps.Keys(metadata)), " "), "annotations finalizers labels name namespace ownerReferences")
	equal(t, "labels", fmt.Sprint(metadata["labels"]), "map[a:b operator.kruise.io/distributed:true]")
	equal(t, "annotations", fmt.Sprint(metadata["annotations"]),
		"map[c:d kruise.io/resourcedistribution.resource.from:hub kruise.io/resourcedistribution.resource.hashcode:"+Parse(c.object).Hash+"]")
	equal(t, "owners", fmt.Sprint(metadata["ownerReferences"]),
		"[map[apiVersion:apps.kruise.io/v1beta1 blockOwnerDeletion:true controller:true kind:ResourceDistribution name:hub uid:hub-uid]]")
}

// Hashes are those that OpenKruise wrote in the fixtures.
func TestTheHashIsOpenKruises(t *testing.T) {
	for resource, want := range map[string]string{
		`{"apiVersion":"v1","data":{"a":"1"},"kind":"ConfigMap","metadata":{"annotations":{"example.com/from":"hub"},"name":"settings"}}`:    "7a9a0a5cac765120ec9b43865d4be5f7068a157394f38175612b6d4e78dbb665",
		`{"apiVersion":"v1","data":{"token":"ZmFrZQ=="},"kind":"Secret","metadata":{"labels":{"app":"pull"},"name":"pull"},"type":"Opaque"}`: "3170592b37559065a68e569bce59922cff6e568fd6ac6023d084c2104a55ac4f",
	} {
		c := newCluster(t, resource)
		equal(t, resource, Parse(c.object).Hash, want)
	}
}

func TestWhatCannotBeCarriedOut(t *testing.T) {
	for want, resource := range map[string]string{
		"spec.resource: has kind Pod of v1; copied are kinds ConfigMap and Secret of v1": `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}`,
		"spec.resource: unexpected end of JSON input":                                    ``,
		"spec.resource: stringData.a is no text":                                         `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"p"},"stringData":{"a":1}}`,
	} {
		c := newCluster(t, resource, "t")
		c.object.Spec.Targets.AllNamespaces = true
		status := c.pass()
		c.expect(want)
		equal(t, want, faulty(status), "Stalled InvalidSpec")
		if got := status.Conditions[len(status.Conditions)-1].Message; got != want {
			t.Errorf("the message is %s, want %s", got, want)
		}
	}
}

func TestADistributionThatIsBeingDeletedWritesNothing(t *testing.T) {
	c := newCluster(t, settings, "t")
	c.object.Spec.Targets.AllNamespaces = true
	now := metav1.NewTime(c.now)
	c.object.DeletionTimestamp = &now
	equal(t, "conditions", faulty(c.pass()), "Reconciling Deleting")
	c.expect("it is being deleted")
}

func TestNamedSystemNamespacesAreReported(t *testing.T) {
	c := newCluster(t, settings, "kube-system", "t")
	c.object.Spec.Targets.IncludedNamespaces = list("kube-system", "t")
	status := c.pass()
	c.expect("first", "create t")
	for _, condition := range status.Conditions {
		if condition.Type == "Reconciling" && condition.Message != "Every namespace has an up to date copy. None is copied to system namespaces (kube-system)." {
			t.Errorf("the message is %s", condition.Message)
		}
	}
}
