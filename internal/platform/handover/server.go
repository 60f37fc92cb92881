// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
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

// Server is controller-runtime's webhook server at a socket that is handed over.
type Server struct {
	// Server has the handlers. Its own Start is not used.
	webhook.Server

	options webhook.Options
	sockets *Sockets
	started atomic.Bool
}

// NewServer returns a server that serves as the options say. Of these it takes port, host, certificate folder and TLS options.
func NewServer(options webhook.Options, sockets *Sockets) *Server {
	if options.CertDir == "" {
		options.CertDir = filepath.Join(os.TempDir(), "k8s-webhook-server", "serving-certs") // as the embedded one
	}
	return &Server{Server: webhook.NewServer(options), options: options, sockets: sockets}
}

// Start serves until ctx is done and the requests that have begun are answered.
func (s *Server) Start(ctx context.Context) error {
	config := &tls.Config{NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}
	for _, option := range s.options.TLSOpts {
		option(config)
	}
	var watching sync.WaitGroup
	defer watching.Wait()
	if config.GetCertificate == nil {
		watcher, err := certwatcher.New(filepath.Join(s.options.CertDir, corev1.TLSCertKey), filepath.Join(s.options.CertDir, corev1.TLSPrivateKeyKey))
		if err != nil {
			return fmt.Errorf("reading the webhook certificate: %w", err)
		}
		config.GetCertificate = watcher.GetCertificate
		until, stop := context.WithCancel(ctx)
		defer stop()
		watching.Go(func() { _ = watcher.Start(until) }) // it ends with until and fails only before it begins
	}
	listener, err := s.sockets.Listen(net.JoinHostPort(s.options.Host, strconv.Itoa(s.options.Port)))
	if err != nil {
		return err
	}
	// The limits are those of controller-runtime.
	server := &http.Server{
		Handler: s.WebhookMux(), BaseContext: func(net.Listener) context.Context { return ctx },
		MaxHeaderBytes: 1 << 20, IdleTimeout: 90 * time.Second, ReadHeaderTimeout: 32 * time.Second,
	}
	ended := make(chan error, 1)
	go func() {
		<-ctx.Done()
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		ended <- server.Shutdown(ending)
	}()
	s.started.Store(true)
	if err := server.Serve(tls.NewListener(listener, config)); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving webhooks: %w", err)
	}
	return <-ended
}

// StartedChecker returns a check that fails until the server serves.
func (s *Server) StartedChecker() healthz.Checker {
	return func(*http.Request) error {
		if !s.started.Load() {
			return errors.New("the webhook server has not been started yet")
		}
		return nil
	}
}
