// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package admission_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

func testCloneSet(t *testing.T, e *env) {
	t.Run("create", func(t *testing.T) { testCloneSetCreate(t, e) })
	t.Run("update", func(t *testing.T) { testCloneSetUpdate(t, e) })
	t.Run("pods to delete", func(t *testing.T) { testPodsToDelete(t, e) })
	t.Run("stored", func(t *testing.T) { testCloneSetStored(t, e) })
	t.Run("both versions", func(t *testing.T) { testBothVersions(t, e) })
	t.Run("list and watch", func(t *testing.T) { testListAndWatch(t, e) })
	t.Run("scale", func(t *testing.T) { testScale(t, e) })
	t.Run("printing", func(t *testing.T) { testCloneSetPrinting(t, e) })
	t.Run("finding", func(t *testing.T) { testFinding(t, e) })
	t.Run("apply", func(t *testing.T) { testApply(t, e) })
	t.Run("a manifest over OpenKruise's defaults", func(t *testing.T) { testManifestOverDefaults(t, e) })
}

// cloneSet is a good CloneSet of a version. rolling are fields of the rolling update as v1beta1 has them, in one line; edits replace text.
func cloneSet(version, name, rolling string, edits ...string) string {
	strategy := "{type: RollingUpdate, rollingUpdate: {" + rolling + "}}"
	if version == "v1alpha1" {
		strategy = "{" + strings.Replace(rolling, "podUpdatePolicy:", "type:", 1) + "}"
	}
	text := strings.NewReplacer("VERSION", version, "STRATEGY", strategy).Replace(`
apiVersion: apps.kruise.io/VERSION
kind: CloneSet
metadata:
  name: NAME
spec:
` + pods + `
  updateStrategy: STRATEGY
`)
	return strings.ReplaceAll(environment.Edited(text, edits...), "NAME", name)
}

// inVersion puts a message about v1beta1 in the words of a version. It names the fields of a rolling update as rolling.<field>.
func inVersion(version, message string) string {
	if version == "v1alpha1" {
		return strings.NewReplacer("rolling.podUpdatePolicy", "spec.updateStrategy.type", "rolling.", "spec.updateStrategy.",
			" podUpdatePolicy is ", " updateStrategy.type is ").Replace(message)
	}
	return strings.ReplaceAll(message, "rolling.", "spec.updateStrategy.rollingUpdate.")
}

// expectRefusal wants a refusal with all these messages, and no other causes; without messages the request must be allowed.
func expectRefusal(t *testing.T, version string, want []string, got answer) {
	t.Helper()
	if len(want) == 0 {
		if got.err != nil {
			t.Errorf("refused: %v", got.err)
		}
		return
	}
	if got.err == nil {
		t.Fatalf("allowed, want %s", want)
	}
	var names []string
	for _, message := range want {
		message = inVersion(version, message)
		if !strings.Contains(got.err.Error(), message) {
			t.Errorf("the refusal does not say %s:\n%v", message, got.err)
		}
		name, _, _ := strings.Cut(message, ": ")
		names = append(names, name)
	}
	slices.Sort(names)
	if diff := cmp.Diff(slices.Compact(names), fields(got.err)); diff != "" {
		t.Errorf("fields (-want +got):\n%s\n%v", diff, got.err)
	}
}

func testCloneSetCreate(t *testing.T, e *env) {
	ns := e.namespace(t)
	const (
		count = `must be a whole number of at least 0, or a percentage such as "30%"`
		label = "a valid label must be an empty string or consist of"
	)
	cases := map[string]struct {
		rolling      string
		edits        []string
		want         []string // the refusal: field, value and what is allowed
		wantWarnings []string
		only         string // a version
	}{
		"a good set":                         {},
		"everything that an update can have": {rolling: `podUpdatePolicy: InPlaceIfPossible, partition: 33.3%, maxUnavailable: 12.5%, maxSurge: 1, paused: true, scatterStrategy: [{key: a, value: b}], priorityStrategy: {weightPriority: [{weight: 3, matchSelector: {matchLabels: {a: b}}}]}, inPlaceUpdateStrategy: {gracePeriodSeconds: 3}`},

		// The API server's own answers.
		"a string for a number":        {edits: []string{"replicas: 3", "replicas: three"}, want: []string{`spec.replicas: Invalid value: "string": spec.replicas in body must be of type integer: "string"`}},
		"a number that has no 32 bits": {edits: []string{"replicas: 3", "replicas: 4294967296"}, want: []string{`spec.replicas: Invalid value: `}},
		"negative replicas":            {edits: []string{"replicas: 3", "replicas: -1"}, want: []string{`spec.replicas: Invalid value: -1: should be a non-negative integer`}},
		"a missing selector":           {edits: []string{"  selector:\n    matchLabels: {app: web}\n", ""}, want: []string{`spec.selector: Required value`}},
		"a missing template":           {edits: []string{"  template:\n    metadata:\n      labels: {app: web}\n    spec:\n      readinessGates:\n      - conditionType: InPlaceUpdateReady\n      containers:\n      - name: main\n        image: example/web:v1\n", ""}, want: []string{`spec.template: Required value`}},
		"claim templates that are no list": {
			edits: []string{"replicas: 3", "volumeClaimTemplates: {a: b}"}, want: []string{`spec.volumeClaimTemplates: Invalid value: "object": spec.volumeClaimTemplates in body must be of type array: "object"`},
		},
		"an unknown policy": {
			rolling: "podUpdatePolicy: Inplace", only: "v1beta1",
			want: []string{`rolling.podUpdatePolicy: Unsupported value: "Inplace": supported values: "", "ReCreate", "InPlaceIfPossible", "InPlaceOnly"`},
		},
		"an unknown policy of the older version": {
			rolling: "podUpdatePolicy: Inplace", only: "v1alpha1",
			want: []string{`rolling.podUpdatePolicy: Unsupported value: "Inplace": supported values: "", "ReCreate", "InPlaceIfPossible", "InPlaceOnly", "OnDelete"`},
		},
		"an unknown update type": {
			edits: []string{"type: RollingUpdate", "type: Now"}, only: "v1beta1",
			want: []string{`spec.updateStrategy.type: Unsupported value: "Now": supported values: "", "RollingUpdate", "OnDelete"`},
		},
		"on delete, as the older version says it": {rolling: "podUpdatePolicy: OnDelete", only: "v1alpha1"},
		"an unknown field":                        {edits: []string{"replicas: 3", "replica: 3"}, wantWarnings: []string{`unknown field "spec.replica"`}},

		// Metadata and templates.
		"a name with a dot":                  {edits: []string{"name: NAME", "name: web.example"}},
		"a name with capitals":               {edits: []string{"name: NAME", "name: Web"}, want: []string{`metadata.name: Invalid value: "Web": a lowercase RFC 1123 subdomain must consist of`}},
		"a selector that matches other pods": {edits: []string{"matchLabels: {app: web}", "matchLabels: {app: api}"}, want: []string{`spec.template.metadata.labels: Invalid value: {"app":"web"}: must match spec.selector, which is app=api`}},
		"an empty selector":                  {edits: []string{"matchLabels: {app: web}", "matchLabels: {}"}, want: []string{`spec.selector: Invalid value: "{}": must not be empty: it would match every pod`}},
		"a bad selector":                     {edits: []string{"matchLabels: {app: web}", "matchExpressions: [{key: app, operator: Near}]"}, want: []string{`spec.selector.matchExpressions[0].operator: Invalid value: "Near": not a valid selector operator`}},
		"a bad template label":               {edits: []string{"labels: {app: web}", `labels: {app: web, bad: "no spaces"}`}, want: []string{`spec.template.metadata.labels: Invalid value: "no spaces": ` + label}},
		"restartPolicy Never":                {edits: []string{"readinessGates:", "restartPolicy: Never\n      readinessGates:"}, want: []string{`spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"`}},
		"a deadline":                         {edits: []string{"readinessGates:", "activeDeadlineSeconds: 3\n      readinessGates:"}, want: []string{`spec.template.spec.activeDeadlineSeconds: Forbidden: the pods of a CloneSet have no deadline`}},
		"a template that cannot be read": {
			edits: []string{"image: example/web:v1", "image: example/web:v1\n        ports: [{containerPort: http}]"},
			want:  []string{`spec.template.spec.containers[0].ports[0].containerPort: Invalid value: "http": must be a whole number of at most 32 bits`},
		},
		"a template that the API server would refuse": {
			edits: []string{"- name: main\n        image: example/web:v1", "- name: main\n        volumeMounts: [{name: data, mountPath: /data}]"},
			want:  []string{`spec.template.spec.containers[0].image: Required value`, `spec.template.spec.containers[0].volumeMounts[0].name: Not found: "data"`},
		},
		"a mount of a claim template": {
			edits: []string{
				"image: example/web:v1", "image: example/web:v1\n        volumeMounts: [{name: data, mountPath: /data}]",
				"replicas: 3", "volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]",
			},
		},
		"an unknown field in the template": {
			edits:        []string{"image: example/web:v1", "image: example/web:v1\n        imagePolicy: Always"},
			wantWarnings: []string{`unknown or duplicate field "spec.template.spec.containers[0].imagePolicy"`},
		},

		// Scaling and updating.
		"a pod to delete named twice":    {edits: []string{"replicas: 3", "scaleStrategy: {podsToDelete: [a, b, a]}"}, want: []string{`spec.scaleStrategy.podsToDelete: Invalid value: "a": is named twice`}},
		"scaling: a number in quotes":    {edits: []string{"replicas: 3", `scaleStrategy: {maxUnavailable: "5"}`}, want: []string{`spec.scaleStrategy.maxUnavailable: Invalid value: "5": ` + count}},
		"scaling: a word":                {edits: []string{"replicas: 3", "scaleStrategy: {maxUnavailable: many}"}, want: []string{`spec.scaleStrategy.maxUnavailable: Invalid value: "many": ` + count}},
		"scaling: less than none":        {edits: []string{"replicas: 3", "scaleStrategy: {maxUnavailable: -1}"}, want: []string{`spec.scaleStrategy.maxUnavailable: Invalid value: -1: ` + count}},
		"scaling: none":                  {edits: []string{"replicas: 3", "scaleStrategy: {maxUnavailable: 0}"}, wantWarnings: []string{"spec.scaleStrategy.maxUnavailable: is 0, so no pod is ever created"}},
		"partition: negative":            {rolling: "partition: -1", want: []string{`rolling.partition: Invalid value: -1: ` + count}},
		"partition: a number in quotes":  {rolling: `partition: "3"`, want: []string{`rolling.partition: Invalid value: "3": ` + count}},
		"partition: a word":              {rolling: "partition: half", want: []string{`rolling.partition: Invalid value: "half": ` + count}},
		"maxUnavailable: a word":         {rolling: "maxUnavailable: many", want: []string{`rolling.maxUnavailable: Invalid value: "many": ` + count}},
		"maxUnavailable: less than none": {rolling: "maxUnavailable: -1", want: []string{`rolling.maxUnavailable: Invalid value: -1: ` + count}},
		"maxSurge: a number in quotes":   {rolling: `maxSurge: "2"`, want: []string{`rolling.maxSurge: Invalid value: "2": ` + count}},
		"neither unavailable nor surge":  {rolling: "maxUnavailable: 0", want: []string{`rolling.maxUnavailable: Invalid value: 0: must come to at least 1 pod while maxSurge does not, or no pod could be updated`}},
		"none unavailable, some surge":   {rolling: "maxUnavailable: 0, maxSurge: 1%"},
		"only in place with surge":       {rolling: "podUpdatePolicy: InPlaceOnly, maxSurge: 10%", want: []string{`rolling.maxSurge: Invalid value: "10%": must be 0 when podUpdatePolicy is InPlaceOnly: no pod is ever created for an update`}},
		"priority by both":               {rolling: `priorityStrategy: {orderPriority: [{orderedKey: a}], weightPriority: [{weight: 1, matchSelector: {matchLabels: {a: b}}}]}`, want: []string{`rolling.priorityStrategy: Forbidden: only one of orderPriority and weightPriority may be set`}},
		"priority without a key":         {rolling: `priorityStrategy: {orderPriority: [{orderedKey: ""}]}`, want: []string{`rolling.priorityStrategy.orderPriority[0].orderedKey: Required value: the key of a pod label`}},
		"priority that is too heavy":     {rolling: `priorityStrategy: {weightPriority: [{weight: 101, matchSelector: {matchLabels: {a: b}}}]}`, want: []string{`rolling.priorityStrategy.weightPriority[0].weight: Invalid value: 101: must be from 0 to 100`}},
		"priority of every pod":          {rolling: `priorityStrategy: {weightPriority: [{weight: 1, matchSelector: {}}]}`, want: []string{`rolling.priorityStrategy.weightPriority[0].matchSelector: Required value: an empty selector would match every pod`}},
		"scatter without a key":          {rolling: `scatterStrategy: [{key: "", value: b}]`, want: []string{`rolling.scatterStrategy[0].key: Required value: the key of a pod label`}},
		"scatter the same twice":         {rolling: `scatterStrategy: [{key: a, value: b}, {key: a, value: b}]`, want: []string{`rolling.scatterStrategy[1]: Duplicate value: "a=b"`}},
		"pulling ahead by a percent": {
			rolling: "podUpdatePolicy: InPlaceIfPossible, inPlaceUpdateStrategy: {imagePreDownloadParallelism: 10%}", only: "v1beta1",
			want: []string{`rolling.inPlaceUpdateStrategy.imagePreDownloadParallelism: Invalid value: "10%": must be a whole number of at least 0`},
		},
		"pulling ahead, all negative": {
			rolling: "podUpdatePolicy: InPlaceIfPossible, inPlaceUpdateStrategy: {imagePreDownloadParallelism: -1, imagePreDownloadTimeoutSeconds: -2, imagePreDownloadMinUpdatedReadyPods: -3}", only: "v1beta1",
			want: []string{
				`rolling.inPlaceUpdateStrategy.imagePreDownloadParallelism: Invalid value: -1: must be a whole number of at least 0`,
				`rolling.inPlaceUpdateStrategy.imagePreDownloadTimeoutSeconds: Invalid value: -2: must be from 1 to 86400`,
				`rolling.inPlaceUpdateStrategy.imagePreDownloadMinUpdatedReadyPods: Invalid value: -3: must be 0 or more`,
			},
		},
		"a deadline of nothing":         {edits: []string{"replicas: 3", "progressDeadlineSeconds: 0"}, want: []string{`spec.progressDeadlineSeconds: Invalid value: 0: must be more than minReadySeconds, which is 0`}},
		"a negative deadline":           {edits: []string{"replicas: 3", "progressDeadlineSeconds: -1"}, want: []string{`spec.progressDeadlineSeconds: Invalid value: -1: must be 0 or more`}},
		"a deadline of minReadySeconds": {edits: []string{"replicas: 3", "minReadySeconds: 10\n  progressDeadlineSeconds: 10"}, want: []string{`spec.progressDeadlineSeconds: Invalid value: 10: must be more than minReadySeconds, which is 10`}},
		"the deadline that never comes": {edits: []string{"replicas: 3", "progressDeadlineSeconds: 2147483647"}},
		"several faults at once": {
			rolling: "partition: many", edits: []string{"matchLabels: {app: web}", "matchLabels: {app: api}"},
			want: []string{`spec.template.metadata.labels: Invalid value: {"app":"web"}: must match spec.selector, which is app=api`, `rolling.partition: Invalid value: "many": ` + count},
		},
	}
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		for name, tc := range cases {
			if tc.only != "" && tc.only != version {
				continue
			}
			t.Run(version+"/"+name, func(t *testing.T) {
				body := cloneSet(version, "web", tc.rolling, tc.edits...)
				got := e.send(t, http.MethodPost, version, ns, "", body, map[string]string{"dryRun": "All"})
				expectRefusal(t, version, tc.want, got)
				got.checkWarnings(t, tc.wantWarnings)
			})
		}
	}
}

func testCloneSetUpdate(t *testing.T, e *env) {
	ns := e.namespace(t)
	const onlyImages = `spec.template.spec: Forbidden: while podUpdatePolicy is InPlaceOnly, only containers[*].image may change; this update also changes `
	cases := map[string]struct {
		patch, patchV1alpha1 string
		want                 []string
	}{
		"the selector": {
			patch: `{spec: {selector: {matchLabels: {tier: a}}, template: {metadata: {labels: {tier: a}}}}}`,
			want:  []string{`spec.selector: Forbidden: cannot be changed once the set exists`},
		},
		"replicas":            {patch: `{spec: {replicas: 7}}`},
		"replicas taken away": {patch: `{spec: {replicas: null}}`},
		"everything that may change": {
			patch: `{spec: {replicas: 9, minReadySeconds: 3, progressDeadlineSeconds: 30, revisionHistoryLimit: 2, volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}],
				lifecycle: {preDelete: {finalizersHandler: [example.io/x]}}, scaleStrategy: {maxUnavailable: 2}, updateStrategy: {type: OnDelete}, template: {metadata: {annotations: {a: b}}}}}`,
		},
		"a policy that is not allowed beside the rest": {
			patch:         `{spec: {updateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceOnly, maxSurge: 1}}}}`,
			patchV1alpha1: `{spec: {updateStrategy: {type: InPlaceOnly, maxSurge: 1}}}`,
			want:          []string{`rolling.maxSurge: Invalid value: 1: must be 0 when podUpdatePolicy is InPlaceOnly`},
		},
		"only in place: an image": {
			patch:         `{spec: {updateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceOnly}}, template: {spec: {containers: [{name: main, image: "example/web:v2"}]}}}}`,
			patchV1alpha1: `{spec: {updateStrategy: {type: InPlaceOnly}, template: {spec: {containers: [{name: main, image: "example/web:v2"}]}}}}`,
		},
		"only in place: a policy": {
			patch:         `{spec: {updateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceOnly}}, template: {spec: {containers: [{name: main, image: "example/web:v2", imagePullPolicy: Never}]}}}}`,
			patchV1alpha1: `{spec: {updateStrategy: {type: InPlaceOnly}, template: {spec: {containers: [{name: main, image: "example/web:v2", imagePullPolicy: Never}]}}}}`,
			want:          []string{onlyImages + `containers[0].imagePullPolicy`},
		},
		"a template that the API server would refuse": {
			patch: `{spec: {template: {spec: {containers: [{name: main}]}}}}`,
			want:  []string{`spec.template.spec.containers[0].image: Required value`},
		},
		"a template that cannot be read": {
			patch: `{spec: {template: {spec: {containers: {main: "example/web:v2"}}}}}`,
			want:  []string{`spec.template.spec.containers: Invalid value: `},
		},
	}
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		name := "update-" + version
		if got := e.send(t, http.MethodPost, version, ns, "", cloneSet(version, name, ""), nil); got.err != nil {
			t.Fatal(got.err)
		}
		for title, tc := range cases {
			t.Run(version+"/"+title, func(t *testing.T) {
				patch := tc.patch
				if version == "v1alpha1" && tc.patchV1alpha1 != "" {
					patch = tc.patchV1alpha1
				}
				got := e.send(t, http.MethodPatch, version, ns, name, patch, map[string]string{"dryRun": "All"})
				expectRefusal(t, version, tc.want, got)
			})
		}
	}
}

// testPodsToDelete asks for existing, missing and others' pods.
func testPodsToDelete(t *testing.T, e *env) {
	ns := e.namespace(t)
	created := e.send(t, http.MethodPost, "v1beta1", ns, "", cloneSet("v1beta1", "web", ""), nil)
	if created.err != nil {
		t.Fatal(created.err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "default"}}
	if err := client.IgnoreAlreadyExists(e.client.Create(t.Context(), account)); err != nil {
		t.Fatal(err)
	}
	for name, owned := range map[string]bool{"own": true, "foreign": false} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example/web:v1"}}},
		}
		if owned {
			pod.OwnerReferences = []metav1.OwnerReference{{
				APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Name: "web", UID: created.body.GetUID(), Controller: ptr.To(true),
			}}
		}
		if err := e.client.Create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		for name, want := range map[string][]string{
			"own":     nil,
			"none":    {`spec.scaleStrategy.podsToDelete: Invalid value: "none": there is no such pod`},
			"foreign": {`spec.scaleStrategy.podsToDelete: Invalid value: "foreign": is not a pod of this CloneSet`},
		} {
			t.Run(version+"/"+name, func(t *testing.T) {
				got := e.send(t, http.MethodPatch, version, ns, "web", `{spec: {scaleStrategy: {podsToDelete: [`+name+`]}}}`, map[string]string{"dryRun": "All"})
				expectRefusal(t, version, want, got)
			})
		}
	}
}

// testCloneSetStored: a client's object is stored as written, with defaults beside it and
// none in the templates.
func testCloneSetStored(t *testing.T, e *env) {
	ns := e.namespace(t)
	template := map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"app": "web"}, "creationTimestamp": nil},
		"spec": map[string]any{
			"readinessGates": []any{map[string]any{"conditionType": "InPlaceUpdateReady"}},
			"containers": []any{map[string]any{
				"name": "main", "image": "example/web:v1",
				"madeUp": map[string]any{"big": int64(9007199254740993), "deep": []any{map[string]any{"x": "z"}}},
			}},
		},
	}
	claims := []any{map[string]any{
		"metadata": map[string]any{"name": "data", "creationTimestamp": nil},
		"spec":     map[string]any{"accessModes": []any{"ReadWriteOnce"}, "resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}}, "madeUp": map[string]any{"a": nil, "half": 1.5}},
	}}
	common := map[string]any{
		"replicas": int64(1), "revisionHistoryLimit": int64(10), "template": template, "volumeClaimTemplates": claims,
		"selector": map[string]any{"matchLabels": map[string]any{"app": "web"}},
	}
	limits := map[string]any{"partition": int64(0), "maxUnavailable": "20%", "maxSurge": int64(0)}
	want := map[string]map[string]any{
		"v1beta1": {
			"scaleStrategy": map[string]any{"enablePVCReuse": false},
			"updateStrategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": with(limits, map[string]any{
				"podUpdatePolicy": "InPlaceIfPossible", "inPlaceUpdateStrategy": map[string]any{},
			})},
		},
		"v1alpha1": {
			"scaleStrategy":  map[string]any{"disablePVCReuse": true},
			"updateStrategy": with(limits, map[string]any{"type": "InPlaceIfPossible", "inPlaceUpdateStrategy": map[string]any{}}),
		},
	}
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		edits := []string{
			"replicas: 3", "volumeClaimTemplates: [{metadata: {name: data, creationTimestamp: null}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}, madeUp: {a: null, half: 1.5}}}]",
			"image: example/web:v1", "image: example/web:v1\n        madeUp: {big: 9007199254740993, deep: [{x: z}]}",
			"labels: {app: web}", "labels: {app: web}\n      creationTimestamp: null",
		}
		scale := map[string]string{"v1beta1": "{}", "v1alpha1": "{disablePVCReuse: true}"}[version]
		edits = append(edits, "updateStrategy:", "scaleStrategy: "+scale+"\n  updateStrategy:")
		name := "written-" + version
		if got := e.send(t, http.MethodPost, version, ns, "", cloneSet(version, name, "podUpdatePolicy: InPlaceIfPossible", edits...), nil); got.err != nil {
			t.Fatal(got.err)
		}
		for _, read := range []string{"v1beta1", "v1alpha1"} {
			t.Run(version+" read as "+read, func(t *testing.T) {
				got := e.get(t, read, ns, name)
				if diff := cmp.Diff(with(common, want[read]), got.Object["spec"]); diff != "" {
					t.Errorf("spec (-want +got):\n%s", diff)
				}
				if annotations := got.GetAnnotations(); len(annotations) > 0 {
					t.Errorf("annotations %v, although both versions say all of it", annotations)
				}
			})
		}
	}
}

// with returns both maps in one.
func with(a, b map[string]any) map[string]any {
	both := map[string]any{}
	for _, m := range []map[string]any{a, b} {
		for k, v := range m {
			both[k] = v
		}
	}
	return both
}

// testBothVersions writes through one version and reads through the other.
func testBothVersions(t *testing.T, e *env) {
	ns := e.namespace(t)
	create := func(t *testing.T, version, body string) *unstructured.Unstructured {
		t.Helper()
		got := e.send(t, http.MethodPost, version, ns, "", body, nil)
		if got.err != nil {
			t.Fatal(got.err)
		}
		return got.body
	}
	field := func(t *testing.T, version, name string, path ...string) any {
		t.Helper()
		value, _, err := unstructured.NestedFieldCopy(e.get(t, version, ns, name).Object, path...)
		if err != nil {
			t.Fatal(err)
		}
		return value
	}

	t.Run("the older version shows its own defaults", func(t *testing.T) {
		created := create(t, "v1alpha1", cloneSet("v1alpha1", "bare", "", "  updateStrategy: {}\n", ""))
		want := map[string]any{"type": "ReCreate", "partition": int64(0), "maxUnavailable": "20%", "maxSurge": int64(0)}
		if diff := cmp.Diff(want, created.Object["spec"].(map[string]any)["updateStrategy"]); diff != "" {
			t.Errorf("the answer (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want, field(t, "v1alpha1", "bare", "spec", "updateStrategy")); diff != "" {
			t.Errorf("read again (-want +got):\n%s", diff)
		}
		if annotations := e.get(t, "v1beta1", ns, "bare").GetAnnotations(); len(annotations) > 0 {
			t.Errorf("annotations %v, although both versions say all of it", annotations)
		}
	})

	t.Run("OnDelete of the older version keeps its limits", func(t *testing.T) {
		created := create(t, "v1alpha1", cloneSet("v1alpha1", "ondelete", "podUpdatePolicy: OnDelete, partition: 2, maxSurge: 30%, paused: true"))
		if diff := cmp.Diff(map[string]any{"type": "OnDelete"}, field(t, "v1beta1", "ondelete", "spec", "updateStrategy")); diff != "" {
			t.Errorf("read as v1beta1 (-want +got):\n%s", diff)
		}
		// A write through the newer version keeps the fields it does not show.
		if got := e.send(t, http.MethodPatch, "v1beta1", ns, "ondelete", `{spec: {replicas: 5}}`, nil); got.err != nil {
			t.Fatal(got.err)
		}
		if diff := cmp.Diff(created.Object["spec"].(map[string]any)["updateStrategy"], field(t, "v1alpha1", "ondelete", "spec", "updateStrategy")); diff != "" {
			t.Errorf("read as v1alpha1 (-want +got):\n%s", diff)
		}
	})

	t.Run("what only v1beta1 knows survives clients of v1alpha1", func(t *testing.T) {
		create(t, "v1beta1", cloneSet("v1beta1", "newer", "paused: true", "replicas: 3", "replicas: 3\n  scaleStrategy: {excludePreparingDelete: true}"))
		excluded := func(after string, want any) {
			t.Helper()
			if diff := cmp.Diff(want, field(t, "v1beta1", "newer", "spec", "scaleStrategy", "excludePreparingDelete")); diff != "" {
				t.Errorf("excludePreparingDelete after %s (-want +got):\n%s", after, diff)
			}
		}
		excluded("creation", true)

		shown := e.get(t, "v1alpha1", ns, "newer")
		if err := unstructured.SetNestedField(shown.Object, int64(4), "spec", "replicas"); err != nil {
			t.Fatal(err)
		}
		if got := e.send(t, http.MethodPut, "v1alpha1", ns, "newer", text(t, shown), nil); got.err != nil {
			t.Fatal(got.err)
		}
		excluded("a client that reads and writes", true)

		version := e.get(t, "v1alpha1", ns, "newer").GetResourceVersion()
		body := cloneSet("v1alpha1", "newer", "paused: true", "name: NAME", "name: NAME\n  resourceVersion: '"+version+"'")
		if got := e.send(t, http.MethodPut, "v1alpha1", ns, "newer", body, nil); got.err != nil {
			t.Fatal(got.err)
		}
		excluded("a client that writes its manifest", true)

		out, err := e.cluster.Kubectl(t.Context(), "scale", "--namespace="+ns, "clonesets.v1alpha1.apps.kruise.io/newer", "--replicas=6").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		excluded("scaling", true)
		if got := field(t, "v1beta1", "newer", "spec", "replicas"); got != int64(6) {
			t.Errorf("replicas %v, want 6", got)
		}

		if got := e.send(t, http.MethodPatch, "v1alpha1", ns, "newer", `{metadata: {labels: {apps.kruise.io/cloneset-scaling-exclude-preparing-delete: "false"}}}`, nil); got.err != nil {
			t.Fatal(got.err)
		}
		excluded("the label that means it says no", nil)
	})

	// The API server converts before it looks at the schema, so such a value has to get through conversion both ways.
	t.Run("a value of the wrong type is refused with its field", func(t *testing.T) {
		for value, want := range map[string]string{
			"scaleStrategy: []":                                      `spec.scaleStrategy: Invalid value: "array"`,
			"scaleStrategy: {maxUnavailable: 4294967296}":            `spec.scaleStrategy.maxUnavailable: Invalid value: 4294967296: must be a whole number of at most 32 bits, or a string`,
			"scaleStrategy: {disablePVCReuse: 7}":                    `spec.scaleStrategy.disablePVCReuse: Invalid value: "integer"`,
			"updateStrategy: {partition: {}}":                        `spec.updateStrategy.partition: Invalid value: "object"`,
			"updateStrategy: {partition: 3.5}":                       `spec.updateStrategy.partition: Invalid value: "number"`,
			"updateStrategy: {paused: 'yes'}":                        `spec.updateStrategy.paused: Invalid value: "string"`,
			"updateStrategy: {type: 5}":                              `spec.updateStrategy.type: Invalid value: "integer"`,
			"updateStrategy: {maxUnavailable: 4294967296}":           `spec.updateStrategy.maxUnavailable: Invalid value: 4294967296: must be a whole number of at most 32 bits, or a string`,
			"updateStrategy: {type: OnDelete, maxSurge: 4294967296}": `spec.updateStrategy.maxSurge: Invalid value: 4294967296: must be a whole number of at most 32 bits, or a string`,
		} {
			body := cloneSet("v1alpha1", "mistyped", "", "updateStrategy: {}", value)
			got := e.send(t, http.MethodPost, "v1alpha1", ns, "", body, nil)
			if !apierrors.IsInvalid(got.err) || !strings.Contains(got.err.Error(), want) {
				t.Errorf("%s: %v", value, got.err)
			}
		}
	})

	t.Run("pulling images ahead is annotations in v1alpha1", func(t *testing.T) {
		create(t, "v1alpha1", cloneSet("v1alpha1", "ahead", "podUpdatePolicy: InPlaceIfPossible", "name: NAME",
			"name: NAME\n  annotations: {apps.kruise.io/image-predownload-parallelism: '4', apps.kruise.io/image-predownload-min-updated-ready-pods: 10%}"))
		if diff := cmp.Diff(map[string]any{"imagePreDownloadParallelism": int64(4)}, field(t, "v1beta1", "ahead", "spec", "updateStrategy", "rollingUpdate", "inPlaceUpdateStrategy")); diff != "" {
			t.Errorf("read as v1beta1 (-want +got):\n%s", diff)
		}
		if got := e.send(t, http.MethodPatch, "v1beta1", ns, "ahead", `{spec: {updateStrategy: {rollingUpdate: {inPlaceUpdateStrategy: {imagePreDownloadParallelism: 7}}}}}`, nil); got.err != nil {
			t.Fatal(got.err)
		}
		want := map[string]string{"apps.kruise.io/image-predownload-parallelism": "7", "apps.kruise.io/image-predownload-min-updated-ready-pods": "10%"}
		got := e.get(t, "v1alpha1", ns, "ahead").GetAnnotations()
		for key, value := range want {
			if got[key] != value {
				t.Errorf("annotation %s is %q, want %q", key, got[key], value)
			}
		}
	})
}

func text(t *testing.T, object *unstructured.Unstructured) string {
	t.Helper()
	out, err := object.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
