// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// readAhead is how much the layers above a connection take at once, in bytes.
const readAhead = 64 << 10

// frames reads a connection through a buffer like TLS's and HTTP/2's.
func frames(t *testing.T, conn net.Conn) io.ReadCloser {
	t.Helper()
	return protobuf(t).StreamSerializer.NewFrameReader(struct {
		io.Reader
		io.Closer
	}{bufio.NewReaderSize(conn, readAhead), conn})
}

// arrival is when bytes arrive.
type arrival struct {
	at    time.Time
	bytes []byte
}

// stream is a connection with bytes at certain times. Reading waits for the next.
type stream struct {
	net.Conn
	arrivals []arrival
	reads    int
	closed   bool
}

func (s *stream) Read(into []byte) (int, error) {
	s.reads++
	if len(s.arrivals) == 0 {
		return 0, io.EOF
	}
	time.Sleep(time.Until(s.arrivals[0].at))
	n := 0
	for len(s.arrivals) > 0 && n < len(into) && !s.arrivals[0].at.After(time.Now()) {
		first := &s.arrivals[0]
		copied := copy(into[n:], first.bytes)
		n += copied
		if first.bytes = first.bytes[copied:]; len(first.bytes) == 0 {
			s.arrivals = s.arrivals[1:]
		}
	}
	return n, nil
}

func (s *stream) Close() error {
	s.closed = true
	return nil
}

// opened is the stream as the cache opens it.
func opened(t *testing.T, s *stream) net.Conn {
	t.Helper()
	conn, err := pausing(func(context.Context, string, string) (net.Conn, error) { return s, nil })(t.Context(), "tcp", "server:443")
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// frame encloses a text as watches send it in protobuf.
func frame(t *testing.T, text string) []byte {
	t.Helper()
	var encoded bytes.Buffer
	if _, err := protobuf(t).StreamSerializer.NewFrameWriter(&encoded).Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return encoded.Bytes()
}

// arrive reads a series of events, and returns the number of reads and the delay of the
// first and the latest.
func arrive(t *testing.T, events, size int, apart time.Duration) (reads int, first, latest time.Duration) {
	t.Helper()
	start, from := time.Now().Add(time.Hour), &stream{}
	for i := range events {
		from.arrivals = append(from.arrivals, arrival{start.Add(time.Duration(i) * apart), frame(t, strings.Repeat("e", size+i%10))})
	}
	reader, buffer := frames(t, opened(t, from)), make([]byte, 2*size)
	for i := range events {
		n, err := reader.Read(buffer)
		if err != nil || n != size+i%10 {
			t.Fatalf("event %d has %d bytes, %v", i, n, err)
		}
		late := time.Since(start.Add(time.Duration(i) * apart))
		if latest = max(latest, late); i == 0 {
			first = late
		}
	}
	reads = from.reads
	if _, err := reader.Read(buffer); !errors.Is(err, io.EOF) {
		t.Errorf("the end of the stream is %v", err)
	}
	if err := reader.Close(); err != nil || !from.closed {
		t.Errorf("the stream is closed: %t, %v", from.closed, err)
	}
	return reads, first, latest
}

func TestAConnectionIsReadInBatches(t *testing.T) {
	for name, c := range map[string]struct {
		events, size int
		apart, pause time.Duration
	}{
		"some pods a second":       {100, 4000, 25 * time.Millisecond, readEvery},
		"hundreds a second":        {400, 4000, 5 * time.Millisecond, readBusyEvery},
		"small ones":               {1000, 100, time.Millisecond, readEvery},
		"a thousand a second":      {2000, 4000, time.Millisecond, readBusyEvery},
		"one now and then":         {20, 4000, time.Second, 0},
		"a large one now and then": {20, 40_000, time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reads, first, latest := arrive(t, c.events, c.size, c.apart)
				if first != 0 || latest > c.pause {
					t.Errorf("the first is %s late, want no delay, and another one %s, want at most %s", first, latest, c.pause)
				}
				if most := int(time.Duration(c.events)*c.apart/max(c.pause, c.apart)) + c.events*c.size/readAhead + 5; reads > most {
					t.Errorf("%d events %s apart were read %d times, at most %d are needed", c.events, c.apart, reads, most)
				}
			})
		})
	}
}

// More events than a rollout's are a slow list. Pauses would make the server wait; after
// the list they resume.
func TestAListThatArrivesSlowlyIsReadWithFewPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, from := time.Now(), &stream{}
		const pods, later = 4000, 2000
		for i := range pods {
			from.arrivals = append(from.arrivals, arrival{start.Add(time.Duration(i) * 100 * time.Microsecond), frame(t, strings.Repeat("p", 5000))})
		}
		reader, buffer := frames(t, opened(t, from)), make([]byte, 8192)
		var waited time.Duration
		for i := range pods {
			if _, err := reader.Read(buffer); err != nil {
				t.Fatal(err)
			}
			waited += time.Since(start.Add(time.Duration(i) * 100 * time.Microsecond))
		}
		if mean := waited / pods; mean > readEvery {
			t.Errorf("%d pods of a list waited for %s on average", pods, mean)
		}
		start, from.reads = time.Now(), 0
		for i := range later {
			from.arrivals = append(from.arrivals, arrival{start.Add(time.Duration(i) * 5 * time.Millisecond), frame(t, strings.Repeat("e", 5000))})
		}
		for range later {
			if _, err := reader.Read(buffer); err != nil {
				t.Fatal(err)
			}
		}
		if from.reads > bulkReads+later/5 {
			t.Errorf("%d events after the list were read %d times", later, from.reads)
		}
	})
}

// All pods of a cluster may come as one list, or as the first events of a watch.
func TestWhatHasArrivedIsReadWithoutPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		pod := frame(t, strings.Repeat("p", 5000))
		reader, buffer := frames(t, opened(t, &stream{arrivals: []arrival{{start, slices.Repeat(pod, 5000)}}})), make([]byte, 8192)
		for range 5000 {
			if n, err := reader.Read(buffer); err != nil || n != 5000 {
				t.Fatalf("read %d bytes, %v", n, err)
			}
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("25 MB that were there took %s", took)
		}
	})
}

func TestAConnectionThatCannotBeOpened(t *testing.T) {
	refused := errors.New("connection refused")
	open := pausing(func(context.Context, string, string) (net.Conn, error) { return nil, refused })
	if conn, err := open(t.Context(), "tcp", "server:443"); conn != nil || !errors.Is(err, refused) {
		t.Errorf("got %v, %v", conn, err)
	}
}

// counted counts bytes read from a connection.
type counted struct {
	net.Conn
	reads *atomic.Int64
}

func (c counted) Read(into []byte) (int, error) {
	c.reads.Add(1)
	return c.Conn.Read(into)
}

// The watch of pods goes through such a connection: each event read by itself would be a read more.
func TestTheCacheReadsPodsInBatches(t *testing.T) {
	const events = 300
	var reads atomic.Int64
	open := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return counted{conn, &reads}, err
	}
	ctx, c := served(t, open, fullPod("listed"), func(send func(*corev1.Pod)) {
		for i := range events {
			send(fullPod(fmt.Sprint("web-", i)))
			time.Sleep(time.Millisecond)
		}
	})
	last := client.ObjectKeyFromObject(fullPod(fmt.Sprint("web-", events-1)))
	err := wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		err := c.Get(ctx, last, &corev1.Pod{})
		return err == nil, client.IgnoreNotFound(err)
	})
	if err != nil {
		t.Fatalf("the last pod: %s", err)
	}
	if got := reads.Load(); got > events/2 {
		t.Errorf("%d events were read %d times", events, got)
	}
}
