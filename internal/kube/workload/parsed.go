// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// maxParsed is how many bytes may be kept of what was parsed, by the estimate of sizeOf.
const maxParsed = 16 << 20

// Parsed keeps what is parsed of the specs of stored objects, once for each of their generations. Nobody may change it. It is safe for concurrent use.
//
// Where there is no room for all objects, some leave at random. A pass goes through all of them in the same order, so those that were not used for the
// longest time would be the next that are needed.
type Parsed[T any] struct {
	parse func(*unstructured.Unstructured) T
	mutex sync.Mutex
	known map[types.UID]parsed[T]
	size  int
}

// parsed is what was parsed of an object. It depends on its spec, and on whether it is being deleted.
type parsed[T any] struct {
	value      T
	generation int64
	deleting   bool
	size       int
}

// NewParsed returns a Parsed of what parse makes of objects.
func NewParsed[T any](parse func(*unstructured.Unstructured) T) *Parsed[T] {
	return &Parsed[T]{parse: parse, known: map[types.UID]parsed[T]{}}
}

// Of is what parse makes of an object.
func (p *Parsed[T]) Of(stored *unstructured.Unstructured) T {
	uid, generation, deleting := stored.GetUID(), stored.GetGeneration(), stored.GetDeletionTimestamp() != nil
	p.mutex.Lock()
	known, is := p.known[uid]
	p.mutex.Unlock()
	if is && known.generation == generation && known.deleting == deleting {
		return known.value
	}
	made := parsed[T]{value: p.parse(stored), generation: generation, deleting: deleting, size: sizeOf(stored.Object["spec"])}
	p.keep(uid, made)
	return made.value
}

// keep keeps what was parsed of an object, if there is room, instead of what is known of it.
func (p *Parsed[T]) keep(uid types.UID, made parsed[T]) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.size -= p.known[uid].size
	delete(p.known, uid)
	if made.size > maxParsed {
		return
	}
	for other, known := range p.known {
		if p.size+made.size <= maxParsed {
			break
		}
		p.size -= known.size
		delete(p.known, other)
	}
	p.known[uid] = made
	p.size += made.size
}

// sizeOf is about how many bytes it takes to keep a value of JSON in a type of Go. Objects count for more than they have in them: their fields that are not
// set take room as well.
func sizeOf(value any) int {
	const scalar, object = 16, 256
	switch value := value.(type) {
	case string:
		return scalar + len(value)
	case []any:
		size := scalar
		for _, item := range value {
			size += sizeOf(item)
		}
		return size
	case map[string]any:
		size := object
		for key, field := range value {
			size += scalar + len(key) + sizeOf(field)
		}
		return size
	}
	return scalar
}
