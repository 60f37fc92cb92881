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
	// Nodes are those that the job chooses, sorted by name.
	Nodes []Node
	// Unknown are names of spec.selector.names that no node has, sorted.
	Unknown []string
	// Secrets are the copies of the pull secrets, in the daemon's namespace. Of spec.pullSecrets, Missing do not exist, and Unreadable may not be
	// read by the operator.
	Secrets             []appsv1beta1.ImagePullSecret
	Missing, Unreadable []string
	// NoNamespace says that the daemon's namespace is not there, so that nothing could be copied.
	NoNamespace bool
	// Uncopied is why copying failed at the last try, with the server's answer; empty when it did not.
	Uncopied string
	// Released says that no copy is held for the job any more.
	Released bool
	// Retries says which requests to nodes were refused and wait for their next try.
	Retries planning.Retries
}

// Node is a node that the job chooses.
type Node struct {
	Name string
	UID  types.UID
	// Labels are the node's, which its NodeImage has, too.
	Labels map[string]string
	// Ready says that the node's kubelet answers.
	Ready bool
	// Image is its NodeImage; nil when there is none.
	Image *NodeImage
}

// NodeImage is what the job needs to know of a NodeImage.
type NodeImage struct {
	// Meta is its metadata. Read-only.
	Meta *metav1.ObjectMeta
	// Place is where it has the job's pulls, Entry what it has there. Full says that there is room for no further one.
	Place image.Place
	Entry appsv1beta1.ImageSpec
	Full  bool
	// Status is what the node answers there.
	Status appsv1beta1.ImageStatus
}

// stage is what a node is at.
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

// nodeState is a node and what it is at.
type nodeState struct {
	*Node
	stage stage
	// since is when it was asked, silent that there was no answer at all; both only while it is active.
	since  time.Time
	silent bool
	// message is what the node says.
	message string
}

// look says what a node is at, for the job.
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

// former says that the NodeImage belongs to an earlier node of the same name: it says nothing about this one, and is collected soon.
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

// askable says that the NodeImage of a node can be written.
func (s *Spec) askable(n *Node) bool {
	return n.Image == nil || !s.full(n) && n.Image.Meta.DeletionTimestamp == nil && !n.former()
}

// full says that the NodeImage of a node has no room for the job.
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

// answer is what the node says of the job's tag.
func (s *Spec) answer(n *Node) *appsv1beta1.ImageTagStatus {
	if n.Image == nil {
		return nil
	}
	return image.Answer(n.Image.Status, s.Image.Tag)
}

func owns(tag *appsv1beta1.ImageTagSpec, job types.UID) bool {
	return slices.ContainsFunc(tag.OwnerReferences, func(o corev1.ObjectReference) bool { return o.UID == job })
}

// entry is what the NodeImage has to have of the job's repository for a node that is asked now:
//
//   - a tag that is not there is added, in a round that no status is about;
//   - a tag of other jobs of the namespace that is being pulled is shared, unless the registry has to be asked and nobody else wanted that;
//   - a tag of theirs that has ended is asked for once more, in a new round.
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
		// The job that made the tag says how long it is kept: it must not go while that needs it.
		tag.Version++
		tag.CreatedAt, tag.ImagePullPolicy = &created, s.PullPolicy
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

// roundDeadline is how long one round of a job that never completes may take, in seconds: as long as the tries that its user has asked for.
func (s *Spec) roundDeadline() int64 {
	if s.Timeout == defaultTimeout && s.Backoff == defaultBackoff {
		return neverDeadline
	}
	return max(neverDeadline, int64(s.Timeout)*int64(max(s.Backoff, 0)+1))
}

// spread is a number below limit that is another one for each node, and the same each time.
func (s *Spec) spread(n *Node, limit int) int {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(string(s.Job.UID) + "/" + n.Name)) // never fails
	return int(hash.Sum32() % uint32(limit))
}

// withSecrets adds secrets that are not there.
func withSecrets(have, wanted []appsv1beta1.ImagePullSecret) []appsv1beta1.ImagePullSecret {
	for _, secret := range wanted {
		if !slices.Contains(have, secret) {
			have = append(have, secret)
		}
	}
	return have
}
