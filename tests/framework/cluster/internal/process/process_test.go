// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestStopEndsAProgramThatIgnoresTheRequest(t *testing.T) {
	p := start(t, "trap '' TERM; echo ready; while true; do sleep 600; done")
	waitForLog(t, p, "ready")
	if err := p.Stop(50 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Done():
	default:
		t.Error("the program still runs")
	}
	if err := p.Stop(0); err != nil {
		t.Errorf("stopping again: %v", err)
	}
}

func TestStopLetsAProgramEndInOrder(t *testing.T) {
	p := start(t, "trap 'echo goodbye; exit 0' TERM; echo ready; while true; do sleep 0.01; done")
	waitForLog(t, p, "ready")
	if err := p.Stop(time.Minute); err != nil {
		t.Fatal(err)
	}
	if got := Tail(p.spec.LogFile); !strings.HasSuffix(got, "goodbye") {
		t.Errorf("the log ends with %q", got)
	}
}

func TestErrTellsHowAProgramEnded(t *testing.T) {
	p := start(t, "echo cannot go on >&2; exit 3")
	<-p.Done()
	got := p.Err().Error()
	for _, want := range []string{"script ended", "exit status 3", "cannot go on"} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in %q", want, got)
		}
	}
}

func TestEnvironmentIsMinimal(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://proxy.invalid")
	p := start(t, "env")
	<-p.Done()
	got := Tail(p.spec.LogFile)
	if strings.Contains(got, "HTTPS_PROXY") {
		t.Errorf("the caller's environment is passed on:\n%s", got)
	}
	for _, want := range []string{"GREETING=hello", MarkerVariable + "=" + p.spec.Marker} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in\n%s", want, got)
		}
	}
}

func start(t *testing.T, script string) *Process {
	t.Helper()
	dir := t.TempDir()
	p, err := Start(Spec{
		Name:    "script",
		Path:    "/bin/sh",
		Args:    []string{"-c", script},
		Env:     []string{"GREETING=hello"},
		Dir:     dir,
		Marker:  dir,
		LogFile: filepath.Join(dir, "log"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(0); err != nil {
			t.Error(err)
		}
	})
	return p
}

func waitForLog(t *testing.T, p *Process, want string) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		content, err := os.ReadFile(p.spec.LogFile)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(content), want) {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("no %q in the log: %q", want, content)
		case <-ticker.C:
		}
	}
}
