// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package trafficrouting routes requests while a Rollout uses a TrafficRouting.
//
// A Rollout says so by a finalizer with its name. The last one to go takes the routes with it.
package trafficrouting
