// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package imagepuller

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/internal/daemon/cri"
)

// entry is the entry of a Secret for one registry.
type entry struct {
	Username      string `json:"username"`
	Password      string `json:"password"`
	Auth          string `json:"auth"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

// credentialsFor returns the Secrets' credentials for an image's registry, longest path
// first, each once. It leaves out unreadable ones.
func credentialsFor(image string, secrets []*corev1.Secret) []cri.Credentials {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return nil
	}
	host, repository := reference.Domain(named), reference.Path(named)
	type match struct {
		length int
		of     cri.Credentials
	}
	var matches []match
	for _, secret := range secrets {
		for key, e := range entriesOf(secret) {
			if at, ok := matchesRegistry(key, host, repository); ok {
				matches = append(matches, match{at, e.credentials()})
			}
		}
	}
	slices.SortStableFunc(matches, func(a, b match) int {
		return cmp.Or(b.length-a.length, strings.Compare(a.of.Username, b.of.Username))
	})
	var all []cri.Credentials
	for _, m := range matches {
		if !slices.Contains(all, m.of) {
			all = append(all, m.of)
		}
	}
	return all
}

func entriesOf(secret *corev1.Secret) map[string]entry {
	var config struct {
		Auths map[string]entry `json:"auths"`
	}
	if text, ok := secret.Data[corev1.DockerConfigJsonKey]; ok {
		_ = json.Unmarshal(text, &config) // what is not readable is not there
	} else {
		_ = json.Unmarshal(secret.Data[corev1.DockerConfigKey], &config.Auths)
	}
	return config.Auths
}

// matchesRegistry matches a Secret's key with a repository and returns the length of its
// path. Labels of the host may be patterns.
func matchesRegistry(key, host, repository string) (int, bool) {
	key = strings.TrimPrefix(strings.TrimPrefix(key, "https://"), "http://")
	name, prefix, _ := strings.Cut(key, "/")
	if name == "index.docker.io" || name == "registry-1.docker.io" {
		name = "docker.io"
	}
	prefix = strings.Trim(prefix, "/")
	if prefix == "v1" || prefix == "v2" { // the version of an API, not a path
		prefix = ""
	}
	if !matchesHost(name, host) || prefix != "" && repository != prefix && !strings.HasPrefix(repository, prefix+"/") {
		return 0, false
	}
	return len(prefix), true
}

func matchesHost(pattern, host string) bool {
	if pattern == host {
		return true
	}
	patterns, labels := strings.Split(pattern, "."), strings.Split(host, ".")
	if len(patterns) != len(labels) {
		return false
	}
	for i := range patterns {
		if ok, err := path.Match(patterns[i], labels[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

func (e entry) credentials() cri.Credentials {
	// No server address: containerd gives credentials with one only to its host, so to none
	// behind a bare host or a mirror. We have matched the registry already, as the kubelet
	// does.
	c := cri.Credentials{
		Username: e.Username, Password: e.Password, IdentityToken: e.IdentityToken, RegistryToken: e.RegistryToken,
	}
	if username, password, ok := basic(e.Auth); ok {
		c.Username, c.Password = username, password
	}
	return c
}

// basic decodes the field auth, which beats username and password, as with the kubelet.
// Some tools write it without padding.
func basic(auth string) (username, password string, ok bool) {
	text, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.TrimSpace(auth), "="))
	if err != nil {
		return "", "", false
	}
	return strings.Cut(strings.TrimRight(string(text), "\x00"), ":")
}
