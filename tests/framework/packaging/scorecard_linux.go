// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/binaries"
)

// Scorecard runs the scorecard tests of the suites basic and olm named by the bundle's
// configuration. They look at the bundle alone. In a cluster each runs in a pod with the
// bundle at the top of its file system; here, in such a process.
func Scorecard(ctx context.Context, bundle string, progress io.Writer) error {
	program, err := program(ctx, binaries.ScorecardTest, progress)
	if err != nil {
		return err
	}
	root, err := os.MkdirTemp("", "kruise-operator-scorecard-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(root) }()
	if err := os.CopyFS(filepath.Join(root, "bundle"), os.DirFS(bundle)); err != nil {
		return fmt.Errorf("preparing the scorecard: %w", err)
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	if err := errors.Join(os.Mkdir(filepath.Join(root, "tmp"), 0o700), os.WriteFile(filepath.Join(root, "scorecard-test"), content, 0o700)); err != nil {
		return err
	}
	tests, err := ScorecardTests(bundle)
	if err != nil {
		return err
	}
	var failures []error
	for _, asked := range tests {
		test := asked.Entrypoint[1]
		if suite := asked.Labels["suite"]; suite != "basic" && suite != "olm" {
			continue
		}
		cmd := exec.CommandContext(ctx, "/scorecard-test", test)
		cmd.Dir = "/"
		cmd.Env = []string{"TMPDIR=/tmp"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
		if os.Geteuid() != 0 {
			// Without rights of its own, a process may change its root in a user namespace.
			cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
			cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
		}
		// Looked up here, inside the new root it is another file.
		cmd.Err = nil
		output, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("running scorecard test %s: %w\n%s", test, err, output)
		}
		if err := passed(output); err != nil {
			failures = append(failures, fmt.Errorf("scorecard test %s: %w", test, err))
			continue
		}
		if progress != nil {
			fmt.Fprintf(progress, "%s: pass\n", test)
		}
	}
	return errors.Join(failures...)
}

// passed reads a test's output. It ignores suggestions: the only one is a status in
// examples, not for users to write.
func passed(output []byte) error {
	status := struct {
		Results []struct {
			State  string   `json:"state"`
			Log    string   `json:"log"`
			Errors []string `json:"errors"`
		} `json:"results"`
	}{}
	if err := json.NewDecoder(bytes.NewReader(output)).Decode(&status); err != nil {
		return fmt.Errorf("reading its result: %w\n%s", err, output)
	}
	if len(status.Results) == 0 {
		return errors.New("no result")
	}
	for _, r := range status.Results {
		if r.State != "pass" || len(r.Errors) > 0 {
			return fmt.Errorf("%s: %s\n%s", r.State, strings.Join(r.Errors, "\n"), r.Log)
		}
	}
	return nil
}
