// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/kruise-operator/kruise-operator/tests/framework/images"
)

const (
	// maxNetworks is how many networks this machine can have at a time, maxNodes how many nodes each.
	maxNetworks = 32
	maxNodes    = 15

	interfacePrefix = "kruisenet"
	routerBridge    = "nodes"
	registryPort    = 5000
	apiServerPort   = 6443
)

// NetworkOptions describe a [Network].
type NetworkOptions struct {
	// APIServer is host and port where this process reaches the API server. It may be on loopback.
	APIServer string
	// KubernetesService is the address of the Service kubernetes in the namespace default: the first address of the
	// range of the Services. Invalid: clients in pods get no API server there.
	KubernetesService netip.Addr
}

// Network connects nodes, their pods and this process. It holds the registry that the nodes pull from.
type Network struct {
	base      netip.Addr // first address of the /20
	router    netns.NsHandle
	apiServer string
	registry  *images.Registry
	closers   []io.Closer
	wait      sync.WaitGroup

	mutex sync.Mutex
	used  [maxNodes + 1]bool
}

// StartNetwork makes a network. Close ends it; it also ends with this process.
func StartNetwork(ctx context.Context, options NetworkOptions) (_ *Network, err error) {
	if err := Check(); err != nil {
		return nil, err
	}
	n := &Network{router: netns.None(), apiServer: options.APIServer}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close())
		}
	}()

	if n.router, err = newNamespace(); err != nil {
		return nil, fmt.Errorf("making the router: %w", err)
	}
	if err := n.connect(); err != nil {
		return nil, err
	}
	if err := n.wireRouter(options.KubernetesService); err != nil {
		return nil, fmt.Errorf("wiring the router: %w", err)
	}

	listener, err := n.listen(n.routerAddress(), registryPort)
	if err != nil {
		return nil, err
	}
	n.registry = images.Serve(listener)
	pause, err := images.Build(ctx, images.Pause())
	if err != nil {
		return nil, err
	}
	if err := n.registry.Push(ctx, pauseImage, pause); err != nil {
		return nil, err
	}

	if err := n.forward(options.APIServer, n.routerAddress(), apiServerPort); err != nil {
		return nil, err
	}
	if options.KubernetesService.IsValid() {
		return n, n.forward(options.APIServer, options.KubernetesService, 443)
	}
	return n, nil
}

// Push makes an image available to all nodes under a name such as "openkruise/guestbook:v1". A name
// that was pushed before now means the new image; nodes that have pulled it keep what they have.
func (n *Network) Push(ctx context.Context, reference string, image v1.Image) error {
	return n.registry.Push(ctx, reference, image)
}

// Host is the address of this machine in the network.
func (n *Network) Host() netip.Addr { return n.address(0, 1) }

// Close ends the network. Its nodes have to be stopped before.
func (n *Network) Close() error {
	var failures []error
	for _, closer := range n.closers {
		failures = append(failures, closer.Close())
	}
	n.wait.Wait()
	if n.registry != nil {
		failures = append(failures, n.registry.Close())
	}
	if n.router.IsOpen() {
		// The namespace goes in the background with its last user; the interface on this side has to be gone on return.
		if n.base.IsValid() {
			failures = append(failures, removeLink(n.interfaceName()))
		}
		failures = append(failures, n.router.Close())
	}
	return errors.Join(failures...)
}

func removeLink(name string) error {
	link, err := netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err == nil {
		err = netlink.LinkDel(link)
	}
	if err != nil {
		return fmt.Errorf("removing interface %s: %w", name, err)
	}
	return nil
}

// address is one address of the network by its last two bytes; the third byte counts from the base.
func (n *Network) address(third, last int) netip.Addr {
	bytes := n.base.As4()
	bytes[2] += byte(third)
	bytes[3] = byte(last)
	return netip.AddrFrom4(bytes)
}

func (n *Network) routerAddress() netip.Addr            { return n.address(0, 2) }
func (n *Network) nodeAddress(node int) netip.Addr      { return n.address(0, 10+node) }
func (n *Network) podRange(node int) netip.Prefix       { return netip.PrefixFrom(n.address(node, 0), 24) }
func (n *Network) nodeRange(host netip.Addr) *net.IPNet { return ipNet(netip.PrefixFrom(host, 24)) }
func (n *Network) interfaceName() string                { return interfacePrefix + strconv.Itoa(n.number()) }

// number is the place of the network among the /20 of 198.18.0.0/15.
func (n *Network) number() int {
	bytes := n.base.As4()
	return int(bytes[1]-18)<<4 | int(bytes[2])>>4
}

// connect takes a free address range and links this machine to the router. The name of the interface is the claim
// on the range: the kernel lets only one process have it.
func (n *Network) connect() error {
	for number := range maxNetworks {
		n.base = netip.AddrFrom4([4]byte{198, byte(18 + number>>4), byte(number << 4), 0})
		attributes := netlink.NewLinkAttrs()
		attributes.Name = n.interfaceName()
		host := &netlink.Veth{LinkAttrs: attributes, PeerName: "machine", PeerNamespace: netlink.NsFd(n.router)}
		err := netlink.LinkAdd(host)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err != nil {
			n.base = netip.Addr{}
			return fmt.Errorf("making the interface %s: %w", attributes.Name, err)
		}
		if err := netlink.AddrAdd(host, &netlink.Addr{IPNet: n.nodeRange(n.Host())}); err != nil {
			return fmt.Errorf("giving %s its address: %w", attributes.Name, err)
		}
		if err := netlink.LinkSetUp(host); err != nil {
			return fmt.Errorf("bringing %s up: %w", attributes.Name, err)
		}
		if err := netlink.RouteAdd(&netlink.Route{
			Dst: ipNet(netip.PrefixFrom(n.base, 20)), Gw: ip(n.routerAddress()),
		}); err != nil {
			return fmt.Errorf("routing to the pods: %w", err)
		}
		return nil
	}
	n.base = netip.Addr{}
	return fmt.Errorf("all %d address ranges for networks of nodes are in use: remove interfaces named %s* that nobody needs",
		maxNetworks, interfacePrefix)
}

// wireRouter makes the router forward between this machine, nodes and pods, and gives it its addresses.
func (n *Network) wireRouter(kubernetes netip.Addr) error {
	return inNamespace(n.router, func(handle *netlink.Handle) error {
		if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
			return err
		}
		if err := up(handle, "lo"); err != nil {
			return err
		}
		attributes := netlink.NewLinkAttrs()
		attributes.Name = routerBridge
		bridge := &netlink.Bridge{LinkAttrs: attributes}
		if err := handle.LinkAdd(bridge); err != nil {
			return err
		}
		if err := handle.AddrAdd(bridge, &netlink.Addr{IPNet: n.nodeRange(n.routerAddress())}); err != nil {
			return err
		}
		if kubernetes.IsValid() {
			if err := handle.AddrAdd(bridge, &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(kubernetes, 32))}); err != nil {
				return err
			}
		}
		if err := handle.LinkSetUp(bridge); err != nil {
			return err
		}
		machine, err := handle.LinkByName("machine")
		if err != nil {
			return err
		}
		if err := handle.LinkSetMaster(machine, bridge); err != nil {
			return err
		}
		return handle.LinkSetUp(machine)
	})
}

// attach connects the network namespace of a process to the router and returns the number of the node.
func (n *Network) attach(pid int) (node int, err error) {
	node, err = n.take()
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			n.release(node)
		}
	}()
	inside, err := netns.GetFromPid(pid)
	if err != nil {
		return 0, fmt.Errorf("opening the network namespace of the node: %w", err)
	}
	defer inside.Close()

	err = inNamespace(n.router, func(handle *netlink.Handle) error {
		bridge, err := handle.LinkByName(routerBridge)
		if err != nil {
			return err
		}
		attributes := netlink.NewLinkAttrs()
		attributes.Name = "node" + strconv.Itoa(node)
		// A node that has just ended may still be on its way out with its end of the link.
		if stale, err := handle.LinkByName(attributes.Name); err == nil {
			if err := handle.LinkDel(stale); err != nil {
				return err
			}
		}
		attributes.MasterIndex = bridge.Attrs().Index
		link := &netlink.Veth{LinkAttrs: attributes, PeerName: "eth0", PeerNamespace: netlink.NsFd(inside)}
		if err := handle.LinkAdd(link); err != nil {
			return err
		}
		if err := handle.LinkSetUp(link); err != nil {
			return err
		}
		return handle.RouteReplace(&netlink.Route{Dst: ipNet(n.podRange(node)), Gw: ip(n.nodeAddress(node))})
	})
	if err != nil {
		return 0, fmt.Errorf("linking node %d to the router: %w", node, err)
	}
	err = inNamespace(inside, func(handle *netlink.Handle) error {
		if err := up(handle, "lo"); err != nil {
			return err
		}
		eth0, err := handle.LinkByName("eth0")
		if err != nil {
			return err
		}
		if err := handle.AddrAdd(eth0, &netlink.Addr{IPNet: n.nodeRange(n.nodeAddress(node))}); err != nil {
			return err
		}
		if err := handle.LinkSetUp(eth0); err != nil {
			return err
		}
		return handle.RouteAdd(&netlink.Route{Gw: ip(n.routerAddress())})
	})
	if err != nil {
		return 0, fmt.Errorf("giving node %d its address: %w", node, err)
	}
	return node, nil
}

// take reserves a number for a node.
func (n *Network) take() (int, error) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	for node := 1; node <= maxNodes; node++ {
		if !n.used[node] {
			n.used[node] = true
			return node, nil
		}
	}
	return 0, fmt.Errorf("the network has %d nodes already, which is its limit", maxNodes)
}

// release gives the number of a node that has ended back.
func (n *Network) release(node int) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.used[node] = false
}

// listen opens a port in the router.
func (n *Network) listen(address netip.Addr, port int) (listener net.Listener, err error) {
	at := netip.AddrPortFrom(address, uint16(port)).String()
	err = inNamespace(n.router, func(*netlink.Handle) (err error) {
		listener, err = net.Listen("tcp", at)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listening on %s in the router: %w", at, err)
	}
	return listener, nil
}

// forward passes connections to a port of the router on to a server that this process reaches.
func (n *Network) forward(target string, address netip.Addr, port int) error {
	listener, err := n.listen(address, port)
	if err != nil {
		return err
	}
	relay := &relay{listener: listener, target: target, open: map[net.Conn]struct{}{}}
	n.closers = append(n.closers, relay)
	n.wait.Go(relay.run)
	return nil
}

// newNamespace makes a network namespace that lives as long as its handle is open or a socket or process uses it.
func newNamespace() (netns.NsHandle, error) {
	runtime.LockOSThread()
	before, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return netns.None(), err
	}
	defer before.Close()
	made, err := netns.New()
	if err != nil {
		runtime.UnlockOSThread()
		return netns.None(), err
	}
	// A thread that cannot go back stays locked, so that the runtime discards it with its goroutine.
	if err := netns.Set(before); err != nil {
		return netns.None(), errors.Join(err, made.Close())
	}
	runtime.UnlockOSThread()
	return made, nil
}

// inNamespace calls act on a thread that is in the network namespace, with a handle to it.
func inNamespace(namespace netns.NsHandle, act func(*netlink.Handle) error) error {
	runtime.LockOSThread()
	before, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer before.Close()
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

func up(handle *netlink.Handle, name string) error {
	link, err := handle.LinkByName(name)
	if err != nil {
		return err
	}
	return handle.LinkSetUp(link)
}

func ip(address netip.Addr) net.IP { return address.AsSlice() }

func ipNet(prefix netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: ip(prefix.Addr()), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())}
}
