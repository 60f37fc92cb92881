// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kruise-operator/kruise-operator/internal/engine/inplace"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
)

// Managed is true for kinds somebody carries out: ours if enabled and served by the API
// server, others, such as a Job, always. A definition installed later restarts the
// operator.
func Managed(mapper meta.RESTMapper, c *config.Config) func(schema.GroupVersionKind) bool {
	return func(kind schema.GroupVersionKind) bool {
		ours, known := c.Table.Of(kind.Kind)
		if !known || ours.GroupKind() != kind.GroupKind() {
			return true
		}
		if !c.Enabled(kind.Kind) {
			return false
		}
		_, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		return !meta.IsNoMatchError(err)
	}
}

// InPlace are the changes the configuration allows in place for pods of any kind. Without a
// node daemon nobody restarts containers whose environment reads changed metadata.
func InPlace(c *config.Config) inplace.Options {
	return inplace.Options{
		Resources:       c.Features.Enabled(features.InPlaceWorkloadVerticalScaling),
		EnvFromMetadata: c.Features.Enabled(features.InPlaceUpdateEnvFromMetadata) && c.NodeDaemon,
	}
}
