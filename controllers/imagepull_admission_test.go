// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	imagelistpulljob "github.com/kruise-operator/kruise-operator/controllers/imagelistpulljob/admission"
	imagepulljob "github.com/kruise-operator/kruise-operator/controllers/imagepulljob/admission"
)

// Without the node daemon a job would wait for ever. Both kinds of jobs are refused, new and changed.
func TestWithoutTheDaemonNoJobIsTaken(t *testing.T) {
	job, list := &appsv1beta1.ImagePullJob{}, &appsv1beta1.ImageListPullJob{}
	job.Spec.Image, list.Spec.Images = "nginx", []string{"nginx"}
	imagepulljob.Default(job)
	imagelistpulljob.Default(list)
	for _, daemon := range []bool{true, false} {
		one, several := imagepulljob.Kind(daemon), imagelistpulljob.Kind(daemon)
		for name, errs := range map[string]field.ErrorList{
			"a new job": one.Faults(job, nil), "a changed job": one.Faults(job, job), "a new list": several.Faults(list, nil), "a changed list": several.Faults(list, list),
		} {
			refused := len(errs) > 0 && strings.Contains(errs[0].Error(), "KruiseDaemon is off")
			if refused == daemon || daemon && len(errs) > 0 {
				t.Errorf("the gate is on: %v; %s: %v", daemon, name, errs)
			}
		}
	}
}
