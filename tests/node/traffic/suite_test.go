// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package traffic_test shows releases with traffic to real requests: Traefik is the gateway, pods run on a real kubelet, and a client sends
// requests all the time.
//
// It needs what tests/node needs; elsewhere it is skipped with the reason.
package traffic_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/binaries"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/realnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/deploy"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/gateway"
)

// classes are Traefik's: of Gateways, and of Ingresses that are written for nginx.
const classes = `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: traefik}
spec: {controllerName: traefik.io/gateway-controller}
---
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: nginx}
spec: {controller: k8s.io/ingress-nginx}
`

var (
	// env is nil when unavailable says why this machine cannot have it.
	env         *environment.Environment
	unavailable error
	gate        = sync.OnceValues(startGateway)
)

func TestMain(m *testing.M) {
	if unavailable = realnode.Check(); unavailable != nil {
		os.Exit(m.Run())
	}
	ctrl.SetLogger(logr.Discard())
	environment.Main(m, environment.Options{Cluster: cluster.Options{RealNodes: 1}}, func(e *environment.Environment) { env = e })
}

// onGateway gives a test its namespace and the port of the gateway.
func onGateway(t *testing.T) (*environment.Namespace, int) {
	t.Helper()
	deploy.Need(t, unavailable)
	port, err := gate()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			text, _ := os.ReadFile(env.Cluster.Logs("traefik"))
			t.Logf("the end of the gateway's log:\n%s", text[max(0, len(text)-4000):])
		}
		if err := env.Cluster.Exited(); err != nil {
			t.Errorf("a component of the cluster failed: %v", err)
		}
	})
	return env.Namespace(t), port
}

// startGateway runs Traefik beside the node, and returns its port when it answers.
func startGateway() (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	if err := deploy.PushGuestbook(ctx, env.Cluster, "v1", "v2", "v3"); err != nil {
		return 0, err
	}
	definitions, err := gateway.Definitions(ctx)
	if err != nil {
		return 0, err
	}
	if err := env.Cluster.InstallCRDs(ctx, definitions); err != nil {
		return 0, err
	}
	for document := range strings.SplitSeq(classes, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := errors.Join(yaml.Unmarshal([]byte(document), &object.Object), env.Client.Create(ctx, object)); err != nil {
			return 0, err
		}
	}
	set, err := binaries.Ensure(ctx, binaries.Options{Progress: os.Stderr}, binaries.Traefik)
	if err != nil {
		return 0, err
	}
	port, err := env.Cluster.FreePort()
	if err != nil {
		return 0, err
	}
	process, err := env.Cluster.StartProcess("traefik", set.Path(binaries.Traefik), []string{
		fmt.Sprintf("--entrypoints.web.address=127.0.0.1:%d", port), "--providers.kubernetesgateway=true", "--providers.kubernetesingressnginx=true",
		"--global.checknewversion=false", "--global.sendanonymoususage=false", "--log.level=INFO",
	}, []string{"KUBECONFIG=" + env.Cluster.AdminKubeconfig()})
	if err != nil {
		return 0, err
	}
	for {
		if err := ask(ctx, fmt.Sprintf("http://127.0.0.1:%d/", port)); err == nil {
			return port, nil
		}
		select {
		case <-process.Done():
			return 0, fmt.Errorf("the gateway ended: %w", process.Err())
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// ask is nil when anything answers.
func ask(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}
