// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package imagepuller

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The hanging plugin is a script whose program hangs. The pipe ends once nobody can write
// to it.
func TestAPluginEndsTogetherWithWhatItHasStarted(t *testing.T) {
	n := newNode(t)
	n.limit = time.Second
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	n.configure("ecr", "reg.example", "")
	n.write("ecr", "#!/bin/sh\n(echo started; exec sleep 20) >"+pipe+"\necho late\n")
	said, began := make(chan string, 1), time.Now()
	go func() {
		file, err := os.Open(pipe)
		if err != nil {
			said <- err.Error()
			return
		}
		defer file.Close() //nolint:errcheck // it was only read
		all, err := io.ReadAll(file)
		if err != nil {
			said <- err.Error()
			return
		}
		said <- string(all)
	}()
	if _, err := n.lookup(t.Context(), "reg.example/app:1"); err == nil || !strings.Contains(err.Error(), "it has not ended after 1s") {
		t.Errorf("got %v", err)
	}
	if got := <-said; got != "started\n" {
		t.Errorf("the program said %q", got)
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("the program that hangs ended after %s by itself", took)
	}
}
