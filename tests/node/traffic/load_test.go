// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package traffic_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// pace is one request: 200 each second.
	pace = 5 * time.Millisecond
	// fresh is when the client forgets its connections.
	fresh = time.Second
	// workers are how many requests may be under way.
	workers = 64
)

// visitor sends requests to a host behind the gateway.
type visitor struct {
	url, host string
	client    *http.Client

	mutex   sync.Mutex
	answers []answer
}

// answer is what a request got.
type answer struct {
	sent    time.Time
	took    time.Duration
	version string
	err     error
}

func newVisitor(port int, host string) *visitor {
	return &visitor{
		url: fmt.Sprintf("http://127.0.0.1:%d/", port), host: host,
		client: &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: workers}},
	}
}

// version is that of the pod that answers. header is "name: value", or empty.
func (v *visitor) version(ctx context.Context, header string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, v.url, nil)
	if err != nil {
		return "", err
	}
	request.Host = v.host
	if name, value, found := strings.Cut(header, ": "); found {
		request.Header.Set(name, value)
	}
	response, err := v.client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	words := strings.Fields(string(text))
	if response.StatusCode != http.StatusOK || len(words) < 2 || words[0] != "guestbook" {
		return "", fmt.Errorf("%s: %q", response.Status, text)
	}
	return words[1], nil
}

// keepAsking sends requests until the returned function is called, which returns their answers. Nothing may stop it in between.
func (v *visitor) keepAsking(t *testing.T) (stop func() []answer) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var all errgroup.Group
		all.SetLimit(workers)
		renew, next := time.NewTicker(fresh), time.NewTicker(pace)
		defer renew.Stop()
		defer next.Stop()
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-renew.C:
				v.client.CloseIdleConnections()
			case <-next.C:
				all.Go(func() error {
					v.once(context.WithoutCancel(ctx))
					return nil
				})
			}
		}
		_ = all.Wait()
	}()
	stop = func() []answer {
		cancel()
		<-ended
		v.mutex.Lock()
		defer v.mutex.Unlock()
		return v.answers
	}
	t.Cleanup(func() { stop() })
	return stop
}

func (v *visitor) once(ctx context.Context) {
	sent := time.Now()
	version, err := v.version(ctx, "")
	a := answer{sent: sent, took: time.Since(sent), version: version, err: err}
	v.mutex.Lock()
	defer v.mutex.Unlock()
	v.answers = append(v.answers, a)
}

// shares are the percentages of versions in the answers to so many requests.
func (v *visitor) shares(ctx context.Context, count int, header string) (map[string]float64, error) {
	var all errgroup.Group
	all.SetLimit(8)
	var mutex sync.Mutex
	shares := map[string]float64{}
	for range count {
		all.Go(func() error {
			version, err := v.version(ctx, header)
			mutex.Lock()
			defer mutex.Unlock()
			shares[version] += 100 / float64(count)
			return err
		})
	}
	return shares, all.Wait()
}
