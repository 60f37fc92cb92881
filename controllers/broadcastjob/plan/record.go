// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// Outcome is how the pod on a node has ended.
type Outcome string

// The outcomes. Unfinished is the zero value.
const (
	Unfinished Outcome = ""
	Succeeded  Outcome = "Succeeded"
	Failed     Outcome = "Failed"
)

// nodeKey stands for a node by name and UID.
type nodeKey uint64

// keyBytes is the size of a node's key in the status. Two of 5000 nodes collide once in a trillion jobs.
const keyBytes = 8

func keyOf(name string, uid types.UID) nodeKey {
	sum := sha256.Sum256([]byte(name + "/" + string(uid)))
	return nodeKey(binary.BigEndian.Uint64(sum[:keyBytes]))
}

// record is the field status.finished: the nodes done.
type record struct {
	outcomes map[nodeKey]Outcome
	// failures is how many failures there were in all.
	failures int32
}

func recordOf(stored *appsv1beta1.FinishedNodes) record {
	r := record{outcomes: map[nodeKey]Outcome{}}
	if stored == nil {
		return r
	}
	for outcome, keys := range map[Outcome][]byte{Succeeded: stored.Succeeded, Failed: stored.Failed} {
		for ; len(keys) >= keyBytes; keys = keys[keyBytes:] {
			r.outcomes[nodeKey(binary.BigEndian.Uint64(keys))] = outcome
		}
	}
	r.failures = max(stored.Failures, int32(len(stored.Failed)/keyBytes))
	return r
}

// keys renders the nodes with an outcome as the status has them.
func (r record) keys(outcome Outcome) []byte {
	var rendered []byte
	for _, key := range slices.Sorted(maps.Keys(r.outcomes)) {
		if r.outcomes[key] == outcome {
			rendered = binary.BigEndian.AppendUint64(rendered, uint64(key))
		}
	}
	return rendered
}

// Finished reports whether a job's stored status has the node as finished.
func Finished(job *appsv1beta1.BroadcastJob) func(*Node) bool {
	stored := recordOf(job.Status.Finished)
	return func(node *Node) bool { return stored.outcomes[keyOf(node.Name, node.UID)] != Unfinished }
}
