// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package realnode

import (
	"net/netip"
	"slices"
	"testing"
)

func TestAddressesOfNetworkAreDistinct(t *testing.T) {
	plan := addressPlan{netip.MustParseAddr("198.19.240.0")}
	single := []netip.Addr{plan.host(), plan.router()}
	ranges := []netip.Prefix{plan.link(plan.host())}
	for node := 1; node <= maxNodes; node++ {
		single = append(single, plan.node(node))
		ranges = append(ranges, plan.pods(node))
	}
	for i, address := range single {
		if !ranges[0].Contains(address) || slices.Contains(single[:i], address) {
			t.Errorf("%s is not an address of its own in %s", address, ranges[0])
		}
	}
	for i, prefix := range ranges {
		if !plan.all().Overlaps(prefix) || prefix.Bits() <= plan.all().Bits() {
			t.Errorf("%s is not within %s", prefix, plan.all())
		}
		for _, other := range ranges[:i] {
			if prefix.Overlaps(other) {
				t.Errorf("%s and %s overlap", prefix, other)
			}
		}
	}
}

func TestUnavailableErrorNamesEverythingMissing(t *testing.T) {
	err := &UnavailableError{
		Reasons: []string{"the user is not root"}, Programs: []string{"runc", "ctr"}, Packages: []string{"containerd", "runc"},
	}
	const want = "no real node can run here: the user is not root; " +
		"not installed: runc, ctr (apt-get install --no-install-recommends containerd runc)"
	if err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
	for _, needed := range requirements() {
		if !slices.Contains(DebianPackages(), needed.pkg) {
			t.Errorf("no package brings %s", needed.program)
		}
	}
}
