// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package operatorconfig

import (
	"slices"
	"strings"
)

// Replica is a process of the operator, as its pod shows it.
type Replica struct {
	Name string
	// Configuration is its configuration's hash.
	Configuration string
	Leads, Ready  bool
}

// ahead names the replicas to take over the wanted configuration before this one: standbys by name, then the
// leader. A replica about to end waits until they serve again.
func ahead(all []Replica, self string, leads bool, step Step) (names []string) {
	for _, replica := range all {
		mine := replica.Name == self
		follows := !leads && (replica.Leads || replica.Name > self)
		done := replica.Configuration == step.Wanted && (replica.Ready || step.Current)
		if !mine && !follows && !done {
			names = append(names, replica.Name)
		}
	}
	slices.SortFunc(names, strings.Compare)
	return names
}
