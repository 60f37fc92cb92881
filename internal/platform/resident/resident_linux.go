// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package resident returns memory to the system that a program only needs while it starts.
package resident

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
)

// ReleaseMemory gives back the heap that is free, and the pages of the program's file: its text and its constants. The kernel maps 16 pages around each
// one that is touched, and keeps all of them until memory is short, although most were touched by the start alone. What is used again is mapped again,
// from the page cache where it still is. Nothing is lost: only mappings are given back that cannot be written, so that their pages are those of the file.
// An error says which mapping stays; the heap was given back all the same.
func ReleaseMemory() error {
	debug.FreeOSMemory()
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("finding the program: %w", err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return fmt.Errorf("reading the mappings: %w", err)
	}
	for _, m := range constantMappings(maps, program) {
		if _, _, failed := syscall.Syscall(syscall.SYS_MADVISE, m.from, m.to-m.from, syscall.MADV_DONTNEED); failed != 0 {
			return fmt.Errorf("giving back the mapping at %x: %w", m.from, failed)
		}
	}
	return nil
}

// mapping is a part of the address space.
type mapping struct{ from, to uintptr }

// constantMappings are the mappings of a file that cannot be written, from the text of /proc/self/maps.
func constantMappings(maps []byte, file string) []mapping {
	var found []mapping
	for lines := bufio.NewScanner(bytes.NewReader(maps)); lines.Scan(); {
		// 00400000-01a2b000 r-xp 00000000 fe:01 1234   /kruise-operator
		fields := strings.Fields(lines.Text())
		if len(fields) != 6 || fields[5] != file || !strings.HasPrefix(fields[1], "r-") {
			continue
		}
		first, last, _ := strings.Cut(fields[0], "-")
		from, errFrom := strconv.ParseUint(first, 16, 64)
		to, errTo := strconv.ParseUint(last, 16, 64)
		if errFrom == nil && errTo == nil && from < to {
			found = append(found, mapping{uintptr(from), uintptr(to)})
		}
	}
	return found
}
