// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
)

func TestCompare(t *testing.T) {
	const only = " changed: only image, resources and metadata can change in place"
	all := Options{Resources: true, EnvFromMetadata: true}
	quantity := resource.MustParse
	cases := map[string]struct {
		old, target func(*corev1.PodTemplateSpec)
		o           Options
		refused     string // the reason, or the beginning of it
		metadata    bool   // nothing but metadata differs, and no container reads it
		images      int
		resources   int
	}{
		"equal templates qualify and concern no container": {metadata: true},
		"an image qualifies":                  {target: image(0, "web:5"), images: 1},
		"two images qualify":                  {target: join(image(0, "web:5"), image(1, "log:2")), images: 2},
		"a label and an annotation qualify":   {target: join(label("tier", "b"), annotation("build", "77")), metadata: true},
		"removing metadata qualifies":         {old: join(label("tier", "b"), annotation("build", "77")), metadata: true},
		"finalizers qualify":                  {target: func(t *corev1.PodTemplateSpec) { t.Finalizers = []string{"a/b"} }, metadata: true},
		"image and metadata together qualify": {target: join(image(0, "web:5"), label("tier", "b")), images: 1},
		"a default that one side spells out is no difference": {
			target: func(t *corev1.PodTemplateSpec) {
				t.Spec.RestartPolicy = corev1.RestartPolicyAlways
				t.Spec.Containers[0].ImagePullPolicy = corev1.PullAlways
				t.Spec.Containers[0].TerminationMessagePath = "/dev/termination-log"
			},
			metadata: true,
		},
		"one of pods as the template is written is none either": {
			target: pulls(corev1.PullIfNotPresent), o: Options{AsWritten: true}, metadata: true,
		},
		"a pull policy that such pods do not have does not qualify": {
			target: join(image(0, "web:5"), pulls(corev1.PullAlways)), o: Options{AsWritten: true},
			refused: "spec.template.spec.containers[0].imagePullPolicy" + only,
		},
		"a pull policy that follows the tag is that of the pod": {
			target: image(0, "web:latest"), o: Options{AsWritten: true}, images: 1,
		},

		"an init container's image does not qualify": {
			target:  func(t *corev1.PodTemplateSpec) { t.Spec.InitContainers[0].Image = "init:2" },
			refused: "spec.template.spec.initContainers" + only,
		},
		"an env variable does not qualify": {
			target: func(t *corev1.PodTemplateSpec) {
				t.Spec.Containers[0].Env = append(t.Spec.Containers[0].Env, corev1.EnvVar{Name: "X", Value: "1"})
			},
			refused: "spec.template.spec.containers[0].env" + only,
		},
		"one change that does not qualify refuses all": {
			target:  join(image(0, "web:5"), func(t *corev1.PodTemplateSpec) { t.Spec.Containers[1].Command = []string{"x"} }),
			refused: "spec.template.spec.containers[1].command" + only,
		},
		"a pull policy does not qualify": {
			target:  func(t *corev1.PodTemplateSpec) { t.Spec.Containers[0].ImagePullPolicy = corev1.PullNever },
			refused: "spec.template.spec.containers[0].imagePullPolicy" + only,
		},
		"ports, probes and mounts do not qualify": {
			target: func(t *corev1.PodTemplateSpec) {
				t.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80}}
			},
			refused: "spec.template.spec.containers[0].ports" + only,
		},
		"a toleration does not qualify": {
			target:  func(t *corev1.PodTemplateSpec) { t.Spec.Tolerations = []corev1.Toleration{{Key: "a"}} },
			refused: "spec.template.spec.tolerations" + only,
		},
		"readiness gates do not qualify": {
			target: func(t *corev1.PodTemplateSpec) {
				t.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "x"}}
			},
			refused: "spec.template.spec.readinessGates" + only,
		},
		"an added container does not qualify": {
			target: func(t *corev1.PodTemplateSpec) {
				t.Spec.Containers = append(t.Spec.Containers, corev1.Container{Name: "new", Image: "x"})
			},
			refused: "spec.template.spec.containers changed: containers cannot be added",
		},
		"a removed container does not qualify": {
			target:  func(t *corev1.PodTemplateSpec) { t.Spec.Containers = t.Spec.Containers[:1] },
			refused: "spec.template.spec.containers changed: containers cannot be added",
		},
		"a renamed container does not qualify": {
			target:  func(t *corev1.PodTemplateSpec) { t.Spec.Containers[0].Name = "other" },
			refused: "spec.template.spec.containers changed: containers cannot be added",
		},
		"containers in another order do not qualify": {
			target: func(t *corev1.PodTemplateSpec) {
				c := t.Spec.Containers
				c[0], c[1] = c[1], c[0]
			},
			refused: "spec.template.spec.containers changed: containers cannot be added",
		},

		"another cpu request qualifies with the gate": {target: request("cpu", "200m"), o: all, resources: 1},
		"it does not without the gate": {
			target: request("cpu", "200m"), refused: "spec.template.spec.containers[0].resources changed: resources change in place only with feature gate InPlaceWorkloadVerticalScaling",
		},
		"the same quantity in other words is no difference": {target: request("cpu", "0.1"), metadata: true},
		"a limit that was not set does not qualify": {
			target: func(t *corev1.PodTemplateSpec) {
				t.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"cpu": quantity("1")}
			},
			o: all, refused: "spec.template.spec.containers[0].resources.limits[cpu] was added or removed",
		},
		"a request that is taken away does not qualify": {
			target:  func(t *corev1.PodTemplateSpec) { t.Spec.Containers[0].Resources.Requests = nil },
			o:       all,
			refused: "spec.template.spec.containers[0].resources.requests[cpu] was added or removed",
		},
		"another resource than cpu and memory does not qualify": {
			old: request("example.io/gpu", "1"), target: request("example.io/gpu", "2"), o: all,
			refused: "spec.template.spec.containers[0].resources.requests[example.io/gpu] changed: only cpu and memory",
		},

		"the image of a container that is not restarted when it ends well does not qualify": {
			old: ownPolicy(corev1.ContainerRestartPolicyOnFailure), target: join(ownPolicy(corev1.ContainerRestartPolicyOnFailure), image(1, "log:2")),
			refused: "spec.template.spec.containers[1].restartPolicy is OnFailure: a container that may stay ended cannot be restarted in place",
		},
		"that of a container that is never restarted does not either": {
			old: ownPolicy(corev1.ContainerRestartPolicyNever), target: join(ownPolicy(corev1.ContainerRestartPolicyNever), image(1, "log:2")),
			refused: "spec.template.spec.containers[1].restartPolicy is Never: a container that may stay ended cannot be restarted in place",
		},
		"that of a container whose own policy is Always does": {
			old: ownPolicy(corev1.ContainerRestartPolicyAlways), target: join(ownPolicy(corev1.ContainerRestartPolicyAlways), image(1, "log:2")), images: 1,
		},
		"that of another container of the pod does": {
			old: ownPolicy(corev1.ContainerRestartPolicyNever), target: join(ownPolicy(corev1.ContainerRestartPolicyNever), image(0, "web:5")), images: 1,
		},
		"a resize that would restart a container that is never restarted does not qualify": {
			old:    join(ownPolicy(corev1.ContainerRestartPolicyNever), resizes(corev1.RestartContainer, "100m")),
			target: join(ownPolicy(corev1.ContainerRestartPolicyNever), resizes(corev1.RestartContainer, "200m")), o: all,
			refused: "spec.template.spec.containers[1].restartPolicy is Never",
		},
		"one that restarts nothing does": {
			old:    join(ownPolicy(corev1.ContainerRestartPolicyNever), resizes(corev1.NotRequired, "100m")),
			target: join(ownPolicy(corev1.ContainerRestartPolicyNever), resizes(corev1.NotRequired, "200m")), o: all, resources: 1,
		},

		"a label that a container reads does not qualify": {
			old: label("release", "r1"), target: label("release", "r2"),
			refused: "spec.template.metadata.labels[release] changed: spec.template.spec.containers[0].env reads it",
		},
		"an annotation that a container reads does not qualify when it is added": {
			old: annotation("x", "1"), target: join(annotation("x", "1"), annotation("example.com/config", "two")),
			refused: "spec.template.metadata.annotations[example.com/config] changed: spec.template.spec.containers[0].env reads it",
		},
		"with a daemon that can restart the container it does": {
			old: label("release", "r1"), target: label("release", "r2"), o: all,
		},
		"removing a key that a container reads does not count":         {old: label("release", "r1"), metadata: true},
		"the first annotation of a template does not count, even read": {target: annotation("example.com/config", "two"), metadata: true},
		"a sidecar version variable does not count": {
			old: label("sidecar", "1"), target: label("sidecar", "2"), metadata: true,
		},
		"a variable that is not about one key does not count": {old: label("other", "1"), target: label("other", "2"), metadata: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			old, target := template(), template()
			if tc.old != nil {
				tc.old(old)
			}
			if tc.target != nil {
				tc.target(target)
			}
			beforeOld, beforeTarget := old.DeepCopy(), target.DeepCopy()
			d := Compare(old, target, tc.o)
			if !strings.HasPrefix(d.Reason, tc.refused) || (tc.refused == "") != (d.Reason == "") || d.InPlace != (tc.refused == "") {
				t.Errorf("in place: %v, reason %q", d.InPlace, d.Reason)
			}
			metadata := d.InPlace && !d.ForMetadata && len(d.Images)+len(d.Resources) == 0
			if metadata != tc.metadata || len(d.Images) != tc.images || len(d.Resources) != tc.resources {
				t.Errorf("got %+v", d)
			}
			equal(t, beforeOld, old)
			equal(t, beforeTarget, target)
		})
	}
	if d := Compare(nil, template(), Options{}); d.InPlace || d.Reason == "" {
		t.Error("a revision that history has lost should not qualify")
	}
}

// recordedWith is a stored revision of the template, from a time with claim templates of that hash.
func recordedWith(claims string, change templateChange) revision.Revision {
	t := template()
	if change != nil {
		change(t)
	}
	return revision.Revision{Name: "web-" + claims, Template: t, Object: &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{shared.AnnotationClaimTemplates: claims},
	}}}
}

func TestCompareRevisions(t *testing.T) {
	const why = "spec.volumeClaimTemplates changed: claims cannot be added to a pod or taken from it"
	cases := map[string]struct {
		target  revision.Revision
		policy  shared.PodUpdatePolicy
		o       Options
		refused string
	}{
		"changed claim templates do not matter without the gate": {target: recordedWith("2", image(0, "web:5")), policy: shared.InPlaceIfPossible},
		"with the gate they do": {
			target: recordedWith("2", image(0, "web:5")), policy: shared.InPlaceIfPossible, o: Options{ClaimTemplates: true}, refused: why,
		},
		"with the gate unchanged ones do not": {target: recordedWith("1", image(0, "web:5")), policy: shared.InPlaceIfPossible, o: Options{ClaimTemplates: true}},
		"with InPlaceOnly they never do":      {target: recordedWith("2", image(0, "web:5")), policy: shared.InPlaceOnly, o: Options{ClaimTemplates: true}},
		"what else forbids it is said first": {
			target: recordedWith("2", func(t *corev1.PodTemplateSpec) { t.Spec.HostNetwork = true }), policy: shared.InPlaceIfPossible,
			o: Options{ClaimTemplates: true}, refused: "spec.template.spec.hostNetwork changed: only image, resources and metadata can change in place",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := CompareRevisions(recordedWith("1", nil), tc.target, tc.policy, tc.o)
			if got.Reason != tc.refused || got.InPlace != (tc.refused == "") {
				t.Errorf("the difference is %+v, want %q", got, tc.refused)
			}
		})
	}
}

func TestQOSClass(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		out := corev1.ResourceList{}
		if cpu != "" {
			out["cpu"] = resource.MustParse(cpu)
		}
		if memory != "" {
			out["memory"] = resource.MustParse(memory)
		}
		return out
	}
	full := corev1.ResourceRequirements{Limits: list("1", "1Gi"), Requests: list("1", "1Gi")}
	cases := map[string]struct {
		spec corev1.PodSpec
		want corev1.PodQOSClass
	}{
		"nothing set is BestEffort":                {spec(corev1.ResourceRequirements{}), corev1.PodQOSBestEffort},
		"zero is as good as nothing":               {spec(corev1.ResourceRequirements{Requests: list("0", "0")}), corev1.PodQOSBestEffort},
		"equal limits and requests are Guaranteed": {spec(full), corev1.PodQOSGuaranteed},
		"limits alone stand for both":              {spec(corev1.ResourceRequirements{Limits: list("1", "1Gi")}), corev1.PodQOSGuaranteed},
		"a missing memory limit is Burstable":      {spec(corev1.ResourceRequirements{Limits: list("1", "")}), corev1.PodQOSBurstable},
		"one container without is Burstable":       {spec(full, corev1.ResourceRequirements{}), corev1.PodQOSBurstable},
		"a smaller request is Burstable":           {spec(corev1.ResourceRequirements{Limits: list("1", "1Gi"), Requests: list("500m", "1Gi")}), corev1.PodQOSBurstable},
		"resources of the pod decide alone":        {corev1.PodSpec{Resources: &full, Containers: []corev1.Container{{Name: "a"}}}, corev1.PodQOSGuaranteed},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := QOSClass(&tc.spec); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func spec(resources ...corev1.ResourceRequirements) corev1.PodSpec {
	var out corev1.PodSpec
	for _, r := range resources {
		out.Containers = append(out.Containers, corev1.Container{Resources: r})
	}
	return out
}

// template has two containers; the first reads a label and an annotation.
func template() *corev1.PodTemplateSpec {
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}}
	}
	t := &corev1.PodTemplateSpec{}
	t.Labels = map[string]string{"app": "shop"}
	t.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "init:1"}}
	t.Spec.Containers = []corev1.Container{
		{
			Name: "web", Image: "web:4",
			Env: []corev1.EnvVar{
				field("RELEASE", "metadata.labels['release']"),
				field("CONFIG", "metadata.annotations['example.com/config']"),
				field("SIDECARSET_VERSION", "metadata.labels['sidecar']"),
				field("NAME", "metadata.name"),
			},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m")}},
		},
		{Name: "log", Image: "log:1"},
	}
	return t
}

type templateChange = func(*corev1.PodTemplateSpec)

func join(changes ...templateChange) templateChange {
	return func(t *corev1.PodTemplateSpec) {
		for _, change := range changes {
			change(t)
		}
	}
}

func image(i int, image string) templateChange {
	return func(t *corev1.PodTemplateSpec) { t.Spec.Containers[i].Image = image }
}

func label(key, value string) templateChange {
	return func(t *corev1.PodTemplateSpec) { t.Labels[key] = value }
}

func annotation(key, value string) templateChange {
	return func(t *corev1.PodTemplateSpec) {
		if t.Annotations == nil {
			t.Annotations = map[string]string{}
		}
		t.Annotations[key] = value
	}
}

func request(name corev1.ResourceName, value string) templateChange {
	return func(t *corev1.PodTemplateSpec) {
		t.Spec.Containers[0].Resources.Requests[name] = resource.MustParse(value)
	}
}

// ownPolicy gives the second container a restart policy of its own.
func pulls(policy corev1.PullPolicy) templateChange {
	return func(t *corev1.PodTemplateSpec) { t.Spec.Containers[0].ImagePullPolicy = policy }
}

func ownPolicy(policy corev1.ContainerRestartPolicy) templateChange {
	return func(t *corev1.PodTemplateSpec) { t.Spec.Containers[1].RestartPolicy = &policy }
}

// resizes gives the second container a cpu request and says what changing it does.
func resizes(policy corev1.ResourceResizeRestartPolicy, cpu string) templateChange {
	return func(t *corev1.PodTemplateSpec) {
		t.Spec.Containers[1].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse(cpu)}
		t.Spec.Containers[1].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: "cpu", RestartPolicy: policy}}
	}
}

func guaranteed(cpu string) templateChange {
	return func(t *corev1.PodTemplateSpec) {
		list := corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("1Gi")}
		t.Spec.Containers[0].Resources = corev1.ResourceRequirements{Limits: list, Requests: list.DeepCopy()}
	}
}

func only1(t *corev1.PodTemplateSpec) {
	t.Spec.InitContainers = nil
	t.Spec.Containers = t.Spec.Containers[:1]
}
