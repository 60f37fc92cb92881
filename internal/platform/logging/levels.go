// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package logging

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// controllerKey holds a controller's name in controller-runtime's loggers.
const controllerKey = "controller"

// Levels says how much is logged, for all and for single controllers. It may change at any time.
type Levels struct {
	current atomic.Pointer[levels]
}

type levels struct {
	all        int
	controller map[string]int
}

// NewLevels returns levels after Set.
func NewLevels(all string, controllers map[string]string) (*Levels, error) {
	l := &Levels{}
	return l, l.Set(all, controllers)
}

// Set changes the levels: of everything, and of single controllers by their names. After an error they are as before.
func (l *Levels) Set(all string, controllers map[string]string) error {
	next := &levels{controller: map[string]int{}}
	var err error
	if next.all, err = ParseLevel(all); err != nil {
		return err
	}
	for name, level := range controllers {
		if next.controller[name], err = ParseLevel(level); err != nil {
			return fmt.Errorf("controller %s: %w", name, err)
		}
	}
	l.current.Store(next)
	return nil
}

func (l *Levels) enabled(level int, controller string) bool {
	current := l.current.Load()
	highest, ok := current.controller[controller]
	if !ok {
		highest = current.all
	}
	return level <= highest
}

// sink filters lines by level. It learns its controller from the loggers' values.
type sink struct {
	logr.LogSink

	levels     *Levels
	controller string
}

// Enabled implements logr.LogSink.
func (s *sink) Enabled(level int) bool { return s.levels.enabled(level, s.controller) }

// WithValues implements logr.LogSink.
func (s *sink) WithValues(pairs ...any) logr.LogSink {
	next := *s
	for i := 0; i+1 < len(pairs); i += 2 {
		if name, ok := pairs[i+1].(string); ok && pairs[i] == controllerKey {
			next.controller = name
		}
	}
	next.LogSink = s.LogSink.WithValues(pairs...)
	return &next
}

// Error implements logr.LogSink. client-go reports events in a namespace being deleted as errors. These are
// ordinary and need no action.
func (s *sink) Error(err error, message string, pairs ...any) {
	if strings.HasPrefix(message, rejectedEvent) && namespaceEnds(err) {
		if s.Enabled(1) {
			s.Info(1, message, append(slices.Clip(pairs), "err", err.Error())...)
		}
		return
	}
	s.LogSink.Error(err, message, pairs...)
}

// rejectedEvent begins client-go's message about an event refused by the server.
const rejectedEvent = "Server rejected event"

// namespaceEnds: the server refuses a creation because the namespace is being deleted or gone.
func namespaceEnds(err error) bool {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return true
	}
	var status apierrors.APIStatus
	return apierrors.IsNotFound(err) && errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Kind == "namespaces"
}

// WithName implements logr.LogSink.
func (s *sink) WithName(name string) logr.LogSink {
	next := *s
	next.LogSink = s.LogSink.WithName(name)
	return &next
}

// WithCallDepth implements logr.CallDepthLogSink.
func (s *sink) WithCallDepth(depth int) logr.LogSink {
	next := *s
	if inner, ok := s.LogSink.(logr.CallDepthLogSink); ok {
		next.LogSink = inner.WithCallDepth(depth)
	}
	return &next
}
