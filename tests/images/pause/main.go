// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Command pause holds a pod's namespaces open. It waits for a signal to end and reaps
// orphans, which reach it if the pod's containers share a process namespace.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// One slot is enough for SIGCHLD: every pass reaps all ended children.
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

// reap collects every ended child.
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
