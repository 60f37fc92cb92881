// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import appsv1 "k8s.io/api/apps/v1"

// Condition types of a StatefulSet.
const (
	// StatefulSetFailedCreatePod is present and True while the server refuses to create a pod, a volume claim or the revision of the
	// template.
	StatefulSetFailedCreatePod appsv1.StatefulSetConditionType = "FailedCreatePod"
	// StatefulSetFailedUpdatePod is present and True while a pod or a volume claim cannot be changed or deleted, also by its node.
	StatefulSetFailedUpdatePod appsv1.StatefulSetConditionType = "FailedUpdatePod"
	// StatefulSetAvailable is True while no more pods are unavailable than updateStrategy.rollingUpdate.maxUnavailable allows, and
	// at least one is available.
	StatefulSetAvailable appsv1.StatefulSetConditionType = "Available"
	// StatefulSetProgressing is True while pods are being created, updated or deleted or become available. Otherwise its reason
	// says why nothing moves. A CloneSet has it only with progressDeadlineSeconds; there False means that the deadline is over.
	StatefulSetProgressing appsv1.StatefulSetConditionType = "Progressing"
	// StatefulSetReconciling is True while pods are being created, updated or deleted or become available. Otherwise its reason says
	// why nothing moves. Tools that wait for an object look at it and at Stalled.
	StatefulSetReconciling appsv1.StatefulSetConditionType = "Reconciling"
	// StatefulSetStalled is True when nothing can move until the user changes something, or a pod will hardly become ready by itself.
	StatefulSetStalled appsv1.StatefulSetConditionType = "Stalled"
	// StatefulSetTemplateInvalid is present and True while the server finds faults in the pod template; the message lists them. The template is
	// checked when it changes. Pods can be created all the same only if something corrects them at admission.
	StatefulSetTemplateInvalid appsv1.StatefulSetConditionType = "TemplateInvalid"
	// StatefulSetFieldsIgnored is present and True while the set asks for something that has no effect: its feature gate is off, or
	// this version cannot do it.
	StatefulSetFieldsIgnored appsv1.StatefulSetConditionType = "FieldsIgnored"
	// StatefulSetImagePreDownload is present during a rollout while the feature gate PreDownloadImageForInPlaceUpdate is on. It is True while
	// images are pulled ahead of the update; otherwise its reason says why they are not. The rollout does not depend on it.
	StatefulSetImagePreDownload appsv1.StatefulSetConditionType = "ImagePreDownload"
	// StatefulSetPodsWithoutReadinessGate is present and True while updates are made in place and some pods have no readiness gate
	// InPlaceUpdateReady: they stay in service meanwhile. The message counts them.
	StatefulSetPodsWithoutReadinessGate appsv1.StatefulSetConditionType = "PodsWithoutReadinessGate"
	// StatefulSetPodsHeldNotReady is present and True while others hold pods out of service through the readiness gate KruisePodReady. The message
	// names them.
	StatefulSetPodsHeldNotReady appsv1.StatefulSetConditionType = "PodsHeldNotReady"
)

// Reasons of the conditions of a StatefulSet.
const (
	// ReasonComplete: every pod is at the update revision and available.
	ReasonComplete = "Complete"
	// ReasonScaling: pods are missing, or there are pods whose ordinal is not wanted.
	ReasonScaling = "Scaling"
	// ReasonRollingOut: pods are being moved to the update revision, or replaced because their user asked for it.
	ReasonRollingOut = "RollingOut"
	// ReasonPodsNotAvailable: every pod is where it should be, and some are not available yet.
	ReasonPodsNotAvailable = "PodsNotAvailable"
	// ReasonPartitionReached: all pods that the partition does not keep are at the update revision.
	ReasonPartitionReached = "PartitionReached"
	// ReasonPaused: pods are not at the update revision, and updates are paused.
	ReasonPaused = "Paused"
	// ReasonOnDelete: pods are not at the update revision and move only when their user deletes them.
	ReasonOnDelete = "OnDelete"
	// ReasonDeleting: the set is being deleted.
	ReasonDeleting = "Deleting"
	// ReasonInvalidSpec: a field of the spec cannot be read, so nothing is done.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonInPlaceImpossible: podUpdatePolicy is InPlaceOnly, and the update cannot be made in place.
	ReasonInPlaceImpossible = "InPlaceImpossible"
	// ReasonInPlaceBlocked: updates in place have begun and cannot go on by themselves; the message says what they wait for.
	ReasonInPlaceBlocked = "InPlaceBlocked"
	// ReasonInPlaceUpdateHangs: an edit of a pod has had no effect for five minutes, or for a minute longer than the pod's termination grace period
	// where that is longer; the message says what is waited for.
	ReasonInPlaceUpdateHangs = "InPlaceUpdateHangs"
	// ReasonInvalidTemplate: the server finds faults in the pod template, so no pod is moved to it. The set is Stalled when pods would
	// move, or when the server has refused a pod, too.
	ReasonInvalidTemplate = "InvalidTemplate"
	// ReasonUndecodable: the stored object does not fit its type, so nothing is done.
	ReasonUndecodable = "Undecodable"
	// ReasonReconciliationPaused: the annotation operator.kruise.io/paused is true, so nothing is done. Workloads of other kinds say the same.
	ReasonReconciliationPaused = "ReconciliationPaused"
	// ReasonMaxUnavailableZero: pods wait, and maxUnavailable is 0, so that none of them may ever be taken away or created. The message names
	// the field.
	ReasonMaxUnavailableZero = "MaxUnavailableZero"
	// ReasonClaimsCannotFollow: volume claims differ from their template in a way that no update can change, or a volume can never get the
	// size that its claim asks for.
	ReasonClaimsCannotFollow = "ClaimsCannotFollow"
	// ReasonImagePullFailed: the image of a container could not be pulled for 30 seconds; the message names pod, container and image.
	ReasonImagePullFailed = "ImagePullFailed"
	// ReasonContainerConfigError: a container could not be created for 30 seconds, for example because it reads a ConfigMap that does not
	// exist.
	ReasonContainerConfigError = "ContainerConfigError"
	// ReasonCrashLoop: a container has crashed three times.
	ReasonCrashLoop = "CrashLoop"
	// ReasonUnschedulable: a pod has had no node for five minutes: none fits, or no scheduler looks at it.
	ReasonUnschedulable = "Unschedulable"
	// ReasonUpdatedInService: pods are not taken out of service while they are updated in place.
	ReasonUpdatedInService = "UpdatedInService"
	// ReasonReplacedInstead: pods that cannot be taken out of service are replaced instead of being updated in place.
	ReasonReplacedInstead = "ReplacedInstead"
	// ReasonHeldByOthers: pods are held out of service by writers other than this operator. The operator releases a hold of a
	// ContainerRecreateRequest that has ended; other writers have to release theirs.
	ReasonHeldByOthers = "HeldByOthers"
	// ReasonRightsMissing: the server does not let the operator read what it needs for the set, so nothing is done; the message is its answer.
	ReasonRightsMissing = "RightsMissing"
	// ReasonNotStalled: what is left goes on by itself, or waits as the spec says.
	ReasonNotStalled = "NotStalled"
	// ReasonEnoughAvailable: no more pods are unavailable than an update may take away.
	ReasonEnoughAvailable = "EnoughPodsAvailable"
	// ReasonTooFewAvailable: more pods are unavailable than an update may take away.
	ReasonTooFewAvailable = "TooFewPodsAvailable"
	// ReasonPodsFail: pods fail again and again soon after their creation, so new ones are created less and less often.
	ReasonPodsFail = "PodsFail"
	// ReasonRequestFailed: the server refused a request; the message is its answer. The request is tried again, and once it has been refused for
	// 30 seconds the object is Stalled.
	ReasonRequestFailed = "RequestFailed"
	// ReasonFeatureGateOff: the message names the fields and their gates.
	ReasonFeatureGateOff = "FeatureGateOff"
	// ReasonNoNodeDaemon: the ImagePullJobs exist, and nothing carries them out.
	ReasonNoNodeDaemon = "NoNodeDaemon"
	// ReasonPreDownloadNotUseful: pulling ahead would gain nothing, or cannot be done; the message says why.
	ReasonPreDownloadNotUseful = "NotUseful"
	// ReasonWaitingForUpdatedPods: images are pulled ahead when as many updated pods are ready as the user asks for.
	ReasonWaitingForUpdatedPods = "WaitingForUpdatedPods"
	// ReasonUnreadable: the message names fields and annotations whose values cannot be read.
	ReasonUnreadable = "Unreadable"
	// ReasonNoEffect: the message names what is asked for and has no effect, and why.
	ReasonNoEffect = "NoEffect"
	// ReasonNotSupported: the message names the fields that this version does not act upon, beside those whose gates are off.
	ReasonNotSupported = "NotSupported"
)
