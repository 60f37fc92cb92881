// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhookserving

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// served is a Server at a free port with a certificate of our own, and a client that trusts it as the API server does.
type served struct {
	*Server
	client *http.Client
	url    string
}

func newServed(process context.Context, t *testing.T) *served {
	t.Helper()
	listener := httptest.NewServer(nil)
	_, text, err := net.SplitHostPort(listener.Listener.Addr().String())
	listener.Close()
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	serving, err := Open(t.Context(), Options{
		Client: newClient(t, interceptor.Funcs{}), Endpoint: Endpoint{Namespace: own, URL: "https://127.0.0.1:" + text}, Port: port,
		Clock: testingclock.NewFakeClock(time.Now()),
	})
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(serving.authorities())
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	return &served{
		Server: serving.NewServer(process), url: "https://127.0.0.1:" + text + "/x",
		client: &http.Client{Timeout: 30 * time.Second, Transport: transport},
	}
}

// manager serves an answer until it is stopped.
func (s *served) manager(process context.Context, t *testing.T, answer http.HandlerFunc) (h *Handlers, stop func() error) {
	t.Helper()
	h = s.Handlers()
	if h.StartedChecker()(nil) == nil {
		t.Error("ready before it serves")
	}
	h.Register("/x", answer)
	ctx, cancel := context.WithCancel(process)
	ended := make(chan error, 1)
	go func() { ended <- h.Start(ctx) }()
	for deadline := time.Now().Add(30 * time.Second); h.StartedChecker()(nil) != nil; {
		if time.Now().After(deadline) {
			t.Fatal("it is not served")
		}
	}
	return h, func() error {
		cancel()
		return <-ended
	}
}

func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}

func (s *served) get() (string, error) {
	response, err := s.client.Get(s.url)
	if err != nil {
		return "", err
	}
	defer response.Body.Close() //nolint:errcheck // it is read
	body, err := io.ReadAll(response.Body)
	return strconv.Itoa(response.StatusCode) + " " + string(body), err
}

func TestRequestsWaitForTheNextManager(t *testing.T) {
	s := newServed(t.Context(), t)
	_, stop := s.manager(t.Context(), t, says("first"))
	if got, err := s.get(); err != nil || got != "200 first" {
		t.Fatalf("%q, %v", got, err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	answers := make(chan string)
	go func() {
		got, err := s.get()
		if err != nil {
			got = err.Error()
		}
		answers <- got
	}()
	select {
	case got := <-answers:
		t.Fatalf("answered without a manager: %q", got)
	case <-time.After(200 * time.Millisecond):
	}
	_, stop = s.manager(t.Context(), t, says("second"))
	if got := <-answers; got != "200 second" {
		t.Errorf("answered %q", got)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

func TestAManagerEndsWhenItsRequestsAreAnswered(t *testing.T) {
	s := newServed(t.Context(), t)
	asked, answer := make(chan struct{}), make(chan struct{})
	_, stop := s.manager(t.Context(), t, func(w http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-answer
		_, _ = io.WriteString(w, "late")
	})
	answers, stopped := make(chan string, 1), make(chan error, 1)
	go func() {
		got, _ := s.get()
		answers <- got
	}()
	<-asked
	go func() { stopped <- stop() }()
	select {
	case err := <-stopped:
		t.Fatalf("it ended while a request was being answered: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	close(answer)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if got := <-answers; got != "200 late" {
		t.Errorf("answered %q", got)
	}
}

func TestTheSocketIsClosedWithTheProcess(t *testing.T) {
	process, end := context.WithCancel(t.Context())
	s := newServed(process, t)
	_, stop := s.manager(process, t, says("yes"))
	if got, err := s.get(); err != nil || got != "200 yes" {
		t.Fatalf("%q, %v", got, err)
	}
	end()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if got, err := s.get(); err == nil {
		t.Errorf("answered %q after the end", got)
	}
}
