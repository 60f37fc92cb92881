// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/kruise-operator/kruise-operator/controllers"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
	"github.com/kruise-operator/kruise-operator/internal/takeover"
)

func name(n string) types.NamespacedName {
	return types.NamespacedName{Namespace: "kruise-system", Name: n}
}

func objects(kind, resource string, count int) CRD {
	return CRD{Name: resource + ".apps.kruise.io", GroupKind: schema.GroupKind{Group: "apps.kruise.io", Kind: kind}, Objects: slices.Repeat([]string{"one"}, count)}
}

func converted(kind, resource string) CRD {
	return CRD{
		Name: resource + ".apps.kruise.io", GroupKind: schema.GroupKind{Group: "apps.kruise.io", Kind: kind},
		Versions: []string{"v1beta1", "v1alpha1"}, Storage: "v1beta1", Stored: []string{"v1beta1"}, ConvertedBy: name(serviceName),
	}
}

func ours(crd CRD, converts bool) CRD {
	crd.Ours = &kinds.Kind{Versions: []string{"v1beta1", "v1alpha1"}, Converted: converts}
	return crd
}

func stored(crd CRD, versions ...string) CRD { crd.Stored = versions; return crd }

func TestFindings(t *testing.T) {
	options := Options{Served: []string{"StatefulSet"}}
	running := LeaseState{NamespacedName: takeover.Lease(), Holder: "manager-0", Status: takeover.Renewed}
	lapsed := LeaseState{NamespacedName: takeover.Lease(), Holder: "manager-0", Status: takeover.Expired}
	cases := map[string]struct {
		cluster Cluster
		options Options
		want    []string // severity, subject, and a part of the finding or of what to do next
	}{
		"a cluster without OpenKruise has none": {options: options},
		"a manager that acts blocks": {
			cluster: Cluster{Leases: []LeaseState{running}, Managers: []Manager{{NamespacedName: name(managerName), Replicas: 2}}},
			options: options,
			want:    []string{"blocker|lease kruise-system/kruise-manager|scale deployment/kruise-controller-manager --replicas=0"},
		},
		"a kind that the version before did not serve waits": {
			cluster: Cluster{Unconfirmed: map[string]int64{"StatefulSet": 2, "SidecarSet": 1}},
			options: options,
			want:    []string{"warning|StatefulSet|2 objects are older than this version"},
		},
		"an operator of ours that waits, since it was not told to accept other kinds, is not ready": {
			cluster: Cluster{Leases: []LeaseState{lapsed}, Leader: "ours-0"},
			options: options,
			want:    []string{"blocker|lease kruise-system/kruise-manager|this operator (ours-0) has not taken over: nothing is managed"},
		},
		"open requests lose their daemon": {
			cluster: Cluster{OpenRequests: []types.NamespacedName{{Namespace: "shop", Name: "restart"}}},
			options: options,
			want:    []string{"warning|containerrecreaterequests shop/restart|open: 1. OpenKruise's node daemon carries them out"},
		},
		"gates that have no effect are not recommended": {
			cluster: Cluster{Managers: manages("ImagePullJobGate=true,ResourceDistributionGate=true,TemplateNoDefaults=false,PodWebhook=true")},
			options: options,
			want: []string{
				"note|deployment kruise-system/kruise-controller-manager|start the operator with --feature-gates=PodWebhook=true",
			},
		},
		"a manager that would act again blocks": {
			cluster: Cluster{Leases: []LeaseState{lapsed}, Managers: []Manager{{NamespacedName: name(managerName), Replicas: 2}}},
			options: options,
			want:    []string{"note|lease kruise-system/kruise-manager|has lapsed", "blocker|deployment kruise-system/kruise-controller-manager|wants 2 replicas"},
		},
		"a manager where nobody looks blocks": {
			cluster: Cluster{Leases: []LeaseState{{NamespacedName: types.NamespacedName{Namespace: "kruise", Name: takeover.LeaseName}, Status: takeover.Renewed}}},
			options: options,
			want:    []string{"blocker|lease kruise/kruise-manager|nothing would keep the two from acting at once"},
		},
		"webhooks block, and say that pods are concerned": {
			cluster: Cluster{Webhooks: []Webhooks{{"MutatingWebhookConfiguration", mutatingName, 2}}},
			options: options,
			want:    []string{"blocker|mutatingwebhookconfiguration kruise-mutating-webhook-configuration|the creation of any pod"},
		},
		"a conversion that is not needed blocks, one that is taken over does not, one of a kind that is not here warns": {
			cluster: Cluster{CRDs: []CRD{ours(converted("StatefulSet", "statefulsets"), false), ours(converted("CloneSet", "clonesets"), true), converted("SidecarSet", "sidecarsets")}},
			options: options,
			want: []string{
				"blocker|crd statefulsets.apps.kruise.io|preflight --clear-conversion",
				"note|crd clonesets.apps.kruise.io|from its installation on this operator converts it",
				`warning|crd sidecarsets.apps.kruise.io|requests in another version than the stored one fail, reads of v1alpha1 as "corrupt object"`,
			},
		},
		"stored versions": {
			cluster: Cluster{CRDs: []CRD{
				stored(ours(converted("CloneSet", "clonesets"), true), "v1alpha1", "v1beta1"),
				stored(ours(converted("StatefulSet", "statefulsets"), true), "v1alpha0", "v1beta1"),
				stored(converted("SidecarSet", "sidecarsets"), "v1alpha1", "v1beta1"),
			}},
			options: options,
			want: []string{
				"blocker|crd statefulsets.apps.kruise.io|stored as v1alpha0",
				"warning|crd sidecarsets.apps.kruise.io|the garbage collection of the whole cluster",
				"note|crd clonesets.apps.kruise.io|this operator converts it",
				"note|crd statefulsets.apps.kruise.io|this operator converts it",
				"warning|crd sidecarsets.apps.kruise.io|requests in another version",
			},
		},
		"objects of kinds that are not here block; those of OpenKruise's own making, and of kinds that are here, are not mentioned": {
			cluster: Cluster{CRDs: []CRD{
				objects("SidecarSet", "sidecarsets", 7), objects("NodeImage", "nodeimages", 4), objects("StatefulSet", "statefulsets", 3),
				objects("WorkloadSpread", "workloadspreads", 0), objects("Novelty", "novelties", 1),
			}},
			options: options,
			want:    []string{"blocker|sidecarsets.apps.kruise.io|7 (one, one, one, one, one, ...)", "blocker|novelties.apps.kruise.io|nobody is known to do so"},
		},
		"a kind that is switched off is not here": {
			cluster: Cluster{CRDs: []CRD{objects("StatefulSet", "statefulsets", 3)}},
			want:    []string{"blocker|statefulsets.apps.kruise.io|no pod is created, replaced or updated"},
		},
		"objects that are accepted warn": {
			cluster: Cluster{CRDs: []CRD{objects("EphemeralJob", "ephemeraljobs", 2)}},
			options: Options{AcceptUnserved: true},
			want:    []string{"warning|ephemeraljobs.apps.kruise.io|deleting one waits for its finalizer"},
		},
		"objects that cannot be read block, whatever their kind": {
			cluster: Cluster{CRDs: []CRD{{Name: "statefulsets.apps.kruise.io", GroupKind: schema.GroupKind{Group: "apps.kruise.io", Kind: "StatefulSet"}, Unread: "conversion failed"}}},
			options: options,
			want:    []string{"blocker|statefulsets.apps.kruise.io|conversion failed"},
		},
		"pods that wait for the node daemon, and the daemon": {
			cluster: Cluster{WaitingPods: []types.NamespacedName{{Namespace: "shop", Name: "web-68fpv"}}, Daemons: []types.NamespacedName{name(takeover.DaemonName)}},
			options: options,
			want:    []string{"warning|pods shop/web-68fpv|in the middle of an update in place", "warning|daemonset kruise-system/kruise-daemon|delete daemonset/kruise-daemon"},
		},
		"the daemon of an OpenKruise that has stopped keeps that of this operator from starting": {
			cluster: Cluster{Managers: []Manager{{NamespacedName: name(managerName)}}, Daemons: []types.NamespacedName{name(takeover.DaemonName)}},
			options: options,
			want:    []string{"warning|daemonset kruise-system/kruise-daemon|the one of this operator cannot start"},
		},
		"the daemon of one that has not is in its place": {
			cluster: Cluster{Managers: []Manager{{NamespacedName: name(managerName), Replicas: 1}}, Daemons: []types.NamespacedName{name(takeover.DaemonName)}},
			options: options,
			want: []string{
				"blocker|deployment kruise-system/kruise-controller-manager|wants 1 replicas", "note|daemonset kruise-system/kruise-daemon|goes on restarting containers",
			},
		},
		"a takeover that would delete pods, because their first ordinal is not honored here, blocks": {
			cluster: Cluster{Managers: manages("StatefulSetStartOrdinal=true"), Users: users(features.StatefulSetStartOrdinal)},
			options: options,
			want: []string{
				"blocker|statefulsets.apps.kruise.io|is off here and may be on in OpenKruise: this operator would count from 0",
				"note|deployment kruise-system/kruise-controller-manager|start the operator with --feature-gates=StatefulSetStartOrdinal=true",
			},
		},
		"nor is it known whether OpenKruise honored it": {
			cluster: Cluster{Users: users(features.StatefulSetStartOrdinal)},
			options: options,
			want:    []string{"blocker|statefulsets.apps.kruise.io|may be on in OpenKruise"},
		},
		"one that would delete pods, because their first ordinal was not honored before, blocks": {
			cluster: Cluster{Managers: manages(""), Users: users(features.StatefulSetStartOrdinal)},
			options: Options{Served: options.Served, FeatureGates: "StatefulSetStartOrdinal=true"},
			want:    []string{"blocker|statefulsets.apps.kruise.io|it would delete the pods with the lowest ordinals"},
		},
		"a first ordinal that both honor, one of them by AllAlpha, is not mentioned": {
			cluster: Cluster{Managers: manages("AllAlpha=true"), Users: users(features.StatefulSetStartOrdinal)},
			options: Options{Served: options.Served, FeatureGates: "AllAlpha=true"},
			want:    []string{"note|deployment kruise-system/kruise-controller-manager|--feature-gates=AllAlpha=true"},
		},
		"a first ordinal that neither honors is not mentioned": {
			cluster: Cluster{Managers: manages(""), Users: users(features.StatefulSetStartOrdinal)}, options: options,
		},
		"volume claims that OpenKruise keeps and this operator would delete block": {
			cluster: Cluster{Managers: manages("StatefulSetAutoDeletePVC=false"), Users: users(features.StatefulSetAutoDeletePVC)},
			options: options,
			want: []string{
				"blocker|statefulsets.apps.kruise.io|volume claims that OpenKruise keeps would be deleted",
				"note|deployment kruise-system/kruise-controller-manager|--feature-gates=StatefulSetAutoDeletePVC=false",
			},
		},
		"volume claims that are no longer deleted, or no longer grow, and pods that no longer go back warn": {
			cluster: Cluster{
				Managers: manages("StatefulSetAutoResizePVCGate=true,CloneSetPartitionRollback=true"), Users: users(features.StatefulSetAutoDeletePVC),
			},
			options: Options{Served: options.Served, FeatureGates: "StatefulSetAutoDeletePVC=false"},
			want: []string{
				"warning|--feature-gates|CloneSetPartitionRollback is off here and on in OpenKruise",
				"warning|--feature-gates|StatefulSetAutoDeletePVC is off here and on in OpenKruise",
				"warning|--feature-gates|StatefulSetAutoResizePVCGate is off here and on in OpenKruise",
				"note|deployment kruise-system/kruise-controller-manager|start the operator with",
			},
		},
		"a Kubernetes that is too old blocks": {
			cluster: Cluster{Version: "v1.33.9+k3s1"}, options: options,
			want: []string{"blocker|cluster|runs Kubernetes v1.33.9+k3s1; this operator needs 1.34.0 or later"},
		},
		"a Kubernetes that is new enough is not mentioned": {cluster: Cluster{Version: "v1.34.0"}, options: options},
		"settings are carried over": {
			cluster: Cluster{Managers: []Manager{{NamespacedName: types.NamespacedName{Namespace: "elsewhere", Name: managerName}, Args: []string{
				"/manager", "--feature-gates=StatefulSetStartOrdinal=true,Unheard=true", "--statefulset-workers=10", "--v=4",
			}}}},
			options: Options{Served: options.Served, FeatureGates: "StatefulSetStartOrdinal=true"},
			want: []string{
				"note|deployment elsewhere/kruise-controller-manager|start the operator with --feature-gates=StatefulSetStartOrdinal=true --statefulset-workers=10 --namespace=elsewhere",
			},
		},
	}
	for title, tc := range cases {
		t.Run(title, func(t *testing.T) {
			tc.options.Table = controllers.Table()
			got := Findings(tc.cluster, tc.options)
			var lines []string
			for _, f := range got {
				lines = append(lines, strings.Join([]string{string(f.Severity), f.Subject, f.Finding + " -> " + f.Next}, "|"))
			}
			if len(got) != len(tc.want) {
				t.Fatalf("there are %d findings, want %d:\n%s", len(got), len(tc.want), strings.Join(lines, "\n"))
			}
			for i, want := range tc.want {
				head, part, _ := cutLast(want)
				if !strings.HasPrefix(lines[i], head+"|") || !strings.Contains(lines[i], part) {
					t.Errorf("finding %d is\n%s\nwant\n%s", i, lines[i], want)
				}
				if got[i].Next == "" {
					t.Errorf("finding %d does not say what to do next", i)
				}
			}
		})
	}
}

// manages is OpenKruise's manager with these feature gates.
func manages(gates string) []Manager {
	m := Manager{NamespacedName: name(managerName), Args: []string{"/manager"}}
	if gates != "" {
		m.Args = append(m.Args, "--feature-gates="+gates)
	}
	return []Manager{m}
}

func users(gate features.Gate) map[features.Gate][]string {
	return map[features.Gate][]string{gate: {"shop/web"}}
}

func TestWhatAGateMakesDangerous(t *testing.T) {
	cases := map[string]struct {
		kind, spec string
		want       []features.Gate
	}{
		"nothing":                           {"StatefulSet", `{}`, nil},
		"a first ordinal":                   {"StatefulSet", `{"ordinals":{"start":4}}`, []features.Gate{features.StatefulSetStartOrdinal}},
		"a first ordinal of 0":              {"StatefulSet", `{"ordinals":{"start":0}}`, nil},
		"a first ordinal of another kind":   {"CloneSet", `{"ordinals":{"start":4}}`, nil},
		"claims that go":                    {"StatefulSet", `{"persistentVolumeClaimRetentionPolicy":{"whenScaled":"Delete"}}`, []features.Gate{features.StatefulSetAutoDeletePVC}},
		"claims that stay":                  {"StatefulSet", `{"persistentVolumeClaimRetentionPolicy":{"whenScaled":"Retain","whenDeleted":"Retain"}}`, nil},
		"a spec that is none of a workload": {"StatefulSet", `"?"`, nil},
	}
	for title, tc := range cases {
		t.Run(title, func(t *testing.T) {
			object := &unstructured.Unstructured{}
			if err := json.Unmarshal([]byte(`{"kind":"`+tc.kind+`","metadata":{"name":"web"},"spec":`+tc.spec+`}`), &object.Object); err != nil {
				t.Fatal(err)
			}
			c := Cluster{Users: map[features.Gate][]string{}}
			c.look(tc.kind, object)
			if got := slices.Sorted(maps.Keys(c.Users)); !slices.Equal(got, tc.want) {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}

func cutLast(s string) (head, tail string, found bool) {
	i := strings.LastIndex(s, "|")
	return s[:i], s[i+1:], i >= 0
}

func TestCarryOver(t *testing.T) {
	cases := map[string]struct {
		args, want []string
	}{
		"nothing": {},
		"gates in two words, with spaces": {
			args: []string{"--feature-gates", "StatefulSetStartOrdinal=true, PodWebhook=false"},
			want: []string{"--feature-gates=StatefulSetStartOrdinal=true,PodWebhook=false"},
		},
		"gates in several flags add up": {
			args: []string{"--feature-gates=StatefulSetStartOrdinal=true", "--feature-gates=CloneSetShortHash=true"},
			want: []string{"--feature-gates=StatefulSetStartOrdinal=true,CloneSetShortHash=true"},
		},
		"a gate with two values is refused as a whole": {args: []string{"--feature-gates=PodWebhook=true,PodWebhook=false"}},
		"gates without effect do not come along":       {args: []string{"--feature-gates=ImagePullJobGate=true,KruisePodReadinessGate=true,Unheard=true"}},
		"who binds pods to their nodes": {
			args: []string{"--assign-pods-by-scheduler=false", "--assign-bcj-pods-by-scheduler=false", "--daemonset-workers=5"},
			want: []string{"--assign-bcj-pods-by-scheduler=false", "--assign-pods-by-scheduler=false", "--daemonset-workers=5"},
		},
		"which pods count as replicas": {
			args: []string{"--cloneset-scaling-exclude-preparing-delete"}, want: []string{"--cloneset-scaling-exclude-preparing-delete=true"},
		},
		"workers of a kind that is not here, and a flag without a value": {args: []string{"/manager", "--enable-leader-election", "--nosuchkind-workers=5"}},
	}
	for title, tc := range cases {
		t.Run(title, func(t *testing.T) {
			got, _ := ParseManagerArgs(tc.args, controllers.Table())
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRemovingWaitsForOpenKruiseToStop(t *testing.T) {
	running := Cluster{
		Leases:   []LeaseState{{NamespacedName: takeover.Lease(), Status: takeover.Renewed}},
		Webhooks: []Webhooks{{"MutatingWebhookConfiguration", mutatingName, 2}},
		CRDs:     []CRD{ours(converted("StatefulSet", "statefulsets"), false)},
	}
	unelected := running
	unelected.Leases, unelected.Managers = nil, []Manager{{Replicas: 1}}
	for name, found := range map[string]Cluster{"": running, " without leader election": unelected} {
		// Neither may reach the client: there is none.
		if err := RemoveWebhooks(t.Context(), nil, &found, Options{}, nil); err == nil {
			t.Errorf("webhooks of a running OpenKruise%s are removed", name)
		}
		if err := ClearConversion(t.Context(), nil, &found, nil); err == nil {
			t.Errorf("conversions of a running OpenKruise%s are cleared", name)
		}
	}
}
