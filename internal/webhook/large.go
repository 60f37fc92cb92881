// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/kruise-operator/kruise-operator/internal/conversion"
	"github.com/kruise-operator/kruise-operator/internal/conversion/peers"
)

const (
	// small requests never wait for others, in bytes. Nearly all are smaller.
	small = 128 << 10
	// largest is how many bytes of a request are read: enough for two objects of 3 MiB and the review around them. Handlers refuse longer requests.
	largest = 7 << 20
	// maxAnswered bounds the bytes of all larger requests being answered: answering takes
	// several times the memory.
	maxAnswered = 12 << 20
	// maxRead bounds the bytes read of them, answered or not.
	maxRead = 64 << 20
	// maxPeer is one client's part of these; the rest is for others.
	maxPeer = maxRead / 2
	// readTimeout is how long the body of one of them may take to come. The API server waits ten seconds for an answer.
	readTimeout = 10 * time.Second
)

// errTooMany refuses a request without room.
var errTooMany = errors.New("too many large requests wait to be answered")

// limited is a webhook server answering only a few large requests at a time: clients could
// send any number of them at once. Requests are read before they wait, because unread bytes
// would block small requests on the same connection.
type limited struct {
	webhook.Server
	// read bounds the bytes of requests read, answered those being answered.
	read     *peers.Limits
	answered *semaphore.Weighted
	// clients are who may ask for admission; nil: anybody.
	clients *x509.CertPool
}

func limiting(server webhook.Server, clients *x509.CertPool) limited {
	return limited{
		Server: server, read: peers.New(maxPeer, maxRead), answered: semaphore.NewWeighted(maxAnswered), clients: clients,
	}
}

// Register registers a handler with the limit. Conversion has one of its own, since whole lists are sent there.
func (l limited) Register(path string, handler http.Handler) {
	if path != conversion.Path {
		handler = l.known(l.handler(handler))
	}
	l.Server.Register(path, handler)
}

// known admits only clients with a certificate of the authority, if there is one. An API
// server shows a certificate only if an administrator configured it, and never for
// conversion.
func (l limited) known(next http.Handler) http.Handler {
	if l.clients == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
			http.Error(w, "a client certificate is required: spec.admission.clientCA of the Kruise object is set", http.StatusForbidden)
			return
		}
		more := x509.NewCertPool()
		for _, certificate := range r.TLS.PeerCertificates[1:] {
			more.AddCert(certificate)
		}
		usages := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		if _, err := r.TLS.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: l.clients, Intermediates: more, KeyUsages: usages}); err != nil {
			http.Error(w, "the client certificate is not of spec.admission.clientCA of the Kruise object", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (l limited) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size := r.ContentLength
		if size < 0 || size > largest { // not known, or more than is read
			size = largest
		}
		if size <= small {
			next.ServeHTTP(w, r)
			return
		}
		leave := l.read.TryAcquire(r, size)
		if leave == nil {
			http.Error(w, errTooMany.Error(), http.StatusTooManyRequests)
			return
		}
		defer leave()
		body, err := readAll(w, r, size)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if err := l.answered.Acquire(r.Context(), size); err != nil {
			http.Error(w, fmt.Sprintf("%v: %v", errTooMany, err), http.StatusServiceUnavailable)
			return
		}
		defer l.answered.Release(size)
		r = r.WithContext(r.Context())
		r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), r.Body))
		next.ServeHTTP(w, r)
	})
}

// readAll reads a body up to a size. The handler refuses one with more.
func readAll(w http.ResponseWriter, r *http.Request, size int64) ([]byte, error) {
	connection := http.NewResponseController(w)
	if err := connection.SetReadDeadline(time.Now().Add(readTimeout)); err != nil {
		ctrl.LoggerFrom(r.Context()).V(1).Info("A body may take any time", "reason", err.Error())
	} else {
		defer func() { _ = connection.SetReadDeadline(time.Time{}) }() // the answer has its own time
	}
	body := bytes.NewBuffer(make([]byte, 0, min(size, max(r.ContentLength, small))+bytes.MinRead))
	_, err := body.ReadFrom(io.LimitReader(r.Body, size))
	if err != nil {
		return nil, fmt.Errorf("reading the request: %w", err)
	}
	return body.Bytes(), nil
}
