// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
	"github.com/kruise-operator/kruise-operator/internal/testutil"
)

func known() kinds.Table {
	return testutil.Kinds("AdvancedCronJob", "BroadcastJob", "CloneSet", "DaemonSet", "SidecarSet", "StatefulSet")
}

func merge(t *testing.T, spec *operatorv1alpha1.KruiseSpec, args ...string) Merged {
	t.Helper()
	c := Config{Table: known()}
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	c.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	merged, err := Merge(c, Given(flags), spec)
	if err != nil {
		t.Fatal(err)
	}
	return merged
}

func TestMerge(t *testing.T) {
	type Spec = operatorv1alpha1.KruiseSpec
	type want struct {
		kinds      string
		workers    int
		start      bool // StatefulSetStartOrdinal, off by default
		resize     bool // StatefulSetAutoResizePVCGate, off by default
		level, set string
		metrics    string
		mode       string
		faults     []string
	}
	all := strings.Join(known().Names(), ",")
	gate := func(name string, state operatorv1alpha1.State) operatorv1alpha1.FeatureGate {
		return operatorv1alpha1.FeatureGate{Name: operatorv1alpha1.FeatureGateName(name), State: state}
	}
	cases := map[string]struct {
		args []string
		spec *Spec
		want want
	}{
		"nothing is said": {
			want: want{kinds: all, workers: 3, level: "info", metrics: ":8080", mode: "PreferPolicy"},
		},
		"an empty object says nothing": {
			spec: &Spec{},
			want: want{kinds: all, workers: 3, level: "info", metrics: ":8080", mode: "PreferPolicy"},
		},
		"flags win over defaults": {
			args: []string{"--kinds=", "--workers=4", "--feature-gates=StatefulSetStartOrdinal=true", "--log-level=debug", "--log-levels=StatefulSet=trace", "--metrics-bind-address=0", "--admission-mode=Webhook"},
			spec: &Spec{},
			want: want{workers: 4, start: true, level: "debug", set: "trace", metrics: "0", mode: "Webhook"},
		},
		"the object wins over flags": {
			args: []string{"--kinds=", "--workers=4", "--statefulset-workers=9", "--feature-gates=StatefulSetStartOrdinal=true", "--log-level=debug", "--log-levels=StatefulSet=trace", "--metrics-bind-address=0", "--admission-mode=Webhook"},
			spec: &Spec{
				Kinds: []operatorv1alpha1.Kind{"StatefulSet"}, Workers: ptr.To[int32](5), LogLevel: "Error",
				FeatureGates: []operatorv1alpha1.FeatureGate{gate("StatefulSetStartOrdinal", "Disabled"), gate("StatefulSetAutoResizePVCGate", "Enabled")},
				Controllers:  []operatorv1alpha1.ControllerSettings{{Kind: "StatefulSet", LogLevel: "Debug"}},
				Metrics:      &operatorv1alpha1.MetricsSettings{BindAddress: ":9"},
				Admission:    &operatorv1alpha1.AdmissionSettings{Mode: "PreferPolicy"},
			},
			want: want{kinds: "StatefulSet", workers: 5, resize: true, level: "Error", set: "Debug", metrics: ":9", mode: "PreferPolicy"},
		},
		"gates of flags and object are put together": {
			args: []string{"--feature-gates=StatefulSetStartOrdinal=true"},
			spec: &Spec{FeatureGates: []operatorv1alpha1.FeatureGate{gate("StatefulSetAutoResizePVCGate", "Enabled")}},
			want: want{kinds: all, workers: 3, start: true, resize: true, level: "info", metrics: ":8080", mode: "PreferPolicy"},
		},
		"no kind at all": {
			spec: &Spec{Kinds: []operatorv1alpha1.Kind{}},
			want: want{workers: 3, level: "info", metrics: ":8080", mode: "PreferPolicy"},
		},
		"one controller's workers win over all others'": {
			args: []string{"--statefulset-workers=9"},
			spec: &Spec{Workers: ptr.To[int32](5), Controllers: []operatorv1alpha1.ControllerSettings{{Kind: "StatefulSet", Workers: ptr.To[int32](7)}}},
			want: want{kinds: all, workers: 7, level: "info", metrics: ":8080", mode: "PreferPolicy"},
		},
		"what is wrong is left out, and the rest holds": {
			args: []string{"--workers=4"},
			spec: &Spec{
				Kinds: []operatorv1alpha1.Kind{"StatefulSet", "Nonsense"}, Admission: &operatorv1alpha1.AdmissionSettings{ClientCA: "no certificate"},
				FeatureGates: []operatorv1alpha1.FeatureGate{gate("Nonsense", "Enabled"), gate("StatefulSetStartOrdinal", "Enabled")},
				Controllers:  []operatorv1alpha1.ControllerSettings{{Kind: "Other", Workers: ptr.To[int32](7)}},
			},
			want: want{
				kinds: "StatefulSet", workers: 4, start: true, level: "info", metrics: ":8080", mode: "PreferPolicy",
				faults: []string{
					`spec.admission.clientCA: must hold a certificate`, `spec.controllers[Other]: unknown kind "Other": know `,
					`spec.featureGates[Nonsense]: unknown feature gate: know AdvancedDeployment, `, `spec.kinds: unknown kind "Nonsense"`,
				},
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := merge(t, tc.spec, tc.args...)
			c := &m.Config
			got := want{
				kinds: strings.Join(c.Kinds, ","), workers: c.WorkersOf("StatefulSet"), start: c.Features.Enabled(features.StatefulSetStartOrdinal),
				resize: c.Features.Enabled(features.StatefulSetAutoResizePVC), level: c.LogLevel, set: c.KindLogLevels["StatefulSet"], metrics: c.MetricsAddress, mode: c.AdmissionMode,
			}
			if len(m.Faults) != len(tc.want.faults) {
				t.Errorf("faults %q, want %q", m.Faults, tc.want.faults)
			} else {
				for i, fault := range m.Faults {
					if !strings.HasPrefix(fault, tc.want.faults[i]) {
						t.Errorf("fault %q, want %q", fault, tc.want.faults[i])
					}
				}
			}
			tc.want.faults = nil
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestHashChangesWithWhatNeedsARestart(t *testing.T) {
	type Spec = operatorv1alpha1.KruiseSpec
	base := merge(t, nil)
	for name, tc := range map[string]struct {
		spec Spec
		same bool
	}{
		"log levels":              {Spec{LogLevel: "Debug", Controllers: []operatorv1alpha1.ControllerSettings{{Kind: "StatefulSet", LogLevel: "Trace"}}}, true},
		"the same said otherwise": {Spec{Workers: ptr.To[int32](3), FeatureGates: []operatorv1alpha1.FeatureGate{{Name: "PodIndexLabel", State: "Enabled"}}}, true},
		"kinds":                   {Spec{Kinds: []operatorv1alpha1.Kind{}}, false},
		"gates":                   {Spec{FeatureGates: []operatorv1alpha1.FeatureGate{{Name: "PodIndexLabel", State: "Disabled"}}}, false},
		"workers":                 {Spec{Workers: ptr.To[int32](4)}, false},
		"workers of one":          {Spec{Controllers: []operatorv1alpha1.ControllerSettings{{Kind: "StatefulSet", Workers: ptr.To[int32](4)}}}, false},
		"metrics":                 {Spec{Metrics: &operatorv1alpha1.MetricsSettings{BindAddress: ":9"}}, false},
		"admission":               {Spec{Admission: &operatorv1alpha1.AdmissionSettings{Mode: "Webhook"}}, false},
		"clients of nobody":       {Spec{Admission: &operatorv1alpha1.AdmissionSettings{ClientCA: "x"}}, true},
	} {
		m := merge(t, &tc.spec)
		if same := m.Config.Hash() == base.Config.Hash(); same != tc.same {
			t.Errorf("%s: the same hash: %v", name, same)
		}
	}
}

// The schema and the operator know the same names, so a wrong one is refused on writing.
func TestSchemaKnowsGates(t *testing.T) {
	content, err := os.ReadFile("../../../config/crd/bases/operator.kruise.io_kruises.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(content, &crd); err != nil {
		t.Fatal(err)
	}
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	enum := func(schema apiextensionsv1.JSONSchemaProps) (names []string) {
		for _, value := range schema.Enum {
			names = append(names, strings.Trim(string(value.Raw), `"`))
		}
		return names
	}
	// An enumeration, not a rule: OLM v1 refuses a changed rule, and lets an enumeration grow.
	gates := spec.Properties["featureGates"].Items.Schema.Properties["name"]
	if diff := cmp.Diff(features.Names(), enum(gates)); diff != "" {
		t.Errorf("names of gates in the schema, from the marker of FeatureGateName in api/operator/v1alpha1 (-want +got):\n%s", diff)
	}
	if len(gates.XValidations) > 0 {
		t.Errorf("%d rules for names of gates, want none", len(gates.XValidations))
	}
}

// In-place changes of pods depend on the node daemon's deployment, so changing it restarts the operator.
func TestNodeDaemon(t *testing.T) {
	for name, tc := range map[string]struct {
		deployment string
		spec       *operatorv1alpha1.KruiseSpec
		want       bool
	}{
		"without an object":     {"manager", nil, true},
		"outside of a cluster":  {"", nil, false},
		"with other settings":   {"manager", &operatorv1alpha1.KruiseSpec{NodeDaemon: &operatorv1alpha1.NodeDaemonSettings{}}, true},
		"with its gate off":     {"manager", &operatorv1alpha1.KruiseSpec{FeatureGates: []operatorv1alpha1.FeatureGate{{Name: "KruiseDaemon", State: operatorv1alpha1.Disabled}}}, false},
		"where it is forbidden": {"manager", &operatorv1alpha1.KruiseSpec{NodeDaemon: &operatorv1alpha1.NodeDaemonSettings{Mode: operatorv1alpha1.NodeDaemonDisabled}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := Config{Table: known()}
			c.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
			c.Deployment = tc.deployment
			m, err := Merge(c, nil, tc.spec)
			if err != nil || m.Config.NodeDaemon != tc.want {
				t.Fatalf("deployed: %v, %v; want %v", m.Config.NodeDaemon, err, tc.want)
			}
			other := m.Config
			other.NodeDaemon = !tc.want
			if m.Config.Hash() == other.Hash() {
				t.Error("a change would not restart the operator")

			}
		})
	}
}

// The default list leaves out kinds waiting for the administrator, and no others.
func TestUnconfirmedKinds(t *testing.T) {
	type Spec = operatorv1alpha1.KruiseSpec
	for name, test := range map[string]struct {
		args  []string
		spec  *Spec
		waits bool
	}{
		"by default":                     {waits: true},
		"an object that says nothing":    {spec: &Spec{}, waits: true},
		"another kind is confirmed":      {spec: &Spec{ConfirmedKinds: []operatorv1alpha1.Kind{"AdvancedCronJob"}}, waits: true},
		"it is confirmed":                {spec: &Spec{ConfirmedKinds: []operatorv1alpha1.Kind{"SidecarSet"}}},
		"the object names it":            {spec: &Spec{Kinds: []operatorv1alpha1.Kind{"SidecarSet", "CloneSet"}}},
		"the command line names it":      {args: []string{"--kinds=SidecarSet"}},
		"the object confirms the flag's": {args: []string{"--kinds=SidecarSet"}, spec: &Spec{ConfirmedKinds: []operatorv1alpha1.Kind{"SidecarSet"}}},
	} {
		t.Run(name, func(t *testing.T) {
			flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
			c := Config{Table: known()}
			c.AddFlags(flags)
			if err := flags.Parse(test.args); err != nil {
				t.Fatal(err)
			}
			c.Unconfirmed = map[string]int64{"SidecarSet": 2}
			merged, err := Merge(c, Given(flags), test.spec)
			if err != nil {
				t.Fatal(err)
			}
			if _, waits := merged.Config.Unconfirmed["SidecarSet"]; waits != test.waits || merged.Config.Enabled("SidecarSet") == test.waits {
				t.Errorf("waits: %v, enabled: %v", waits, merged.Config.Enabled("SidecarSet"))
			}
			if !test.waits {
				return
			}
			for _, kind := range known().Names() {
				if kind != "SidecarSet" && !merged.Config.Enabled(kind) {
					t.Errorf("%s is off, too", kind)
				}
			}
			if before := c; before.Hash() == merged.Config.Hash() {
				t.Error("a kind that waits makes no difference to the configuration")
			}
		})
	}
}
