// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"math"
	"slices"
)

// Limits bound the pod's own containers if sidecars copy from them. The API
// server bounds an expression's cost, so the policy refuses larger pods.
type Limits struct {
	Containers   int `json:"containers"`
	Mounts       int `json:"mounts"`
	SubPathExprs int `json:"subPathExprs"`
	Env          int `json:"env"`
	Devices      int `json:"devices"`
}

const (
	// maxMounts and the next three bound Limits. maxShared bounds
	// mounts by sharing sidecars, maxCompared comparisons of variables.
	maxMounts, maxSubPathExprs, maxEnv, maxDevices, maxShared, maxCompared = 400, 60, 800, 60, 2000, 200_000

	// fewContainers is the least the policy must serve. More expensive sets use the webhook.
	fewContainers = 50

	// maxCost bounds an expression; the API server allows a million. The rest were measured:
	// a container for each sidecar and each amount, an amount and a step for each level.
	maxCost, costOfTarget, costOfAmount, costOfLevel, costOfStep = 800_000, 45, 30, 40, 60
)

// costOfMatch bounds the cost of matching one container name: a
// tenth of its characters times a fourth of the expression's.
func costOfMatch(regex string) int { return 7 * (len(regex)/4 + 1) }

// computing returns the cost of resources: for each container of the pod, and of the most expensive level of steps.
func (v Variant) computing() (forEach, level int) {
	targets, amounts, levels := 0, 0, make([]int, maxLevels)
	for _, c := range v.sidecars() {
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

// containers is from how many containers the policy can compute resources.
func (v Variant) containers() int {
	forEach, _ := v.computing()
	return min(maxContainers, maxCost/max(forEach, 1))
}

// limits is nil where every pod is served.
func (i Injection) limits() *Limits {
	l := &Limits{Containers: maxContainers, Mounts: math.MaxInt32, SubPathExprs: math.MaxInt32, Env: math.MaxInt32, Devices: math.MaxInt32}
	none := *l
	takers, variables, transfers := 0, 0, 0
	for _, v := range i.Variants {
		l.Containers = min(l.Containers, v.containers())
		n := 0
		for _, c := range v.sidecars() {
			if c.takes() {
				n++
			}
			names := 0
			for _, t := range c.Transfers {
				names += len(t.Names)
			}
			variables, transfers = max(variables, names), max(transfers, len(c.Transfers))
		}
		takers = max(takers, n)
	}
	if takers > 0 {
		l.Mounts, l.SubPathExprs, l.Env, l.Devices = min(maxMounts, maxShared/takers), maxSubPathExprs, maxEnv, maxDevices
		// Each copied variable is compared with those before it.
		if most := max(int(math.Sqrt(float64(maxCompared/takers)))-maxSubPathExprs, 1); variables > most {
			l.Env = min(maxEnv, most/transfers)
		}
	}
	if *l == none {
		return nil
	}
	return l
}
