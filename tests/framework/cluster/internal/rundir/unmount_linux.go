// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rundir

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// mountPointField is the column of the mount point in /proc/self/mountinfo.
const mountPointField = 4

// unmountBeneath detaches everything mounted at or beneath path, innermost first.
func unmountBeneath(path string) error {
	points, err := mountsBeneath(path)
	if err != nil {
		return err
	}
	for _, point := range slices.Backward(points) {
		if err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("unmounting %s: %w", point, err)
		}
	}
	return nil
}

// mountsBeneath lists mount points in the order of mounting.
func mountsBeneath(path string) ([]string, error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("listing mounts: %w", err)
	}
	defer func() { _ = file.Close() }()
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var points []string
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		fields := strings.Fields(scanner.Text())
		if len(fields) <= mountPointField {
			continue
		}
		point := unescape.Replace(fields[mountPointField])
		if point == path || strings.HasPrefix(point, path+"/") {
			points = append(points, point)
		}
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("listing mounts: %w", err)
	}
	return points, nil
}
