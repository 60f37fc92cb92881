// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
)

// ShareOf is what a step gives to the new version. A traffic that is no percentage counts as none; admission refuses it.
func ShareOf(step v1beta1.TrafficRoutingStrategy) Share {
	s := Share{Matches: step.Matches, Headers: step.RequestHeaderModifier}
	if step.Traffic == nil {
		return s
	}
	digits, found := strings.CutSuffix(*step.Traffic, "%")
	if percent, err := strconv.ParseInt(digits, 10, 32); err == nil && found && percent >= 0 && percent <= 100 {
		weight := int32(percent)
		s.Weight = &weight
	}
	return s
}

// String is a share in words.
func (s Share) String() string {
	switch {
	case s.Weight != nil && len(s.Matches) > 0:
		return fmt.Sprintf("%d%%, and what matches", *s.Weight)
	case s.Weight != nil:
		return fmt.Sprintf("%d%%", *s.Weight)
	case len(s.Matches) > 0:
		return "what matches"
	}
	return "none"
}
