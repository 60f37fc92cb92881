// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package faultproxy

import (
	"context"
	"errors"
	"io"
	"time"
)

// slowBody delivers its source a fixed time later, and ends after its life.
type slowBody struct {
	source io.ReadCloser
	chunks chan chunk
	// rest and err are left of the last chunk.
	rest []byte
	err  error
	// life ends the body, at its deadline or before.
	life context.Context //nolint:containedctx // a reader has no other way to be told
	end  context.CancelFunc
	cut  func()
}

type chunk struct {
	data []byte
	due  time.Time
	err  error
}

// newSlowBody wraps source. A life of zero is limited by ctx alone; cut is called at the
// limit.
func newSlowBody(ctx context.Context, source io.ReadCloser, delay, life time.Duration, cut func()) *slowBody {
	b := &slowBody{source: source, chunks: make(chan chunk, 1024), cut: cut}
	if life > 0 {
		b.life, b.end = context.WithTimeout(ctx, life)
	} else {
		b.life, b.end = context.WithCancel(ctx)
	}
	go func() {
		for {
			buffer := make([]byte, 32<<10)
			n, err := source.Read(buffer)
			select {
			case b.chunks <- chunk{data: buffer[:n], due: time.Now().Add(delay), err: err}:
			case <-b.life.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return b
}

func (b *slowBody) Read(into []byte) (int, error) {
	if len(b.rest) == 0 {
		if b.err != nil {
			return 0, b.err
		}
		select {
		case next := <-b.chunks:
			b.rest, b.err = next.data, next.err
			due := time.NewTimer(time.Until(next.due))
			defer due.Stop()
			select {
			case <-due.C:
			case <-b.life.Done():
				return b.over()
			}
		case <-b.life.Done():
			return b.over()
		}
	}
	n := copy(into, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func (b *slowBody) over() (int, error) {
	b.rest, b.err = nil, io.EOF
	if errors.Is(b.life.Err(), context.DeadlineExceeded) {
		b.cut()
	}
	return 0, io.EOF
}

func (b *slowBody) Close() error {
	b.end()
	return b.source.Close()
}
