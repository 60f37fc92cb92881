// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package chaos

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"
)

// The standby sees nothing new of the planned resource while it lags, and all of it afterwards.
func TestTheViewOfAStandbyLags(t *testing.T) {
	events := make(chan string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		for {
			select {
			case event := <-events:
				_, _ = fmt.Fprintln(w, event)
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}))
	defer server.Close()
	target, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	next := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, FlushInterval: -1}
	i := &interceptor{}
	i.arm("a", Perturbation{Kind: Failover, At: 1, Resource: "pods"}, false)
	proxy := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !(standby{i}).Intercept(w, r, next) {
			t.Errorf("%s is not met", r.URL)
		}
	}))
	proxy.EnableHTTP2 = true
	proxy.StartTLS()
	defer proxy.Close()
	answer, err := proxy.Client().Get(proxy.URL + "/api/v1/namespaces/a/pods?watch=true")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	seen := make(chan string, 10)
	go func() {
		for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
			seen <- lines.Text()
		}
	}()
	expect := func(want string) {
		t.Helper()
		select {
		case got := <-seen:
			if got != want {
				t.Errorf("seen is %q, want %q", got, want)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("%q is not seen", want)
		}
	}
	events <- "first"
	expect("first")
	i.mutex.Lock()
	i.lagging = true
	i.mutex.Unlock()
	events <- "second"
	events <- "third"
	select {
	case got := <-seen:
		t.Errorf("%q is seen by a standby that lags", got)
	case <-time.After(100 * time.Millisecond):
	}
	i.let()
	expect("second")
	expect("third")
	events <- "fourth"
	expect("fourth")
}
