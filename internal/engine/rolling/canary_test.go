// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rolling

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
)

func TestNamesOfCanaries(t *testing.T) {
	const revision = "3w5e11264sgsf" // as long as they get
	long := strings.Repeat("a", 252)
	seen := map[string]bool{}
	for _, name := range []string{"web", "web.shop", long + "b", long + "c", strings.Repeat("a.", 126) + "b", strings.Repeat("a-", 126) + "b"} {
		canary, of := CanaryName(name, revision), CanaryOf(name)
		if faults := validation.IsDNS1123Subdomain(canary + "-1234567890"); len(faults) > 0 || seen[canary] {
			t.Errorf("%s has the canary %s: %v", name, canary, faults)
		}
		if faults := validation.IsValidLabelValue(of); len(faults) > 0 || seen[of] {
			t.Errorf("%s has the label %s: %v", name, of, faults)
		}
		seen[canary], seen[of] = true, true
	}
	if got := CanaryName("web", "2x"); got != "web-canary-2x" || CanaryOf("web") != "web" {
		t.Errorf("a short name becomes %s", got)
	}
}

func TestACanaryDeployment(t *testing.T) {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web", UID: "1", ResourceVersion: "7", Labels: map[string]string{"tracked": "by GitOps"}, Annotations: map[string]string{"a": "b"},
	}}
	d.Spec.Replicas, d.Spec.Paused, d.Spec.MinReadySeconds = ptr.To[int32](5), true, 3
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	d.Spec.Template.Labels = map[string]string{"app": "web", appsv1.DefaultDeploymentUniqueLabelKey: "old"}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: "web:v2"}}
	before := d.DeepCopy()
	c := Canary(d, v1beta1.PatchPodTemplateMetadata{Labels: map[string]string{"gray": "yes"}, Annotations: map[string]string{"note": "canary"}})
	if *d.Spec.Replicas != 5 || !d.Spec.Paused || len(d.Spec.Template.Labels) != len(before.Spec.Template.Labels) || d.Spec.Template.Annotations != nil {
		t.Errorf("the Deployment was changed: %+v", d)
	}
	if c.UID != "" || c.ResourceVersion != "" || len(c.Labels) != 1 || c.Annotations != nil || *c.Spec.Replicas != 0 || c.Spec.Paused || c.Spec.MinReadySeconds != 3 {
		t.Errorf("got %+v", c)
	}
	if got := c.Spec.Template; len(got.Labels) != 2 || got.Labels["gray"] != "yes" || got.Labels["app"] != "web" || got.Annotations["note"] != "canary" {
		t.Errorf("got the template %+v", got.ObjectMeta)
	}
	other := Canary(d, v1beta1.PatchPodTemplateMetadata{})
	if other.Name != c.Name || !IsCanary(c, other) {
		t.Errorf("with other metadata it is %s, and was %s", other.Name, c.Name)
	}
	d.Spec.Template.Spec.Containers[0].Image = "web:v3"
	if next := Canary(d, v1beta1.PatchPodTemplateMetadata{}); next.Name == c.Name || IsCanary(c, next) {
		t.Errorf("another template has the same canary %s", c.Name)
	}
	foreign := other.DeepCopy()
	foreign.Name = "web-x7k2p"
	if !IsCanary(foreign, other) {
		t.Error("one of OpenKruise's is not found")
	}
}
