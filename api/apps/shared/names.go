// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package shared

// Labels.
const (
	// LabelControllerRevisionHash names the revision a pod runs, or is being moved to. StatefulSet and CloneSet write the full
	// name of the ControllerRevision, DaemonSet the hash alone.
	LabelControllerRevisionHash = "controller-revision-hash"
	// LabelPodTemplateHash is the short hash of a pod's revision (CloneSet).
	LabelPodTemplateHash = "pod-template-hash"
	// LabelRevisionHash is the hash of a ControllerRevision, on the revision itself.
	LabelRevisionHash = "controller.kubernetes.io/hash"
	// LabelPodName repeats the name of a StatefulSet's pod, so that a Service can select one pod.
	LabelPodName = "statefulset.kubernetes.io/pod-name"
	// LabelPodIndex is the ordinal of a StatefulSet's pod.
	LabelPodIndex = "apps.kubernetes.io/pod-index"
	// LabelSpecifiedDelete on a pod of a StatefulSet or CloneSet has it deleted and replaced, within the limits of an update. Any value has this effect.
	LabelSpecifiedDelete = "apps.kruise.io/specified-delete"
	// LabelLifecycleState is the lifecycle state of a pod: PreparingNormal, Normal, PreparingUpdate, Updating, Updated or PreparingDelete.
	LabelLifecycleState = "lifecycle.apps.kruise.io/state"
	// LabelInstanceID links a CloneSet's pod with its claims: five random lower-case characters.
	LabelInstanceID = "apps.kruise.io/cloneset-instance-id"
	// LabelPreDownloadCreated on a ControllerRevision says that its images are being pulled ahead of the rollout. The
	// doubled prefix is the real key.
	LabelPreDownloadCreated = "apps.kruise.io/pre-predownload-created"
	// LabelPreDownloadIgnored on a ControllerRevision says that its images are not pulled ahead, because it would gain nothing.
	LabelPreDownloadIgnored = "apps.kruise.io/image-predownload-ignored"
	// LabelSubsetName is the subset that a workload of a UnitedDeployment, or a pod of it, belongs to.
	LabelSubsetName = "apps.kruise.io/subset-name"
	// LabelUnitedDeploymentRevision names the revision of a UnitedDeployment that a workload and its pods are made from.
	LabelUnitedDeploymentRevision = "apps.kruise.io/controller-revision-hash"
	// LabelReservedPod with the value "true" on a pod of a UnitedDeployment says that another subset runs a replacement for it, because it could
	// not be scheduled.
	LabelReservedPod = "apps.kruise.io/united-deployment-reserved-pod"
	// LabelBroadcastJobName on a pod is the name of its BroadcastJob.
	LabelBroadcastJobName = "broadcastjob-name"
	// LabelBroadcastJobUID on a pod is the UID of its BroadcastJob.
	LabelBroadcastJobUID = "broadcastjob-controller-uid"
	// LabelAdvancedCronJob on a run is the name of the AdvancedCronJob that it belongs to.
	LabelAdvancedCronJob = "operator.kruise.io/advancedcronjob"
	// LabelDistributed is on every copy of a ResourceDistribution; the operator watches ConfigMaps with it alone.
	LabelDistributed = "operator.kruise.io/distributed"
	// LabelDeleteProtection on a workload, Service, Ingress, Namespace or CustomResourceDefinition forbids deleting it, while the feature gate
	// ResourcesDeletionProtection is on.
	LabelDeleteProtection = "policy.kruise.io/delete-protection"
)

// Values of LabelDeleteProtection.
const (
	// DeleteProtectionAlways forbids deleting the object.
	DeleteProtectionAlways = "Always"
	// DeleteProtectionCascading forbids deleting a workload that has replicas, a Namespace with pods or bound claims, and a
	// CustomResourceDefinition with objects.
	DeleteProtectionCascading = "Cascading"
)

// SubsetRemovalAfterReplacement is the value of AnnotationSubsetRemoval that keeps the workload of a subset that was taken out until as
// many pods as spec.replicas are available in the others.
const SubsetRemovalAfterReplacement = "AfterReplacement"

// Adopting is the value of AnnotationAppliedHash of a workload that is being taken over.
const Adopting = "Adopting"

// FieldManagerUnitedDeployment is the name under which UnitedDeployments apply their workloads.
const FieldManagerUnitedDeployment = "kruise-operator-uniteddeployment"

// FieldManagerDistribution is the name under which ResourceDistributions apply their copies.
const FieldManagerDistribution = "kruise-operator-resourcedistribution"

// Annotations.
const (
	// AnnotationDistributedFrom on a copy is the name of its ResourceDistribution.
	AnnotationDistributedFrom = "kruise.io/resourcedistribution.resource.from"
	// AnnotationDistributedHash on a copy identifies what was copied last: the SHA-256 of spec.resource as JSON.
	AnnotationDistributedHash = "kruise.io/resourcedistribution.resource.hashcode"
	// AnnotationLifecycleTimestamp is when the lifecycle state last changed (RFC 3339).
	AnnotationLifecycleTimestamp = "lifecycle.apps.kruise.io/timestamp"
	// AnnotationInPlaceState records the update in place of a pod, as the JSON of an InPlaceUpdateState. It stays after success; the next update
	// overwrites it.
	AnnotationInPlaceState = "apps.kruise.io/inplace-update-state"
	// AnnotationInPlaceStateLegacy is the older name of apps.kruise.io/inplace-update-state. It is read and never written.
	AnnotationInPlaceStateLegacy = "inplace-update-state"
	// AnnotationInPlaceGrace is present while an update in place waits for its grace period, and from the record of one that changes resources until its
	// edit is sent, with the JSON of an InPlaceUpdateGrace.
	AnnotationInPlaceGrace = "apps.kruise.io/inplace-update-grace"
	// AnnotationInPlaceGraceLegacy is the older name of apps.kruise.io/inplace-update-grace. It is read and never written.
	AnnotationInPlaceGraceLegacy = "inplace-update-grace"
	// AnnotationInPlaceEvidence records how the operator recognizes that its edit has taken effect, as the JSON of an InPlaceEvidence.
	AnnotationInPlaceEvidence = "operator.kruise.io/inplace-evidence"
	// AnnotationInjectedPersistentPodState on a pod names the PersistentPodState by which it returned to its place.
	AnnotationInjectedPersistentPodState = "kruise.io/injected-persistent-pod-state"
	// AnnotationAutoGeneratePersistentPodState with the value "true" on a workload creates a PersistentPodState for it. The next three say what it holds,
	// as lists separated by commas.
	AnnotationAutoGeneratePersistentPodState = "kruise.io/auto-generate-persistent-pod-state"
	// AnnotationRequiredPersistentTopology are the required keys of node labels.
	AnnotationRequiredPersistentTopology = "kruise.io/required-persistent-topology"
	// AnnotationPreferredPersistentTopology are the preferred keys, with the weight 100.
	AnnotationPreferredPersistentTopology = "kruise.io/preferred-persistent-topology"
	// AnnotationPersistentPodAnnotations are the keys of pod annotations to record.
	AnnotationPersistentPodAnnotations = "kruise.io/persistent-pod-annotations"
	// AnnotationPaused with the value "true" on a workload stops the operator from doing anything for it, including replacing deleted pods. The
	// condition Stalled says so. It is for emergencies and repairs by hand; to pause only an update, use its field paused or its partition.
	AnnotationPaused = "operator.kruise.io/paused"
	// AnnotationSubsetPatch on a workload of a UnitedDeployment is the patch of its subset; empty when there is none.
	AnnotationSubsetPatch = "apps.kruise.io/subset-patch"
	// AnnotationSubsetRemoval on a UnitedDeployment says when the workload of a removed subset is deleted. With the value AfterReplacement it is
	// deleted when as many pods as spec.replicas are available in the other subsets; without the annotation, at once.
	AnnotationSubsetRemoval = "operator.kruise.io/subset-removal"
	// AnnotationAppliedHash on a workload of a UnitedDeployment identifies what was applied to it last. It is Adopting after the first apply to
	// a workload that OpenKruise created, until its fields have one owner.
	AnnotationAppliedHash = "operator.kruise.io/applied-hash"
	// AnnotationAdopted on a workload that OpenKruise created identifies the template at the takeover. Until the template changes, lists of the
	// workload keep their defaults.
	AnnotationAdopted = "operator.kruise.io/adopted-template"
	// AnnotationRuntimeContainersMeta on a pod says what each container was created from. The node daemon writes it.
	AnnotationRuntimeContainersMeta = "apps.kruise.io/runtime-containers-meta"
	// AnnotationOwnedByStatefulSet on a claim names the set that resizes it.
	AnnotationOwnedByStatefulSet = "apps.kruise.io/owned-by-asts"
	// AnnotationPodDeletionCost says how costly deleting a pod is (int32); cheaper pods go first.
	AnnotationPodDeletionCost = "controller.kubernetes.io/pod-deletion-cost"
	// AnnotationMatchedWorkloadSpread on a pod names its WorkloadSpread and subset, as a JSON object.
	AnnotationMatchedWorkloadSpread = "apps.kruise.io/matched-workloadspread"
	// AnnotationSpreadIgnoreMetadata with the value "true" on a WorkloadSpread leaves labels and annotations of pods alone that existed before it.
	AnnotationSpreadIgnoreMetadata = "workloadspread.kruise.io/ignore-patch-existing-pods-metadata"
	// AnnotationConversionData keeps the fields of another API version that this one cannot express. Only the conversion between versions writes
	// and reads it; clients should keep it.
	AnnotationConversionData = "operator.kruise.io/conversion-data"
	// AnnotationClaimTemplatesHash on the revision of a CloneSet is OpenKruise's hash of its volume claim templates; empty when there were none.
	AnnotationClaimTemplatesHash = "kruise.io/cloneset-volumeclaimtemplate-hash"
	// AnnotationClaimTemplates on the revision of a CloneSet is the operator's own hash of its volume claim templates, since OpenKruise's cannot
	// be computed without its code.
	AnnotationClaimTemplates = "operator.kruise.io/volume-claim-templates-hash"
	// AnnotationRecordedClaims on the revision of a StatefulSet or CloneSet has the volume claim templates of its pods, as JSON.
	AnnotationRecordedClaims = "operator.kruise.io/volume-claim-templates"
	// AnnotationScheduledAt on a run of an AdvancedCronJob is when it was due (RFC 3339).
	AnnotationScheduledAt = "apps.kruise.io/scheduled-at"
	// AnnotationResume on a BroadcastJob that its failure policy has paused resumes it each time that the value changes. Pods that have failed
	// until then no longer pause it, and their nodes get no other pod.
	AnnotationResume = "operator.kruise.io/resume"
	// AnnotationNodeUID on a pod of a BroadcastJob is the UID of the node that it was made for.
	AnnotationNodeUID = "operator.kruise.io/node-uid"
	// AnnotationPreDownloadParallelism is how many nodes pull at once, on a workload (StatefulSet, DaemonSet, v1alpha1 CloneSet).
	AnnotationPreDownloadParallelism = "apps.kruise.io/image-predownload-parallelism"
	// AnnotationPreDownloadTimeoutSeconds is the timeout of one pull, on a workload.
	AnnotationPreDownloadTimeoutSeconds = "apps.kruise.io/image-predownload-timeout-seconds"
	// AnnotationPreDownloadMinUpdatedReadyPods is how many updated pods must be ready before images are pulled ahead.
	AnnotationPreDownloadMinUpdatedReadyPods = "apps.kruise.io/image-predownload-min-updated-ready-pods"
	// AnnotationLaunchPriority with the value "Ordered" has the containers of a pod start one after the other, as the spec lists them. It takes
	// precedence over the variable KRUISE_CONTAINER_PRIORITY of its containers.
	AnnotationLaunchPriority = "apps.kruise.io/container-launch-priority"
	// AnnotationLaunchPriorityCompleted with the value "true" says that all containers of an ordered pod may have started. The operator
	// writes it.
	AnnotationLaunchPriorityCompleted = "apps.kruise.io/container-launch-priority-completed"
)

// LaunchInOrder is the one value of AnnotationLaunchPriority that means anything.
const LaunchInOrder = "Ordered"

// Readiness gates, and the pod conditions behind them.
const (
	// GateInPlaceUpdateReady is False while a pod is updated in place.
	GateInPlaceUpdateReady = "InPlaceUpdateReady"
	// GateKruisePodReady is False while any writer keeps the pod out of service; the message of the condition lists the writers.
	GateKruisePodReady = "KruisePodReady"
	// ReasonStartInPlaceUpdate is the reason of a False InPlaceUpdateReady condition.
	ReasonStartInPlaceUpdate = "StartInPlaceUpdate"
	// ReasonReadinessGatesNotReady is the reason of a False Ready condition whose containers are ready.
	ReasonReadinessGatesNotReady = "ReadinessGatesNotReady"
)

// EnvContainerPriority is the variable that a user gives a container to say its launch priority: a decimal integer from -2147483647 to
// 2147483647, 0 when it is missing. Containers of a higher one start earlier.
const EnvContainerPriority = "KRUISE_CONTAINER_PRIORITY"

// EnvLaunchPriority is the variable whose config map key, "p_<n>", or "p_<n>_" and five random characters, is a container's launch priority n. It is
// added to ordered pods: the kubelet does not create a container before the key is there.
const EnvLaunchPriority = "KRUISE_CONTAINER_BARRIER"

// EnvEphemeralJob is the variable of an ephemeral container with the UID of the EphemeralJob that added it.
const EnvEphemeralJob = "KRUISE_EJOB_ID"

// FinalizerEphemeralJob is the finalizer that OpenKruise gives EphemeralJobs. The operator adds it to none, and takes it from those that are
// being deleted: ephemeral containers cannot be removed, so nothing is to be done before.
const FinalizerEphemeralJob = "apps.kruise.io/ephemeralcontainers-cleanup"

// FieldManager is the name under which the operator writes; its user agent begins with it too.
const FieldManager = "kruise-operator"

// PersistentPodStateAnnotations are the annotations of a workload that ask for a PersistentPodState.
func PersistentPodStateAnnotations() []string {
	return []string{
		AnnotationAutoGeneratePersistentPodState, AnnotationRequiredPersistentTopology, AnnotationPreferredPersistentTopology, AnnotationPersistentPodAnnotations,
	}
}
