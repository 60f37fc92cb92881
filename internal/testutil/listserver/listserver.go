// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package listserver plays an API server that has objects and answers as one does over the wire. What reading them costs can be measured:
// all that is allocated is allocated by the client.
package listserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Server is a server without network. It answers one client at a time.
type Server struct {
	// Lists are the objects by kind, encoded, in the order of the server.
	Lists map[schema.GroupVersionKind][][]byte
	// Sent is how many bytes of answers have been read.
	Sent int
	// Asked are the questions: how many objects each asked for.
	Asked []int64
}

// Client returns a client of the server. prepare is given its configuration; nil leaves it as it is.
func (s *Server) Client(t testing.TB, scheme *runtime.Scheme, prepare func(*rest.Config)) client.Client {
	t.Helper()
	mapper := meta.NewDefaultRESTMapper(nil)
	for kind := range s.Lists {
		mapper.Add(kind, meta.RESTScopeNamespace)
	}
	config := &rest.Config{Host: "http://server.invalid", Transport: s, QPS: -1}
	if prepare != nil {
		prepare(config)
	}
	c, err := client.New(config, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// RoundTrip implements http.RoundTripper.
func (s *Server) RoundTrip(request *http.Request) (*http.Response, error) {
	of, last := path.Split(request.URL.Path)
	for kind, objects := range s.Lists {
		switch plural, _ := meta.UnsafeGuessKindToResource(kind); plural.Resource {
		case last:
			return s.list(request, kind, objects)
		case path.Base(of):
			return s.object(request, kind, objects, last)
		}
	}
	return nil, fmt.Errorf("nothing is at %s", request.URL.Path)
}

// object answers with the object of a name.
func (s *Server) object(request *http.Request, kind schema.GroupVersionKind, objects [][]byte, name string) (*http.Response, error) {
	for _, object := range objects {
		if bytes.Contains(object, []byte(`"name":"`+name+`"`)) {
			s.Asked = append(s.Asked, 1)
			about := strings.NewReader(`{"apiVersion":"` + kind.GroupVersion().String() + `","kind":"` + kind.Kind + `",`)
			return s.respond(request, about, bytes.NewReader(object[1:])), nil
		}
	}
	return nil, fmt.Errorf("there is no %s %s", kind.Kind, name)
}

// list answers with a page. Only the metadata of objects is asked for by another media type; the rest is sent all the same, and the client ignores it.
func (s *Server) list(request *http.Request, kind schema.GroupVersionKind, objects [][]byte) (*http.Response, error) {
	kind.Kind += "List"
	if strings.Contains(request.Header.Get("Accept"), "as=PartialObjectMetadataList") {
		kind = metav1.SchemeGroupVersion.WithKind("PartialObjectMetadataList")
	}
	query := request.URL.Query()
	limit, err := strconv.ParseInt(query.Get("limit"), 10, 64)
	if err != nil {
		limit = int64(len(objects))
	}
	s.Asked = append(s.Asked, limit)
	from, _ := strconv.Atoi(query.Get("continue")) // there is none in the first question
	to := min(from+int(limit), len(objects))
	about := metav1.ListMeta{ResourceVersion: "1"}
	if to < len(objects) {
		about.Continue = strconv.Itoa(to)
	}
	metadata, err := json.Marshal(about)
	if err != nil {
		return nil, err
	}
	parts := []io.Reader{strings.NewReader(`{"apiVersion":"` + kind.GroupVersion().String() + `","items":[`)}
	for i, object := range objects[from:to] {
		if i > 0 {
			parts = append(parts, strings.NewReader(","))
		}
		parts = append(parts, bytes.NewReader(object))
	}
	parts = append(parts, strings.NewReader(`],"kind":"`+kind.Kind+`","metadata":`+string(metadata)+`}`))
	return s.respond(request, parts...), nil
}

func (s *Server) respond(request *http.Request, parts ...io.Reader) *http.Response {
	return &http.Response{
		StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1, Request: request,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: &sent{Reader: io.MultiReader(parts...), server: s},
	}
}

// sent counts what is read of an answer.
type sent struct {
	io.Reader
	server *Server
}

func (s *sent) Read(into []byte) (int, error) {
	n, err := s.Reader.Read(into)
	s.server.Sent += n
	return n, err
}

func (s *sent) Close() error { return nil }
