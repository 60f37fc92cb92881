// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"slices"
	"time"

	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// Count fills in the counters of a status, by the tags that the spec has.
func Count(image *v1beta1.NodeImage, status *v1beta1.NodeImageStatus) {
	status.Desired, status.Succeeded, status.Failed, status.Pulling, status.Waiting = 0, 0, 0, 0, 0
	for repository, entry := range image.Spec.Images {
		for i := range entry.Tags {
			status.Desired++
			answer := Answer(status.ImageStatuses[repository], entry.Tags[i].Tag, entry.Tags[i].Namespace)
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

// Answer is what a node says of a tag of a namespace; nil when it says nothing. A daemon of v0.4.0 leaves the namespace out.
func Answer(of v1beta1.ImageStatus, tag, namespace string) *v1beta1.ImageTagStatus {
	for _, name := range []string{namespace, ""} {
		at := slices.IndexFunc(of.Tags, func(t v1beta1.ImageTagStatus) bool { return t.Tag == tag && t.Namespace == name })
		if at >= 0 {
			return &of.Tags[at]
		}
	}
	return nil
}

// Crowded says that a namespace that uses mine of all taken places may take no further one, of most: each may use as many as it leaves free, so that there is
// always room for one that uses less.
func Crowded(mine, all, most int) bool { return mine >= most-all }

// NoDeadline is the deadline of a tag without one, and of one whose deadline is longer.
const NoDeadline = 10 * 365 * 24 * time.Hour

// Policy are the settings of a tag with what is left out, or cannot be, filled in: 600 seconds for one try, 3 more tries, and NoDeadline for all.
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
