// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const (
	// maxNetworks is how many networks this machine can have at a time: the /20 in 198.18.0.0/15.
	maxNetworks = 32

	// Names of interfaces. The first is on this machine, followed by the number of the network.
	machinePrefix = "kruisenet"
	uplink        = "machine" // its other end, in the router
	bridgeName    = "nodes"   // the bridge in the router
	nodePrefix    = "node"    // the router's end of the link to a node, followed by its number
	nodeLink      = "eth0"    // the node's end
)

// fabric is a network's wiring: the routing namespace, and the links to it.
type fabric struct {
	router netns.NsHandle
	number int // of the network on this machine
}

// newFabric connects this machine to a new router, which also has the given address if
// valid.
func newFabric(service netip.Addr) (_ *fabric, err error) {
	router, err := newNamespace()
	if err != nil {
		return nil, fmt.Errorf("making the router: %w", err)
	}
	f := &fabric{router: router, number: -1}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
		}
	}()
	if err := f.connectMachine(); err != nil {
		return nil, err
	}
	if err := inNamespace(router, func(handle *netlink.Handle) error { return f.setUpRouter(handle, service) }); err != nil {
		return nil, fmt.Errorf("setting up the router: %w", err)
	}
	return f, nil
}

// base is the first address of the network.
func (f *fabric) base() netip.Addr {
	// A /20 is 16 in the third byte; 16 of them fill a second byte.
	const perByte = 16
	return netip.AddrFrom4([4]byte{198, byte(18 + f.number/perByte), byte(f.number % perByte * perByte), 0})
}

func (f *fabric) plan() addressPlan { return addressPlan{f.base()} }

// interfaceName is the name of the interface on this machine.
func (f *fabric) interfaceName() string { return machinePrefix + strconv.Itoa(f.number) }

// connectMachine takes a free address range and links this machine to the router. The name of the interface is the claim
// on the range: the kernel lets only one process have it, and takes it back with the router.
func (f *fabric) connectMachine() error {
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return fmt.Errorf("listing the routes of this machine: %w", err)
	}
	for number := range maxNetworks {
		f.number = number
		// The range may be somebody else's, such as a private network's.
		if slices.ContainsFunc(routes, func(route netlink.Route) bool { return overlaps(route, f.plan().all()) }) {
			continue
		}
		link := &netlink.Veth{
			LinkAttrs: named(f.interfaceName()), PeerName: uplink, PeerNamespace: netlink.NsFd(f.router),
		}
		err = netlink.LinkAdd(link)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			f.number = -1
			return fmt.Errorf("making the interface %s: %w", link.Name, err)
		}
		if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: ipNet(f.plan().link(f.plan().host()))}); err != nil {
			return fmt.Errorf("giving %s its address: %w", link.Name, err)
		}
		if err := netlink.LinkSetUp(link); err != nil {
			return fmt.Errorf("bringing %s up: %w", link.Name, err)
		}
		if err := netlink.RouteAdd(&netlink.Route{Dst: ipNet(f.plan().all()), Gw: ip(f.plan().router())}); err != nil {
			return fmt.Errorf("routing to the pods: %w", err)
		}
		return nil
	}
	f.number = -1
	return fmt.Errorf("all %d address ranges are in use: see the interfaces %s* and the routes of this machine", maxNetworks, machinePrefix)
}

// overlaps is true if a route, other than the default, leads into the range.
func overlaps(route netlink.Route, prefix netip.Prefix) bool {
	if route.Dst == nil {
		return false
	}
	address, valid := netip.AddrFromSlice(route.Dst.IP)
	bits, _ := route.Dst.Mask.Size()
	return valid && bits > 0 && prefix.Overlaps(netip.PrefixFrom(address.Unmap(), bits))
}

// setUpRouter makes the router forward between this machine, nodes and pods, and gives it its addresses.
func (f *fabric) setUpRouter(handle *netlink.Handle, service netip.Addr) error {
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return err
	}
	bridge := &netlink.Bridge{LinkAttrs: named(bridgeName)}
	if err := handle.LinkAdd(bridge); err != nil {
		return err
	}
	addresses := []netip.Prefix{f.plan().link(f.plan().router())}
	if service.IsValid() {
		addresses = append(addresses, netip.PrefixFrom(service, service.BitLen()))
	}
	for _, address := range addresses {
		if err := handle.AddrAdd(bridge, &netlink.Addr{IPNet: ipNet(address)}); err != nil {
			return err
		}
	}
	machine, err := handle.LinkByName(uplink)
	if err != nil {
		return err
	}
	if err := handle.LinkSetMaster(machine, bridge); err != nil {
		return err
	}
	return up(handle, "lo", bridgeName, uplink)
}

// attach links the network namespace of a process to the router, as the node with the given number.
func (f *fabric) attach(pid, node int) error {
	inside, err := netns.GetFromPid(pid)
	if err != nil {
		return fmt.Errorf("opening the network namespace of the node: %w", err)
	}
	defer func() { _ = inside.Close() }()

	err = inNamespace(f.router, func(handle *netlink.Handle) error {
		bridge, err := handle.LinkByName(bridgeName)
		if err != nil {
			return err
		}
		name := nodePrefix + strconv.Itoa(node)
		// The kernel may still be removing an earlier node's link of this number.
		if err := removeLink(handle, name); err != nil {
			return err
		}
		attributes := named(name)
		attributes.MasterIndex = bridge.Attrs().Index
		link := &netlink.Veth{LinkAttrs: attributes, PeerName: nodeLink, PeerNamespace: netlink.NsFd(inside)}
		if err := handle.LinkAdd(link); err != nil {
			return err
		}
		if err := up(handle, name); err != nil {
			return err
		}
		return handle.RouteReplace(&netlink.Route{Dst: ipNet(f.plan().pods(node)), Gw: ip(f.plan().node(node))})
	})
	if err != nil {
		return fmt.Errorf("linking the router to node %d: %w", node, err)
	}
	err = inNamespace(inside, func(handle *netlink.Handle) error {
		link, err := handle.LinkByName(nodeLink)
		if err != nil {
			return err
		}
		if err := handle.AddrAdd(link, &netlink.Addr{IPNet: ipNet(f.plan().link(f.plan().node(node)))}); err != nil {
			return err
		}
		if err := up(handle, "lo", nodeLink); err != nil {
			return err
		}
		return handle.RouteAdd(&netlink.Route{Gw: ip(f.plan().router())})
	})
	if err != nil {
		return fmt.Errorf("giving node %d its address: %w", node, err)
	}
	return nil
}

// listen opens a port in the router. The connections are served by this process.
func (f *fabric) listen(ctx context.Context, address netip.AddrPort) (listener net.Listener, err error) {
	err = inNamespace(f.router, func(*netlink.Handle) (err error) {
		var config net.ListenConfig
		listener, err = config.Listen(ctx, "tcp", address.String())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listening on %s in the router: %w", address, err)
	}
	return listener, nil
}

// close removes the link to this machine and gives the router up.
func (f *fabric) close() error {
	var failures []error
	if f.number >= 0 {
		// It would go with the router, but in the background; after close it has to be gone.
		handle, err := netlink.NewHandle()
		if err == nil {
			err = removeLink(handle, f.interfaceName())
			handle.Close()
		}
		failures = append(failures, err)
	}
	return errors.Join(append(failures, f.router.Close())...)
}

// newNamespace makes a network namespace; it lives while its handle is open or a socket or
// process uses it.
func newNamespace() (netns.NsHandle, error) {
	runtime.LockOSThread()
	before, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return netns.None(), err
	}
	defer func() { _ = before.Close() }()
	made, err := netns.New()
	if err != nil {
		runtime.UnlockOSThread()
		return netns.None(), err
	}
	// A thread that cannot go back stays locked, so the runtime discards it with its
	// goroutine.
	if err := netns.Set(before); err != nil {
		return netns.None(), errors.Join(err, made.Close())
	}
	runtime.UnlockOSThread()
	return made, nil
}

// inNamespace calls act on a thread in the network namespace, with a handle to it.
func inNamespace(namespace netns.NsHandle, act func(*netlink.Handle) error) error {
	runtime.LockOSThread()
	before, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer func() { _ = before.Close() }()
	if err := netns.Set(namespace); err != nil {
		runtime.UnlockOSThread()
		return err
	}
	handle, err := netlink.NewHandle()
	if err == nil {
		err = act(handle)
		handle.Close()
	}
	if back := netns.Set(before); back != nil {
		return errors.Join(err, back) // stays locked, see newNamespace
	}
	runtime.UnlockOSThread()
	return err
}

// named are the attributes of a link with only a name.
func named(name string) netlink.LinkAttrs {
	attributes := netlink.NewLinkAttrs()
	attributes.Name = name
	return attributes
}

// up brings interfaces up, in order.
func up(handle *netlink.Handle, names ...string) error {
	for _, name := range names {
		link, err := handle.LinkByName(name)
		if err != nil {
			return fmt.Errorf("finding interface %s: %w", name, err)
		}
		if err := handle.LinkSetUp(link); err != nil {
			return fmt.Errorf("bringing interface %s up: %w", name, err)
		}
	}
	return nil
}

// removeLink removes an interface if it exists.
func removeLink(handle *netlink.Handle, name string) error {
	link, err := handle.LinkByName(name)
	var missing netlink.LinkNotFoundError
	if errors.As(err, &missing) {
		return nil
	}
	if err == nil {
		err = handle.LinkDel(link)
	}
	// It may be on its way out already.
	if err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("removing interface %s: %w", name, err)
	}
	return nil
}

func ip(address netip.Addr) net.IP { return address.AsSlice() }

func ipNet(prefix netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: ip(prefix.Addr()), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())}
}
