// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package images_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/kruise-operator/kruise-operator/tests/framework/images"
)

// released is an image with every feature; its program is small.
func released() images.Image {
	return images.Image{
		Programs: []images.Program{images.Guestbook("v1")},
		Files:    map[string][]byte{"manifests/b.yaml": []byte("b"), "/manifests/a.yaml": []byte("a"), "metadata/deep/c.yaml": []byte("c")},
		User:     images.NonRoot,
		Command:  []string{"-listen=:3000"},
		Labels:   map[string]string{"first": "1", "second": "2"},
	}
}

func indexOf(t *testing.T, image images.Image) (v1.ImageIndex, v1.Hash) {
	t.Helper()
	index, err := image.Index(t.Context(), images.Platforms()...)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return index, digest
}

func TestIndexIsTheSameEachTime(t *testing.T) {
	index, digest := indexOf(t, released())
	if _, again := indexOf(t, released()); again != digest {
		t.Errorf("the same image gives %s and %s", digest, again)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, m := range manifest.Manifests {
		platforms = append(platforms, m.Platform.String())
	}
	if diff := cmp.Diff([]string{"linux/amd64", "linux/arm64"}, platforms); diff != "" {
		t.Errorf("platforms (-want +got):\n%s", diff)
	}
}

func TestImageHoldsWhatItSays(t *testing.T) {
	image, err := released().For(t.Context(), v1.Platform{OS: "linux", Architecture: "arm64"})
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Architecture != "arm64" || config.Config.User != "65532:65532" || config.Config.Labels["second"] != "2" {
		t.Errorf("configuration %+v", config)
	}
	if diff := cmp.Diff([]string{"/guestbook", "-listen=:3000"}, append(config.Config.Entrypoint, config.Config.Cmd...)); diff != "" {
		t.Errorf("it runs (-want +got):\n%s", diff)
	}
	var names []string
	content := mutate.Extract(image)
	defer func() { _ = content.Close() }()
	reader := tar.NewReader(content)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
		if !header.ModTime.IsZero() && header.ModTime.Unix() != 0 {
			t.Errorf("%s has the time %s", header.Name, header.ModTime)
		}
	}
	slices.Sort(names)
	want := []string{"guestbook", "manifests/", "manifests/a.yaml", "manifests/b.yaml", "metadata/", "metadata/deep/", "metadata/deep/c.yaml"}
	if diff := cmp.Diff(want, trimmed(names)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// trimmed gives folders' names the slash extracting may have removed.
func trimmed(names []string) []string {
	for i, n := range names {
		if n == "manifests" || n == "metadata" || n == "metadata/deep" {
			names[i] = n + "/"
		}
	}
	return names
}

func TestPublishAndLayoutKeepTheDigest(t *testing.T) {
	index, digest := indexOf(t, released())

	folder := t.TempDir()
	if err := images.WriteLayout(folder, "v1", index); err != nil {
		t.Fatal(err)
	}
	stored, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := stored.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 || manifest.Manifests[0].Digest != digest {
		t.Errorf("the layout holds %+v, want %s", manifest.Manifests, digest)
	}

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	registry := images.Serve(listener)
	defer func() { _ = registry.Close() }()
	reference := listener.Addr().String() + "/team/guestbook:v1"
	if err := images.Publish(t.Context(), reference, index); err != nil {
		t.Fatal(err)
	}
	parsed, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	got, err := remote.Head(parsed, remote.WithContext(t.Context()))
	if err != nil || got.Digest != digest {
		t.Errorf("the registry holds %+v (%v), want %s", got, err, digest)
	}
}

func TestBillOfMaterialsNamesModules(t *testing.T) {
	image := images.Image{Programs: []images.Program{{Package: "tests/cmd/images"}}}
	index, digest := indexOf(t, image)
	text, err := image.SBOM(t.Context(), "images", "v7", index)
	if err != nil {
		t.Fatal(err)
	}
	again, err := image.SBOM(t.Context(), "images", "v7", index)
	if err != nil || !bytes.Equal(text, again) {
		t.Errorf("the same image has two bills of materials (%v)", err)
	}
	var bom cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(text), cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	if hashes := *bom.Metadata.Component.Hashes; hashes[0].Value != digest.Hex {
		t.Errorf("it is about %s, want %s", hashes[0].Value, digest)
	}
	for _, want := range []string{"std", "github.com/kruise-operator/kruise-operator/tests", "github.com/google/go-containerregistry"} {
		if !slices.ContainsFunc(*bom.Components, func(c cyclonedx.Component) bool { return c.Name == want && c.Version != "" }) {
			t.Errorf("it does not name %s", want)
		}
	}
	if slices.ContainsFunc(*bom.Components, func(c cyclonedx.Component) bool { return c.Name == "sigs.k8s.io/controller-runtime" }) {
		t.Error("it names a module that the program does not link")
	}
}
