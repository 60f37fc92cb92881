// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/lazy"
)

// Count fills in the counters of a status, for the tags of the spec.
func Count(image *v1beta1.NodeImage, status *v1beta1.NodeImageStatus) {
	status.Desired, status.Succeeded, status.Failed, status.Pulling, status.Waiting = 0, 0, 0, 0, 0
	for place, entry := range Places(&image.Spec) {
		answers := place.Answers(status)
		for i := range entry.Tags {
			status.Desired++
			answer := Answer(answers, entry.Tags[i].Tag)
			if answer == nil || answer.Version != entry.Tags[i].Version {
				status.Waiting++
				continue
			}
			switch answer.Phase {
			case v1beta1.ImagePhaseSucceeded:
				status.Succeeded++
			case v1beta1.ImagePhaseFailed:
				status.Failed++
			case v1beta1.ImagePhasePulling:
				status.Pulling++
			case v1beta1.ImagePhaseWaiting:
				status.Waiting++
			}
		}
	}
}

// Crowded says that a namespace with mine of all taken places may take no further one, of most. Each may use as many as it leaves free, so others always
// find room.
func Crowded(mine, all, most int) bool { return mine >= most-all }

// NoDeadline is the deadline of a tag without one, and the longest one.
const NoDeadline = 10 * 365 * 24 * time.Hour

// Policy are the settings of a tag with the missing and impossible ones filled in: 600 seconds for
// one try, 3 more tries, and NoDeadline for all.
func Policy(p *v1beta1.ImageTagPullPolicy) (timeout time.Duration, backoff int32, deadline time.Duration) {
	if p == nil {
		p = &v1beta1.ImageTagPullPolicy{}
	}
	timeout = time.Duration(max(ptr.Deref(p.TimeoutSeconds, 600), 1)) * time.Second
	if backoff = ptr.Deref(p.BackoffLimit, 3); backoff < 0 {
		backoff = 3
	}
	deadline = NoDeadline
	if limit := p.ActiveDeadlineSeconds; limit != nil && *limit < int64(NoDeadline/time.Second) {
		deadline = time.Duration(max(*limit, 0)) * time.Second
	}
	return timeout, backoff, deadline
}

// Place is where a NodeImage has the pulls of a repository: in images or, with a namespace, in namespacedImages.
type Place struct{ Namespace, Repository string }

// MaxShared is how many repositories images may have, MaxRepositories how many both may have, and MaxTags how many tags.
const (
	MaxShared       = 256
	MaxRepositories = 512
	MaxTags         = 3000
)

// PlaceFor is where a NodeImage has the pulls of a job.
//
// An entry of images belongs to the namespace whose jobs have signed its tags, or to whoever wrote it by hand. Jobs of others are kept apart from it, so that
// they share no pull secret, sandbox or answer. A job that is there already stays: earlier versions did not keep namespaces apart. apart says that the
// namespace is kept apart already, or that images has no room.
func PlaceFor(namespace, repository string, job types.UID, entry v1beta1.ImageSpec, apart bool) Place {
	at := Place{Repository: repository}
	for i := range entry.Tags {
		owners := entry.Tags[i].OwnerReferences
		if slices.ContainsFunc(owners, func(o corev1.ObjectReference) bool { return o.UID == job }) {
			return at
		}
		apart = apart || len(owners) == 0 || slices.ContainsFunc(owners, func(o corev1.ObjectReference) bool { return o.Namespace != namespace })
	}
	if apart {
		at.Namespace = namespace
	}
	return at
}

// placeOf reads a key of namespacedImages.
func placeOf(key string) Place {
	namespace, repository, _ := strings.Cut(key, "/")
	return Place{Namespace: namespace, Repository: repository}
}

// Key is the key of the place in its map.
func (p Place) Key() string {
	if p.Namespace == "" {
		return p.Repository
	}
	return p.Namespace + "/" + p.Repository
}

// Places are the places of a NodeImage and what it wants there, in a fixed order.
func Places(spec *v1beta1.NodeImageSpec) iter.Seq2[Place, v1beta1.ImageSpec] {
	return func(yield func(Place, v1beta1.ImageSpec) bool) {
		for _, repository := range slices.Sorted(maps.Keys(spec.Images)) {
			if !yield(Place{Repository: repository}, spec.Images[repository]) {
				return
			}
		}
		for _, key := range slices.Sorted(maps.Keys(spec.NamespacedImages)) {
			if !yield(placeOf(key), spec.NamespacedImages[key]) {
				return
			}
		}
	}
}

// Set puts a value at the place into a merge patch of a spec.
func (p Place) Set(spec map[string]any, value any) {
	field := "images"
	if p.Namespace != "" {
		field = "namespacedImages"
	}
	if spec[field] == nil {
		spec[field] = map[string]any{}
	}
	spec[field].(map[string]any)[p.Key()] = value
}

// statuses is the map of a status in which the place is.
func (p Place) statuses(status *v1beta1.NodeImageStatus) *map[string]v1beta1.ImageStatus {
	if p.Namespace == "" {
		return &status.ImageStatuses
	}
	return &status.NamespacedImageStatuses
}

// Answers are what a node says of all tags at the place.
func (p Place) Answers(status *v1beta1.NodeImageStatus) v1beta1.ImageStatus {
	return (*p.statuses(status))[p.Key()]
}

// SetAnswers makes answers those of the node.
func (p Place) SetAnswers(status *v1beta1.NodeImageStatus, answers []v1beta1.ImageTagStatus) {
	lazy.Put(p.statuses(status), p.Key(), v1beta1.ImageStatus{Tags: answers})
}

// Answer is what a node says of a tag; nil when it says nothing.
func Answer(of v1beta1.ImageStatus, tag string) *v1beta1.ImageTagStatus {
	if at := slices.IndexFunc(of.Tags, func(t v1beta1.ImageTagStatus) bool { return t.Tag == tag }); at >= 0 {
		return &of.Tags[at]
	}
	return nil
}

// Signers are the owners of a stored NodeImage's tags. To decode all of it for each event would take too long.
func Signers(object any) sets.Set[corev1.ObjectReference] {
	signers := sets.New[corev1.ObjectReference]()
	stored, ok := object.(*unstructured.Unstructured)
	if !ok {
		return signers
	}
	for _, field := range []string{"images", "namespacedImages"} {
		entries, _, _ := unstructured.NestedFieldNoCopy(stored.Object, "spec", field)
		byKey, _ := entries.(map[string]any)
		for _, entry := range byKey {
			for _, tag := range list(entry, "tags") {
				for _, owner := range list(tag, "ownerReferences") {
					signers.Insert(ownerOf(owner))
				}
			}
		}
	}
	return signers
}

func list(of any, field string) []any {
	content, _ := of.(map[string]any)
	found, _ := content[field].([]any)
	return found
}

func ownerOf(owner any) corev1.ObjectReference {
	content, _ := owner.(map[string]any)
	text := func(field string) string { value, _ := content[field].(string); return value }
	return corev1.ObjectReference{Kind: text("kind"), Namespace: text("namespace"), Name: text("name"), UID: types.UID(text("uid"))}
}
