// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// maxParsed limits kept parsed values, in bytes, by the estimate of sizeOf.
const maxParsed = 16 << 20

// Parsed keeps parsed specs of stored objects, one for each generation. They are read-only.
// It is safe for concurrent use.
//
// Without room for all, random objects leave. A pass goes through all in the same order, so
// the least recently used would be needed next.
type Parsed[T any] struct {
	parse func(*unstructured.Unstructured) T
	mutex sync.Mutex
	known map[types.UID]parsed[T]
	size  int
}

// parsed depends on an object's spec, and on its deletion.
type parsed[T any] struct {
	value      T
	generation int64
	deleting   bool
	size       int
}

// NewParsed returns a Parsed with the parser.
func NewParsed[T any](parse func(*unstructured.Unstructured) T) *Parsed[T] {
	return &Parsed[T]{parse: parse, known: map[types.UID]parsed[T]{}}
}

// Of is an object as parsed.
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

// keep keeps a parsed object, if there is room, instead of its earlier one.
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

// sizeOf estimates the bytes of a JSON value in a Go type. Objects count for more than
// their content: unset fields take room as well.
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
