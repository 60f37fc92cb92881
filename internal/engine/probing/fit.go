// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package probing

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
)

const (
	// maxPods and maxProbes are how many pods a NodePodProbe has, and how many probes of one pod: the schema takes no more.
	maxPods   = 1024
	maxProbes = 256
	// maxBytes is the length limit of the list of pods, as JSON and with results but for their
	// messages: half of an API server's object.
	maxBytes = 768 << 10
	// maxMessages is how long the messages and errors of all results may be, as JSON.
	maxMessages = 512 << 10
	// resultSize is how long a result is at most, as JSON, but for the name of its probe, its message and its error.
	resultSize = 160
)

// Fit is the part of a list for one NodePodProbe: the server would refuse a longer one as a whole,
// for every namespace. full are the namespaces with something left out, sorted.
//
//  1. a pod has 256 probes, the first ones;
//  2. there are 1024 pods. Each namespace has its share, for its first pods;
//  3. the list has 768 KiB, results without messages included. Each namespace has its share: probes
//     of the list before come first, by known, then the others, each in the order of the list. A
//     probe too large is left out.
//
// To fit the result again changes nothing, so no pod comes and goes.
func Fit(list []appsv1alpha1.PodProbe, known func(pod *appsv1alpha1.PodProbe, probe string) bool) (fits []appsv1alpha1.PodProbe, full []string) {
	f := fitting{list: list, left: map[string]bool{}}
	f.limitPods()
	f.limitProbes()
	f.limitBytes(known)
	return f.list, slices.Sorted(maps.Keys(f.left))
}

// fitting is a list in the making. It shares the probes of the list, and writes none of them.
type fitting struct {
	list []appsv1alpha1.PodProbe
	// left are the namespaces with something left out.
	left map[string]bool
}

func (f *fitting) limitPods() {
	wanted := map[string]int{}
	for i := range f.list {
		wanted[f.list[i].Namespace]++
	}
	room := shares(wanted, maxPods)
	var list []appsv1alpha1.PodProbe
	for i := range f.list {
		namespace := f.list[i].Namespace
		if room[namespace] == 0 {
			f.left[namespace] = true
			continue
		}
		room[namespace]--
		list = append(list, f.list[i])
	}
	f.list = list
}

func (f *fitting) limitProbes() {
	for i := range f.list {
		if entry := &f.list[i]; len(entry.Probes) > maxProbes {
			f.left[entry.Namespace] = true
			entry.Probes = entry.Probes[:maxProbes]
		}
	}
}

func (f *fitting) limitBytes(known func(pod *appsv1alpha1.PodProbe, probe string) bool) {
	heads, sizes := make([]int, len(f.list)), make([][]int, len(f.list))
	wanted, total := map[string]int{}, 0
	for i := range f.list {
		entry := &f.list[i]
		sum := headSize(entry)
		heads[i] = sum
		for j := range entry.Probes {
			size := sizeOf(&entry.Probes[j]) + resultSize + len(entry.Probes[j].Name)
			sizes[i] = append(sizes[i], size)
			sum += size
		}
		wanted[entry.Namespace] += sum
		total += sum
	}
	if total <= maxBytes {
		return
	}
	room := shares(wanted, maxBytes)
	taken := make([]map[int]bool, len(f.list))
	take := func(before bool) {
		for i := range f.list {
			entry := &f.list[i]
			for j := range entry.Probes {
				if known(entry, entry.Probes[j].Name) != before {
					continue
				}
				cost := sizes[i][j]
				if taken[i] == nil {
					cost += heads[i]
				}
				if cost > room[entry.Namespace] {
					f.left[entry.Namespace] = true
					continue
				}
				room[entry.Namespace] -= cost
				if taken[i] == nil {
					taken[i] = map[int]bool{}
				}
				taken[i][j] = true
			}
		}
	}
	take(true)
	take(false)
	var list []appsv1alpha1.PodProbe
	for i := range f.list {
		if taken[i] == nil {
			continue
		}
		entry := f.list[i]
		entry.Probes = nil
		for j := range f.list[i].Probes {
			if taken[i][j] {
				entry.Probes = append(entry.Probes, f.list[i].Probes[j])
			}
		}
		list = append(list, entry)
	}
	f.list = list
}

// shares divides a limit among namespaces by what each asks: a request up to an equal share is granted
// whole, and the others divide the rest in the same way.
func shares(wanted map[string]int, limit int) map[string]int {
	namespaces := slices.SortedFunc(maps.Keys(wanted), func(a, b string) int {
		return cmp.Or(cmp.Compare(wanted[a], wanted[b]), strings.Compare(a, b))
	})
	of := make(map[string]int, len(wanted))
	for i, namespace := range namespaces {
		of[namespace] = min(wanted[namespace], limit/(len(namespaces)-i))
		limit -= of[namespace]
	}
	return of
}

// headSize is how long a pod is in the list without its probes, and in the status without its results, as JSON, with the commas.
func headSize(pod *appsv1alpha1.PodProbe) int {
	head := *pod
	head.Probes = nil
	return 2 * (sizeOf(head) + len(`"probeStates":[],`))
}

// FitMessages shortens messages and errors of results beyond the limit: the server would refuse the
// results of all pods. All are cut to the same length, the longest fitting power of two. It writes
// to results.
func FitMessages(results []appsv1alpha1.PodProbeStatus) {
	for most := maxMessage; most > 0 && messagesSize(results) > maxMessages; {
		most /= 2
		eachText(results, func(text *string) { *text = clip(*text, most) })
	}
}

func messagesSize(results []appsv1alpha1.PodProbeStatus) (size int) {
	eachText(results, func(text *string) {
		if *text != "" {
			size += sizeOf(*text) + len(`"message":`)
		}
	})
	return size
}

func eachText(results []appsv1alpha1.PodProbeStatus, do func(text *string)) {
	for i := range results {
		for j := range results[i].ProbeStates {
			do(&results[i].ProbeStates[j].Message)
			do(&results[i].ProbeStates[j].Error)
		}
	}
}

// sizeOf is how long something is as JSON, with the comma.
func sizeOf(part any) int {
	// Strings, numbers and API types can always be rendered.
	body, _ := json.Marshal(part)
	return len(body) + 1
}

// LeftOut is the annotation of a NodePodProbe without all probes of these namespaces, or empty.
func LeftOut(full []string) string { return strings.Join(full, ",") }

// HasLeftOut says that a NodePodProbe with these annotations lacks probes of a namespace.
func HasLeftOut(annotations map[string]string, namespace string) bool {
	return slices.Contains(strings.Split(annotations[appsv1alpha1.AnnotationProbesLeftOut], ","), namespace)
}
