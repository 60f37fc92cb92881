// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/statefulset/admission"
	"github.com/kruise-operator/kruise-operator/controllers/statefulset/plan"
	"github.com/kruise-operator/kruise-operator/internal/testutil/admissiontest"
)

// base is a set that nothing is wrong with; the cases say what they change in it, as a merge patch.
const base = `
metadata: {name: web, namespace: default}
spec:
  replicas: 3
  serviceName: web
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      readinessGates: [{conditionType: InPlaceUpdateReady}]
      containers: [{name: main, image: "example/web:1"}, {name: side, image: "example/side:1"}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], storageClassName: disk, resources: {requests: {storage: 1Gi}}}
`

func TestValidateCreate(t *testing.T) {
	const number = `must be a whole number from 0 to 2147483647, or a range "a-b" of two such numbers with a not above b`
	cases := map[string]struct {
		change string
		want   []string
	}{
		"nothing wrong": {change: `{}`},

		"a name of 63 characters":           {change: `{metadata: {name: ` + strings.Repeat("a", 63) + `}}`},
		"a name of 64 characters":           {change: `{metadata: {name: ` + strings.Repeat("a", 64) + `}}`, want: []string{`metadata.name: Invalid value: "` + strings.Repeat("a", 64) + `": must be no more than 63 characters`}},
		"a name with a dot":                 {change: `{metadata: {name: web.example}}`, want: []string{`metadata.name: Invalid value: "web.example": must not contain dots`}},
		"a name with capitals":              {change: `{metadata: {name: Web}}`, want: []string{`metadata.name: Invalid value: "Web": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`}},
		"a prefix to generate the name":     {change: `{metadata: {name: null, generateName: web-}}`},
		"a bad prefix to generate the name": {change: `{metadata: {name: null, generateName: web.x-}}`, want: []string{`metadata.generateName: Invalid value: "web.x": must not contain dots`}},

		"negative replicas": {change: `{spec: {replicas: -1}}`, want: []string{`spec.replicas: Invalid value: -1: must be 0 or more`}},
		"no replicas":       {change: `{spec: {replicas: 0}}`},

		"an unknown podManagementPolicy": {change: `{spec: {podManagementPolicy: Sideways}}`, want: []string{`spec.podManagementPolicy: Unsupported value: "Sideways": supported values: "OrderedReady", "Parallel"`}},

		"reserved ordinals":                    {change: `{spec: {reserveOrdinals: [0, 7, "3-5", "4-4", 7, "0-999999"]}}`},
		"a negative reserved ordinal":          {change: `{spec: {reserveOrdinals: [1, -1]}}`, want: []string{`spec.reserveOrdinals[1]: Invalid value: -1: ` + number}},
		"a reserved number as a string":        {change: `{spec: {reserveOrdinals: ["7"]}}`, want: []string{`spec.reserveOrdinals[0]: Invalid value: "7": ` + number}},
		"a reserved range backwards":           {change: `{spec: {reserveOrdinals: ["5-3"]}}`, want: []string{`spec.reserveOrdinals[0]: Invalid value: "5-3": ` + number}},
		"a reserved range of words":            {change: `{spec: {reserveOrdinals: ["a-b"]}}`, want: []string{`spec.reserveOrdinals[0]: Invalid value: "a-b": ` + number}},
		"a reserved range beyond what fits":    {change: `{spec: {reserveOrdinals: ["1-99999999999"]}}`, want: []string{`spec.reserveOrdinals[0]: Invalid value: "1-99999999999": ` + number}},
		"a reserved range with spaces":         {change: `{spec: {reserveOrdinals: ["1 - 3"]}}`, want: []string{`spec.reserveOrdinals[0]: Invalid value: "1 - 3": ` + number}},
		"an empty reserved range":              {change: `{spec: {reserveOrdinals: [""]}}`, want: []string{`spec.reserveOrdinals[0]: Invalid value: "": ` + number}},
		"a reserved range that is far too big": {change: `{spec: {reserveOrdinals: ["0-2000000000"]}}`, want: []string{`spec.reserveOrdinals[0]: Invalid value: "0-2000000000": reserves 2000000001 ordinals; one range may reserve at most 1000000`}},
		"a reserved range that is one too big": {change: `{spec: {reserveOrdinals: ["0-1000000"]}}`, want: []string{`spec.reserveOrdinals[0]: Invalid value: "0-1000000": reserves 1000001 ordinals; one range may reserve at most 1000000`}},
		"several bad reserved ordinals":        {change: `{spec: {reserveOrdinals: ["x", 3, "y"]}}`, want: []string{`spec.reserveOrdinals[0]: Invalid value: "x": ` + number, `spec.reserveOrdinals[2]: Invalid value: "y": ` + number}},

		"a first ordinal":          {change: `{spec: {ordinals: {start: 5}}}`},
		"a negative first ordinal": {change: `{spec: {ordinals: {start: -1}}}`, want: []string{`spec.ordinals.start: Invalid value: -1: must be 0 or more`}},

		"scaling: a number":            {change: `{spec: {scaleStrategy: {maxUnavailable: 2}}}`},
		"scaling: a percentage":        {change: `{spec: {scaleStrategy: {maxUnavailable: 10%}}}`},
		"scaling: none":                {change: `{spec: {scaleStrategy: {maxUnavailable: 0}}}`, want: []string{`spec.scaleStrategy.maxUnavailable: Invalid value: 0: must be at least 1, or a percentage of at least "1%"`}},
		"scaling: two in order":        {change: `{spec: {podManagementPolicy: OrderedReady, scaleStrategy: {maxUnavailable: 2}}}`, want: []string{`spec.scaleStrategy.maxUnavailable: Invalid value: 2: must be 1 unless podManagementPolicy is Parallel`}},
		"scaling: one in order":        {change: `{spec: {podManagementPolicy: OrderedReady, scaleStrategy: {maxUnavailable: 1}}}`},
		"scaling: percentage in order": {change: `{spec: {podManagementPolicy: OrderedReady, scaleStrategy: {maxUnavailable: 1%}}}`, want: []string{`spec.scaleStrategy.maxUnavailable: Invalid value: "1%": must be 1 unless podManagementPolicy is Parallel`}},

		"an unknown update type":       {change: `{spec: {updateStrategy: {type: Now}}}`, want: []string{`spec.updateStrategy.type: Unsupported value: "Now": supported values: "OnDelete", "RollingUpdate"`}},
		"on delete":                    {change: `{spec: {updateStrategy: {type: OnDelete}}}`},
		"on delete with rollingUpdate": {change: `{spec: {updateStrategy: {type: OnDelete, rollingUpdate: {partition: 1}}}}`, want: []string{`spec.updateStrategy.rollingUpdate: Invalid value: "{...}": must be absent when updateStrategy.type is OnDelete`}},
		"a negative partition":         {change: rolling(`partition: -1`), want: []string{`spec.updateStrategy.rollingUpdate.partition: Invalid value: -1: must be 0 or more`}},
		"a partition above replicas":   {change: rolling(`partition: 10`)},
		"updating: none":               {change: rolling(`maxUnavailable: 0`), want: []string{`spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: 0: must be at least 1, or a percentage of at least "1%"`}},
		"updating: below none":         {change: rolling(`maxUnavailable: -1`), want: []string{`spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: -1: must be at least 1, or a percentage of at least "1%"`}},
		"updating: no percent":         {change: rolling(`maxUnavailable: 0%`), want: []string{`spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: "0%": must be a whole number of at least 1, or a percentage such as "10%" of at least "1%"`}},
		"updating: a decimal":          {change: rolling(`maxUnavailable: 33.3%`), want: []string{`spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: "33.3%": must be a whole number of at least 1, or a percentage such as "10%" of at least "1%"`}},
		"updating: a number in quotes": {change: rolling(`maxUnavailable: "2"`), want: []string{`spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: "2": must be a whole number of at least 1, or a percentage such as "10%" of at least "1%"`}},
		"updating: a word":             {change: rolling(`maxUnavailable: many`), want: []string{`spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: "many": must be a whole number of at least 1, or a percentage such as "10%" of at least "1%"`}},
		"updating: only a sign":        {change: rolling(`maxUnavailable: "%"`), want: []string{`spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: "%": must be a whole number of at least 1, or a percentage such as "10%" of at least "1%"`}},
		"updating: all at once":        {change: rolling(`maxUnavailable: 100%`)},
		"updating: two in order":       {change: `{spec: {podManagementPolicy: OrderedReady, updateStrategy: {rollingUpdate: {maxUnavailable: 2}}}}`},
		"minReadySeconds 300":          {change: rolling(`minReadySeconds: 300`)},
		"minReadySeconds 301":          {change: rolling(`minReadySeconds: 301`), want: []string{`spec.updateStrategy.rollingUpdate.minReadySeconds: Invalid value: 301: must be from 0 to 300`}},
		"minReadySeconds below 0":      {change: rolling(`minReadySeconds: -1`), want: []string{`spec.updateStrategy.rollingUpdate.minReadySeconds: Invalid value: -1: must be from 0 to 300`}},
		"a negative grace period":      {change: rolling(`inPlaceUpdateStrategy: {gracePeriodSeconds: -5}`), want: []string{`spec.updateStrategy.rollingUpdate.inPlaceUpdateStrategy.gracePeriodSeconds: Invalid value: -5: must be 0 or more`}},
		"pulling ahead by a percent":   {change: rolling(`inPlaceUpdateStrategy: {imagePreDownloadParallelism: 10%}`), want: []string{`spec.updateStrategy.rollingUpdate.inPlaceUpdateStrategy.imagePreDownloadParallelism: Invalid value: "10%": must be a whole number of at least 0`}},
		"pulling ahead, not in time":   {change: rolling(`inPlaceUpdateStrategy: {imagePreDownloadTimeoutSeconds: -1}`), want: []string{`spec.updateStrategy.rollingUpdate.inPlaceUpdateStrategy.imagePreDownloadTimeoutSeconds: Invalid value: -1: must be from 1 to 86400`}},
		"a negative history":           {change: `{spec: {revisionHistoryLimit: -1}}`, want: []string{`spec.revisionHistoryLimit: Invalid value: -1: must be 0 or more`}},
		"in place":                     {change: rolling(`podUpdatePolicy: InPlaceIfPossible`)},
		"only in place":                {change: rolling(`podUpdatePolicy: InPlaceOnly`)},
		"an unknown podUpdatePolicy":   {change: rolling(`podUpdatePolicy: Inplace`), want: []string{`spec.updateStrategy.rollingUpdate.podUpdatePolicy: Unsupported value: "Inplace": supported values: "InPlaceIfPossible", "InPlaceOnly", "ReCreate"`}},
		"in place without the gate, which pods get anyway": {
			change: `{spec: {template: {spec: {readinessGates: [{conditionType: Other}]}}, updateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceIfPossible}}}}`,
		},
		"only in place without any gate, as native manifests are": {
			change: `{spec: {template: {spec: {readinessGates: null}}, updateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceOnly}}}}`,
		},

		"unordered": {change: rolling(`unorderedUpdate: {}`)},
		"unordered in order": {
			change: `{spec: {podManagementPolicy: OrderedReady, updateStrategy: {rollingUpdate: {unorderedUpdate: {}}}}}`,
			want:   []string{`spec.updateStrategy.rollingUpdate.unorderedUpdate: Forbidden: only works with podManagementPolicy Parallel, which is OrderedReady`},
		},
		"priority by weight": {change: priority(`weightPriority: [{weight: 0, matchSelector: {matchLabels: {a: b}}}, {weight: 100, matchSelector: {matchExpressions: [{key: a, operator: Exists}]}}]`)},
		"priority by order":  {change: priority(`orderPriority: [{orderedKey: a}]`)},
		"priority by both": {
			change: priority(`orderPriority: [{orderedKey: a}], weightPriority: [{weight: 1, matchSelector: {matchLabels: {a: b}}}]`),
			want:   []string{`spec.updateStrategy.rollingUpdate.unorderedUpdate.priorityStrategy: Forbidden: only one of orderPriority and weightPriority may be set`},
		},
		"priority without a key": {
			change: priority(`orderPriority: [{orderedKey: ""}]`),
			want:   []string{`spec.updateStrategy.rollingUpdate.unorderedUpdate.priorityStrategy.orderPriority[0].orderedKey: Required value: the key of a pod label`},
		},
		"priority with bad weights": {
			change: priority(`weightPriority: [{weight: -1, matchSelector: {matchLabels: {a: b}}}, {weight: 101, matchSelector: {matchLabels: {a: b}}}]`),
			want: []string{
				`spec.updateStrategy.rollingUpdate.unorderedUpdate.priorityStrategy.weightPriority[0].weight: Invalid value: -1: must be from 0 to 100`,
				`spec.updateStrategy.rollingUpdate.unorderedUpdate.priorityStrategy.weightPriority[1].weight: Invalid value: 101: must be from 0 to 100`,
			},
		},
		"priority of every pod": {
			change: priority(`weightPriority: [{weight: 1, matchSelector: {}}]`),
			want:   []string{`spec.updateStrategy.rollingUpdate.unorderedUpdate.priorityStrategy.weightPriority[0].matchSelector: Required value: an empty selector would match every pod`},
		},
		"priority by a bad selector": {
			change: priority(`weightPriority: [{weight: 1, matchSelector: {matchExpressions: [{key: a, operator: Near}]}}]`),
			want:   []string{`spec.updateStrategy.rollingUpdate.unorderedUpdate.priorityStrategy.weightPriority[0].matchSelector.matchExpressions[0].operator: Invalid value: "Near": not a valid selector operator`},
		},

		"retention": {change: `{spec: {persistentVolumeClaimRetentionPolicy: {whenScaled: Delete}}}`},
		"unknown retention": {
			change: `{spec: {persistentVolumeClaimRetentionPolicy: {whenScaled: Drop, whenDeleted: Keep}}}`,
			want: []string{
				`spec.persistentVolumeClaimRetentionPolicy.whenDeleted: Unsupported value: "Keep": supported values: "Delete", "Retain"`,
				`spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: "Drop": supported values: "Delete", "Retain"`,
			},
		},
		"an unknown claim update": {
			change: `{spec: {volumeClaimUpdateStrategy: {type: Later}}}`,
			want:   []string{`spec.volumeClaimUpdateStrategy.type: Unsupported value: "Later": supported values: "OnDelete", "OnPodRollingUpdate"`},
		},

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
		"a bad label in the template": {
			change: `{spec: {template: {metadata: {labels: {bad: "no spaces"}}}}}`,
			want:   []string{`spec.template.metadata.labels: Invalid value: "no spaces": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`},
		},
		"a bad annotation in the template": {
			change: `{spec: {template: {metadata: {annotations: {"a/b/c": x}}}}}`,
			want:   []string{`spec.template.metadata.annotations: Invalid value: "a/b/c": a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`},
		},
		"restartPolicy Always":           {change: `{spec: {template: {spec: {restartPolicy: Always}}}}`},
		"a label that deletes every pod": {change: `{spec: {template: {metadata: {labels: {apps.kruise.io/specified-delete: "true"}}}}}`, want: []string{`spec.template.metadata.labels[apps.kruise.io/specified-delete]: Forbidden: is for single pods, and means nothing in a template`}},
		"restartPolicy Never":            {change: `{spec: {template: {spec: {restartPolicy: Never}}}}`, want: []string{`spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"`}},
		"a deadline":                     {change: `{spec: {template: {spec: {activeDeadlineSeconds: 5}}}}`, want: []string{`spec.template.spec.activeDeadlineSeconds: Forbidden: the pods of a StatefulSet have no deadline`}},
		"a pod spec nobody looks at": {
			change: `{spec: {template: {spec: {containers: [{name: "Not A Name"}]}}}}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			set := changed(t, base, tc.change)
			options := plan.Options{StartOrdinal: true, AutoDeletePVC: true, AutoResizePVC: true}
			admission.Default(set, options)
			expect(t, tc.want, append(admission.Validate(set), admission.ValidateCreate(set)...).ToAggregate())
		})
	}
}

func TestValidateWantsDefaults(t *testing.T) {
	set := changed(t, base, `{spec: {updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: ReCreate}}}}`)
	expect(t, []string{`spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: a number of pods, or a percentage`},
		admission.Validate(set).ToAggregate())
}

// kubectl apply leaves the defaults of the type before there.
func TestTheRollingUpdateOfBeforeMayStayBesideOnDelete(t *testing.T) {
	old := changed(t, base, `{}`)
	admission.Default(old, plan.Options{})
	set := old.DeepCopy()
	set.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
	expect(t, nil, append(admission.Validate(set), admission.ValidateUpdate(set, old, plan.Options{})...).ToAggregate())
	set.Spec.UpdateStrategy.RollingUpdate.Partition = ptr.To[int32](3)
	expect(t, []string{`spec.updateStrategy.rollingUpdate: Invalid value: "{...}": must be absent when updateStrategy.type is OnDelete`},
		admission.ValidateUpdate(set, old, plan.Options{}).ToAggregate())
}

func TestValidateUpdate(t *testing.T) {
	const resize = "while volumeClaimUpdateStrategy.type is OnPodRollingUpdate, "
	cases := map[string]struct {
		old, change string
		options     plan.Options
		want        []string
	}{
		"what may change": {
			change: `{spec: {replicas: 5, ordinals: {start: 2}, reserveOrdinals: [4], revisionHistoryLimit: 3,
				scaleStrategy: {maxUnavailable: 2}, lifecycle: {preDelete: {finalizersHandler: [x]}},
				persistentVolumeClaimRetentionPolicy: {whenScaled: Delete}, volumeClaimUpdateStrategy: {type: OnDelete},
				volumeClaimTemplates: [], updateStrategy: {type: OnDelete}, template: {spec: {containers: [{name: other}]}}}}`,
		},
		"a pod management policy that was stored without its default": {
			old:    `{spec: {podManagementPolicy: null}}`,
			change: `{spec: {podManagementPolicy: OrderedReady}}`,
		},

		"a fault that was there before": {
			old:    `{spec: {reserveOrdinals: ["0-2000000000"], ordinals: {start: -3}}}`,
			change: `{spec: {replicas: 9}}`,
		},
		"a fault added to one that was there before": {
			old:    `{spec: {reserveOrdinals: ["0-2000000000"]}}`,
			change: `{spec: {reserveOrdinals: ["0-2000000000", "0-1999999999"]}}`,
			want:   []string{`spec.reserveOrdinals[1]: Invalid value: "0-1999999999": reserves 2000000000 ordinals; one range may reserve at most 1000000`},
		},
		"a fault of a field that the update changes": {
			old:    `{spec: {ordinals: {start: -3}}}`,
			change: `{spec: {ordinals: {start: -2}}}`,
			want:   []string{`spec.ordinals.start: Invalid value: -2: must be 0 or more`},
		},

		"only in place: an image": {
			old:    rolling(`podUpdatePolicy: InPlaceOnly`),
			change: `{spec: {template: {metadata: {labels: {app: web, v: "2"}, annotations: {a: b}}, spec: {containers: [{name: main, image: "example/web:2"}, {name: side, image: "example/side:2"}]}}}}`,
		},
		"only in place: an image and its pull policy": {
			old:    rolling(`podUpdatePolicy: InPlaceOnly`),
			change: `{spec: {template: {spec: {containers: [{name: main, image: "example/web:2", imagePullPolicy: Never}, {name: side, image: "example/side:1"}]}}}}`,
			want:   []string{`spec.template.spec: Forbidden: while podUpdatePolicy is InPlaceOnly, only containers[*].image may change; this update also changes containers[0].imagePullPolicy`},
		},
		"only in place: an argument": {
			old:    rolling(`podUpdatePolicy: InPlaceOnly`),
			change: `{spec: {template: {spec: {containers: [{name: main, image: "example/web:2"}, {name: side, image: "example/side:1", args: [x]}], terminationGracePeriodSeconds: 3}}}}`,
			want:   []string{`spec.template.spec: Forbidden: while podUpdatePolicy is InPlaceOnly, only containers[*].image may change; this update also changes containers[1].args, terminationGracePeriodSeconds`},
		},
		"only in place: resources": {
			old:    rolling(`podUpdatePolicy: InPlaceOnly`),
			change: `{spec: {template: {spec: {containers: [{name: main, image: "example/web:1", resources: {limits: {cpu: 1}}}, {name: side, image: "example/side:1"}]}}}}`,
			want:   []string{`spec.template.spec: Forbidden: while podUpdatePolicy is InPlaceOnly, only containers[*].image may change; this update also changes containers[0].resources.limits, containers[0].resources.requests`},
		},
		"only in place: switched on by the same update": {
			change: `{spec: {updateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceOnly}}, template: {spec: {hostNetwork: true}}}}`,
			want:   []string{`spec.template.spec: Forbidden: while podUpdatePolicy is InPlaceOnly, only containers[*].image may change; this update also changes hostNetwork`},
		},
		"only in place: switched off by the same update": {
			old:    rolling(`podUpdatePolicy: InPlaceOnly`),
			change: `{spec: {updateStrategy: {rollingUpdate: {podUpdatePolicy: ReCreate}}, template: {spec: {hostNetwork: true}}}}`,
		},
		"only in place: a manifest without the defaults that are stored": {
			old: `{spec: {updateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceOnly}}, template: {spec: {dnsPolicy: ClusterFirst, restartPolicy: Always, schedulerName: default-scheduler, securityContext: {}, terminationGracePeriodSeconds: 30,
				containers: [{name: main, image: "example/web:1", imagePullPolicy: Always, resources: {}, terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File}]}}}}`,
			change: `{spec: {template: {spec: {dnsPolicy: null, restartPolicy: null, schedulerName: null, securityContext: null, terminationGracePeriodSeconds: null,
				containers: [{name: main, image: "example/web:2"}]}}}}`,
		},

		"claims change freely without the gate": {
			old:    `{spec: {volumeClaimUpdateStrategy: {type: OnPodRollingUpdate}}}`,
			change: `{spec: {volumeClaimTemplates: []}}`,
		},
		"claims change freely with OnDelete": {
			options: plan.Options{AutoResizePVC: true},
			change:  `{spec: {volumeClaimTemplates: []}}`,
		},
		"resizing: the size": {
			options: plan.Options{AutoResizePVC: true},
			old:     `{spec: {volumeClaimUpdateStrategy: {type: OnPodRollingUpdate}}}`,
			change:  claims(`{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], storageClassName: disk, resources: {requests: {storage: 5Gi}}}}`),
		},
		"resizing: the number of templates": {
			options: plan.Options{AutoResizePVC: true},
			old:     `{spec: {volumeClaimUpdateStrategy: {type: OnPodRollingUpdate}}}`,
			change:  claims(``),
			want:    []string{`spec.volumeClaimTemplates: Forbidden: ` + resize + `claim templates cannot be added or removed; there are 1`},
		},
		"resizing: a name": {
			options: plan.Options{AutoResizePVC: true},
			old:     `{spec: {volumeClaimUpdateStrategy: {type: OnPodRollingUpdate}}}`,
			change:  claims(`{metadata: {name: logs}, spec: {accessModes: [ReadWriteOnce], storageClassName: disk, resources: {requests: {storage: 1Gi}}}}`),
			want:    []string{`spec.volumeClaimTemplates[0].metadata.name: Forbidden: ` + resize + `claim templates cannot be renamed; there was none named "logs"`},
		},
		"resizing: a class": {
			options: plan.Options{AutoResizePVC: true},
			old:     `{spec: {volumeClaimUpdateStrategy: {type: OnPodRollingUpdate}}}`,
			change:  claims(`{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], storageClassName: fast, resources: {requests: {storage: 1Gi}}}}`),
			want:    []string{`spec.volumeClaimTemplates[0].spec: Forbidden: ` + resize + `only resources.requests.storage may change; this update also changes storageClassName`},
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
			admission.Default(set, tc.options)
			expect(t, tc.want, admission.Kind(tc.options, admission.StorageClasses{}).Faults(set, old).ToAggregate())
		})
	}
}

func TestWarnings(t *testing.T) {
	cases := map[string]struct {
		change  string
		options plan.Options
		want    []string
	}{
		"none":                               {change: `{}`},
		"a name of 52 characters":            {change: `{metadata: {name: ` + strings.Repeat("a", 52) + `}}`},
		"a name that is too long for pods":   {change: `{metadata: {name: ` + strings.Repeat("a", 53) + `}}`, want: []string{`metadata.name: has 53 characters; with more than 52 the label controller-revision-hash can become too long for pods to be created`}},
		"a first ordinal that is ignored":    {change: `{spec: {ordinals: {start: 2}}}`, want: []string{`spec.ordinals.start: ignored, because the feature gate StatefulSetStartOrdinal is off`}},
		"a first ordinal that counts":        {change: `{spec: {ordinals: {start: 2}}}`, options: plan.Options{StartOrdinal: true}},
		"a retention policy that is ignored": {change: `{spec: {persistentVolumeClaimRetentionPolicy: {whenScaled: Delete}}}`, want: []string{`spec.persistentVolumeClaimRetentionPolicy: ignored, because the feature gate StatefulSetAutoDeletePVC is off`}},
		"a retention policy that counts":     {change: `{spec: {persistentVolumeClaimRetentionPolicy: {whenScaled: Delete}}}`, options: plan.Options{AutoDeletePVC: true}},
		"a claim update that is ignored":     {change: `{spec: {volumeClaimUpdateStrategy: {type: OnPodRollingUpdate}}}`, want: []string{`spec.volumeClaimUpdateStrategy.type: ignored, because the feature gate StatefulSetAutoResizePVCGate is off`}},
		"pulling ahead that is ignored":      {change: rolling(`inPlaceUpdateStrategy: {imagePreDownloadParallelism: 5}`), want: []string{`spec.updateStrategy.rollingUpdate.inPlaceUpdateStrategy.imagePreDownloadParallelism: ignored, because the feature gate PreDownloadImageForInPlaceUpdate is off`}},
		"pulling ahead that counts":          {change: rolling(`inPlaceUpdateStrategy: {imagePreDownloadParallelism: 5}`), options: plan.Options{PreDownloadImages: true}},
		"rollingUpdate with OnDelete":        {change: `{spec: {updateStrategy: {type: OnDelete, rollingUpdate: {partition: 1}}}}`, want: []string{`spec.updateStrategy.rollingUpdate: does not update pods, because updateStrategy.type is OnDelete`}},
		"a claim update with OnDelete":       {change: `{spec: {volumeClaimUpdateStrategy: {type: OnPodRollingUpdate}, updateStrategy: {type: OnDelete, rollingUpdate: null}}}`, options: plan.Options{AutoResizePVC: true}, want: []string{`spec.volumeClaimUpdateStrategy.type: no claim grows, because updateStrategy.type is OnDelete`}},
		"a host name for all pods":           {change: `{spec: {template: {spec: {hostname: db}}}}`, want: []string{`spec.template.spec.hostname: has no effect: pods get the name of the pod`}},
		"a subdomain without effect":         {change: `{spec: {template: {spec: {subdomain: other}}}}`, want: []string{`spec.template.spec.subdomain: has no effect: pods get spec.serviceName`}},
		"a claim update that counts":         {change: `{spec: {volumeClaimUpdateStrategy: {type: OnPodRollingUpdate}}}`, options: plan.Options{AutoResizePVC: true}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, admission.Warnings(changed(t, base, tc.change), nil, tc.options)); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUpdatesInPlaceWithoutTheGateInTheTemplateAreAccepted(t *testing.T) {
	const warning = `spec.updateStrategy.rollingUpdate.podUpdatePolicy: pods that exist without the readiness gate InPlaceUpdateReady are not taken out of service while they are updated in place; new pods have it`
	ungated := admissiontest.Merge(t, base, `{spec: {template: {spec: {readinessGates: null}}}}`)
	for _, policy := range []string{"InPlaceIfPossible", "InPlaceOnly"} {
		set := changed(t, ungated, rolling("podUpdatePolicy: "+policy))
		admission.Default(set, plan.Options{})
		if errs := admission.Validate(set); len(errs) > 0 {
			t.Errorf("%s is refused: %v", policy, errs)
		}
		if got := admission.Warnings(set, nil, plan.Options{}); len(got) > 0 {
			t.Errorf("a new set with %s is warned of %q: all of its pods will have the gate", policy, got)
		}
		old := changed(t, ungated, rolling("podUpdatePolicy: ReCreate"))
		if diff := cmp.Diff([]string{warning}, admission.Warnings(set, old, plan.Options{})); diff != "" {
			t.Errorf("switching %s on (-want +got):\n%s", policy, diff)
		}
		if got := admission.Warnings(set, set, plan.Options{}); len(got) > 0 {
			t.Errorf("a set that has %s already is warned of %q", policy, got)
		}
		gated := changed(t, base, rolling("podUpdatePolicy: ReCreate"))
		if got := admission.Warnings(changed(t, base, rolling("podUpdatePolicy: "+policy)), gated, plan.Options{}); len(got) > 0 {
			t.Errorf("a set whose pods have the gate is warned of %q", got)
		}
	}
}

func rolling(fields string) string {
	return `{spec: {updateStrategy: {rollingUpdate: {` + fields + `}}}}`
}

func priority(fields string) string {
	return rolling(`unorderedUpdate: {priorityStrategy: {` + fields + `}}`)
}

func claims(templates string) string { return `{spec: {volumeClaimTemplates: [` + templates + `]}}` }

func changed(t *testing.T, text, change string) *appsv1beta1.StatefulSet {
	t.Helper()
	set := admissiontest.Parse[appsv1beta1.StatefulSet](t, admissiontest.Merge(t, text, change))
	return &set
}

// expect compares the messages of an aggregate with those that are wanted, in any order.
func expect(t *testing.T, want []string, err interface{ Errors() []error }) {
	t.Helper()
	var got []string
	if err != nil {
		for _, e := range err.Errors() {
			got = append(got, e.Error())
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

// Pods of a set that another manager created may lack the gate that takes them out of service.
func TestWarnsOfPodsThatAreUpdatedInPlaceWhileTheyServe(t *testing.T) {
	const without, with = `{spec: {template: {spec: {readinessGates: null}}}}`, `{}`
	inPlace := rolling(`podUpdatePolicy: InPlaceIfPossible`)
	cases := map[string]struct {
		old, change string
		want        bool
	}{
		"switched on for pods without the gate": {old: without, change: inPlace, want: true},
		"on already":                            {old: rolling(`podUpdatePolicy: InPlaceOnly`), change: inPlace},
		"their template has the gate":           {old: with, change: inPlace},
		"not switched on":                       {old: without, change: rolling(`podUpdatePolicy: ReCreate`)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			old := changed(t, base, tc.old)
			got := admission.Warnings(changed(t, base, tc.change), old, plan.Options{})
			if (len(got) == 1) != tc.want {
				t.Errorf("warnings %q, want one: %t", got, tc.want)
			}
		})
	}
}
