// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package sidecarset manages SidecarSets: it registers the injection of sidecars into new pods, updates the images of sidecars in existing pods
// in place, and keeps the revisions of the set.
//
// What sets inject is compiled for all of them together, and registered as hooks: by the policy of the API server, or by a webhook. A dry run at every API server
// shows that it is in force. The set or the installation owns what is registered, so that it goes with them even while the operator is down. Package
// plan/sidecar decides what is injected into a pod, podinject answers the webhook.
//
// The pods belong to others. They are only edited: the images of the set's own containers, the annotations in which a pod says what was
// injected, those that the set asks for, and the condition SidecarSetUpgradable. So a pod has another writer, and every edit is conditional on
// the version of the pod that it was decided on.
//
// Revisions are in the operator's namespace, with the names and contents that OpenKruise gives them; those that it left in another namespace are
// used there.
//
// Read it in the order of a pass: controller.go, whose Reconcile is the whole pass; observe.go, which reads the cache and keeps the revisions;
// package plan, which decides and is pure; counts.go, which keeps the metrics; and watch.go, which says what triggers a pass.
//
// Then injection: injection.go, whose Reconcile is a pass over one set; injection_sets.go, which compiles all sets; injection_hooks.go, which says what is
// registered, also before a set is stored; injection_check.go, which asks the API servers; injection_status.go, which says what is known of a set; and
// injection_without.go, which finds pods without their sidecars.
package sidecarset
