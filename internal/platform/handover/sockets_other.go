// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package handover

import (
	"errors"
	"net"
)

// Sockets hand nothing over here.
type Sockets struct{}

// Listen listens at an address.
func (s *Sockets) Listen(address string) (net.Listener, error) { return net.Listen("tcp", address) }

// Replace fails here: whoever started the process has to start it again.
func (s *Sockets) Replace() error {
	return errors.New("this platform cannot execute a program in place; start it again")
}
