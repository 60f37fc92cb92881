// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package conversion_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kruise-operator/kruise-operator/internal/conversion"
)

// head precedes the objects of a review.
const head = `{"kind":"ConversionReview","request":{"uid":"u","desiredAPIVersion":"apps.kruise.io/v1beta1","objects":[`

// reviewOf begins a review of CloneSets; each of them has an annotation of so many bytes.
func reviewOf(count, size int) io.Reader {
	filler := strings.Repeat("x", size)
	object := []byte(`{"apiVersion":"apps.kruise.io/v1alpha1","kind":"CloneSet","metadata":{"name":"web","annotations":{"a":"` + filler + `"}}}`)
	parts := []io.Reader{strings.NewReader(head)}
	for i := range count {
		if i > 0 {
			parts = append(parts, strings.NewReader(","))
		}
		parts = append(parts, bytes.NewReader(object))
	}
	return io.MultiReader(append(parts, strings.NewReader(`]}}`))...)
}

// measuring remembers the memory in use at the first byte of the response.
type measuring struct {
	header http.Header
	inUse  uint64
	bytes  int
}

func (m *measuring) Header() http.Header { return m.header }
func (m *measuring) WriteHeader(int)     {}
func (m *measuring) Write(data []byte) (int, error) {
	if m.bytes == 0 {
		m.inUse = inUse()
	}
	m.bytes += len(data)
	return len(data), nil
}

func inUse() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// The list of a few hundred large objects used to take five times their size, above the limit of the operator's container.
func TestALongListIsConvertedObjectByObject(t *testing.T) {
	const count, size = 40, 1 << 20
	before := inUse()
	answer := &measuring{header: http.Header{}}
	handler().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost, conversion.Path, reviewOf(count, size)))
	if answer.bytes < count*size {
		t.Fatalf("the answer has %d bytes", answer.bytes)
	}
	if took, most := answer.inUse-before, uint64(count*size*3/2); took > most {
		t.Errorf("%d objects of %d bytes took %d bytes, want at most %d", count, size, took, most)
	}
}

func TestARequestThatIsTooLargeIsRefusedUnread(t *testing.T) {
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, conversion.Path, unread(t))
	request.ContentLength = 1 << 30
	recorder := httptest.NewRecorder()
	handler().ServeHTTP(recorder, request)
	if text := refusal(t, recorder); !strings.Contains(text, "in pages") {
		t.Errorf("refused with %q", text)
	}
}

// refusal is the error text, all the API server passes on to the client.
func refusal(t *testing.T, answer *httptest.ResponseRecorder) string {
	t.Helper()
	if answer.Code != http.StatusInternalServerError {
		t.Errorf("answered %d %s", answer.Code, answer.Body)
	}
	return answer.Body.String()
}

// unread is a body nobody may read.
func unread(t *testing.T) io.Reader { return then(func() { t.Error("the objects were read") }) }

// Requests answered at one time have a total limit. Later ones wait, unread, until there is
// room or nobody waits for the answer.
func TestRequestsThatAreTooLargeTogetherWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		served := handler()
		send := func(ctx context.Context, length int64, body io.Reader) chan *httptest.ResponseRecorder {
			done := make(chan *httptest.ResponseRecorder, 1)
			go func() {
				request := httptest.NewRequestWithContext(ctx, http.MethodPost, conversion.Path, body)
				request.ContentLength = length
				recorder := httptest.NewRecorder()
				served.ServeHTTP(recorder, request)
				done <- recorder
			}()
			return done
		}
		slow, write := io.Pipe()
		first := send(t.Context(), 50<<20, io.MultiReader(strings.NewReader(head), slow))
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		givesUp := send(ctx, 50<<20, unread(t))
		later := send(t.Context(), 25<<20, reviewOf(1, 10))
		if answer := <-send(t.Context(), 1000, reviewOf(1, 10)); answer.Code != http.StatusOK {
			t.Errorf("one object waits for lists: %d %s", answer.Code, answer.Body)
		}
		synctest.Wait()
		if len(first)+len(givesUp)+len(later) > 0 {
			t.Error("somebody did not wait")
		}
		cancel()
		refusal(t, <-givesUp)
		go func() {
			_, err := io.WriteString(write, `]}}`)
			_ = write.CloseWithError(err)
		}()
		for _, done := range []chan *httptest.ResponseRecorder{first, later} {
			if answer := <-done; answer.Code != http.StatusOK || !strings.Contains(answer.Body.String(), `"Success"`) {
				t.Errorf("answered %d %s", answer.Code, answer.Body)
			}
		}
	})
}

// The API server gives up after half a minute and reports only a deadline. While the body
// is unread the operator does not notice, and the list would keep its place.
func TestAListWaitsForOthersSecondsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		served := handler()
		serve := func(body io.Reader) *httptest.ResponseRecorder {
			request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, conversion.Path, body)
			request.ContentLength = 50 << 20
			recorder := httptest.NewRecorder()
			served.ServeHTTP(recorder, request)
			return recorder
		}
		slow, write := io.Pipe()
		go serve(io.MultiReader(strings.NewReader(head), slow))
		synctest.Wait()
		began := time.Now()
		if text := refusal(t, serve(unread(t))); !strings.Contains(text, "other long lists are being converted") || time.Since(began) > 15*time.Second {
			t.Errorf("refused after %v with %q", time.Since(began), text)
		}
		_ = write.Close()
		synctest.Wait()
		if answer := serve(reviewOf(1, 10)); answer.Code != http.StatusOK || !strings.Contains(answer.Body.String(), `"Success"`) {
			t.Errorf("the next one is answered %d %s", answer.Code, answer.Body)
		}
	})
}

// Clients still sending a refused list read why, by both versions of HTTP.
func TestWhoStillSendsAListReadsWhyItIsRefused(t *testing.T) {
	for _, version := range []int{1, 2} {
		server := httptest.NewUnstartedServer(handler())
		server.EnableHTTP2 = version == 2
		server.StartTLS()
		const length = 200 << 20
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, io.LimitReader(io.MultiReader(strings.NewReader(head), spaces{}), length))
		if err != nil {
			t.Fatal(err)
		}
		request.ContentLength = length
		answer, err := server.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.ProtoMajor != version || answer.StatusCode != http.StatusInternalServerError || !strings.Contains(string(text), "in pages") {
			t.Errorf("%s: answered %s %s: %v", answer.Proto, answer.Status, text, err)
		}
		_ = answer.Body.Close()
		server.Close()
	}
}

// spaces is a body without end.
type spaces struct{}

func (spaces) Read(into []byte) (int, error) {
	for i := range into {
		into[i] = ' '
	}
	return len(into), nil
}

// Clients choose the order of fields. A body without a review gets an error in words.
func TestReviewsOfAnyForm(t *testing.T) {
	const object = `{"apiVersion":"apps.kruise.io/v1alpha1","kind":"CloneSet","metadata":{"name":"web"}}`
	const beta = `"desiredAPIVersion":"apps.kruise.io/v1beta1"`
	for name, tc := range map[string]struct {
		body string
		code int
		says string
	}{
		"objects come before the version": {`{"request":{"objects":[` + object + `],"more":{"a":[1]},` + beta + `,"uid":"u"},"kind":"K"}`, 200, `"apps.kruise.io/v1beta1"`},
		"no objects":                      {`{"request":{"uid":"u","objects":null}}`, 200, `"convertedObjects":[]`},
		"one of them cannot be converted": {`{"request":{"uid":"u",` + beta + `,"objects":[` + object + `,{"kind":"Pod"}]}}`, 200, `"convertedObjects":[]`},
		"no request":                      {`{"request":null}`, 400, "with a request"},
		"a list":                          {`[]`, 400, "with a request"},
		"objects are no list":             {`{"request":{"objects":{}}}`, 400, "request.objects"},
		"cut off":                         {`{"request":{"uid":"u",` + beta + `,"objects":[` + object, 400, "unexpected end"},
		"nothing":                         {``, 400, "with a request"},
	} {
		if code, text := post([]byte(tc.body)); code != tc.code || !strings.Contains(string(text), tc.says) {
			t.Errorf("%s: answered %s %s", name, strconv.Itoa(code), text)
		}
	}
}

func TestNothingIsConvertedWhenNobodyWaits(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	all, err := io.ReadAll(reviewOf(2, 10))
	if err != nil {
		t.Fatal(err)
	}
	body := io.MultiReader(bytes.NewReader(all[:50]), then(cancel), bytes.NewReader(all[50:]))
	recorder := httptest.NewRecorder()
	handler().ServeHTTP(recorder, httptest.NewRequestWithContext(ctx, http.MethodPost, conversion.Path, body))
	if text := recorder.Body.String(); recorder.Code != http.StatusOK || !strings.Contains(text, `"Failure"`) || !strings.Contains(text, "nobody waits") {
		t.Errorf("answered %d %s", recorder.Code, text)
	}
}

// then calls a function and reads as empty.
type then func()

func (f then) Read([]byte) (int, error) {
	f()
	return 0, io.EOF
}
