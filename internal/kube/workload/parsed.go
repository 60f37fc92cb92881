// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
)

// maxParsed is of how many objects it is kept what was parsed. Others are parsed each time.
const maxParsed = 1000

// Parsed keeps what is parsed of the specs of stored objects, once for each of their generations. Nobody may change it. The zero value has nothing. It is
// safe for concurrent use.
type Parsed[T any] struct {
	once  sync.Once
	known *lru.Cache
}

// generationOf is a key for what depends on the spec of an object, and on whether it is being deleted.
type generationOf struct {
	uid        types.UID
	generation int64
	deleting   bool
}

// Of is what parse makes of an object.
func (p *Parsed[T]) Of(stored *unstructured.Unstructured, parse func(*unstructured.Unstructured) T) T {
	p.once.Do(func() { p.known = lru.New(maxParsed) })
	key := generationOf{stored.GetUID(), stored.GetGeneration(), stored.GetDeletionTimestamp() != nil}
	if known, is := p.known.Get(key); is {
		parsed, _ := known.(T)
		return parsed
	}
	parsed := parse(stored)
	p.known.Add(key, parsed)
	return parsed
}
