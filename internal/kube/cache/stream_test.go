// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
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

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// streams are the stream serializers that the cache reads pods with, and the usual ones.
func streams(t *testing.T) (ofPods, usual *runtime.StreamSerializerInfo) {
	t.Helper()
	both := make([]*runtime.StreamSerializerInfo, 2)
	own, common := serializers()
	for i, of := range []runtime.NegotiatedSerializer{own, common} {
		for _, info := range of.SupportedMediaTypes() {
			if info.MediaType == runtime.ContentTypeProtobuf {
				both[i] = info.StreamSerializer
			}
		}
		if both[i] == nil {
			t.Fatal("there is no stream serializer of protobuf")
		}
	}
	return both[0], both[1]
}

func TestEventsAreDecodedAsUsualButNotCopied(t *testing.T) {
	ofPods, usual := streams(t)
	for _, event := range []*metav1.WatchEvent{
		{Type: string(watch.Added), Object: runtime.RawExtension{Raw: []byte("k8s\x00 a pod")}},
		{Type: string(watch.Modified), Object: runtime.RawExtension{Raw: bytes.Repeat([]byte("p"), 10_000)}},
		{Type: string(watch.Bookmark), Object: runtime.RawExtension{Raw: []byte("b")}},
		{Type: string(watch.Error)},
		{Object: runtime.RawExtension{Raw: []byte("no type")}},
	} {
		var encoded bytes.Buffer
		if err := usual.Encode(event, &encoded); err != nil {
			t.Fatal(err)
		}
		data := encoded.Bytes()
		got := &metav1.WatchEvent{Type: "earlier", Object: runtime.RawExtension{Raw: []byte("earlier")}}
		into, _, err := ofPods.Decode(data, nil, got)
		if err != nil || into != got {
			t.Fatalf("%s: decoded into %v, %v", event.Type, into, err)
		}
		if diff := cmp.Diff(event, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", event.Type, diff)
		}
		if raw := got.Object.Raw; len(raw) > 0 {
			if data[bytes.Index(data, raw)]++; raw[0] == event.Object.Raw[0] {
				t.Errorf("%s: the object is a copy", event.Type)
			}
		}
	}
	for name, data := range map[string]string{"nothing": "", "cut off": "\x0a\x05ADD"} {
		_, _, want := usual.Decode([]byte(data), nil, &metav1.WatchEvent{})
		if _, _, err := ofPods.Decode([]byte(data), nil, &metav1.WatchEvent{}); want == nil || err == nil || err.Error() != want.Error() {
			t.Errorf("%s: got %v, want %v", name, err, want)
		}
	}
	var pod bytes.Buffer
	if err := usual.Encode(fullPod("web-0"), &pod); err != nil {
		t.Fatal(err)
	}
	got := &corev1.Pod{}
	if _, _, err := ofPods.Decode(pod.Bytes(), nil, got); err != nil || got.Name != "web-0" {
		t.Errorf("an object that is no event: %s, %v", got.Name, err)
	}
}

// arrival is when bytes arrive.
type arrival struct {
	at    time.Time
	bytes []byte
}

// stream is a connection whose bytes arrive at certain times. Reading waits for the next.
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
	_, usual := streams(t)
	var encoded bytes.Buffer
	if _, err := usual.NewFrameWriter(&encoded).Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return encoded.Bytes()
}

func TestAConnectionIsReadInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ofPods, _ := streams(t)
		const events = 200
		start, from := time.Now(), &stream{}
		var sent []time.Time
		for i := range events {
			at := start.Add(time.Hour + time.Duration(i)*time.Millisecond)
			sent, from.arrivals = append(sent, at), append(from.arrivals, arrival{at, frame(t, strings.Repeat("e", 1000+i))})
		}
		reader, buffer := ofPods.NewFrameReader(opened(t, from)), make([]byte, 4096)
		for i, at := range sent {
			n, err := reader.Read(buffer)
			late := time.Since(at)
			if err != nil || n != 1000+i {
				t.Fatalf("event %d has %d bytes, %v", i, n, err)
			}
			if i == 0 && late != 0 || late > readEvery {
				t.Errorf("event %d is %s late", i, late)
			}
		}
		if most := int(events*time.Millisecond/readEvery) + 2; from.reads > most {
			t.Errorf("%d events a millisecond apart were read %d times, at most %d are needed", events, from.reads, most)
		}
		if _, err := reader.Read(buffer); !errors.Is(err, io.EOF) {
			t.Errorf("the end of the stream is %v", err)
		}
		if err := reader.Close(); err != nil || !from.closed {
			t.Errorf("the stream is closed: %t, %v", from.closed, err)
		}
	})
}

// All pods of a cluster may come as one list, or as the first events of a watch.
func TestWhatHasArrivedIsReadWithoutPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ofPods, _ := streams(t)
		start := time.Now()
		pod := frame(t, strings.Repeat("p", 5000))
		reader, buffer := ofPods.NewFrameReader(opened(t, &stream{arrivals: []arrival{{start, slices.Repeat(pod, 5000)}}})), make([]byte, 8192)
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

// counted counts what is read from a connection.
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
