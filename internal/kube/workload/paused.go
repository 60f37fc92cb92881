// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// notReported is when an unwritten condition is written again.
const notReported = 5 * time.Second

// Paused is true if the user wants nothing done for an object. Each pass asks, not a
// predicate of its watch: pods, revisions and the clock trigger passes, too.
func Paused(object client.Object) bool {
	yes, err := strconv.ParseBool(object.GetAnnotations()[shared.AnnotationPaused])
	return err == nil && yes
}

func pausedProgress() podset.Progress {
	return podset.Stalled(appsv1beta1.ReasonReconciliationPaused, "Nothing is done for this object while its annotation "+shared.AnnotationPaused+" is true.")
}

// reportPaused reports the pause once. The next pass without it replaces the conditions. It
// returns when to try again.
func (b *Base) reportPaused(ctx context.Context, stored *unstructured.Unstructured) time.Duration {
	written, wait, err := b.AddConditions(ctx, stored, pausedProgress().Conditions()...)
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("Pause not reported", "err", err.Error())
		return notReported
	}
	if written {
		ctrl.LoggerFrom(ctx).Info("Paused by annotation")
	}
	return wait
}
