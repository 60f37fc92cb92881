// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// shown is the live table's number of pods, changing ones first.
const shown = 12

// follow shows progress until n pods are ready with the image, and returns the time.
func (d *demonstration) follow(ctx context.Context, title string, n int, image string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	began := time.Now()
	live := term.IsTerminal(int(os.Stdout.Fd()))
	interval := time.Second
	if live {
		interval = 200 * time.Millisecond
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	lines := 0
	for {
		pods, err := d.pods.List(labels.Everything())
		if err != nil {
			return 0, err
		}
		p := progressOf(pods, image)
		headline := fmt.Sprintf("%s: %d of %d exist, %d at %s, %d ready, %d restarts, %.0f s",
			title, p.exist, n, p.updated, image, p.ready, p.restarts, time.Since(began).Seconds())
		if live {
			lines = repaint(os.Stdout, lines, headline, pods)
		} else {
			fmt.Println(headline)
		}
		if p.exist == n && p.updated == n && p.ready == n {
			return time.Since(began), nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return 0, fmt.Errorf("%s: not reached in 10 minutes: %s", title, headline)
			}
			return 0, ctx.Err()
		}
	}
}

type progress struct{ exist, updated, ready, restarts int }

func progressOf(pods []*corev1.Pod, image string) progress {
	var p progress
	for _, pod := range pods {
		p.exist++
		if pod.Spec.Containers[0].Image == image {
			p.updated++
		}
		if podstate.Ready(pod) {
			p.ready++
		}
		p.restarts += restarts(pod)
	}
	return p
}

func restarts(pod *corev1.Pod) int {
	n := 0
	for i := range pod.Status.ContainerStatuses {
		n += int(pod.Status.ContainerStatuses[i].RestartCount)
	}
	return n
}

// repaint replaces the last table on the terminal by a new one and returns how many lines it has.
func repaint(w io.Writer, previous int, headline string, pods []*corev1.Pod) int {
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		if x, y := podstate.Ready(a), podstate.Ready(b); x != y {
			if x {
				return 1
			}
			return -1
		}
		return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.AppendHeader(table.Row{"pod", "revision", "image", "restarts", "ready", "state", "address"})
	for _, pod := range pods[:min(shown, len(pods))] {
		revision := pod.Labels[shared.LabelControllerRevisionHash]
		t.AppendRow(table.Row{
			pod.Name, revision[strings.LastIndex(revision, "-")+1:], pod.Spec.Containers[0].Image, restarts(pod),
			podstate.Ready(pod), pod.Labels[shared.LabelLifecycleState], pod.Status.PodIP,
		})
	}
	if more := len(pods) - shown; more > 0 {
		t.AppendFooter(table.Row{fmt.Sprintf("and %d more", more)})
	}
	out := headline + "\n" + t.Render()
	if previous > 0 {
		_, _ = fmt.Fprint(w, text.CursorUp.Sprintn(previous)+text.EraseLine.Sprint())
	}
	for line := range strings.Lines(out + "\n") {
		_, _ = fmt.Fprint(w, text.EraseLine.Sprint()+line)
	}
	return strings.Count(out, "\n") + 1
}

// identity is kept by a pod, beside its restarts.
type identity struct {
	uid      types.UID
	ip, node string
	image    string
	restarts int
}

func (d *demonstration) identities() (map[string]identity, error) {
	pods, err := d.pods.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	all := make(map[string]identity, len(pods))
	for _, pod := range pods {
		all[pod.Name] = identity{uid: pod.UID, ip: pod.Status.PodIP, node: pod.Spec.NodeName, image: pod.Spec.Containers[0].Image, restarts: restarts(pod)}
	}
	return all, nil
}

// compare prints the rollout's changes. A pod's lost identity is an error.
func compare(w io.Writer, before, after map[string]identity, took time.Duration) error {
	var kept struct{ names, uids, ips, nodes, images, restarted int }
	for name, old := range before {
		now, exists := after[name]
		if !exists {
			continue
		}
		kept.names++
		for _, check := range []struct {
			same  bool
			count *int
		}{
			{now.uid == old.uid, &kept.uids}, {now.ip == old.ip, &kept.ips}, {now.node == old.node, &kept.nodes},
			{now.image != old.image, &kept.images}, {now.restarts == old.restarts+1, &kept.restarted},
		} {
			if check.same {
				*check.count++
			}
		}
	}
	n := len(before)
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.AppendHeader(table.Row{"of " + fmt.Sprint(n) + " pods", "before and after"})
	t.AppendRows([]table.Row{
		{"same name", kept.names}, {"same UID", kept.uids}, {"same address", kept.ips}, {"same node", kept.nodes},
		{"new image", kept.images}, {"restarted once", kept.restarted},
	})
	_, _ = fmt.Fprintf(w, "\nRolled in place in %.1f s:\n%s\n", took.Seconds(), t.Render())
	for _, count := range []int{len(after), kept.names, kept.uids, kept.ips, kept.nodes, kept.images, kept.restarted} {
		if count != n {
			return fmt.Errorf("some of the %d pods did not keep their identity or were not updated exactly once", n)
		}
	}
	return nil
}
