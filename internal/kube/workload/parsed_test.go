// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// counting is a Parsed of names with generation, counting its parses.
func counting() (p *Parsed[string], times *int) {
	times = new(int)
	return NewParsed(func(stored *unstructured.Unstructured) string {
		*times++
		return fmt.Sprintf("%s%d%t", stored.GetName(), stored.GetGeneration(), stored.GetDeletionTimestamp() != nil)
	}), times
}

// With more than a thousand objects each was parsed each time: by its turn it had been forgotten.
func TestManyObjectsAreParsedOnce(t *testing.T) {
	const objects = 5000
	p, times := counting()
	for range 3 {
		for i := range objects {
			name := fmt.Sprintf("game-%d", i)
			stored := selectingObject("shop", name, 1, map[string]any{"matchLabels": map[string]any{"app": name}}, nil)
			if got, want := p.Of(&stored), name+"1false"; got != want {
				t.Fatalf("%s is %s, want %s", name, got, want)
			}
		}
	}
	if *times != objects {
		t.Errorf("%d objects were parsed %d times", objects, *times)
	}
}

func TestAnotherGenerationIsParsed(t *testing.T) {
	p, times := counting()
	stored := selectingObject("shop", "game", 1, nil, nil)
	older := *stored.DeepCopy()
	for generation, want := range map[int64]string{1: "game1false", 2: "game2false"} {
		stored.SetGeneration(generation)
		if got := p.Of(&stored); got != want {
			t.Errorf("generation %d is %s, want %s", generation, got, want)
		}
	}
	if got := p.Of(&older); got != "game1false" {
		t.Errorf("generation 1 is %s", got)
	}
	deleting := *older.DeepCopy()
	deleting.SetDeletionTimestamp(&metav1.Time{Time: metav1.Now().Time})
	if got := p.Of(&deleting); got != "game1true" {
		t.Errorf("one that is being deleted is %s", got)
	}
	again := *deleting.DeepCopy()
	again.SetUID("another")
	again.SetDeletionTimestamp(nil)
	if got := p.Of(&again); got != "game1false" {
		t.Errorf("one that was created again is %s", got)
	}
	before := *times
	p.Of(&again)
	if *times != before {
		t.Error("what has not changed was parsed again")
	}
}

// A thousand objects of a megabyte each were kept, too.
func TestWhatIsParsedIsBoundInBytes(t *testing.T) {
	const objects, passes = 20, 20
	p, times := counting()
	text := strings.Repeat("x", 1<<20)
	for range passes {
		for i := range objects {
			stored := selectingObject("shop", fmt.Sprintf("game-%d", i), 1, text, nil)
			p.Of(&stored)
			size := 0
			for _, known := range p.known {
				size += known.size
			}
			if size != p.size || size > maxParsed || size < len(p.known)<<20 {
				t.Fatalf("%d objects have %d bytes, %d are counted, at most %d are allowed", len(p.known), size, p.size, maxParsed)
			}
		}
	}
	if *times > objects*passes*9/10 {
		t.Errorf("of %d uses %d had to parse", objects*passes, *times)
	}
	huge := selectingObject("shop", "huge", 1, strings.Repeat("x", maxParsed), nil)
	p.Of(&huge)
	if len(p.known) < maxParsed>>20-1 {
		t.Errorf("one that is too large for all left %d others", len(p.known))
	}
}
