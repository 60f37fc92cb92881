// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package revision decides about recorded pod templates: what is stored, whether two are the same, what they are called,
// which number they get and which old ones go.
//
// Equality is semantic: both templates are decoded and filled with the server's defaults first. Bytes that another
// manager wrote, or that an older library printed differently, therefore never make a new revision.
package revision

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// Revision is one recorded template, decoded.
type Revision struct {
	// Name is the name of the ControllerRevision, and what pods carry as their label.
	Name string
	// Number is its place in history.
	Number int64
	// Template is the recorded template. Read-only; nil for the zero Revision.
	Template *corev1.PodTemplateSpec
	// Object is the stored object; nil while the revision has yet to be created. Read-only.
	Object *appsv1.ControllerRevision
}
