// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	rehearsal = "rehearsal"

	stepTimeout      = 15 * time.Minute
	rehearsalTimeout = 2 * time.Minute
	// quietTime lets the cluster finish the turn before.
	quietTime = 5 * time.Second
	// unavailable is the percentage of pods out of service during an update.
	unavailable = 20
)

// The steps of a turn.
const (
	start = iota
	update
)

var steps = [2]string{"start", "in place"}

// bench is shared by all measurements.
type bench struct {
	options
	config    *rest.Config
	core      *kubernetes.Clientset
	namespace string
	observer  *pods // sees the pods of operator and bare client alike
	bare      *bare
	// contenders has the bare client first, then the operators.
	contenders []*contender
	version    string // of the cluster
	cleanUp    []func() error
}

// actor brings pods about.
type actor interface {
	// begin makes it ready to act, end stops it. A turn lies in between.
	begin(ctx context.Context) error
	end(ctx context.Context) error
	// act asks for the step. It may return before the pods are ready.
	act(ctx context.Context, step, pods int) error
	// settle returns when there is nothing left to do.
	settle(ctx context.Context, pods int) error
	// used is its processor time in seconds and its peak memory in MiB, or NaN.
	used() (cpu, peak float64, err error)
}

// contender is an actor with its measurements.
type contender struct {
	actor
	name    string
	samples [2][]sample
}

// turn lets a contender start pods, update them, and removes them.
func (b *bench) turn(ctx context.Context, c *contender, round string, pods int) (err error) {
	timeout := stepTimeout
	if round == rehearsal {
		timeout = rehearsalTimeout
	}
	if err := c.begin(ctx); err != nil {
		return fmt.Errorf("starting it: %w", err)
	}
	for step, name := range steps {
		if err = pause(ctx, quietTime); err != nil {
			break
		}
		var s sample
		if s, err = b.measure(ctx, c, step, pods, timeout); err != nil {
			err = fmt.Errorf("%s: %w", name, err)
			break
		}
		c.samples[step] = append(c.samples[step], s)
		fmt.Fprintf(os.Stderr, "%s: %s, %s: %.1f s, API server %.1f s of CPU\n", round, c.name, name, s.seconds, s.server)
	}
	if err = errors.Join(err, c.end(context.WithoutCancel(ctx))); err != nil {
		return err // close removes what is left
	}
	return b.clear(ctx)
}

// measure returns a step's figures.
func (b *bench) measure(ctx context.Context, c *contender, step, pods int, timeout time.Duration) (s sample, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not done after %s", timeout))
	defer cancel()
	server, err := b.server(ctx)
	if err != nil {
		return s, err
	}
	cpu, _, err := c.used()
	if err != nil {
		return s, err
	}
	began := time.Now()
	if err := c.act(ctx, step, pods); err != nil {
		return s, err
	}
	if err := b.observer.allReady(ctx, pods, b.images[step]); err != nil {
		return s, err
	}
	s.seconds = time.Since(began).Seconds()
	if err := c.settle(ctx, pods); err != nil {
		return s, err
	}
	later, err := b.server(ctx)
	if err != nil {
		return s, err
	}
	s.server, s.writes = later.cpu-server.cpu, (later.writes-server.writes)/float64(pods)
	now, peak, err := c.used()
	s.cpu, s.peak = now-cpu, peak
	return s, err
}

// clear removes the remaining pods.
func (b *bench) clear(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	options := metav1.DeleteOptions{}
	if !b.installed {
		options.GracePeriodSeconds = new(int64)
	}
	// Of thousands of pods the server deletes as many as it can within a minute, then
	// fails.
	for {
		err := b.core.CoreV1().Pods(b.namespace).DeleteCollection(ctx, options, metav1.ListOptions{})
		if err == nil || ctx.Err() != nil {
			return errors.Join(err, b.observer.allReady(ctx, 0, ""))
		}
	}
}

// makeNamespace makes an unused one.
func (b *bench) makeNamespace(ctx context.Context) error {
	made, err := b.core.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "kruise-bench-"}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	b.namespace = made.Name
	if b.installed {
		b.cleanUp = append(b.cleanUp, b.deleteNamespace)
	}
	for { // pods need the service account, which a controller makes
		if _, err := b.core.CoreV1().ServiceAccounts(b.namespace).Get(ctx, "default", metav1.GetOptions{}); err == nil {
			return nil
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

func (b *bench) deleteNamespace() error {
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	namespaces := b.core.CoreV1().Namespaces()
	err := namespaces.Delete(ctx, b.namespace, metav1.DeleteOptions{})
	for err == nil {
		if _, gone := namespaces.Get(ctx, b.namespace, metav1.GetOptions{}); gone != nil {
			err = gone
		} else {
			err = pause(ctx, time.Second)
		}
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("namespace %s is left: %w", b.namespace, err)
}

// close undoes open in reverse order.
func (b *bench) close() error {
	var err error
	for i := len(b.cleanUp) - 1; i >= 0; i-- {
		err = errors.Join(err, b.cleanUp[i]())
	}
	return err
}

func pause(ctx context.Context, span time.Duration) error {
	select {
	case <-time.After(span):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
