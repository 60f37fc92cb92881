// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"math"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/budget"
	"github.com/kruise-operator/kruise-operator/internal/engine/nodefit"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podtemplate"
)

// Kind is the planned kind, in the stored version.
func Kind() schema.GroupVersionKind { return appsv1beta1.GroupVersion().WithKind("BroadcastJob") }

// Spec is a BroadcastJob with defaults, parsed once a pass. Comments name the API's fields.
type Spec struct {
	// Job is the job, Owner its pods' owner reference. Read-only.
	Job   *appsv1beta1.BroadcastJob
	Owner metav1.OwnerReference
	// Deleting objects have a deletion timestamp.
	Deleting bool
	// Invalid names the first unparsable field; nil: none. With it, no pod is created or deleted.
	Invalid error

	// Never is spec.completionPolicy.type.
	Never bool
	// Deadline is spec.completionPolicy.activeDeadlineSeconds, TTL ttlSecondsAfterFinished; negative without one.
	Deadline, TTL time.Duration
	// Paused is spec.paused.
	Paused bool
	// FailurePolicy is spec.failurePolicy.type.
	FailurePolicy appsv1beta1.BroadcastJobFailurePolicyType
	// RestartLimit is spec.failurePolicy.restartLimit, used if Restarts (restartPolicy OnFailure).
	RestartLimit int
	Restarts     bool
	// Resume is the annotation to resume a job paused by its failure policy.
	Resume string
	// Bind sets spec.nodeName of new pods instead of leaving them to the scheduler (flag assign-bcj-pods-by-scheduler false).
	Bind bool

	// Fitting decides on nodes.
	Fitting
	// containers of new pods; nil before the first one.
	containers []corev1.Container
}

// Fitting are the job's requirements on nodes.
type Fitting struct {
	pod      nodefit.Pod
	requests corev1.ResourceList
}

// Parse parses a job.
func Parse(job *appsv1beta1.BroadcastJob, bind bool) *Spec {
	spec := &job.Spec
	policy := &spec.CompletionPolicy
	s := &Spec{
		Job:           job,
		Owner:         *metav1.NewControllerRef(job, Kind()),
		Deleting:      job.DeletionTimestamp != nil,
		Never:         policy.Type == appsv1beta1.BroadcastJobNever,
		Deadline:      -1,
		TTL:           -1,
		Paused:        spec.Paused,
		FailurePolicy: cmp.Or(spec.FailurePolicy.Type, appsv1beta1.BroadcastJobFailFast),
		RestartLimit:  int(max(spec.FailurePolicy.RestartLimit, 0)),
		Restarts:      spec.Template.Spec.RestartPolicy == corev1.RestartPolicyOnFailure,
		Resume:        job.Annotations[shared.AnnotationResume],
		Bind:          bind,
		Fitting:       Fitting{pod: nodefit.Compile(&spec.Template.Spec), requests: nodefit.Requests(&spec.Template.Spec)},
	}
	if !s.Never {
		s.Deadline, s.TTL = planning.Limit(policy.ActiveDeadlineSeconds), planning.Limit(policy.TTLSecondsAfterFinished)
	}
	if p := spec.Parallelism; p != nil {
		if _, err := budget.Count(*p, 1, budget.Up); err != nil {
			s.Invalid = fmt.Errorf("spec.parallelism: %w", err)
		}
	}
	return s
}

// Parallelism is how many pods may be at work among so many desired nodes.
func (s *Spec) Parallelism(desired int) int {
	p := s.Job.Spec.Parallelism
	if p == nil {
		return math.MaxInt32
	}
	count, err := budget.Count(*p, int32(min(desired, math.MaxInt32)), budget.Up)
	if err != nil {
		return 0
	}
	if p.Type == intstr.String {
		count = max(count, 1)
	}
	return int(count)
}

// longestPrefix is how much of a job's name the names of its pods begin with.
const longestPrefix = 52

// podName is the pod's name for a node: always the same, so a lost answer never doubles it.
func (s *Spec) podName(node *Node) string {
	sum := sha256.Sum256([]byte(string(s.Job.UID) + "/" + node.Name + "/" + string(node.UID)))
	code := strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:10]
	return strings.TrimRight(s.Job.Name[:min(len(s.Job.Name), longestPrefix)], "-.") + "-" + code
}

// creationKey identifies refusals of a node's pod.
func (s *Spec) creationKey(node *Node) planning.RetryKey {
	return planning.RetryKey{Step: podset.StepCreate, Namespace: s.Job.Namespace, Name: s.podName(node)}
}

// newPod is a node's new pod. It shares podtemplate.ForPod's parts with others of the job.
func (s *Spec) newPod(node *Node) *corev1.Pod {
	pod := podtemplate.ForPod(&s.Job.Spec.Template)
	if s.containers == nil {
		s.containers = podtemplate.AlwaysPulled(pod.Spec.Containers)
	}
	pod.Spec.Containers = s.containers
	podset.SetIdentity(pod, s.Job.Namespace, s.podName(node), s.Owner)
	metav1.SetMetaDataLabel(&pod.ObjectMeta, shared.LabelBroadcastJobName, s.Job.Name)
	metav1.SetMetaDataLabel(&pod.ObjectMeta, shared.LabelBroadcastJobUID, string(s.Job.UID))
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, shared.AnnotationNodeUID, string(node.UID))
	if s.Bind {
		pod.Spec.NodeName = node.Name
	} else {
		nodefit.Pin(&pod.Spec, node.Name)
	}
	return pod
}
