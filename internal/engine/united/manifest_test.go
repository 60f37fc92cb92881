// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/testutil/fixtures"
)

func parsed(t *testing.T, manifest string) *Spec {
	t.Helper()
	set := &appsv1beta1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shop", UID: "set"}}
	if err := yaml.UnmarshalStrict([]byte(manifest), &set.Spec); err != nil {
		t.Fatal(err)
	}
	return Parse(set)
}

const twoZones = `
replicas: 4
selector: {matchExpressions: [{key: app, operator: In, values: [shop]}]}
template:
  KIND:
    metadata: {labels: {app: shop}, annotations: {team: a}}
    spec:
      updateStrategy: {type: STRATEGY}
      template:
        metadata: {labels: {app: shop}, creationTimestamp: null}
        spec:
          tolerations: [{key: x, operator: Exists}]
          affinity:
            nodeAffinity:
              requiredDuringSchedulingIgnoredDuringExecution:
                nodeSelectorTerms:
                - matchExpressions: [{key: disk, operator: In, values: [ssd]}]
                - matchFields: [{key: metadata.name, operator: In, values: [n1]}]
          containers: [{name: main, image: "shop:1"}]
topology:
  subsets:
  - name: a
    nodeSelectorTerm: {matchExpressions: [{key: zone, operator: In, values: [a]}]}
    tolerations: [{key: spot, operator: Exists}]
    patch: PATCH
`

func withKind(kind, strategy, patch string) string {
	return strings.NewReplacer("KIND", kind, "STRATEGY", strategy, "PATCH", patch).Replace(twoZones)
}

func TestManifest(t *testing.T) {
	spec := parsed(t, withKind("cloneSetTemplate", "RollingUpdate", "{spec: {containers: [{name: main, env: [{name: POOL, value: spot}]}]}, metadata: {labels: {tier: x}}}"))
	if spec.Invalid != nil {
		t.Fatal(spec.Invalid)
	}
	got, err := spec.Manifest(&spec.Subsets[0], Target{Name: "shop-a", Revision: "shop-1", Size: 3, Partition: 2})
	if err != nil {
		t.Fatal(err)
	}
	unstructured.RemoveNestedField(got.Object, "metadata", "annotations", shared.AnnotationAppliedHash)
	want := map[string]any{}
	text := `
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata:
  namespace: default
  name: shop-a
  labels: {app: shop, apps.kruise.io/subset-name: a, apps.kruise.io/controller-revision-hash: shop-1}
  annotations:
    team: a
    apps.kruise.io/subset-patch: '{"metadata":{"labels":{"tier":"x"}},"spec":{"containers":[{"env":[{"name":"POOL","value":"spot"}],"name":"main"}]}}'
  ownerReferences:
  - {apiVersion: apps.kruise.io/v1beta1, kind: UnitedDeployment, name: shop, uid: set, controller: true, blockOwnerDeletion: true}
spec:
  replicas: 3
  selector:
    matchLabels: {apps.kruise.io/subset-name: a}
    matchExpressions: [{key: app, operator: In, values: [shop]}]
  updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 2}}
  template:
    metadata:
      labels: {app: shop, apps.kruise.io/subset-name: a, apps.kruise.io/controller-revision-hash: shop-1, tier: x}
    spec:
      tolerations: [{key: x, operator: Exists}, {key: spot, operator: Exists}]
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
            - matchExpressions: [{key: disk, operator: In, values: [ssd]}, {key: zone, operator: In, values: [a]}]
            - matchFields: [{key: metadata.name, operator: In, values: [n1]}]
              matchExpressions: [{key: zone, operator: In, values: [a]}]
      containers: [{name: main, image: "shop:1", env: [{name: POOL, value: spot}]}]
`
	if err := yaml.Unmarshal([]byte(text), &want); err != nil {
		t.Fatal(err)
	}
	asText := func(object map[string]any) string {
		out, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	if diff := cmp.Diff(asText(want), asText(got.Object)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPartitionsAndLimitsGoWhereTheKindHasThem(t *testing.T) {
	cases := map[string]struct {
		kind, strategy string
		partition      bool
		maxUnavailable string
	}{
		"a StatefulSet":                         {"statefulSetTemplate", "RollingUpdate", true, ""},
		"a StatefulSet with OnDelete":           {"statefulSetTemplate", "OnDelete", false, ""},
		"an Advanced StatefulSet":               {"advancedStatefulSetTemplate", "RollingUpdate", true, ""},
		"an Advanced StatefulSet with OnDelete": {"advancedStatefulSetTemplate", "OnDelete", false, ""},
		"a CloneSet":                            {"cloneSetTemplate", "RollingUpdate", true, "updateStrategy"},
		"a CloneSet with OnDelete":              {"cloneSetTemplate", "OnDelete", true, ""},
		"a Deployment":                          {"deploymentTemplate", "RollingUpdate", false, "strategy"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			spec := parsed(t, withKind(tc.kind, tc.strategy, "null"))
			if spec.Invalid != nil {
				t.Fatal(spec.Invalid)
			}
			got, err := spec.Manifest(&spec.Subsets[0], Target{Name: "shop-a", Revision: "r", Size: 3, Partition: 2, Unable: 2})
			if err != nil {
				t.Fatal(err)
			}
			if _, found, _ := unstructured.NestedFieldNoCopy(got.Object, "spec", "updateStrategy", "rollingUpdate", "partition"); found != tc.partition {
				t.Errorf("it has a partition: %v, want %v", found, tc.partition)
			}
			for _, field := range []string{"updateStrategy", "strategy"} {
				_, found, _ := unstructured.NestedFieldNoCopy(got.Object, "spec", field, "rollingUpdate", "maxUnavailable")
				if found != (field == tc.maxUnavailable) {
					t.Errorf("%s has maxUnavailable: %v", field, found)
				}
			}
		})
	}
}

func TestPatchesThatCannotBeFollowed(t *testing.T) {
	for name, patch := range map[string]string{
		"takes a label of the selector":   "{metadata: {labels: {app: other}}}",
		"removes a label of the selector": "{metadata: {labels: {app: null}}}",
		"takes the label of the subset":   "{metadata: {labels: {apps.kruise.io/subset-name: b}}}",
		"a text where there is a list":    "{spec: {containers: none}}",
		"a list item without its key":     "{spec: {containers: [{image: x}]}}",
		"an unknown way to patch":         "{spec: {$patch: explode}}",
		"a number where there is a text":  "{spec: {schedulerName: 1}}",
	} {
		t.Run(name, func(t *testing.T) {
			spec := parsed(t, withKind("cloneSetTemplate", "RollingUpdate", patch))
			if spec.Invalid != nil {
				t.Fatal(spec.Invalid)
			}
			if got, err := spec.Manifest(&spec.Subsets[0], Target{Name: "shop-a", Revision: "r"}); err == nil {
				t.Errorf("it is followed: %v", got.Object["spec"])
			}
		})
	}
}

func TestNames(t *testing.T) {
	long := strings.Repeat("x", 40)
	for name, tc := range map[string]struct{ set, sub, first string }{
		"short": {"shop", "zone-a", "shop-zone-a"},
	} {
		if got := Names(tc.set, tc.sub); got[0] != tc.first || !strings.HasPrefix(got[1], tc.first+"-") || got != Names(tc.set, tc.sub) {
			t.Errorf("%s: %v", name, got)
		}
	}
	first, second := Names(long, long+"a"), Names(long, long+"b")
	if len(first[0]) > longestName || first[0] == second[0] {
		t.Errorf("names of two long subsets: %v and %v", first, second)
	}
	if dotted := Names("my.shop", "a"); !strings.HasPrefix(dotted[0], "my-shop-a-") || dotted[0] == Names("my-shop", "a")[0] || dotted[0] == Names("my-shop", "a")[1] {
		t.Errorf("names of one with a dot: %v", dotted)
	}
	for _, set := range []string{long, "my.shop"} {
		if both := Names(set, long); both[0] == both[1] || len(both[1]) > longestName {
			t.Errorf("names of %s, of which the first may be taken: %v", set, both)
		}
	}
	if kept := Names("my.shop", "a")[0]; kept != "my-shop-a-54669ff87" {
		t.Errorf("the name of earlier versions is not %s", kept)
	}
	if a, b := Names("a-b", "c"), Names("a", "b-c"); a[0] != b[0] || a[1] == b[1] {
		t.Errorf("names that are alike: %v and %v: only the second ones should differ", a, b)
	}
}

// TestFingerprint: what a Target says makes no difference to it, and everything else does.
func TestFingerprint(t *testing.T) {
	const spec = `{"replicas":3,"template":{"metadata":{"labels":{"app":"shop"}}},"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":1,"maxUnavailable":"20%","paused":false}}}`
	for _, a := range Adapters() {
		if a.Field != "cloneSetTemplate" {
			continue
		}
		for name, tc := range map[string]struct {
			from, to string
			same     bool
		}{
			"another size":              {`"replicas":3`, `"replicas":4`, true},
			"another partition":         {`"partition":1`, `"partition":2`, true},
			"another limit":             {`"20%"`, `7`, true},
			"no partition and no limit": {`"partition":1,"maxUnavailable":"20%",`, ``, true},
			"another template":          {`"app":"shop"`, `"app":"web"`, false},
			"a pause":                   {`"paused":false`, `"paused":true`, false},
			"another strategy":          {`"type":"RollingUpdate"`, `"type":"OnDelete"`, false},
		} {
			t.Run(name, func(t *testing.T) {
				var before, after map[string]any
				for text, into := range map[string]*map[string]any{spec: &before, strings.Replace(spec, tc.from, tc.to, 1): &after} {
					if err := yaml.Unmarshal([]byte(text), into); err != nil {
						t.Fatal(err)
					}
				}
				if got := a.Fingerprint(before) == a.Fingerprint(after); got != tc.same {
					t.Errorf("the same: %v, want %v", got, tc.same)
				}
				if Number(before, "updateStrategy", "rollingUpdate", "partition") != 1 || Number(before, "replicas") != 3 {
					t.Errorf("the spec was changed: %v", before)
				}
			})
		}
	}
}

func TestInvalidSpecs(t *testing.T) {
	for name, tc := range map[string]struct{ from, to, want string }{
		"no template":       {"cloneSetTemplate:", "otherTemplate:", "spec.template has none"},
		"a bad size":        {"- name: a", "- {name: b, maxReplicas: 120%}\n  - name: a", "maxReplicas of subset b"},
		"no pod template":   {"      template:", "      pods:", "spec.template.cloneSetTemplate.spec.template is not an object"},
		"an empty selector": {"{matchExpressions: [{key: app, operator: In, values: [shop]}]}", "{}", "spec.selector is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(withKind("cloneSetTemplate", "RollingUpdate", "null"), tc.from, tc.to, 1)
			set := &appsv1beta1.UnitedDeployment{}
			if err := yaml.Unmarshal([]byte(text), &set.Spec); err != nil {
				t.Fatal(err)
			}
			if err := Parse(set).Invalid; err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

// TestWorkloadsOfOpenKruiseHaveAllThatIsApplied: what is applied to the workloads that OpenKruise left changes no field of their specs.
func TestWorkloadsOfOpenKruiseHaveAllThatIsApplied(t *testing.T) {
	objects, workloads := fixtures.Objects(t, fixture+"/state.yaml"), 0
	for _, object := range objects {
		name := object.GetLabels()[shared.LabelSubsetName]
		if name == "" || object.GetKind() != "StatefulSet" && object.GetKind() != "CloneSet" {
			continue
		}
		t.Run(object.GetName(), func(t *testing.T) {
			set := fixtures.As[appsv1beta1.UnitedDeployment](t, fixtures.Find(t, objects, "UnitedDeployment", object.GetOwnerReferences()[0].Name))
			spec := Parse(set)
			compared := 0
			for i := range spec.Subsets {
				sub := &spec.Subsets[i]
				if sub.Name != name {
					continue
				}
				compared++
				wanted, err := spec.Manifest(sub, Target{
					Name: object.GetName(), Revision: set.Status.UpdatedRevision, Size: Number(object.Object, "spec", "replicas"), Partition: sub.Partition,
				})
				if err != nil {
					t.Fatal(err)
				}
				if !contains(object.Object["spec"], wanted.Object["spec"]) {
					t.Errorf("(-OpenKruise +ours):\n%s", cmp.Diff(object.Object["spec"], wanted.Object["spec"]))
				}
				if object.GetAnnotations()[shared.AnnotationSubsetPatch] != wanted.GetAnnotations()[shared.AnnotationSubsetPatch] {
					t.Errorf("the patch is %q", wanted.GetAnnotations()[shared.AnnotationSubsetPatch])
				}
			}
			if compared != 1 {
				t.Errorf("compared with %d subsets, want that of its label", compared)
			}
			workloads++
		})
	}
	if workloads == 0 {
		t.Fatal("there is no workload to compare")
	}
}

func TestContains(t *testing.T) {
	cases := map[string]struct {
		have, wanted string
		want         bool
	}{
		"more than is wanted":              {"{a: 1, b: 2}", "{a: 1}", true},
		"a value that differs":             {"{a: 1}", "{a: 2}", false},
		"a value that is missing":          {"{}", "{a: 1}", false},
		"nothing for what is empty":        {"{}", "{a: {}, b: [], c: '', d: {e: ''}}", true},
		"a quantity in another form":       {"{cpu: '1'}", "{cpu: 1000m}", true},
		"a quantity as a number":           {"{cpu: '2'}", "{cpu: 2}", true},
		"another quantity":                 {"{cpu: '1'}", "{cpu: 100m}", false},
		"a text that is a huge quantity":   {"{arg: '1'}", "{arg: '1e30000000'}", false},
		"a text that is a tiny quantity":   {"{arg: '1e-30000000'}", "{arg: '1'}", false},
		"a named item that others added":   {"{l: [{name: a}, {name: x}]}", "{l: [{name: a}]}", true},
		"a named item that is gone":        {"{l: [{name: x}]}", "{l: [{name: a}]}", false},
		"an item without a name was added": {"{l: [1, 2]}", "{l: [1]}", false},
		"another order":                    {"{l: [2, 1]}", "{l: [1, 2]}", false},
		"a list for an object":             {"{l: [1]}", "{l: {a: 1}}", false},
		"a truth that is false":            {"{}", "{a: false}", true},
		"a truth that should be":           {"{}", "{a: true}", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var have, wanted map[string]any
			if err := yaml.Unmarshal([]byte(tc.have), &have); err != nil {
				t.Fatal(err)
			}
			if err := yaml.Unmarshal([]byte(tc.wanted), &wanted); err != nil {
				t.Fatal(err)
			}
			if got := contains(have, wanted); got != tc.want {
				t.Errorf("contains: %v, want %v", got, tc.want)
			}
		})
	}
}

// TestLabelsOfAWorkloadAreRestored: the server keeps labels and annotations as they are, those without a value, too. A text is none but itself there.
func TestLabelsOfAWorkloadAreRestored(t *testing.T) {
	for name, tc := range map[string]struct {
		have, wanted map[string]string
		want         bool
	}{
		"others added one":               {map[string]string{"a": "1", "b": ""}, map[string]string{"a": "1"}, true},
		"another value":                  {map[string]string{"a": "2"}, map[string]string{"a": "1"}, false},
		"the same quantity, as a number": {map[string]string{"a": "1k"}, map[string]string{"a": "1000"}, false},
		"one without a value is gone":    {nil, map[string]string{"a": ""}, false},
	} {
		for _, set := range []func(*unstructured.Unstructured, map[string]string){(*unstructured.Unstructured).SetLabels, (*unstructured.Unstructured).SetAnnotations} {
			have, wanted := &unstructured.Unstructured{Object: map[string]any{}}, &unstructured.Unstructured{Object: map[string]any{}}
			set(have, tc.have)
			set(wanted, tc.wanted)
			if got := InSync(have, wanted); got != tc.want {
				t.Errorf("%s: %v", name, got)
			}
		}
	}
}

// TestListsOfAdoptedWorkloadsKeepTheirDefaults: a workload that OpenKruise made keeps what its defaults added to lists until the template
// changes, and then follows the template.
func TestListsOfAdoptedWorkloadsKeepTheirDefaults(t *testing.T) {
	spec := parsed(t, withKind("cloneSetTemplate", "RollingUpdate", "null"))
	live, err := spec.Manifest(&spec.Subsets[0], Target{Name: "shop-a-gx7kz", Revision: "r", Size: 3})
	if err != nil {
		t.Fatal(err)
	}
	live.SetAnnotations(nil)
	containers := []any{map[string]any{"name": "main", "image": "shop:1", "imagePullPolicy": "Always"}}
	if err := unstructured.SetNestedSlice(live.Object, containers, "spec", "template", "spec", "containers"); err != nil {
		t.Fatal(err)
	}
	apply := func(what string, size int, wantDefaults bool) {
		t.Helper()
		got, err := spec.Manifest(&spec.Subsets[0], Target{Name: "shop-a-gx7kz", Revision: "r", Size: size, Live: live})
		if err != nil {
			t.Fatal(err)
		}
		list, _, _ := unstructured.NestedSlice(got.Object, "spec", "template", "spec", "containers")
		if defaults := list[0].(map[string]any)["imagePullPolicy"] == "Always"; defaults != wantDefaults {
			t.Errorf("%s: the containers are %v", what, list)
		}
		live = live.DeepCopy()
		live.SetAnnotations(got.GetAnnotations())
		if !SameApply(live, got) {
			t.Errorf("%s: it does not say what was applied", what)
		}
	}
	apply("the first apply", 3, true)
	if hash := live.GetAnnotations()[shared.AnnotationAppliedHash]; hash != shared.Adopting {
		t.Errorf("after the first apply the hash is %s", hash)
	}
	apply("the second", 3, true)
	apply("scaled", 5, true)
	spec = parsed(t, strings.Replace(withKind("cloneSetTemplate", "RollingUpdate", "null"), "shop:1", "shop:2", 1))
	apply("another image", 5, false)
	spec = parsed(t, withKind("cloneSetTemplate", "RollingUpdate", "null"))
	apply("rolled back", 5, false)
}
