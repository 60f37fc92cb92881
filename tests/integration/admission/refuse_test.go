// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package admission_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
)

func TestAdmission(t *testing.T) {
	e := start(t)
	t.Run("create", func(t *testing.T) { testCreate(t, e) })
	t.Run("update", func(t *testing.T) { testUpdate(t, e) })
	t.Run("stored", func(t *testing.T) { testStored(t, e) })
	t.Run("v1alpha1", func(t *testing.T) { testV1alpha1(t, e) })
	t.Run("printing", func(t *testing.T) { testPrinting(t, e) })
	t.Run("AdvancedCronJob", func(t *testing.T) { testAdvancedCronJob(t, e.about("advancedcronjobs")) })
	t.Run("BroadcastJob", func(t *testing.T) { testBroadcastJob(t, e.about("broadcastjobs")) })
	t.Run("DaemonSet", func(t *testing.T) { testDaemonSet(t, e.about("daemonsets")) })
	t.Run("EphemeralJob", func(t *testing.T) { testEphemeralJob(t, e.about("ephemeraljobs")) })
	t.Run("CloneSet", func(t *testing.T) { testCloneSet(t, e.about("clonesets")) })
	t.Run("ImageListPullJob", func(t *testing.T) { testImageListPullJob(t, e.about("imagelistpulljobs")) })
	t.Run("ImagePullJob", func(t *testing.T) { testImagePullJob(t, e.about("imagepulljobs")) })
	t.Run("PersistentPodState", func(t *testing.T) { testPersistentPodState(t, e.about("persistentpodstates")) })
	t.Run("PodProbeMarker", func(t *testing.T) { testPodProbeMarker(t, e.about("podprobemarkers")) })
	t.Run("PodUnavailableBudget", func(t *testing.T) { testPodUnavailableBudget(t, e.about("podunavailablebudgets")) })
	t.Run("ResourceDistribution", func(t *testing.T) { testResourceDistribution(t, e.about("resourcedistributions")) })
	t.Run("SidecarSet", func(t *testing.T) { testSidecarSet(t, e.about("sidecarsets")) })
	t.Run("UnitedDeployment", func(t *testing.T) { testUnitedDeployment(t, e.about("uniteddeployments")) })
	t.Run("WorkloadSpread", func(t *testing.T) { testWorkloadSpread(t, e.about("workloadspreads")) })
	inTurn(t, "fixtures", 0, func(t *testing.T) { testFixtures(t, e) })
	inTurn(t, "conformance", 0, func(t *testing.T) { testConformance(t, e) })
	inTurn(t, "without webhooks", 0, func(t *testing.T) { testSchemaAlone(t, e) })
	inTurn(t, "manifests", 1, func(t *testing.T) { testManifests(t, e) })
	inTurn(t, "another authority", 1, func(t *testing.T) { testAuthority(t, e) })
	inTurn(t, "reach", 2, func(t *testing.T) { testReach(t, e) })
	t.Run("uninstall", func(t *testing.T) { testUninstall(t, e) }) // last: nothing of ours is left
}

// inTurn runs a long test on one day of three.
func inTurn(t *testing.T, name string, turn int, test func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		if !sample.Has(turn, 3) {
			t.Skip("left to another day")
		}
		test(t)
	})
}

func testCreate(t *testing.T, e *env) {
	ns := e.namespace(t)
	long := strings.Repeat("n", 64)
	const rolling = "{podUpdatePolicy: InPlaceIfPossible}"
	cases := map[string]struct {
		edits        []string
		parameters   map[string]string
		wantFields   []string // refused, for these fields
		wantMessage  string   // part of the refusal
		wantWarnings []string
	}{
		"a good set": {},

		// The API server's own answers.
		"a string for a number": {
			edits: []string{"replicas: 3", "replicas: three"}, wantFields: []string{"spec.replicas"},
			wantMessage: `spec.replicas: Invalid value: "string": spec.replicas in body must be of type integer: "string"`,
		},
		"a list for an object": {
			edits: []string{"rollingUpdate: " + rolling, "rollingUpdate: []"}, wantFields: []string{"spec.updateStrategy.rollingUpdate"},
		},
		"a template that is no object": {
			edits: []string{"serviceName: web", "volumeClaimTemplates: {a: b}"}, wantFields: []string{"spec.volumeClaimTemplates"},
		},
		"a number that has no 32 bits": {
			edits: []string{"replicas: 3", "replicas: 4294967296"}, wantFields: []string{"spec.replicas"},
		},
		"a reserved ordinal that has no 32 bits": {
			edits: []string{"replicas: 3", "reserveOrdinals: [4294967296]"}, wantFields: []string{"spec.reserveOrdinals[0]"},
		},
		"a missing selector": {
			edits: []string{"  selector:\n    matchLabels: {app: web}\n", ""}, wantFields: []string{"spec.selector"},
		},
		"an unknown field": {
			edits: []string{"replicas: 3", "replica: 3"}, wantWarnings: []string{`unknown field "spec.replica"`},
		},
		"an unknown field, strictly": {
			edits: []string{"replicas: 3", "replica: 3"}, parameters: map[string]string{"fieldValidation": "Strict"},
			wantMessage: `strict decoding error: unknown field "spec.replica"`,
		},

		// Templates.
		"an unknown field in the template": {
			edits:        []string{"image: example/web:v1", "image: example/web:v1\n        imagePolicy: Always"},
			wantWarnings: []string{`unknown or duplicate field "spec.template.spec.containers[0].imagePolicy"`},
		},
		"a template that cannot be read": {
			edits:       []string{"image: example/web:v1", "image: example/web:v1\n        ports: [{containerPort: http}]"},
			wantFields:  []string{"spec.template.spec.containers[0].ports[0].containerPort"},
			wantMessage: `spec.template.spec.containers[0].ports[0].containerPort: Invalid value: "http": must be a whole number of at most 32 bits`,
		},
		"a claim template that cannot be read": {
			edits:       []string{"serviceName: web", "volumeClaimTemplates: [{metadata: {name: data}, spec: {resources: {requests: {storage: plenty}}}}]"},
			wantFields:  []string{"spec.volumeClaimTemplates[0].spec.resources.requests[storage]"},
			wantMessage: `Invalid value: "plenty": must be a quantity such as 500m, 2 or 1Gi`,
		},
		"a template that the API server would refuse": {
			edits: []string{"- name: main\n        image: example/web:v1", "- name: Main\n        volumeMounts: [{name: data, mountPath: /data}]"},
			wantWarnings: []string{
				"spec.template.spec.containers[0].image: Required value (pods cannot be created from this template)",
				"spec.template.spec.containers[0].name: Invalid value: \"Main\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?') (pods cannot be created from this template)",
				"spec.template.spec.containers[0].volumeMounts[0].name: Not found: \"data\" (pods cannot be created from this template)",
			},
		},
		"a mount of a claim template": {
			edits: []string{
				"image: example/web:v1", "image: example/web:v1\n        volumeMounts: [{name: data, mountPath: /data}]",
				"serviceName: web", "volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]",
			},
		},
		"a selector that matches other pods": {
			edits: []string{"matchLabels: {app: web}", "matchLabels: {app: api}"}, wantFields: []string{"spec.template.metadata.labels"},
		},
		"an empty selector":    {edits: []string{"matchLabels: {app: web}", "matchLabels: {}"}, wantFields: []string{"spec.selector"}},
		"a bad selector":       {edits: []string{"matchLabels: {app: web}", "matchExpressions: [{key: app, operator: Near}]"}, wantFields: []string{"spec.selector.matchExpressions[0].operator"}},
		"a bad template label": {edits: []string{"labels: {app: web}", `labels: {app: web, bad: "no spaces"}`}, wantFields: []string{"spec.template.metadata.labels"}},
		"restartPolicy Never":  {edits: []string{"readinessGates:", "restartPolicy: Never\n      readinessGates:"}, wantFields: []string{"spec.template.spec.restartPolicy"}},
		"a deadline":           {edits: []string{"readinessGates:", "activeDeadlineSeconds: 3\n      readinessGates:"}, wantFields: []string{"spec.template.spec.activeDeadlineSeconds"}},

		// The rest of the set.
		"a name of 64 characters": {edits: []string{"name: NAME", "name: " + long}, wantFields: []string{"metadata.name"}},
		"a name with a dot":       {edits: []string{"name: NAME", "name: a.b"}, wantFields: []string{"metadata.name"}},
		"a name of 60 characters": {
			edits:        []string{"name: NAME", "name: " + long[:60]},
			wantWarnings: []string{"metadata.name: has 60 characters; with more than 52 the label controller-revision-hash can become too long for pods to be created"},
		},
		"negative replicas":             {edits: []string{"replicas: 3", "replicas: -1"}, wantFields: []string{"spec.replicas"}},
		"an unknown management policy":  {edits: []string{"podManagementPolicy: Parallel", "podManagementPolicy: Sideways"}, wantFields: []string{"spec.podManagementPolicy"}, wantMessage: `supported values: "OrderedReady", "Parallel"`},
		"a huge reserved range":         {edits: []string{"replicas: 3", `reserveOrdinals: ["0-2000000000"]`}, wantFields: []string{"spec.reserveOrdinals[0]"}, wantMessage: `spec.reserveOrdinals[0]: Invalid value: "0-2000000000": reserves 2000000001 ordinals; one range may reserve at most 1000000`},
		"a reserved range backwards":    {edits: []string{"replicas: 3", `reserveOrdinals: [1, "5-3"]`}, wantFields: []string{"spec.reserveOrdinals[1]"}},
		"a reserved number as a string": {edits: []string{"replicas: 3", `reserveOrdinals: ["7"]`}, wantFields: []string{"spec.reserveOrdinals[0]"}},
		"a negative reserved ordinal":   {edits: []string{"replicas: 3", `reserveOrdinals: [-1]`}, wantFields: []string{"spec.reserveOrdinals[0]"}},
		"a negative first ordinal":      {edits: []string{"replicas: 3", "ordinals: {start: -1}"}, wantFields: []string{"spec.ordinals.start"}},
		"a first ordinal without its gate": {
			edits:        []string{"replicas: 3", "ordinals: {start: 2}"},
			wantWarnings: []string{"spec.ordinals.start: ignored, because the feature gate StatefulSetStartOrdinal is off"},
		},
		"scaling with none unavailable":  {edits: []string{"replicas: 3", "scaleStrategy: {maxUnavailable: 0}"}, wantFields: []string{"spec.scaleStrategy.maxUnavailable"}},
		"scaling two in order":           {edits: []string{"podManagementPolicy: Parallel", "scaleStrategy: {maxUnavailable: 2}"}, wantFields: []string{"spec.scaleStrategy.maxUnavailable"}},
		"an unknown update type":         {edits: []string{"type: RollingUpdate\n    rollingUpdate: " + rolling, "type: Now"}, wantFields: []string{"spec.updateStrategy.type"}},
		"on delete with a rollingUpdate": {edits: []string{"type: RollingUpdate", "type: OnDelete"}, wantFields: []string{"spec.updateStrategy.rollingUpdate"}},
		"a negative partition":           {edits: []string{rolling, "{partition: -1}"}, wantFields: []string{"spec.updateStrategy.rollingUpdate.partition"}},
		"updating none":                  {edits: []string{rolling, "{maxUnavailable: 0}"}, wantFields: []string{"spec.updateStrategy.rollingUpdate.maxUnavailable"}},
		"updating no percent":            {edits: []string{rolling, "{maxUnavailable: 0%}"}, wantFields: []string{"spec.updateStrategy.rollingUpdate.maxUnavailable"}},
		"updating a word":                {edits: []string{rolling, "{maxUnavailable: many}"}, wantFields: []string{"spec.updateStrategy.rollingUpdate.maxUnavailable"}},
		"ready for too long":             {edits: []string{rolling, "{minReadySeconds: 301}"}, wantFields: []string{"spec.updateStrategy.rollingUpdate.minReadySeconds"}},
		"an unknown pod update policy":   {edits: []string{rolling, "{podUpdatePolicy: Inplace}"}, wantFields: []string{"spec.updateStrategy.rollingUpdate.podUpdatePolicy"}},
		"a label that deletes every pod": {edits: []string{"labels: {app: web}", "labels: {app: web, apps.kruise.io/specified-delete: \"true\"}"}, wantFields: []string{"spec.template.metadata.labels[apps.kruise.io/specified-delete]"}},
		"unordered in order":             {edits: []string{"podManagementPolicy: Parallel", "", rolling, "{unorderedUpdate: {}}"}, wantFields: []string{"spec.updateStrategy.rollingUpdate.unorderedUpdate"}},
		"a priority without a key":       {edits: []string{rolling, `{unorderedUpdate: {priorityStrategy: {orderPriority: [{orderedKey: ""}]}}}`}, wantFields: []string{"spec.updateStrategy.rollingUpdate.unorderedUpdate.priorityStrategy.orderPriority[0].orderedKey"}},
		"a priority that is too heavy":   {edits: []string{rolling, `{unorderedUpdate: {priorityStrategy: {weightPriority: [{weight: 101, matchSelector: {matchLabels: {a: b}}}]}}}`}, wantFields: []string{"spec.updateStrategy.rollingUpdate.unorderedUpdate.priorityStrategy.weightPriority[0].weight"}},
		"an unknown retention":           {edits: []string{"replicas: 3", "persistentVolumeClaimRetentionPolicy: {whenScaled: Drop}"}, wantFields: []string{"spec.persistentVolumeClaimRetentionPolicy.whenScaled"}},
		"an unknown claim update":        {edits: []string{"replicas: 3", "volumeClaimUpdateStrategy: {type: Later}"}, wantFields: []string{"spec.volumeClaimUpdateStrategy.type"}},
		"several faults at once":         {edits: []string{"name: NAME", "name: a.b", "matchLabels: {app: web}", "matchLabels: {app: api}"}, wantFields: []string{"metadata.name", "spec.template.metadata.labels"}},
	}
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		for name, tc := range cases {
			t.Run(version+"/"+name, func(t *testing.T) {
				body := manifest(version, "NAME", tc.edits...)
				body = strings.ReplaceAll(body, "NAME", "web")
				parameters := map[string]string{"dryRun": "All"}
				for k, v := range tc.parameters {
					parameters[k] = v
				}
				got := e.send(t, http.MethodPost, version, ns, "", body, parameters)
				if refused := tc.wantFields != nil || tc.wantMessage != ""; refused != (got.err != nil) {
					t.Fatalf("refused: %v", got.err)
				}
				if diff := cmp.Diff(tc.wantFields, fields(got.err)); diff != "" && tc.wantFields != nil {
					t.Errorf("fields (-want +got):\n%s\n%v", diff, got.err)
				}
				if got.err != nil && !strings.Contains(got.err.Error(), tc.wantMessage) {
					t.Errorf("message %q does not contain %q", got.err, tc.wantMessage)
				}
				got.checkWarnings(t, tc.wantWarnings)
			})
		}
	}
}
