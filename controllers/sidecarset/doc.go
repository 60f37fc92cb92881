// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package sidecarset manages SidecarSets: it registers the injection of sidecars into new pods, updates the images of sidecars in existing pods
// in place, and keeps the revisions of the set.
//
// Injection is registered for all sets together, by a MutatingAdmissionPolicy and its bindings, or by entries of a webhook; a dry run then shows
// that it works. The set or the installation owns what is registered, so that it is deleted with them even while the operator is down. Package
// plan/sidecar decides what is injected into a pod.
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
// Then injection: injection.go, whose Reconcile is a pass over one set; injection_state.go, which decides what is registered; injection_policy.go,
// injection_webhook.go and injection_revisions.go, which write it; injection_proof.go, which checks it by a dry run of a pod from
// injection_example.go; injection_without.go, which finds pods without their sidecars; injection_status.go, which says what is known of a set; and
// injection_watch.go, which watches for changes of what is registered.
package sidecarset
