// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// The Operator Lifecycle Manager's use of grpc_health_probe in a catalog's pod: its health.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	health "google.golang.org/grpc/health/grpc_health_v1"
)

func main() {
	address := flag.String("addr", "", "Where the server listens.")
	limit := flag.Duration("rpc-timeout", time.Second, "How long the answer may take.")
	flag.Parse()
	if err := probe(*address, *limit); err != nil {
		fmt.Fprintln(os.Stderr, "grpc_health_probe:", err)
		os.Exit(1)
	}
}

func probe(address string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	connection, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }()
	answer, err := health.NewHealthClient(connection).Check(ctx, &health.HealthCheckRequest{})
	if err != nil {
		return err
	}
	if answer.GetStatus() != health.HealthCheckResponse_SERVING {
		return fmt.Errorf("the server is %s", answer.GetStatus())
	}
	return nil
}
