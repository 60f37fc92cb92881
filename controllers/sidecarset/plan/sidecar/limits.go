// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar

import "math"

// Limits bound the pod's own containers if sidecars copy from them. The API
// server bounds an expression's cost, so the policy refuses larger pods.
type Limits struct {
	Mounts       int `json:"mounts"`
	SubPathExprs int `json:"subPathExprs"`
	Env          int `json:"env"`
	Devices      int `json:"devices"`
}

const (
	// maxMounts and the next three bound Limits. maxShared bounds
	// mounts by sharing sidecars, maxCompared comparisons of variables.
	maxMounts, maxSubPathExprs, maxEnv, maxDevices, maxShared, maxCompared = 400, 60, 800, 60, 2000, 200_000
)

// limits is nil where every pod is served.
func (i Injection) limits() *Limits {
	takers, variables, transfers := 0, 0, 0
	for _, v := range i.Variants {
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
	if takers == 0 {
		return nil
	}
	l := &Limits{Mounts: min(maxMounts, maxShared/takers), SubPathExprs: maxSubPathExprs, Env: maxEnv, Devices: maxDevices}
	// Each copied variable is compared with those before it.
	if most := max(int(math.Sqrt(float64(maxCompared/takers)))-maxSubPathExprs, 1); variables > most {
		l.Env = min(maxEnv, most/transfers)
	}
	return l
}
