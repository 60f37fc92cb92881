// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package sidecarset manages SidecarSets: it gives the sidecars in existing pods new images in place, and keeps the revisions of the set.
//
// The pods belong to others. They are only edited: the images of the set's own containers, the annotations in which a pod says what was
// injected, those that the set asks for, and the condition SidecarSetUpgradable. A pod has one writer more then, so every edit is tied to the
// version of the pod that it was decided on.
//
// Revisions lie in the operator's namespace, named and filled as OpenKruise does it; those that it left in another one are used where they are.
//
// Read it in the order of a pass: controller.go, whose Reconcile is the whole pass; observe.go, which reads the cache and keeps the revisions;
// package plan, which decides and is pure; and last watch.go, which says what wakes a set.
package sidecarset
