// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package subset

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"
	"time"
)

// maxReplicas is how many pods the explorations divide at most. They try every mix of three subsets of the given forms.
const maxReplicas = 6

// worlds calls see with every mix of three subsets, each of one of the forms.
func worlds(forms []Subset, see func([]Subset)) {
	for _, a := range forms {
		for _, b := range forms {
			for _, c := range forms {
				a.Name, b.Name, c.Name = "a", "b", "c"
				see([]Subset{a, b, c})
			}
		}
	}
}

// product is every combination of a fixed size or bounds with what was observed.
func product(sizes []Subset, observed []Subset) []Subset {
	var all []Subset
	for _, s := range sizes {
		for _, o := range observed {
			o.Replicas, o.Min, o.Max = s.Replicas, s.Min, s.Max
			all = append(all, o)
		}
	}
	return all
}

func boundedForms() []Subset {
	var forms []Subset
	for _, least := range []*Size{nil, Pods(1), Pods(3), Percent(50)} {
		for _, most := range []*Size{nil, Pods(0), Pods(2), Percent(40)} {
			forms = append(forms, Subset{Min: least, Max: most})
		}
	}
	return forms
}

// placed fails unless every pod has a subset or no subset may have one more, and bounds hold as far as they can.
func placed(t *testing.T, replicas int, subsets []Subset, shares Shares) {
	t.Helper()
	sum, needed, full := shares.Unplaced, 0, true
	for i, s := range subsets {
		least, most := bounds(s, replicas)
		sum += shares.Sizes[i]
		needed += least
		full = full && shares.Sizes[i] == most
		if shares.Sizes[i] < 0 || shares.Sizes[i] > most {
			t.Fatalf("%d of %d for %s, which may have %d: %s", shares.Sizes[i], replicas, s.Name, most, show(subsets))
		}
	}
	if sum != replicas || shares.Unplaced > 0 && !full {
		t.Fatalf("%d pods are divided into %+v: %s", replicas, shares, show(subsets))
	}
	for i, s := range subsets {
		if least, _ := bounds(s, replicas); needed <= replicas && shares.Sizes[i] < least {
			t.Fatalf("%d of %d for %s, which needs %d: %s", shares.Sizes[i], replicas, s.Name, least, show(subsets))
		}
	}
}

func show(subsets []Subset) string {
	text := ""
	for _, s := range subsets {
		size := func(s *Size) string {
			if s == nil {
				return "-"
			}
			return fmt.Sprintf("%+v", *s)
		}
		text += fmt.Sprintf("%s{replicas %s, min %s, max %s, present %d, scheduled %d, reserved %d, unschedulable %t} ", s.Name,
			size(s.Replicas), size(s.Min), size(s.Max), s.Present, s.Scheduled, s.Reserved, s.Unschedulable)
	}
	return text
}

func moved(from, to []int) int {
	n := 0
	for i := range from {
		n += max(to[i]-from[i], from[i]-to[i])
	}
	return n
}

func having(subsets []Subset, sizes []int) []Subset {
	after := slices.Clone(subsets)
	for i := range after {
		after[i].Present = sizes[i]
	}
	return after
}

func TestExploreFixedSizes(t *testing.T) {
	forms := []Subset{{}, {Replicas: Pods(0)}, {Replicas: Pods(1)}, {Replicas: Pods(3)}, {Replicas: Pods(5)}, {Replicas: Percent(30)}, {Replicas: Percent(50)}, {Replicas: Percent(100)}}
	worlds(forms, func(subsets []Subset) {
		numbers, open := true, 0
		for _, s := range subsets {
			numbers = numbers && (s.Replicas == nil || !s.Replicas.percent)
			if s.Replicas == nil {
				open++
			}
		}
		for from := range maxReplicas + 1 {
			first := Divide(from, subsets, Stay)
			for i, s := range subsets {
				if s.Replicas != nil && !first.Adjusted && first.Sizes[i] != s.Replicas.Of(from) {
					t.Fatalf("%d of %d for %s, and nothing is said: %s", first.Sizes[i], from, s.Name, show(subsets))
				}
			}
			present := having(subsets, first.Sizes)
			if again := Divide(from, present, Stay); !slices.Equal(first.Sizes, again.Sizes) {
				t.Fatalf("%d pods move although nothing changes: %v, then %v: %s", from, first.Sizes, again.Sizes, show(subsets))
			}
			for to := range maxReplicas + 1 {
				shares := Divide(to, present, Stay)
				sum := 0
				for _, size := range shares.Sizes {
					sum += size
				}
				if sum != to || shares.Unplaced != 0 || slices.Min(shares.Sizes) < 0 {
					t.Fatalf("%d pods are divided into %+v: %s", to, shares, show(present))
				}
				if n := moved(first.Sizes, shares.Sizes); numbers && n != max(to-from, from-to) {
					t.Fatalf("from %d to %d pods, %d are created or deleted: %v, then %v: %s", from, to, n, first.Sizes, shares.Sizes, show(present))
				}
			}
		}
	})
}

func TestExploreBounds(t *testing.T) {
	worlds(boundedForms(), func(subsets []Subset) {
		numbers := !slices.ContainsFunc(subsets, func(s Subset) bool { return s.Min != nil && s.Min.percent || s.Max != nil && s.Max.percent })
		for replicas := range maxReplicas + 1 {
			shares := Divide(replicas, subsets, Stay)
			if !slices.ContainsFunc(subsets, func(s Subset) bool { return s.Min != nil || s.Max != nil }) {
				continue
			}
			placed(t, replicas, subsets, shares)
			if again := Divide(replicas, having(subsets, shares.Sizes), Stay); !slices.Equal(shares.Sizes, again.Sizes) {
				t.Fatalf("%d pods move although nothing changes: %v, then %v: %s", replicas, shares.Sizes, again.Sizes, show(subsets))
			}
			more := Divide(replicas+1, having(subsets, shares.Sizes), Stay)
			if n := moved(shares.Sizes, more.Sizes); numbers && n != 1+shares.Unplaced-more.Unplaced {
				t.Fatalf("one pod more than %d creates or deletes %d: %v, then %v: %s", replicas, n, shares.Sizes, more.Sizes, show(subsets))
			}
		}
	})
}

// TestManySubsets is what the explorations say, for hundreds of subsets at random.
func TestManySubsets(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewSource(seed))
	size := func(most int) *Size {
		switch random.Intn(3) {
		case 0:
			return Pods(random.Intn(most))
		case 1:
			return Percent(random.Intn(101))
		}
		return nil
	}
	for range 300 {
		replicas := random.Intn(5000)
		subsets := make([]Subset, 1+random.Intn(500))
		for i := range subsets {
			subsets[i] = Subset{Name: fmt.Sprint(i), Present: random.Intn(20)}
		}
		free := Divide(replicas, subsets, Stay)
		if n := slices.Max(free.Sizes) - slices.Min(free.Sizes); n > 1 || free.Adjusted {
			t.Fatalf("equal parts of %d for %d subsets differ by %d", replicas, len(subsets), n)
		}
		placed(t, replicas, subsets, free)
		for i := range subsets {
			subsets[i].Replicas = size(40)
		}
		sum := 0
		for _, n := range Divide(replicas, subsets, Stay).Sizes {
			sum += n
		}
		if sum != replicas {
			t.Fatalf("of %d pods, %d are given: %s", replicas, sum, show(subsets))
		}
		for i := range subsets {
			subsets[i].Replicas, subsets[i].Min, subsets[i].Max = nil, size(20), size(60)
		}
		subsets[0].Min = Pods(1) // One bound at least.
		shares := Divide(replicas, subsets, Stay)
		placed(t, replicas, subsets, shares)
		if again := Divide(replicas, having(subsets, shares.Sizes), Stay); !slices.Equal(shares.Sizes, again.Sizes) {
			t.Fatalf("%d pods move although nothing changes: %s", replicas, show(subsets))
		}
	}
}

func TestExploreReschedule(t *testing.T) {
	sizes := []Subset{{}, {Min: Pods(1)}, {Max: Pods(2)}, {Min: Pods(1), Max: Pods(3)}, {Min: Percent(50)}, {Max: Percent(40)}}
	observed := []Subset{{}, {Scheduled: 2}, {Scheduled: 4}, {Unschedulable: true}, {Scheduled: 2, Unschedulable: true}}
	worlds(product(sizes, observed), func(subsets []Subset) {
		for _, replicas := range []int{0, 1, 2, 4, 6} {
			shares := Divide(replicas, subsets, Reschedule)
			placed(t, replicas, subsets, shares)
			kept, needed := make([]int, len(subsets)), 0
			free := false
			for i, s := range subsets {
				least, most := bounds(s, replicas)
				kept[i] = max(least, min(s.Scheduled, most))
				needed += kept[i]
				free = free || !s.Unschedulable && shares.Sizes[i] < most
			}
			for i, s := range subsets {
				if needed <= replicas && shares.Sizes[i] < kept[i] {
					t.Fatalf("%d of %d for %s, which would keep %d: %s", shares.Sizes[i], replicas, s.Name, kept[i], show(subsets))
				}
				if s.Unschedulable && free && shares.Sizes[i] > kept[i] {
					t.Fatalf("%d of %d wait in %s, and others have room: %v: %s", shares.Sizes[i], replicas, s.Name, shares.Sizes, show(subsets))
				}
			}
		}
	})
}

func TestExploreReserve(t *testing.T) {
	sizes := []Subset{{}, {Min: Pods(1)}, {Max: Pods(2)}, {Min: Pods(1), Max: Pods(3)}, {Max: Percent(40)}}
	observed := []Subset{{}, {Present: 3}, {Unschedulable: true}, {Present: 2, Reserved: 2, Unschedulable: true}, {Present: 3, Reserved: 1, Unschedulable: true}}
	worlds(product(sizes, observed), func(subsets []Subset) {
		for _, replicas := range []int{0, 1, 3, 6} {
			shares := Divide(replicas, subsets, Reserve)
			after, usable, waiting := slices.Clone(subsets), 0, 0
			for i, s := range subsets {
				_, most := bounds(s, replicas)
				if shares.Sizes[i] < 0 || shares.Sizes[i] > most {
					t.Fatalf("%d of %d for %s, which may have %d: %s", shares.Sizes[i], replicas, s.Name, most, show(subsets))
				}
				after[i].Present, after[i].Reserved = shares.Sizes[i], 0
				count := shares.Sizes[i]
				if s.Unschedulable {
					count = min(count, max(s.Present-s.Reserved, 0))
					after[i].Reserved = shares.Sizes[i] - count
				}
				usable += count
				waiting += after[i].Reserved
			}
			if usable > replicas || usable+waiting+shares.Unplaced < replicas {
				t.Fatalf("of %d pods, %d serve and %d wait: %v: %s", replicas, usable, waiting, shares, show(subsets))
			}
			// The pods that wait do not grow in number, however often the subsets are looked at.
			if again := Divide(replicas, after, Reserve); !slices.Equal(shares.Sizes, again.Sizes) {
				t.Fatalf("%d pods move although nothing changes: %v, then %v: %s", replicas, shares.Sizes, again.Sizes, show(subsets))
			}
		}
	})
}
