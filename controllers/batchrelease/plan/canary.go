// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import "slices"

// Canary is a Deployment beside a Deployment. It has the new pods until the release ends.
type Canary struct {
	// Name is empty while there is none with the present template.
	Name string
	// Replicas is its size, Ready are its pods that are ready.
	Replicas, Ready int
	// Others are canary Deployments with other templates.
	Others []string
}

// move takes the canary Deployment to a size. It never gets smaller in a release.
func (c *Canary) move(desired int) Act {
	none := 0
	switch {
	case len(c.Others) > 0:
		return Act{Drop: c.Others}
	case c.Name == "":
		return Act{Size: &none}
	case c.Replicas < desired:
		return Act{Size: &desired}
	}
	return Act{}
}

// drop deletes canary Deployments with other templates, or all, and says whether there are any.
func (p *pass) drop(all bool) bool {
	if p.Canary == nil {
		return false
	}
	p.Act.Drop = slices.Clone(p.Canary.Others)
	if all && p.Canary.Name != "" {
		p.Act.Drop = append(p.Act.Drop, p.Canary.Name)
	}
	p.Moving = p.Moving || len(p.Act.Drop) > 0
	return len(p.Act.Drop) > 0
}

// needed: the canary's pods serve while the workload itself rolls to their version. They give way where room for its pods is missing.
func (p *pass) needed() bool {
	w, c := p.Workload, p.Canary
	return c != nil && c.Ready > 0 && w.Revision != p.Status.StableRevision && !p.keeps() && !p.rolled() && (w.Rolling == nil || !w.Rolling.Refused)
}
