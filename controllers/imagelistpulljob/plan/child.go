// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
)

// Snapshot is the input of a plan for a list.
type Snapshot struct {
	// Now is the time.
	Now time.Time
	// Children are the list's ImagePullJobs.
	Children []Child
}

// Child is an ImagePullJob the list controls.
type Child struct {
	// Object is the job as observed. Read-only.
	Object *unstructured.Unstructured
	// Image is the image pulled.
	Image string
	// Terminating: it has a deletion timestamp, or our deletion is not in the view yet.
	Terminating bool
	// Started: it has begun. Ended: it is over.
	Started, Ended bool
	// Desired, Active, Succeeded and Failed count nodes.
	Desired, Active, Succeeded, Failed int64
	// Stalled is this condition; nil unless it is True.
	Stalled *conditions.Condition

	// template is its settings with defaults; nil if unreadable.
	template *appsv1beta1.ImagePullJobTemplate
}

// Observe reads the needed part of an ImagePullJob. The node names in its status may be thousands, and are not decoded.
func Observe(object *unstructured.Unstructured) Child {
	c := Child{Object: object, Terminating: object.GetDeletionTimestamp() != nil}
	c.Image, _, _ = unstructured.NestedString(object.Object, "spec", "image")
	content, _, _ := unstructured.NestedFieldNoCopy(object.Object, "spec")
	if spec, ok := content.(map[string]any); ok {
		decoded := appsv1beta1.ImagePullJobSpec{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &decoded) == nil {
			template := normal(&decoded.ImagePullJobTemplate)
			c.template = &template
		}
	}
	started, _, _ := unstructured.NestedString(object.Object, "status", "startTime")
	over, _, _ := unstructured.NestedString(object.Object, "status", "completionTime")
	c.Started, c.Ended = started != "", over != ""
	for field, into := range map[string]*int64{"desired": &c.Desired, "active": &c.Active, "succeeded": &c.Succeeded, "failed": &c.Failed} {
		*into, _, _ = unstructured.NestedInt64(object.Object, "status", field)
	}
	if stalled, is := conditions.True(object.Object, appsv1beta1.ImagePullJobStalled); is {
		c.Stalled = &stalled
	}
	return c
}

// as: it pulls an image as the list says.
func (c *Child) as(spec *Spec) bool {
	return c.template != nil && equality.Semantic.DeepEqual(*c.template, spec.template)
}

// done: every node has answered. A never completing job is done until a node joins or must be asked again.
func (c *Child) done(spec *Spec) bool {
	if spec.Never {
		return c.Started && c.Desired == c.Succeeded+c.Failed
	}
	return c.Ended
}
