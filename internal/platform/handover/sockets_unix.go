// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package handover

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Sockets are listening sockets that outlive the process's program.
type Sockets struct {
	mu   sync.Mutex
	kept map[string]*os.File
}

// Listen listens at an address: at the socket that was handed over for it, or else at a new one. Closing the listener does not close the
// socket, so that connections wait in it for whoever listens next, until the process ends.
func (s *Sockets) Listen(address string) (net.Listener, error) {
	listener, err := inherit(address)
	if listener == nil && err == nil {
		listener, err = net.Listen("tcp", address)
	}
	if err != nil {
		return nil, fmt.Errorf("listening at %s: %w", address, err)
	}
	tcp, ok := listener.(*net.TCPListener)
	if !ok {
		return nil, errors.Join(fmt.Errorf("listening at %s: it is no TCP socket", address), listener.Close())
	}
	file, err := tcp.File() // a second descriptor of the same socket
	if err != nil {
		return nil, errors.Join(fmt.Errorf("keeping the socket of %s: %w", address, err), listener.Close())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == nil {
		s.kept = map[string]*os.File{}
	}
	s.kept[address] = file
	return listener, nil
}

// inherit returns a listener at the socket that was handed over for an address; nil when none was.
func inherit(address string) (net.Listener, error) {
	for entry := range strings.FieldsSeq(os.Getenv(inherited)) {
		number, found := strings.CutPrefix(entry, address+"=")
		if !found {
			continue
		}
		descriptor, err := strconv.ParseUint(number, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", inherited, err)
		}
		file := os.NewFile(uintptr(descriptor), address)
		listener, err := net.FileListener(file)
		return listener, errors.Join(err, file.Close())
	}
	return nil, nil
}

// Replace runs the program from its start, in place of what runs now, and hands the sockets over. It returns only when that is
// impossible. All other files and connections that Go opened are closed by it.
func (s *Sockets) Replace() error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding the own program: %w", err)
	}
	sockets, err := s.pass()
	if err != nil {
		return err
	}
	environment := slices.DeleteFunc(os.Environ(), func(entry string) bool {
		return strings.HasPrefix(entry, again+"=") || strings.HasPrefix(entry, inherited+"=")
	})
	environment = append(environment, again+"=1", inherited+"="+sockets)
	if err := syscall.Exec(program, os.Args, environment); err != nil {
		return fmt.Errorf("executing %s anew: %w", program, err)
	}
	return nil
}

// pass makes the sockets stay open when the program is replaced, and returns how the next one finds them.
func (s *Sockets) pass() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var entries []string
	for address, file := range s.kept {
		raw, err := file.SyscallConn()
		if err != nil {
			return "", fmt.Errorf("handing the socket of %s over: %w", address, err)
		}
		failed := raw.Control(func(descriptor uintptr) {
			_, err = unix.FcntlInt(descriptor, unix.F_SETFD, 0) // without close-on-exec
			entries = append(entries, fmt.Sprintf("%s=%d", address, descriptor))
		})
		if err := errors.Join(failed, err); err != nil {
			return "", fmt.Errorf("handing the socket of %s over: %w", address, err)
		}
	}
	slices.Sort(entries)
	return strings.Join(entries, " "), nil
}
