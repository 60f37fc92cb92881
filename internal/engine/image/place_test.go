// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

func TestPlaceFor(t *testing.T) {
	signed := func(jobs ...string) v1beta1.ImageTagSpec {
		tag := v1beta1.ImageTagSpec{Tag: "1"}
		for _, namespace := range jobs {
			tag.OwnerReferences = append(tag.OwnerReferences, corev1.ObjectReference{Namespace: namespace, UID: types.UID("job-of-" + namespace)})
		}
		return tag
	}
	for name, tc := range map[string]struct {
		tags  []v1beta1.ImageTagSpec
		job   types.UID
		apart bool
		want  string
	}{
		"nobody has asked for the repository":              {want: "nginx"},
		"jobs of the namespace have":                       {tags: []v1beta1.ImageTagSpec{signed("a"), signed("a", "a")}, want: "nginx"},
		"jobs of another one have":                         {tags: []v1beta1.ImageTagSpec{signed("b")}, want: "a/nginx"},
		"it was written by hand":                           {tags: []v1beta1.ImageTagSpec{signed()}, want: "a/nginx"},
		"one tag was written by hand":                      {tags: []v1beta1.ImageTagSpec{signed("a"), signed()}, want: "a/nginx"},
		"v0.4.0 had namespaces share it":                   {tags: []v1beta1.ImageTagSpec{signed("a", "b")}, want: "a/nginx"},
		"v0.4.0 had this very job share it":                {tags: []v1beta1.ImageTagSpec{signed("b"), signed("b", "a")}, job: "job-of-a", want: "nginx"},
		"the namespace is kept apart, or there is no room": {apart: true, want: "a/nginx"},
	} {
		t.Run(name, func(t *testing.T) {
			at := PlaceFor("a", "nginx", tc.job, v1beta1.ImageSpec{Tags: tc.tags}, tc.apart)
			if at.Key() != tc.want {
				t.Errorf("%s, want %s", at.Key(), tc.want)
			}
			if at.Namespace != "" && placeOf(at.Key()) != at {
				t.Errorf("%+v is read as %+v", at, placeOf(at.Key()))
			}
		})
	}
}

// What is kept apart for a namespace was not counted.
func TestBothListsAreCounted(t *testing.T) {
	tags := func(names ...string) v1beta1.ImageSpec {
		var entry v1beta1.ImageSpec
		for _, name := range names {
			entry.Tags = append(entry.Tags, v1beta1.ImageTagSpec{Tag: name})
		}
		return entry
	}
	list := &v1beta1.NodeImage{Spec: v1beta1.NodeImageSpec{
		Images: map[string]v1beta1.ImageSpec{"nginx": tags("1", "2")}, NamespacedImages: map[string]v1beta1.ImageSpec{"b/nginx": tags("1", "3"), "c/nginx": tags("1")},
	}}
	answers := func(phases map[string]v1beta1.ImagePullPhase) (all []v1beta1.ImageTagStatus) {
		for tag, phase := range phases {
			all = append(all, v1beta1.ImageTagStatus{Tag: tag, Phase: phase})
		}
		return all
	}
	status := &v1beta1.NodeImageStatus{}
	Place{Repository: "nginx"}.SetAnswers(status, answers(map[string]v1beta1.ImagePullPhase{"1": v1beta1.ImagePhaseSucceeded}))
	Place{Namespace: "b", Repository: "nginx"}.SetAnswers(status, answers(map[string]v1beta1.ImagePullPhase{"1": v1beta1.ImagePhaseFailed, "3": v1beta1.ImagePhasePulling}))
	Count(list, status)
	got := []int32{status.Desired, status.Succeeded, status.Failed, status.Pulling, status.Waiting}
	if diff := cmp.Diff([]int32{5, 1, 1, 1, 2}, got); diff != "" {
		t.Errorf("desired, succeeded, failed, pulling, waiting:\n%s", diff)
	}
}
