// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides a ContainerRecreateRequest: taking its pod out of service and back, ending
// hopeless requests, and cleaning up. Package restart of the engine decides on the node. It is pure.
package plan
