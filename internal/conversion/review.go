// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package conversion

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/semaphore"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kruise-operator/kruise-operator/internal/conversion/peers"
)

// Path is where the API server calls Handler.
const Path = "/convert"

// maxReview is how many bytes a request may have, and how many all requests that are answered at one time may have together. The API server sends the
// objects of a whole list at once; a list that is longer has to be read in pages.
const maxReview = 128 << 20

// maxReviews is how many bytes all requests may have together that are answered at one time: those of one client leave room for lists of others.
const maxReviews = maxReview + 32<<20

// ordinary is up to how many bytes a request waits for no other: one object has at most that.
const ordinary = 3 << 20

const (
	// waitTimeout is how long a list waits for others. The API server waits half a minute for the answer.
	waitTimeout = 10 * time.Second
	// readTimeout is how long what comes before the objects may take to come, and then the objects.
	readTimeout = 30 * time.Second
)

// errBody is about a body that is no ConversionReview.
var errBody = errors.New("the body must be a ConversionReview with a request")

// errUnread means that the objects of a review are not read. Its failure says why.
var errUnread = errors.New("the objects are not read")

// Handler answers the API server's requests to convert objects. It decodes and converts them one by one, so that it holds no more than the converted
// ones. A list that would make all lists together exceed maxReview waits for some seconds.
//
// What is refused is answered by a review, too: of an error of HTTP the API server does not tell the text. Of a list that waits no object was read. That
// holds up no other request: the API server calls webhooks by HTTP/1.1, so that each waits on a connection of its own. Only where it finds the webhook at a
// local address, as a process beside it, requests share a connection.
type Handler struct {
	bytes      *semaphore.Weighted
	peers      *peers.Limits
	converters []Converter
}

// NewHandler returns a handler for the objects of these kinds.
func NewHandler(converters ...Converter) Handler {
	return Handler{semaphore.NewWeighted(maxReviews), peers.New(maxReview), converters}
}

// ServeHTTP converts all objects of a review, or says why it cannot.
func (h Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	log := ctrl.LoggerFrom(r.Context())
	reading := func() {
		if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(readTimeout)); err != nil {
			log.V(1).Info("A body may take any time", "reason", err.Error())
		}
	}
	body := &io.LimitedReader{R: http.MaxBytesReader(w, r.Body, maxReview), N: ordinary}
	review := review{ctx: r.Context(), decoder: json.NewDecoder(body), converters: h.converters}
	weight, acquired, release := r.ContentLength, int64(0), func() {}
	if weight < 0 { // not known
		weight = maxReview
	}
	review.admit = func(ctx context.Context) error {
		if weight <= ordinary || acquired > 0 {
			return nil
		}
		var err error
		if release, err = h.acquire(ctx, r, weight); err != nil {
			release = func() {}
			return err
		}
		acquired, body.N = weight, maxReview+1
		reading()
		return nil
	}
	defer func() { release() }()
	reading()
	if err := review.read(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if review.failure != nil {
		log.Error(review.failure, "Objects cannot be converted")
	}
	w.Header().Set("Content-Type", "application/json")
	if err := review.answer(w); err != nil {
		log.V(1).Info("The API server did not wait for converted objects", "reason", err.Error())
	}
}

// acquire waits until so many bytes of objects may be read. An error is for who has listed them.
func (h Handler) acquire(ctx context.Context, r *http.Request, weight int64) (release func(), err error) {
	if weight > maxReview {
		return nil, fmt.Errorf("the objects have %d bytes, and at most %d are converted at once: list them in pages", weight, maxReview)
	}
	waiting, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	if own := h.peers.Acquire(waiting, r, weight); own != nil {
		if h.bytes.Acquire(waiting, weight) == nil {
			return func() {
				h.bytes.Release(weight)
				own()
			}, nil
		}
		own()
	}
	if err := awaited(ctx); err != nil {
		return nil, err
	}
	return nil, errors.New("other long lists are being converted: list the objects in pages, or later")
}

// awaited returns an error when nobody waits for an answer any more.
func awaited(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("nobody waits for the converted objects: %w", err)
	}
	return nil
}

// review is a ConversionReview while it is read.
type review struct {
	ctx        context.Context
	decoder    *json.Decoder
	converters []Converter
	// admit is called before objects are read. With an error none is.
	admit func(context.Context) error
	metav1.TypeMeta
	requested bool
	uid       types.UID
	// version is the desired one. Objects that come before it wait in early.
	version string
	early   []json.RawMessage
	// converted are the objects in their order; all or none. failure is why there are none.
	converted []json.RawMessage
	failure   error
}

// read reads the review and converts its objects. An error says that the body is not a review.
func (r *review) read() error {
	err := r.fields(func(key string) error {
		switch key {
		case "apiVersion":
			return r.decoder.Decode(&r.APIVersion)
		case "kind":
			return r.decoder.Decode(&r.Kind)
		case "request":
			return r.fields(r.request)
		}
		return r.skip()
	})
	switch {
	case errors.Is(err, errUnread):
		return nil
	case err != nil:
		return fmt.Errorf("%w: %w", errBody, err)
	case !r.requested:
		return errBody
	}
	for _, object := range r.early {
		r.convert(object)
	}
	return nil
}

// request reads one field of the request.
func (r *review) request(key string) error {
	r.requested = true
	switch key {
	case "uid":
		return r.decoder.Decode(&r.uid)
	case "desiredAPIVersion":
		return r.decoder.Decode(&r.version)
	case "objects":
		return r.objects()
	}
	return r.skip()
}

func (r *review) objects() error {
	if err := r.admit(r.ctx); err != nil {
		r.failure, r.converted = err, nil
		return errUnread
	}
	begin, err := r.decoder.Token()
	if err != nil || begin == nil {
		return err
	}
	if begin != json.Delim('[') {
		return fmt.Errorf("request.objects is no list but %v", begin)
	}
	for r.decoder.More() {
		var object json.RawMessage
		if err := r.decoder.Decode(&object); err != nil {
			return err
		}
		if r.version == "" {
			r.early = append(r.early, object)
			continue
		}
		r.convert(object)
	}
	_, err = r.decoder.Token()
	return err
}

// convert adds an object to those that are converted, unless one has failed before.
func (r *review) convert(object json.RawMessage) {
	if r.failure != nil {
		return
	}
	converted, err := convertObject(r.ctx, r.converters, object, r.version)
	if err != nil {
		r.failure, r.converted = err, nil
		return
	}
	r.converted = append(r.converted, converted)
}

// fields calls f for each field of the object that comes next, to read its value. null is an object without fields.
func (r *review) fields(f func(key string) error) error {
	begin, err := r.decoder.Token()
	if err != nil || begin == nil {
		return err
	}
	if begin != json.Delim('{') {
		return fmt.Errorf("%v is no object", begin)
	}
	for r.decoder.More() {
		token, err := r.decoder.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string)
		if err := f(key); err != nil {
			return err
		}
	}
	_, err = r.decoder.Token()
	return err
}

func (r *review) skip() error {
	var ignored json.RawMessage
	return r.decoder.Decode(&ignored)
}

// answer writes the review with the response, object by object.
func (r *review) answer(w io.Writer) error {
	result := metav1.Status{Status: metav1.StatusSuccess}
	if r.failure != nil {
		result = metav1.Status{Status: metav1.StatusFailure, Message: r.failure.Error()}
	}
	head, err := json.Marshal(r.TypeMeta)
	if err != nil {
		return fmt.Errorf("encoding the review: %w", err)
	}
	tail, err := json.Marshal(map[string]any{"uid": r.uid, "result": result})
	if err != nil {
		return fmt.Errorf("encoding the response: %w", err)
	}
	out := bufio.NewWriter(w)
	separator := ""
	if len(head) > len("{}") {
		separator = ","
	}
	fmt.Fprintf(out, `%s%s"response":%s,"convertedObjects":[`, head[:len(head)-1], separator, tail[:len(tail)-1])
	for i, object := range r.converted {
		if i > 0 {
			_ = out.WriteByte(',')
		}
		_, _ = out.Write(object)
	}
	_, _ = out.WriteString("]}}\n")
	if err := out.Flush(); err != nil { // which says, too, what went wrong before
		return fmt.Errorf("sending the converted objects: %w", err)
	}
	return nil
}

// convertObject converts one object.
func convertObject(ctx context.Context, converters []Converter, object []byte, version string) ([]byte, error) {
	if err := awaited(ctx); err != nil {
		return nil, err
	}
	about := struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        struct{ Name, Namespace string } `json:"metadata"`
	}{}
	if err := json.Unmarshal(object, &about); err != nil {
		return nil, fmt.Errorf("decoding an object to convert: %w", err)
	}
	name := about.Metadata.Namespace + "/" + about.Metadata.Name
	kind := about.GroupVersionKind().GroupKind()
	i := slices.IndexFunc(converters, func(c Converter) bool { return c.GroupKind == kind })
	if i < 0 {
		return nil, fmt.Errorf("%s: there is no conversion for %s", name, kind)
	}
	raw, err := converters[i].Convert(ctx, object, version)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return raw, nil
}
