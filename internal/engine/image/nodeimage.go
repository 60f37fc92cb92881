// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"time"

	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
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
