// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package realnode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/kruise-operator/kruise-operator/tests/framework/images"
)

const (
	// maxNodes is how many nodes a network can have at a time.
	maxNodes = 15

	registryPort  = 5000
	apiServerPort = 6443
	servicePort   = 443
)

// NetworkOptions describe a [Network].
type NetworkOptions struct {
	// APIServer is host and port where this process reaches the API server. It may be on loopback.
	APIServer string
	// KubernetesService is the address of the Service kubernetes in the namespace default: the first address of the
	// range of the Services. Invalid: clients in pods do not reach the API server there.
	KubernetesService netip.Addr
}

// Network connects nodes, their pods and this process. It holds the nodes' registry. Its
// methods may be called from several goroutines.
type Network struct {
	apiServer string
	plan      addressPlan
	fabric    *fabric
	registry  *images.Registry
	relays    []*relay

	mutex sync.Mutex
	used  [maxNodes + 1]bool
}

// StartNetwork makes a network. Close ends it; it also ends with this process.
func StartNetwork(ctx context.Context, options NetworkOptions) (_ *Network, err error) {
	if err := Check(); err != nil {
		return nil, err
	}
	fabric, err := newFabric(options.KubernetesService)
	if err != nil {
		return nil, fmt.Errorf("making a network for nodes: %w", err)
	}
	n := &Network{apiServer: options.APIServer, plan: addressPlan{fabric.base()}, fabric: fabric}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("making a network for nodes: %w", err), n.Close())
		}
	}()

	listener, err := fabric.listen(ctx, n.registryAddress())
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

	serve := []netip.AddrPort{n.apiServerAddress()}
	if options.KubernetesService.IsValid() {
		serve = append(serve, netip.AddrPortFrom(options.KubernetesService, servicePort))
	}
	for _, address := range serve {
		listener, err := fabric.listen(ctx, address)
		if err != nil {
			return nil, err
		}
		n.relays = append(n.relays, startRelay(listener, options.APIServer))
	}
	return n, nil
}

// Push offers an image to all nodes under a name such as "openkruise/guestbook:v1". A
// pushed name may get a new image; nodes keep pulled ones.
func (n *Network) Push(ctx context.Context, reference string, image v1.Image) error {
	return n.registry.Push(ctx, reference, image)
}

// Listen serves the registry on a further listener, for pushes over the network. Nodes find
// the images under any address.
func (n *Network) Listen(listener net.Listener) { n.registry.Listen(listener) }

// Protect lets nodes pull from a repository, such as "team/web", only with a name and a password.
func (n *Network) Protect(repository, user, password string) {
	n.registry.Protect(repository, user, password)
}

// Intercept asks between about every request of nodes for a repository, such as "team/web".
// Nil ends it.
func (n *Network) Intercept(repository string, between images.Between) {
	n.registry.Intercept(repository, between)
}

// Close ends the network. Its nodes have to be stopped before.
func (n *Network) Close() error {
	var failures []error
	for _, relay := range n.relays {
		failures = append(failures, relay.close())
	}
	if n.registry != nil {
		failures = append(failures, n.registry.Close())
	}
	return errors.Join(append(failures, n.fabric.close())...)
}

func (n *Network) registryAddress() netip.AddrPort {
	return netip.AddrPortFrom(n.plan.router(), registryPort)
}

func (n *Network) apiServerAddress() netip.AddrPort {
	return netip.AddrPortFrom(n.plan.router(), apiServerPort)
}

// attach connects the network namespace of a process and returns the number of the node.
func (n *Network) attach(pid int) (int, error) {
	node, err := n.take()
	if err != nil {
		return 0, err
	}
	if err := n.fabric.attach(pid, node); err != nil {
		n.release(node)
		return 0, fmt.Errorf("connecting to the network: %w", err)
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

// release returns the number of an ended node.
func (n *Network) release(node int) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.used[node] = false
}

// addressPlan assigns addresses from the base of a /20.
type addressPlan struct {
	base netip.Addr
}

// Within the first /24, the last byte of an address.
const (
	hostByte      = 1
	routerByte    = 2
	firstNodeByte = 10 // of node 0, which does not exist
)

func (p addressPlan) all() netip.Prefix            { return netip.PrefixFrom(p.base, 20) }
func (p addressPlan) host() netip.Addr             { return p.at(0, hostByte) }
func (p addressPlan) router() netip.Addr           { return p.at(0, routerByte) }
func (p addressPlan) node(node int) netip.Addr     { return p.at(0, firstNodeByte+node) }
func (p addressPlan) pods(node int) netip.Prefix   { return netip.PrefixFrom(p.at(node, 0), 24) }
func (addressPlan) link(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, 24) }

func (p addressPlan) at(third, last int) netip.Addr {
	bytes := p.base.As4()
	bytes[2] += byte(third)
	bytes[3] = byte(last)
	return netip.AddrFrom4(bytes)
}
