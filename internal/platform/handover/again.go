// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package handover lets the process begin anew without ending: same process ID, same container, same arguments. The socket at which
// admission is served is handed over, so that the API server's calls wait for a moment instead of being refused.
package handover

import "os"

const (
	// again is set in the environment of a process that began anew.
	again = "KRUISE_OPERATOR_AGAIN"
	// inherited names, in that environment, the sockets that were handed over: address=descriptor, separated by blanks.
	inherited = "KRUISE_OPERATOR_SOCKETS"
)

// Again says whether the process has begun anew, so that what cannot have changed need not be checked again.
func Again() bool { return os.Getenv(again) != "" }
