// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

// TestThePodThatRunsIsComparedAndNotItsTemplate has what users saw on pods that admission had changed: a resize that replaced pods, an image
// that could not be pulled, sidecars that kept the labels they had read.
func TestThePodThatRunsIsComparedAndNotItsTemplate(t *testing.T) {
	type podChange = func(*corev1.Pod)
	quantities := func(cpu string) corev1.ResourceList {
		return corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("1Gi")}
	}
	inject := func(container corev1.Container) podChange {
		return func(pod *corev1.Pod) { pod.Spec.Containers = append(pod.Spec.Containers, container) }
	}
	runs := func(image string) podChange {
		return func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = image }
	}
	limited := func(cpu string) podChange {
		return func(pod *corev1.Pod) { pod.Spec.Containers[0].Resources.Limits = quantities(cpu) }
	}
	reader := corev1.Container{Name: "side", Env: []corev1.EnvVar{{
		Name: "TIER", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['tier']"}},
	}}}
	always := corev1.ContainerRestartPolicyAlways
	native, never := *reader.DeepCopy(), *reader.DeepCopy()
	native.RestartPolicy = &always
	never.RestartPolicy = new(corev1.ContainerRestartPolicy)
	*never.RestartPolicy = corev1.ContainerRestartPolicyNever

	cases := map[string]struct {
		old, target templateChange
		live        podChange
		env         bool
		refused     string
		forMetadata bool
	}{
		"the pod is as its template says": {target: image(0, "web:5")},
		"a resize changes the QoS class": {
			old: join(guaranteed("1"), only1), target: join(guaranteed("1"), only1, request("cpu", "500m")),
			refused: "the QoS class would change from Guaranteed to Burstable",
		},
		"a resize keeps the QoS class": {old: join(guaranteed("1"), only1), target: join(guaranteed("2"), only1)},
		"an injected sidecar makes the pod Burstable before and after a resize": {
			old: join(guaranteed("1"), only1), target: join(guaranteed("1"), only1, request("cpu", "500m")), live: inject(corev1.Container{Name: "side"}),
		},
		"the server counts resources of the pod that were injected": {
			old: join(guaranteed("1"), only1), target: join(guaranteed("1"), only1, request("cpu", "500m")),
			live: func(pod *corev1.Pod) {
				pod.Spec.Resources = &corev1.ResourceRequirements{Limits: quantities("4")}
			},
		},
		"limits by a LimitRange would make the pod Guaranteed": {
			old: join(only1, request("cpu", "1"), request("memory", "1Gi")), target: join(only1, request("cpu", "2"), request("memory", "1Gi")), live: limited("2"),
			refused: "the QoS class would change from Burstable to Guaranteed",
		},
		"a request would be above the limit of a LimitRange": {
			old: request("cpu", "1"), target: request("cpu", "3"), live: limited("2"),
			refused: "the new cpu request of container web would be above the limit that the pod was created with",
		},
		"the class that the status names counts": {
			old: join(guaranteed("1"), only1), target: join(guaranteed("2"), only1),
			live:    func(pod *corev1.Pod) { pod.Status.QOSClass = corev1.PodQOSBurstable },
			refused: "the QoS class would change from Burstable to Guaranteed",
		},

		"an image was rewritten at creation": {
			target: image(0, "web:5"), live: runs("mirror/web:4"),
			refused: "container web runs image mirror/web:4 and its revision says web:4",
		},
		"an image that stays was rewritten":    {target: image(1, "log:2"), live: runs("mirror/web:4")},
		"somebody gave it the new one already": {target: image(0, "web:5"), live: runs("web:5")},
		"an update in place wrote the image": {
			target: image(0, "web:5"), live: func(pod *corev1.Pod) {
				runs("web:3")(pod)
				pod.Annotations = map[string]string{shared.AnnotationInPlaceState: `{"revision":"x","lastContainerStatuses":{"web":{"imageID":"a"}}}`}
			},
		},
		"an update in place has not written it yet": {
			target: image(0, "web:5"), live: func(pod *corev1.Pod) {
				runs("web:3")(pod)
				pod.Annotations = map[string]string{shared.AnnotationInPlaceGrace: `{"revision":"x","containerImages":{"web":"web:4"}}`}
			},
		},
		"an update in place wrote that of another container": {
			target: image(0, "web:5"), live: func(pod *corev1.Pod) {
				runs("mirror/web:4")(pod)
				pod.Annotations = map[string]string{shared.AnnotationInPlaceState: `{"revision":"x","lastContainerStatuses":{"log":{"imageID":"a"}}}`}
			},
			refused: "container web runs image mirror/web:4",
		},
		"a container was renamed at creation": {
			target: image(0, "web:5"), live: func(pod *corev1.Pod) { pod.Spec.Containers[0].Name = "www" },
			refused: "container web is in the template and not in the pod",
		},

		"an injected container reads a changed label": {
			target: label("tier", "b"), live: inject(reader),
			refused: "spec.template.metadata.labels[tier] changed: container side of the pod reads it through its environment, and only a node daemon",
		},
		"with a node daemon it is restarted":        {target: label("tier", "b"), live: inject(reader), env: true, forMetadata: true},
		"with one it may have to stay as it ended":  {target: label("tier", "b"), live: inject(never), env: true, refused: "container side.restartPolicy is Never"},
		"it reads a label that stays":               {target: label("other", "b"), live: inject(reader)},
		"an init container reads it":                {target: label("tier", "b"), env: true, live: injectInit(reader), refused: "spec.template.metadata.labels[tier] changed: container side of the pod reads it through its environment, and init containers"},
		"a sidecar among the init containers reads": {target: label("tier", "b"), env: true, live: injectInit(native), refused: "spec.template.metadata.labels[tier] changed"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			old, target := template(), template()
			if tc.old != nil {
				tc.old(old)
			}
			tc.target(target)
			pod := &corev1.Pod{ObjectMeta: *old.ObjectMeta.DeepCopy(), Spec: *old.Spec.DeepCopy()}
			if tc.live != nil {
				tc.live(pod)
			}
			o := Options{Resources: true, EnvFromMetadata: tc.env}
			d := Compare(old, target, o)
			if !d.InPlace {
				t.Fatalf("the templates do not allow it: %s", d.Reason)
			}
			got := d.On(pod, o)
			if got.InPlace != (tc.refused == "") || !strings.HasPrefix(got.Reason, tc.refused) || got.ForMetadata != tc.forMetadata {
				t.Errorf("in place %v, for metadata %v, reason %q", got.InPlace, got.ForMetadata, got.Reason)
			}
		})
	}
}

func injectInit(container corev1.Container) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.InitContainers = append(pod.Spec.InitContainers, container) }
}
