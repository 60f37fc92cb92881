// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

func good() *appsv1beta1.EphemeralJob {
	job := &appsv1beta1.EphemeralJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "debug"},
		Spec: appsv1beta1.EphemeralJobSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: appsv1beta1.EphemeralContainerTemplateSpec{EphemeralContainers: []corev1.EphemeralContainer{
				{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "dbg", Image: "busybox:1"}, TargetContainerName: "web"},
			}},
		},
	}
	Default(job)
	return job
}

func container(change func(*corev1.EphemeralContainer)) func(*appsv1beta1.EphemeralJob) {
	return func(job *appsv1beta1.EphemeralJob) { change(&job.Spec.Template.EphemeralContainers[0]) }
}

func variables(all ...corev1.EnvVar) func(*appsv1beta1.EphemeralJob) {
	return container(func(c *corev1.EphemeralContainer) { c.Env = all })
}

func TestDefault(t *testing.T) {
	job := good()
	if *job.Spec.Parallelism != 1 || job.Spec.TTLSecondsAfterFinished != nil || job.Spec.Replicas != nil || job.Spec.ActiveDeadlineSeconds != nil {
		t.Errorf("spec %+v", job.Spec)
	}
	if c := &job.Spec.Template.EphemeralContainers[0]; c.ImagePullPolicy != "" || c.TerminationMessagePolicy != "" {
		t.Errorf("the container does not stay as written: %+v", c)
	}
}

func TestValidate(t *testing.T) {
	const at = "spec.template.ephemeralContainers[0]."
	source := &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}
	cases := map[string]struct {
		change func(*appsv1beta1.EphemeralJob)
		// want are the fields that are refused, says is in the message.
		want []string
		says string
	}{
		"a good job": {change: func(*appsv1beta1.EphemeralJob) {}},
		"everything that a container may have": {change: container(func(c *corev1.EphemeralContainer) {
			c.Command, c.Args, c.WorkingDir, c.Stdin, c.StdinOnce, c.TTY = []string{"sh"}, []string{"-c"}, "/", true, true, true
			c.Env = []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", ValueFrom: source}}
			c.EnvFrom = []corev1.EnvFromSource{{Prefix: "P_", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}}}}
			c.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
			c.VolumeDevices = []corev1.VolumeDevice{{Name: "disk", DevicePath: "/dev/x"}}
			c.TerminationMessagePath, c.TerminationMessagePolicy, c.ImagePullPolicy = "/t", corev1.TerminationMessageReadFile, corev1.PullAlways
			c.SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
		})},
		"a name with dots": {change: func(job *appsv1beta1.EphemeralJob) { job.Name = "a.b" }},
		"counts of 0": {change: func(job *appsv1beta1.EphemeralJob) {
			job.Spec.Replicas, job.Spec.Parallelism, job.Spec.ActiveDeadlineSeconds, job.Spec.TTLSecondsAfterFinished = ptr.To[int32](0), ptr.To[int32](0), ptr.To[int64](0), ptr.To[int32](0)
		}},

		"no selector":       {func(job *appsv1beta1.EphemeralJob) { job.Spec.Selector = nil }, []string{"spec.selector"}, "every pod of the namespace"},
		"an empty selector": {func(job *appsv1beta1.EphemeralJob) { job.Spec.Selector = &metav1.LabelSelector{} }, []string{"spec.selector"}, "every pod of the namespace"},
		"a bad selector":    {func(job *appsv1beta1.EphemeralJob) { job.Spec.Selector.MatchLabels["a b"] = "c" }, []string{"spec.selector.matchLabels"}, ""},
		"negative numbers": {func(job *appsv1beta1.EphemeralJob) {
			job.Spec.Replicas, job.Spec.Parallelism, job.Spec.ActiveDeadlineSeconds, job.Spec.TTLSecondsAfterFinished = ptr.To[int32](-1), ptr.To[int32](-1), ptr.To[int64](-1), ptr.To[int32](-1)
		}, []string{"spec.replicas", "spec.parallelism", "spec.activeDeadlineSeconds", "spec.ttlSecondsAfterFinished"}, "must be 0 or more"},
		"no containers": {func(job *appsv1beta1.EphemeralJob) { job.Spec.Template.EphemeralContainers = nil }, []string{"spec.template.ephemeralContainers"}, "at least one"},
		"too many containers": {func(job *appsv1beta1.EphemeralJob) {
			job.Spec.Template.EphemeralContainers = make([]corev1.EphemeralContainer, 21)
		}, []string{"spec.template.ephemeralContainers"}, "20"},
		"a container without a name": {container(func(c *corev1.EphemeralContainer) { c.Name = "" }), []string{at + "name"}, ""},
		"a bad name":                 {container(func(c *corev1.EphemeralContainer) { c.Name = "A_b" }), []string{at + "name"}, "lower case"},
		"a name twice": {func(job *appsv1beta1.EphemeralJob) {
			job.Spec.Template.EphemeralContainers = append(job.Spec.Template.EphemeralContainers, job.Spec.Template.EphemeralContainers[0])
		}, []string{"spec.template.ephemeralContainers[1].name"}, "Duplicate"},
		"no image":              {container(func(c *corev1.EphemeralContainer) { c.Image = "" }), []string{at + "image"}, ""},
		"an image with a blank": {container(func(c *corev1.EphemeralContainer) { c.Image = " busybox" }), []string{at + "image"}, "blanks"},
		"an unknown pull policy": {container(func(c *corev1.EphemeralContainer) { c.ImagePullPolicy = "Sometimes" }), []string{at + "imagePullPolicy"},
			`"Always", "IfNotPresent", "Never"`},
		"an unknown message policy":    {container(func(c *corev1.EphemeralContainer) { c.TerminationMessagePolicy = "Mail" }), []string{at + "terminationMessagePolicy"}, `"FallbackToLogsOnError", "File"`},
		"a variable without a name":    {variables(corev1.EnvVar{Value: "1"}), []string{at + "env[0].name"}, ""},
		"a variable with a bad name":   {variables(corev1.EnvVar{Name: "a=b"}), []string{at + "env[0].name"}, ""},
		"the variable of the operator": {variables(corev1.EnvVar{Name: "KRUISE_EJOB_ID"}), []string{at + "env[0].name"}, "given to the containers by the operator"},
		"a variable with two sources": {variables(corev1.EnvVar{Name: "A", ValueFrom: &corev1.EnvVarSource{FieldRef: source.FieldRef, SecretKeyRef: &corev1.SecretKeySelector{}}}),
			[]string{at + "env[0].valueFrom"}, "exactly one source"},
		"a variable with value and source": {variables(corev1.EnvVar{Name: "A", Value: "1", ValueFrom: source}), []string{at + "env[0].valueFrom"}, "together with value"},
		"variables from nowhere":           {container(func(c *corev1.EphemeralContainer) { c.EnvFrom = []corev1.EnvFromSource{{}} }), []string{at + "envFrom[0]"}, "configMapRef"},
		"variables from a secret without a name": {container(func(c *corev1.EphemeralContainer) {
			c.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{}}}
		}), []string{at + "envFrom[0].secretRef.name"}, ""},
		"mounts of parts": {container(func(c *corev1.EphemeralContainer) {
			c.VolumeMounts = []corev1.VolumeMount{{Name: "d", MountPath: "/a", SubPath: "x"}, {Name: "d", MountPath: "/b", SubPathExpr: "y"}, {}}
		}), []string{at + "volumeMounts[2].name", at + "volumeMounts[2].mountPath", at + "volumeMounts[0].subPath", at + "volumeMounts[1].subPathExpr"}, ""},
		"a security context that contradicts itself": {container(func(c *corev1.EphemeralContainer) {
			c.SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true), AllowPrivilegeEscalation: ptr.To(false)}
		}), []string{at + "securityContext"}, ""},
		"what only other containers have": {container(func(c *corev1.EphemeralContainer) {
			c.Ports, c.LivenessProbe, c.ReadinessProbe, c.StartupProbe, c.Lifecycle = make([]corev1.ContainerPort, 1), &corev1.Probe{}, &corev1.Probe{}, &corev1.Probe{}, &corev1.Lifecycle{}
			c.Resources.Limits = corev1.ResourceList{"cpu": {}}
			c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		}), []string{at + "ports", at + "resources", at + "livenessProbe", at + "readinessProbe", at + "startupProbe", at + "lifecycle", at + "restartPolicy"}, "cannot be set on an ephemeral container"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			job := good()
			tc.change(job)
			var fields []string
			errs := Validate(job)
			for _, err := range errs {
				fields = append(fields, err.Field)
			}
			if diff := cmp.Diff(tc.want, fields); diff != "" {
				t.Errorf("fields (-want +got):\n%s\n%v", diff, errs)
			}
			if len(errs) > 0 && !strings.Contains(errs.ToAggregate().Error(), tc.says) {
				t.Errorf("%v, want %q in it", errs, tc.says)
			}
		})
	}
}

func TestUpdate(t *testing.T) {
	cases := map[string]struct {
		change func(*appsv1beta1.EphemeralJob)
		want   []string
	}{
		"nothing":     {func(*appsv1beta1.EphemeralJob) {}, nil},
		"parallelism": {func(job *appsv1beta1.EphemeralJob) { job.Spec.Parallelism = ptr.To[int32](7) }, nil},
		"replicas":    {func(job *appsv1beta1.EphemeralJob) { job.Spec.Replicas = ptr.To[int32](7) }, nil},
		"paused":      {func(job *appsv1beta1.EphemeralJob) { job.Spec.Paused = true }, nil},
		"deadline":    {func(job *appsv1beta1.EphemeralJob) { job.Spec.ActiveDeadlineSeconds = ptr.To[int64](7) }, nil},
		"selector":    {func(job *appsv1beta1.EphemeralJob) { job.Spec.Selector.MatchLabels["tier"] = "front" }, []string{"spec.selector"}},
		"template":    {container(func(c *corev1.EphemeralContainer) { c.Image = "busybox:2" }), []string{"spec.template"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			job := good()
			tc.change(job)
			var fields []string
			for _, err := range Kind().Faults(job, good()) {
				fields = append(fields, err.Field)
			}
			if diff := cmp.Diff(tc.want, fields); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
}

// TestStoredFaults: a job from OpenKruise can be paused, whatever its faults.
func TestStoredFaults(t *testing.T) {
	old := good()
	old.Spec.Selector = &metav1.LabelSelector{}
	old.Spec.Template.EphemeralContainers = nil
	paused := old.DeepCopy()
	paused.Spec.Paused = true
	if errs := Kind().Faults(paused, old); len(errs) > 0 {
		t.Error(errs)
	}
}
