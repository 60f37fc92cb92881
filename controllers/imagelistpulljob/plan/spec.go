// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
)

const (
	// maxImages is how many images a list may have.
	maxImages = 255
	// longestName is how many characters the name of an object may have.
	longestName = 253

	// Defaults of spec.pullPolicy and spec.parallelism, as admission and the planner of ImagePullJobs fill them in.
	defaultTimeout     = 600
	defaultBackoff     = 3
	defaultParallelism = 1
)

// Kind is the planned kind, in the stored version.
func Kind() schema.GroupVersionKind { return appsv1beta1.GroupVersion().WithKind("ImageListPullJob") }

// KindImagePullJob is ImagePullJob in its stored version.
func KindImagePullJob() schema.GroupVersionKind {
	return appsv1beta1.GroupVersion().WithKind("ImagePullJob")
}

// Spec is an ImageListPullJob for the planner, parsed once per pass with defaults. Comments name the API's fields.
type Spec struct {
	// List is the object itself. Read-only.
	List *appsv1beta1.ImageListPullJob
	// Deleting objects have a deletion timestamp.
	Deleting bool
	// Managed: somebody carries out ImagePullJobs.
	Managed bool
	// Invalid names the first unusable field; nil: none. Otherwise nothing is created or deleted.
	Invalid error

	// Images are spec.images, each once.
	Images []string
	// Never is spec.completionPolicy.type.
	Never bool
	// TTL is spec.completionPolicy.ttlSecondsAfterFinished; negative without one.
	TTL time.Duration

	// template is how each image is pulled, with defaults, and hash the short name of it.
	template appsv1beta1.ImagePullJobTemplate
	hash     string
}

// Parse parses a list.
func Parse(list *appsv1beta1.ImageListPullJob, managed bool) *Spec {
	spec := &list.Spec
	s := &Spec{
		List: list, Deleting: list.DeletionTimestamp != nil, Managed: managed,
		Never: spec.CompletionPolicy.Type == appsv1beta1.CompleteNever, TTL: -1,
		template: normal(&spec.ImagePullJobTemplate),
	}
	if !s.Never {
		s.TTL = planning.Limit(spec.CompletionPolicy.TTLSecondsAfterFinished)
	}
	text, _ := json.Marshal(s.template) // API types can always be rendered
	s.hash = digest(string(text))
	seen := map[string]bool{}
	for _, image := range spec.Images {
		if !seen[image] {
			seen[image] = true
			s.Images = append(s.Images, image)
		}
	}
	switch {
	case len(s.Images) == 0:
		s.Invalid = errors.New("spec.images: is empty; it must name an image")
	case len(s.Images) > maxImages:
		s.Invalid = fmt.Errorf("spec.images: has %d images; at most %d are allowed", len(s.Images), maxImages)
	}
	return s
}

// normal writes a template with defaults, equal meanings alike. ttlSecondsAfterFinished is the list's own: an
// ImagePullJob gone before the others end would be made again.
func normal(t *appsv1beta1.ImagePullJobTemplate) appsv1beta1.ImagePullJobTemplate {
	n := *t.DeepCopy()
	n.CompletionPolicy.Type = cmp.Or(n.CompletionPolicy.Type, appsv1beta1.CompleteAlways)
	n.CompletionPolicy.TTLSecondsAfterFinished = nil
	n.ImagePullPolicy = cmp.Or(n.ImagePullPolicy, appsv1beta1.PullIfNotPresent)
	policy := ptr.Deref(n.PullPolicy, appsv1beta1.PullPolicy{})
	n.PullPolicy = &appsv1beta1.PullPolicy{
		TimeoutSeconds: ptr.To(ptr.Deref(policy.TimeoutSeconds, defaultTimeout)), BackoffLimit: ptr.To(ptr.Deref(policy.BackoffLimit, defaultBackoff)),
	}
	parallelism := ptr.Deref(n.Parallelism, intstr.FromInt32(defaultParallelism))
	if number, err := strconv.ParseInt(parallelism.String(), 10, 32); err == nil && number >= 0 && number <= math.MaxInt32 {
		parallelism = intstr.FromInt32(int32(number))
	}
	n.Parallelism = &parallelism
	if len(n.PullSecrets) == 0 {
		n.PullSecrets = nil
	}
	if s := n.Selector; s != nil && len(s.Names)+len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		n.Selector = nil // it chooses every node
	}
	if c := n.SandboxConfig; c != nil && len(c.Labels)+len(c.Annotations) == 0 {
		n.SandboxConfig = nil
	}
	return n
}

// digest is a short name of a text.
func digest(text string) string {
	const bytes = 5
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:bytes])
}

// childName is the name of the ImagePullJob of an image: another one for each list, image, and way to pull.
func (s *Spec) childName(image string) string {
	suffix := "-" + digest(string(s.List.UID)+"\n"+image+"\n"+s.hash)
	return s.List.Name[:min(len(s.List.Name), longestName-len(suffix))] + suffix
}

func (s *Spec) newChild(image string) *appsv1beta1.ImagePullJob {
	return &appsv1beta1.ImagePullJob{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.List.Namespace, Name: s.childName(image), Labels: map[string]string{shared.LabelControllerRevisionHash: s.hash},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s.List, Kind())},
		},
		Spec: appsv1beta1.ImagePullJobSpec{Image: image, ImagePullJobTemplate: *s.template.DeepCopy()},
	}
}

// ended: the stored status says so, for good, even if the list is changed to never complete.
func ended(spec *Spec) bool { return spec.List.Status.CompletionTime != nil }
