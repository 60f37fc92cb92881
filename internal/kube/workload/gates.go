// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"github.com/kruise-operator/kruise-operator/internal/engine/inplace"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
)

// InPlace says what the configuration lets change in place in pods of any kind. Without a node daemon nobody restarts containers that read
// changed metadata through their environment.
func InPlace(c *config.Config) inplace.Options {
	return inplace.Options{
		Resources:       c.Features.Enabled(features.InPlaceWorkloadVerticalScaling),
		EnvFromMetadata: c.Features.Enabled(features.InPlaceUpdateEnvFromMetadata) && c.NodeDaemon,
	}
}
