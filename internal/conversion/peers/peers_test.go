// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"net/http"
	"testing"
)

// One client sending large requests slowly closed a webhook for all others.
func TestOneClientDoesNotUseUpWhatOthersNeed(t *testing.T) {
	l := New(10, 1<<40)
	greedy, other := &http.Request{RemoteAddr: "10.0.0.1:1"}, &http.Request{RemoteAddr: "10.0.0.2:1"}
	release := l.TryAcquire(greedy, 8)
	if release == nil || l.TryAcquire(&http.Request{RemoteAddr: "10.0.0.1:2"}, 8) != nil {
		t.Fatal("a client has more than its share")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if l.Acquire(ended, greedy, 8) != nil {
		t.Error("it has more than its share after waiting")
	}
	if again := l.TryAcquire(other, 8); again == nil {
		t.Error("another client has nothing")
	} else {
		again()
	}
	release()
	if len(l.peers) != 0 {
		t.Errorf("%d clients are remembered", len(l.peers))
	}
}
