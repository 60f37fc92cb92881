// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhookserving

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// endTimeout is how long requests that are being answered may take at the end of a manager, or of the process.
const endTimeout = time.Minute

// Server serves webhooks at one socket for the life of the process, while the managers whose handlers answer are replaced. Requests that
// arrive while there is no manager wait for the next one, within the timeout that the API server gives them; its connections stay open.
// So a restart of the manager refuses no request, even with a single replica.
type Server struct {
	// process is done when the process ends: longer than any call of the server's methods lasts.
	process context.Context
	address string
	tls     func(*tls.Config)
	certDir string

	mutex     sync.Mutex
	listening *http.Server
	failed    chan error
	// current answers; nil while no manager serves. Then ready is closed when the next one does.
	current *Handlers
	ready   chan struct{}
}

// NewServer returns a server for the certificate and port of s. It listens when the first manager starts, and ends with the process, whose
// end ctx tells.
func (s *Serving) NewServer(ctx context.Context) *Server {
	certDir := s.options.CertDir
	if certDir == "" {
		certDir = defaultCertDir()
	}
	return &Server{
		process: ctx, address: net.JoinHostPort("", strconv.Itoa(s.options.Port)), tls: s.TLS, certDir: certDir,
		failed: make(chan error, 1), ready: make(chan struct{}),
	}
}

// Handlers are the webhooks of one manager. It is the manager's webhook server.
type Handlers struct {
	// Server keeps the handlers by their paths. Its own Start is not used.
	webhook.Server

	server  *Server
	started atomic.Bool
	// answering counts requests that have begun.
	answering sync.WaitGroup
}

// Handlers returns the webhook server of the next manager. Those of the manager before must have ended when it starts.
func (s *Server) Handlers() *Handlers {
	return &Handlers{Server: webhook.NewServer(webhook.Options{}), server: s}
}

// Start answers requests until ctx is done and those that have begun are answered.
func (h *Handlers) Start(ctx context.Context) error {
	if err := h.server.listen(); err != nil {
		return err
	}
	h.server.use(h)
	h.started.Store(true)
	select {
	case err := <-h.server.failed:
		return fmt.Errorf("serving webhooks: %w", err)
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	if h.server.process.Err() != nil {
		return h.server.listening.Shutdown(end) // it goes on answering what arrives at open connections until then
	}
	h.server.use(nil)
	answered := make(chan struct{})
	go func() {
		h.answering.Wait()
		close(answered)
	}()
	select {
	case <-answered:
		return nil
	case <-end.Done():
		return errors.New("requests to webhooks are still being answered")
	}
}

// StartedChecker returns a check that fails until the webhooks are served.
func (h *Handlers) StartedChecker() healthz.Checker {
	return func(*http.Request) error {
		if !h.started.Load() {
			return errors.New("the webhook server has not been started yet")
		}
		return nil
	}
}

// listen opens the socket, unless that has been done.
func (s *Server) listen() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.listening != nil {
		return nil
	}
	// Whether a certificate of a client counts is decided for each path: it is never shown for conversion.
	config := &tls.Config{NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert}
	s.tls(config)
	if config.GetCertificate == nil {
		files, err := certwatcher.New(filepath.Join(s.certDir, corev1.TLSCertKey), filepath.Join(s.certDir, corev1.TLSPrivateKeyKey))
		if err != nil {
			return fmt.Errorf("reading the webhook certificate: %w", err)
		}
		config.GetCertificate = files.GetCertificate
		go func() { _ = files.Start(s.process) }() // it ends with the process and fails only before it begins
	}
	listener, err := (&net.ListenConfig{}).Listen(s.process, "tcp", s.address)
	if err != nil {
		return fmt.Errorf("listening for webhooks: %w", err)
	}
	// The limits are those of controller-runtime.
	s.listening = &http.Server{Handler: s, MaxHeaderBytes: 1 << 20, IdleTimeout: 90 * time.Second, ReadHeaderTimeout: 32 * time.Second}
	go func(server *http.Server) {
		if err := server.Serve(tls.NewListener(listener, config)); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- err
		}
	}(s.listening)
	return nil
}

// use has these handlers answer from now on, or none.
func (s *Server) use(h *Handlers) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.current = h
	if h == nil {
		s.ready = make(chan struct{})
		return
	}
	close(s.ready)
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := s.take(r.Context())
	if h == nil {
		http.Error(w, "the operator ends", http.StatusServiceUnavailable)
		return
	}
	defer h.answering.Done()
	h.WebhookMux().ServeHTTP(w, r)
}

// take waits for the handlers that answer a request, and counts it; nil when the request or the process ends before there are any.
func (s *Server) take(ctx context.Context) *Handlers {
	for {
		s.mutex.Lock()
		h, ready := s.current, s.ready
		if h != nil {
			h.answering.Add(1)
		}
		s.mutex.Unlock()
		if h != nil {
			return h
		}
		select {
		case <-ready:
		case <-ctx.Done():
			return nil
		case <-s.process.Done():
			return nil
		}
	}
}
