// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package nodefit_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/internal/engine/nodefit"
)

const (
	noSchedule = corev1.TaintEffectNoSchedule
	noExecute  = corev1.TaintEffectNoExecute

	otherNode = "is not the one that spec.template.spec.nodeName names"
	affinity  = "does not match nodeSelector and node affinity of the template"
)

func hasTaint(taint string) string {
	return "has taint " + taint + ", which the template does not tolerate"
}

// node is called n-1 and has the label zone=a, and these taints.
func node(taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n-1", Labels: map[string]string{"zone": "a", "cores": "8"}},
		Spec:       corev1.NodeSpec{Taints: taints},
	}
}

func cordoned() *corev1.Node {
	n := node()
	n.Spec.Unschedulable = true
	return n
}

func taint(key, value string, effect corev1.TaintEffect) corev1.Taint {
	return corev1.Taint{Key: key, Value: value, Effect: effect}
}

func requires(terms ...corev1.NodeSelectorTerm) corev1.PodSpec {
	return corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}}}
}

func label(key string, op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}}
}

func field(op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: op, Values: values}}}
}

func tolerating(tolerations ...corev1.Toleration) corev1.PodSpec {
	return corev1.PodSpec{Tolerations: tolerations}
}

func TestFit(t *testing.T) {
	gpu := taint("gpu", "yes", noSchedule)
	cases := map[string]struct {
		spec corev1.PodSpec
		node *corev1.Node
		// daemon adds the tolerations of daemons.
		daemon    bool
		runs      bool
		continues bool
		why       string
	}{
		"a plain pod fits a plain node":             {node: node(), runs: true, continues: true},
		"the node that the template names":          {spec: corev1.PodSpec{NodeName: "n-1"}, node: node(), runs: true, continues: true},
		"another node than the template names":      {spec: corev1.PodSpec{NodeName: "n-2"}, node: node(), why: otherNode},
		"nodeSelector matches":                      {spec: corev1.PodSpec{NodeSelector: map[string]string{"zone": "a"}}, node: node(), runs: true, continues: true},
		"nodeSelector does not match":               {spec: corev1.PodSpec{NodeSelector: map[string]string{"zone": "b"}}, node: node(), why: affinity},
		"one of two alternatives matches":           {spec: requires(label("zone", "In", "b"), label("zone", "In", "a")), node: node(), runs: true, continues: true},
		"no alternative matches":                    {spec: requires(label("zone", "In", "b"), label("zone", "DoesNotExist")), node: node(), why: affinity},
		"numbers are compared":                      {spec: requires(label("cores", "Gt", "4")), node: node(), runs: true, continues: true},
		"matchFields names the node":                {spec: requires(field("In", "n-1")), node: node(), runs: true, continues: true},
		"matchFields excludes the node":             {spec: requires(field("NotIn", "n-1")), node: node(), why: affinity},
		"an affinity without terms matches nothing": {spec: requires(), node: node(), why: affinity},
		"an empty term matches nothing":             {spec: requires(corev1.NodeSelectorTerm{}), node: node(), why: affinity},
		"an affinity that cannot be parsed matches nothing": {
			spec: requires(label("zone", "Near", "a")), node: node(), why: affinity,
		},
		"a term that can be parsed is enough": {
			spec: requires(label("zone", "Near", "a"), label("zone", "Exists")), node: node(), runs: true, continues: true,
		},
		"preferences decide nothing": {
			spec: corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1, Preference: label("zone", "In", "b")}},
			}}},
			node: node(), runs: true, continues: true,
		},
		"NoSchedule keeps new pods away and lets others stay": {
			node: node(gpu), continues: true, why: hasTaint("gpu=yes:NoSchedule"),
		},
		"NoExecute lets no pod stay": {
			node: node(taint("gpu", "", noExecute)), why: hasTaint("gpu:NoExecute"),
		},
		"of two taints the harder one decides": {
			node: node(gpu, taint("gpu", "", noExecute)), why: hasTaint("gpu=yes:NoSchedule"),
		},
		"a tolerated NoExecute does not save from NoSchedule": {
			spec: tolerating(corev1.Toleration{Key: "x", Operator: "Exists", Effect: noExecute}), node: node(taint("x", "", noExecute), gpu),
			continues: true, why: hasTaint("gpu=yes:NoSchedule"),
		},
		"PreferNoSchedule decides nothing":  {node: node(taint("gpu", "", corev1.TaintEffectPreferNoSchedule)), runs: true, continues: true},
		"tolerated by key and value":        {spec: tolerating(corev1.Toleration{Key: "gpu", Value: "yes"}), node: node(gpu), runs: true, continues: true},
		"tolerated whatever the value":      {spec: tolerating(corev1.Toleration{Key: "gpu", Operator: "Exists"}), node: node(gpu), runs: true, continues: true},
		"tolerated whatever the key":        {spec: tolerating(corev1.Toleration{Operator: "Exists"}), node: node(gpu, taint("x", "", noExecute)), runs: true, continues: true},
		"tolerated for a time only":         {spec: tolerating(corev1.Toleration{Key: "gpu", Operator: "Exists", TolerationSeconds: new(int64)}), node: node(gpu), runs: true, continues: true},
		"another value is not tolerated":    {spec: tolerating(corev1.Toleration{Key: "gpu", Value: "no"}), node: node(gpu), continues: true, why: hasTaint("gpu=yes:NoSchedule")},
		"another effect is not tolerated":   {spec: tolerating(corev1.Toleration{Key: "gpu", Value: "yes", Effect: noExecute}), node: node(gpu), continues: true, why: hasTaint("gpu=yes:NoSchedule")},
		"an unknown operator tolerates not": {spec: tolerating(corev1.Toleration{Key: "gpu", Operator: "Like", Value: "yes"}), node: node(gpu), continues: true, why: hasTaint("gpu=yes:NoSchedule")},
		"a smaller number is tolerated":     {spec: tolerating(corev1.Toleration{Key: "load", Operator: "Lt", Value: "10"}), node: node(taint("load", "9", noSchedule)), runs: true, continues: true},
		"a larger number is tolerated":      {spec: tolerating(corev1.Toleration{Key: "load", Operator: "Gt", Value: "10"}), node: node(taint("load", "11", noSchedule)), runs: true, continues: true},
		"what is no number is not compared": {spec: tolerating(corev1.Toleration{Key: "load", Operator: "Lt", Value: "10"}), node: node(taint("load", "x", noSchedule)), continues: true, why: hasTaint("load=x:NoSchedule")},
		"a cordoned node gets no pod":       {node: cordoned(), continues: true, why: "is cordoned"},
		"a daemon runs on a cordoned node":  {node: cordoned(), daemon: true, runs: true, continues: true},
		"a daemon runs on a node that is not ready": {
			node: node(taint(corev1.TaintNodeNotReady, "", noExecute), taint(corev1.TaintNodeUnreachable, "", noExecute)), daemon: true, runs: true, continues: true,
		},
		"a daemon waits for a node that was never ready": {
			node: node(taint(corev1.TaintNodeNotReady, "", noSchedule)), daemon: true, continues: true,
			why: hasTaint(corev1.TaintNodeNotReady + ":NoSchedule"),
		},
		"a daemon waits for the network of pods": {
			node: node(taint(corev1.TaintNodeNetworkUnavailable, "", noSchedule)), daemon: true, continues: true,
			why: hasTaint(corev1.TaintNodeNetworkUnavailable + ":NoSchedule"),
		},
		"a daemon on the network of the host does not wait for it": {
			spec: corev1.PodSpec{HostNetwork: true}, node: node(taint(corev1.TaintNodeNetworkUnavailable, "", noSchedule)), daemon: true, runs: true, continues: true,
		},
		"a daemon does not tolerate what its user did not say": {
			node: node(gpu), daemon: true, continues: true, why: hasTaint("gpu=yes:NoSchedule"),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var added []corev1.Toleration
			if tc.daemon {
				added = nodefit.DaemonTolerations(tc.spec.HostNetwork)
			}
			want := nodefit.Result{ShouldRun: tc.runs, ShouldContinueRunning: tc.continues, Reason: tc.why}
			if diff := cmp.Diff(want, nodefit.Compile(&tc.spec, added...).Fit(tc.node)); diff != "" {
				t.Errorf("fit (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAddedTolerationsHaveNoTimeLimit(t *testing.T) {
	seconds := int64(300)
	of := []corev1.Toleration{
		{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: noExecute, TolerationSeconds: &seconds},
		{Key: "gpu", Operator: corev1.TolerationOpExists},
	}
	added := corev1.Toleration{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: noExecute}
	other := corev1.Toleration{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: noExecute}
	want := []corev1.Toleration{added, of[1], other}
	if diff := cmp.Diff(want, nodefit.Tolerations(of, added, other)); diff != "" {
		t.Errorf("tolerations (-want +got):\n%s", diff)
	}
	if of[0].TolerationSeconds == nil {
		t.Error("the template was changed")
	}
}

func TestPin(t *testing.T) {
	preferred := []corev1.PreferredSchedulingTerm{{Weight: 1, Preference: label("zone", "In", "b")}}
	only := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{field("In", "n-1")}}
	withPreference := requires(label("zone", "Exists"), label("cores", "Exists"))
	withPreference.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = preferred
	cases := map[string]struct {
		spec corev1.PodSpec
		want corev1.Affinity
	}{
		"without affinity": {want: corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: only}}},
		"the requirement is replaced, the preference stays": {
			spec: withPreference,
			want: corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: only, PreferredDuringSchedulingIgnoredDuringExecution: preferred,
			}},
		},
		"other affinities stay": {
			spec: corev1.PodSpec{Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}}},
			want: corev1.Affinity{
				NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: only}, PodAntiAffinity: &corev1.PodAntiAffinity{},
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			nodefit.Pin(&tc.spec, "n-1")
			if diff := cmp.Diff(&tc.want, tc.spec.Affinity); diff != "" {
				t.Errorf("affinity (-want +got):\n%s", diff)
			}
			if got := nodefit.NodeOf(&corev1.Pod{Spec: tc.spec}); got != "n-1" {
				t.Errorf("aimed at %q", got)
			}
		})
	}
}

func TestNodeOf(t *testing.T) {
	bound := requires(field("In", "n-2"))
	bound.NodeName = "n-1"
	cases := map[string]struct {
		spec corev1.PodSpec
		want string
	}{
		"bound":                             {spec: bound, want: "n-1"},
		"aimed":                             {spec: requires(label("zone", "Exists"), field("In", "n-2")), want: "n-2"},
		"aimed at one of two is at neither": {spec: requires(field("In", "n-1", "n-2"))},
		"kept away from a node":             {spec: requires(field("NotIn", "n-1"))},
		"no affinity":                       {},
		"no affinity to nodes":              {spec: corev1.PodSpec{Affinity: &corev1.Affinity{}}},
		"no required affinity":              {spec: corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := nodefit.NodeOf(&corev1.Pod{Spec: tc.spec}); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func BenchmarkFit(b *testing.B) {
	spec := requires(label("zone", "In", "a"))
	pod := nodefit.Compile(&spec, nodefit.DaemonTolerations(false)...)
	n := node(taint(corev1.TaintNodeUnschedulable, "", noSchedule))
	b.ReportAllocs()
	for b.Loop() {
		pod.Fit(n)
	}
}
