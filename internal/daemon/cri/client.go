// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// longestMessage is the limit of one answer, in bytes: a node with many containers has long lists.
	longestMessage = 16 << 20
	// longestOutput limits a command's output, in bytes: commands are users', many run at
	// once, and the daemon has little memory.
	longestOutput = 1 << 20
	// probing is how long one socket may take to answer while a runtime is looked for.
	probing = 5 * time.Second
)

// Sockets are the default sockets of runtimes, below the mount of the node's /run, in order
// of trial.
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

// Client is the Runtime on one of the node's sockets: the one of its name, or the first to
// answer. It connects at the first request.
type Client struct {
	*pool
	// name is the runtime's; empty for the first to answer.
	name string
}

// pool has the connections to the runtimes of a node.
type pool struct {
	sockets  []*socket
	requests *prometheus.CounterVec
	took     *prometheus.HistogramVec
	up       *prometheus.GaugeVec
	// timeout is the deadline of quick requests.
	timeout time.Duration

	mu sync.Mutex // guards the links of the sockets
}

// socket is where a runtime may listen.
type socket struct {
	path string
	// dialing lets one connect at a time: a hanging socket holds up only its own users.
	dialing chan struct{}
	link    *link // nil while there is none
}

// link is a connection to an answering runtime.
type link struct {
	socket     *socket
	connection *grpc.ClientConn
	runtime    runtimev1.RuntimeServiceClient
	images     runtimev1.ImageServiceClient
	name       string
}

// New returns a client of the first runtime to answer on one of the sockets. Its metrics go
// to registry.
func New(sockets []string, registry prometheus.Registerer) *Client {
	with := promauto.With(registry)
	p := &pool{
		timeout: timeout,
		requests: with.NewCounterVec(prometheus.CounterOpts{
			Name: "kruise_daemon_cri_requests_total", Help: "Requests to the container runtime; code is that of gRPC, OK for success.",
		}, []string{"method", "code"}),
		took: with.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kruise_daemon_cri_request_duration_seconds", Help: "How long the container runtime takes to answer. PullImage, StopContainer and ExecSync are left out: they take as long as the image, the grace period or the command.",
			Buckets: []float64{.001, .005, .025, .1, .5, 1, 2.5, 5, 10},
		}, []string{"method"}),
		up: with.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kruise_daemon_cri_up", Help: "1 for each container runtime that the daemon is connected to, 0 when the connection was lost.",
		}, []string{"runtime"}),
	}
	for _, path := range sockets {
		p.sockets = append(p.sockets, &socket{path: path, dialing: make(chan struct{}, 1)})
	}
	return &Client{pool: p}
}

// Of implements Runtime.
func (c *Client) Of(name string) Runtime { return &Client{pool: c.pool, name: name} }

// connected returns the connection to the runtime of the client's name, and looks for it when there is none.
func (c *Client) connected(ctx context.Context) (*link, error) {
	if known := c.linked(); known != nil {
		return known, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := c.look(ctx)
	var failures, others, paths []string
	for range c.sockets {
		answer := <-answers
		paths = append(paths, answer.at.path)
		switch {
		case errors.Is(answer.err, os.ErrNotExist):
		case answer.err != nil:
			failures = append(failures, fmt.Sprintf("%s: %s", answer.at.path, answer.err))
		case c.name == "" || answer.link.name == c.name:
			return answer.link, nil
		default:
			others = append(others, answer.link.name)
		}
	}
	// Errors become messages in statuses, so they do not depend on who answers first.
	slices.Sort(failures)
	slices.Sort(others)
	slices.Sort(paths)
	switch {
	case len(failures) > 0:
		return nil, fmt.Errorf("%w: %s", ErrUnavailable, strings.Join(failures, "; "))
	case len(others) > 0:
		return nil, &NoRuntimeError{Name: c.name, Answering: others}
	}
	return nil, fmt.Errorf("%w: no socket at %s", ErrUnavailable, strings.Join(paths, ", "))
}

// answer is the result of trying a socket.
type answer struct {
	at   *socket
	link *link
	err  error
}

// look connects to all sockets: for any runtime in order, so the first wins; for a named
// one at once, so a hanging socket delays nothing.
func (c *Client) look(ctx context.Context) <-chan answer {
	answers := make(chan answer, len(c.sockets))
	ask := func(at *socket) (found bool) {
		link, err := c.reach(ctx, at)
		answers <- answer{at, link, err}
		return err == nil
	}
	if c.name != "" {
		for _, at := range c.sockets {
			go func() { ask(at) }()
		}
		return answers
	}
	go func() {
		for _, at := range c.sockets {
			if ask(at) {
				return
			}
		}
	}()
	return answers
}

// linked returns the existing connection to the client's runtime.
func (c *Client) linked() *link {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, at := range c.sockets {
		if at.link != nil && (c.name == "" || at.link.name == c.name) {
			return at.link
		}
	}
	return nil
}

// reach returns the connection to who listens on a socket, and connects when there is none.
func (p *pool) reach(ctx context.Context, at *socket) (*link, error) {
	select {
	case at.dialing <- struct{}{}:
		defer func() { <-at.dialing }()
	case <-ctx.Done():
		return nil, fmt.Errorf("connecting: %w", ctx.Err())
	}
	p.mu.Lock()
	known := at.link
	p.mu.Unlock()
	if known != nil {
		return known, nil
	}
	if _, err := os.Stat(at.path); err != nil {
		return nil, err
	}
	found, err := p.dial(ctx, at)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	at.link = found
	p.up.WithLabelValues(found.name).Set(1)
	return found, nil
}

// dial connects to a socket and checks for CRI v1, of containers and of images.
func (p *pool) dial(ctx context.Context, at *socket) (*link, error) {
	connection, err := grpc.NewClient("unix://"+at.path,
		grpc.WithTransportCredentials(insecure.NewCredentials()), // the file's permissions are the authentication
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(longestMessage)),
		grpc.WithUnaryInterceptor(p.count),
	)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	found := &link{
		socket: at, connection: connection, runtime: runtimev1.NewRuntimeServiceClient(connection), images: runtimev1.NewImageServiceClient(connection),
	}
	ctx, cancel := context.WithTimeout(ctx, probing)
	defer cancel()
	version, err := found.runtime.Version(ctx, &runtimev1.VersionRequest{})
	if err == nil {
		_, err = found.images.ImageFsInfo(ctx, &runtimev1.ImageFsInfoRequest{})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("asking for the version: %w", err), connection.Close())
	}
	found.name = version.GetRuntimeName()
	return found, nil
}

// drop forgets a broken connection. Other requests on it end by themselves.
func (p *pool) drop(of *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if of.socket.link != of {
		return
	}
	of.socket.link = nil
	if !slices.ContainsFunc(p.sockets, func(at *socket) bool { return at.link != nil && at.link.name == of.name }) {
		p.up.WithLabelValues(of.name).Set(0)
	}
	_ = of.connection.Close() // nothing is left to do with it
}

// Close ends all connections.
func (c *Client) Close() {
	for _, at := range c.sockets {
		c.mu.Lock()
		of := at.link
		c.mu.Unlock()
		if of != nil {
			c.drop(of)
		}
	}
}

// count counts requests by result, and their time if it is the runtime's.
func (p *pool) count(
	ctx context.Context, method string, request, reply any, connection *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	begun := time.Now()
	err := invoke(ctx, method, request, reply, connection, options...)
	name := method[strings.LastIndexByte(method, '/')+1:]
	p.requests.WithLabelValues(name, status.Code(err).String()).Inc()
	if !lasts(name) {
		p.took.WithLabelValues(name).Observe(time.Since(begun).Seconds())
	}
	return err
}

// lasts is true for requests as long as their task: an image, a grace period, a command.
// Their time says nothing about the runtime.
func lasts(method string) bool {
	return method == "PullImage" || method == "StopContainer" || method == "ExecSync"
}
