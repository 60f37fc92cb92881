// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"github.com/kruise-operator/kruise-operator/internal/engine/inplace"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
)

// InPlace says what the gates let change in place in pods of any kind.
func InPlace(gates features.Set) inplace.Options {
	return inplace.Options{
		Resources: gates.Enabled(features.InPlaceWorkloadVerticalScaling),
		// EnvFromMetadata needs a node daemon that restarts containers; there is none.
		EnvFromMetadata: false,
	}
}
