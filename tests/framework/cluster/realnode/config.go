// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package realnode

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/pki"
)

// pauseImage is the image of pod sandboxes.
const pauseImage = "kruise-operator.test/pause:1"

// Paths inside a node.
const (
	configFolder     = "/run/node"
	containerdSocket = "/run/containerd/containerd.sock"
	cniConfigFolder  = configFolder + "/cni"
	registryFolder   = configFolder + "/registry"
	containerdConfig = configFolder + "/containerd.toml"
	kubeletConfig    = configFolder + "/kubelet.yaml"
	kubeconfigFile   = configFolder + "/kubeconfig"
	clientCAFile     = configFolder + "/client-ca.crt"
	servingCertFile  = configFolder + "/serving.crt"
	servingKeyFile   = configFolder + "/serving.key"
	resolvConf       = configFolder + "/resolv.conf"

	// kubeletHealth is served by every kubelet at this port unless its configuration says otherwise.
	kubeletHealth = "http://127.0.0.1:10248/healthz"
)

// files writes the configuration of a node into its folder and remembers the first failure.
type files struct {
	root string // what the node sees as /
	err  error
}

func (f *files) write(name string, content []byte) {
	if f.err != nil {
		return
	}
	name = filepath.Join(f.root, name)
	if f.err = os.MkdirAll(filepath.Dir(name), 0o755); f.err == nil {
		f.err = os.WriteFile(name, content, 0o600)
	}
}

// object writes a value as YAML; JSON is a part of it.
func (f *files) object(name string, value any) {
	if f.err != nil {
		return
	}
	content, err := yaml.Marshal(value)
	if f.err = err; err == nil {
		f.write(name, content)
	}
}

// containerd writes the configuration of the runtime.
func (f *files) containerd(plugins string, registry netip.AddrPort) {
	snapshotter := "overlayfs"
	if onOverlay(f.root) {
		snapshotter = "native" // an overlay cannot have an overlay below
	}
	f.write(containerdConfig, fmt.Appendf(nil, `version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
]

[grpc]
  address = %q

[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  # A machine may lack the capability to lower the score.
  restrict_oom_score_adj = true
  disable_apparmor = true
  disable_hugetlb_controller = true
  tolerate_missing_hugetlb_controller = true

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %q
    conf_dir = %q

  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = %q
    default_runtime_name = "runc"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"

      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false

  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = %q
`, containerdSocket, pauseImage, plugins, cniConfigFolder, snapshotter, registryFolder))

	// With the registry also as the upstream, an unknown image fails at once instead of being looked for outside.
	f.write(registryFolder+"/_default/hosts.toml", fmt.Appendf(nil, `server = "http://%[1]s"

[host."http://%[1]s"]
  capabilities = ["pull", "resolve"]
`, registry))
}

// cni writes the configuration of the pod network.
func (f *files) cni(pods netip.Prefix) {
	if f.err != nil {
		return
	}
	content, err := json.MarshalIndent(map[string]any{
		"cniVersion": "0.4.0",
		"name":       "pods",
		"plugins": []any{
			map[string]any{
				"type":        "bridge",
				"bridge":      "pods",
				"isGateway":   true,
				"hairpinMode": true,
				"ipam": map[string]any{
					"type":   "host-local",
					"ranges": []any{[]any{map[string]any{"subnet": pods.String()}}},
					"routes": []any{map[string]any{"dst": "0.0.0.0/0"}},
				},
			},
			map[string]any{"type": "portmap", "capabilities": map[string]any{"portMappings": true}},
		},
	}, "", "  ")
	if f.err = err; err == nil {
		f.write(cniConfigFolder+"/10-pods.conflist", content)
	}
}

// kubelet writes the kubelet's configuration. overrides win, field by field.
func (f *files) kubelet(cgroup string, clusterDNS netip.Addr, overrides map[string]any) {
	if f.err != nil {
		return
	}
	v2, err := cgroupsAreV2()
	if err != nil {
		f.err = err
		return
	}
	config := map[string]any{
		"apiVersion":               "kubelet.config.k8s.io/v1beta1",
		"kind":                     "KubeletConfiguration",
		"address":                  "0.0.0.0",
		"containerRuntimeEndpoint": "unix://" + containerdSocket,
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"x509":      map[string]any{"clientCAFile": clientCAFile},
		},
		"authorization":     map[string]any{"mode": "Webhook"},
		"tlsCertFile":       servingCertFile,
		"tlsPrivateKeyFile": servingKeyFile,
		"clusterDomain":     "cluster.local",
		"clusterDNS":        []string{clusterDNS.String()},
		"resolvConf":        resolvConf,
		// The default lies in a folder of the machine.
		"volumePluginDir": "/var/lib/kubelet/volume-plugins",

		"cgroupDriver":           "cgroupfs",
		"cgroupRoot":             "/" + cgroup,
		"enforceNodeAllocatable": []string{"pods"},
		"oomScoreAdj":            0,
		"failSwapOn":             false,
		"makeIPTablesUtilChains": false,

		// Tests must not depend on the machine's free disk.
		"imageGCHighThresholdPercent": 100,
		"imageGCLowThresholdPercent":  99,
		"evictionHard":                map[string]string{"memory.available": "50Mi", "nodefs.available": "1%", "nodefs.inodesFree": "1%", "imagefs.available": "1%"},

		"eventRecordQPS":            0, // no limit
		"kubeAPIQPS":                100,
		"kubeAPIBurst":              200,
		"nodeStatusUpdateFrequency": "2s",
	}
	if !v2 {
		config["failCgroupV1"] = false
	}
	maps.Copy(config, overrides)
	f.object(kubeletConfig, config)
}

// kubeconfig writes the kubelet's access to the API server. serverName is in its
// certificate; the address used by the node is not.
func (f *files) kubeconfig(apiServer netip.AddrPort, serverName string, ca []byte, client pki.Pair) {
	if f.err != nil {
		return
	}
	const name = "node"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{
		Server: "https://" + apiServer.String(), TLSServerName: serverName, CertificateAuthorityData: ca,
	}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: client.Cert, ClientKeyData: client.Key}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	content, err := clientcmd.Write(*config)
	if f.err = err; err == nil {
		f.write(kubeconfigFile, content)
	}
}
