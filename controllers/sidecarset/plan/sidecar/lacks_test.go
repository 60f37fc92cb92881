// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
)

// The set "logs" brings the container agent. A pod's record may list
// its sidecars, be only the hash, as on very old pods, or be missing.
func TestPodsThatWereCreatedWithoutTheirSidecars(t *testing.T) {
	set := sidecar.Injection{Set: "logs", Variants: []sidecar.Variant{{Containers: []sidecar.Container{{Name: "agent"}}}}}
	const shipper = `{"logs":{"hash":"h","sidecarList":["shipper"]}}`
	ownedBy := func(apiVersion string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: "Node"}}
		}
	}
	for name, tc := range map[string]struct {
		containers, init []string
		// list and hash are the annotations with the injected sets, and their records.
		list, hash string
		change     func(*corev1.Pod)
		lacks      bool
	}{
		"neither named nor there":                            {containers: []string{"main"}, lacks: true},
		"another set is named":                               {containers: []string{"main"}, list: "metrics,logs-2", lacks: true},
		"named and there":                                    {containers: []string{"main", "agent"}, list: "metrics,logs"},
		"there but not named":                                {containers: []string{"main", "agent"}, lacks: true},
		"named by a copied manifest":                         {containers: []string{"main"}, list: "logs", lacks: true},
		"named, with the containers of an earlier revision":  {containers: []string{"main", "shipper"}, list: "logs", hash: shipper},
		"named, with a hot upgrade pair of an earlier one":   {containers: []string{"main", "shipper-2", "shipper-1"}, list: "logs", hash: shipper},
		"named, with a native sidecar of an earlier one":     {containers: []string{"main"}, init: []string{"shipper"}, list: "logs", hash: shipper},
		"named, and what it says it got is not there":        {containers: []string{"main"}, list: "logs", hash: shipper, lacks: true},
		"named, with the hash alone":                         {containers: []string{"main", "shipper"}, list: "logs", hash: `{"logs":"h"}`},
		"named, and the hash alone is that of another set":   {containers: []string{"main"}, list: "logs", hash: `{"metrics":"h"}`, lacks: true},
		"named, and nothing can be read of what it says":     {containers: []string{"main"}, list: "logs", hash: `{`, lacks: true},
		"about to be deleted":                                {containers: []string{"main"}, change: func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }},
		"succeeded":                                          {containers: []string{"main"}, change: func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }},
		"failed":                                             {containers: []string{"main"}, change: func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }},
		"the mirror of a static pod":                         {containers: []string{"main"}, change: ownedBy("v1")},
		"of a kind of others that is called Node, too":       {containers: []string{"main"}, change: ownedBy("example.com/v1"), lacks: true},
		"named, and the cache has nothing of its containers": {list: "logs"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{shared.AnnotationSidecarSetInjectedList: tc.list, shared.AnnotationSidecarSetHash: tc.hash}}}
			for _, container := range tc.containers {
				pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: container})
			}
			for _, container := range tc.init {
				pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: container})
			}
			if tc.change != nil {
				tc.change(pod)
			}
			if got := set.Lacks(pod); got != tc.lacks {
				t.Errorf("lacks its sidecars: %t", got)
			}
		})
	}
}
