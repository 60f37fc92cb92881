// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package packaging makes the Operator Lifecycle Manager's input: the bundle of one
// version, the catalog of all released versions and the tree for a community catalog. It
// drives operator-sdk and opm, in the versions of tools/sdk, and fills their gaps. The same
// input gives the same bytes.
package packaging
