// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Command bench measures what the operator costs and how near it comes to the limit of the machine. Beside each figure stands what
// a bare client needs that does the same minimum of writes in the same run.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
	"github.com/kruise-operator/kruise-operator/tests/framework/repository"
)

type options struct {
	kinds, scenarios                              []string
	pods, clones, recreated, sets, large, foreign int
	subsets, subsetPods                           int
	nodes, schedules, requests, probed            int
	sidecarPods, creations, selecting             int
	ways                                          []string
	heartbeats                                    bool
	runs                                          int
	idle                                          time.Duration
	unavailable, surge                            int      // percent
	args                                          []string // of the operator
	json                                          string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctrl.SetLogger(logr.Discard()) // what clients of this program log is no figure
	var o options
	cmd := &cobra.Command{
		Use:           "bench",
		Short:         "Measure the operator beside the raw limit of this machine",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return bench(cmd.Context(), o) },
	}
	cmd.Flags().StringSliceVar(&o.kinds, "kinds", []string{statefulSet.kind, cloneSet.kind, unitedDeployment.kind}, "which kinds are measured; DaemonSet, BroadcastJob, AdvancedCronJob, ImagePullJob, ContainerRecreateRequest, PodProbeMarker, NodeDaemon and SidecarSet only when they are named")
	cmd.Flags().StringSliceVar(&o.scenarios, "scenarios", scenarioNames, "which scenarios of these kinds are measured")
	cmd.Flags().IntVar(&o.pods, "pods", 1000, "how many pods the StatefulSet has")
	cmd.Flags().IntVar(&o.clones, "clones", 2000, "how many pods the CloneSet has, and many small CloneSets together")
	cmd.Flags().IntVar(&o.recreated, "recreated", 500, "how many pods the CloneSet has whose pods are replaced")
	cmd.Flags().IntVar(&o.sets, "sets", 200, "how many small CloneSets there are")
	cmd.Flags().IntVar(&o.subsets, "subsets", 50, "how many subsets the UnitedDeployment has")
	cmd.Flags().IntVar(&o.subsetPods, "subset-pods", 20, "how many pods each of its subsets has")
	cmd.Flags().IntVar(&o.nodes, "nodes", 500, "how many nodes a DaemonSet, a BroadcastJob and an ImagePullJob have")
	cmd.Flags().BoolVar(&o.heartbeats, "heartbeats", true, "whether nodes renew their leases; without, nobody looks whether they are alive, which 5000 nodes on a small machine need")
	cmd.Flags().IntVar(&o.schedules, "schedules", 1000, "how many AdvancedCronJobs are due in the same minute")
	cmd.Flags().IntVar(&o.requests, "requests", 200, "how many ContainerRecreateRequests are made at once")
	cmd.Flags().IntVar(&o.probed, "probed", 1000, "how many pods the PodProbeMarker has probed")
	cmd.Flags().IntVar(&o.sidecarPods, "sidecar-pods", 1000, "how many pods have the sidecar of the SidecarSet")
	cmd.Flags().IntVar(&o.creations, "creations", 300, "how many pods are created one after the other, and again at once, where the creation of pods is measured")
	cmd.Flags().StringSliceVar(&o.ways, "ways", []string{"Policy", "Webhook"}, "by which ways of injection the creation of pods is measured")
	cmd.Flags().IntVar(&o.selecting, "selecting", 20, "how many SidecarSets select one pod at most where the creation of pods is measured")
	cmd.Flags().IntVar(&o.large, "large", 5000, "to how many pods the CloneSet grows before restart and rest are measured")
	cmd.Flags().IntVar(&o.foreign, "foreign", 5000, "how many pods of others there are while the memory beside them is measured")
	cmd.Flags().IntVar(&o.runs, "runs", 3, "how often start and update are measured; medians are reported")
	cmd.Flags().DurationVar(&o.idle, "idle", 60*time.Second, "how long the operator is watched at rest")
	cmd.Flags().IntVar(&o.unavailable, "max-unavailable", 20, "percentage of pods updated in place at a time")
	cmd.Flags().IntVar(&o.surge, "max-surge", 25, "percentage of pods that may be more while pods are replaced")
	cmd.Flags().StringArrayVar(&o.args, "operator-arg", nil, "argument added to the operator's command line, for instance --pprof-bind-address=127.0.0.1:6060; may be repeated")
	cmd.Flags().StringVar(&o.json, "json", "", "file to write the results to as JSON; - is standard output")
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// figure is what one scenario came to; medians over the runs.
type figure struct {
	Kind     string `json:"kind"`
	Scenario string `json:"scenario"`
	Pods     int    `json:"pods"`
	Runs     int    `json:"runs"`
	// Seconds until the goal of the scenario, all pods ready where it has pods to wait for.
	Seconds float64 `json:"seconds"`
	// ExistSeconds is until all pods exist.
	ExistSeconds float64 `json:"existSeconds,omitempty"`
	// RawSeconds and RawExistSeconds are the bare client's.
	RawSeconds      float64 `json:"rawSeconds,omitempty"`
	RawExistSeconds float64 `json:"rawExistSeconds,omitempty"`
	Ratio           float64 `json:"ratio,omitempty"`
	// Ratios are those of all runs, the lowest first. The speed of a machine can change within minutes by more than what is looked for: they show how
	// much a median of few runs can be trusted.
	Ratios []float64 `json:"ratios,omitempty"`
	// Tail is the time that the second half of the pods took, by that of the first half. The bare client's stands beside it.
	Tail    float64 `json:"tail,omitempty"`
	RawTail float64 `json:"rawTail,omitempty"`
	// Writes are the operator's, counted at the server, Events and the lease left out.
	Writes       int     `json:"writes"`
	WritesPerPod float64 `json:"writesPerPod"`
	Conflicts    int     `json:"conflicts"`
	CPUMillisPod float64 `json:"cpuMillisecondsPerPod"`
	// CodecMicros is what encoding and decoding one small pod cost meanwhile, in microseconds of processor time: see package speed. CPU figures compare in
	// proportion to it.
	CodecMicros float64 `json:"codecMicroseconds,omitempty"`
	// PeakRSSMiB is the highest resident set size of the process so far.
	PeakRSSMiB float64        `json:"peakRSSMiB"`
	Requests   map[string]int `json:"requests"`
	Note       string         `json:"note,omitempty"`
}

func bench(ctx context.Context, o options) error {
	for _, way := range o.ways {
		if way != "Policy" && way != "Webhook" {
			return fmt.Errorf("--ways: %q is neither Policy nor Webhook", way)
		}
	}
	if err := repository.EnterRoot(); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "starting the control plane")
	clusterOptions, nodeOptions := cluster.Options{Audit: &cluster.Audit{}, Progress: os.Stderr}, simnode.Options{Nodes: 20}
	if !o.heartbeats {
		clusterOptions.Flags = map[string][]string{cluster.ControllerManager: {"--controllers=*,-node-lifecycle-controller"}}
		nodeOptions.LeaseDuration = 24 * time.Hour
	}
	c, err := cluster.Start(ctx, clusterOptions)
	if err != nil {
		return err
	}
	defer func() { _ = c.Stop() }()
	nodes, err := simnode.Start(ctx, c.Config(), nodeOptions)
	if err != nil {
		return err
	}
	defer nodes.Stop()
	op, err := operator.Start(ctx, c, operator.Options{LeaderElect: true, Args: o.args})
	if err != nil {
		return err
	}
	b := &run{options: o, cluster: c, operator: op, nodes: nodes}
	if err := b.connect(); err != nil {
		return err
	}
	figures, err := b.all(ctx)
	if len(figures) > 0 {
		report(os.Stdout, figures)
		if err := writeJSON(o.json, figures); err != nil {
			return err
		}
	}
	return err
}

func report(w io.Writer, figures []figure) {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.AppendHeader(table.Row{"kind", "scenario", "pods", "seconds", "raw", "ratio", "tail", "raw tail", "writes/pod", "409 %", "CPU ms/pod", "codec us", "peak RSS MiB", "note"})
	for _, f := range figures {
		row := table.Row{f.Kind, f.Scenario, f.Pods, fmt.Sprintf("%.2f", f.Seconds), "", "", "", "", fmt.Sprintf("%.3f", f.WritesPerPod), "", fmt.Sprintf("%.2f", f.CPUMillisPod), "", fmt.Sprintf("%.0f", f.PeakRSSMiB), f.Note}
		if f.RawSeconds > 0 {
			row[4], row[5] = fmt.Sprintf("%.2f", f.RawSeconds), fmt.Sprintf("%.2f", f.Ratio)
			if n := len(f.Ratios); n > 1 {
				row[5] = fmt.Sprintf("%.2f (%.2f to %.2f)", f.Ratio, f.Ratios[0], f.Ratios[n-1])
			}
		}
		if f.Tail > 0 {
			row[6], row[7] = fmt.Sprintf("%.2f", f.Tail), fmt.Sprintf("%.2f", f.RawTail)
		}
		if f.Writes > 0 {
			row[9] = fmt.Sprintf("%.2f", 100*float64(f.Conflicts)/float64(f.Writes))
		}
		if f.CodecMicros > 0 {
			row[11] = fmt.Sprintf("%.1f", f.CodecMicros)
		}
		t.AppendRow(row)
	}
	_, _ = fmt.Fprintln(w, t.Render())
	for _, f := range figures {
		if len(f.Requests) == 0 {
			continue
		}
		_, _ = fmt.Fprintf(w, "%s, %s, requests of the operator in the median run:\n", f.Kind, f.Scenario)
		var lines []string
		for name, n := range f.Requests {
			lines = append(lines, fmt.Sprintf("  %s: %d", name, n))
		}
		slices.Sort(lines)
		_, _ = fmt.Fprintln(w, strings.Join(lines, "\n"))
	}
}

func writeJSON(path string, figures []figure) error {
	if path == "" {
		return nil
	}
	body, err := json.MarshalIndent(figures, "", "  ")
	if err != nil {
		return err
	}
	body = append(body, '\n')
	if path == "-" {
		_, err = os.Stdout.Write(body)
		return err
	}
	return os.WriteFile(path, body, 0o644)
}

// podTemplate is the pod that both the operator's sets and the bare client create.
func podTemplate(app, image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{
			ReadinessGates: []corev1.PodReadinessGate{{ConditionType: "InPlaceUpdateReady"}, {ConditionType: "KruisePodReady"}},
			Containers:     []corev1.Container{{Name: "main", Image: image}},
		},
	}
}
