// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package version names this build.
package version

import (
	"cmp"
	"runtime/debug"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

// release is the version of a release build, such as v0.1.0: -ldflags "-X .../internal/platform/version.release=v0.1.0".
var release string //nolint:gochecknoglobals // only the linker can set it

// String is the version: the release's, else the module's from Go, else "devel".
func String() string {
	recorded := ""
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "(devel)" {
		recorded = info.Main.Version
	}
	return cmp.Or(release, recorded, "devel")
}

// UserAgent names the operator in API servers' audit logs.
func UserAgent() string { return shared.FieldManager + "/" + String() }
