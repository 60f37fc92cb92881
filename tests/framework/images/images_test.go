// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package images_test

import (
	"net"
	"net/http"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
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
