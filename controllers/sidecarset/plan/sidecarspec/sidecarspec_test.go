// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarspec_test

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecarspec"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
	"github.com/kruise-operator/kruise-operator/internal/testutil/fixtures"
)

func spec() *v1beta1.SidecarSetSpec {
	return &v1beta1.SidecarSetSpec{
		Containers: []v1beta1.SidecarContainer{{Container: corev1.Container{Name: "agent", Image: "agent:v1"}}},
	}
}

func hashes(t *testing.T, s *v1beta1.SidecarSetSpec) sidecarspec.Hashes {
	t.Helper()
	h, err := sidecarspec.HashesOf(sidecarspec.PayloadOf(s, nil))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestWhatChangesTheHashes(t *testing.T) {
	cases := map[string]struct {
		change             func(*v1beta1.SidecarSetSpec)
		hash, withoutImage bool
	}{
		"an image changes one of them":      {change: func(s *v1beta1.SidecarSetSpec) { s.Containers[0].Image = "agent:v2" }, hash: true},
		"a variable changes both":           {change: func(s *v1beta1.SidecarSetSpec) { s.Containers[0].Env = []corev1.EnvVar{{Name: "A"}} }, hash: true, withoutImage: true},
		"a default of ours that is written": {change: func(s *v1beta1.SidecarSetSpec) { s.Containers[0].PodInjectPolicy = v1beta1.BeforeAppContainer }},
		"a default of the API server":       {change: func(s *v1beta1.SidecarSetSpec) { s.Containers[0].ImagePullPolicy = corev1.PullIfNotPresent }},
		"an empty list":                     {change: func(s *v1beta1.SidecarSetSpec) { s.InitContainers = []v1beta1.SidecarContainer{} }},
		"a volume":                          {change: func(s *v1beta1.SidecarSetSpec) { s.Volumes = []corev1.Volume{{Name: "v"}} }},
		"a pull secret":                     {change: func(s *v1beta1.SidecarSetSpec) { s.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "s"}} }},
		"metadata for pods":                 {change: func(s *v1beta1.SidecarSetSpec) { s.PatchPodMetadata = make([]v1beta1.SidecarSetPatchPodMetadata, 1) }},
		"an init container":                 {change: addInit(nil)},
		"a native sidecar":                  {change: addInit(ptr.To(corev1.ContainerRestartPolicyAlways)), hash: true, withoutImage: true},
		"sharing devices, which was not there": {change: func(s *v1beta1.SidecarSetSpec) {
			s.Containers[0].ShareVolumeDevicePolicy = &v1beta1.ShareVolumePolicy{}
		}, hash: true, withoutImage: true},
	}
	before := hashes(t, spec())
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			changed := spec()
			tc.change(changed)
			after := hashes(t, changed)
			if (after.Hash != before.Hash) != tc.hash || (after.WithoutImage != before.WithoutImage) != tc.withoutImage {
				t.Errorf("before %+v, after %+v", before, after)
			}
		})
	}
}

func addInit(policy *corev1.ContainerRestartPolicy) func(*v1beta1.SidecarSetSpec) {
	return func(s *v1beta1.SidecarSetSpec) {
		s.InitContainers = []v1beta1.SidecarContainer{{Container: corev1.Container{Name: "init", Image: "init:v1", RestartPolicy: policy}}}
	}
}

// OpenKruise made these objects. Pods carry its hashes: different ones would make all pods outdated.
func TestHashesAndRevisionsAreThoseOfOpenKruise(t *testing.T) {
	objects := fixtures.Objects(t, "sidecarset/state.yaml")
	sets := fixtures.All[v1beta1.SidecarSet](t, objects, v1beta1.GroupVersion().String(), "SidecarSet")
	if len(sets) != 2 {
		t.Fatalf("%d sets", len(sets))
	}
	for _, set := range sets {
		payload := sidecarspec.PayloadOf(&set.Spec, nil)
		if h := hashes(t, &set.Spec); h.Hash != set.Annotations[shared.AnnotationSidecarSetHash] ||
			h.WithoutImage != set.Annotations[shared.AnnotationSidecarSetHashWithoutImage] {
			t.Errorf("%s: hashes %+v, OpenKruise has %v", set.Name, h, set.Annotations)
		}
		codec := sidecarspec.Codec()
		data, err := codec.Encode(payload)
		if err != nil {
			t.Fatal(err)
		}
		if name := revision.Name(set.Name, revision.Hash(data, nil)); name != set.Status.LatestRevision {
			t.Errorf("%s: the revision would be called %s, OpenKruise calls it %s", set.Name, name, set.Status.LatestRevision)
		}
	}
	for _, stored := range fixtures.Revisions(t, "sidecarset", objects) {
		codec := sidecarspec.Codec()
		decoded, err := revision.DecodeOf(codec, stored)
		if err != nil {
			t.Fatal(err)
		}
		h, err := sidecarspec.HashesOf(decoded.Template)
		if err != nil || h.Hash != stored.Annotations[shared.AnnotationSidecarSetHash] {
			t.Errorf("%s: hash %s %v, OpenKruise has %v", stored.Name, h.Hash, err, stored.Annotations)
		}
		if again, err := codec.Encode(decoded.Template); err != nil || string(again) != string(stored.Data.Raw) {
			t.Errorf("%s: decoded and encoded again, it is\n%s\nand was\n%s", stored.Name, again, stored.Data.Raw)
		}
	}
}

func TestUnknownFieldsAreRecorded(t *testing.T) {
	raw := map[string]any{}
	if err := json.Unmarshal([]byte(`{"containers":[{"name":"agent","image":"agent:v1","future":{"a":1},"env":[]}],"paused":true}`), &raw); err != nil {
		t.Fatal(err)
	}
	codec := sidecarspec.Codec()
	with := sidecarspec.PayloadOf(spec(), raw)
	data, err := codec.Encode(with)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), `"future":{"a":1}`) || strings.Contains(string(data), "paused") {
		t.Errorf("recorded: %s", data)
	}
	back, err := codec.Decode(data)
	if err != nil || !codec.Same(with, back) {
		t.Errorf("what was recorded is not the same: %v", err)
	}
	if codec.Same(with, sidecarspec.PayloadOf(spec(), nil)) {
		t.Error("an unknown field makes no difference")
	}
}
