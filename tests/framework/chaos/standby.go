// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/tests/framework/faultproxy"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
)

// pair are two replicas of an operator: one leads, the other waits with a warm cache.
type pair struct {
	leader, standby *operator.Operator
	// behind is the proxy of the standby.
	behind *faultproxy.Proxy
	// lease is the name of theirs, holder who held it last.
	lease, holder string
}

// standby intercepts the waiting replica. Its writes count like the leader's.
type standby struct{ *interceptor }

// Intercept is called for each request.
func (s standby) Intercept(w http.ResponseWriter, r *http.Request, next http.Handler) bool {
	t, ok := faultproxy.TargetOf(r)
	if !ok {
		return false
	}
	if faultproxy.IsWrite(r) {
		s.mutex.Lock()
		s.early = s.early || s.counts(t) && !s.hasFired()
		s.mutex.Unlock()
		return s.write(w, r, next, t)
	}
	query := r.URL.Query()
	if query.Get("watch") == "" || query.Get("watch") == "false" {
		return false
	}
	s.mutex.Lock()
	planned := t.Resource == s.plan.Resource
	s.mutex.Unlock()
	if !planned {
		return false
	}
	next.ServeHTTP(&late{ResponseWriter: w, ctx: r.Context(), of: s.interceptor}, r)
	return true
}

// late holds the events of a watch back while the standby lags.
type late struct {
	http.ResponseWriter
	ctx context.Context //nolint:containedctx // of the request that it answers
	of  *interceptor
}

func (l *late) Write(data []byte) (int, error) {
	l.of.mutex.Lock()
	lagging, release := l.of.lagging, l.of.release
	l.of.mutex.Unlock()
	if lagging {
		select {
		case <-release:
		case <-l.ctx.Done():
			return 0, l.ctx.Err()
		}
	}
	return l.ResponseWriter.Write(data)
}

// Flush lets the proxy send at once.
func (l *late) Flush() {
	if f, ok := l.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// startPair replaces the operator by two sharing a lease of two seconds, until the test
// ends. One successful request in 1.8 seconds keeps the lease on a loaded machine.
func (l *Lane) startPair(t *testing.T) *pair {
	t.Helper()
	if l.running {
		_ = l.operator.Kill()
		l.running = false
	}
	p, err := l.newPair(t)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.leader.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.leader.Kill() })
	if err := l.elected(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if err := p.standby.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.standby.Kill() })
	return p
}

func (l *Lane) newPair(t *testing.T) (*pair, error) {
	p := &pair{lease: "chaos-" + l.Name}
	var err error
	if p.behind, err = faultproxy.Start(l.Environment.Cluster, 1); err != nil {
		return nil, err
	}
	if !l.everywhere {
		l.confine(p.behind)
	}
	p.behind.Intercept(standby{l.interceptor})
	for name, replica := range map[string]struct {
		proxy *faultproxy.Proxy
		into  **operator.Operator
	}{"leader-": {l.proxy, &p.leader}, "standby-": {p.behind, &p.standby}} {
		replica.proxy.Lease(p.lease)
		*replica.into, err = operator.New(t.Context(), l.Environment.Cluster, operator.Options{
			Name: name + l.Name, Kubeconfig: replica.proxy.Kubeconfig(), NoWebhooks: true, LeaderElect: true,
			Args: append(l.args(), "--leader-elect-lease-duration=2s", "--leader-elect-renew-deadline=1800ms", "--leader-elect-retry-period=300ms"),
		})
		if err != nil {
			return nil, err
		}
	}
	lease := &coordinationv1.Lease{}
	err = l.Environment.Client.Get(t.Context(), client.ObjectKey{Namespace: "kruise-system", Name: p.lease}, lease)
	p.holder = ptr.Deref(lease.Spec.HolderIdentity, "")
	return p, client.IgnoreNotFound(err)
}

// elected waits until somebody else holds the lease than before.
func (l *Lane) elected(ctx context.Context, p *pair) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		lease := &coordinationv1.Lease{}
		err := l.Environment.Client.Get(ctx, client.ObjectKey{Namespace: "kruise-system", Name: p.lease}, lease)
		if holder := ptr.Deref(lease.Spec.HolderIdentity, ""); err == nil && holder != "" && holder != p.holder {
			p.holder = holder
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return errors.Join(err, fmt.Errorf("nobody took the lease %s over from %q", p.lease, p.holder))
		}
	}
}

// failOver kills the leader, lets the standby take over with an old view, and updates this
// a while later. It keeps the standby running until the end: one losing its lease on a
// loaded machine ends and has to be restarted.
func (l *Lane) failOver(ctx context.Context, p *pair, over <-chan struct{}) error {
	if err := p.leader.Kill(); err != nil {
		return err
	}
	elected, err := make(chan struct{}), error(nil)
	go func() {
		defer close(elected)
		err = l.elected(ctx, p)
		l.interceptor.note("the standby leads")
		<-time.After(staleFor)
		l.interceptor.note("the standby sees what it missed")
		l.interceptor.let()
	}()
	for {
		select {
		case <-p.standby.Done():
			l.interceptor.note("the standby has ended, and is started again")
			if err := p.standby.Kill(); err != nil {
				return err
			}
			if err := p.standby.Run(ctx); err != nil {
				return err
			}
		case <-over:
			<-elected
			return err
		case <-ctx.Done():
			<-elected
			return nil
		}
	}
}
