// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package chaos_test perturbs the operator's view and its writes, for every kind: see
// package framework/chaos for the method, and docs/contributing/testing.md for results.
package chaos_test

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/kruise-operator/kruise-operator/tests/framework/chaos"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/faultproxy"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
)

var env *environment.Environment // TestMain has no other way to hand something to the tests

func TestMain(m *testing.M) {
	// All scenarios are there at the same time; how many runs go on is for CHAOS_SLOTS.
	flag.Parse()
	if err := flag.Set("test.parallel", "1000"); err != nil {
		panic(err)
	}
	environment.Main(m, environment.Options{Nodes: &simnode.Options{Nodes: 3, Provisioner: true}, NoOperator: true}, func(e *environment.Environment) {
		env = e
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		// This operator answers admission for all lanes. It sees one namespace, a missing
		// one, and so reconciles nothing.
		proxy, err := faultproxy.Start(e.Cluster, 1)
		if err == nil {
			proxy.Confine("nowhere")
			proxy.ConfineNodes("chaos=nowhere") // and no nodes: else it would keep NodeImages for those of all lanes
			e.Operator, err = operator.Start(ctx, e.Cluster, operator.Options{Name: "admission", Kubeconfig: proxy.Kubeconfig()})
		}
		if err == nil {
			err = e.Operator.CheckReached(ctx)
		}
		if err != nil {
			panic(fmt.Errorf("starting the operator that admits: %w", err))
		}
	})
}

// storageClass makes the claims' class, shared by all lanes.
func storageClass(w *chaos.World) {
	w.T.Helper()
	once.Do(func() {
		if err := env.Nodes.CreateStorageClass(w.T.Context(), "chaos", storagev1.VolumeBindingWaitForFirstConsumer, true); err != nil {
			w.T.Fatal(err)
		}
	})
}
