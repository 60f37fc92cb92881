// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package resident

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"testing"
)

// A mapping that can be written has pages that are nowhere else: giving these back would lose them.
func TestOnlyConstantMappingsOfTheProgramAreGivenBack(t *testing.T) {
	const maps = `00400000-01a2b000 r-xp 00000000 fe:01 1234   /kruise-operator
01a2b000-03000000 r--p 0162b000 fe:01 1234   /kruise-operator
03000000-03100000 rw-p 02c00000 fe:01 1234   /kruise-operator
03100000-03140000 rw-p 00000000 00:00 0
7f0000000000-7f0000001000 r-xp 00000000 fe:01 99   /other
7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0   [vdso]
`
	want := []mapping{{0x400000, 0x1a2b000}, {0x1a2b000, 0x3000000}}
	if got := constantMappings([]byte(maps), "/kruise-operator"); !slices.Equal(got, want) {
		t.Errorf("mappings %x, want %x", got, want)
	}
}

// The pages of the program's file are given back, and the program goes on.
func TestPagesOfTheStartAreGivenBack(t *testing.T) {
	before := resident(t)
	if err := ReleaseMemory(); err != nil {
		t.Fatal(err)
	}
	if after := resident(t); after >= before-before/4 {
		t.Errorf("%d KiB of files were resident, and %d are", before, after)
	}
}

// resident is how much of files is resident, in KiB.
func resident(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	kib := 0
	if _, rest, found := bytes.Cut(status, []byte("RssFile:")); found {
		_, err = fmt.Sscan(string(rest), &kib)
	}
	if err != nil || kib == 0 {
		t.Fatalf("the kernel does not tell what is resident of files (%v)", err)
	}
	return kib
}
