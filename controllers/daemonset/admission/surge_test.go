// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/daemonset/admission"
	"github.com/kruise-operator/kruise-operator/controllers/daemonset/plan"
)

// A rollout that can never place its second pods was accepted without a word.
func TestAHostPortWithMaxSurgeIsWarnedOf(t *testing.T) {
	cases := map[string]struct {
		port  corev1.ContainerPort
		host  bool
		init  bool
		surge string
		want  bool
	}{
		"a port of the node":                   {port: corev1.ContainerPort{HostPort: 80}, surge: "1", want: true},
		"a port of a sidecar":                  {port: corev1.ContainerPort{HostPort: 80}, init: true, surge: "10%", want: true},
		"a pod on the network of the node":     {port: corev1.ContainerPort{ContainerPort: 80}, host: true, surge: "1", want: true},
		"a port of the pod":                    {port: corev1.ContainerPort{ContainerPort: 80}, surge: "1"},
		"no pod runs beside another one":       {port: corev1.ContainerPort{HostPort: 80}, surge: "0"},
		"no pod does, as a share of the nodes": {port: corev1.ContainerPort{HostPort: 80}, surge: "0%"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var set appsv1beta1.DaemonSet
			set.Spec.Template.Labels = map[string]string{"app": "agent"}
			set.Spec.Selector = &metav1.LabelSelector{MatchLabels: set.Spec.Template.Labels}
			containers := []corev1.Container{{Name: "app", Ports: []corev1.ContainerPort{tc.port}}}
			if set.Spec.Template.Spec.HostNetwork = tc.host; tc.init {
				set.Spec.Template.Spec.InitContainers = containers
			} else {
				set.Spec.Template.Spec.Containers = containers
			}
			set.Spec.UpdateStrategy.RollingUpdate = &appsv1beta1.RollingUpdateDaemonSet{MaxSurge: ptr.To(intstr.Parse(tc.surge)), MaxUnavailable: ptr.To(intstr.FromInt32(0))}
			warned := slices.ContainsFunc(admission.Warnings(&set, nil), func(w string) bool { return strings.Contains(w, "port 80 of the node") })
			lasting := len(plan.Parse(&set, 3, plan.Options{}).Ignored.NoEffect) > 0
			if warned != tc.want || lasting != tc.want {
				t.Errorf("warned %v, condition %v, want %v", warned, lasting, tc.want)
			}
		})
	}
}
