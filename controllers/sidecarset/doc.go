// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package sidecarset manages SidecarSets: it registers injection into new
// pods, updates images of sidecars in place, and keeps the set's revisions.
//
// All sets are compiled together and registered as hooks: by the API server's policy, or by a webhook. A dry run
// at every API server proves them in force. The set or the installation owns its registration, so it goes even
// while the operator is down. Package plan/sidecar decides the content of a pod; podinject answers the webhook.
//
// The pods belong to others. They are only edited: images of the set's containers,
// annotations of the set and of its injection, and the condition SidecarSetUpgradable. A pod
// has other writers, so every edit is bound to the version of the pod it was decided on.
//
// Revisions lie in the operator's namespace, with OpenKruise's
// names and contents; its old ones are used where it left them.
//
// Read it in the order of a pass: controller.go, the whole pass; observe.go, the cache and the
// revisions; package plan, the pure decisions; counts.go, the metrics; and watch.go, the triggers.
//
// Then injection: injection.go, a pass over one set; injection_sets.go, compiling all sets;
// injection_hooks.go, the registration, also of unstored sets; injection_check.go, the checks at API
// servers; injection_status.go, the state of a set; and injection_without.go, pods without their sidecars.
package sidecarset
