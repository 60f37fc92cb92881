// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"context"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kruise-operator/kruise-operator/internal/kube/templatecheck"
)

// maxFaults is how many faults of one template are reported; the API server cuts off long lists.
const maxFaults = 10

// Templates are a workload's templates for pods. Without Pod there is nothing to ask.
type Templates struct {
	Pod    *corev1.PodTemplateSpec
	Claims []corev1.PersistentVolumeClaim
	// Job is the Job making the pods; nil if there is none. If the pods are fine, the API
	// server is asked about the rest.
	Job *batchv1.JobSpec
	// Field is the name in the object of a field of spec.template. Nil: it has the same one.
	Field func(path string) string
}

// same is true if the API server would answer the same about other templates.
func (t Templates) same(other Templates) bool {
	return equality.Semantic.DeepEqual(t.Pod, other.Pod) && equality.Semantic.DeepEqual(t.Job, other.Job) &&
		slices.EqualFunc(t.Claims, other.Claims, func(a, b corev1.PersistentVolumeClaim) bool { return a.Name == b.Name })
}

// faults returns the API server's faults in templates. Without an answer there are none:
// the object is let in, and its controller asks again and reports.
func (t Templates) faults(ctx context.Context, checker templatecheck.Checker, namespace string) []templatecheck.Fault {
	ctx, cancel := context.WithTimeout(ctx, LookupTimeout)
	defer cancel()
	faults, err := checker.Check(ctx, namespace, t.Pod, t.Claims)
	refused := func(f templatecheck.Fault) bool { return !f.PodsOnly }
	if err == nil && t.Job != nil && !slices.ContainsFunc(faults, refused) {
		var more []templatecheck.Fault
		more, err = checker.CheckJob(ctx, namespace, t.Job)
		faults = append(faults, more...)
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("Letting a template in unchecked", "reason", err.Error())
	}
	for i := range faults {
		if t.Field != nil {
			faults[i].Field = t.Field(faults[i].Field)
		}
	}
	return faults
}

// firstFaults are the first maxFaults faults in words, and how many there are beside them.
func firstFaults(faults []templatecheck.Fault, inWords func(templatecheck.Fault) string) []string {
	var lines []string
	for i, fault := range faults {
		if i == maxFaults {
			return append(lines, fmt.Sprintf("spec.template: %d more faults", len(faults)-maxFaults))
		}
		lines = append(lines, inWords(fault))
	}
	return lines
}
