// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/cloneset/admission"
	"github.com/kruise-operator/kruise-operator/internal/testutil/admissiontest"
)

// base is a set that nothing is wrong with; the cases say what they change in it, as a merge patch.
const base = `
metadata: {name: web, namespace: default}
spec:
  replicas: 10
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: main, image: "example/web:1"}, {name: side, image: "example/side:1"}]
  volumeClaimTemplates:
  - metadata: {name: data}
`

const rollingPath = `spec.updateStrategy.rollingUpdate.`

func TestValidateCreate(t *testing.T) {
	const count = `must be a whole number of at least 0, or a percentage such as "30%"`
	const stuck = `must come to at least 1 pod while maxSurge does not, or no pod could be updated`
	cases := map[string]struct {
		change string
		want   []string
	}{
		"nothing wrong": {change: `{}`},

		"a name with a dot":                 {change: `{metadata: {name: web.example}}`},
		"a name with capitals":              {change: `{metadata: {name: Web}}`, want: []string{`metadata.name: Invalid value: "Web": a lowercase RFC 1123 subdomain must consist of`}},
		"a prefix to generate the name":     {change: `{metadata: {name: null, generateName: web-}}`},
		"a bad prefix to generate the name": {change: `{metadata: {name: null, generateName: Web-}}`, want: []string{`metadata.generateName: Invalid value: "Web-": a lowercase RFC 1123 subdomain must consist of`}},
		"a bad label":                       {change: `{metadata: {labels: {a: "b c"}}}`, want: []string{`metadata.labels: Invalid value: "b c": a valid label must be`}},

		"negative replicas": {change: `{spec: {replicas: -1}}`, want: []string{`spec.replicas: Invalid value: -1: must be 0 or more`}},
		"no replicas":       {change: `{spec: {replicas: 0}}`},

		"no selector":    {change: `{spec: {selector: null}}`, want: []string{`spec.selector: Required value: a selector that matches the labels of the template`}},
		"empty selector": {change: `{spec: {selector: {matchLabels: null}}}`, want: []string{`spec.selector: Invalid value: "{}": must not be empty: it would match every pod`}},
		"bad selector": {
			change: `{spec: {selector: {matchExpressions: [{key: app, operator: In}]}}}`,
			want:   []string{"spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"},
		},
		"a selector that matches other pods": {
			change: `{spec: {selector: {matchLabels: {app: api}}}}`,
			want:   []string{`spec.template.metadata.labels: Invalid value: {"app":"web"}: must match spec.selector, which is app=api`},
		},
		"a bad label in the template":      {change: `{spec: {template: {metadata: {labels: {bad: "no spaces"}}}}}`, want: []string{`spec.template.metadata.labels: Invalid value: "no spaces": a valid label must be`}},
		"a bad annotation in the template": {change: `{spec: {template: {metadata: {annotations: {"a/b/c": x}}}}}`, want: []string{`spec.template.metadata.annotations: Invalid value: "a/b/c": `}},
		"labels of single pods in the template": {
			change: `{spec: {template: {metadata: {labels: {apps.kruise.io/specified-delete: "true", lifecycle.apps.kruise.io/state: Normal}}}}}`,
			want: []string{
				`spec.template.metadata.labels[apps.kruise.io/specified-delete]: Forbidden: is for single pods, and means nothing in a template`,
				`spec.template.metadata.labels[lifecycle.apps.kruise.io/state]: Forbidden: is for single pods, and means nothing in a template`,
			},
		},
		"restartPolicy Always": {change: `{spec: {template: {spec: {restartPolicy: Always}}}}`},
		"restartPolicy Never":  {change: `{spec: {template: {spec: {restartPolicy: Never}}}}`, want: []string{`spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"`}},
		"a deadline":           {change: `{spec: {template: {spec: {activeDeadlineSeconds: 5}}}}`, want: []string{`spec.template.spec.activeDeadlineSeconds: Forbidden: the pods of a CloneSet have no deadline`}},

		"pods to delete":               {change: `{spec: {scaleStrategy: {podsToDelete: [a, b]}}}`},
		"a pod to delete named twice":  {change: `{spec: {scaleStrategy: {podsToDelete: [a, b, a]}}}`, want: []string{`spec.scaleStrategy.podsToDelete: Invalid value: "a": is named twice`}},
		"scaling: a number":            {change: `{spec: {scaleStrategy: {maxUnavailable: 2}}}`},
		"scaling: a percentage":        {change: `{spec: {scaleStrategy: {maxUnavailable: 12.5%}}}`},
		"scaling: a number in quotes":  {change: `{spec: {scaleStrategy: {maxUnavailable: "5"}}}`, want: []string{`spec.scaleStrategy.maxUnavailable: Invalid value: "5": ` + count}},
		"scaling: a word":              {change: `{spec: {scaleStrategy: {maxUnavailable: many}}}`, want: []string{`spec.scaleStrategy.maxUnavailable: Invalid value: "many": ` + count}},
		"scaling: less than none":      {change: `{spec: {scaleStrategy: {maxUnavailable: -1}}}`, want: []string{`spec.scaleStrategy.maxUnavailable: Invalid value: -1: ` + count}},
		"an unknown update type":       {change: `{spec: {updateStrategy: {type: Now}}}`, want: []string{`spec.updateStrategy.type: Unsupported value: "Now": supported values: "OnDelete", "RollingUpdate"`}},
		"an empty update type":         {change: `{spec: {updateStrategy: {type: ""}}}`},
		"on delete":                    {change: `{spec: {updateStrategy: {type: OnDelete}}}`},
		"on delete with rollingUpdate": {change: `{spec: {updateStrategy: {type: OnDelete, rollingUpdate: {paused: true}}}}`},
		"an unknown podUpdatePolicy":   {change: rolling(`podUpdatePolicy: Inplace`), want: []string{rollingPath + `podUpdatePolicy: Unsupported value: "Inplace": supported values: "InPlaceIfPossible", "InPlaceOnly", "ReCreate"`}},
		"an empty podUpdatePolicy":     {change: rolling(`podUpdatePolicy: ""`)},
		"in place without a gate":      {change: rolling(`podUpdatePolicy: InPlaceOnly`)},

		"partition: a number":           {change: rolling(`partition: 3`)},
		"partition: above replicas":     {change: rolling(`partition: 30`)},
		"partition: a decimal":          {change: rolling(`partition: 33.3%`)},
		"partition: negative":           {change: rolling(`partition: -1`), want: []string{rollingPath + `partition: Invalid value: -1: ` + count}},
		"partition: a number in quotes": {change: rolling(`partition: "3"`), want: []string{rollingPath + `partition: Invalid value: "3": ` + count}},
		"partition: a word":             {change: rolling(`partition: half`), want: []string{rollingPath + `partition: Invalid value: "half": ` + count}},

		"maxUnavailable: a decimal":                {change: rolling(`maxUnavailable: 12.5%`)},
		"maxUnavailable: a number in quotes":       {change: rolling(`maxUnavailable: "2"`), want: []string{rollingPath + `maxUnavailable: Invalid value: "2": ` + count}},
		"maxUnavailable: a word":                   {change: rolling(`maxUnavailable: many`), want: []string{rollingPath + `maxUnavailable: Invalid value: "many": ` + count}},
		"maxUnavailable: less than none":           {change: rolling(`maxUnavailable: -1`), want: []string{rollingPath + `maxUnavailable: Invalid value: -1: ` + count}},
		"maxSurge: a number in quotes":             {change: rolling(`maxSurge: "2"`), want: []string{rollingPath + `maxSurge: Invalid value: "2": ` + count}},
		"maxSurge: a word":                         {change: rolling(`maxSurge: many%`), want: []string{rollingPath + `maxSurge: Invalid value: "many%": ` + count}},
		"maxSurge: less than none":                 {change: rolling(`maxSurge: -2`), want: []string{rollingPath + `maxSurge: Invalid value: -2: ` + count}},
		"neither unavailable nor surge":            {change: rolling(`maxUnavailable: 0`), want: []string{rollingPath + `maxUnavailable: Invalid value: 0: ` + stuck}},
		"neither unavailable nor surge in percent": {change: rolling(`maxUnavailable: 0%, maxSurge: 0%`), want: []string{rollingPath + `maxUnavailable: Invalid value: "0%": ` + stuck}},
		"neither, of no replicas":                  {change: `{spec: {replicas: 0, updateStrategy: {rollingUpdate: {maxUnavailable: 0}}}}`},
		"none unavailable, some surge":             {change: rolling(`maxUnavailable: 0, maxSurge: 1%`)},
		"a small percentage counts as one":         {change: rolling(`maxUnavailable: 1%`)},

		"only in place with surge":            {change: rolling(`podUpdatePolicy: InPlaceOnly, maxSurge: 1`), want: []string{rollingPath + `maxSurge: Invalid value: 1: must be 0 when podUpdatePolicy is InPlaceOnly: no pod is ever created for an update`}},
		"only in place with surge in percent": {change: rolling(`podUpdatePolicy: InPlaceOnly, maxSurge: 10%`), want: []string{rollingPath + `maxSurge: Invalid value: "10%": must be 0 when podUpdatePolicy is InPlaceOnly: no pod is ever created for an update`}},
		"only in place with surge, of no replicas": {
			change: `{spec: {replicas: 0, updateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceOnly, maxSurge: 10%}}}}`,
			want:   []string{rollingPath + `maxSurge: Invalid value: "10%": must be 0 when podUpdatePolicy is InPlaceOnly: no pod is ever created for an update`},
		},
		"only in place without surge":   {change: rolling(`podUpdatePolicy: InPlaceOnly, maxSurge: 0%`)},
		"if possible in place, surging": {change: rolling(`podUpdatePolicy: InPlaceIfPossible, maxSurge: 10%`)},

		"priority by weight": {change: rolling(`priorityStrategy: {weightPriority: [{weight: 0, matchSelector: {matchLabels: {a: b}}}]}`)},
		"priority by both":   {change: rolling(`priorityStrategy: {orderPriority: [{orderedKey: a}], weightPriority: [{weight: 1, matchSelector: {matchLabels: {a: b}}}]}`), want: []string{rollingPath + `priorityStrategy: Forbidden: only one of orderPriority and weightPriority may be set`}},
		"priority without a key": {
			change: rolling(`priorityStrategy: {orderPriority: [{orderedKey: ""}]}`),
			want:   []string{rollingPath + `priorityStrategy.orderPriority[0].orderedKey: Required value: the key of a pod label`},
		},
		"priority with a bad weight": {
			change: rolling(`priorityStrategy: {weightPriority: [{weight: 101, matchSelector: {matchLabels: {a: b}}}]}`),
			want:   []string{rollingPath + `priorityStrategy.weightPriority[0].weight: Invalid value: 101: must be from 0 to 100`},
		},
		"priority of every pod": {
			change: rolling(`priorityStrategy: {weightPriority: [{weight: 1, matchSelector: {}}]}`),
			want:   []string{rollingPath + `priorityStrategy.weightPriority[0].matchSelector: Required value: an empty selector would match every pod`},
		},
		"priority by a bad selector": {
			change: rolling(`priorityStrategy: {weightPriority: [{weight: 1, matchSelector: {matchExpressions: [{key: a, operator: Near}]}}]}`),
			want:   []string{rollingPath + `priorityStrategy.weightPriority[0].matchSelector.matchExpressions[0].operator: Invalid value: "Near": not a valid selector operator`},
		},
		"scatter":               {change: rolling(`scatterStrategy: [{key: a, value: b}, {key: a, value: c}, {key: b, value: ""}]`)},
		"scatter without a key": {change: rolling(`scatterStrategy: [{key: a, value: b}, {key: "", value: b}]`), want: []string{rollingPath + `scatterStrategy[1].key: Required value: the key of a pod label`}},
		"scatter the same twice": {change: rolling(`scatterStrategy: [{key: a, value: b}, {key: c, value: d}, {key: a, value: b}]`),
			want: []string{rollingPath + `scatterStrategy[2]: Duplicate value: "a=b"`}},

		"pulling ahead":              {change: inPlace(`imagePreDownloadParallelism: 5, imagePreDownloadTimeoutSeconds: 86400, imagePreDownloadMinUpdatedReadyPods: 0`)},
		"pulling ahead in no time":   {change: inPlace(`imagePreDownloadTimeoutSeconds: 0`), want: []string{rollingPath + `inPlaceUpdateStrategy.imagePreDownloadTimeoutSeconds: Invalid value: 0: must be from 1 to 86400`}},
		"pulling ahead for days":     {change: inPlace(`imagePreDownloadTimeoutSeconds: 86401`), want: []string{rollingPath + `inPlaceUpdateStrategy.imagePreDownloadTimeoutSeconds: Invalid value: 86401: must be from 1 to 86400`}},
		"pulling ahead in quotes":    {change: inPlace(`imagePreDownloadParallelism: "5"`)},
		"pulling ahead by a percent": {change: inPlace(`imagePreDownloadParallelism: 10%`), want: []string{rollingPath + `inPlaceUpdateStrategy.imagePreDownloadParallelism: Invalid value: "10%": must be a whole number of at least 0`}},
		"pulling ahead by a word":    {change: inPlace(`imagePreDownloadParallelism: all`), want: []string{rollingPath + `inPlaceUpdateStrategy.imagePreDownloadParallelism: Invalid value: "all": must be a whole number of at least 0`}},
		"pulling ahead, all negative": {
			change: inPlace(`imagePreDownloadParallelism: -1, imagePreDownloadTimeoutSeconds: -2, imagePreDownloadMinUpdatedReadyPods: -3`),
			want: []string{
				rollingPath + `inPlaceUpdateStrategy.imagePreDownloadParallelism: Invalid value: -1: must be a whole number of at least 0`,
				rollingPath + `inPlaceUpdateStrategy.imagePreDownloadTimeoutSeconds: Invalid value: -2: must be from 1 to 86400`,
				rollingPath + `inPlaceUpdateStrategy.imagePreDownloadMinUpdatedReadyPods: Invalid value: -3: must be 0 or more`,
			},
		},

		"a negative minReadySeconds":       {change: `{spec: {minReadySeconds: -1}}`, want: []string{`spec.minReadySeconds: Invalid value: -1: must be 0 or more`}},
		"a negative history":               {change: `{spec: {revisionHistoryLimit: -1}}`, want: []string{`spec.revisionHistoryLimit: Invalid value: -1: must be 0 or more`}},
		"no history":                       {change: `{spec: {revisionHistoryLimit: 0}}`},
		"a negative grace period":          {change: inPlace(`gracePeriodSeconds: -5`), want: []string{rollingPath + `inPlaceUpdateStrategy.gracePeriodSeconds: Invalid value: -5: must be 0 or more`}},
		"a deadline above minReadySeconds": {change: `{spec: {progressDeadlineSeconds: 11, minReadySeconds: 10}}`},
		"a deadline of minReadySeconds":    {change: `{spec: {progressDeadlineSeconds: 10, minReadySeconds: 10}}`, want: []string{`spec.progressDeadlineSeconds: Invalid value: 10: must be more than minReadySeconds, which is 10`}},
		"a deadline of nothing":            {change: `{spec: {progressDeadlineSeconds: 0}}`, want: []string{`spec.progressDeadlineSeconds: Invalid value: 0: must be more than minReadySeconds, which is 0`}},
		"a negative deadline":              {change: `{spec: {progressDeadlineSeconds: -1}}`, want: []string{`spec.progressDeadlineSeconds: Invalid value: -1: must be 0 or more`}},
		"the deadline that never comes":    {change: `{spec: {progressDeadlineSeconds: 2147483647, minReadySeconds: 2147483647}}`},
		"several faults are named all in one": {
			change: `{spec: {replicas: -1, progressDeadlineSeconds: -1}}`,
			want:   []string{`spec.replicas: Invalid value: -1: must be 0 or more`, `spec.progressDeadlineSeconds: Invalid value: -1: must be 0 or more`},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			set := changed(t, base, tc.change)
			admission.Default(set)
			expect(t, tc.want, admission.Validate(set))
		})
	}
}

func TestValidateWantsAPartition(t *testing.T) {
	set := changed(t, base, rolling(`podUpdatePolicy: ReCreate`))
	expect(t, []string{rollingPath + `partition: Invalid value: null: must be a whole number of at least 0, or a percentage such as "30%"`}, admission.Validate(set))
}

func TestValidateUpdate(t *testing.T) {
	const onlyImages = `spec.template.spec: Forbidden: while podUpdatePolicy is InPlaceOnly, only containers[*].image may change; this update also changes `
	cases := map[string]struct {
		old, change string
		want        []string
	}{
		"everything that may change": {
			change: `{spec: {replicas: 9, minReadySeconds: 3, progressDeadlineSeconds: 30, revisionHistoryLimit: 2, volumeClaimTemplates: [], lifecycle: {preDelete: {finalizersHandler: [x]}},
				scaleStrategy: {podsToDelete: [a], maxUnavailable: 2, enablePVCReuse: true, excludePreparingDelete: true}, updateStrategy: {type: OnDelete}, template: {spec: {containers: [{name: other}]}}}}`,
		},
		"a fault that was there before": {
			old:    `{spec: {scaleStrategy: {maxUnavailable: "5"}}}`,
			change: `{spec: {replicas: 4}}`,
		},
		"a fault of a field that the update changes": {
			old:    `{spec: {scaleStrategy: {maxUnavailable: "5"}}}`,
			change: `{spec: {scaleStrategy: {maxUnavailable: "6"}}}`,
			want:   []string{`spec.scaleStrategy.maxUnavailable: Invalid value: "6": must be a whole number of at least 0, or a percentage such as "30%"`},
		},

		"only in place: images and metadata": {
			old:    rolling(`podUpdatePolicy: InPlaceOnly`),
			change: `{spec: {template: {metadata: {labels: {v: "2"}, annotations: {a: b}}, spec: {containers: [{name: main, image: "example/web:2"}, {name: side, image: "example/side:2"}]}}}}`,
		},
		"only in place: an argument": {
			old:    rolling(`podUpdatePolicy: InPlaceOnly`),
			change: `{spec: {template: {spec: {containers: [{name: main, image: "example/web:2", args: [x]}, {name: side, image: "example/side:1"}]}}}}`,
			want:   []string{onlyImages + `containers[0].args`},
		},
		"only in place: switched on by the same update": {
			change: `{spec: {updateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceOnly}}, template: {spec: {hostNetwork: true}}}}`,
			want:   []string{onlyImages + `hostNetwork`},
		},
		"only in place: switched off by the same update": {
			old:    rolling(`podUpdatePolicy: InPlaceOnly`),
			change: `{spec: {updateStrategy: {rollingUpdate: {podUpdatePolicy: ReCreate}}, template: {spec: {hostNetwork: true}}}}`,
		},
		"only in place: on delete pods are replaced": {
			old:    `{spec: {updateStrategy: {type: OnDelete, rollingUpdate: {podUpdatePolicy: InPlaceOnly}}}}`,
			change: `{spec: {template: {spec: {hostNetwork: true}}}}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			old := changed(t, base, tc.old)
			text, err := yaml.Marshal(old)
			if err != nil {
				t.Fatal(err)
			}
			set := changed(t, string(text), tc.change)
			admission.Default(set)
			expect(t, tc.want, admission.Kind(false, admission.Pods{}).Faults(set, old))
		})
	}
}

func TestInV1alpha1(t *testing.T) {
	older := admission.Kind(false, admission.Pods{}).OlderField
	set := changed(t, base, `{spec: {replicas: -1, updateStrategy: {rollingUpdate: {podUpdatePolicy: Sideways, partition: many, inPlaceUpdateStrategy: {imagePreDownloadTimeoutSeconds: -1}}}}}`)
	admission.Default(set)
	var got []string
	for _, err := range admission.Validate(set) {
		got = append(got, older(err.Field))
	}
	want := []string{"spec.replicas", "spec.updateStrategy.type", "spec.updateStrategy.partition", "metadata.annotations[apps.kruise.io/image-predownload-timeout-seconds]"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}

func TestWarnings(t *testing.T) {
	cases := map[string]struct {
		change      string
		preDownload bool
		want        []string
	}{
		"none":                             {change: `{}`},
		"a name of 52 characters":          {change: `{metadata: {name: ` + strings.Repeat("a", 52) + `}}`},
		"a name that is too long for pods": {change: `{metadata: {name: ` + strings.Repeat("a", 53) + `}}`, want: []string{`metadata.name: has 53 characters; with more than 52 the label controller-revision-hash can become too long for pods to be created`}},
		"no pod may be unavailable while scaling": {
			change: `{spec: {scaleStrategy: {maxUnavailable: 0%}}}`,
			want:   []string{`spec.scaleStrategy.maxUnavailable: is 0, so no pod is ever created`},
		},
		"few pods may be unavailable while scaling": {change: `{spec: {scaleStrategy: {maxUnavailable: 0.1%}}}`},
		"on delete with what has no effect": {
			change: `{spec: {progressDeadlineSeconds: 60, updateStrategy: {type: OnDelete, rollingUpdate: {partition: 2}}}}`,
			want: []string{
				`spec.progressDeadlineSeconds: passes unless pods are deleted in time, because updateStrategy.type is OnDelete`,
				`spec.updateStrategy.rollingUpdate: does not update pods, because updateStrategy.type is OnDelete`,
			},
		},
		"on delete without a deadline": {change: `{spec: {progressDeadlineSeconds: 2147483647, updateStrategy: {type: OnDelete}}}`},
		"pulling ahead while the gate is off": {
			change: inPlace(`imagePreDownloadParallelism: 5, imagePreDownloadMinUpdatedReadyPods: 1`),
			want: []string{
				rollingPath + `inPlaceUpdateStrategy.imagePreDownloadParallelism: ignored, because the feature gate PreDownloadImageForInPlaceUpdate is off`,
				rollingPath + `inPlaceUpdateStrategy.imagePreDownloadMinUpdatedReadyPods: ignored, because the feature gate PreDownloadImageForInPlaceUpdate is off`,
			},
		},
		"a label that deletes pods, stored in the template": {
			change: `{spec: {template: {metadata: {labels: {apps.kruise.io/specified-delete: "true"}}}}}`,
			want:   []string{`spec.template.metadata.labels[apps.kruise.io/specified-delete]: is for single pods, and not given to pods from the template`},
		},
		"pulling ahead while the gate is on": {
			change: inPlace(`imagePreDownloadTimeoutSeconds: 5`), preDownload: true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, admission.Warnings(changed(t, base, tc.change), nil, tc.preDownload)); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// Pods of a CloneSet that were made while they were replaced by updates have no gate, where OpenKruise made them.
func TestSwitchingUpdatesInPlaceOnWarnsOfPodsWithoutTheGate(t *testing.T) {
	const warning = rollingPath + `podUpdatePolicy: pods that exist without the readiness gate InPlaceUpdateReady are not taken out of service while they are updated in place; new pods have it`
	const gate = `{spec: {template: {spec: {readinessGates: [{conditionType: InPlaceUpdateReady}]}}}}`
	recreate, ifPossible, only := rolling("podUpdatePolicy: ReCreate"), rolling("podUpdatePolicy: InPlaceIfPossible"), rolling("podUpdatePolicy: InPlaceOnly")
	for name, tc := range map[string]struct {
		from, to string
		gated    bool
		want     []string
	}{
		"where possible":             {from: recreate, to: ifPossible, want: []string{warning}},
		"only":                       {from: recreate, to: only, want: []string{warning}},
		"in place before":            {from: ifPossible, to: only},
		"switched off":               {from: ifPossible, to: recreate},
		"with the gate in templates": {from: recreate, to: ifPossible, gated: true},
	} {
		t.Run(name, func(t *testing.T) {
			text := base
			if tc.gated {
				text = admissiontest.Merge(t, base, gate)
			}
			set, old := changed(t, text, tc.to), changed(t, text, tc.from)
			if diff := cmp.Diff(tc.want, admission.Warnings(set, old, false)); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func rolling(fields string) string {
	return `{spec: {updateStrategy: {rollingUpdate: {` + fields + `}}}}`
}

func inPlace(fields string) string {
	return rolling(`podUpdatePolicy: InPlaceIfPossible, inPlaceUpdateStrategy: {` + fields + `}`)
}

func changed(t *testing.T, text, change string) *appsv1beta1.CloneSet {
	t.Helper()
	set := admissiontest.Parse[appsv1beta1.CloneSet](t, admissiontest.Merge(t, text, change))
	return &set
}

// expect compares errors with the beginnings that are wanted.
func expect(t *testing.T, want []string, errs field.ErrorList) {
	t.Helper()
	var got []string
	for i, err := range errs {
		text := err.Error()
		if i < len(want) && strings.HasPrefix(text, want[i]) {
			text = want[i]
		}
		got = append(got, text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}
