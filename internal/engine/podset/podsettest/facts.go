// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podsettest

import (
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// Facts remembers what is derived of pods, which is most of the time of a step: an exploration meets the same few pods in all its states.
// The zero value is ready for use.
type Facts[W comparable] struct {
	mu    sync.RWMutex
	known map[factsOf[W]]podset.Pod
	asked atomic.Int64
}

type factsOf[W comparable] struct {
	set W
	pod *corev1.Pod
}

// Of are the facts about the pods of the state. observe derives them; it must look at one pod at a time, which is checked now and then.
func (f *Facts[W]) Of(w *State[W], observe func([]*corev1.Pod) []podset.Pod) []podset.Pod {
	const often = 256
	facts := make([]podset.Pod, 0, len(w.Pods))
	f.mu.RLock()
	for _, pod := range w.Pods {
		if fact, found := f.known[factsOf[W]{w.Set, pod}]; found {
			facts = append(facts, fact)
		}
	}
	f.mu.RUnlock()
	if len(facts) == len(w.Pods) && f.asked.Add(1)%often != 0 {
		return facts
	}
	all := observe(w.Pods)
	if len(facts) == len(all) && !reflect.DeepEqual(facts, all) {
		panic(fmt.Sprintf("the facts about pods depend on more than each pod:\n%+v\n%+v", facts, all))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known == nil {
		f.known = map[factsOf[W]]podset.Pod{}
	}
	for i := range all {
		f.known[factsOf[W]{w.Set, all[i].Object}] = all[i]
	}
	return all
}
