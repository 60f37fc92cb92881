// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/daemonset/admission"
	"github.com/kruise-operator/kruise-operator/internal/testutil/admissiontest"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// base is a set that nothing is wrong with; the cases say what they change in it, as a merge patch.
const base = `
metadata: {name: agent, namespace: default}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      containers: [{name: main, image: "example/agent:1"}]
`

func TestValidate(t *testing.T) {
	const count = `must be a whole number of at least 0, or a percentage such as "30%"`
	const share = count + `, of at most 100%`
	const rolling = `spec.updateStrategy.rollingUpdate.`
	update := func(fields string) string { return `{spec: {updateStrategy: {rollingUpdate: {` + fields + `}}}}` }
	cases := map[string]struct {
		change string
		want   []string
	}{
		"nothing wrong":        {change: `{}`},
		"a name with capitals": {change: `{metadata: {name: Agent}}`, want: []string{`metadata.name: Invalid value: "Agent": a lowercase RFC 1123 subdomain must consist of`}},
		"no selector":          {change: `{spec: {selector: null}}`, want: []string{`spec.selector: Required value: a selector that matches the labels of the template`}},
		"empty selector":       {change: `{spec: {selector: {matchLabels: null}}}`, want: []string{`spec.selector: Invalid value: "{}": must not be empty: it would match every pod`}},
		"a selector that matches other pods": {
			change: `{spec: {selector: {matchLabels: {app: api}}}}`,
			want:   []string{`spec.template.metadata.labels: Invalid value: {"app":"agent"}: must match spec.selector, which is app=api`},
		},
		"restartPolicy Never": {
			change: `{spec: {template: {spec: {restartPolicy: Never}}}}`,
			want:   []string{`spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"`},
		},
		"a deadline": {
			change: `{spec: {template: {spec: {activeDeadlineSeconds: 5}}}}`,
			want:   []string{`spec.template.spec.activeDeadlineSeconds: Forbidden: the pods of a DaemonSet have no deadline`},
		},
		"negative minReadySeconds":      {change: `{spec: {minReadySeconds: -1}}`, want: []string{`spec.minReadySeconds: Invalid value: -1: must be 0 or more`}},
		"negative revisionHistoryLimit": {change: `{spec: {revisionHistoryLimit: -1}}`, want: []string{`spec.revisionHistoryLimit: Invalid value: -1: must be 0 or more`}},
		"negative burstReplicas":        {change: `{spec: {burstReplicas: -1}}`, want: []string{`spec.burstReplicas: Invalid value: -1: ` + count}},
		"no burstReplicas": {
			change: `{spec: {burstReplicas: 0%}}`, want: []string{`spec.burstReplicas: Invalid value: "0%": must be more than 0, or no pod could ever be created`},
		},
		"an update hook": {
			change: `{spec: {lifecycle: {inPlaceUpdate: {labelsHandler: {a: b}}}}}`,
			want:   []string{`spec.lifecycle.inPlaceUpdate: Forbidden: pods of a DaemonSet have the hook preDelete only`},
		},
		"a hook before deletion": {change: `{spec: {lifecycle: {preDelete: {labelsHandler: {a: b}}}}}`},
		"an unknown type": {
			change: `{spec: {updateStrategy: {type: Recreate}}}`,
			want:   []string{`spec.updateStrategy.type: Unsupported value: "Recreate": supported values: "OnDelete", "RollingUpdate"`},
		},
		"an unknown rollingUpdateType": {
			change: update(`rollingUpdateType: Surging`),
			want:   []string{rolling + `rollingUpdateType: Unsupported value: "Surging": supported values: "InPlaceIfPossible", "Standard"`},
		},
		"negative partition":   {change: update(`partition: -1`), want: []string{rolling + `partition: Invalid value: -1: ` + share}},
		"a partition in words": {change: update(`partition: some`), want: []string{rolling + `partition: Invalid value: "some": ` + share}},
		"a partition of more than all": {
			change: update(`partition: 101%`), want: []string{rolling + `partition: Invalid value: "101%": ` + share},
		},
		"a partition of all":          {change: update(`partition: 100%`)},
		"negative limits":             {change: update(`maxUnavailable: -1, maxSurge: -2`), want: []string{rolling + `maxUnavailable: Invalid value: -1: ` + share, rolling + `maxSurge: Invalid value: -2: ` + share}},
		"maxUnavailable and maxSurge": {change: update(`maxUnavailable: 1, maxSurge: 1`), want: []string{rolling + `maxSurge: Invalid value: 1: must be 0 while maxUnavailable is not`}},
		"neither": {
			change: update(`maxUnavailable: 0, maxSurge: 0%`),
			want:   []string{rolling + `maxUnavailable: Required value: must not be 0 while maxSurge is 0, or no pod could be updated`},
		},
		"surge": {change: update(`maxSurge: 20%`)},
		"surge in place": {
			change: update(`maxSurge: 1, rollingUpdateType: InPlaceIfPossible`),
			want:   []string{rolling + `maxSurge: Invalid value: 1: must be 0 when rollingUpdateType is InPlaceIfPossible`},
		},
		"a bad selector of nodes": {
			change: update(`selector: {matchExpressions: [{key: lane, operator: Near}]}`),
			want:   []string{rolling + `selector.matchExpressions[0].operator: Invalid value: "Near": not a valid selector operator`},
		},
		"a selector of nodes": {change: update(`selector: {matchLabels: {lane: canary}}`)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			set := admissiontest.Parse[appsv1beta1.DaemonSet](t, admissiontest.Merge(t, base, tc.change))
			admission.Default(&set)
			expectErrors(t, admission.Validate(&set), tc.want)
		})
	}
}

func TestASurgeThatTheTypeOfV1alpha1StandsForIsExplained(t *testing.T) {
	object := admissiontest.Merge(t, base, `{spec: {updateStrategy: {type: RollingUpdate, rollingUpdate: {rollingUpdateType: Standard, maxSurge: 1, maxUnavailable: 2}}}}`)
	const fault = "must be 0 while maxUnavailable is not"
	for version, want := range map[string]string{"v1beta1": fault, "v1alpha1": fault + "; the type Surging means 1 where it is left out"} {
		kind := admission.Kind()
		response := kind.Validator(admit.Cluster{}).Handle(t.Context(), admissiontest.Request(kind.GroupVersionKind, version, object, ""))
		if response.Allowed || !strings.HasSuffix(response.Result.Message, want) {
			t.Errorf("%s: allowed %v: %v, want %q", version, response.Allowed, response.Result, want)
		}
	}
}

func TestWarnings(t *testing.T) {
	set := admissiontest.Parse[appsv1beta1.DaemonSet](t, admissiontest.Merge(t, base, `
metadata: {annotations: {daemonset.kruise.io/progressive-create-pod: "true", deprecated.daemonset.template.generation: "2"}}
spec: {updateStrategy: {type: OnDelete, rollingUpdate: {partition: 1}}, lifecycle: {preNormal: {labelsHandler: {a: b}}}}`))
	want := []string{
		"metadata.annotations[daemonset.kruise.io/progressive-create-pod]: has no effect here; v1beta1 has the field spec.scaleStrategy.partitionedScaling",
		"metadata.annotations[deprecated.daemonset.template.generation]: has no effect; pods are compared by the hash of their revision",
		"spec.updateStrategy.rollingUpdate: does not update pods, because updateStrategy.type is OnDelete",
		"spec.lifecycle.preNormal: has no effect on a DaemonSet",
	}
	if diff := cmp.Diff(want, admission.Warnings(&set, nil)); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func expectErrors(t *testing.T, errs field.ErrorList, want []string) {
	t.Helper()
	var got []string
	for i, err := range errs {
		text := err.Error()
		if i < len(want) && strings.HasPrefix(text, want[i]) {
			text = want[i] // the end of some messages is Kubernetes' own
		}
		got = append(got, text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}
