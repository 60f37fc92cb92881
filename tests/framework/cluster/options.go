// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cluster

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/binaries"
)

// KeepLogsVariable names the environment variable for keeping the components' logs after
// Stop. An absolute path is their folder; any other non-empty value means
// kruise-cluster-logs in the temporary folder.
const KeepLogsVariable = "KRUISE_KEEP_LOGS"

// ControlPlane chooses the running components.
type ControlPlane int

const (
	// Full runs etcd, kube-apiserver, kube-controller-manager and kube-scheduler. It is the default.
	Full ControlPlane = iota
	// APIServerOnly runs etcd and kube-apiserver. Nothing is garbage collected, scheduled or bound, namespaces are not
	// finalized, the aggregated cluster roles (admin, edit, view) stay empty, and pods need no service account, since nobody
	// would create it.
	APIServerOnly
)

// Names of the components, as Logs and Options.Flags take them.
const (
	Etcd              = string(binaries.Etcd)
	APIServer         = string(binaries.KubeAPIServer)
	ControllerManager = string(binaries.KubeControllerManager)
	Scheduler         = string(binaries.KubeScheduler)
	Kubelet           = string(binaries.Kubelet) // only as the key of Options.Flags
)

// Options describe a cluster. The zero value is a full control plane of the pinned version.
type Options struct {
	// KubernetesVersion is a release such as v1.35.2, or 1.35 for its newest patch. When
	// empty it is $KUBERNETES_VERSION, and then the pin of tools/kubernetes.
	KubernetesVersion string

	// ControlPlane chooses the running components.
	ControlPlane ControlPlane

	// FeatureGates are given to every Kubernetes component. A component refuses to start with a gate it does not know.
	FeatureGates map[string]bool

	// Flags are added to components' command lines, by name. They come last and win over
	// this package's. Each is one argument, such as "--v=4".
	Flags map[string][]string

	// Audit turns on the API server's audit log.
	Audit *Audit

	// AdvertiseAddress is this machine's address for pods of real nodes. When set, the API
	// server listens on every address and the Service "kubernetes" leads to it. When empty
	// it listens on loopback only and the Service has no endpoints.
	AdvertiseAddress string

	// RealNodes is how many real nodes to start, named node-1, node-2 and so on. It needs
	// realnode.Check to pass. AddRealNode adds more to the running cluster.
	RealNodes int

	// LogDir receives one log for each component and stays after Stop. When empty, logs are in the cluster's folder and go
	// with it, unless $KRUISE_KEEP_LOGS is set.
	LogDir string

	// Progress receives a line for each program to build, and the place of kept logs. It
	// may be nil.
	Progress io.Writer
}

// Audit describes an audit log.
type Audit struct {
	// Policy is a Policy of audit.k8s.io/v1 in YAML. When empty, every request is logged once, when it is answered, without
	// its bodies.
	Policy string
}

// defaultAuditPolicy logs one event for each request, for counting. A watch is logged when it ends.
const defaultAuditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
`

func (o Options) programs() []binaries.Name {
	programs := []binaries.Name{binaries.Etcd, binaries.KubeAPIServer}
	if o.ControlPlane != APIServerOnly {
		programs = append(programs, binaries.KubeControllerManager, binaries.KubeScheduler)
	}
	if o.RealNodes > 0 {
		programs = append(programs, binaries.Kubelet)
	}
	return programs
}

// extraFlags returns the additional command line of a Kubernetes component.
func (o Options) extraFlags(component string) []string {
	var flags []string
	if len(o.FeatureGates) > 0 {
		var gates []string
		for _, gate := range slices.Sorted(maps.Keys(o.FeatureGates)) {
			gates = append(gates, fmt.Sprintf("%s=%t", gate, o.FeatureGates[gate]))
		}
		flags = append(flags, "--feature-gates="+strings.Join(gates, ","))
	}
	return append(flags, o.Flags[component]...)
}

// makeLogDir creates the folder for logs; kept is true if it outlives Stop.
func (o Options) makeLogDir(clusterDir, clusterName string) (path string, kept bool, err error) {
	keep := os.Getenv(KeepLogsVariable)
	switch {
	case o.LogDir != "":
		path, kept = o.LogDir, true
	case filepath.IsAbs(keep):
		path, kept = filepath.Join(keep, clusterName), true
	case keep != "":
		path, kept = filepath.Join(os.TempDir(), "kruise-cluster-logs", clusterName), true
	default:
		path = filepath.Join(clusterDir, "logs")
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", false, fmt.Errorf("finding the log folder: %w", err)
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return "", false, fmt.Errorf("creating the log folder: %w", err)
	}
	return path, kept, nil
}
