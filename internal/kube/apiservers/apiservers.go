// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package apiservers asks every API server of a cluster by itself: each learns of policies and webhooks on its own, and one does not speak for another.
package apiservers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=get,resourceNames=kubernetes

const (
	// dialTimeout is how long a server may take to be reached, askTimeout how long to answer.
	dialTimeout = time.Second
	askTimeout  = 2 * time.Second
	// pause lies between two questions of Until.
	pause = 50 * time.Millisecond
)

// Servers are the API servers of a cluster.
type Servers struct {
	live    client.Reader
	config  *rest.Config
	options client.Options

	mutex   sync.Mutex
	clients map[string]client.Client
}

// New returns the servers behind a configuration. live reads past the cache.
func New(live client.Reader, config *rest.Config, options client.Options) *Servers {
	return &Servers{live: live, config: config, options: options, clients: map[string]client.Client{}}
}

// Each asks all servers at once, and returns one's error. Unreachable ones are left out,
// unless all are.
func (s *Servers) Each(ctx context.Context, ask func(context.Context, client.Client) error) error {
	clients, err := s.all(ctx)
	if err != nil {
		return err
	}
	errs := make([]error, len(clients))
	var group sync.WaitGroup
	for i, one := range clients {
		group.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, askTimeout)
			defer cancel()
			errs[i] = ask(ctx, one)
		})
	}
	group.Wait()
	reached := slices.DeleteFunc(slices.Clone(errs), unreachable)
	if len(reached) == 0 {
		return errors.Join(errs...)
	}
	return errors.Join(reached...)
}

// Until asks until no server returns an error, or ctx ends. Then it returns the last error.
func (s *Servers) Until(ctx context.Context, ask func(context.Context, client.Client) error) error {
	var err error
	_ = wait.PollUntilContextCancel(ctx, pause, true, func(ctx context.Context) (bool, error) { // its error is that ctx has ended
		err = s.Each(ctx, ask)
		return err == nil, nil
	})
	return err
}

// unreachable is true if an error is no server's answer.
func unreachable(err error) bool {
	var connection *net.OpError
	return errors.As(err, &connection)
}

// all are clients of the servers, by address; of the configured one if the cluster names
// none.
func (s *Servers) all(ctx context.Context) ([]client.Client, error) {
	addresses, err := s.addresses(ctx)
	if err != nil {
		return nil, err
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	maps.DeleteFunc(s.clients, func(address string, _ client.Client) bool { return !slices.Contains(addresses, address) })
	clients := make([]client.Client, len(addresses))
	for i, address := range addresses {
		if s.clients[address] == nil {
			if s.clients[address], err = client.New(s.to(address), s.options); err != nil {
				return nil, fmt.Errorf("making a client of the API server at %q: %w", address, err)
			}
		}
		clients[i] = s.clients[address]
	}
	return clients, nil
}

// to is the configuration for one server. It keeps the configured name, for the
// certificate.
func (s *Servers) to(address string) *rest.Config {
	config := rest.CopyConfig(s.config)
	config.QPS = -1
	if address != "" {
		config.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, address)
		}
	}
	return config
}

// addresses are the servers'; an empty one is the configured server.
func (s *Servers) addresses(ctx context.Context) ([]string, error) {
	slice := &discoveryv1.EndpointSlice{}
	err := s.live.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "kubernetes"}, slice)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("reading which API servers there are: %w", err)
	}
	var all []string
	for _, endpoint := range slice.Endpoints {
		for _, port := range slice.Ports {
			for _, host := range endpoint.Addresses {
				if ptr.Deref(endpoint.Conditions.Ready, true) && port.Port != nil {
					all = append(all, net.JoinHostPort(host, strconv.Itoa(int(*port.Port))))
				}
			}
		}
	}
	if len(all) == 0 {
		all = []string{""}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}
