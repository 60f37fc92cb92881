// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/admission"
	"github.com/kruise-operator/kruise-operator/internal/kube/templatecheck"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
	"github.com/kruise-operator/kruise-operator/internal/testutil/admissiontest"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// base is a valid set; the cases change it by merge patches.
const base = `
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: logs}
spec:
  selector: {matchLabels: {app: web}}
  containers: [{name: agent, image: "agent:1"}]
`

func parsed(t *testing.T, change string) *appsv1beta1.SidecarSet {
	t.Helper()
	set := admissiontest.Parse[appsv1beta1.SidecarSet](t, admissiontest.Merge(t, base, change))
	return &set
}

// check compares errors with the wanted beginnings.
func check(t *testing.T, errs field.ErrorList, want ...string) {
	t.Helper()
	var got []string
	for _, err := range errs {
		got = append(got, err.Error())
	}
	if len(got) != len(want) {
		t.Fatalf("got %d errors, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("got  %s\nwant %s", got[i], want[i])
		}
	}
}

func containers(fields string) string {
	return `{spec: {containers: [{name: agent, image: "agent:1", ` + fields + `}]}}`
}

func TestValidate(t *testing.T) {
	long := strings.Repeat("a", 62)
	const count = `must be a whole number of at least 0, or a percentage such as "30%"`
	cases := map[string]struct {
		change string
		want   []string
	}{
		"nothing wrong":                {change: `{}`},
		"a name with a dot":            {change: `{metadata: {name: a.b}}`, want: []string{`metadata.name: Invalid value: "a.b"`}},
		"a name that is too long":      {change: `{metadata: {name: ` + long + `aa}}`, want: []string{`metadata.name: Invalid value`}},
		"no selector":                  {change: `{spec: {selector: null}}`, want: []string{`spec.selector: Required value`}},
		"an empty selector":            {change: `{spec: {selector: {matchLabels: null}}}`, want: []string{`spec.selector: Invalid value: "{}": must not be empty`}},
		"a bad selector":               {change: `{spec: {selector: {matchExpressions: [{key: a, operator: Near}]}}}`, want: []string{`spec.selector.matchExpressions[0].operator`}},
		"an empty namespace selector":  {change: `{spec: {namespaceSelector: {}}}`, want: []string{`spec.namespaceSelector: Invalid value: "{}"`}},
		"no containers":                {change: `{spec: {containers: null}}`, want: []string{`spec.containers: Required value`}},
		"init containers alone":        {change: `{spec: {containers: null, initContainers: [{name: i, image: "i:1"}]}}`},
		"two containers of one name":   {change: `{spec: {initContainers: [{name: agent, image: "i:1"}]}}`, want: []string{`spec.containers[0].name: Duplicate value: "agent"`}},
		"a place that does not exist":  {change: containers(`podInjectPolicy: Middle`), want: []string{`spec.containers[0].podInjectPolicy: Unsupported value: "Middle"`}},
		"sharing that does not exist":  {change: containers(`shareVolumePolicy: {type: some}`), want: []string{`spec.containers[0].shareVolumePolicy.type: Unsupported value: "some"`}},
		"devices, the same":            {change: containers(`shareVolumeDevicePolicy: {type: some}`), want: []string{`spec.containers[0].shareVolumeDevicePolicy.type: Unsupported value: "some"`}},
		"a custom version":             {change: `{spec: {customVersion: "1.4"}}`},
		"a custom version with blanks": {change: `{spec: {customVersion: "1 4"}}`, want: []string{`spec.customVersion: Invalid value: "1 4"`}},
		"pods pass without sidecars":   {change: failing("Ignore")},
		"a failure policy in small letters": {
			change: failing("ignore"),
			want:   []string{`metadata.annotations[operator.kruise.io/injection-failure-policy]: Unsupported value: "ignore": supported values: "Fail", "Ignore"`},
		},

		"a hot upgrade":                       {change: containers(`upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: "idle:1"}`)},
		"a hot upgrade without empty image":   {change: containers(`upgradeStrategy: {upgradeType: HotUpgrade}`), want: []string{`spec.containers[0].upgradeStrategy.hotUpgradeEmptyImage: Required value`}},
		"an empty image that is the image":    {change: containers(`upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: "agent:1"}`), want: []string{`spec.containers[0].upgradeStrategy.hotUpgradeEmptyImage: Invalid value: "agent:1"`}},
		"an upgrade that does not exist":      {change: containers(`upgradeStrategy: {upgradeType: Warm}`), want: []string{`spec.containers[0].upgradeStrategy.upgradeType: Unsupported value: "Warm"`}},
		"a name that is too long for a pair":  {change: `{spec: {containers: [{name: ` + long + `, image: "a:1", upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: "idle:1"}}]}}`, want: []string{`spec.containers[0].name: Too long: may not be more than 61 bytes: with HotUpgrade`}},
		"a pair that another container meets": {change: `{spec: {containers: [{name: a, image: "a:1", upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: "idle:1"}}, {name: a-1, image: "b:1"}]}}`, want: []string{`spec.containers[1].name: Duplicate value: "a-1"`}},

		"a native sidecar that is updated":     {change: `{spec: {initContainers: [{name: native, image: "n:1", restartPolicy: Always}]}}`, want: []string{`spec.updateStrategy.type: Invalid value: "RollingUpdate": must be NotUpdate: init container native has restartPolicy Always`}},
		"a native sidecar that is not updated": {change: `{spec: {initContainers: [{name: native, image: "n:1", restartPolicy: Always}], updateStrategy: {type: NotUpdate}}}`},

		"an environment variable by label":  {change: containers(`transferEnv: [{sourceContainerNameFrom: {fieldRef: {fieldPath: "metadata.labels['main']"}}, envName: A}]`)},
		"by another field of the pod":       {change: containers(`transferEnv: [{sourceContainerNameFrom: {fieldRef: {fieldPath: metadata.name}}, envName: A}]`), want: []string{`spec.containers[0].transferEnv[0].sourceContainerNameFrom.fieldRef.fieldPath: Invalid value: "metadata.name"`}},
		"by nothing":                        {change: containers(`transferEnv: [{sourceContainerNameFrom: {fieldRef: {fieldPath: ""}}, envName: A}]`), want: []string{`spec.containers[0].transferEnv[0].sourceContainerNameFrom.fieldRef.fieldPath: Required value`}},
		"by a label that cannot be":         {change: containers(`transferEnv: [{sourceContainerNameFrom: {fieldRef: {fieldPath: "metadata.labels['a b']"}}, envName: A}]`), want: []string{`spec.containers[0].transferEnv[0].sourceContainerNameFrom.fieldRef.fieldPath: Invalid value`}},
		"by another version of pods":        {change: containers(`transferEnv: [{sourceContainerNameFrom: {fieldRef: {apiVersion: v2, fieldPath: "metadata.labels['a']"}}, envName: A}]`), want: []string{`spec.containers[0].transferEnv[0].sourceContainerNameFrom.fieldRef.apiVersion: Unsupported value: "v2"`}},
		"resources beside their policy":     {change: containers(`resources: {limits: {cpu: "1"}}, resourcesPolicy: {targetContainersMode: sum, resourcesExpr: {limits: {cpu: cpu*10%}}}`), want: []string{`spec.containers[0].resourcesPolicy: Forbidden`}},
		"a policy without expressions":      {change: containers(`resourcesPolicy: {targetContainersMode: sum, resourcesExpr: {}}`), want: []string{`spec.containers[0].resourcesPolicy.resourcesExpr: Required value`}},
		"a regular expression that is none": {change: containers(`resourcesPolicy: {targetContainersMode: sum, targetContainersNameRegex: "(", resourcesExpr: {limits: {cpu: cpu}}}`), want: []string{`spec.containers[0].resourcesPolicy.targetContainersNameRegex: Invalid value: "("`}},
		"a quantity times a quantity":       {change: containers(`resourcesPolicy: {targetContainersMode: sum, resourcesExpr: {limits: {cpu: cpu*100m}}}`), want: []string{`spec.containers[0].resourcesPolicy.resourcesExpr.limits.cpu: Invalid value: "cpu*100m"`}},
		"memory in an expression for cpu":   {change: containers(`resourcesPolicy: {targetContainersMode: sum, resourcesExpr: {requests: {cpu: memory}}}`), want: []string{`spec.containers[0].resourcesPolicy.resourcesExpr.requests.cpu: Invalid value: "memory"`}},
		"max of three":                      {change: containers(`resourcesPolicy: {targetContainersMode: sum, resourcesExpr: {requests: {memory: "max(memory,1,2)"}}}`), want: []string{`spec.containers[0].resourcesPolicy.resourcesExpr.requests.memory: Invalid value`}},
		"a hot upgrade of a plain init container": {
			change: `{spec: {initContainers: [{name: i, image: "i:1", upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: "e:1"}}]}}`,
			want:   []string{`spec.initContainers[0].upgradeStrategy.upgradeType: Forbidden`},
		},
		"resources of a plain init container": {change: `{spec: {initContainers: [{name: i, image: "i:1", resourcesPolicy: {targetContainersMode: max, resourcesExpr: {limits: {cpu: cpu}}}}]}}`, want: []string{`spec.initContainers[0].resourcesPolicy: Forbidden`}},

		"a partition":                   {change: `{spec: {updateStrategy: {partition: 30%, maxUnavailable: 0}}}`},
		"a partition that is no count":  {change: `{spec: {updateStrategy: {partition: some}}}`, want: []string{`spec.updateStrategy.partition: Invalid value: "some": ` + count}},
		"maxUnavailable below 0":        {change: `{spec: {updateStrategy: {maxUnavailable: -1}}}`, want: []string{`spec.updateStrategy.maxUnavailable: Invalid value: -1: ` + count}},
		"a selector beside a partition": {change: `{spec: {updateStrategy: {selector: {matchLabels: {a: b}}, partition: 1}}}`, want: []string{`spec.updateStrategy.partition: Forbidden`}},
		"a selector beside partition 0": {change: `{spec: {updateStrategy: {selector: {matchLabels: {a: b}}, partition: 0}}}`},
		"an empty update selector":      {change: `{spec: {updateStrategy: {selector: {}}}}`, want: []string{`spec.updateStrategy.selector: Invalid value`}},
		"a type that does not exist":    {change: `{spec: {updateStrategy: {type: OnDelete}}}`, want: []string{`spec.updateStrategy.type: Unsupported value: "OnDelete"`}},
		"a priority without selector":   {change: `{spec: {updateStrategy: {priorityStrategy: {weightPriority: [{weight: 1, matchSelector: {}}]}}}}`, want: []string{`spec.updateStrategy.priorityStrategy.weightPriority[0].matchSelector: Required value`}},
		"a term of scattering twice":    {change: `{spec: {updateStrategy: {scatterStrategy: [{key: a, value: b}, {key: a, value: b}]}}}`, want: []string{`spec.updateStrategy.scatterStrategy[1]: Duplicate value`}},

		"a revision without a name":      {change: `{spec: {injectionStrategy: {revision: {policy: Always}}}}`, want: []string{`spec.injectionStrategy.revision: Required value`}},
		"a revision policy that is none": {change: `{spec: {injectionStrategy: {revision: {policy: Some, customVersion: a}}}}`, want: []string{`spec.injectionStrategy.revision.policy: Unsupported value: "Some"`}},
		"metadata without annotations":   {change: `{spec: {patchPodMetadata: [{patchPolicy: Retain}]}}`, want: []string{`spec.patchPodMetadata[0].annotations: Required value`}},
		"a patch policy that is none":    {change: `{spec: {patchPodMetadata: [{annotations: {a: b}, patchPolicy: Add}]}}`, want: []string{`spec.patchPodMetadata[0].patchPolicy: Unsupported value: "Add"`}},
		"an annotation that is no key":   {change: `{spec: {patchPodMetadata: [{annotations: {a/b/c: b}}]}}`, want: []string{`spec.patchPodMetadata[0].annotations: Invalid value: "a/b/c"`}},
		"an annotation of the operator":  {change: `{spec: {patchPodMetadata: [{annotations: {version.sidecarset.kruise.io/a-1: b}}]}}`, want: []string{`spec.patchPodMetadata[0].annotations[version.sidecarset.kruise.io/a-1]: Forbidden: is written by the operator`}},
		"an annotation twice":            {change: `{spec: {patchPodMetadata: [{annotations: {a: b}}, {annotations: {a: c}}]}}`, want: []string{`spec.patchPodMetadata[1].annotations[a]: Duplicate value: "a"`}},
		"a merge of what is no JSON":     {change: `{spec: {patchPodMetadata: [{annotations: {a: b}, patchPolicy: MergePatchJson}]}}`, want: []string{`spec.patchPodMetadata[0].annotations[a]: Invalid value: "b": must be a JSON object`}},
		"a canary":                       {change: `{metadata: {annotations: {apps.kruise.io/sidecarset-canary: "true", apps.kruise.io/sidecarset-base: other}}, spec: {updateStrategy: {type: NotUpdate}}}`},
		"a canary of nothing":            {change: `{metadata: {annotations: {apps.kruise.io/sidecarset-canary: "true"}}, spec: {updateStrategy: {type: NotUpdate}}}`, want: []string{`metadata.annotations[apps.kruise.io/sidecarset-base]: Required value`}},
		"a canary of itself":             {change: `{metadata: {annotations: {apps.kruise.io/sidecarset-canary: "true", apps.kruise.io/sidecarset-base: logs}}, spec: {updateStrategy: {type: NotUpdate}}}`, want: []string{`metadata.annotations[apps.kruise.io/sidecarset-base]: Invalid value: "logs"`}},
		"a canary that updates":          {change: `{metadata: {annotations: {apps.kruise.io/sidecarset-canary: "true", apps.kruise.io/sidecarset-base: other}}}`, want: []string{`spec.updateStrategy.type: Invalid value: "RollingUpdate": must be NotUpdate for a canary`}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			set := parsed(t, tc.change)
			kind := admission.Kind(admission.Others{}, nil)
			kind.Default(set)
			check(t, kind.Faults(set, nil), tc.want...)
		})
	}
}

// A v1alpha1 client with spec.namespace was told of a namespaceSelector it had not sent.
func TestANamespaceOfV1alpha1IsExplained(t *testing.T) {
	object := admissiontest.Merge(t, base, `{spec: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: "no name"}}}}`)
	const explained = "; spec.namespace of v1alpha1 is the label kubernetes.io/metadata.name in it"
	for version, want := range map[string]bool{"v1beta1": false, "v1alpha1": true} {
		kind := admission.Kind(admission.Others{}, nil)
		response := kind.Validator(admit.Cluster{}).Handle(t.Context(), admissiontest.Request(kind.GroupVersionKind, version, object, ""))
		if response.Allowed || !strings.Contains(response.Result.Message, "spec.namespaceSelector.matchLabels") || strings.Contains(response.Result.Message, explained) != want {
			t.Errorf("%s: allowed %v: %v", version, response.Allowed, response.Result)
		}
	}
}

func TestValidateUpdate(t *testing.T) {
	cases := map[string]struct {
		old, change string
		want        []string
	}{
		"an image":                                    {change: containers(`env: []`)},
		"a container is added":                        {change: `{spec: {containers: [{name: agent, image: "agent:1"}, {name: more, image: "more:1"}]}}`, want: []string{`spec.containers[1].name: Invalid value: "more": containers cannot be added`}},
		"a container is removed":                      {old: `{spec: {containers: [{name: agent, image: "agent:1"}, {name: more, image: "more:1"}]}}`, change: `{}`},
		"the way of upgrading":                        {change: containers(`upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: "idle:1"}`), want: []string{`spec.containers[0].upgradeStrategy.upgradeType: Forbidden`}},
		"what was wrong before":                       {old: containers(`podInjectPolicy: Middle`), change: containers(`podInjectPolicy: Middle, args: [a]`)},
		"a failure policy that means nothing, stored": {old: failing("ignore"), change: `{metadata: {annotations: {operator.kruise.io/injection-failure-policy: ignore, more: x}}}`},
		"a failure policy that means nothing, new": {
			old: failing("Ignore"), change: failing("ignore"), want: []string{`metadata.annotations[operator.kruise.io/injection-failure-policy]: Unsupported value`},
		},
		"a hot upgrade without empty image, as OpenKruise stores it": {
			old:    containers(`upgradeStrategy: {upgradeType: HotUpgrade}`),
			change: containers(`upgradeStrategy: {upgradeType: HotUpgrade}, args: [a]`),
		},
		"the base of a canary":    {old: canaryOf("a"), change: canaryOf("b"), want: []string{`metadata.annotations[apps.kruise.io/sidecarset-base]: Forbidden`}},
		"the base becomes a base": {old: canaryOf("a"), change: canaryOf("a")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			kind := admission.Kind(admission.Others{}, nil)
			set, old := parsed(t, tc.change), parsed(t, tc.old)
			kind.Default(set)
			check(t, kind.Faults(set, old), tc.want...)
		})
	}
}

func failing(policy string) string {
	return `{metadata: {annotations: {operator.kruise.io/injection-failure-policy: ` + policy + `}}}`
}

func canaryOf(name string) string {
	return `{metadata: {annotations: {apps.kruise.io/sidecarset-canary: "true", apps.kruise.io/sidecarset-base: ` + name + `}}, spec: {updateStrategy: {type: NotUpdate}}}`
}

func lookUp(t *testing.T, anyMetadata bool, set, old *appsv1beta1.SidecarSet, stored ...client.Object) field.ErrorList {
	t.Helper()
	types, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	reader := fake.NewClientBuilder().WithScheme(types).WithObjects(stored...).Build()
	errs, _ := admission.Kind(admission.Others{Reader: reader, Namespace: "kruise-system", AnyMetadata: anyMetadata, Named: true}, nil).LookUp(t.Context(), set, old)
	return errs
}

// An edit of a set reaches its pods only as far as it changes images, and nobody was told.
func TestEditsThatReachNoPodAreWarnedOf(t *testing.T) {
	const kept = ": pods that exist keep theirs until they are recreated"
	for name, tc := range map[string]struct {
		change string
		want   []string
	}{
		"nothing":             {change: `{}`},
		"another image":       {change: `{spec: {containers: [{name: agent, image: "agent:2"}]}}`},
		"another selector":    {change: `{spec: {selector: {matchLabels: {app: db}}}}`},
		"a variable":          {change: containers(`env: [{name: A, value: b}]`), want: []string{"spec.containers: changes more than images" + kept}},
		"a volume":            {change: `{spec: {volumes: [{name: logs, emptyDir: {}}]}}`, want: []string{"spec.volumes" + kept}},
		"an init container":   {change: `{spec: {initContainers: [{name: init, image: "init:1"}]}}`, want: []string{"spec.initContainers" + kept}},
		"a pull secret":       {change: `{spec: {imagePullSecrets: [{name: hub}]}}`, want: []string{"spec.imagePullSecrets" + kept}},
		"metadata":            {change: `{spec: {patchPodMetadata: [{annotations: {a: b}}]}}`, want: []string{"spec.patchPodMetadata: pods that exist get it with their next image"}},
		"metadata and image":  {change: `{spec: {patchPodMetadata: [{annotations: {a: b}}], containers: [{name: agent, image: "agent:2"}]}}`},
		"a variable, all new": {change: `{spec: {updateStrategy: {type: NotUpdate}, volumes: [{name: logs, emptyDir: {}}]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := admission.Warnings(parsed(t, tc.change), parsed(t, `{}`)); !slices.Equal(got, tc.want) {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

func TestStrategiesOfSetsWithoutUpdatesAreWarnedOf(t *testing.T) {
	got := admission.Warnings(parsed(t, `{spec: {updateStrategy: {type: NotUpdate, partition: 2, selector: {matchLabels: {app: db}}}}}`), nil)
	if want := "spec.updateStrategy: no pod is updated, because type is NotUpdate; without effect: selector, partition"; len(got) != 1 || got[0] != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := admission.Warnings(parsed(t, `{spec: {updateStrategy: {type: NotUpdate, partition: 0, maxUnavailable: 1}}}`), nil); len(got) > 0 {
		t.Errorf("%q about defaults", got)
	}
}

func TestInitContainersThatCopyNothingAreWarnedOf(t *testing.T) {
	got := admission.Warnings(parsed(t, `{spec: {initContainers: [{name: init, image: "init:1", transferEnv: [{envName: A}]}]}}`), nil)
	if want := "spec.initContainers[0].transferEnv[0]: copies nothing: it needs a container and a variable"; len(got) != 1 || got[0] != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestConflictsWithOtherSets(t *testing.T) {
	const other = `SidecarSet other, which can select the same pods, has `
	cases := map[string]struct {
		set, other, old string
		want            []string
	}{
		"the same container":                {want: []string{`spec.containers[0].name: Invalid value: "agent": ` + other + `a container of this name`}},
		"other pods":                        {other: `{spec: {selector: {matchLabels: {app: db}}}}`},
		"a label that both can have":        {other: `{spec: {selector: {matchLabels: {app: null, tier: db}}}}`, want: []string{`spec.containers[0].name`}},
		"Exists of a label":                 {other: `{spec: {selector: {matchLabels: null, matchExpressions: [{key: tier, operator: Exists}]}}}`, want: []string{`spec.containers[0].name`}},
		"Exists of the same label":          {other: `{spec: {selector: {matchLabels: null, matchExpressions: [{key: app, operator: Exists}]}}}`, want: []string{`spec.containers[0].name`}},
		"DoesNotExist of the same label":    {other: `{spec: {selector: {matchLabels: null, matchExpressions: [{key: app, operator: DoesNotExist}]}}}`},
		"NotIn leaves another value":        {other: `{spec: {selector: {matchLabels: null, matchExpressions: [{key: app, operator: NotIn, values: [db]}]}}}`, want: []string{`spec.containers[0].name`}},
		"NotIn leaves nothing":              {other: `{spec: {selector: {matchLabels: null, matchExpressions: [{key: app, operator: NotIn, values: [web]}]}}}`},
		"In, with a common value":           {other: `{spec: {selector: {matchLabels: null, matchExpressions: [{key: app, operator: In, values: [db, web]}]}}}`, want: []string{`spec.containers[0].name`}},
		"other namespaces":                  {set: `{spec: {namespaceSelector: {matchLabels: {team: a}}}}`, other: `{spec: {namespaceSelector: {matchLabels: {team: b}}}}`},
		"every namespace and one":           {set: `{spec: {namespaceSelector: {matchLabels: {team: a}}}}`, want: []string{`spec.containers[0].name`}},
		"another container":                 {other: `{spec: {containers: [{name: proxy, image: "p:1"}]}}`},
		"an init container of this name":    {other: `{spec: {containers: null, initContainers: [{name: agent, image: "p:1"}]}}`, want: []string{`spec.containers[0].name`}},
		"a container of a hot pair":         {set: `{spec: {containers: [{name: agent-2, image: "a:1"}]}}`, other: containers(`upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: "idle:1"}`), want: []string{`spec.containers[0].name: Invalid value: "agent-2"`}},
		"the same volume":                   {set: withVolume("a", "a"), other: withVolume("b", "a")},
		"another volume of the same name":   {set: withVolume("a", "a"), other: withVolume("b", "b"), want: []string{`spec.volumes[0]: Invalid value: "data": ` + other + `another volume of this name`}},
		"an annotation that is overwritten": {set: withPatch("a", "Overwrite"), other: withPatch("b", "MergePatchJson"), want: []string{`spec.patchPodMetadata[0].annotations[k]: Invalid value: "k": ` + other + `the same annotation`}},
		"an annotation that is retained":    {set: withPatch("a", "Overwrite"), other: withPatch("b", "Retain")},
		"an annotation that both merge":     {set: withPatch("a", "MergePatchJson"), other: withPatch("b", "MergePatchJson")},
		"a canary of it":                    {set: canaryOf("other")},
		"a base beside its canary":          {other: canaryOf("logs")},
		"a canary of a canary":              {set: canaryOf("other"), other: canaryOf("third"), want: []string{`metadata.annotations[apps.kruise.io/sidecarset-base]: Invalid value: "other": is a canary itself`}},
		"a canary of nobody":                {set: canaryOf("nobody"), other: `{spec: {selector: {matchLabels: {app: db}}}}`, want: []string{`metadata.annotations[apps.kruise.io/sidecarset-base]: Not found: "nobody"`}},
		"a conflict that was there before":  {old: `{}`, set: `{spec: {updateStrategy: {paused: true}}}`},
		"a conflict that was there before, at another place": {
			old: `{spec: {containers: [{name: proxy, image: "p:1"}, {name: agent, image: "a:1"}]}}`, set: `{spec: {containers: [{name: agent, image: "a:1"}]}}`,
		},
		"a conflict that is new": {old: `{spec: {selector: {matchLabels: {app: db}}}}`, set: `{}`, want: []string{`spec.containers[0].name`}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			stored := parsed(t, tc.other)
			stored.Name = "other"
			var old *appsv1beta1.SidecarSet
			if tc.old != "" {
				old = parsed(t, tc.old)
			}
			check(t, lookUp(t, true, parsed(t, tc.set), old, stored), tc.want...)
		})
	}
}

// Anybody on the network can ask. The answer told the names of other sets.
func TestAConflictNamesNoOtherSetToWhoeverAsks(t *testing.T) {
	types, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	stored := parsed(t, `{}`)
	stored.Name = "secret"
	kind := admission.Kind(admission.Others{Reader: fake.NewClientBuilder().WithScheme(types).WithObjects(stored).Build()}, nil)
	errs, _ := kind.LookUp(t.Context(), parsed(t, `{}`), nil)
	check(t, errs, `spec.containers[0].name: Invalid value: "agent": another SidecarSet, which can select the same pods, has a container of this name`)
}

func TestManySetsForTheSamePodsAreWarnedOf(t *testing.T) {
	types, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	others := func(n int) client.Reader {
		var objects []client.Object
		for i := range n {
			other := parsed(t, fmt.Sprintf(`{metadata: {name: other-%d}, spec: {containers: [{name: c%d, image: "a:1"}]}}`, i, i))
			other.Name = fmt.Sprintf("other-%d", i)
			objects = append(objects, other)
		}
		elsewhere := parsed(t, `{spec: {selector: {matchLabels: {app: db}}}}`)
		elsewhere.Name = "elsewhere"
		return fake.NewClientBuilder().WithScheme(types).WithObjects(append(objects, elsewhere)...).Build()
	}
	for name, tc := range map[string]struct {
		others int
		old    string
		warned bool
	}{
		"nine others":                     {others: 9},
		"ten others":                      {others: 10, warned: true},
		"ten others, and it was so":       {others: 10, old: `{spec: {updateStrategy: {paused: true}}}`},
		"ten others, and other pods then": {others: 10, old: `{spec: {selector: {matchLabels: {app: db}}}}`, warned: true},
	} {
		t.Run(name, func(t *testing.T) {
			var old *appsv1beta1.SidecarSet
			if tc.old != "" {
				old = parsed(t, tc.old)
			}
			kind := admission.Kind(admission.Others{Reader: others(tc.others), Namespace: "kruise-system"}, nil)
			var want []string
			if tc.warned {
				want = []string{"spec.selector: 10 or more other SidecarSets can select the same pods; each set that selects a pod makes its creation some milliseconds slower"}
			}
			if errs, got := kind.LookUp(t.Context(), parsed(t, `{}`), old); len(errs) > 0 || !slices.Equal(got, want) {
				t.Errorf("errors %v, warnings %q", errs, got)
			}
		})
	}
}

func withVolume(container, medium string) string {
	return `{spec: {containers: [{name: ` + container + `, image: "a:1"}], volumes: [{name: data, emptyDir: {medium: ` + medium + `}}]}}`
}

func withPatch(container, policy string) string {
	return `{spec: {containers: [{name: ` + container + `, image: "a:1"}], patchPodMetadata: [{annotations: {k: "{}"}, patchPolicy: ` + policy + `}]}}`
}

func TestAnnotationsHaveToBeAllowed(t *testing.T) {
	config := func(rules string) client.Object {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kruise-system", Name: "kruise-configuration"},
			Data:       map[string]string{"SidecarSet_PatchPodMetadata_WhiteList": rules},
		}
	}
	nobody := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kruise-system", Name: "something-else"}}
	cases := map[string]struct {
		config client.Object
		any    bool
		want   []string
	}{
		"no ConfigMap":                           {config: nobody, want: []string{`spec.patchPodMetadata: Forbidden: no rule under key`}},
		"no ConfigMap, with the gate":            {config: nobody, any: true},
		"a rule for all sets":                    {config: config(`{"rules":[{"allowedAnnotationKeyExprs":["^k$"]}]}`)},
		"a rule that does not match":             {config: config(`{"rules":[{"allowedAnnotationKeyExprs":["^x$"]}]}`), want: []string{`spec.patchPodMetadata[0].annotations[k]: Forbidden`}},
		"a rule that does not match, the gate":   {config: config(`{"rules":[{"allowedAnnotationKeyExprs":["^x$"]}]}`), any: true, want: []string{`spec.patchPodMetadata[0].annotations[k]: Forbidden`}},
		"a rule for other sets":                  {config: config(`{"rules":[{"selector":{"matchLabels":{"a":"b"}},"allowedAnnotationKeyExprs":["^k$"]}]}`), want: []string{`spec.patchPodMetadata: Forbidden`}},
		"a rule without expressions is none":     {config: config(`{"rules":[{"allowedAnnotationKeyExprs":[]}]}`), want: []string{`spec.patchPodMetadata: Forbidden: no rule under key`}},
		"one without expressions, with the gate": {config: config(`{"rules":[{"selector":{}}]}`), any: true},
		"rules that cannot be decoded":           {config: config(`]`), want: []string{`spec.patchPodMetadata: Forbidden`}},
		"an expression that cannot be parsed is": {config: config(`{"rules":[{"allowedAnnotationKeyExprs":["("]}]}`), want: []string{`spec.patchPodMetadata[0].annotations[k]: Forbidden`}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			set := parsed(t, withPatch("agent", "Retain"))
			check(t, lookUp(t, tc.any, set, nil, tc.config), tc.want...)
			check(t, lookUp(t, tc.any, set, set, tc.config))
		})
	}
}

// A set may drop annotations no longer allowed, but add or change none.
func TestAnnotationsThatWereAllowedCanBeRemoved(t *testing.T) {
	patches := func(all string) string { return `{spec: {patchPodMetadata: [` + all + `]}}` }
	const first, second = `{annotations: {a: "1"}}`, `{annotations: {b: "2", c: "3"}}`
	const refused = `spec.patchPodMetadata: Forbidden: no rule under key`
	for name, tc := range map[string]struct {
		patches string
		want    []string
	}{
		"one is removed":             {patches: second},
		"one of its annotations is":  {patches: first + `, {annotations: {c: "3"}}`},
		"they change places":         {patches: second + ", " + first},
		"the default is written out": {patches: `{annotations: {a: "1"}, patchPolicy: Retain}, ` + second},
		"one is added":               {patches: first + `, {annotations: {d: "4"}}`, want: []string{refused}},
		"another value":              {patches: `{annotations: {a: "2"}}`, want: []string{refused}},
		"another policy":             {patches: `{annotations: {a: "1"}, patchPolicy: Overwrite}`, want: []string{refused}},
	} {
		t.Run(name, func(t *testing.T) {
			set, old := parsed(t, patches(tc.patches)), parsed(t, patches(first+", "+second))
			check(t, lookUp(t, false, set, old), tc.want...)
		})
	}
}

func TestTheRevisionHasToExist(t *testing.T) {
	stored := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{
		Namespace: "kruise-system", Name: "logs-1", Labels: map[string]string{shared.LabelSidecarSetName: "logs", shared.LabelSidecarSetCustomVersion: "1.4"},
	}}
	forged := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{
		Namespace: "anybodys", Name: "logs-3", Labels: map[string]string{shared.LabelSidecarSetName: "logs", shared.LabelSidecarSetCustomVersion: "1.6"},
	}}
	const path = `spec.injectionStrategy.revision.`
	for name, tc := range map[string]struct {
		revision string
		want     []string
	}{
		"by its name":         {revision: `revisionName: logs-1`},
		"by its version":      {revision: `customVersion: "1.4"`},
		"another name":        {revision: `revisionName: logs-2`, want: []string{path + `revisionName: Not found: "logs-2"`}},
		"another version":     {revision: `customVersion: "1.5"`, want: []string{path + `customVersion: Not found: "1.5"`}},
		"of another set":      {revision: `revisionName: mesh-1`, want: []string{path + `revisionName: Not found`}},
		"the name goes first": {revision: `revisionName: logs-1, customVersion: "9"`},
		"the name of one that somebody else wrote":    {revision: `revisionName: logs-3`, want: []string{path + `revisionName: Not found: "logs-3"`}},
		"the version of one that somebody else wrote": {revision: `customVersion: "1.6"`, want: []string{path + `customVersion: Not found: "1.6"`}},
	} {
		t.Run(name, func(t *testing.T) {
			set := parsed(t, `{spec: {injectionStrategy: {revision: {`+tc.revision+`}}}}`)
			check(t, lookUp(t, false, set, nil, stored, forged), tc.want...)
		})
	}
}

// Users of other namespaces may write any number of revisions
// naming the set. Reading them admitted a missing revision.
func TestRevisionsOfOtherNamespacesAreNotRead(t *testing.T) {
	types, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	for operator, want := range map[string][]string{"kruise-system": {"kruise-system"}, "elsewhere": {"elsewhere", "kruise-system"}} {
		var read []string
		reader := fake.NewClientBuilder().WithScheme(types).WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				if list.GetObjectKind().GroupVersionKind().Kind == "ControllerRevisionList" {
					read = append(read, (&client.ListOptions{}).ApplyOptions(options).Namespace)
				}
				return c.List(ctx, list, options...)
			},
		}).Build()
		set := parsed(t, `{spec: {injectionStrategy: {revision: {revisionName: logs-1}}}}`)
		errs, _ := admission.Kind(admission.Others{Reader: reader, Namespace: operator}, nil).LookUp(t.Context(), set, nil)
		if len(errs) != 1 || !slices.Equal(read, want) {
			t.Errorf("the operator in %s has read the revisions of %q: %v", operator, read, errs)
		}
	}
}

func TestTemplatesNameTheFieldsOfTheSet(t *testing.T) {
	templates := admission.Templates(parsed(t, `{spec: {initContainers: [{name: i, image: "i:1"}], volumes: [{name: v}]}}`))
	if got := templates.Field("spec.template.spec.containers[0].image"); got != "spec.containers[0].image" {
		t.Errorf("the field is called %s", got)
	}
	if pod := templates.Pod.Spec; len(pod.Containers) != 2 || len(pod.InitContainers) != 1 || len(pod.Volumes) != 1 || pod.Containers[0].Name != "agent" {
		t.Errorf("the API server is asked about %+v", pod)
	}
}

// A container without an image may have been stored: its
// predecessor can be removed, but no other such container added.
func TestAFaultOfAContainerMayMove(t *testing.T) {
	types, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	server := &admissiontest.Templates{Answer: func(template *corev1.PodTemplateSpec) error {
		var errs field.ErrorList
		for i := range template.Spec.InitContainers {
			if template.Spec.InitContainers[i].Image == "" {
				errs = append(errs, field.Required(field.NewPath("template", "spec", "initContainers").Index(i).Child("image"), ""))
			}
		}
		if len(errs) == 0 {
			return nil
		}
		return apierrors.NewInvalid(schema.GroupKind{Kind: "PodTemplate"}, "", errs)
	}}
	kind := admission.Kind(admission.Others{Reader: fake.NewClientBuilder().WithScheme(types).Build(), Namespace: "kruise-system"}, nil)
	v := kind.Validator(admit.Cluster{Checker: templatecheck.Checker{Client: server}})
	with := func(containers string) string {
		return admissiontest.Merge(t, base, `{spec: {initContainers: [`+containers+`]}}`)
	}
	for name, tc := range map[string]struct {
		containers string
		denied     []string
	}{
		"the one before it is removed":   {containers: `{name: bad}`},
		"another one comes before it":    {containers: `{name: more, image: i}, {name: good, image: i}, {name: bad}`},
		"another one without comes, too": {containers: `{name: worse}, {name: bad}`, denied: []string{"spec.initContainers[0].image"}},
	} {
		response := v.Handle(t.Context(), admissiontest.Request(kind.GroupVersionKind, "v1beta1", with(tc.containers), with(`{name: good, image: i}, {name: bad}`)))
		if denied := admissiontest.Denied(response); response.Allowed == (len(tc.denied) > 0) || !slices.Equal(denied, tc.denied) {
			t.Errorf("%s: allowed %v, refused for %q, want %q", name, response.Allowed, denied, tc.denied)
		}
	}
}

// TestMetadataOfAStoredSetCanAlwaysBeEdited: without admission,
// anything may be stored, since the schema ignores containers.
func TestMetadataOfAStoredSetCanAlwaysBeEdited(t *testing.T) {
	types, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	kind := admission.Kind(admission.Others{Reader: fake.NewClientBuilder().WithScheme(types).Build(), Namespace: "kruise-system"}, nil)
	stored := admissiontest.Merge(t, base, `{metadata: {finalizers: [a.example/b]}, spec: {containers: [{name: agent, image: "agent:1", stdin: maybe}]}}`)
	for name, tc := range map[string]struct {
		change string
		denied []string
	}{
		"a finalizer is removed":       {change: `{metadata: {finalizers: null}}`},
		"a policy that is none is set": {change: `{metadata: {annotations: {operator.kruise.io/injection-failure-policy: Never}}}`, denied: []string{"metadata.annotations[operator.kruise.io/injection-failure-policy]"}},
		"the spec is changed":          {change: `{spec: {customVersion: v2}}`, denied: []string{"spec.containers[0].stdin"}},
	} {
		t.Run(name, func(t *testing.T) {
			sent := admissiontest.Merge(t, stored, tc.change)
			response := kind.Validator(admit.Cluster{}).Handle(t.Context(), admissiontest.Request(kind.GroupVersionKind, "v1beta1", sent, stored))
			if denied := admissiontest.Denied(response); response.Allowed == (len(tc.denied) > 0) || !slices.Equal(denied, tc.denied) {
				t.Errorf("allowed %v, refused for %q, want %q: %v", response.Allowed, denied, tc.denied, response.Result)
			}
		})
	}
}
