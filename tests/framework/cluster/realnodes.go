// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/binaries"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/realnode"
)

// realNodes are a cluster's real nodes and their network.
type realNodes struct {
	mutex   sync.Mutex
	network *realnode.Network // nil until somebody asks for it
	nodes   []*realnode.Node
}

// startRealNodes starts the options' nodes in parallel.
func (c *Cluster) startRealNodes(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for number := 1; number <= c.options.RealNodes; number++ {
		group.Go(func() error {
			_, err := c.AddRealNode(ctx, realnode.Options{Name: fmt.Sprintf("node-%d", number)})
			return err
		})
	}
	return group.Wait()
}

// NodeNetwork returns the network of the real nodes, to push images to it. It is made at the first call and ends with the cluster.
func (c *Cluster) NodeNetwork(ctx context.Context) (*realnode.Network, error) {
	c.nodes.mutex.Lock()
	defer c.nodes.mutex.Unlock()
	if c.nodes.network != nil {
		return c.nodes.network, nil
	}
	service, err := netip.ParseAddr(firstServiceIP)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the Service kubernetes: %w", err)
	}
	network, err := realnode.StartNetwork(ctx, realnode.NetworkOptions{
		APIServer:         strings.TrimPrefix(c.APIServerURL(), "https://"),
		KubernetesService: service,
	})
	if err != nil {
		return nil, err
	}
	c.nodes.network = network
	c.OnStop(c.stopRealNodes)
	return network, nil
}

// AddRealNode starts a real node and returns when it is ready. Name has to be set; Network, Authority, KubeletPath and LogDir are the
// cluster's where they are left out. The node ends with the cluster at the latest.
func (c *Cluster) AddRealNode(ctx context.Context, options realnode.Options) (*realnode.Node, error) {
	if err := realnode.Check(); err != nil {
		return nil, err
	}
	if options.Network == nil {
		network, err := c.NodeNetwork(ctx)
		if err != nil {
			return nil, err
		}
		options.Network = network
	}
	if options.KubeletPath == "" {
		set, err := binaries.Ensure(ctx, binaries.Options{Version: c.Version(), Progress: c.options.Progress}, binaries.Kubelet)
		if err != nil {
			return nil, err
		}
		options.KubeletPath = set.Path(binaries.Kubelet)
	}
	if options.Authority == nil {
		options.Authority = c.PKI()
	}
	if options.LogDir == "" {
		options.LogDir = c.logDir
	}
	options.KubeletArgs = slices.Concat(c.options.extraFlags(Kubelet), options.KubeletArgs)

	node, err := realnode.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	c.nodes.mutex.Lock()
	defer c.nodes.mutex.Unlock()
	c.nodes.nodes = append(c.nodes.nodes, node)
	return node, nil
}

// RealNodes returns the started real nodes, by name, including stopped ones.
func (c *Cluster) RealNodes() []*realnode.Node {
	c.nodes.mutex.Lock()
	defer c.nodes.mutex.Unlock()
	return slices.SortedFunc(slices.Values(c.nodes.nodes), func(a, b *realnode.Node) int {
		return strings.Compare(a.Name(), b.Name())
	})
}

// stopRealNodes ends all real nodes at the same time, then their network.
func (c *Cluster) stopRealNodes() error {
	nodes := c.RealNodes()
	var group errgroup.Group
	failures := make([]error, len(nodes))
	for i, node := range nodes {
		group.Go(func() error {
			failures[i] = node.Stop()
			return nil
		})
	}
	_ = group.Wait()
	return errors.Join(append(failures, c.nodes.network.Close())...)
}
