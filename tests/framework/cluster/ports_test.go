// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cluster

import (
	"net"
	"strconv"
	"testing"
)

// A program outside of our claims may take a port between its choice and its use.
func TestStartGoesOnWhenAPortIsLost(t *testing.T) {
	t.Parallel()
	c := StartForTest(t, Options{ControlPlane: APIServerOnly})
	if err := c.StopAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}

	var ports []int
	p, err := c.startOnFreePort(t.Context(), func(port int) (*Process, error) {
		ports = append(ports, port)
		if len(ports) == 1 {
			listenUntilEnd(t, port)
		}
		c.apiServerPort = port
		return c.runAPIServer(t.Context())
	})
	if err != nil {
		t.Fatal(err)
	}
	c.setAPIServer(p)
	if len(ports) != 2 || ports[0] == ports[1] {
		t.Errorf("want two different ports, got %v", ports)
	}
}

func listenUntilEnd(t *testing.T, port int) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
	})
}
