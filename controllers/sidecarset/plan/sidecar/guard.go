// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// BeyondPolicy is the name of the match condition of a webhook entry that gets only the pods which the policy leaves.
const BeyondPolicy = "beyond-the-policy"

// Guard says into which pods the policy can inject, where it cannot do so into all. It depends only on fields that the author of a pod wrote and
// that no injection changes, so that the policy and the webhook, which comes later, decide alike.
type Guard struct {
	// Merged are annotations into which values are merged. An expression cannot read JSON: it sets what is not there.
	Merged []Merged `json:"merged"`
	// Token says that the name of the volume with the pod's token decides: the only thing by chance that an expression sees.
	Token bool `json:"token"`
	// Containers is how many containers and native sidecars of its own a pod may have for the resources that are computed from them; 0: any number.
	Containers int `json:"containers,omitempty"`
	// Bounds are how much a pod's own containers may have for what sidecars take from them; nil: any number.
	Bounds *Bounds `json:"bounds,omitempty"`
}

// Merged is the value of one annotation.
type Merged struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Bounds are numbers over all containers of a pod that are not sidecars. The API server limits what an expression may cost.
type Bounds struct {
	Mounts       int `json:"mounts"`
	SubPathExprs int `json:"subPathExprs"`
	Env          int `json:"env"`
	Devices      int `json:"devices"`
}

const (
	// tokenDraws is how many values three random characters have.
	tokenDraws = 27 * 27 * 27
	// tokenAlphabet is what the API server takes random characters from.
	tokenAlphabet = "bcdfghjklmnpqrstvwxz2456789"
	// tokenPattern is the name of the volume with a pod's token.
	tokenPattern = "^" + tokenPrefix + "[" + tokenAlphabet + "]{5}$"

	// maxMounts and the others bound Bounds. maxShared bounds mounts by sidecars that share them.
	// maxCompared bounds comparisons of variables.
	maxMounts, maxSubPathExprs, maxEnv, maxDevices, maxShared, maxCompared = 400, 60, 800, 60, 2000, 200_000

	// maxCost is what the most expensive expression for computed resources may cost, in the units of the API server, which allows a million. The others are what
	// parts of such expressions were measured to cost at most: of a container of the pod for each sidecar, without the match of its name, and for each
	// amount; of an amount and of one of its steps for each level.
	maxCost, costOfTarget, costOfAmount, costOfLevel, costOfStep = 800_000, 45, 30, 40, 60
)

// costOfMatch is what matching one name of a container costs at most: a tenth of its characters times a fourth of those of the expression.
func costOfMatch(regex string) int { return 7 * (len(regex)/4 + 1) }

// computing says what computing resources costs: for each container of the pod, and the most expensive level of steps, whatever the pod has.
func (v Variant) computing() (forEach, level int) {
	targets, amounts, levels := 0, 0, make([]int, maxLevels)
	for _, c := range slices.Concat(v.Containers, v.InitContainers) {
		if c.Resources == nil {
			continue
		}
		targets += costOfTarget + costOfMatch(c.Resources.Regex)
		for _, a := range c.Resources.Amounts {
			amounts += costOfAmount
			for at := range levels {
				levels[at] += costOfLevel
				if at < len(a.Levels) {
					levels[at] += costOfStep * len(a.Levels[at])
				}
			}
		}
	}
	return max(targets, amounts), slices.Max(levels)
}

var tokenVolume = regexp.MustCompile(tokenPattern)

// tokenDraw is a number below tokenDraws that the name of the volume with the pod's token gives, if there is one.
func tokenDraw(pod map[string]any) (int32, bool) {
	spec, _ := pod["spec"].(map[string]any)
	for _, volume := range listOf(spec, "volumes") {
		if name := nameOf(volume); tokenVolume.MatchString(name) {
			draw := int32(0)
			for _, c := range strings.TrimPrefix(name, tokenPrefix)[:3] {
				draw = draw*int32(len(tokenAlphabet)) + int32(strings.IndexRune(tokenAlphabet, c))
			}
			return draw, true
		}
	}
	return 0, false
}

// IsToken says whether a volume is the one with the pod's token.
func IsToken(volume corev1.Volume) bool { return tokenVolume.MatchString(volume.Name) }

// maxMerged is how long the values of annotations that are merged into may be together, as the condition of a webhook entry has them: the API server
// takes no expression of more than 100 000 characters.
const maxMerged = 50_000

// merged are the annotations that are merged into; a fault says why the policy cannot have a part in it.
func (i Injection) merged() (all []Merged, fault string) {
	all = []Merged{}
	length := 0
	for at, v := range i.Variants {
		known := map[string]string{}
		for _, p := range v.Patches {
			if p.Policy != MergePatchJSON {
				continue
			}
			if p.meets {
				return all, "into an annotation that another set merges into"
			}
			if _, twice := known[p.Key]; twice {
				return all, "into one annotation twice"
			}
			known[p.Key] = p.Value
			if at == 0 {
				all = append(all, Merged{Key: p.Key, Value: p.Value})
				length += len(quoted(p.Key)) + len(quoted(p.Value))
			}
			if length > maxMerged {
				return all, fmt.Sprintf("of more than %d characters in all", maxMerged)
			}
		}
		differs := len(known) != len(all)
		for _, m := range all {
			value, has := known[m.Key]
			differs = differs || !has || value != m.Value
		}
		if differs {
			return all, "of values that differ between two revisions"
		}
	}
	return all, ""
}

// guard is nil where the policy can inject into every pod.
func (i Injection) guard() *Guard {
	g := &Guard{}
	g.Merged, _ = i.merged()
	takers, variables, transfers := 0, 0, 0
	for _, v := range i.Variants {
		g.Token = g.Token || v.Percent != nil
		n := 0
		for _, containers := range [][]Container{v.Containers, v.InitContainers} {
			for _, c := range containers {
				if c.takes() {
					n++
				}
				names := 0
				for _, t := range c.Transfers {
					names += len(t.Names)
				}
				variables, transfers = max(variables, names), max(transfers, len(c.Transfers))
			}
		}
		takers = max(takers, n)
	}
	if takers > 0 {
		g.Bounds = &Bounds{Mounts: min(maxMounts, maxShared/takers), SubPathExprs: maxSubPathExprs, Env: maxEnv, Devices: maxDevices}
		// Each variable that is copied is compared with those before it.
		if most := max(int(math.Sqrt(float64(maxCompared/takers)))-maxSubPathExprs, 1); variables > most {
			g.Bounds.Env = min(maxEnv, most/transfers)
		}
	}
	for _, v := range i.Variants {
		if forEach, _ := v.computing(); forEach*maxContainers > maxCost {
			most := max(maxCost/forEach, 1)
			g.Containers = min(most, cmp.Or(g.Containers, most))
		}
	}
	if len(g.Merged) == 0 && !g.Token && g.Containers == 0 && g.Bounds == nil {
		return nil
	}
	return g
}

// Words say which pods the policy leaves.
func (g Guard) Words() []string {
	var words []string
	for _, m := range g.Merged {
		words = append(words, "that have a value of their own in annotation "+m.Key)
	}
	if g.Token {
		words = append(words, "without the volume of a token, whose name decides which share of the pods they belong to")
	}
	if g.Containers > 0 {
		words = append(words, fmt.Sprintf("of more than %d containers, from which resources are computed", g.Containers))
	}
	if b := g.Bounds; b != nil {
		words = append(words, fmt.Sprintf("of more than %d volume mounts, %d of them with subPathExpr, %d variables or %d devices", b.Mounts, b.SubPathExprs, b.Env, b.Devices))
	}
	return words
}

// marked says of a container c that it is a sidecar, and own are the containers of a pod that are none, as expressions.
const (
	marked = `c.?env.orValue([]).exists(e, e.name == 'IS_INJECTED' && e.?value.orValue('') == 'true')`
	own    = `object.spec.containers.filter(c, !` + marked + `)`
)

// beyond is an expression that holds for the pods that the policy leaves, and for those that prove the webhook. The policy has the same
// under the name served.
func (g Guard) beyond() string {
	var served []string
	for _, m := range g.Merged {
		served = append(served, fmt.Sprintf("object.metadata.?annotations[?%s].orValue('') in ['', %s]", quoted(m.Key), quoted(m.Value)))
	}
	if g.Token {
		served = append(served, fmt.Sprintf("object.spec.?volumes.orValue([]).exists(v, v.name.matches('%s'))", tokenPattern))
	}
	if g.Containers > 0 {
		natives := "object.spec.?initContainers.orValue([]).filter(c, c.?restartPolicy.orValue('') == 'Always' && !" + marked + ")"
		served = append(served, fmt.Sprintf("%s.size() + %s.size() <= %d", own, natives, g.Containers))
	}
	if b := g.Bounds; b != nil {
		var within []string
		for _, one := range []struct {
			each  string
			limit int
		}{
			{"c.?volumeMounts.orValue([]).size()", b.Mounts},
			{"c.?volumeMounts.orValue([]).filter(m, m.?subPathExpr.orValue('') != '').size()", b.SubPathExprs},
			{"c.?env.orValue([]).size()", b.Env}, {"c.?volumeDevices.orValue([]).size()", b.Devices},
		} {
			within = append(within, fmt.Sprintf("own.map(c, %s).sum() <= %d", one.each, one.limit))
		}
		// A list of one is how an expression gives a name to what it needs more than once.
		served = append(served, fmt.Sprintf("[%s].all(own, %s)", own, strings.Join(within, " && ")))
	}
	return fmt.Sprintf("object.metadata.?labels[?'%s'].orValue('') == '%s' || !(%s)", ProofLabel, ProofWebhook, strings.Join(served, " && "))
}
