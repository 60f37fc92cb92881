// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/image"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/virtualnode"
)

const (
	// Finalizer keeps a job with pull secrets until their copies are released.
	Finalizer = "apps.kruise.io/deletion-protection"

	// Defaults of spec.pullPolicy, as admission fills them in.
	defaultTimeout = 600
	defaultBackoff = 3

	// kept is how long a tag outlives the job's own time in a NodeImage, in seconds. keptNever is for jobs that
	// never complete: then the image is looked for again.
	kept      = 300
	keptNever = 24 * 60 * 60
	// spreadKept and spreadNever spread the ends of the nodes' tags, in seconds, so nodes do not ask a registry all at once.
	spreadKept  = 300
	spreadNever = 20 * 60
	// neverDeadline limits one round of a never completing job with default tries, in seconds.
	neverDeadline = 1800
)

// Kind is the planned kind, in the stored version.
func Kind() schema.GroupVersionKind { return appsv1beta1.GroupVersion().WithKind("ImagePullJob") }

// KindNodeImage is NodeImage in its stored version.
func KindNodeImage() schema.GroupVersionKind { return appsv1beta1.GroupVersion().WithKind("NodeImage") }

// Spec is an ImagePullJob for the planner, parsed once per pass with defaults. Comments name the API's fields.
type Spec struct {
	// Job is the job itself. Read-only.
	Job *appsv1beta1.ImagePullJob
	// Deleting objects have a deletion timestamp.
	Deleting bool
	// Invalid names the first unparsable field; nil: none. Otherwise nothing is pulled.
	Invalid error

	// Image is spec.image.
	Image image.Reference
	// Never is spec.completionPolicy.type.
	Never bool
	// Deadline is spec.completionPolicy.activeDeadlineSeconds, TTL ttlSecondsAfterFinished; negative without one.
	Deadline, TTL time.Duration
	// Parallelism is spec.parallelism.
	Parallelism int
	// Timeout and Backoff are from spec.pullPolicy, Timeout in seconds.
	Timeout, Backoff int32
	// PullPolicy is spec.imagePullPolicy.
	PullPolicy appsv1beta1.ImagePullPolicy
	// Secrets are spec.pullSecrets.
	Secrets []string
	// Names are spec.selector.names, Nodes the labels beside it; nil chooses every node. Pods are spec.podSelector; nil when it is not used.
	Names []string
	Nodes labels.Selector
	Pods  labels.Selector

	// names are Names: there may be thousands, and each node is looked for.
	names sets.Set[string]
}

// Parse parses a job.
func Parse(job *appsv1beta1.ImagePullJob) *Spec {
	spec := &job.Spec
	s := &Spec{
		Job: job, Deleting: job.DeletionTimestamp != nil,
		Never: spec.CompletionPolicy.Type == appsv1beta1.CompleteNever, Deadline: -1, TTL: -1,
		Parallelism: 1, Timeout: defaultTimeout, Backoff: defaultBackoff,
		PullPolicy: cmp.Or(spec.ImagePullPolicy, appsv1beta1.PullIfNotPresent), Secrets: spec.PullSecrets,
	}
	if p := spec.PullPolicy; p != nil {
		s.Timeout, s.Backoff = max(ptr.Deref(p.TimeoutSeconds, defaultTimeout), 1), ptr.Deref(p.BackoffLimit, defaultBackoff)
	}
	if !s.Never {
		s.Deadline, s.TTL = planning.Limit(spec.CompletionPolicy.ActiveDeadlineSeconds), planning.Limit(spec.CompletionPolicy.TTLSecondsAfterFinished)
	}
	if s.Invalid = s.parse(spec); s.Invalid != nil {
		s.Invalid = fmt.Errorf("spec.%w", s.Invalid)
	}
	return s
}

func (s *Spec) parse(spec *appsv1beta1.ImagePullJobSpec) error {
	var err error
	if s.Image, err = image.ParseReference(spec.Image); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	if spec.Parallelism != nil {
		if s.Parallelism, err = count(*spec.Parallelism); err != nil {
			return fmt.Errorf("parallelism: %w", err)
		}
	}
	if p := spec.PodSelector; p != nil {
		if s.Pods, err = metav1.LabelSelectorAsSelector(&p.LabelSelector); err != nil {
			return fmt.Errorf("podSelector: %w", err)
		}
		return nil
	}
	if n := spec.Selector; n != nil {
		s.Names, s.names = n.Names, sets.New(n.Names...)
		if s.Nodes, err = metav1.LabelSelectorAsSelector(&n.LabelSelector); err != nil {
			return fmt.Errorf("selector: %w", err)
		}
	}
	return nil
}

// Chooses reports if the job selects a node by name and labels. Choosing nodes by pods is left to the caller.
func (s *Spec) Chooses(name string, of map[string]string) bool {
	switch {
	case virtualnode.Labeled(of): // there is no container runtime behind it
		return false
	case len(s.Names) > 0:
		return s.names.Has(name)
	case s.Nodes != nil:
		return s.Nodes.Matches(labels.Set(of))
	}
	return true
}

// owner is the job's signature on its tags.
func (s *Spec) owner() corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: appsv1beta1.GroupVersion().String(), Kind: Kind().Kind, Namespace: s.Job.Namespace, Name: s.Job.Name, UID: s.Job.UID,
	}
}

// count reads a whole number of at least 0, perhaps in quotes.
func count(value intstr.IntOrString) (int, error) {
	n, err := strconv.ParseInt(value.String(), 10, 32)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is no whole number of at least 0", value.String())
	}
	return int(n), nil
}
