// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podorder

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

// pod reads "name key=value key=value".
func pod(text string) *corev1.Pod {
	fields := strings.Fields(text)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fields[0], Labels: map[string]string{}}}
	for _, label := range fields[1:] {
		key, value, _ := strings.Cut(label, "=")
		p.Labels[key] = value
	}
	return p
}

func podsOf(texts ...string) []*corev1.Pod {
	var all []*corev1.Pod
	for _, text := range texts {
		all = append(all, pod(text))
	}
	return all
}

func itself(p *corev1.Pod) *corev1.Pod { return p }

func names(pods []*corev1.Pod) string {
	var all []string
	for _, p := range pods {
		all = append(all, p.Name)
	}
	return strings.Join(all, " ")
}

func weight(w int32, key, value string) shared.UpdatePriorityWeightTerm {
	return shared.UpdatePriorityWeightTerm{Weight: w, MatchSelector: metav1.LabelSelector{MatchLabels: map[string]string{key: value}}}
}

func byWeights(terms ...shared.UpdatePriorityWeightTerm) UpdateOrder {
	return UpdateOrder{Priority: &shared.UpdatePriorityStrategy{WeightPriority: terms}}
}

func byKeys(keys ...string) UpdateOrder {
	strategy := &shared.UpdatePriorityStrategy{}
	for _, key := range keys {
		strategy.OrderPriority = append(strategy.OrderPriority, shared.UpdatePriorityOrderTerm{OrderedKey: key})
	}
	return UpdateOrder{Priority: strategy}
}

func TestForUpdateByPriority(t *testing.T) {
	cases := map[string]struct {
		pods  []*corev1.Pod
		order UpdateOrder
		want  string
	}{
		"without a wish the order stays": {
			pods: podsOf("c", "a", "b"), want: "c a b",
		},
		"with an empty strategy the order stays": {
			pods: podsOf("c", "a", "b"), order: byKeys(), want: "c a b",
		},
		"the larger weight comes first": {
			pods: podsOf("a", "b tier=web", "c tier=db"), order: byWeights(weight(10, "tier", "web"), weight(20, "tier", "db")), want: "c b a",
		},
		"weights of all matching terms add up": {
			pods:  podsOf("a tier=db", "b tier=web zone=x"),
			order: byWeights(weight(20, "tier", "db"), weight(15, "tier", "web"), weight(10, "zone", "x")), want: "b a",
		},
		"equal weights keep the order": {
			pods: podsOf("b tier=web", "x", "a tier=web", "y"), order: byWeights(weight(10, "tier", "web")), want: "b a x y",
		},
		"the first key that a pod has is its level": {
			pods: podsOf("a second=1", "b first=1 second=9"), order: byKeys("first", "second"), want: "b a",
		},
		"pods with none of the keys come before all others": {
			pods: podsOf("a first=9", "b", "c second=9"), order: byKeys("first", "second"), want: "b a c",
		},
		"inside a level the larger trailing number comes first": {
			pods: podsOf("a k=sts-9", "b k=sts-10", "c k=sts-2"), order: byKeys("k"), want: "b a c",
		},
		"a value without a number counts as zero": {
			pods: podsOf("a k=x", "b k=1", "c k=0"), order: byKeys("k"), want: "b a c",
		},
		"leading zeros do not make a number larger": {
			pods: podsOf("a k=v-009", "b k=v-10"), order: byKeys("k"), want: "b a",
		},
		"numbers of any length are compared as numbers": {
			pods: podsOf("a k=99999999999999999999999", "b k=100000000000000000000000"), order: byKeys("k"), want: "b a",
		},
		"equal numbers keep the order": {
			pods: podsOf("b k=y-1", "a k=x-1"), order: byKeys("k"), want: "b a",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := names(tc.pods)
			got, err := ForUpdate(tc.pods, tc.pods, itself, tc.order)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, names(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if names(tc.pods) != before {
				t.Error("the given pods were reordered")
			}
		})
	}
}

func TestForUpdateRefuses(t *testing.T) {
	both := byKeys("k")
	both.Priority.WeightPriority = []shared.UpdatePriorityWeightTerm{weight(1, "a", "b")}
	broken := byWeights(weight(1, "a", "b"), shared.UpdatePriorityWeightTerm{MatchSelector: metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}},
	}})
	for name, tc := range map[string]struct {
		order UpdateOrder
		want  string
	}{
		"both lists":        {both, "exclude each other"},
		"a broken selector": {broken, "weightPriority 1"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := ForUpdate(podsOf("a"), nil, itself, tc.order); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want something with %q", err, tc.want)
			}
		})
	}
}

// row makes pods from letters, in order: each letter is the value of label k.
func row(letters string) []*corev1.Pod {
	var all []*corev1.Pod
	for i, letter := range letters {
		all = append(all, pod(fmt.Sprintf("p%d k=%c %c=yes", i, letter, letter)))
	}
	return all
}

func letters(pods []*corev1.Pod) string {
	text := ""
	for _, p := range pods {
		text += p.Labels["k"]
	}
	return text
}

func TestForUpdateScatters(t *testing.T) {
	m := shared.UpdateScatterTerm{Key: "k", Value: "m"}
	n := shared.UpdateScatterTerm{Key: "k", Value: "n"}
	cases := map[string]struct {
		waiting, updated string
		terms            []shared.UpdateScatterTerm
		want             string
	}{
		"three among ten are first, sixth and last": {
			waiting: "mmmooooooo", terms: []shared.UpdateScatterTerm{m}, want: "moooomooom",
		},
		"where they come from does not matter": {
			waiting: "ooooooommm", terms: []shared.UpdateScatterTerm{m}, want: "moooomooom",
		},
		"two are first and last": {
			waiting: "mmooo", terms: []shared.UpdateScatterTerm{m}, want: "mooom",
		},
		"one is not spread": {
			waiting: "moooo", terms: []shared.UpdateScatterTerm{m}, want: "moooo",
		},
		"the last of several is held back further": {
			waiting: "mooo", updated: "mmooo", terms: []shared.UpdateScatterTerm{m}, want: "ooom",
		},
		"one other pod is nothing to spread over": {
			waiting: "mmmmo", terms: []shared.UpdateScatterTerm{m}, want: "mmmmo",
		},
		"many among few take turns in groups": {
			waiting: "mmmmmmmoo", terms: []shared.UpdateScatterTerm{m}, want: "mmmommmom",
		},
		"leftovers come before the last": {
			waiting: "mmmmooooooo", terms: []shared.UpdateScatterTerm{m}, want: "moomoomooom",
		},
		"nobody matches": {
			waiting: "ooooo", terms: []shared.UpdateScatterTerm{m}, want: "ooooo",
		},
		"others catch up first when more matching pods were updated": {
			waiting: "mmmooooooo", updated: "mmm", terms: []shared.UpdateScatterTerm{m}, want: "ooooomomom",
		},
		"the share among all pods is the same": {
			waiting: "mmoo", updated: "mmoo", terms: []shared.UpdateScatterTerm{m}, want: "moom",
		},
		"with two terms the rarer one is applied last": {
			waiting: "mmmmnnoooo", terms: []shared.UpdateScatterTerm{n, m}, want: "nmmoomoomn",
		},
		"no terms": {waiting: "mmoo", want: "mmoo"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			waiting := row(tc.waiting)
			got, err := ForUpdate(waiting, append(row(tc.updated), waiting...), itself, UpdateOrder{Scatter: tc.terms})
			if err != nil {
				t.Fatal(err)
			}
			if letters(got) != tc.want {
				t.Errorf("got %s, want %s", letters(got), tc.want)
			}
		})
	}
}

// The order is made again for what is left after each update, so what was held back has to be held back again.
func TestScatteringHoldsThroughoutARollout(t *testing.T) {
	m := UpdateOrder{Scatter: []shared.UpdateScatterTerm{{Key: "k", Value: "m"}}}
	for all, want := range map[string]string{
		"mmmooooooo": "mooomoooom",
		"mmooo":      "mooom",
		"moooo":      "moooo",
		"mmo":        "mom",
	} {
		waiting, updated := row(all), ""
		for len(waiting) > 0 {
			ordered, err := ForUpdate(waiting, row(all), itself, m)
			if err != nil {
				t.Fatal(err)
			}
			updated += letters(ordered[:1])
			waiting = ordered[1:]
		}
		if updated != want {
			t.Errorf("%s is updated in the order %s, want %s", all, updated, want)
		}
	}
}

func TestScatteringLosesNobody(t *testing.T) {
	m := []shared.UpdateScatterTerm{{Key: "k", Value: "m"}}
	for matching := range 9 {
		for others := range 9 {
			for updated := range 4 {
				waiting := row(strings.Repeat("m", matching) + strings.Repeat("o", others))
				all := append(row(strings.Repeat("m", updated)+strings.Repeat("o", 3-updated)), waiting...)
				got, err := ForUpdate(waiting, all, itself, UpdateOrder{Scatter: m})
				if err != nil {
					t.Fatal(err)
				}
				seen := map[string]bool{}
				for _, p := range got {
					seen[p.Name] = true
				}
				if len(got) != matching+others || len(seen) != matching+others {
					t.Errorf("%d matching, %d others, %d updated: got %s", matching, others, updated, letters(got))
				}
			}
		}
	}
}

func TestByActivity(t *testing.T) {
	pods := []Victim{
		victim("restful"), victim("old", born(-5)), victim("restarted", restarts(3)), victim("fresh", readySince(9)),
		victim("unready", notReady), victim("pending", phase(corev1.PodPending)), victim("nowhere", onNode("")),
		victim("dear", cost("9")),
	}
	ordered := ByActivity(pods, func(v Victim) Victim { return v })
	if got, want := victimNames(ordered), "nowhere pending unready fresh restarted restful dear old"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
