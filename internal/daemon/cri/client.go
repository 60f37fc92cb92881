// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// longestMessage is the limit of one answer, in bytes: a node with many containers has long lists.
	longestMessage = 16 << 20
	// longestOutput is the limit of what a command in a container may write, in bytes. Commands are users', many run at the same time, and the daemon has
	// little memory.
	longestOutput = 1 << 20
	// probing is how long one socket may take to answer while a runtime is looked for.
	probing = 5 * time.Second
)

// Sockets are where runtimes listen by default, below the folder into which /run of the node is mounted, in the order in which they are
// tried.
func Sockets(run string) []string {
	var sockets []string
	for _, name := range []string{
		"containerd/containerd.sock", "containerd.sock", "crio/crio.sock", "crio.sock", "cri-dockerd/cri-dockerd.sock", "cri-dockerd.sock",
		"k3s/containerd/containerd.sock",
	} {
		sockets = append(sockets, run+"/"+name)
	}
	return sockets
}

// Client is the Runtime that listens on a socket of the node. It connects with the first request.
type Client struct {
	sockets  []string
	requests *prometheus.CounterVec
	up       *prometheus.GaugeVec

	mu   sync.Mutex
	link *link // nil while there is none
}

// link is a connection to a runtime that has answered.
type link struct {
	connection    *grpc.ClientConn
	runtime       runtimev1.RuntimeServiceClient
	images        runtimev1.ImageServiceClient
	name, version string
}

// New returns a client of the first runtime that answers on one of the sockets. Its metrics go to registry.
func New(sockets []string, registry prometheus.Registerer) (*Client, error) {
	c := &Client{
		sockets: sockets,
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kruise_daemon_cri_requests_total", Help: "Requests to the container runtime, by method and result.",
		}, []string{"method", "code"}),
		up: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kruise_daemon_cri_up", Help: "1 for the container runtime that the daemon is connected to.",
		}, []string{"runtime"}),
	}
	for _, collector := range []prometheus.Collector{c.requests, c.up} {
		if err := registry.Register(collector); err != nil {
			return nil, fmt.Errorf("registering the metrics of the container runtime: %w", err)
		}
	}
	return c, nil
}

// connected returns the connection, and looks for a runtime when there is none.
func (c *Client) connected(ctx context.Context) (*link, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link != nil {
		return c.link, nil
	}
	var failures []string
	for _, socket := range c.sockets {
		if _, err := os.Stat(socket); err != nil {
			if !errors.Is(err, os.ErrNotExist) {
				failures = append(failures, err.Error())
			}
			continue
		}
		found, err := c.dial(ctx, socket)
		if err != nil {
			failures = append(failures, fmt.Sprintf("%s: %s", socket, err))
			continue
		}
		c.link = found
		c.up.WithLabelValues(found.name).Set(1)
		return found, nil
	}
	if len(failures) == 0 {
		return nil, fmt.Errorf("%w: no socket at %s", ErrUnavailable, strings.Join(c.sockets, ", "))
	}
	return nil, fmt.Errorf("%w: %s", ErrUnavailable, strings.Join(failures, "; "))
}

// dial connects to a socket and makes sure that who listens knows CRI v1: both the runtime's part of it and that for images.
func (c *Client) dial(ctx context.Context, socket string) (*link, error) {
	connection, err := grpc.NewClient("unix://"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()), // the file's permissions are the authentication
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(longestMessage)),
		grpc.WithUnaryInterceptor(c.count),
	)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	found := &link{connection: connection, runtime: runtimev1.NewRuntimeServiceClient(connection), images: runtimev1.NewImageServiceClient(connection)}
	ctx, cancel := context.WithTimeout(ctx, probing)
	defer cancel()
	version, err := found.runtime.Version(ctx, &runtimev1.VersionRequest{})
	if err == nil {
		_, err = found.images.ImageFsInfo(ctx, &runtimev1.ImageFsInfoRequest{})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("asking for the version: %w", err), connection.Close())
	}
	found.name, found.version = version.GetRuntimeName(), version.GetRuntimeVersion()
	return found, nil
}

// drop forgets a connection that leads nowhere. Requests that others have under way on it end by themselves.
func (c *Client) drop(of *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link != of {
		return
	}
	c.link = nil
	c.up.WithLabelValues(of.name).Set(0)
	_ = of.connection.Close() // nothing is left to do with it
}

// Close ends the connection.
func (c *Client) Close() {
	c.mu.Lock()
	of := c.link
	c.mu.Unlock()
	if of != nil {
		c.drop(of)
	}
}

// count counts requests by what became of them.
func (c *Client) count(
	ctx context.Context, method string, request, reply any, connection *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	err := invoke(ctx, method, request, reply, connection, options...)
	c.requests.WithLabelValues(method[strings.LastIndexByte(method, '/')+1:], status.Code(err).String()).Inc()
	return err
}
