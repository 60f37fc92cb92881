// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/kruise-operator/kruise-operator/internal/conversion"
)

// registered is a webhook server remembering only its handlers.
type registered struct {
	ctrlwebhook.Server
	handlers map[string]http.Handler
}

func (r registered) Register(path string, handler http.Handler) { r.handlers[path] = handler }

// lengths answers a request with nothing when it may, after it has told the length of its body.
type lengths struct{ begun, end chan int }

func (l lengths) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	l.begun <- len(body)
	<-l.end
}

func limitedLengths(path string) (http.Handler, lengths) {
	answer, server := lengths{make(chan int, 100), make(chan int)}, registered{handlers: map[string]http.Handler{}}
	limiting(server, nil).Register(path, answer)
	return server.handlers[path], answer
}

func post(ctx context.Context, handler http.Handler, length int) chan *httptest.ResponseRecorder {
	done := make(chan *httptest.ResponseRecorder, 1)
	go func() {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(strings.Repeat("x", length))))
		done <- recorder
	}()
	return done
}

// Sixty of the largest requests at the same time took 300 MiB, and a client can send more. The operator's container may have 512 MiB.
func TestLargeRequestsAreAnsweredAFewAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler, answer := limitedLengths("/validate")
		var all []chan *httptest.ResponseRecorder
		for range 3 {
			all = append(all, post(t.Context(), handler, 5<<20))
		}
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		givesUp := post(ctx, handler, 5<<20)
		synctest.Wait()
		if n := len(answer.begun); n != 2 {
			t.Errorf("%d large requests are being answered, want 2", n)
		}
		all = append(all, post(t.Context(), handler, small))
		synctest.Wait()
		if n := len(answer.begun); n != 3 {
			t.Error("a small request waits for large ones")
		}
		cancel()
		if got := <-givesUp; got.Code != http.StatusServiceUnavailable {
			t.Errorf("who gave up got %d %s", got.Code, got.Body)
		}
		close(answer.end)
		for _, done := range all {
			if got := <-done; got.Code != http.StatusOK {
				t.Errorf("answered %d %s", got.Code, got.Body)
			}
		}
		for range all {
			if n := <-answer.begun; n != 5<<20 && n != small {
				t.Errorf("a handler has read %d bytes", n)
			}
		}
	})
}

func TestWhatHasBeenReadOfLargeRequestsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler, answer := limitedLengths("/validate")
		var all []chan *httptest.ResponseRecorder
		for range maxPeer / (6 << 20) {
			all = append(all, post(t.Context(), handler, 6<<20))
		}
		synctest.Wait()
		if got := <-post(t.Context(), handler, 6<<20); got.Code != http.StatusTooManyRequests {
			t.Errorf("one more is answered %d %s", got.Code, got.Body)
		}
		other, ended := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(strings.Repeat("x", 6<<20))), httptest.NewRecorder()
		other.RemoteAddr = "10.0.0.7:1"
		served := make(chan struct{})
		go func() {
			handler.ServeHTTP(ended, other)
			close(served)
		}()
		synctest.Wait()
		close(answer.end)
		for _, done := range all {
			if got := <-done; got.Code != http.StatusOK {
				t.Errorf("answered %d %s", got.Code, got.Body)
			}
		}
		if <-served; ended.Code != http.StatusOK {
			t.Errorf("one client closes the webhook for another: %d %s", ended.Code, ended.Body)
		}
	})
}

// With HTTP/2, as at a local address, all requests share a connection. Unread bytes of one
// would block the others.
func TestSmallRequestsOfTheSameConnectionDoNotWaitForLargeOnes(t *testing.T) {
	handler, answer := limitedLengths("/validate")
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	client, done := server.Client(), make(chan error)
	send := func(length int) {
		go func() {
			got, err := client.Post(server.URL, "application/json", strings.NewReader(strings.Repeat("x", length)))
			if err == nil {
				err = got.Body.Close()
			}
			done <- err
		}()
	}
	next := func() int {
		select {
		case n := <-answer.begun:
			return n
		case <-time.After(time.Minute):
			t.Error("nothing more is answered")
			return 0
		}
	}
	for range 6 {
		send(5 << 20)
	}
	next()
	next()
	send(small)
	if n := next(); n != small {
		t.Errorf("a request of %d bytes is answered", n)
	}
	close(answer.end)
	for range 7 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// Handlers refuse bodies that are too long, and so must see their length.
func TestABodyOfAnyLengthReachesItsHandler(t *testing.T) {
	for _, path := range []string{"/validate", conversion.Path} {
		for _, length := range []int{0, small, small + 1, largest, largest + 1, 2 * largest} {
			handler, answer := limitedLengths(path)
			close(answer.end)
			if got := <-post(t.Context(), handler, length); got.Code != http.StatusOK {
				t.Errorf("%s: %d bytes are answered %d %s", path, length, got.Code, got.Body)
			}
			if n := <-answer.begun; n != length {
				t.Errorf("%s: of %d bytes the handler has read %d", path, length, n)
			}
		}
	}
}
