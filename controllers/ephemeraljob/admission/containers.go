// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/webhook/rules"
)

const (
	// maxContainers is how many containers a job may add to a pod.
	maxContainers = 20
	// maxVariables is how many variables, or sources of them, one of them may have.
	maxVariables = 1000
)

// containers checks the containers added to pods. The API server checks the rest on the pods themselves.
func containers(all []corev1.EphemeralContainer, path *field.Path) field.ErrorList {
	switch {
	case len(all) == 0:
		return field.ErrorList{field.Required(path, "at least one container")}
	case len(all) > maxContainers:
		return field.ErrorList{field.TooMany(path, len(all), maxContainers)}
	}
	var errs field.ErrorList
	known := map[string]bool{}
	for i := range all {
		c, path := &all[i], path.Index(i)
		errs = append(errs, name(c.Name, known, path.Child("name"))...)
		known[c.Name] = true
		switch {
		case c.Image == "":
			errs = append(errs, field.Required(path.Child("image"), "the image of the container"))
		case strings.TrimSpace(c.Image) != c.Image:
			errs = append(errs, field.Invalid(path.Child("image"), c.Image, "must not begin or end with blanks"))
		}
		errs = append(errs, rules.OneOf(path.Child("terminationMessagePolicy"), c.TerminationMessagePolicy,
			corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError, "")...)
		errs = append(errs, rules.OneOf(path.Child("imagePullPolicy"), c.ImagePullPolicy, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever, "")...)
		errs = append(errs, environment(c, path)...)
		errs = append(errs, mounts(c, path)...)
		errs = append(errs, securityContext(c.SecurityContext, path.Child("securityContext"))...)
		errs = append(errs, forbidden(c, path)...)
	}
	return errs
}

func name(name string, known map[string]bool, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "a name that no container of the pods has")}
	}
	if known[name] {
		return field.ErrorList{field.Duplicate(path, name)}
	}
	return rules.Faults(path, name, validation.IsDNS1123Label(name))
}

func environment(c *corev1.EphemeralContainer, path *field.Path) field.ErrorList {
	if n := len(c.Env); n > maxVariables {
		return field.ErrorList{field.TooMany(path.Child("env"), n, maxVariables)}
	}
	if n := len(c.EnvFrom); n > maxVariables {
		return field.ErrorList{field.TooMany(path.Child("envFrom"), n, maxVariables)}
	}
	var errs field.ErrorList
	for i := range c.Env {
		errs = append(errs, variable(&c.Env[i], path.Child("env").Index(i))...)
	}
	for i := range c.EnvFrom {
		source, path := &c.EnvFrom[i], path.Child("envFrom").Index(i)
		if source.Prefix != "" {
			errs = append(errs, rules.Faults(path.Child("prefix"), source.Prefix, validation.IsEnvVarName(source.Prefix))...)
		}
		switch {
		case (source.ConfigMapRef == nil) == (source.SecretRef == nil):
			errs = append(errs, field.Invalid(path, "", "must have one of configMapRef and secretRef"))
		case source.ConfigMapRef != nil && source.ConfigMapRef.Name == "":
			errs = append(errs, field.Required(path.Child("configMapRef", "name"), "the name of a ConfigMap"))
		case source.SecretRef != nil && source.SecretRef.Name == "":
			errs = append(errs, field.Required(path.Child("secretRef", "name"), "the name of a Secret"))
		}
	}
	return errs
}

func variable(v *corev1.EnvVar, path *field.Path) field.ErrorList {
	if v.Name == "" {
		return field.ErrorList{field.Required(path.Child("name"), "the name of the variable")}
	}
	errs := rules.Faults(path.Child("name"), v.Name, validation.IsEnvVarName(v.Name))
	if v.Name == shared.EnvEphemeralJob {
		errs = append(errs, field.Invalid(path.Child("name"), v.Name, "is given to the containers by the operator"))
	}
	if v.ValueFrom == nil {
		return errs
	}
	sources := rules.Given(v.ValueFrom.FieldRef != nil, v.ValueFrom.ResourceFieldRef != nil, v.ValueFrom.ConfigMapKeyRef != nil,
		v.ValueFrom.SecretKeyRef != nil, v.ValueFrom.FileKeyRef != nil)
	if sources != 1 {
		errs = append(errs, field.Invalid(path.Child("valueFrom"), "", fmt.Sprintf("must have exactly one source, and has %d", sources)))
	}
	if v.Value != "" {
		errs = append(errs, field.Invalid(path.Child("valueFrom"), "", "cannot be given together with value"))
	}
	return errs
}

func mounts(c *corev1.EphemeralContainer, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range c.VolumeMounts {
		mount, path := &c.VolumeMounts[i], path.Child("volumeMounts").Index(i)
		if mount.Name == "" {
			errs = append(errs, field.Required(path.Child("name"), "the name of a volume of the pods"))
		}
		if mount.MountPath == "" {
			errs = append(errs, field.Required(path.Child("mountPath"), "where the volume is mounted"))
		}
	}
	return errs
}

// securityContext refuses contradictions.
func securityContext(s *corev1.SecurityContext, path *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	errs := rules.NotNegative(s.RunAsUser, path.Child("runAsUser"))
	errs = append(errs, rules.NotNegative(s.RunAsGroup, path.Child("runAsGroup"))...)
	if ptr.Deref(s.Privileged, false) && !ptr.Deref(s.AllowPrivilegeEscalation, true) {
		errs = append(errs, field.Invalid(path, "", "cannot set allowPrivilegeEscalation to false and privileged to true"))
	}
	return errs
}

// forbidden refuses fields ephemeral containers do not have.
func forbidden(c *corev1.EphemeralContainer, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	refuse := func(name string, given bool) {
		if given {
			errs = append(errs, field.Forbidden(path.Child(name), "cannot be set on an ephemeral container"))
		}
	}
	refuse("ports", len(c.Ports) > 0)
	refuse("resources", len(c.Resources.Limits)+len(c.Resources.Requests)+len(c.Resources.Claims) > 0)
	refuse("livenessProbe", c.LivenessProbe != nil)
	refuse("readinessProbe", c.ReadinessProbe != nil)
	refuse("startupProbe", c.StartupProbe != nil)
	refuse("lifecycle", c.Lifecycle != nil)
	refuse("resizePolicy", len(c.ResizePolicy) > 0)
	refuse("restartPolicy", c.RestartPolicy != nil)
	refuse("restartPolicyRules", len(c.RestartPolicyRules) > 0)
	for i := range c.VolumeMounts {
		mount := &c.VolumeMounts[i]
		refuse(fmt.Sprintf("volumeMounts[%d].subPath", i), mount.SubPath != "")
		refuse(fmt.Sprintf("volumeMounts[%d].subPathExpr", i), mount.SubPathExpr != "")
	}
	return errs
}
