// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"net"
	"time"
)

const (
	// readEvery is the least time between reads of the pods' watch. A rollout of thousands
	// of pods causes hundreds of events a second. Reading one by one wakes half a dozen
	// goroutines for each and costs more than decoding. After a quiet time the first event
	// is read at once.
	readEvery = 20 * time.Millisecond
	// readBusyEvery is readEvery while the connection is busy: while each read brings at least busyBytes, a pod or two.
	readBusyEvery, busyBytes = 50 * time.Millisecond, 4 << 10
	// bulkBytes arriving during a pause are a list of pods, no rollout: then bulkReads
	// reads have no pause.
	bulkBytes, bulkReads = 256 << 10, 256
	// dialTimeout and keepAlive are client-go's.
	dialTimeout, keepAlive = 30 * time.Second, 30 * time.Second
)

// dial opens a connection to a server; see rest.Config.
type dial func(ctx context.Context, network, address string) (net.Conn, error)

// pausing opens connections read in batches, by a dialer or, if nil, as client-go does.
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

// pausingConn is read again only some time after all arrived bytes were read: readEvery, or
// readBusyEvery. While there is more it does not pause, and under heavy traffic seldom: the
// list of all pods comes this way, too.
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
