// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"net"
	"time"
)

const (
	// readEvery is how often the connection that pods are watched on is read at most. A rollout of thousands of pods causes hundreds of events a second.
	// Reading one by one wakes half a dozen goroutines for each, which costs more than to decode it. The first event after a quiet time is read at once.
	readEvery = 20 * time.Millisecond
	// readBusyEvery is readEvery while the connection is busy: while each read brings at least busyBytes, a pod or two.
	readBusyEvery, busyBytes = 50 * time.Millisecond, 4 << 10
	// bulkBytes is how much arrives during a pause when it is no rollout but a list of pods: after that, bulkReads reads are not preceded by a pause.
	bulkBytes, bulkReads = 256 << 10, 256
	// dialTimeout and keepAlive are those of the connections of client-go.
	dialTimeout, keepAlive = 30 * time.Second, 30 * time.Second
)

// dial opens a connection to a server; see rest.Config.
type dial func(ctx context.Context, network, address string) (net.Conn, error)

// pausing opens connections that are read in batches, by a dialer or, with nil, as client-go does.
func pausing(open dial) dial {
	if open == nil {
		open = (&net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := open(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &pausingConn{Conn: conn}, nil
	}
}

// pausingConn is a connection that is read again only some time after everything was read that had arrived: readEvery, or readBusyEvery. While there is more
// it does not pause, and while very much arrives it seldom does: all pods of a cluster come this way, too.
type pausingConn struct {
	net.Conn
	// next is when it may be read again.
	next time.Time
	// taken is how many bytes have been read since the last pause.
	taken int
	// ahead is how many reads need no pause.
	ahead int
}

// Read implements net.Conn.
func (c *pausingConn) Read(into []byte) (int, error) {
	time.Sleep(time.Until(c.next))
	n, err := c.Conn.Read(into)
	c.next, c.taken = time.Time{}, c.taken+n
	if n == len(into) {
		return n, err
	}
	if c.ahead > 0 {
		c.ahead, c.taken = c.ahead-1, 0
		return n, err
	}
	pause := readEvery
	switch {
	case c.taken >= bulkBytes:
		pause, c.ahead = 0, bulkReads
	case c.taken >= busyBytes:
		pause = readBusyEvery
	}
	c.next, c.taken = time.Now().Add(pause), 0
	return n, err
}
