// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package imagepuller

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/distribution/reference"

	"github.com/kruise-operator/kruise-operator/internal/daemon/cri"
	"github.com/kruise-operator/kruise-operator/internal/daemon/cri/critest"
)

// node has shell scripts as plugins.
type node struct {
	*plugins
	t *testing.T
}

func newNode(t *testing.T) *node {
	t.Helper()
	folder := t.TempDir()
	return &node{plugins: newPlugins(filepath.Join(folder, "config.yaml"), folder), t: t}
}

// configure writes the configuration, with one plugin for an image.
func (n *node) configure(name, image, more string) {
	n.t.Helper()
	n.write("config.yaml", fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: %s
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages: [%q]
  defaultCacheDuration: 1h
%s`, name, image, more))
}

// write writes a file by another process: a fork of this one would inherit the open file,
// and a program open for writing cannot run.
func (n *node) write(name, text string) {
	n.t.Helper()
	file := filepath.Join(n.folder, name)
	cmd := exec.CommandContext(n.t.Context(), "sh", "-c", `cat > "$0" && chmod 700 "$0"`, file)
	cmd.Stdin = strings.NewReader(text)
	if output, err := cmd.CombinedOutput(); err != nil {
		n.t.Fatalf("writing %s: %v: %s", file, err, output)
	}
}

// answer is a script counting its runs and answering for a registry.
func answer(registry, password, more string) string {
	return fmt.Sprintf(`#!/bin/sh
cat > "$(dirname "$0")/request"
echo run >> "$(dirname "$0")/runs"
echo '{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Registry"%s,
"auth":{%q:{"username":"u","password":"'%s'"}}}'
`, more, registry, password)
}

func (n *node) runs() int {
	text, err := os.ReadFile(filepath.Join(n.folder, "runs"))
	if err != nil {
		return 0
	}
	return strings.Count(string(text), "run")
}

func (n *node) password(image string) string {
	n.t.Helper()
	all, err := n.lookup(n.t.Context(), image)
	if err != nil {
		n.t.Fatal(err)
	}
	if len(all) == 0 {
		return ""
	}
	return all[0].Password
}

func TestAPluginKnowsThePasswordOfItsRegistry(t *testing.T) {
	n := newNode(t)
	if got := n.password("1.ecr.example/app:1"); got != "" {
		t.Errorf("without a configuration: %q", got)
	}
	n.configure("ecr", "*.ecr.example", "  args: [get]\n  env: [{name: PASS, value: hush}]\n")
	n.write("ecr", answer("*.ecr.example", "$PASS-$1", ""))
	if got := n.password("1.ecr.example/app:1"); got != "hush-get" {
		t.Errorf("password %q", got)
	}
	request, err := os.ReadFile(filepath.Join(n.folder, "request"))
	want := `{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"1.ecr.example/app"}`
	if err != nil || string(request) != want {
		t.Errorf("asked %s, %v, want %s", request, err, want)
	}
	if got := n.password("1.ecr.example/other:1"); got != "hush-get" || n.runs() != 2 {
		t.Errorf("another image of the registry: %q after %d runs", got, n.runs())
	}
	if got := n.password("other.example/app:1"); got != "" || n.runs() != 2 {
		t.Errorf("an image that the plugin is not for: %q after %d runs", got, n.runs())
	}
}

func TestAChangedConfigurationNeedsNoRestart(t *testing.T) {
	n := newNode(t)
	n.configure("ecr", "reg.example", "")
	n.write("ecr", answer("reg.example", "one", ""))
	n.write("gcr", answer("reg.example", "two", `,"cacheDuration":"0s"`))
	if got := n.password("reg.example/app:1"); got != "one" {
		t.Errorf("password %q", got)
	}
	n.configure("gcr", "reg.example", "")
	for range 2 {
		if got := n.password("reg.example/app:1"); got != "two" {
			t.Errorf("after the change: %q", got)
		}
	}
	if err := os.Remove(n.file); err != nil {
		t.Fatal(err)
	}
	if got := n.password("reg.example/app:1"); got != "" {
		t.Errorf("when it is gone: %q", got)
	}
}

func TestAPluginThatFailsIsNamedAndItsOutputIsNot(t *testing.T) {
	cases := map[string]struct{ script, more, config, want string }{
		"one that ends with an error":              {script: "echo secret >&2; echo secret; exit 3", want: "credential provider ecr: running it: exit status 3"},
		"one that is not there":                    {want: "credential provider ecr: running it: fork/exec"},
		"one that does not end":                    {script: "exec sleep 600", want: "credential provider ecr: invalid: it has not ended after 200ms"},
		"one that starts another and does not end": {script: "sleep 600; echo late", want: "credential provider ecr: invalid: it has not ended after 200ms"},
		"one that writes without end":              {script: "while :; do echo secretsecretsecretsecretsecretsecretsecret; done", want: "it answers with more than 1024 KiB"},
		"one that answers with something else":     {script: "echo secret", want: "its answer is not JSON"},
		"one that answers in another version":      {script: "echo '{}'", want: "it does not answer with a CredentialProviderResponse of credentialprovider.kubelet.k8s.io/v1"},
		"one that wants a token of a pod":          {more: "  tokenAttributes: {requireServiceAccount: true}\n", want: "config.yaml: providers[0]: invalid: ecr wants tokens of service accounts"},
		"a configuration of something else":        {config: "kind: List", want: "config.yaml: invalid: it is no CredentialProviderConfig"},
		"a plugin outside of the folder": {
			config: "{apiVersion: kubelet.config.k8s.io/v1, kind: CredentialProviderConfig, providers: [{name: ../sh}]}", want: `the name "../sh" is not that of a file`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			n.limit = 200 * time.Millisecond
			if strings.Contains(tc.script, "while") {
				n.limit = time.Minute
			}
			n.configure("ecr", "reg.example", tc.more)
			if tc.script != "" {
				n.write("ecr", "#!/bin/sh\n"+tc.script+"\n")
			}
			if tc.config != "" {
				n.write("config.yaml", tc.config)
			}
			_, err := n.lookup(t.Context(), "reg.example/app:1")
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

func TestMatchesImage(t *testing.T) {
	for _, tc := range []struct {
		pattern, image string
		want           bool
	}{
		{"*.dkr.ecr.*.amazonaws.com", "1.dkr.ecr.eu.amazonaws.com/app", true},
		{"*.example", "a.b.example/app", false},
		{"reg.example", "reg.example:5000/app", false},
		{"reg.example:5000", "reg.example:5000/app", true},
		{"reg.example/team", "reg.example/team/app", true},
		{"reg.example/team", "reg.example/other/app", false},
		{"https://reg.example", "reg.example/app", true},
		{"docker.io", "nginx", true},
	} {
		named, err := reference.ParseNormalizedNamed(tc.image)
		if err != nil {
			t.Fatal(err)
		}
		if got := matchesImage(tc.pattern, named); got != tc.want {
			t.Errorf("%s and %s: %v", tc.pattern, tc.image, got)
		}
	}
}

// The registry takes only the plugin's credentials. A plugin's failure stands beside the
// registry's answer.
func TestAnImageIsPulledWithThePasswordOfAPlugin(t *testing.T) {
	n := newNode(t)
	runtime := &critest.Runtime{OnPull: func(_ context.Context, p cri.Pull) error {
		if p.Credentials == nil || p.Credentials.Password != "hush" {
			return errors.New("access denied")
		}
		return nil
	}}
	d := start(t, store(t, tags(tag("1", 0), tag("2", 0))), runtime, 1)
	d.p.plugins = n.plugins
	n.configure("hub", "docker.io", "")
	n.write("hub", answer("docker.io", "hush", ""))
	if status := d.until("both are pulled", ended(2)); status.Succeeded != 2 {
		t.Errorf("%+v", status)
	}

	n.configure("gone", "docker.io", "")
	d = start(t, store(t, tags(tag("3", 0))), runtime, 1)
	d.p.plugins = n.plugins
	status := d.until("it has failed", ended(1))
	if got := status.ImageStatuses["nginx"].Tags[0].Message; !strings.HasPrefix(got, "access denied; credential provider gone: running it: ") {
		t.Errorf("message %q", got)
	}
}
