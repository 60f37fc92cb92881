// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Command guestbook is the web server of tests and the demo. Two builds of different
// versions are two images of one program, so an update is visible from outside:
//
//	GET /         version, host name and number of requests, as text
//	GET /version  the version alone
//	GET /count    how many requests to / this process has answered
//	GET /healthz  200 while serving, 503 once the server drains
//
// On SIGTERM or SIGINT it answers /healthz with 503, finishes the requests under way, for
// at most -drain-timeout, and ends with status 0. -drain-delay keeps it serving for a while
// after the signal, for clients slow to notice.
//
// POST /exit?code=N ends the process with status N at once: a test can crash one container.
//
// PUT /idle and DELETE /idle set if it is idle, and GET /idle answers 200 if so and 503 if
// not; with -check the program asks a URL and exits with 0 if the answer was 200, for
// images without a shell. GET /fetch?url=U passes on the answer to a request to U from
// inside the pod, to show the pod's reach; it trusts the authority of the pod's service
// account.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

// version is set when the image is built.
var version = "unknown"

func main() {
	address := flag.String("listen", ":3000", "address to serve on")
	drainDelay := flag.Duration("drain-delay", 0, "how long to go on serving after the signal to end")
	drainTimeout := flag.Duration("drain-timeout", 20*time.Second, "how long requests under way may take after that")
	check := flag.String("check", "", "serve nothing; end with 0 if this URL answers 200, else with 1")
	flag.Parse()

	if *check != "" {
		os.Exit(answers(*check))
	}
	if err := serve(*address, *drainDelay, *drainTimeout); err != nil {
		log.Fatal(err)
	}
}

// serve answers requests until a signal asks the process to end, then drains.
func serve(address string, drainDelay, drainTimeout time.Duration) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()

	var draining atomic.Bool
	server := &http.Server{Addr: address, Handler: routes(&draining), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	log.Printf("guestbook %s serves on %s", version, address)

	select {
	case err := <-failed:
		return fmt.Errorf("serving on %s: %w", address, err)
	case <-ctx.Done():
	}

	draining.Store(true)
	log.Printf("guestbook %s drains", version)
	<-time.After(drainDelay)
	limit, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	if err := server.Shutdown(limit); err != nil {
		return fmt.Errorf("draining: %w", err)
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving on %s: %w", address, err)
	}
	log.Printf("guestbook %s has drained", version)
	return nil
}

// answers is the exit code of a check: 0 if a URL answers 200.
func answers(url string) int {
	response, err := http.Get(url) //nolint:gosec,noctx // whoever runs the check says what it asks, and for how long it may
	if err != nil {
		fmt.Println(err)
		return 1
	}
	_ = response.Body.Close()
	fmt.Println(response.Status)
	if response.StatusCode != http.StatusOK {
		return 1
	}
	return 0
}

// routes is everything the server answers.
func routes(draining *atomic.Bool) http.Handler {
	var requests atomic.Int64
	var idle atomic.Bool
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		host, err := os.Hostname()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintf(w, "guestbook %s on %s, request %d\n", version, host, requests.Add(1))
	})
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, version)
	})
	mux.HandleFunc("GET /count", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, requests.Load())
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if draining.Load() {
			http.Error(w, "draining", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("PUT /idle", func(http.ResponseWriter, *http.Request) { idle.Store(true) })
	mux.HandleFunc("DELETE /idle", func(http.ResponseWriter, *http.Request) { idle.Store(false) })
	mux.HandleFunc("GET /idle", func(w http.ResponseWriter, _ *http.Request) {
		if !idle.Load() {
			http.Error(w, "busy", http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("GET /fetch", func(w http.ResponseWriter, r *http.Request) {
		if err := fetch(w, r); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
		}
	})
	mux.HandleFunc("POST /exit", func(w http.ResponseWriter, r *http.Request) {
		code, err := strconv.Atoi(r.URL.Query().Get("code"))
		if err != nil || code < 0 || code > 255 {
			http.Error(w, "code must be a number from 0 to 255", http.StatusBadRequest)
			return
		}
		os.Exit(code)
	})
	return mux
}

// fetch passes on the answer to the process's own request.
func fetch(w http.ResponseWriter, r *http.Request) error {
	const limit = 5 * time.Second
	request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, r.URL.Query().Get("url"), nil)
	if err != nil {
		return err
	}
	trusted := x509.NewCertPool()
	if authority, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"); err == nil {
		trusted.AppendCertsFromPEM(authority)
	}
	client := &http.Client{Timeout: limit, Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: trusted},
	}}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	w.WriteHeader(response.StatusCode)
	_, err = io.Copy(w, response.Body)
	return err
}
