// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package templatecheck asks the API server about the validity of a pod template.
//
// It creates a core/v1 PodTemplate as a dry run: the server answers with all faults of the template at once, by the rules of its own version.
// Admission for pods is not involved, and nothing is stored.
//
// A server accepts some templates and refuses their pods: admission of the pod may fill in
// open fields. This package also finds the one such fault admission does not repair, an
// image with white space around it.
//
// The rest of a Job template is checked likewise, by a dry run of a Job.
package templatecheck

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/engine/launch"
)

// +kubebuilder:rbac:groups="",resources=podtemplates,verbs=create

// Fault is one thing the API server would refuse.
type Fault struct {
	// Field is the path in a workload: "spec.template.spec.containers[0].name".
	Field string
	// Message is the server's explanation, the value included.
	Message string
	// PodsOnly: the server takes the template, and refuses its pods.
	PodsOnly bool
}

// String is the fault in one line.
func (f Fault) String() string { return f.Field + ": " + f.Message }

// Checker asks about pod templates.
type Checker struct {
	// Client creates the PodTemplate or the Job, as a dry run. It needs the permission to create them.
	Client client.Writer
	// LaunchOrder also finds unreadable launch priorities: the operator does not create
	// such pods.
	LaunchOrder bool
}

// generated begins the names of questions, never stored.
const generated = "kruise-operator-template-check-"

// Check returns the faults of a template with volumes from these claim templates. None: the
// server would take it and, as far as can be told, its pods. An error: the server did not
// answer, for a quota, another admission webhook or an outage; nothing is known about the
// template.
func (c Checker) Check(ctx context.Context, namespace string, template *corev1.PodTemplateSpec, claims []corev1.PersistentVolumeClaim) ([]Fault, error) {
	question := &corev1.PodTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: generated},
		Template:   *withClaims(template, claims),
	}
	faults, err := c.ask(ctx, question, "PodTemplate", "template")
	if err != nil {
		return nil, err
	}
	for i := range faults {
		faults[i].Field = "spec." + faults[i].Field
	}
	path := field.NewPath("spec", "template", "spec")
	faults = append(faults, imageFaults(template.Spec.InitContainers, path.Child("initContainers"))...)
	faults = append(faults, imageFaults(template.Spec.Containers, path.Child("containers"))...)
	if c.LaunchOrder {
		if _, e := launch.Priorities(template.Annotations, template.Spec.Containers, path.Child("containers")); e != nil {
			faults = append(faults, Fault{Field: e.Field, Message: e.ErrorBody(), PodsOnly: true})
		}
	}
	return faults, nil
}

// CheckJob returns the faults of a Job and its pods. Admission for Jobs takes part, so an
// answer may not concern the Job itself.
func (c Checker) CheckJob(ctx context.Context, namespace string, spec *batchv1.JobSpec) ([]Fault, error) {
	question := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: generated}, Spec: *spec.DeepCopy()}
	return c.ask(ctx, question, "Job", "spec")
}

// ask returns the server's faults about a kind's field, or below it. Other refusals (quotas,
// admission, a terminating namespace) have another code or name no such field.
func (c Checker) ask(ctx context.Context, question client.Object, kind, field string) ([]Fault, error) {
	err := c.Client.Create(ctx, question, client.DryRunAll)
	if err == nil {
		return nil, nil
	}
	if faults := below(err, kind, field); len(faults) > 0 {
		return faults, nil
	}
	return nil, fmt.Errorf("checking the template by a dry run: %w", err)
}

// imageFaults are images the server refuses in a pod but not in a template.
func imageFaults(containers []corev1.Container, path *field.Path) []Fault {
	var faults []Fault
	for i := range containers {
		if image := containers[i].Image; strings.TrimSpace(image) != image {
			e := field.Invalid(path.Index(i).Child("image"), image, "must not have leading or trailing whitespace")
			faults = append(faults, Fault{Field: e.Field, Message: e.ErrorBody(), PodsOnly: true})
		}
	}
	return faults
}

// withClaims adds the claims as volumes, as the workload will do for its pods: a claim takes the place of a volume of its name.
func withClaims(template *corev1.PodTemplateSpec, claims []corev1.PersistentVolumeClaim) *corev1.PodTemplateSpec {
	template = template.DeepCopy()
	for _, claim := range claims {
		template.Spec.Volumes = slices.DeleteFunc(template.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == claim.Name })
		template.Spec.Volumes = append(template.Spec.Volumes, corev1.Volume{
			Name: claim.Name,
			VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"},
			},
		})
	}
	return template
}

// below are an answer's errors about a kind's field, or below it.
func below(err error, kind, field string) []Fault {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return nil
	}
	answer := status.Status()
	if answer.Code != http.StatusUnprocessableEntity || answer.Details == nil || answer.Details.Kind != kind {
		return nil
	}
	var faults []Fault
	for _, cause := range answer.Details.Causes {
		if cause.Field == field || strings.HasPrefix(cause.Field, field+".") {
			faults = append(faults, Fault{Field: cause.Field, Message: cause.Message})
		}
	}
	return faults
}
