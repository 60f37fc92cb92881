// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
	"github.com/kruise-operator/kruise-operator/internal/testutil"
	"github.com/kruise-operator/kruise-operator/internal/testutil/admissiontest"
)

const valid = `
metadata: {name: game, namespace: default}
spec:
  selector: {matchLabels: {app: game}}
  probes:
  - name: idle
    containerName: game
    podConditionType: game.example/idle
    probe: {exec: {command: [/idle.sh]}}
    markerPolicy:
    - {state: Succeeded, labels: {idle: "true"}, annotations: {controller.kubernetes.io/pod-deletion-cost: "-10"}}
    - {state: Failed, annotations: {controller.kubernetes.io/pod-deletion-cost: "10"}}
`

// marker is the valid marker, merged with probe for its first probe, and spec.
func marker(t *testing.T, spec, probe string) *appsv1alpha1.PodProbeMarker {
	t.Helper()
	m := admissiontest.Parse[appsv1alpha1.PodProbeMarker](t, admissiontest.Merge(t, valid, spec))
	if probe != "" && len(m.Spec.Probes) > 0 {
		first := `{"name":"idle","containerName":"game","podConditionType":"game.example/idle","probe":{"exec":{"command":["/idle.sh"]}}}`
		m.Spec.Probes[0] = admissiontest.Parse[appsv1alpha1.PodContainerProbe](t, admissiontest.Merge(t, first, probe))
	}
	return &m
}

func check(m, old *appsv1alpha1.PodProbeMarker, gate bool) field.ErrorList {
	m = m.DeepCopy()
	Default(m)
	return Kind(gate, Workloads{}).Faults(m, old)
}

func TestDefaultsAreThoseOfTheKubelet(t *testing.T) {
	m := marker(t, "", `{"probe":{"exec":null,"httpGet":{"path":"/","port":80}}}`)
	Default(m)
	p := m.Spec.Probes[0].Probe
	if p.InitialDelaySeconds != 0 || p.PeriodSeconds != 10 || p.TimeoutSeconds != 1 || p.SuccessThreshold != 1 || p.FailureThreshold != 3 || p.HTTPGet.Scheme != "HTTP" {
		t.Errorf("defaulted is %+v", p)
	}
	m.Spec.Probes[0].Probe.PeriodSeconds, m.Spec.Probes[0].Probe.HTTPGet.Scheme = 7, "HTTPS"
	Default(m)
	if p := m.Spec.Probes[0].Probe; p.PeriodSeconds != 7 || p.HTTPGet.Scheme != "HTTPS" {
		t.Errorf("what is set is changed: %+v", p)
	}
}

func TestWhatIsRefused(t *testing.T) {
	long := strings.Repeat("x", 5000)
	cases := map[string]struct{ spec, probe, want string }{
		"all is well":                     {},
		"no selector":                     {spec: `{"spec":{"selector":null}}`, want: "spec.selector: Required value"},
		"an empty selector":               {spec: `{"spec":{"selector":{"matchLabels":null}}}`, want: "spec.selector: Invalid value: \"{}\": must not be empty"},
		"an invalid selector":             {spec: `{"spec":{"selector":{"matchExpressions":[{"key":"a","operator":"Near"}]}}}`, want: "not a valid selector operator"},
		"a # in the name":                 {probe: `{"name":"a#b"}`, want: `spec.probes[0].name: Invalid value: "a#b": must not have a #`},
		"named like a native condition":   {probe: `{"name":"Ready"}`, want: `spec.probes[0].name: Invalid value: "Ready": must not be the type of a condition`},
		"a condition of Kubernetes":       {probe: `{"podConditionType":"ContainersReady"}`, want: `spec.probes[0].podConditionType: Invalid value: "ContainersReady"`},
		"a condition of this operator":    {probe: `{"podConditionType":"KruisePodReady"}`, want: "spec.probes[0].podConditionType"},
		"a condition that is no name":     {probe: `{"podConditionType":"a b"}`, want: `spec.probes[0].podConditionType: Invalid value: "a b"`},
		"no container":                    {probe: `{"containerName":""}`, want: "spec.probes[0].containerName: Invalid value"},
		"a container that is no name":     {probe: `{"containerName":"A_b"}`, want: "spec.probes[0].containerName: Invalid value"},
		"no handler":                      {probe: `{"probe":{"exec":null}}`, want: "spec.probes[0].probe: Required value: must be exactly one"},
		"two handlers":                    {probe: `{"probe":{"tcpSocket":{"port":1}}}`, want: "must be exactly one of exec, httpGet and tcpSocket"},
		"grpc":                            {probe: `{"probe":{"exec":null,"grpc":{"port":1}}}`, want: "spec.probes[0].probe.grpc: Forbidden"},
		"exec without a command":          {probe: `{"probe":{"exec":{"command":[]}}}`, want: "exec.command: Required value"},
		"a command as long as a script":   {probe: `{"probe":{"exec":{"command":["` + long + `"]}}}`, want: "at most 4096 bytes"},
		"a command of many words":         {probe: `{"probe":{"exec":{"command":["a"` + strings.Repeat(`,"a"`, 64) + `]}}}`, want: "exec.command: Too many"},
		"http without a path":             {probe: `{"probe":{"exec":null,"httpGet":{"port":80}}}`, want: "httpGet.path: Required value"},
		"http with a host":                {probe: `{"probe":{"exec":null,"httpGet":{"path":"/","port":80,"host":"db"}}}`, want: "httpGet.host: Forbidden"},
		"http with port 0":                {probe: `{"probe":{"exec":null,"httpGet":{"path":"/","port":0}}}`, want: "httpGet.port: Invalid value: 0"},
		"http with a port that is a text": {probe: `{"probe":{"exec":null,"httpGet":{"path":"/","port":"8080"}}}`, want: `httpGet.port: Invalid value: "8080"`},
		"http over ftp":                   {probe: `{"probe":{"exec":null,"httpGet":{"path":"/","port":80,"scheme":"FTP"}}}`, want: `httpGet.scheme: Unsupported value: "FTP": supported values: "HTTP", "HTTPS"`},
		"a header that is none":           {probe: `{"probe":{"exec":null,"httpGet":{"path":"/","port":80,"httpHeaders":[{"name":"a b","value":"x"}]}}}`, want: "httpHeaders[0].name: Invalid value"},
		"a header of two lines":           {probe: `{"probe":{"exec":null,"httpGet":{"path":"/","port":80,"httpHeaders":[{"name":"a","value":"x\ny"}]}}}`, want: "httpHeaders[0].value: Invalid value"},
		"tcp with a host":                 {probe: `{"probe":{"exec":null,"tcpSocket":{"port":80,"host":"db"}}}`, want: "tcpSocket.host: Forbidden"},
		"tcp with a port that is not one": {probe: `{"probe":{"exec":null,"tcpSocket":{"port":70000}}}`, want: "tcpSocket.port: Invalid value: 70000"},
		"a negative delay":                {probe: `{"probe":{"initialDelaySeconds":-1}}`, want: "initialDelaySeconds: Invalid value: -1: must be from 0"},
		"a negative period":               {probe: `{"probe":{"periodSeconds":-1}}`, want: "periodSeconds: Invalid value: -1"},
		"a negative timeout":              {probe: `{"probe":{"timeoutSeconds":-1}}`, want: "timeoutSeconds: Invalid value: -1"},
		"a negative threshold":            {probe: `{"probe":{"successThreshold":-1}}`, want: "successThreshold: Invalid value: -1"},
		"a threshold nobody reaches":      {probe: `{"probe":{"failureThreshold":100000}}`, want: "failureThreshold: Invalid value: 100000"},
		"results for nothing":             {probe: `{"podConditionType":null}`, want: "podConditionType: Required value"},
		"a policy and no condition":       {probe: `{"podConditionType":null,"markerPolicy":[{"state":"Failed","labels":{"a":"b"}}]}`},
		"a policy for another state":      {probe: `{"markerPolicy":[{"state":"True","labels":{"a":"b"}}]}`, want: `markerPolicy[0].state: Unsupported value: "True": supported values: "Failed", "Succeeded"`},
		"two policies for a state":        {probe: `{"markerPolicy":[{"state":"Failed","labels":{"a":"b"}},{"state":"Failed","labels":{"c":"d"}}]}`, want: "markerPolicy[1].state: Duplicate value"},
		"a policy of nothing":             {probe: `{"markerPolicy":[{"state":"Failed"}]}`, want: "markerPolicy[0]: Required value"},
		"a label that is none":            {probe: `{"markerPolicy":[{"state":"Failed","labels":{"a":"b c"}}]}`, want: `markerPolicy[0].labels: Invalid value: "b c"`},
		"an annotation that is none":      {probe: `{"markerPolicy":[{"state":"Failed","annotations":{"a b":"c"}}]}`, want: "markerPolicy[0].annotations"},
		"a label of the selector":         {probe: `{"markerPolicy":[{"state":"Failed","labels":{"app":"broken"}}]}`, want: "markerPolicy[0].labels[app]: Forbidden"},
		"the revision of a workload":      {probe: `{"markerPolicy":[{"state":"Failed","labels":{"controller-revision-hash":"x"}}]}`, want: "labels[controller-revision-hash]: Forbidden"},
		"a label of Kubernetes":           {probe: `{"markerPolicy":[{"state":"Failed","labels":{"batch.kubernetes.io/job-name":"x"}}]}`, want: "labels[batch.kubernetes.io/job-name]: Forbidden"},
		"a label of users in its domain":  {probe: `{"markerPolicy":[{"state":"Failed","labels":{"app.kubernetes.io/component":"x"}}]}`},
		"the label that deletes a pod":    {probe: `{"markerPolicy":[{"state":"Failed","labels":{"apps.kruise.io/specified-delete":"true"}}]}`, want: "labels[apps.kruise.io/specified-delete]: Forbidden"},
		"the lifecycle of a pod":          {probe: `{"markerPolicy":[{"state":"Failed","labels":{"lifecycle.apps.kruise.io/state":"Normal"}}]}`, want: "Forbidden: is reserved"},
		"an annotation of this operator":  {probe: `{"markerPolicy":[{"state":"Failed","annotations":{"kruise.io/sidecarset-hash":"x"}}]}`, want: "annotations[kruise.io/sidecarset-hash]: Forbidden"},
		"an annotation of the autoscaler": {probe: `{"markerPolicy":[{"state":"Failed","annotations":{"cluster-autoscaler.kubernetes.io/safe-to-evict":"true"}}]}`},
		"an annotation like a book":       {probe: `{"markerPolicy":[{"state":"Failed","annotations":{"a":"` + long + `"}}]}`, want: "markerPolicy[0].annotations[a]: Too long"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			errs := check(marker(t, tc.spec, tc.probe), nil, true)
			switch {
			case tc.want == "" && len(errs) > 0:
				t.Errorf("refused: %v", errs)
			case tc.want != "" && !strings.Contains(fmt.Sprint(errs.ToAggregate()), tc.want):
				t.Errorf("want %q, got %v", tc.want, errs)
			}
		})
	}
}

func TestAGracePeriodOfAProbeThatStopsNothingIsWarnedOf(t *testing.T) {
	got := Warnings(marker(t, "", `{"probe":{"terminationGracePeriodSeconds":9}}`), nil)
	if want := "spec.probes[0].probe.terminationGracePeriodSeconds: has no effect, because a marker stops no container"; len(got) != 1 || got[0] != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Warnings(marker(t, "", ""), nil); len(got) > 0 {
		t.Errorf("%q about a marker without one", got)
	}
}

func TestWhatProbesMayNotHaveInCommon(t *testing.T) {
	m := marker(t, "", "")
	m.Spec.Probes = append(m.Spec.Probes, *m.Spec.Probes[0].DeepCopy())
	got := fmt.Sprint(check(m, nil, true).ToAggregate())
	if want := `spec.probes[1].podConditionType: Duplicate value: "game.example/idle"`; !strings.Contains(got, want) {
		t.Errorf("want %q, got %s", want, got)
	}
}

func TestUpdates(t *testing.T) {
	old := marker(t, "", "")
	moved := marker(t, `{"spec":{"selector":{"matchLabels":{"app":"other"}}}}`, "")
	if got := fmt.Sprint(check(moved, old, true).ToAggregate()); !strings.Contains(got, "spec.selector: Forbidden: cannot be changed once the marker exists; it is app=game") {
		t.Errorf("another selector: %s", got)
	}
	// One let in by OpenKruise stays, and can be changed otherwise.
	stored := marker(t, "", `{"markerPolicy":[{"state":"Failed","labels":{"app":"game"}}]}`)
	changed := stored.DeepCopy()
	changed.Spec.Probes[0].Probe.PeriodSeconds = 30
	if errs := check(changed, stored, true); len(errs) > 0 {
		t.Errorf("a fault that was there before: %v", errs)
	}
}

func TestWithoutTheGateNothingIsTaken(t *testing.T) {
	for name, old := range map[string]*appsv1alpha1.PodProbeMarker{"created": nil, "changed": marker(t, "", "")} {
		if got := fmt.Sprint(check(marker(t, "", `{"probe":{"periodSeconds":3}}`), old, false).ToAggregate()); !strings.Contains(got, "PodProbeMarkerGate") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// A marker's result changed a label its CloneSet selected by, and so took its pods.
func TestAMarkerDoesNotTakePodsFromTheirWorkload(t *testing.T) {
	all, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		workload string
		refused  bool
	}{
		"a CloneSet":              {`{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","spec":{"selector":{"matchLabels":{"app":"game","idle":"no"}}}}`, true},
		"a Deployment":            {`{"apiVersion":"apps/v1","kind":"Deployment","spec":{"selector":{"matchExpressions":[{"key":"idle","operator":"DoesNotExist"}]}}}`, true},
		"a ReplicationController": {`{"apiVersion":"v1","kind":"ReplicationController","spec":{"selector":{"idle":"no"}}}`, true},
		"another label":           {`{"apiVersion":"apps/v1","kind":"StatefulSet","spec":{"selector":{"matchLabels":{"app":"game"}}}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			workload := &unstructured.Unstructured{}
			if err := json.Unmarshal([]byte(tc.workload), &workload.Object); err != nil {
				t.Fatal(err)
			}
			workload.SetNamespace("default")
			workload.SetName("web")
			kind := Kind(true, Workloads{Reader: testutil.NewClient(all, nil, workload)})
			m := marker(t, "", "")
			if errs, _ := kind.LookUp(t.Context(), m, nil); (len(errs) > 0) != tc.refused {
				t.Errorf("created: %v", errs)
			}
			if errs, _ := kind.LookUp(t.Context(), m, m); len(errs) > 0 {
				t.Errorf("one that is stored is changed otherwise: %v", errs)
			}
		})
	}
}
