// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/binaries"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/pki"
)

const (
	adminUser   = "kubernetes-admin"
	mastersName = "system:masters"

	kubeconfigDir = "kubeconfig"
)

// Config returns an administrator without a client-side rate limit. It is in system:masters: neither RBAC nor API priority
// and fairness applies to it.
func (c *Cluster) Config() *rest.Config {
	return c.config(c.admin)
}

// ConfigFor returns a user with a client certificate and no client-side rate limit. It may
// be a service account's full name; then name its usual groups, too.
func (c *Cluster) ConfigFor(user string, groups ...string) (*rest.Config, error) {
	pair, err := c.ca.Client(user, groups...)
	if err != nil {
		return nil, fmt.Errorf("issuing a certificate for %s: %w", user, err)
	}
	return c.config(pair), nil
}

// KubeconfigFile writes a kubeconfig for a user with a client certificate into the cluster's folder and returns its path.
func (c *Cluster) KubeconfigFile(user string, groups ...string) (string, error) {
	pair, err := c.ca.Client(user, groups...)
	if err != nil {
		return "", fmt.Errorf("issuing a certificate for %s: %w", user, err)
	}
	return c.writeKubeconfig(user, pair)
}

// AdminKubeconfig returns the path of a kubeconfig with the rights of Config.
func (c *Cluster) AdminKubeconfig() string {
	return filepath.Join(c.Dir(), kubeconfigDir, adminUser)
}

// Kubectl returns a kubectl command with the rights of Config, ready to run. It is built at the first call; a failure to
// build it is returned by running the command.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) *exec.Cmd {
	set, err := binaries.Ensure(ctx, binaries.Options{
		Version:  c.Version(),
		Progress: c.options.Progress,
	}, binaries.Kubectl)
	own := []string{
		"--kubeconfig=" + c.AdminKubeconfig(),
		"--cache-dir=" + filepath.Join(c.Dir(), "kubectl-cache"),
	}
	cmd := exec.CommandContext(ctx, set.Path(binaries.Kubectl), append(own, args...)...)
	if err != nil {
		cmd.Err = err
	}
	return cmd
}

// InstallCRDs creates or updates the custom resource definitions in the given files and folders and waits until the API
// server serves them.
func (c *Cluster) InstallCRDs(ctx context.Context, paths ...string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	_, err := envtest.InstallCRDs(c.Config(), envtest.CRDInstallOptions{
		Paths:              paths,
		ErrorIfPathMissing: true,
		MaxTime:            readyTimeout,
		PollInterval:       readyInterval,
	})
	if err != nil {
		return fmt.Errorf("installing custom resource definitions: %w", err)
	}
	return nil
}

func (c *Cluster) config(pair pki.Pair) *rest.Config {
	return &rest.Config{
		Host: c.APIServerURL(),
		QPS:  -1,
		TLSClientConfig: rest.TLSClientConfig{
			CAData:   c.CA(),
			CertData: pair.Cert,
			KeyData:  pair.Key,
		},
	}
}

// writeKubeconfig never changes an existing file: two kubeconfigs of a user may differ in
// groups.
func (c *Cluster) writeKubeconfig(user string, pair pki.Pair) (string, error) {
	const name = "kruise"
	content, err := clientcmd.Write(clientcmdapi.Config{
		CurrentContext: name,
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: user}},
		Clusters: map[string]*clientcmdapi.Cluster{
			name: {Server: c.APIServerURL(), CertificateAuthorityData: c.CA()},
		},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{
			user: {ClientCertificateData: pair.Cert, ClientKeyData: pair.Key},
		},
	})
	if err != nil {
		return "", fmt.Errorf("encoding a kubeconfig for %s: %w", user, err)
	}
	dir := filepath.Join(c.Dir(), kubeconfigDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("writing a kubeconfig for %s: %w", user, err)
	}
	file, err := createNew(dir, strings.NewReplacer("/", "_", ":", "_").Replace(user))
	if err != nil {
		return "", fmt.Errorf("writing a kubeconfig for %s: %w", user, err)
	}
	if _, err := file.Write(content); err != nil {
		_ = file.Close()
		return "", fmt.Errorf("writing a kubeconfig for %s: %w", user, err)
	}
	return file.Name(), file.Close()
}

// createNew creates the file name in dir, or one with a longer name if it exists.
func createNew(dir, name string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if os.IsExist(err) {
		return os.CreateTemp(dir, name+"-")
	}
	return file, err
}
