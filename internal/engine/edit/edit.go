// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package edit holds the value in which the engine says what one pod should have written: labels, conditions, images and
// so on. Deciders build an Edit and join several into one; only the executor turns it into requests.
//
// An Edit is sent in at most three requests, in this order, each only after the one before succeeded:
//
//  1. pods/status: the conditions; and, when no spec part follows, all metadata with them, so that one request does.
//  2. pods/resize: the resources.
//  3. pods: the images, together with all metadata, so that a pod never claims a revision whose images it was not given.
package edit

import (
	corev1 "k8s.io/api/core/v1"
)

// Edit is what one pod should have written. The zero value changes nothing.
type Edit struct {
	// Labels to set; a nil value removes the label.
	Labels map[string]*string
	// Annotations to set; a nil value removes the annotation.
	Annotations map[string]*string
	// AddFinalizers are added to those the pod has.
	AddFinalizers []string
	// Conditions are set by type. Each is complete: status, reason, message and transition time.
	Conditions []corev1.PodCondition
	// Images are the new images, by container.
	Images map[string]string
	// Resources are the resources to change, by container; only the quantities named are touched.
	Resources map[string]corev1.ResourceRequirements
	// Fresh says that this is the first thing written to a new pod and holds whatever happens to it meanwhile: it is tied to the
	// pod's UID, not to its resourceVersion, so that it does not lose against the scheduler and the kubelet.
	Fresh bool
}
