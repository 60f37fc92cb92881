// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

func TestEachAnswerIsMeasuredOnce(t *testing.T) {
	w := newSimulation(t, 3)
	w.job("a", func(s *appsv1beta1.ImagePullJobSpec) { s.Parallelism = ptr.To(intstr.FromInt32(3)) })
	var answers Answers
	measured := func(of *Answers) string {
		t.Helper()
		w.pass("a")
		return fmt.Sprint(of.New(Parse(w.jobs["a"]), w.last))
	}
	if got := measured(&answers); got != "[]" {
		t.Errorf("when nodes are asked: %s", got)
	}
	w.at(25)
	w.answer(appsv1beta1.ImagePhaseSucceeded, "n1")
	w.answer(appsv1beta1.ImagePhaseFailed, "n2")
	if got := measured(&answers); got != "[{succeeded 25s} {failed 25s}]" {
		t.Errorf("two nodes have answered: %s", got)
	}
	if got := measured(&answers); got != "[]" {
		t.Errorf("measured again: %s", got)
	}
	var later Answers
	if got := measured(&later); got != "[]" {
		t.Errorf("what another run of the operator has measured: %s", got)
	}
	w.at(30)
	w.answer(appsv1beta1.ImagePhaseSucceeded, "n3")
	if got := measured(&later); got != "[{succeeded 30s}]" {
		t.Errorf("the last one: %s", got)
	}
}
