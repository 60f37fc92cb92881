// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package simnode

import (
	"fmt"
	"net/netip"
	"sync"
)

// addresses gives out addresses of a prefix, in order, each to one holder at a time. A returned address is given out
// again only after all others, as observers may still know it.
type addresses struct {
	prefix netip.Prefix

	mu   sync.Mutex
	last netip.Addr
	used map[netip.Addr]bool
}

func newAddresses(prefix netip.Prefix) *addresses {
	prefix = prefix.Masked()
	return &addresses{prefix: prefix, last: prefix.Addr(), used: map[netip.Addr]bool{prefix.Addr(): true}}
}

func (a *addresses) take() (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for next := a.last.Next(); ; next = next.Next() {
		if !a.prefix.Contains(next) {
			next = a.prefix.Addr()
		}
		if !a.used[next] {
			a.used[next], a.last = true, next
			return next.String(), nil
		}
		if next == a.last {
			return "", fmt.Errorf("no free address in %s", a.prefix)
		}
	}
}

// claim marks a pod's existing address as used.
func (a *addresses) claim(ip string) {
	if addr, err := netip.ParseAddr(ip); err == nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.used[addr] = true
	}
}

func (a *addresses) release(ip string) {
	if addr, err := netip.ParseAddr(ip); err == nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.used, addr)
	}
}
