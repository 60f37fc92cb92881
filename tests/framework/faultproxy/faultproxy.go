// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package faultproxy stands between the operator and the API server of a test cluster and makes the connection as bad as asked:
// writes are refused, their answers lost, or nothing comes back at all; watches are slow or end early. Without faults it passes
// everything on.
package faultproxy

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
)

// Faults configure failures. The zero value has none. Requests for tokens and leases are
// always passed on.
type Faults struct {
	// Refuse is the share of writes, 0 to 1, answered with one of Codes and not passed on.
	Refuse float64
	Codes  []int
	// Lose is the share of writes carried out whose answer is lost with the connection.
	Lose float64
	// Hang is a namespace whose writes get no answer and are not passed on.
	Hang string
	// WatchDelay delays watch events, and WatchLife limits new watches; zero is no limit.
	WatchDelay, WatchLife time.Duration
}

// Counts are numbers of events.
type Counts struct {
	// Requests are all, Writes the ones for a change.
	Requests, Writes int
	// Refused, Lost, Hung and Cut are faults: the last one expired watches.
	Refused, Lost, Hung, Cut int
}

// Proxy is a running proxy. It ends with the cluster.
type Proxy struct {
	kubeconfig string
	// asAdmin passes requests on with the administrator's certificate, asSent with their
	// own token.
	asAdmin, asSent *httputil.ReverseProxy

	mutex  sync.Mutex
	faults Faults
	// watches ends with the faults, and so do the watches begun under them.
	watches    context.Context //nolint:containedctx // it is replaced with the faults
	endWatches context.CancelFunc
	random     *rand.Rand
	counts     Counts
	// namespace is the only visible one, nodes selects visible nodes, lease is the
	// operator's name, and interceptor meets requests first; see confine.go.
	namespace, nodes, lease string

	interceptor Interceptor
}

// Start starts a proxy. The seed decides which writes fail, as far as their order is the
// same.
func Start(c *cluster.Cluster, seed uint64) (*Proxy, error) {
	p := &Proxy{random: rand.New(rand.NewPCG(seed, seed))}
	p.watches, p.endWatches = context.WithCancel(context.Background())
	target, err := url.Parse(c.APIServerURL())
	if err != nil {
		return nil, err
	}
	for _, side := range []struct {
		config *rest.Config
		into   **httputil.ReverseProxy
	}{{c.Config(), &p.asAdmin}, {rest.AnonymousClientConfig(c.Config()), &p.asSent}} {
		transport, err := rest.TransportFor(side.config)
		if err != nil {
			return nil, fmt.Errorf("connecting the proxy to the API server: %w", err)
		}
		*side.into = &httputil.ReverseProxy{
			Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
			Transport:      transport,
			FlushInterval:  -1,
			ErrorLog:       log.New(io.Discard, "", 0), // broken connections are what it is for
			ModifyResponse: p.slowDown,
			// The API server is away: whoever asked finds the connection broken, as without a proxy.
			ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		}
	}

	pair, err := c.PKI().Server("faultproxy", "127.0.0.1")
	if err != nil {
		return nil, fmt.Errorf("issuing the proxy's certificate: %w", err)
	}
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return nil, fmt.Errorf("loading the proxy's certificate: %w", err)
	}
	port, err := c.FreePort()
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	server := &http.Server{
		Handler:           p,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: time.Minute,
	}
	go func() { _ = server.ServeTLS(listener, "", "") }()
	c.OnStop(server.Close)

	p.kubeconfig = filepath.Join(c.Dir(), fmt.Sprintf("faultproxy-%d.kubeconfig", port))
	content, err := clientcmd.Write(clientcmdapi.Config{
		CurrentContext: "faultproxy",
		Contexts:       map[string]*clientcmdapi.Context{"faultproxy": {Cluster: "faultproxy"}},
		Clusters: map[string]*clientcmdapi.Cluster{
			"faultproxy": {Server: "https://" + listener.Addr().String(), CertificateAuthorityData: c.CA()},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the proxy's kubeconfig: %w", err)
	}
	if err := os.WriteFile(p.kubeconfig, content, 0o600); err != nil {
		return nil, fmt.Errorf("writing the proxy's kubeconfig: %w", err)
	}
	return p, nil
}

// Kubeconfig is the path of a kubeconfig through the proxy. Requests without a token have
// the administrator's rights.
func (p *Proxy) Kubeconfig() string { return p.kubeconfig }

// Set replaces the faults. Requests under way keep theirs, but watches end if their faults
// changed. The more often this happens, the longer a client waits for its next watch.
func (p *Proxy) Set(faults Faults) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	before := p.faults
	p.faults = faults
	if before.WatchDelay == faults.WatchDelay && before.WatchLife == faults.WatchLife {
		return
	}
	p.endWatches()
	p.watches, p.endWatches = context.WithCancel(context.Background())
}

// Counts returns the numbers since the last call.
func (p *Proxy) Counts() Counts {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	counts := p.counts
	p.counts = Counts{}
	return counts
}

// fate is one request's.
type fate struct {
	refuse     int
	lose, hang bool
}

// decide counts a request and draws its fate.
func (p *Proxy) decide(r *http.Request) fate {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.counts.Requests++
	if !IsWrite(r) {
		return fate{}
	}
	p.counts.Writes++
	switch draw := p.random.Float64(); {
	case p.faults.Hang != "" && strings.Contains(r.URL.Path, "/namespaces/"+p.faults.Hang+"/"):
		p.counts.Hung++
		return fate{hang: true}
	case draw < p.faults.Refuse && len(p.faults.Codes) > 0:
		p.counts.Refused++
		return fate{refuse: p.faults.Codes[p.random.IntN(len(p.faults.Codes))]}
	case draw < p.faults.Refuse+p.faults.Lose:
		p.counts.Lost++
		return fate{lose: true}
	}
	return fate{}
}

// IsWrite is true for requests for a change, which may meet a fault.
func IsWrite(r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions {
		return false
	}
	return !strings.Contains(r.URL.Path, "/leases") && !strings.HasSuffix(r.URL.Path, "/token") && !r.URL.Query().Has("dryRun")
}

// ServeHTTP passes a request on, or not.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mutex.Lock()
	namespace, nodes, lease, interceptor := p.namespace, p.nodes, p.lease, p.interceptor
	p.mutex.Unlock()
	if namespace != "" {
		confine(r, namespace, nodes)
	}
	if lease != "" {
		if err := rename(r, lease); err != nil {
			Refuse(w, http.StatusInternalServerError, err.Error())
			return
		}
	}
	next := p.asAdmin
	if r.Header.Get("Authorization") != "" {
		next = p.asSent
	}
	if interceptor != nil && interceptor.Intercept(w, r, next) {
		return
	}
	switch fate := p.decide(r); {
	case fate.hang:
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case fate.refuse != 0:
		Refuse(w, fate.refuse, fmt.Sprintf("fault %d of the test", fate.refuse))
	case fate.lose:
		// The client may give up meanwhile; the write is carried out all the same.
		next.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	default:
		next.ServeHTTP(w, r)
	}
}

// Refuse answers as the API server does.
func Refuse(w http.ResponseWriter, code int, message string) {
	reason := map[int]metav1.StatusReason{
		http.StatusConflict:            metav1.StatusReasonConflict,
		http.StatusTooManyRequests:     metav1.StatusReasonTooManyRequests,
		http.StatusInternalServerError: metav1.StatusReasonInternalError,
		http.StatusForbidden:           metav1.StatusReasonForbidden,
		http.StatusGone:                metav1.StatusReasonExpired,
		http.StatusGatewayTimeout:      metav1.StatusReasonTimeout,
		http.StatusUnprocessableEntity: metav1.StatusReasonInvalid,
	}[code]
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	}
	w.Header().Set("Content-Type", "application/json")
	if code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(status)
}

// slowDown makes the answer to a watch slow and short.
func (p *Proxy) slowDown(response *http.Response) error {
	if response.Request.URL.Query().Get("watch") == "" {
		return nil
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	response.Body = newSlowBody(p.watches, response.Body, p.faults.WatchDelay, p.faults.WatchLife, func() {
		p.mutex.Lock()
		defer p.mutex.Unlock()
		p.counts.Cut++
	})
	return nil
}
