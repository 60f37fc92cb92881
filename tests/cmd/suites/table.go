// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"slices"
	"time"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/binaries"
)

// suite is a part of the tests, run, timed and reported as one.
type suite struct {
	name  string
	about string
	// packages are folders relative to the top of the repository, as patterns of the go command.
	packages []string
	// args go to `go test` before the packages.
	args []string
	// turns is in how many days each of its tests runs once; daily names those that run on all of them.
	turns int
	daily []string
	// timeout is for the whole suite; `go test` ends it with a stack dump.
	timeout time.Duration
	// budget is the time for all packages' tests on two cores of referenceSpeed, without
	// compiling. A slower suite is reported, and must be made faster: with twenty kinds,
	// each minute here is a minute of every change. Today's are for fifteen kinds.
	budget time.Duration
	// programs are its clusters' parts; the suite starts when they are built.
	programs []binaries.Name
	// onDemand suites run only when they are named.
	onDemand bool
}

// referenceSpeed is how long a slow machine encodes and decodes a pod. Budgets are for such a machine, and shrink in proportion on a faster one.
const referenceSpeed = 18 * time.Microsecond

// longest bounds a suite running all of its tests.
const longest = 6 * time.Hour

// fit turns the budgets into another machine's.
func fit(suites []suite, codec time.Duration) {
	for i := range suites {
		suites[i].budget = time.Duration(float64(suites[i].budget) * float64(codec) / float64(referenceSpeed))
	}
}

// allSuites are in starting order. The longest are early, so none runs alone at the end;
// suites without a cluster are first of all, while the clusters' programs are built.
func allSuites() []suite {
	// The packages of a suite with clusters run in sequence: two suites share the machine
	// already.
	serial := []string{"-p=1", "-count=1"}
	return []suite{
		{
			name: "unit", about: "tables and scenarios, no cluster",
			packages: []string{"api/...", "config/...", "controllers/...", "internal/...", ".", "tests/cmd/...", "tests/manifests", "tests/injection", "tests/framework/repository"},
			args:     []string{"-skip=^TestExplore"}, timeout: 20 * time.Minute, budget: 5 * time.Minute,
		},
		{
			name: "e2e", about: "flows, on a real control plane with simulated nodes",
			packages: []string{"tests/e2e/..."},
			// Flows mostly wait, so more of them run at once than there are cores.
			args: append(serial[:len(serial):len(serial)], "-parallel=6"), timeout: 40 * time.Minute, budget: 9 * time.Minute,
			turns: 6, daily: mainFlows(),
			programs: controlPlane(),
		},
		{
			name: "chaos", about: "what the operator sees and writes is perturbed: a sample, on a real control plane with simulated nodes",
			packages: []string{"tests/chaos"},
			args:     append(serial[:len(serial):len(serial)], "-v"), timeout: 15 * time.Minute, budget: 5 * time.Minute,
			programs: controlPlane(),
		},
		{
			name: "exploration", about: "every reachable state of small sets",
			packages: explored(),
			args:     []string{"-count=1", "-run=^TestExplore", "-v"}, timeout: 20 * time.Minute, budget: 4 * time.Minute,
		},
		{
			name: "integration", about: "wiring, against a real API server",
			packages: []string{"tests/integration/..."},
			// Its packages mostly wait for deadlines and faults to pass, so two run at once.
			args: []string{"-p=2", "-count=1", "-parallel=4"}, timeout: 30 * time.Minute, budget: 9 * time.Minute,
			turns: 4, daily: []string{"TestAdmission", "TestBatchesOfADeploymentWithTheRealController", "TestWorkloadsAreBraked", "TestServerInjectsAsTheReference"},
			programs: controlPlane(),
		},
		{
			name: "node", about: "what only a kubelet and a container runtime show",
			packages: []string{"tests/node", "tests/node/daemon", "tests/node/incluster"},
			args:     serial, timeout: 20 * time.Minute, budget: 5 * time.Minute,
			turns: 2, daily: []string{
				"TestDaemonIsUpdatedInPlace", "TestDebugContainers", "TestHotUpgradeServesAllTheTime", "TestIdleServersAreDeletedFirst",
				"TestImageUpdateKeepsPod", "TestInstall", "TestNoRequestIsLost", "TestRestartOfOneContainer", "TestSlowPrivateRegistry",
			},
			programs: append(controlPlane(), binaries.Kubelet),
		},
		{
			name: "traffic", about: "releases with traffic, through Traefik to real pods (not each day, as building Traefik takes minutes)",
			packages: []string{"tests/node/traffic"},
			args:     append(serial[:len(serial):len(serial)], "-v"), timeout: 30 * time.Minute, budget: 10 * time.Minute, onDemand: true,
			programs: append(controlPlane(), binaries.Kubelet, binaries.Traefik),
		},
		{
			name: "framework", about: "the local cluster and the simulated nodes themselves",
			packages: []string{"tests/framework/..."},
			args:     serial, timeout: 20 * time.Minute, budget: 2 * time.Minute,
			turns: 3, daily: []string{
				"TestEveryKindHasItsOwnPlace", "TestFullControlPlaneSchedulesAndCollects", "TestNodes", "TestPodLivesOnNode", "TestSafeUpgrade",
				"TestTheCommittedBundleFollowsTheReleases", "TestTheCommittedBundlePassesEveryValidator",
			},
			programs: append(controlPlane(), binaries.Kubelet, binaries.OPM, binaries.OperatorSDK),
		},
		{
			name: "olm", about: "install, upgrade and removal through the Operator Lifecycle Manager, without nodes",
			packages: []string{"tests/olm/..."},
			args:     serial, timeout: 15 * time.Minute, budget: 3 * time.Minute,
			programs: append(controlPlane(), binaries.OLM, binaries.OLMCatalog, binaries.OPM, binaries.OperatorSDK),
		},
		{
			name: "helm", about: "the chart, installed, changed and removed with Helm, without nodes",
			packages: []string{"tests/helm"},
			args:     serial, timeout: 10 * time.Minute, budget: 2 * time.Minute,
			programs: append(controlPlane(), binaries.Helm),
		},
		{
			name: "olm-node", about: "the operator's pods under the Operator Lifecycle Manager, on a real node",
			packages: []string{"tests/node/olm"},
			args:     append(serial[:len(serial):len(serial)], "-v"), timeout: 20 * time.Minute, budget: 10 * time.Minute, onDemand: true,
			programs: append(controlPlane(), binaries.Kubelet, binaries.OLM, binaries.OLMCatalog, binaries.OPM, binaries.OperatorSDK),
		},
	}
}

// explored are the packages with explorations: others would be linked for nothing.
func explored() []string {
	return []string{
		"controllers", "controllers/batchrelease/plan", "controllers/broadcastjob/plan", "controllers/cloneset/plan", "controllers/daemonset/plan",
		"controllers/ephemeraljob/plan", "controllers/imagelistpulljob/plan", "controllers/rollout/plan", "controllers/sidecarset/plan",
		"controllers/statefulset/plan", "controllers/trafficrouting/plan", "internal/engine/disruption", "internal/engine/probing",
		"internal/engine/restart", "internal/engine/rolling", "internal/engine/subset", "internal/engine/traffic",
	}
}

// mainFlows are the flows that run daily: one or more of each kind.
func mainFlows() []string {
	return []string{
		"TestADrainWaitsForTheBudget", "TestADeploymentIsSpread", "TestARolloutReleasesInSteps", "TestARolloutRoutesRequests",
		"TestBroadcastJobCompletesAndGoes", "TestCloneSetExamples", "TestContainersAreRestartedInPlace",
		"TestDocumentedManifests", "TestEveryKindOfWorkload", "TestGuestbook", "TestKilledAnywhere",
		"TestPersistentPodStateKeepsPodsInTheirZones", "TestPodsOfTheSameApplyHaveTheirSidecars", "TestSamples", "TestScorecard",
		"TestStartAndUpdateInPlace", "TestTakeover", "TestWorkloadsMoveInBatches",
	}
}

func controlPlane() []binaries.Name {
	return []binaries.Name{
		binaries.Etcd, binaries.KubeAPIServer, binaries.KubeControllerManager, binaries.KubeScheduler, binaries.Kubectl,
	}
}

// notSuites are the tests outside of suites, and their commands.
func notSuites(all bool) []string {
	not := []string{
		"scorecard in pods: make scorecard",
		"all that chaos can try, not a sample: make test-chaos",
		"benchmark: make bench",
	}
	if !all {
		not = append(not, "all of the long tests, not today's part: make test-all")
	}
	return not
}

// programsOf are the suites' programs, in the order of need.
func programsOf(suites []suite) []binaries.Name {
	var all []binaries.Name
	for _, s := range suites {
		for _, name := range s.programs {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}
