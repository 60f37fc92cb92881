// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package realnode

import (
	"context"
	"net"
	"net/netip"
	"syscall"
)

// Nothing here is ever reached: Check refuses every system but Linux before. It lets the suites compile elsewhere.

func newNamespaces() *syscall.SysProcAttr { return nil }

func cgroupsAreV2() (bool, error) { return false, Check() }

func onOverlay(string) bool { return false }

type fabric struct{}

func newFabric(netip.Addr) (*fabric, error) { return nil, Check() }

func (*fabric) base() netip.Addr { return netip.Addr{} }

func (*fabric) listen(context.Context, netip.AddrPort) (net.Listener, error) { return nil, Check() }

func (*fabric) attach(int, int) error { return Check() }

func (*fabric) close() error { return nil }
