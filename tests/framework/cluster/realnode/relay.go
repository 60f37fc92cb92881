// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package realnode

import (
	"io"
	"net"
	"sync"
)

// relay accepts connections and joins each to a new connection to the target.
type relay struct {
	listener net.Listener
	target   string

	ended chan struct{}

	mutex  sync.Mutex
	closed bool
	open   map[net.Conn]struct{}
}

// startRelay owns the listener from then on.
func startRelay(listener net.Listener, target string) *relay {
	r := &relay{listener: listener, target: target, ended: make(chan struct{}), open: map[net.Conn]struct{}{}}
	go r.run()
	return r
}

// run serves until close and returns when all connections have ended.
func (r *relay) run() {
	var pairs sync.WaitGroup
	defer close(r.ended)
	defer pairs.Wait()
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		pairs.Go(func() { r.join(client) })
	}
}

// join copies both ways until either side has nothing more to say or the relay is closed.
func (r *relay) join(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", r.target)
	if err != nil {
		return // the client sees a closed connection, as with a server that is down
	}
	defer func() { _ = server.Close() }()
	if !r.track(client, server) {
		return
	}
	defer r.forget(client, server)

	ended := make(chan struct{}, 2)
	copyTo := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		ended <- struct{}{}
	}
	go copyTo(server, client)
	go copyTo(client, server)
	<-ended
	_ = client.Close()
	_ = server.Close()
	<-ended
}

// track remembers open connections; it is false once the relay has ended.
func (r *relay) track(connections ...net.Conn) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, connection := range connections {
		r.open[connection] = struct{}{}
	}
	return !r.closed
}

func (r *relay) forget(connections ...net.Conn) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, connection := range connections {
		delete(r.open, connection)
	}
}

// close ends the relay and all its connections.
func (r *relay) close() error {
	err := r.listener.Close()
	r.mutex.Lock()
	r.closed = true
	for connection := range r.open {
		_ = connection.Close()
	}
	r.mutex.Unlock()
	<-r.ended
	return err
}
