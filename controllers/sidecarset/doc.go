// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package sidecarset manages SidecarSets: it has the API server give new pods their sidecars, gives those in existing pods new images in place, and
// keeps the revisions of the set.
//
// Injection is registered for all sets together, by a MutatingAdmissionPolicy and its bindings, or by entries of a webhook; a dry run then shows that it
// is in force. What is registered belongs to the set or to the installation, so that it goes with them while the operator is dead. What a pod gets is
// decided by package internal/engine/sidecar.
//
// The pods belong to others. They are only edited: the images of the set's own containers, the annotations in which a pod says what was
// injected, those that the set asks for, and the condition SidecarSetUpgradable. A pod has one writer more then, so every edit is tied to the
// version of the pod that it was decided on.
//
// Revisions lie in the operator's namespace, named and filled as OpenKruise does it; those that it left in another one are used where they are.
//
// Read it in the order of a pass: controller.go, whose Reconcile is the whole pass; observe.go, which reads the cache and keeps the revisions;
// package plan, which decides and is pure; and watch.go, which says what wakes a set. Then injection: injection.go, whose Reconcile is a pass over one
// set; injection_state.go, which decides what is registered; injection_policy.go, injection_webhook.go and injection_revisions.go, which write it;
// injection_proof.go, which tries it; injection_without.go, which looks for pods that came without; and injection_watch.go, which hears when somebody
// else changes what is registered.
package sidecarset
