// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package imagepuller

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/distribution/reference"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/internal/daemon/cri"
)

const (
	// pluginTime is how long a plugin may run, as with the kubelet.
	pluginTime = time.Minute
	// pluginEnd bounds how long children of a killed plugin may hold its output open.
	pluginEnd = 2 * time.Second
	// pluginOutput and pluginErrors limit its two outputs, in bytes. Longer answers fail.
	pluginOutput = 1 << 20
	pluginErrors = 2 << 10
	// pluginGroup is the API group of plugins, configurationGroup of their configuration.
	pluginGroup        = "credentialprovider.kubelet.k8s.io"
	configurationGroup = "kubelet.config.k8s.io"
)

// These types are the used fields of the kubelet's CredentialProviderConfig and of the
// plugins' protocol. The published module would bring the kubelet's whole configuration
// along.

type configuration struct {
	metav1.TypeMeta `json:",inline"`
	Providers       []provider `json:"providers"`
}

// provider is one plugin of a configuration.
type provider struct {
	Name        string   `json:"name"`
	MatchImages []string `json:"matchImages"`
	APIVersion  string   `json:"apiVersion"`
	Args        []string `json:"args"`
	Env         []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"env"`
	TokenAttributes json.RawMessage `json:"tokenAttributes"`
}

type pluginRequest struct {
	metav1.TypeMeta `json:",inline"`
	Image           string `json:"image"`
}

type pluginAnswer struct {
	metav1.TypeMeta `json:",inline"`
	Auth            map[string]struct {
		Username string `json:"username"`
		Password string `json:"password"`
	} `json:"auth"`
}

// plugins asks the credential provider plugins of the kubelet for credentials. The configuration is read for each lookup, so a change needs no restart.
type plugins struct {
	// file is the configuration, folder where the programs are. Without a file there are no plugins.
	file, folder string
	// limit is how long a plugin may run.
	limit time.Duration

	// turn lets one plugin run at a time: they share the daemon's memory.
	turn chan struct{}
}

func newPlugins(file, folder string) *plugins {
	return &plugins{file: file, folder: folder, limit: pluginTime, turn: make(chan struct{}, 1)}
}

// lookup returns the plugins' credentials for an image, longest key first, and the errors
// of failing plugins beside them.
func (p *plugins) lookup(ctx context.Context, image string) ([]cri.Credentials, error) {
	if p == nil || p.file == "" {
		return nil, nil
	}
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return nil, nil //nolint:nilerr // the pull says so
	}
	providers, err := p.configured()
	if err != nil {
		return nil, err
	}
	var all []cri.Credentials
	var failures []error
	for i := range providers {
		if !slices.ContainsFunc(providers[i].MatchImages, func(pattern string) bool { return matchesImage(pattern, named) }) {
			continue
		}
		answer, err := p.run(ctx, &providers[i], named.Name())
		if err != nil {
			failures = append(failures, fmt.Errorf("credential provider %s: %w", providers[i].Name, err))
			continue
		}
		keys := slices.SortedFunc(maps.Keys(answer.Auth), func(a, b string) int { return len(b) - len(a) })
		for _, key := range keys {
			auth := cri.Credentials{Username: answer.Auth[key].Username, Password: answer.Auth[key].Password}
			if matchesImage(key, named) && !slices.Contains(all, auth) {
				all = append(all, auth)
			}
		}
	}
	return all, errors.Join(failures...)
}

// configured reads the configuration. A missing file is an empty one.
func (p *plugins) configured() ([]provider, error) {
	failed := func(err error) ([]provider, error) {
		return nil, fmt.Errorf("the configuration of credential providers, %s: %w", filepath.Base(p.file), err)
	}
	text, err := os.ReadFile(p.file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return failed(err)
	}
	var c configuration
	if err := yaml.Unmarshal(text, &c); err != nil {
		return failed(err)
	}
	if group, _, _ := strings.Cut(c.APIVersion, "/"); group != configurationGroup || c.Kind != "CredentialProviderConfig" {
		return failed(fmt.Errorf("%w: it is no CredentialProviderConfig of %s, but %s %s", errPlugin, configurationGroup, c.APIVersion, c.Kind))
	}
	for i := range c.Providers {
		if err := c.Providers[i].check(); err != nil {
			return failed(fmt.Errorf("providers[%d]: %w", i, err))
		}
	}
	return c.Providers, nil
}

// errPlugin: a plugin or its configuration is invalid.
var errPlugin = errors.New("invalid")

// check validates a provider.
func (p *provider) check() error {
	group, _, _ := strings.Cut(p.APIVersion, "/")
	switch {
	case p.Name == "" || p.Name == "." || p.Name == ".." || strings.ContainsAny(p.Name, "/ "):
		return fmt.Errorf("%w: the name %q is not that of a file", errPlugin, p.Name)
	case group != pluginGroup:
		return fmt.Errorf("%w: the apiVersion of %s is %q, not one of %s", errPlugin, p.Name, p.APIVersion, pluginGroup)
	case len(p.TokenAttributes) > 0:
		return fmt.Errorf("%w: %s wants tokens of service accounts (tokenAttributes), and images are pulled for no pod", errPlugin, p.Name)
	}
	return nil
}

// run runs a plugin. Its errors go to the log, not into the status, which more people may
// read.
func (p *plugins) run(ctx context.Context, of *provider, image string) (*pluginAnswer, error) {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	request, err := json.Marshal(pluginRequest{TypeMeta: metav1.TypeMeta{Kind: "CredentialProviderRequest", APIVersion: of.APIVersion}, Image: image})
	if err != nil {
		return nil, fmt.Errorf("rendering the request: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	command := exec.CommandContext(limited, filepath.Join(p.folder, of.Name), of.Args...)
	endWithChildren(command)
	command.Env, command.WaitDelay = os.Environ(), pluginEnd
	for _, variable := range of.Env {
		command.Env = append(command.Env, variable.Name+"="+variable.Value)
	}
	output, complaints := &bounded{most: pluginOutput, exceeded: cancel}, &bounded{most: pluginErrors}
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(request), output, complaints
	err = command.Run()
	switch {
	case output.over:
		return nil, fmt.Errorf("%w: it answers with more than %d KiB", errPlugin, pluginOutput>>10)
	case err != nil && ctx.Err() == nil && limited.Err() != nil:
		return nil, fmt.Errorf("%w: it has not ended after %s", errPlugin, p.limit)
	case err != nil:
		ctrl.Log.WithName("imagepuller").Info("A credential provider has failed", "provider", of.Name, "err", err.Error(), "stderr", complaints.kept.String())
		return nil, fmt.Errorf("running it: %w", err)
	}
	answer := &pluginAnswer{}
	if json.Unmarshal(output.kept.Bytes(), answer) != nil { // the error could quote credentials
		return nil, fmt.Errorf("%w: its answer is not JSON", errPlugin)
	}
	if answer.Kind != "CredentialProviderResponse" || answer.APIVersion != of.APIVersion {
		return nil, fmt.Errorf("%w: it does not answer with a CredentialProviderResponse of %s", errPlugin, of.APIVersion)
	}
	return answer, nil
}

// bounded keeps the beginning of the output.
type bounded struct {
	kept bytes.Buffer // not embedded: it would be read into past Write
	most int
	over bool
	// exceeded is called when there is more; nil lets the rest go by.
	exceeded func()
}

// Write implements io.Writer.
func (b *bounded) Write(text []byte) (int, error) {
	if room := b.most - b.kept.Len(); len(text) > room {
		b.kept.Write(text[:room])
		if b.exceeded != nil && !b.over {
			b.exceeded()
		}
		b.over = true
		return len(text), nil
	}
	return b.kept.Write(text)
}

// matchesImage matches a pattern of matchImages with an image: labels of the host may be
// patterns, the port is equal, the path a prefix.
func matchesImage(pattern string, named reference.Named) bool {
	pattern = strings.TrimPrefix(strings.TrimPrefix(pattern, "https://"), "http://")
	host, path, _ := strings.Cut(pattern, "/")
	return matchesHost(host, reference.Domain(named)) && strings.HasPrefix(reference.Path(named), path)
}
