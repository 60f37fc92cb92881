// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package olm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// services leads the catalog operator to Services. In a cluster it reaches a catalog's pod
// by its Service's name. Here nobody resolves these, so it gets a resolving proxy: SOCKS 5
// (RFC 1928) without authentication, as far as one client needs it.
type services struct {
	client   client.Client
	listener net.Listener
	// ctx ends connections being made.
	ctx   context.Context
	stop  context.CancelFunc
	ended sync.WaitGroup

	mutex sync.Mutex
	open  map[net.Conn]struct{}
}

// serveServices listens on loopback until close.
func serveServices(c client.Client) (*services, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serving the proxy to Services: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &services{client: c, listener: listener, ctx: ctx, stop: stop, open: map[net.Conn]struct{}{}}
	s.ended.Go(func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			s.ended.Go(func() { s.relay(connection) })
		}
	})
	return s, nil
}

// url is how a program is told of the proxy.
func (s *services) url() string { return "socks5://" + s.listener.Addr().String() }

func (s *services) close() error {
	s.stop()
	err := s.listener.Close()
	s.mutex.Lock()
	for connection := range s.open {
		_ = connection.Close()
	}
	s.mutex.Unlock()
	s.ended.Wait()
	return err
}

// track closes a connection when the proxy ends, or at once if it has.
func (s *services) track(connection net.Conn) (forget func()) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.open[connection] = struct{}{}
	if s.ctx.Err() != nil {
		_ = connection.Close()
	}
	return func() {
		_ = connection.Close()
		s.mutex.Lock()
		defer s.mutex.Unlock()
		delete(s.open, connection)
	}
}

// relay answers one client until either side is done. A failure closes the connection.
func (s *services) relay(asking net.Conn) {
	defer s.track(asking)()
	target, err := accept(asking)
	if err != nil {
		return
	}
	answering, err := s.dial(target)
	if err != nil {
		_, _ = asking.Write([]byte{5, 4, 0, 1, 0, 0, 0, 0, 0, 0}) // host unreachable
		return
	}
	defer s.track(answering)()
	if _, err := asking.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0}); err != nil {
		return
	}
	done := make(chan struct{}, 2)
	pipe := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		_ = to.Close()
		done <- struct{}{}
	}
	go pipe(answering, asking)
	go pipe(asking, answering)
	<-done
	<-done
}

// accept reads the client's target: a name and a port.
func accept(asking net.Conn) (target string, err error) {
	if err := asking.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return "", err
	}
	head := make([]byte, 2) // version, number of ways to authenticate
	if _, err := io.ReadFull(asking, head); err != nil {
		return "", err
	}
	if head[0] != 5 {
		return "", fmt.Errorf("the client speaks version %d", head[0])
	}
	if _, err := io.CopyN(io.Discard, asking, int64(head[1])); err != nil {
		return "", err
	}
	if _, err := asking.Write([]byte{5, 0}); err != nil {
		return "", err
	}
	request := make([]byte, 5) // version, command, reserved, kind of address, length of the name
	if _, err := io.ReadFull(asking, request); err != nil {
		return "", err
	}
	if request[1] != 1 || request[3] != 3 {
		return "", errors.New("the client asks for something else than a connection to a name")
	}
	name := make([]byte, int(request[4])+2)
	if _, err := io.ReadFull(asking, name); err != nil {
		return "", err
	}
	port := binary.BigEndian.Uint16(name[len(name)-2:])
	return net.JoinHostPort(string(name[:len(name)-2]), strconv.Itoa(int(port))), asking.SetDeadline(time.Time{})
}

// dial connects to a ready endpoint of the Service, named as in a cluster:
// name.namespace.svc, and its port.
func (s *services) dial(target string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(target)
	if err != nil {
		return nil, err
	}
	parts := strings.Split(host, ".")
	if len(parts) < 3 || parts[2] != "svc" {
		return nil, fmt.Errorf("%s is no Service", host)
	}
	ctx, cancel := context.WithTimeout(s.ctx, 5*time.Second)
	defer cancel()
	slices := &discoveryv1.EndpointSliceList{}
	err = s.client.List(ctx, slices, client.InNamespace(parts[1]), client.MatchingLabels{discoveryv1.LabelServiceName: parts[0]})
	if err != nil {
		return nil, fmt.Errorf("finding the endpoints of %s: %w", host, err)
	}
	for _, slice := range slices.Items {
		for _, endpoint := range slice.Endpoints {
			if ptr.Deref(endpoint.Conditions.Ready, false) && len(endpoint.Addresses) > 0 {
				return (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(endpoint.Addresses[0], port))
			}
		}
	}
	return nil, fmt.Errorf("%s has no endpoint that is ready", host)
}
