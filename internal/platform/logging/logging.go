// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package logging makes the process's logger.
package logging

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
	"go.uber.org/zap/zapcore"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// New returns a logger that writes lines of the format json or console. Level is error, info, debug, or the highest V(n) to
// write as a number; info is V(0), debug V(1).
func New(out io.Writer, level, format string) (logr.Logger, error) {
	zapLevel, err := parse(level)
	if err != nil {
		return logr.Logger{}, err
	}
	encoder := zap.JSONEncoder()
	switch format {
	case "json":
	case "console":
		encoder = zap.ConsoleEncoder()
	default:
		return logr.Logger{}, fmt.Errorf("unknown log format %q: know json and console", format)
	}
	return zap.New(zap.WriteTo(out), zap.Level(zapLevel), encoder, zap.StacktraceLevel(zapcore.DPanicLevel)), nil
}

func parse(level string) (zapcore.Level, error) {
	switch strings.ToLower(level) {
	case "error":
		return zapcore.ErrorLevel, nil
	case "info":
		return zapcore.InfoLevel, nil
	case "debug":
		return zapcore.DebugLevel, nil
	}
	verbosity, err := strconv.ParseInt(level, 10, 8)
	if err != nil || verbosity < 0 || verbosity > 127 {
		return 0, fmt.Errorf("unknown log level %q: know error, info, debug and numbers from 0", level)
	}
	return zapcore.Level(-verbosity), nil
}
