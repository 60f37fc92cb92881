// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package recreate

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/restart"
)

// times are since when this node knows a request, and since when its pod is out of service;
// zero if it is not. By this node's clock.
type times struct{ known, held time.Time }

// clocks are the times of the requests for the pods of the node, by the UID of the request. The zero value is ready for use.
type clocks struct {
	mutex sync.Mutex
	pods  map[types.NamespacedName]map[types.UID]times
}

// note notes all requests for a pod and returns their times. It forgets missing ones.
func (k *clocks) note(pod types.NamespacedName, all []*appsv1beta1.ContainerRecreateRequest, now time.Time) map[types.UID]times {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	before := k.pods[pod]
	if len(all) == 0 {
		delete(k.pods, pod)
		return nil
	}
	requests := make(map[types.UID]times, len(all))
	for _, request := range all {
		of, seen := before[request.UID]
		if !seen {
			of.known = now
		}
		if of.held.IsZero() && !restart.HeldSince(request).IsZero() {
			of.held = now
		}
		requests[request.UID] = of
	}
	if k.pods == nil {
		k.pods = map[types.NamespacedName]map[types.UID]times{}
	}
	k.pods[pod] = requests
	return requests
}
