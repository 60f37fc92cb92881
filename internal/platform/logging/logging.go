// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package logging makes the process's logger.
package logging

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
	"go.uber.org/zap/zapcore"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// New returns a logger writing json or console lines, filtered by levels. Changing the levels affects it and
// every logger made from it.
func New(out io.Writer, levels *Levels, format string) (logr.Logger, error) {
	encoder := zap.JSONEncoder()
	switch format {
	case "json":
	case "console":
		encoder = zap.ConsoleEncoder()
	default:
		return logr.Logger{}, fmt.Errorf("unknown log format %q: know json and console", format)
	}
	everything := zapcore.Level(math.MinInt8)
	log := zap.New(zap.WriteTo(out), zap.Level(everything), encoder, zap.StacktraceLevel(zapcore.DPanicLevel))
	return logr.New(&sink{LogSink: log.GetSink(), levels: levels}), nil
}

// trace is this level's verbosity.
const trace = 4

// ParseLevel reads error, info, debug, trace, in any case, or the highest V(n) to write as a number; info is
// V(0), debug V(1), trace V(4). It returns this n, or -1 for error.
func ParseLevel(level string) (int, error) {
	switch strings.ToLower(level) {
	case "error":
		return -1, nil
	case "info":
		return 0, nil
	case "debug":
		return 1, nil
	case "trace":
		return trace, nil
	}
	verbosity, err := strconv.ParseInt(level, 10, 8)
	if err != nil || verbosity < 0 {
		return 0, fmt.Errorf("unknown log level %q: know error, info, debug, trace and numbers from 0", level)
	}
	return int(verbosity), nil
}
