// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podreadiness

import (
	"github.com/kruise-operator/kruise-operator/internal/controller"
)

// Value describes the readiness gate. Requests hold pods out of service by it for the operator.
func Value() controller.Kind {
	return controller.Kind{Name: Name, Requires: "ContainerRecreateRequest", Setup: Setup, Keeps: NeedsWholePod}
}
