// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"hash/fnv"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/image"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// Snapshot is the input of a plan for a job.
type Snapshot struct {
	// Now is the time.
	Now time.Time
	// Nodes are the job's nodes, sorted by name.
	Nodes []Node
	// Unknown are names in spec.selector.names without a node, sorted.
	Unknown []string
	// Secrets are the pull secrets' copies in the daemon's namespace. Of spec.pullSecrets, Missing do not exist and
	// Unreadable are forbidden to the operator.
	Secrets             []appsv1beta1.ImagePullSecret
	Missing, Unreadable []string
	// NoNamespace: the daemon's namespace is missing, so nothing could be copied.
	NoNamespace bool
	// Uncopied is why copying failed at the last try, with the server's answer; empty when it did not.
	Uncopied string
	// Released: no copy is held for the job any more.
	Released bool
	// Retries are refused requests to nodes, waiting for their next try.
	Retries planning.Retries
}

// Node is a node the job chooses.
type Node struct {
	Name string
	UID  types.UID
	// Labels are the node's; its NodeImage gets them too.
	Labels map[string]string
	// Ready: the node's kubelet answers.
	Ready bool
	// Image is its NodeImage; nil when there is none.
	Image *NodeImage
}

// NodeImage is the job's view of a NodeImage.
type NodeImage struct {
	// Meta is its metadata. Read-only.
	Meta *metav1.ObjectMeta
	// Place locates the job's pulls, Entry is the present content. Full: no room for another.
	Place image.Place
	Entry appsv1beta1.ImageSpec
	Full  bool
	// Status is the node's answer there.
	Status appsv1beta1.ImageStatus
}

// stage is a node's progress.
type stage string

const (
	// idle: it was not asked yet.
	idle stage = "idle"
	// active: it was asked and has not answered for good.
	active stage = "active"
	// succeeded and failed are answers.
	succeeded stage = "succeeded"
	failed    stage = "failed"
)

// nodeState is a node and its stage.
type nodeState struct {
	*Node
	stage stage
	// since is when it was asked, silent: no answer at all; both only while it is active.
	since  time.Time
	silent bool
	// message comes from the node.
	message string
}

// look finds the node's stage for the job.
func (s *Spec) look(n *Node) nodeState {
	result := nodeState{Node: n, stage: idle}
	if n.former() {
		return result
	}
	tag := s.tag(n)
	if tag == nil || !owns(tag, s.Job.UID) {
		return result
	}
	result.stage, result.silent = active, true
	if tag.CreatedAt != nil {
		result.since = tag.CreatedAt.Time
	}
	answer := s.answer(n)
	if answer == nil || answer.Version != tag.Version {
		return result
	}
	result.silent, result.message = false, answer.Message
	switch answer.Phase {
	case appsv1beta1.ImagePhaseSucceeded:
		result.stage = succeeded
	case appsv1beta1.ImagePhaseFailed:
		result.stage = failed
	case appsv1beta1.ImagePhaseWaiting, appsv1beta1.ImagePhasePulling:
	}
	return result
}

// former: the NodeImage belongs to an earlier node of this name, and is collected soon.
func (n *Node) former() bool {
	return n.Image != nil && slices.ContainsFunc(n.Image.Meta.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.Kind == "Node" && o.UID != n.UID
	})
}

// maxTags is how many tags an entry of a NodeImage may have, maxOwners how many jobs may share one.
const (
	maxTags   = 256
	maxOwners = 256
)

// askable: the node's NodeImage can be written.
func (s *Spec) askable(n *Node) bool {
	return n.Image == nil || !s.full(n) && n.Image.Meta.DeletionTimestamp == nil && !n.former()
}

// full: the node's NodeImage has no room for the job.
func (s *Spec) full(n *Node) bool {
	if n.Image == nil {
		return false
	}
	if tag := s.tag(n); tag != nil {
		return len(tag.OwnerReferences) >= maxOwners && !owns(tag, s.Job.UID)
	}
	return n.Image.Full || len(n.Image.Entry.Tags) >= maxTags
}

// tag is the job's tag in the list of a node.
func (s *Spec) tag(n *Node) *appsv1beta1.ImageTagSpec {
	if n.Image == nil {
		return nil
	}
	return s.tagOf(&n.Image.Entry)
}

func (s *Spec) tagOf(entry *appsv1beta1.ImageSpec) *appsv1beta1.ImageTagSpec {
	if i := slices.IndexFunc(entry.Tags, func(t appsv1beta1.ImageTagSpec) bool { return t.Tag == s.Image.Tag }); i >= 0 {
		return &entry.Tags[i]
	}
	return nil
}

// answer is the node's status of the job's tag.
func (s *Spec) answer(n *Node) *appsv1beta1.ImageTagStatus {
	if n.Image == nil {
		return nil
	}
	return image.Answer(n.Image.Status, s.Image.Tag)
}

func owns(tag *appsv1beta1.ImageTagSpec, job types.UID) bool {
	return slices.ContainsFunc(tag.OwnerReferences, func(o corev1.ObjectReference) bool { return o.UID == job })
}

// entry is the job's repository in the NodeImage of a node asked now:
//
//   - a missing tag is added, in a round without a status;
//   - another job's tag in the namespace, still being pulled, is shared, unless the registry must be asked and was not;
//   - an ended tag of theirs is asked for again, in a new round.
func (s *Spec) entry(n *Node, now time.Time, secrets []appsv1beta1.ImagePullSecret) appsv1beta1.ImageSpec {
	entry := appsv1beta1.ImageSpec{}
	if n.Image != nil {
		entry = *n.Image.Entry.DeepCopy()
	}
	entry.PullSecrets = withSecrets(entry.PullSecrets, secrets)
	if s.Job.Spec.SandboxConfig != nil {
		entry.SandboxConfig = s.Job.Spec.SandboxConfig.DeepCopy()
	}
	created := podstate.Time(now)
	answer := s.answer(n)
	tag := s.tagOf(&entry)
	if tag == nil {
		version := int64(0)
		if answer != nil {
			version = answer.Version + 1
		}
		entry.Tags = append(entry.Tags, appsv1beta1.ImageTagSpec{
			Tag: s.Image.Tag, CreatedAt: &created, PullPolicy: s.pullPolicy(n), OwnerReferences: []corev1.ObjectReference{s.owner()},
			Version: version, ImagePullPolicy: s.PullPolicy,
		})
		return entry
	}
	tag.OwnerReferences = append(tag.OwnerReferences, s.owner())
	ended := answer != nil && answer.Version == tag.Version && answer.CompletionTime != nil
	if ended || s.PullPolicy == appsv1beta1.PullAlways && tag.ImagePullPolicy == appsv1beta1.PullIfNotPresent {
		tag.Version++
		tag.CreatedAt, tag.ImagePullPolicy, tag.PullPolicy = &created, s.PullPolicy, s.nextPolicy(n, tag.PullPolicy)
	}
	return entry
}

// pullPolicy is how a node pulls, and how long its tag is kept.
func (s *Spec) pullPolicy(n *Node) *appsv1beta1.ImageTagPullPolicy {
	p := &appsv1beta1.ImageTagPullPolicy{TimeoutSeconds: ptr.To(s.Timeout), BackoffLimit: ptr.To(s.Backoff)}
	if s.Never {
		p.ActiveDeadlineSeconds = ptr.To(s.roundDeadline())
		p.TTLSecondsAfterFinished = ptr.To(int32(keptNever - spreadNever/2 + s.spread(n, spreadNever)))
		return p
	}
	ttl := int64(s.Timeout) * int64(max(s.Backoff, 1))
	if s.Deadline >= 0 {
		ttl = int64(s.Deadline / time.Second)
		p.ActiveDeadlineSeconds = ptr.To(ttl)
	}
	if s.TTL >= 0 {
		ttl = int64(s.TTL / time.Second)
	}
	p.TTLSecondsAfterFinished = ptr.To(int32(min(ttl+int64(kept+s.spread(n, spreadKept)), 1<<31-1)))
	return p
}

// nextPolicy is the policy of the tag's next round. The tag lives as long as any of its jobs says: the earlier ones still need it.
func (s *Spec) nextPolicy(n *Node, before *appsv1beta1.ImageTagPullPolicy) *appsv1beta1.ImageTagPullPolicy {
	policy := s.pullPolicy(n)
	if before == nil || before.TTLSecondsAfterFinished == nil {
		policy.TTLSecondsAfterFinished = nil
	} else {
		policy.TTLSecondsAfterFinished = ptr.To(max(*policy.TTLSecondsAfterFinished, *before.TTLSecondsAfterFinished))
	}
	return policy
}

// roundDeadline limits one round of a job that never completes, in seconds: long enough for the user's tries.
func (s *Spec) roundDeadline() int64 {
	if s.Timeout == defaultTimeout && s.Backoff == defaultBackoff {
		return neverDeadline
	}
	return max(neverDeadline, int64(s.Timeout)*int64(max(s.Backoff, 0)+1))
}

// spread returns a stable number below limit, different for each node.
func (s *Spec) spread(n *Node, limit int) int {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(string(s.Job.UID) + "/" + n.Name)) // never fails
	return int(hash.Sum32() % uint32(limit))
}

func withSecrets(have, wanted []appsv1beta1.ImagePullSecret) []appsv1beta1.ImagePullSecret {
	for _, secret := range wanted {
		if !slices.Contains(have, secret) {
			have = append(have, secret)
		}
	}
	return have
}
