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
	// Children are the ImagePullJobs that the list controls.
	Children []Child
}

// Child is an ImagePullJob that the list controls.
type Child struct {
	// Object is the job as observed. Read-only.
	Object *unstructured.Unstructured
	// Image is what it pulls.
	Image string
	// Terminating says that it has a deletion timestamp, or that we have deleted it and the view does not show it yet.
	Terminating bool
	// Started and Ended say that it has begun, and that it is over.
	Started, Ended bool
	// Desired, Active, Succeeded and Failed count nodes.
	Desired, Active, Succeeded, Failed int64
	// Stalled is its condition of that type; nil unless it is True.
	Stalled *conditions.Condition

	// template is how it pulls, with defaults; nil when that cannot be read.
	template *appsv1beta1.ImagePullJobTemplate
}

// Observe reads what a decision needs to know of an ImagePullJob. The names of nodes in its status, which may be thousands, are not decoded.
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

// as says that it pulls an image as the list says.
func (c *Child) as(spec *Spec) bool {
	return c.template != nil && equality.Semantic.DeepEqual(*c.template, spec.template)
}

// done says that every node has answered. A job that never completes is done until a node joins or has to be asked again.
func (c *Child) done(spec *Spec) bool {
	if spec.Never {
		return c.Started && c.Desired == c.Succeeded+c.Failed
	}
	return c.Ended
}
