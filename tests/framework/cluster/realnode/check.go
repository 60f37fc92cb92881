// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// requirement is a program a node needs and its Debian package.
type requirement struct {
	program string
	pkg     string
}

func requirements() []requirement {
	return []requirement{
		{"containerd", "containerd"},
		{"containerd-shim-runc-v2", "containerd"},
		{"ctr", "containerd"},
		{"runc", "runc"},
		{"iptables", "iptables"},
		{"nsenter", "util-linux"},
	}
}

// cniPackage brings the plugins for pods' networks.
const cniPackage = "containernetworking-plugins"

func cniPlugins() []string { return []string{"bridge", "host-local", "loopback", "portmap"} }

// DebianPackages are the packages of Debian and Ubuntu with everything [Check] asks for.
func DebianPackages() []string {
	packages := []string{cniPackage}
	for _, needed := range requirements() {
		packages = append(packages, needed.pkg)
	}
	slices.Sort(packages)
	return slices.Compact(packages)
}

// UnavailableError says why this machine cannot run real nodes.
type UnavailableError struct {
	// Reasons are beyond packages, such as the operating system.
	Reasons []string
	// Programs are missing programs, Packages their Debian packages.
	Programs, Packages []string
}

// Error implements error.
func (e *UnavailableError) Error() string {
	reasons := slices.Clone(e.Reasons)
	if len(e.Programs) > 0 {
		reasons = append(reasons, fmt.Sprintf("not installed: %s (apt-get install --no-install-recommends %s)",
			strings.Join(e.Programs, ", "), strings.Join(e.Packages, " ")))
	}
	return "no real node can run here: " + strings.Join(reasons, "; ")
}

// Check fails if this machine cannot run real nodes, with an [*UnavailableError] listing
// everything missing: a reason to skip a test.
func Check() error {
	missing := &UnavailableError{}
	if runtime.GOOS != "linux" {
		missing.Reasons = append(missing.Reasons, "the system is "+runtime.GOOS+", not linux")
		return missing
	}
	if os.Geteuid() != 0 {
		missing.Reasons = append(missing.Reasons, "the user is not root")
	}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil {
		if _, err := os.Stat("/sys/fs/cgroup/memory"); err != nil {
			missing.Reasons = append(missing.Reasons, "control groups are not mounted at /sys/fs/cgroup")
		}
	}
	if os.Geteuid() == 0 && !hasCapabilities() {
		missing.Reasons = append(missing.Reasons, "root has not the capabilities CAP_SYS_ADMIN and CAP_NET_ADMIN, as in a container that is not privileged")
	}
	if _, err := os.Stat("/dev/kmsg"); err != nil {
		missing.Reasons = append(missing.Reasons, "there is no /dev/kmsg, which a kubelet reads")
	}
	for _, needed := range requirements() {
		if _, err := lookPath(needed.program); err != nil {
			missing.Programs = append(missing.Programs, needed.program)
			missing.Packages = append(missing.Packages, needed.pkg)
		}
	}
	if _, err := cniFolder(); err != nil {
		missing.Programs = append(missing.Programs, "CNI plugins")
		missing.Packages = append(missing.Packages, cniPackage)
	}
	if len(missing.Reasons) == 0 && len(missing.Programs) == 0 {
		return nil
	}
	slices.Sort(missing.Packages)
	missing.Packages = slices.Compact(missing.Packages)
	return missing
}

// hasCapabilities is true if this process may make mounts, namespaces and network
// interfaces.
func hasCapabilities() bool {
	const netAdmin, sysAdmin = 1 << 12, 1 << 21
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(status)) {
		if value, found := strings.CutPrefix(line, "CapEff:"); found {
			effective, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
			return err == nil && effective&netAdmin != 0 && effective&sysAdmin != 0
		}
	}
	return false
}

// nodePath is the search path inside a node.
const nodePath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// lookPath finds a program in the search path of a node, whatever the caller's own is.
func lookPath(program string) (string, error) {
	for folder := range strings.SplitSeq(nodePath, ":") {
		if path, err := exec.LookPath(filepath.Join(folder, program)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not in %s", program, nodePath)
}

// cniFolder finds the folder with all plugins a node needs.
func cniFolder() (string, error) {
	folders := []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"}
	for _, folder := range folders {
		complete := !slices.ContainsFunc(cniPlugins(), func(plugin string) bool {
			_, err := exec.LookPath(filepath.Join(folder, plugin))
			return err != nil
		})
		if complete {
			return folder, nil
		}
	}
	return "", fmt.Errorf("none of %s has the plugins %s", strings.Join(folders, ", "), strings.Join(cniPlugins(), ", "))
}
