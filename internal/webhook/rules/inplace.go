// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

// InPlaceStrategy holds the rules for how pods are updated in place. Nil is none.
func InPlaceStrategy(s *shared.InPlaceUpdateStrategy, path *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	errs := NotNegative(&s.GracePeriodSeconds, path.Child("gracePeriodSeconds"))
	if v := s.ImagePreDownloadParallelism; v != nil {
		n, err := strconv.ParseInt(v.String(), 10, 32)
		if err != nil || n < 0 {
			errs = append(errs, field.Invalid(path.Child("imagePreDownloadParallelism"), Plain(*v), "must be a whole number of at least 0"))
		}
	}
	if n := s.ImagePreDownloadTimeoutSeconds; n != nil && (*n < 1 || *n > longestTimeout) {
		// Jobs that pull images have these limits, too; other values could create none.
		errs = append(errs, field.Invalid(path.Child("imagePreDownloadTimeoutSeconds"), *n, fmt.Sprintf("must be from 1 to %d", longestTimeout)))
	}
	return append(errs, NotNegative(s.ImagePreDownloadMinUpdatedReadyPods, path.Child("imagePreDownloadMinUpdatedReadyPods"))...)
}

// PreDownloadIgnored warns of the fields about pulling images ahead of an update in place while their feature gate is off. Nil has none.
func PreDownloadIgnored(s *shared.InPlaceUpdateStrategy, path *field.Path) []string {
	if s == nil {
		return nil
	}
	var warnings []string
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"imagePreDownloadParallelism", s.ImagePreDownloadParallelism != nil},
		{"imagePreDownloadTimeoutSeconds", s.ImagePreDownloadTimeoutSeconds != nil},
		{"imagePreDownloadMinUpdatedReadyPods", s.ImagePreDownloadMinUpdatedReadyPods != nil},
	} {
		if f.set {
			warnings = append(warnings, Ignored(path.Child(f.name).String(), "PreDownloadImageForInPlaceUpdate"))
		}
	}
	return warnings
}
