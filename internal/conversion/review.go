// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package conversion

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kruise-operator/kruise-operator/internal/conversion/peers"
)

// Path is where the API server calls Handler.
const Path = "/convert"

const (
	// maxReview bounds the bytes of a request, and of all requests of one client answered
	// at one time. The API server sends a whole list at once; a longer list has to be read
	// in pages.
	maxReview = 64 << 20
	// maxReviews is how many bytes the requests of all clients may have together.
	maxReviews = maxReview + 16<<20
	// ordinary requests wait for no other: one object has at most so many bytes.
	ordinary = 3 << 20
	// waitTimeout is how long a list waits for others. The API server waits half a minute for the answer.
	waitTimeout = 10 * time.Second
	// readTimeout is how long a body may take to come.
	readTimeout = 30 * time.Second
)

// Handler answers the API server's requests to convert objects. A list beyond the limit for
// all lists is left unread for some seconds. This holds up no other request: the API server
// calls webhooks by HTTP/1.1, each on its own connection. Requests share one only if the
// webhook has a local address.
type Handler struct {
	limits     *peers.Limits
	converters []Converter
}

// NewHandler returns a handler for the objects of these kinds.
func NewHandler(converters ...Converter) Handler {
	return Handler{peers.New(maxReview, maxReviews), converters}
}

// ServeHTTP converts all objects of a review, or says why it cannot.
func (h Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	log := ctrl.LoggerFrom(r.Context())
	release, err := h.acquire(r)
	if err != nil {
		log.Error(err, "Objects cannot be converted")
		http.Error(w, err.Error(), http.StatusInternalServerError) // of other codes the API server does not tell the text
		return
	}
	defer release()
	if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(readTimeout)); err != nil {
		log.V(1).Info("A body may take any time", "reason", err.Error())
	}
	review, err := read(http.MaxBytesReader(w, r.Body, maxReview), r.ContentLength)
	if err != nil {
		http.Error(w, "the body must be a ConversionReview with a request: "+err.Error(), http.StatusBadRequest)
		return
	}
	result := metav1.Status{Status: metav1.StatusSuccess}
	if err := h.convert(r.Context(), review.Request); err != nil {
		log.Error(err, "Objects cannot be converted")
		result = metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
		review.Request.Objects = nil
	}
	w.Header().Set("Content-Type", "application/json")
	if err := review.answer(w, result); err != nil {
		log.V(1).Info("The API server did not wait for converted objects", "reason", err.Error())
	}
}

// acquire waits until the body may be read. An error is for who has listed the objects.
func (h Handler) acquire(r *http.Request) (release func(), err error) {
	weight := r.ContentLength
	switch {
	case weight < 0: // not known
		weight = maxReview
	case weight <= ordinary:
		return func() {}, nil
	case weight > maxReview:
		return nil, fmt.Errorf("the objects have %d bytes, and at most %d are converted at once: list them in pages", weight, maxReview)
	}
	waiting, cancel := context.WithTimeout(r.Context(), waitTimeout)
	defer cancel()
	if release := h.limits.Acquire(waiting, r, weight); release != nil {
		return release, nil
	}
	if err := r.Context().Err(); err != nil {
		return nil, fmt.Errorf("nobody waits for the converted objects: %w", err)
	}
	return nil, errors.New("other long lists are being converted: list the objects in pages, or later")
}

// review is the part of a ConversionReview we read.
type review struct {
	metav1.TypeMeta
	Request *request `json:"request"`
}

// request has the objects, later the converted ones.
type request struct {
	UID     types.UID         `json:"uid"`
	Version string            `json:"desiredAPIVersion"`
	Objects []json.RawMessage `json:"objects"`
}

// read reads a review; length is known if above zero. The result does not share the body's
// memory, which is large.
func read(body io.Reader, length int64) (*review, error) {
	text := bytes.NewBuffer(make([]byte, 0, max(length, 0)+bytes.MinRead))
	if _, err := text.ReadFrom(body); err != nil {
		return nil, err
	}
	read := &review{}
	if err := json.Unmarshal(text.Bytes(), read); err != nil {
		return nil, err
	}
	if read.Request == nil {
		return nil, errors.New("it has none")
	}
	return read, nil
}

// convert converts the objects of a request one by one, where they are.
func (h Handler) convert(ctx context.Context, r *request) error {
	for i, object := range r.Objects {
		converted, err := convertObject(ctx, h.converters, object, r.Version)
		if err != nil {
			return err
		}
		r.Objects[i] = converted
	}
	return nil
}

// answer writes the review with the response, object by object.
func (r *review) answer(w io.Writer, result metav1.Status) error {
	head, _ := json.Marshal(map[string]any{ // which are texts
		"apiVersion": r.APIVersion, "kind": r.Kind, "response": map[string]any{"uid": r.Request.UID, "result": result},
	})
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, `%s,"convertedObjects":[`, bytes.TrimSuffix(head, []byte("}}")))
	for i, object := range r.Request.Objects {
		if i > 0 {
			_ = out.WriteByte(',')
		}
		_, _ = out.Write(object)
	}
	_, _ = out.WriteString("]}}\n")
	return out.Flush() // which says, too, what went wrong before
}

// convertObject converts one object.
func convertObject(ctx context.Context, converters []Converter, object []byte, version string) ([]byte, error) {
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
