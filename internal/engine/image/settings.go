// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/budget"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
)

// LongestTimeout is the limit of how long one pull may take, in seconds.
const LongestTimeout = 24 * 60 * 60

// Settings say how a workload is to pull images ahead of its updates.
type Settings struct {
	// Parallelism is how many nodes pull one image at the same time.
	Parallelism int32
	// TimeoutSeconds is how long one pull may take, in seconds.
	TimeoutSeconds int32
	// MinUpdatedReady is how many updated pods have to be ready before images are pulled.
	MinUpdatedReady int32
}

// ReadSettings reads the fields of strategy, which may be nil, and for an unset field its
// annotation on the workload. Without either a job runs on one node at a time for at most 300
// seconds, and begins at once. An unreadable value counts as unset; faults say so, one sentence
// each.
func ReadSettings(strategy *shared.InPlaceUpdateStrategy, annotations map[string]string, replicas int32) (s Settings, faults []string) {
	if strategy == nil {
		strategy = &shared.InPlaceUpdateStrategy{}
	}
	// number reads one knob: its field, else its annotation, else the default.
	number := func(field string, set *intstr.IntOrString, key string, otherwise int32, want string, parse func(text string) (int32, bool)) int32 {
		text, given := annotations[key]
		where := "annotation " + key
		if set != nil {
			text, given, where = set.String(), true, "spec.updateStrategy.rollingUpdate.inPlaceUpdateStrategy."+field
		}
		if !given {
			return otherwise
		}
		n, ok := parse(text)
		if !ok {
			faults = append(faults, fmt.Sprintf("%s is ignored because %q is not %s", where, text, want))
			return otherwise
		}
		return n
	}
	const whole = "a whole number of at least 0"
	timeout := func(text string) (int32, bool) {
		n, ok := count(text)
		return n, ok && n >= 1 && n <= LongestTimeout
	}
	s.Parallelism = number("imagePreDownloadParallelism", strategy.ImagePreDownloadParallelism,
		shared.AnnotationPreDownloadParallelism, 1, whole, count)
	s.TimeoutSeconds = number("imagePreDownloadTimeoutSeconds", wrap(strategy.ImagePreDownloadTimeoutSeconds),
		shared.AnnotationPreDownloadTimeoutSeconds, 300, fmt.Sprintf("a whole number from 1 to %d", LongestTimeout), timeout)
	s.MinUpdatedReady = number("imagePreDownloadMinUpdatedReadyPods", wrap(strategy.ImagePreDownloadMinUpdatedReadyPods),
		shared.AnnotationPreDownloadMinUpdatedReadyPods, 0, "a number or a percentage such as \"30%\"", func(text string) (int32, bool) {
			n, err := budget.Count(intstr.Parse(text), replicas, budget.Up)
			return n, err == nil
		})
	return s, faults
}

// Parse is ReadSettings for a workload with a feature gate, which may be off. Settings
// without effect are added to ignored.
func Parse(
	gate string, on bool, strategy *shared.InPlaceUpdateStrategy, annotations map[string]string, replicas int, ignored *conditions.Ignored,
) Settings {
	if !on {
		for _, field := range ConfiguredFields(strategy, annotations) {
			ignored.ByGate(field, gate)
		}
		return Settings{}
	}
	settings, faults := ReadSettings(strategy, annotations, int32(max(replicas, 0)))
	ignored.Unparsable = append(ignored.Unparsable, faults...)
	return settings
}

// ConfiguredFields names a workload's fields and annotations about pulling images ahead.
func ConfiguredFields(strategy *shared.InPlaceUpdateStrategy, annotations map[string]string) []string {
	var said []string
	for _, key := range []string{
		shared.AnnotationPreDownloadParallelism, shared.AnnotationPreDownloadTimeoutSeconds, shared.AnnotationPreDownloadMinUpdatedReadyPods,
	} {
		if _, ok := annotations[key]; ok {
			said = append(said, "annotation "+key)
		}
	}
	if s := strategy; s != nil &&
		(s.ImagePreDownloadParallelism != nil || s.ImagePreDownloadTimeoutSeconds != nil || s.ImagePreDownloadMinUpdatedReadyPods != nil) {
		said = append(said, "spec.updateStrategy.rollingUpdate.inPlaceUpdateStrategy.imagePreDownload*")
	}
	return said
}

// count reads a number as OpenKruise does: in decimal, without a fraction.
func count(text string) (int32, bool) {
	n, err := strconv.ParseInt(text, 10, 32)
	return int32(n), err == nil && n >= 0
}

func wrap(n *int32) *intstr.IntOrString {
	if n == nil {
		return nil
	}
	return ptr.To(intstr.FromInt32(*n))
}
