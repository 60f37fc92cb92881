// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package packaging makes what the Operator Lifecycle Manager installs from: the bundle of one version, the catalog of all released
// versions and the tree for a community catalog. It drives operator-sdk and opm, which it builds from the versions that tools/sdk
// pins, and does by itself what these leave open. The same input gives the same bytes.
package packaging
