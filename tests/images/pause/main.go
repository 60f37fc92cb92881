// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Command pause holds the namespaces of a pod open. It waits for a signal to end and
// meanwhile reaps processes that lost their parent, which reach it when the containers
// of a pod share one process namespace.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// One slot is enough for SIGCHLD: every pass reaps all children that have ended.
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM)

	for {
		select {
		case <-end:
			return
		case <-children:
			reap()
		}
	}
}

// reap collects every child that has ended and returns when there is none left.
func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if pid <= 0 {
			return
		}
	}
}
