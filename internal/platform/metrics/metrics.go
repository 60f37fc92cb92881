// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package metrics holds the operator's own metrics. Names begin with kruise_; labels come from small fixed sets, never from
// objects. What controller-runtime and client-go measure (queues, reconciles, requests, leases) is served beside them.
package metrics

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the operator's own metrics.
type Metrics struct {
	// Actions counts what was done to pods and claims: by kind of workload, verb of the action, and result: ok, conflict, gone,
	// refused or doubt.
	Actions *prometheus.CounterVec
	// Objects is how many objects there are, by kind, state and the reason for it.
	Objects *Objects
	// StaleViews counts the passes that waited because the cache had not caught up with the workload's own writes, by kind.
	StaleViews *prometheus.CounterVec
	// TakeoverWaiting is 1 for the reason why no reconciler acts while OpenKruise is, or was, in charge, and 0 for the others.
	TakeoverWaiting *prometheus.GaugeVec
	// IsLeader is 1 while this replica leads. It has the name that OpenKruise gave it, for the sake of dashboards.
	IsLeader prometheus.Gauge
	// CronSkew is how many seconds after its time a run of an AdvancedCronJob was created.
	CronSkew prometheus.Histogram
	// CronLeftOut counts the runs of AdvancedCronJobs that were left out because spec.startingDeadlineSeconds was over.
	CronLeftOut prometheus.Counter
	// LaunchWaiting is how many ordered pods wait until containers are ready before others start, by whether they have done so for long.
	LaunchWaiting *prometheus.GaugeVec
	// PodsHeld is how many pods are held out of service through the readiness gate KruisePodReady, by who does so: ContainerRecreateRequest, Lifecycle or
	// other.
	PodsHeld *prometheus.GaugeVec
	// PodsHeldSince is since when the longest of these holds lasts, in seconds since 1970; 0 when there is none.
	PodsHeldSince *prometheus.GaugeVec
	// SidecarStops counts the writes that stop sidecars of pods whose main containers are done: by method (request, phase or image) and
	// result (ok, conflict, gone, refused or doubt).
	SidecarStops *prometheus.CounterVec
	// SidecarLatency is how many seconds after its main containers a pod ended whose sidecars had to be stopped.
	SidecarLatency prometheus.Histogram
	// SidecarSetInjection is how many SidecarSets there are, by reason and status of their condition InjectionPath.
	SidecarSetInjection *prometheus.GaugeVec
	// SidecarSetPods is how many pods SidecarSets have together, by state: matched, updated, ready, updated_ready or without_sidecar.
	SidecarSetPods *prometheus.GaugeVec
	// RecreateRequests counts the ContainerRecreateRequests that have ended, by the reason of their condition Succeeded.
	RecreateRequests *prometheus.CounterVec
	// RecreateLatency is how many seconds after their creation they ended.
	RecreateLatency prometheus.Histogram
	// ImagePullAnswers counts how nodes have answered ImagePullJobs: by result (succeeded or failed).
	ImagePullAnswers *prometheus.CounterVec
	// ImagePullLatency is how many seconds after a node was asked its answer came.
	ImagePullLatency prometheus.Histogram
}

// New returns the metrics, registered with registerer.
func New(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		Objects: newObjects(),
		Actions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kruise_podset_actions_total",
			Help: "Actions that were carried out, by kind, verb (the step, such as Create) and result: ok, conflict (the object changed meanwhile), gone, refused, or doubt (unknown, and read from the server).",
		}, []string{"kind", "verb", "result"}),
		StaleViews: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kruise_podset_stale_views_total",
			Help: "Reconciles that waited for the cache to show the operator's own writes for the workload.",
		}, []string{"kind"}),
		TakeoverWaiting: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kruise_takeover_waiting",
			Help: "1 while no reconciler acts, since OpenKruise's Lease cannot be read (LeaseUnknown) or is renewed (OpenKruiseRuns), or it left objects that no controller would manage (UnservedKinds).",
		}, []string{"reason"}),
		IsLeader: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "kruise_manager_is_leader",
			Help: "1 while this replica leads, 0 otherwise.",
		}),
		CronSkew: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "kruise_advancedcronjob_skew_seconds",
			Help:    "How many seconds after its time a run of an AdvancedCronJob was created; also of one that was started late, because the operator was away or another run was active.",
			Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 3600},
		}),
		CronLeftOut: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "kruise_advancedcronjob_left_out_total",
			Help: "Runs of AdvancedCronJobs that were left out because startingDeadlineSeconds was over; several runs that were missed together count once.",
		}),
		LaunchWaiting: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kruise_launch_priority_waiting_pods",
			Help: "Pods of which containers wait for others to be ready, by their launch priorities; long is true after two minutes.",
		}, []string{"long"}),
		PodsHeld: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kruise_pods_held_not_ready",
			Help: "Pods that are held out of service through the readiness gate KruisePodReady, by ContainerRecreateRequest, Lifecycle (hooks) or other. While the kind ContainerRecreateRequest is on.",
		}, []string{"holder"}),
		PodsHeldSince: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kruise_pods_held_not_ready_since_seconds",
			Help: "Since when the longest of these holds lasts, in seconds since 1970; 0 without one. A hold that nobody gives up shows in time() minus this.",
		}, []string{"holder"}),
		SidecarStops: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kruise_sidecar_terminator_stops_total",
			Help: "Writes that stop sidecars of finished pods, by method (request: a ContainerRecreateRequest; phase: the pod got its phase; image: virtual nodes) and result, as of actions.",
		}, []string{"method", "result"}),
		SidecarLatency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "kruise_sidecar_terminator_latency_seconds",
			Help:    "How many seconds after its last main container a pod ended whose sidecars had to be stopped.",
			Buckets: []float64{.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900},
		}),
		SidecarSetInjection: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kruise_sidecarset_injection",
			Help: "SidecarSets, by reason and status of their condition InjectionPath. A set that is paused by annotation counts as before, and not at all after a restart of the operator.",
		}, []string{"reason", "status"}),
		SidecarSetPods: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kruise_sidecarset_pods",
			Help: "Pods of all SidecarSets together: matched, updated, ready, updated_ready, as in the statuses of the sets, and without_sidecar. A pod of two sets counts twice.",
		}, []string{"state"}),
		RecreateRequests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kruise_recreate_requests_total",
			Help: "ContainerRecreateRequests that have ended, by the reason of their condition Succeeded; Recreated is success.",
		}, []string{"reason"}),
		RecreateLatency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "kruise_recreate_request_duration_seconds",
			Help:    "How many seconds after its creation a ContainerRecreateRequest ended.",
			Buckets: []float64{.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 3600},
		}),
		ImagePullAnswers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kruise_imagepulljob_nodes_total",
			Help: "Answers of nodes to ImagePullJobs: succeeded or failed. An answer that came while no replica led is not counted.",
		}, []string{"result"}),
		ImagePullLatency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "kruise_imagepulljob_node_duration_seconds",
			Help:    "Seconds between asking a node for an image and its answer, including the time in that node's queue.",
			Buckets: []float64{.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600},
		}),
	}
	for _, collector := range []prometheus.Collector{
		m.Actions, m.Objects, m.StaleViews, m.TakeoverWaiting, m.IsLeader, m.CronSkew, m.CronLeftOut, m.LaunchWaiting, m.SidecarStops, m.SidecarLatency,
		m.PodsHeld, m.PodsHeldSince, m.SidecarSetInjection, m.SidecarSetPods,
		m.RecreateRequests, m.RecreateLatency, m.ImagePullAnswers, m.ImagePullLatency,
	} {
		if err := registerer.Register(collector); err != nil {
			return nil, fmt.Errorf("registering metrics: %w", err)
		}
	}
	return m, nil
}
