// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Registry serves images over plain HTTP from memory. It answers for every registry host: an image
// is stored under its repository and tag alone, so docker.io/team/web:v1 and
// quay.io/team/web:v1 are the same image.
type Registry struct {
	server  *http.Server
	handler http.Handler
	done    chan error

	mutex sync.Mutex
	// private are the credentials by the repositories' paths.
	private map[string]credentials
	// between are asked before the handler, by the repositories' paths.
	between map[string]Between
}

// Between stands before the registry: it answers a request itself, or calls next.
type Between func(w http.ResponseWriter, r *http.Request, next http.Handler)

type credentials struct{ user, password string }

// Serve starts a registry on the listener and owns it from then on.
func Serve(listener net.Listener) *Registry {
	handler := http.Handler(closedRanges{registry.New(registry.Logger(log.New(io.Discard, "", 0)))})
	r := &Registry{
		handler: handler,
		done:    make(chan error, 1),
		private: map[string]credentials{},
		between: map[string]Between{},
	}
	r.server = &http.Server{Handler: http.HandlerFunc(r.serve), ReadHeaderTimeout: 10 * time.Second}
	go func() { r.done <- r.server.Serve(listener) }()
	return r
}

// Listen serves a further listener, until Close.
func (r *Registry) Listen(listener net.Listener) { go func() { _ = r.server.Serve(listener) }() }

// Push stores the image under a reference such as "openkruise/guestbook:v1". Pushing the same image under a second
// tag gives two names for one image ID.
func (r *Registry) Push(ctx context.Context, reference string, image v1.Image) error {
	target, err := name.ParseReference(reference, name.Insecure)
	if err != nil {
		return err
	}
	// The request never leaves the process: the transport hands it to the handler.
	err = remote.Write(target, image, remote.WithContext(ctx), remote.WithTransport(handlerTransport{r.handler}))
	if err != nil {
		return fmt.Errorf("pushing %s: %w", reference, err)
	}
	return nil
}

// Protect lets nobody pull from a repository, such as "team/web", without a name and a password. Pushing is not affected.
func (r *Registry) Protect(repository, user, password string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.private["/v2/"+repository+"/"] = credentials{user, password}
}

// Intercept asks between about every authorized request for a repository, such as
// "team/web", over a connection. Nil ends it.
func (r *Registry) Intercept(repository string, between Between) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.between["/v2/"+repository+"/"] = between
}

// serve answers a request over a connection, and asks for credentials if needed.
func (r *Registry) serve(response http.ResponseWriter, request *http.Request) {
	user, password, _ := request.BasicAuth()
	if !r.admits(request.URL.Path, credentials{user, password}) {
		response.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
		http.Error(response, `{"errors":[{"code":"UNAUTHORIZED"}]}`, http.StatusUnauthorized)
		return
	}
	if between := r.interceptor(request.URL.Path); between != nil {
		between(response, request, r.handler)
		return
	}
	r.handler.ServeHTTP(response, request)
}

func (r *Registry) interceptor(path string) Between {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for prefix, between := range r.between {
		if strings.HasPrefix(path, prefix) {
			return between
		}
	}
	return nil
}

func (r *Registry) admits(path string, given credentials) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for prefix, wanted := range r.private {
		if strings.HasPrefix(path, prefix) && given != wanted {
			return false
		}
	}
	return true
}

// Close stops the registry and drops its content.
func (r *Registry) Close() error {
	closed := r.server.Close()
	if err := <-r.done; !errors.Is(err, http.ErrServerClosed) {
		return errors.Join(closed, err)
	}
	return closed
}

// closedRanges adds the end to a request for the rest of a blob, sent by a runtime resuming
// a pull: the handler refuses "bytes=100-" without one.
type closedRanges struct {
	handler http.Handler
}

func (c closedRanges) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	var from int64
	given := request.Header.Get("Range")
	if _, err := fmt.Sscanf(given, "bytes=%d-", &from); err != nil || !strings.HasSuffix(given, "-") || request.Method != http.MethodGet {
		c.handler.ServeHTTP(response, request)
		return
	}
	head := request.Clone(request.Context())
	head.Method = http.MethodHead
	head.Header.Del("Range")
	whole := httptest.NewRecorder()
	c.handler.ServeHTTP(whole, head)
	if whole.Code == http.StatusOK {
		size := whole.Result().ContentLength
		if from >= size {
			http.Error(response, fmt.Sprintf("the blob has %d bytes", size), http.StatusRequestedRangeNotSatisfiable)
			return
		}
		request = request.Clone(request.Context())
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", from, size-1))
	}
	c.handler.ServeHTTP(response, request)
}

// handlerTransport answers requests by calling a handler, without a connection.
type handlerTransport struct {
	handler http.Handler
}

// RoundTrip implements [http.RoundTripper].
func (t handlerTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Body == nil {
		// A handler may rely on a body; a client may leave it out.
		request = request.Clone(request.Context())
		request.Body = http.NoBody
	}
	recorder := httptest.NewRecorder()
	t.handler.ServeHTTP(recorder, request)
	response := recorder.Result()
	response.Request = request
	return response, nil
}
