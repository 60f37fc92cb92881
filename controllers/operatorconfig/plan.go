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
	// Configuration is the hash of what it runs with.
	Configuration string
	Leads, Ready  bool
}

// ahead are the replicas, by name, that take over the wanted configuration before this one: all others go before the leader, and standbys go by name.
// Who has to end itself waits until they serve again.
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
