// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package traffic_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

// pictureVariable names the file for a picture of the page's run.
const pictureVariable = "CANARY_PICTURE"

// The page, command by command, while requests go on.
func TestThePage(t *testing.T) {
	n, port := onGateway(t)
	r := &released{Namespace: n, t: t, visitor: newVisitor(port, "shop.example.com")}
	r.follow()
	terminal := r.terminal()
	var stop func() []answer
	var marks []state
	for _, b := range blocks(t, "../../../docs/tasks/canary-with-traffic.md") {
		if b.kind == "yaml" {
			r.run(terminal, "kubectl apply -f -", strings.ReplaceAll(b.text, "port: 8000", fmt.Sprintf("port: %d", port)))
			r.EventuallyWithin(2*time.Minute, "the shop answers", func(ctx context.Context) error {
				_, err := r.visitor.version(ctx, "")
				return err
			})
			r.before = r.network()
			stop = r.visitor.keepAsking(t)
			continue
		}
		for command := range strings.SplitSeq(strings.TrimSpace(b.text), "\n") {
			marks = append(marks, state{time.Now(), command})
			r.run(terminal, command, "")
		}
	}
	r.rests("v2")
	answers := stop()
	r.lost(answers)
	if file := os.Getenv(pictureVariable); file != "" && !t.Failed() {
		if err := os.WriteFile(file, []byte(picture(answers, marks)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// block is a fenced one of a page.
type block struct{ kind, text string }

// blocks are those with manifests and commands, in the order of the page.
func blocks(t *testing.T, page string) (all []block) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for rest := string(text); ; {
		_, fenced, found := strings.Cut(rest, "\n```")
		if !found {
			break
		}
		kind, body, _ := strings.Cut(fenced, "\n")
		body, rest, _ = strings.Cut(body, "\n```")
		if kind == "yaml" || kind == "sh" {
			all = append(all, block{kind, body + "\n"})
		}
	}
	if len(all) < 2 || all[0].kind != "yaml" {
		t.Fatalf("%s has %d blocks", page, len(all))
	}
	return all
}

// terminal is where commands of a page run: with a kubectl that is in the namespace of the test.
func (r *released) terminal() []string {
	r.t.Helper()
	config, err := clientcmd.LoadFromFile(r.Cluster.AdminKubeconfig())
	if err != nil {
		r.t.Fatal(err)
	}
	config.Contexts[config.CurrentContext].Namespace = r.Name
	file := filepath.Join(r.t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		r.t.Fatal(err)
	}
	programs := filepath.Dir(r.Cluster.Kubectl(r.t.Context()).Path)
	return append(os.Environ(), "KUBECONFIG="+file, "PATH="+programs+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// run runs a command of the page, with an input.
func (r *released) run(terminal []string, command, input string) {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), "sh", "-c", command)
	cmd.Env, cmd.Stdin = terminal, strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if r.t.Logf("$ %s\n%s", command, out); err != nil {
		r.t.Fatal(err)
	}
}
