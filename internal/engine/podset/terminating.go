// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podset

import (
	"fmt"
	"time"

	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
)

// endTimeout is how long after its grace period a terminating pod may exist before it is named.
const endTimeout = 30 * time.Second

// StillTerminating returns a note with the pods still terminating endTimeout after their grace period:
// something waits for them, and their node may need the user. Its message is empty when there are none. in is
// above zero when time alone could change that.
func StillTerminating(pods []Pod, reason string, now time.Time) (note planning.Note, in time.Duration) {
	var terminating []*Pod
	for i := range pods {
		if pods[i].Object.DeletionTimestamp == nil {
			continue
		}
		left := pods[i].Object.DeletionTimestamp.Add(endTimeout).Sub(now)
		switch {
		case left <= 0:
			terminating = append(terminating, &pods[i])
		case in == 0 || left < in:
			in = left
		}
	}
	if len(terminating) == 0 {
		return planning.Note{}, in
	}
	verb := "is"
	if len(terminating) > 1 {
		verb = "are"
	}
	return planning.Note{
		Reason: reason,
		Message: fmt.Sprintf("%s %s still terminating %s after the grace period: a node does not answer, or a finalizer holds a pod",
			List(names(terminating)), verb, endTimeout),
	}, in
}
