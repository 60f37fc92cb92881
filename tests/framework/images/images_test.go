// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package images_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/kruise-operator/kruise-operator/tests/framework/images"
)

func TestVersionDecidesImageID(t *testing.T) {
	first, again, other := id(t, images.Guestbook("v1")), id(t, images.Guestbook("v1")), id(t, images.Guestbook("v2"))
	if first != again {
		t.Errorf("the same program and version give %s and %s", first, again)
	}
	if first == other {
		t.Errorf("two versions give the same image %s", first)
	}
}

func TestRegistryServesImageUnderEachName(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	registry := images.Serve(listener)
	defer func() {
		if err := registry.Close(); err != nil {
			t.Error(err)
		}
	}()
	image, err := images.Build(t.Context(), images.Guestbook("v1"), images.Pause())
	if err != nil {
		t.Fatal(err)
	}
	for _, reference := range []string{"openkruise/guestbook:v1", "quay.io/openkruise/guestbook:v1-again"} {
		if err := registry.Push(t.Context(), reference, image); err != nil {
			t.Fatal(err)
		}
	}
	want, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	for _, tag := range []string{"v1", "v1-again"} {
		got, err := pull(t, listener.Addr().String()+"/openkruise/guestbook:"+tag)
		if err != nil || got != want {
			t.Errorf("tag %s gives %s (%v), want %s", tag, got, err, want)
		}
	}
	if _, err := pull(t, listener.Addr().String()+"/openkruise/guestbook:v3"); err == nil {
		t.Error("an image that was never pushed is served")
	}

	registry.Protect("openkruise/guestbook", "reader", "secret")
	reference := listener.Addr().String() + "/openkruise/guestbook:v1"
	for _, refused := range []authn.Authenticator{authn.Anonymous, &authn.Basic{Username: "reader", Password: "guess"}} {
		if _, err := pull(t, reference, remote.WithAuth(refused)); err == nil {
			t.Errorf("pulled from a private repository with %+v", refused)
		}
	}
	if got, err := pull(t, reference, remote.WithAuth(&authn.Basic{Username: "reader", Password: "secret"})); err != nil || got != want {
		t.Errorf("a private repository gives %s (%v), want %s", got, err, want)
	}

	registry.Protect("openkruise/guestbook", "", "")
	registry.Intercept("openkruise/guestbook", func(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) })
	if _, err := pull(t, reference); err == nil {
		t.Error("pulled from a repository that breaks every connection off")
	}
	registry.Intercept("openkruise/guestbook", nil)
	if got, err := pull(t, reference); err != nil || got != want {
		t.Errorf("a repository that is left alone again gives %s (%v), want %s", got, err, want)
	}
}

// A runtime stopped in the middle of a layer asks for the rest, without naming its end.
func TestRegistryServesTheRestOfALayer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := images.Serve(listener)
	defer func() {
		if err := served.Close(); err != nil {
			t.Error(err)
		}
	}()
	image, err := random.Image(1000, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := served.Push(t.Context(), "team/web:v1", image); err != nil {
		t.Fatal(err)
	}
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	digest, err := layers[0].Digest()
	if err != nil {
		t.Fatal(err)
	}
	get := func(ranged string) (int, string) {
		t.Helper()
		url := "http://" + listener.Addr().String() + "/v2/team/web/blobs/" + digest.String()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if ranged != "" {
			request.Header.Set("Range", ranged)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close() //nolint:errcheck // it was read
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(body)
	}
	code, whole := get("")
	if code != http.StatusOK || len(whole) < 500 {
		t.Fatalf("the layer gives %d and %d bytes", code, len(whole))
	}
	if code, rest := get("bytes=100-"); code != http.StatusPartialContent || rest != whole[100:] {
		t.Errorf("what follows the first 100 bytes gives %d and %d bytes, want 206 and %d", code, len(rest), len(whole)-100)
	}
	if code, part := get("bytes=100-199"); code != http.StatusPartialContent || part != whole[100:200] {
		t.Errorf("100 bytes in the middle give %d and %d bytes", code, len(part))
	}
	if code, _ := get(fmt.Sprintf("bytes=%d-", len(whole)+1)); code != http.StatusRequestedRangeNotSatisfiable {
		t.Errorf("what follows the end gives %d", code)
	}
}

func id(t *testing.T, program images.Program) v1.Hash {
	t.Helper()
	image, err := images.Build(t.Context(), program)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := image.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

func pull(t *testing.T, reference string, options ...remote.Option) (v1.Hash, error) {
	t.Helper()
	parsed, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	image, err := remote.Image(parsed, append(options, remote.WithContext(t.Context()))...)
	if err != nil {
		return v1.Hash{}, err
	}
	return image.Digest()
}
