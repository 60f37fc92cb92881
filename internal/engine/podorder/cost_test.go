// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podorder

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/internal/engine/podset/podsettest"
)

// All pods were sorted for each topology spread constraint of the template.
func TestManyConstraintsSortThePodsOnce(t *testing.T) {
	pods := make([]*corev1.Pod, 2000)
	for i := range pods {
		pods[i] = &corev1.Pod{Spec: corev1.PodSpec{NodeName: fmt.Sprint("n", i%500)}}
	}
	spread := Spread{Domain: func(node, _ string) string { return node[len(node)-1:] }}
	for i := range 200 {
		spread.Constraints = append(spread.Constraints, corev1.TopologySpreadConstraint{TopologyKey: fmt.Sprint("zone-", i)})
	}
	podsettest.Cost(t, 5<<20, func() {
		ForDeletion(pods, pods, func(pod *corev1.Pod) Victim { return Victim{Object: pod} }, spread)
	})
}
