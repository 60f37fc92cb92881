// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides what the operator does for a ContainerRecreateRequest: taking its pod out of service and putting it back, ending requests
// that cannot continue, and cleaning up. What happens on the node is decided in package restart of the engine. It is pure.
package plan
