// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package process lets the process begin anew without ending: same process ID, same container, same arguments.
package process

import "os"

// again is set in the environment of a process that began anew.
const again = "KRUISE_OPERATOR_AGAIN"

// Again says whether the process has begun anew, so that what cannot have changed need not be checked again.
func Again() bool { return os.Getenv(again) != "" }
