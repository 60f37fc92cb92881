// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package shared has the names that all versions of rollouts.kruise.io share.
package shared

// Labels, annotations and finalizers.
const (
	// LabelWorkloadType is on each workload with a Rollout. The brake is for workloads with it.
	LabelWorkloadType = "rollouts.kruise.io/workload-type"
	// AnnotationRollout names the Rollout of a workload. Without it nothing is braked.
	AnnotationRollout = "rollouts.kruise.io/rollout"
	// AnnotationInProgressing is on a workload in a release.
	AnnotationInProgressing = "rollouts.kruise.io/in-progressing"
	// AnnotationSequence rises with each write of the operator to a workload. The brake lets those pass.
	AnnotationSequence = "rollouts.kruise.io/control-sequence"
	// AnnotationControl has the owner of the numbers in a workload.
	AnnotationControl = "batchrelease.rollouts.kruise.io/control-info"
	// AnnotationOriginal has the numbers of the user while others stand in the workload. On a CloneSet it has those of pods beside old ones.
	AnnotationOriginal = "rollouts.kruise.io/original-deployment-strategy"
	// AnnotationScaleIn is on an autoscaler that is kept from taking pods: what stood there before.
	AnnotationScaleIn = "rollouts.kruise.io/original-scale-in"
	// AnnotationStable of a BatchRelease is the version before the release of a Rollout, whose pods all stay.
	AnnotationStable = "rollouts.kruise.io/stable-revision"
	// AnnotationAdvancedStrategy is OpenKruise's, on a Deployment that it has taken from Kubernetes: the numbers of its user.
	AnnotationAdvancedStrategy = "rollouts.kruise.io/deployment-strategy"
	// AnnotationAdvancedStatus is OpenKruise's, too.
	AnnotationAdvancedStatus = "rollouts.kruise.io/deployment-extra-status"
	// LabelCanary is on a canary Deployment: the name of the Deployment beside it.
	LabelCanary = "rollouts.kruise.io/canary-deployment"
	// LabelAdvanced is OpenKruise's, on the same Deployments.
	LabelAdvanced = "rollouts.kruise.io/controlled-by-advanced-deployment-controller"
	// RolloutID is a label of pods in a release, and a label or annotation of a workload; there the label wins.
	RolloutID = "rollouts.kruise.io/rollout-id"
	// LabelBatchID is on pods: the number of the batch that updated them, from 1.
	LabelBatchID = "rollouts.kruise.io/rollout-batch-id"
	// LabelNoNeedUpdate is on pods that had the version from before when a release goes back in batches.
	LabelNoNeedUpdate = "rollouts.kruise.io/no-need-update"
	// AnnotationRollingStyle of a Rollout in v1alpha1 says how pods are replaced.
	AnnotationRollingStyle = "rollouts.kruise.io/rolling-style"
	// AnnotationTrafficRouting of a Rollout names a TrafficRouting.
	AnnotationTrafficRouting = "rollouts.kruise.io/trafficrouting"
	// AnnotationRollbackInBatch of a Rollout lets a rollback go in batches.
	AnnotationRollbackInBatch = "rollouts.kruise.io/rollback-in-batch"
	// AnnotationHash of a Rollout stands for its plan.
	AnnotationHash = "rollouts.kruise.io/hash"
	// FinalizerRollout keeps a Rollout until its workload has its own strategy back.
	FinalizerRollout = "rollouts.kruise.io/rollout"
	// FinalizerCanary is OpenKruise's, on canary Deployments that it has made.
	FinalizerCanary = "finalizer.rollouts.kruise.io/batch-release"
	// FinalizerTrafficRouting keeps a TrafficRouting until routes are as before.
	FinalizerTrafficRouting = "rollouts.kruise.io/trafficrouting"
	// FinalizerInUse and the name of a Rollout say that its release uses a TrafficRouting.
	FinalizerInUse = "progressing.rollouts.kruise.io/"
	// FinalizerBatchRelease does the same for a BatchRelease.
	FinalizerBatchRelease = "rollouts.kruise.io/batch-release-finalizer"
)
