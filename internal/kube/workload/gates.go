// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"github.com/kruise-operator/kruise-operator/internal/engine/inplace"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
)

// InPlace are the changes the configuration allows in place for pods of any kind. Without a
// node daemon nobody restarts containers whose environment reads changed metadata.
func InPlace(c *config.Config) inplace.Options {
	return inplace.Options{
		Resources:       c.Features.Enabled(features.InPlaceWorkloadVerticalScaling),
		EnvFromMetadata: c.Features.Enabled(features.InPlaceUpdateEnvFromMetadata) && c.NodeDaemon,
	}
}
