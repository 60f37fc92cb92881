// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package metrics holds the operator's own metrics. Names begin with kruise_; labels come from small fixed sets,
// never from objects. Controller-runtime's and client-go's metrics (queues, reconciles, requests, leases) are
// served beside them.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics are the operator's own metrics.
type Metrics struct {
	// Actions counts actions on pods and claims, by workload kind, verb and result: ok, conflict, gone, refused or doubt.
	Actions *prometheus.CounterVec
	// Objects is how many objects there are, by kind, state and the reason for it.
	Objects *Scraped
	// Copies is how many copies ResourceDistributions have together, by state: desired, succeeded or failed.
	Copies *Scraped
	// Rollouts is how many Rollouts there are by state, RolloutsSince since when the longest is in it.
	Rollouts, RolloutsSince *Scraped
	// Releases counts the ends of releases by Rollouts, by result: Succeeded, Canceled, LetGo or TakenOver.
	Releases *prometheus.CounterVec
	// StaleViews counts passes waiting for the cache to show the workload's own writes, by kind.
	StaleViews *prometheus.CounterVec
	// TakeoverWaiting is 1 for the reason why no reconciler acts while OpenKruise is, or was, in charge, and 0 for the others.
	TakeoverWaiting *prometheus.GaugeVec
	// IsLeader is 1 while this replica leads. OpenKruise's name keeps dashboards working.
	IsLeader prometheus.Gauge
	// CronSkew is how many seconds after its time a run of an AdvancedCronJob was created.
	CronSkew prometheus.Histogram
	// CronLeftOut counts AdvancedCronJob runs left out because spec.startingDeadlineSeconds was over.
	CronLeftOut prometheus.Counter
	// LaunchWaiting counts ordered pods waiting for ready containers before starting others, by long wait or not.
	LaunchWaiting *Scraped
	// PodsHeld is how many pods are held out of service through the readiness gate KruisePodReady, by who does so: ContainerRecreateRequest, Lifecycle or
	// other.
	PodsHeld *Scraped
	// PodsHeldSince is since when the longest of these holds lasts, in seconds since 1970; 0 when there is none.
	PodsHeldSince *Scraped
	// SidecarStops counts writes stopping sidecars after their main containers, by method (request, phase or image)
	// and result (ok, conflict, gone, refused or doubt).
	SidecarStops *prometheus.CounterVec
	// SidecarLatency is the seconds from the end of a pod's main containers to the pod's, if sidecars had to be stopped.
	SidecarLatency prometheus.Histogram
	// SidecarSetInjection is how many SidecarSets there are, by reason and status of their condition InjectionPath.
	SidecarSetInjection *Scraped
	// SidecarSetPods is how many pods SidecarSets have together, by state: matched, updated, ready, updated_ready or without_sidecar.
	SidecarSetPods *Scraped
	// BudgetDenials counts operations on pods that PodUnavailableBudgets denied, by operation.
	BudgetDenials *prometheus.CounterVec
	// RecreateRequests counts ended ContainerRecreateRequests, by the reason of their condition Succeeded.
	RecreateRequests *prometheus.CounterVec
	// RecreateLatency is how many seconds after their creation they ended.
	RecreateLatency prometheus.Histogram
	// ImagePullAnswers counts how nodes have answered ImagePullJobs: by result (succeeded or failed).
	ImagePullAnswers *prometheus.CounterVec
	// ImagePullLatency is how many seconds after a node was asked its answer came.
	ImagePullLatency prometheus.Histogram
}

// New returns the metrics, registered with registerer.
func New(registerer prometheus.Registerer) *Metrics {
	all := &factory{promauto.With(registerer), registerer}
	return &Metrics{
		Objects: all.scraped("kruise_objects", "Objects by kind, state (Reconciling, Stalled or Settled) and the reason that their condition gives.",
			"kind", "state", "reason"),
		Copies: all.scraped("kruise_resourcedistribution_copies", "Copies of all ResourceDistributions together: desired, succeeded and failed, as in their statuses.",
			"state"),
		Rollouts: all.scraped("kruise_rollouts", "Rollouts by state: Step (pods are replaced), Approval (somebody has to approve), Pause, Ending (the workload gets its own strategy back) and Rest. Unguarded, beside these: it is not known whether the next change is held.",
			"state"),
		RolloutsSince: all.scraped("kruise_rollouts_since_seconds", "Since when the Rollout that is longest in a state is in it, in seconds since 1970; 0 without one. In Step, since its last new pod became ready.",
			"state"),
		Releases: all.counters("kruise_rollout_releases_total", "Releases by Rollouts that ended, by result: Succeeded, Canceled (the template was set back), LetGo (the Rollout was disabled or deleted) or TakenOver.",
			"result"),
		Actions: all.counters("kruise_podset_actions_total", "Actions that were carried out, by kind, verb (the step, such as Create) and result: ok, conflict (the object changed meanwhile), gone, refused, or doubt (unknown, and read from the server).",
			"kind", "verb", "result"),
		StaleViews: all.counters("kruise_podset_stale_views_total", "Reconciles that waited for the cache to show the operator's own writes for the workload.",
			"kind"),
		TakeoverWaiting: all.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kruise_takeover_waiting",
			Help: "1 while no reconciler acts, since OpenKruise's Lease cannot be read (LeaseUnknown) or is renewed (OpenKruiseRuns), or it left objects that no controller would manage (UnservedKinds).",
		}, []string{"reason"}),
		IsLeader: all.NewGauge(prometheus.GaugeOpts{Name: "kruise_manager_is_leader", Help: "1 while this replica leads, 0 otherwise."}),
		CronSkew: all.histogram("kruise_advancedcronjob_skew_seconds", "How many seconds after its time a run of an AdvancedCronJob was created; also of one that was started late, because the operator was away or another run was active.",
			.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 3600),
		CronLeftOut: all.NewCounter(prometheus.CounterOpts{
			Name: "kruise_advancedcronjob_left_out_total",
			Help: "Runs of AdvancedCronJobs that were left out because startingDeadlineSeconds was over; several runs that were missed together count once.",
		}),
		LaunchWaiting: all.scraped("kruise_launch_priority_waiting_pods", "Pods of which containers wait for others to be ready, by their launch priorities; long is true after two minutes.",
			"long"),
		PodsHeld: all.scraped("kruise_pods_held_not_ready", "Pods that are held out of service through the readiness gate KruisePodReady, by ContainerRecreateRequest, Lifecycle (hooks) or other. While the kind ContainerRecreateRequest is on.",
			"holder"),
		PodsHeldSince: all.scraped("kruise_pods_held_not_ready_since_seconds", "Since when the longest of these holds lasts, in seconds since 1970; 0 without one. A hold that nobody gives up shows in time() minus this.",
			"holder"),
		SidecarStops: all.counters("kruise_sidecar_terminator_stops_total", "Writes that stop sidecars of finished pods, by method (request: a ContainerRecreateRequest; phase: the pod got its phase; image: virtual nodes) and result, as of actions.",
			"method", "result"),
		SidecarLatency: all.histogram("kruise_sidecar_terminator_latency_seconds", "How many seconds after its last main container a pod ended whose sidecars had to be stopped.",
			.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900),
		SidecarSetInjection: all.scraped("kruise_sidecarset_injection", "SidecarSets, by reason and status of their condition InjectionPath.",
			"reason", "status"),
		SidecarSetPods: all.scraped("kruise_sidecarset_pods", "Pods of all SidecarSets together: matched, updated, ready, updated_ready, as in the statuses of the sets, and without_sidecar. A pod of two sets counts twice.",
			"state"),
		BudgetDenials: all.counters("kruise_podunavailablebudget_denials_total", "Requests that a PodUnavailableBudget denied, by operation: DELETE, EVICT, UPDATE or RESIZE. Workloads of the operator wait instead, and do not count.",
			"operation"),
		RecreateRequests: all.counters("kruise_recreate_requests_total", "ContainerRecreateRequests that have ended, by the reason of their condition Succeeded; Recreated is success.",
			"reason"),
		RecreateLatency: all.histogram("kruise_recreate_request_duration_seconds", "How many seconds after its creation a ContainerRecreateRequest ended.",
			.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 3600),
		ImagePullAnswers: all.counters("kruise_imagepulljob_nodes_total", "Answers of nodes to ImagePullJobs: succeeded or failed. An answer that came while no replica led is not counted.",
			"result"),
		ImagePullLatency: all.histogram("kruise_imagepulljob_node_duration_seconds", "Seconds between asking a node for an image and its answer, including the time in that node's queue.",
			.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600),
	}
}

// factory registers its metrics.
type factory struct {
	promauto.Factory
	registerer prometheus.Registerer
}

func (f *factory) counters(name, help string, labels ...string) *prometheus.CounterVec {
	return f.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func (f *factory) histogram(name, help string, buckets ...float64) prometheus.Histogram {
	return f.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
}

func (f *factory) scraped(name, help string, labels ...string) *Scraped {
	s := &Scraped{desc: prometheus.NewDesc(name, help, labels, nil)}
	f.registerer.MustRegister(s)
	return s
}
