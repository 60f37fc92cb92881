// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podstate

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestInfrastructureIsNotTheProgram(t *testing.T) {
	target := []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "TerminationByKubelet"}}
	past := []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionFalse}}
	cases := map[string]struct {
		status corev1.PodStatus
		want   bool
	}{
		"its program ended with an error":         {corev1.PodStatus{Phase: corev1.PodFailed}, false},
		"it was active for too long":              {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "DeadlineExceeded"}, false},
		"it is the target of a disruption":        {corev1.PodStatus{Phase: corev1.PodFailed, Conditions: target}, true},
		"it was to be one, and was not":           {corev1.PodStatus{Phase: corev1.PodFailed, Conditions: past}, false},
		"it still runs":                           {corev1.PodStatus{Phase: corev1.PodRunning, Conditions: target}, false},
		"it succeeded in time":                    {corev1.PodStatus{Phase: corev1.PodSucceeded, Conditions: target}, false},
		"its node had too little memory":          {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on resource: memory."}, true},
		"it used more storage than its own limit": {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi."}, false},
		"its node shut down":                      {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Terminated", Message: "Pod was terminated in response to imminent node shutdown."}, true},
		"its node was shutting down":              {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "NodeShutdown"}, true},
		"its node made room for a critical pod":   {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Preempting"}, true},
		"its node was full when it came":          {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfcpu"}, true},
		"no NUMA node had room for it":            {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "TopologyAffinityError"}, true},
		"its port of the node was taken":          {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "NodePorts"}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Disrupted(&corev1.Pod{Status: tc.status}); got != tc.want {
				t.Errorf("disrupted: %v, want %v", got, tc.want)
			}
		})
	}
}
