// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/binaries"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/pki"
)

const (
	// readyTimeout bounds the wait for one component. A start takes a few seconds; the rest is for a busy machine.
	readyTimeout  = 90 * time.Second
	readyInterval = 20 * time.Millisecond
	probeTimeout  = 5 * time.Second
	// portAttempts is how often a component is started again because another program took its port.
	portAttempts = 5

	serviceCIDR = "10.96.0.0/16"
	// firstServiceIP is the address of the Service "kubernetes".
	firstServiceIP = "10.96.0.1"

	// etcdSocket has etcd's form host:port, and is a Unix socket in its working directory.
	// It is shorter than any limit on socket paths and open to this user only.
	etcdSocket = "etcd:0"
	peerSocket = "etcd:1"
)

// makePKI writes the components' keys and certificates.
func (c *Cluster) makePKI() error {
	var err error
	if c.ca, err = pki.NewAuthority("kruise-test-cluster"); err != nil {
		return err
	}
	if c.frontProxy, err = pki.NewAuthority("kruise-test-front-proxy"); err != nil {
		return err
	}
	if c.admin, err = c.ca.Client(adminUser, mastersName); err != nil {
		return err
	}

	hosts := []string{
		"127.0.0.1", "::1", "localhost", firstServiceIP,
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
	}
	if c.options.AdvertiseAddress != "" {
		hosts = append(hosts, c.options.AdvertiseAddress)
	}
	server, err := c.ca.Server(APIServer, hosts...)
	if err != nil {
		return err
	}
	// Exec, logs and port-forward reach kubelets as a user who may do everything there.
	kubeletClient, err := c.ca.Client("kube-apiserver-kubelet-client", mastersName)
	if err != nil {
		return err
	}
	proxyClient, err := c.frontProxy.Client("front-proxy-client")
	if err != nil {
		return err
	}
	local, err := c.ca.Server("kube-component", "127.0.0.1", "localhost")
	if err != nil {
		return err
	}
	pairs := map[string]pki.Pair{
		"ca":                c.ca.Pair(),
		"front-proxy-ca":    c.frontProxy.Pair(),
		"apiserver":         server,
		"kubelet-client":    kubeletClient,
		"front-proxy":       proxyClient,
		"component-serving": local,
	}
	for name, pair := range pairs {
		if _, err := c.write(pkiFile(name+".crt"), pair.Cert); err != nil {
			return err
		}
		if _, err := c.write(pkiFile(name+".key"), pair.Key); err != nil {
			return err
		}
	}

	private, public, err := pki.NewKey()
	if err != nil {
		return err
	}
	if _, err := c.write(pkiFile("service-accounts.key"), private); err != nil {
		return err
	}
	_, err = c.write(pkiFile("service-accounts.pub"), public)
	return err
}

// environment of the components. In tests they may use more memory for less CPU; the demo
// and the benchmark run them as they are.
func environment() []string {
	if testing.Testing() {
		return []string{"GOGC=400"}
	}
	return nil
}

// pkiFile returns the path of a certificate or key, relative to the cluster's folder, where the components run.
func pkiFile(name string) string {
	return filepath.Join("pki", name)
}

func (c *Cluster) startEtcd(ctx context.Context) error {
	client, peer := "unix://"+etcdSocket, "unix://"+peerSocket
	args := append([]string{
		"--name=etcd",
		"--data-dir=etcd-data",
		"--listen-client-urls=" + client,
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=etcd=" + peer,
		"--log-level=warn",
		"--quota-backend-bytes=" + strconv.Itoa(4<<30),
		// The data is thrown away with the cluster: it needs to survive an API server, not a power cut.
		"--unsafe-no-fsync",
	}, c.options.Flags[Etcd]...)
	p, err := c.StartProcess(Etcd, c.programs.Path(binaries.Etcd), args, environment())
	if err != nil {
		return err
	}
	probe := &http.Client{Timeout: probeTimeout, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(c.Dir(), etcdSocket))
		},
	}}
	return waitHealthy(ctx, Etcd, p, probe, "http://etcd/health")
}

// startAPIServer starts the API server for the first time; it keeps its port.
func (c *Cluster) startAPIServer(ctx context.Context) error {
	c.apiServerSteps.Lock()
	defer c.apiServerSteps.Unlock()
	if c.options.Audit != nil {
		policy := c.options.Audit.Policy
		if policy == "" {
			policy = defaultAuditPolicy
		}
		if _, err := c.write("audit-policy.yaml", []byte(policy)); err != nil {
			return err
		}
	}
	p, err := c.startOnFreePort(ctx, func(port int) (*Process, error) {
		c.apiServerPort = port
		return c.runAPIServer(ctx)
	})
	if err != nil {
		return err
	}
	c.setAPIServer(p)
	_, err = c.writeKubeconfig(adminUser, c.admin)
	return err
}

// runAPIServer starts the API server on its port and waits until it is ready.
func (c *Cluster) runAPIServer(ctx context.Context) (*Process, error) {
	p, err := c.StartProcess(APIServer, c.programs.Path(binaries.KubeAPIServer), c.apiServerArgs(), environment())
	if err != nil {
		return nil, err
	}
	probe, err := c.probeClient()
	if err != nil {
		return nil, err
	}
	return p, waitHealthy(ctx, APIServer, p, probe, c.APIServerURL()+"/readyz")
}

func (c *Cluster) apiServerArgs() []string {
	args := []string{
		"--etcd-servers=unix://" + filepath.Join(c.Dir(), etcdSocket),
		"--secure-port=" + strconv.Itoa(c.apiServerPort),
		"--tls-cert-file=" + pkiFile("apiserver.crt"),
		"--tls-private-key-file=" + pkiFile("apiserver.key"),
		"--client-ca-file=" + pkiFile("ca.crt"),
		"--cert-dir=" + pkiFile("apiserver-generated"),

		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true",

		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-signing-key-file=" + pkiFile("service-accounts.key"),
		"--service-account-key-file=" + pkiFile("service-accounts.pub"),
		"--service-cluster-ip-range=" + serviceCIDR,

		"--kubelet-client-certificate=" + pkiFile("kubelet-client.crt"),
		"--kubelet-client-key=" + pkiFile("kubelet-client.key"),
		"--kubelet-certificate-authority=" + pkiFile("ca.crt"),
		"--kubelet-preferred-address-types=InternalIP,Hostname",

		"--requestheader-client-ca-file=" + pkiFile("front-proxy-ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + pkiFile("front-proxy.crt"),
		"--proxy-client-key-file=" + pkiFile("front-proxy.key"),
		// Webhooks and extension servers behind a Service are dialed at their endpoints: there is no kube-proxy.
		"--enable-aggregator-routing=true",

		// Room for 64 concurrent writers beside the watches of the components.
		"--max-requests-inflight=1000",
		"--max-mutating-requests-inflight=500",
		"--event-ttl=15m",
		"--profiling=false",
	}
	if address := c.options.AdvertiseAddress; address != "" {
		args = append(args, "--bind-address=0.0.0.0", "--advertise-address="+address)
	} else {
		// An endpoint on loopback would be refused by validation.
		args = append(args, "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none")
	}
	if c.options.ControlPlane == APIServerOnly {
		args = append(args, "--disable-admission-plugins=ServiceAccount")
	}
	if c.options.Audit != nil {
		args = append(args,
			"--audit-policy-file=audit-policy.yaml",
			"--audit-log-path="+c.AuditLog(),
			"--audit-log-mode=blocking",
			"--audit-log-maxsize=100000", // MiB: never rotated
		)
	}
	return slices.Concat(args, c.options.extraFlags(APIServer), c.apiServerFlags)
}

// StopAPIServer kills the API server, as a crash would. Its data stays in etcd. Stopping it twice is no error.
func (c *Cluster) StopAPIServer(context.Context) error {
	c.apiServerSteps.Lock()
	defer c.apiServerSteps.Unlock()
	return c.stopAPIServer()
}

// StartAPIServer starts the API server after StopAPIServer, at the same address, and waits until it is ready. It does nothing
// when the API server runs.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	c.apiServerSteps.Lock()
	defer c.apiServerSteps.Unlock()
	return c.startAPIServerAgain(ctx)
}

// RestartAPIServer kills the API server, starts it at the same address and waits until it
// is ready. The flags hold until the next restart: "--emulated-version=1.35" serves as this
// version does.
func (c *Cluster) RestartAPIServer(ctx context.Context, flags ...string) error {
	c.apiServerSteps.Lock()
	defer c.apiServerSteps.Unlock()
	c.apiServerFlags = flags
	if err := c.stopAPIServer(); err != nil {
		return err
	}
	return c.startAPIServerAgain(ctx)
}

func (c *Cluster) stopAPIServer() error {
	c.mutex.Lock()
	p := c.apiServer
	c.apiServer = nil
	c.mutex.Unlock()
	if p == nil {
		return nil
	}
	return c.StopProcess(p)
}

func (c *Cluster) startAPIServerAgain(ctx context.Context) error {
	c.mutex.Lock()
	running := c.apiServer != nil && c.apiServer.Err() == nil
	c.mutex.Unlock()
	if running {
		return nil
	}
	p, err := c.runAPIServer(ctx)
	if err != nil {
		return err
	}
	c.setAPIServer(p)
	return nil
}

func (c *Cluster) setAPIServer(p *Process) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.apiServer = p
}

func (c *Cluster) startControllerManager(ctx context.Context) error {
	kubeconfig, err := c.KubeconfigFile("system:" + ControllerManager)
	if err != nil {
		return err
	}
	return c.startComponent(ctx, binaries.KubeControllerManager, []string{
		"--kubeconfig=" + kubeconfig,
		"--root-ca-file=" + pkiFile("ca.crt"),
		"--service-account-private-key-file=" + pkiFile("service-accounts.key"),
		"--use-service-account-credentials=true",
		"--cluster-signing-cert-file=" + pkiFile("ca.crt"),
		"--cluster-signing-key-file=" + pkiFile("ca.key"),
		"--service-cluster-ip-range=" + serviceCIDR,
		"--leader-elect=false",
		// The default is a folder of the machine; it would be created.
		"--flex-volume-plugin-dir=" + filepath.Join(c.Dir(), "volume-plugins"),
		// With the default limits it would be every test's bottleneck.
		"--kube-api-qps=400",
		"--kube-api-burst=800",
		// A silent node is noticed soon after its lease ran out.
		"--node-monitor-period=2s",
	})
}

func (c *Cluster) startScheduler(ctx context.Context) error {
	kubeconfig, err := c.KubeconfigFile("system:" + Scheduler)
	if err != nil {
		return err
	}
	// A short back-off: a waiting pod is tried again within a test's patience.
	config, err := c.write("scheduler.yaml", []byte(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: `+strconv.Quote(kubeconfig)+`
  qps: 400
  burst: 800
leaderElection:
  leaderElect: false
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 3
enableProfiling: false
`))
	if err != nil {
		return err
	}
	return c.startComponent(ctx, binaries.KubeScheduler, []string{"--config=" + config})
}

// startComponent starts a component with its own health port and waits until it is healthy.
func (c *Cluster) startComponent(ctx context.Context, name binaries.Name, args []string) error {
	_, err := c.startOnFreePort(ctx, func(port int) (*Process, error) {
		args := append([]string{
			"--bind-address=127.0.0.1",
			"--secure-port=" + strconv.Itoa(port),
			"--tls-cert-file=" + pkiFile("component-serving.crt"),
			"--tls-private-key-file=" + pkiFile("component-serving.key"),
			"--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics",
		}, args...)
		args = append(args, c.options.extraFlags(string(name))...)
		p, err := c.StartProcess(string(name), c.programs.Path(name), args, environment())
		if err != nil {
			return nil, err
		}
		probe, err := c.probeClient()
		if err != nil {
			return nil, err
		}
		return p, waitHealthy(ctx, string(name), p, probe, "https://127.0.0.1:"+strconv.Itoa(port)+"/healthz")
	})
	return err
}

// startOnFreePort calls start with a free port, and again with another one when a program outside of our claims was faster to
// take it. start returns the process also when it did not become healthy.
func (c *Cluster) startOnFreePort(ctx context.Context, start func(port int) (*Process, error)) (*Process, error) {
	var errs []error
	for range portAttempts {
		port, err := c.dir.Port()
		if err != nil {
			return nil, err
		}
		p, err := start(port)
		if err == nil {
			return p, nil
		}
		errs = append(errs, err)
		if p == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "address already in use") {
			break
		}
		if err := c.StopProcess(p); err != nil {
			errs = append(errs, err)
			break
		}
	}
	return nil, errors.Join(errs...)
}

// probeClient asks as the administrator: the API server answers others only once RBAC has its default roles.
func (c *Cluster) probeClient() (*http.Client, error) {
	certificate, err := tls.X509KeyPair(c.admin.Cert, c.admin.Key)
	if err != nil {
		return nil, fmt.Errorf("loading the administrator's certificate: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.CA())
	return &http.Client{Timeout: probeTimeout, Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{
			MinVersion:   tls.VersionTLS12,
			RootCAs:      roots,
			Certificates: []tls.Certificate{certificate},
		},
	}}, nil
}

// waitHealthy polls a health address until it answers 200, the program ends, or the time is up.
func waitHealthy(ctx context.Context, name string, p *Process, probe *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	ticker := time.NewTicker(readyInterval)
	defer ticker.Stop()
	for {
		err := probeOnce(ctx, probe, url)
		if err == nil {
			return nil
		}
		select {
		case <-p.Done():
			return p.Err()
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w: %w", name, ctx.Err(), err)
		case <-ticker.C:
		}
	}
}

func probeOnce(ctx context.Context, probe *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := probe.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusOK {
		return nil
	}
	const limit = 4 << 10
	body, err := io.ReadAll(io.LimitReader(response.Body, limit))
	if err != nil {
		return err
	}
	return fmt.Errorf("%s: %s", response.Status, strings.TrimSpace(string(body)))
}

// waitForServiceAccount waits for the default namespace's account: before, its pods are
// refused.
func (c *Cluster) waitForServiceAccount(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	ticker := time.NewTicker(readyInterval)
	defer ticker.Stop()
	for {
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		if err == nil {
			return nil
		}
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("reading the default service account: %w", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the default service account: %w", ctx.Err())
		case <-ticker.C:
		}
	}
}
