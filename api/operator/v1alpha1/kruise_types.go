// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KruiseName is the name of the one Kruise that the operator obeys.
const KruiseName = "cluster"

// FeatureGateName is the name of a feature gate.
// +kubebuilder:validation:Enum=AdvancedDeployment;AppendPodSelector;CloneSetEventHandlerOptimization;CloneSetPartitionRollback;CloneSetShortHash;ContainerLaunchPriority;DaemonSetPruneIneligibleNodes;DaemonWatchingPod;DefaultHostNetworkHostPortsInPodTemplates;DeletionProtectionForCRDCascadingGate;EnableExternalCerts;EnablePodProbeMarkerOnServerless;EnableSortSidecarContainerByName;EnhancedLivenessProbe;ForceDeleteTimeoutExpectationGate;ImagePullJobGate;InPlacePodVerticalScaling;InPlaceUpdateEnvFromMetadata;InPlaceWorkloadVerticalScaling;KeepWorkloadPausedOnRolloutDeletion;KruiseDaemon;KruisePodReadinessGate;PodIndexLabel;PodProbeMarkerGate;PodUnavailableBudgetDeleteGate;PodUnavailableBudgetUpdateGate;PodWebhook;PreDownloadImageForDaemonSetUpdate;PreDownloadImageForInPlaceUpdate;PreparingUpdateAsUpdate;RecreatePodWhenChangeVCTInCloneSetGate;ResourceDistributionGate;ResourcesDeletionProtection;RolloutHistory;RolloutPodLabels;SidecarSetPatchPodMetadataDefaultsAllowed;SidecarTerminator;StatefulSetAutoDeletePVC;StatefulSetAutoResizePVCGate;StatefulSetStartOrdinal;TemplateNoDefaults;WorkloadSpread
type FeatureGateName string

// State says whether something is on.
// +kubebuilder:validation:Enum=Enabled;Disabled
type State string

const (
	// Enabled says that it is on.
	Enabled State = "Enabled"
	// Disabled says that it is off.
	Disabled State = "Disabled"
)

// LogLevel says how much is logged.
// +kubebuilder:validation:Enum=Error;Info;Debug;Trace
type LogLevel string

const (
	// LogLevelError logs only what went wrong.
	LogLevelError LogLevel = "Error"
	// LogLevelInfo logs what changed in the cluster, too.
	LogLevelInfo LogLevel = "Info"
	// LogLevelDebug logs why it was decided so, too.
	LogLevelDebug LogLevel = "Debug"
	// LogLevelTrace logs the steps that lead to a decision, too.
	LogLevelTrace LogLevel = "Trace"
)

// AdmissionMode says by which instrument requests to the API server are checked and changed.
// +kubebuilder:validation:Enum=PreferPolicy;Webhook
type AdmissionMode string

const (
	// AdmissionPreferPolicy uses policies, which the API server evaluates by itself, wherever they can say what is needed.
	AdmissionPreferPolicy AdmissionMode = "PreferPolicy"
	// AdmissionWebhook uses webhooks alone.
	AdmissionWebhook AdmissionMode = "Webhook"
)

// NodeDaemonMode says when the node daemon runs.
// +kubebuilder:validation:Enum=OnDemand;Disabled
type NodeDaemonMode string

const (
	// NodeDaemonOnDemand runs the daemon while something that is enabled needs it.
	NodeDaemonOnDemand NodeDaemonMode = "OnDemand"
	// NodeDaemonDisabled never runs it.
	NodeDaemonDisabled NodeDaemonMode = "Disabled"
)

// KruiseSpec is how the operator should run. What is omitted is as the operator's flags say, and what those do not say either has a
// default. Log levels change at once. For kinds, feature gates, workers, admission and the metrics address the operator's own pods restart
// one after another, the leader last; no other pod is touched.
type KruiseSpec struct {
	// kinds are the kinds of workloads to reconcile. A kind that is left out costs nothing: it is not watched and not kept in memory, and
	// its objects and pods stay as they are until it is reconciled again. When omitted, all kinds are; an empty list means none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Kinds"
	Kinds []Kind `json:"kinds,omitempty"`

	// confirmedKinds are kinds that the operator serves although they have objects from before the version that serves them. Without this, such
	// a kind waits after an upgrade, as the condition ConfirmationRequired says: its schedules start no jobs, and nothing is injected, rolled
	// out or deleted. A kind that kinds names is confirmed by that. Once the operator serves a kind, its name is not needed here any more.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Confirmed kinds"
	ConfirmedKinds []Kind `json:"confirmedKinds,omitempty"`

	// featureGates switch behavior on or off for the whole operator. A gate that is not listed has the value of the flag --feature-gates, or
	// else its default. Switching a gate off leaves the fields that need it stored, and ignored.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Feature gates"
	FeatureGates []FeatureGate `json:"featureGates,omitempty"`

	// workers is how many objects of one kind are reconciled at the same time. When omitted, it is 3.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=256
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Workers",xDescriptors="urn:alm:descriptor:com.tectonic.ui:number"
	Workers *int32 `json:"workers,omitempty"`

	// logLevel is how much the operator logs. When omitted, it is Info.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Log level"
	LogLevel LogLevel `json:"logLevel,omitempty"`

	// controllers are settings of single controllers, by the kind they reconcile. They win over workers and logLevel beside this list.
	// +optional
	// +listType=map
	// +listMapKey=kind
	// +kubebuilder:validation:MaxItems=32
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Controllers",xDescriptors="urn:alm:descriptor:com.tectonic.ui:advanced"
	Controllers []ControllerSettings `json:"controllers,omitempty"`

	// manager is deprecated and has no effect, as admission warns. Where the operator's own pods run and what they may use is said by
	// kustomize, by the values of the chart, or by config in the Subscription.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Manager",xDescriptors="urn:alm:descriptor:com.tectonic.ui:advanced"
	Manager *ManagerSettings `json:"manager,omitempty"`

	// metrics says where the operator serves its metrics.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Metrics",xDescriptors="urn:alm:descriptor:com.tectonic.ui:advanced"
	Metrics *MetricsSettings `json:"metrics,omitempty"`

	// admission says how requests to the API server are checked and changed.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Admission",xDescriptors="urn:alm:descriptor:com.tectonic.ui:advanced"
	Admission *AdmissionSettings `json:"admission,omitempty"`

	// images says where the images come from that the operator deploys. The image of the operator itself is that of its Deployment.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Images",xDescriptors="urn:alm:descriptor:com.tectonic.ui:advanced"
	Images *ImageSettings `json:"images,omitempty"`

	// nodeDaemon says how the node daemon runs, which some features need on every node.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Node daemon",xDescriptors="urn:alm:descriptor:com.tectonic.ui:advanced"
	NodeDaemon *NodeDaemonSettings `json:"nodeDaemon,omitempty"`
}

// FeatureGate is what a feature gate should be.
type FeatureGate struct {
	// name is the name of the gate.
	// +required
	Name FeatureGateName `json:"name"`

	// state is Enabled or Disabled.
	// +required
	State State `json:"state"`
}

// ControllerSettings are settings of one controller.
type ControllerSettings struct {
	// kind is the kind that the controller reconciles.
	// +required
	Kind Kind `json:"kind"`

	// workers is how many objects of this kind are reconciled at the same time. When omitted, it is as for all kinds.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=256
	Workers *int32 `json:"workers,omitempty"`

	// logLevel is how much this controller logs. When omitted, it is as for all of the operator.
	// +optional
	LogLevel LogLevel `json:"logLevel,omitempty"`
}

// ManagerSettings are where the operator's pods should run and what they may use. They have no effect.
type ManagerSettings struct {
	// resources are what the container asks for, and its limits. When omitted, they are those of the Deployment.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// nodeSelector are labels that a node must have. They are added to those of the Deployment.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// tolerations let the pods run on nodes with these taints. When omitted, they are those of the Deployment.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// affinity prefers or demands nodes, and other pods to be near or far. When omitted, it is that of the Deployment.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// priorityClassName is the priority class of the pods. When omitted, it is that of the Deployment.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`
}

// MetricsSettings say where metrics are served.
type MetricsSettings struct {
	// bindAddress is the address that serves metrics over http, such as ":8080" or "127.0.0.1:8080"; "0" serves none. When omitted, it is
	// ":8080".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=261
	// +kubebuilder:validation:XValidation:rule="self == '0' || self.matches('^.*:[0-9]{1,5}$')",message="must be an address with a port, such as :8080, or 0 for none"
	BindAddress string `json:"bindAddress,omitempty"`
}

// AdmissionSettings say how requests to the API server are checked and changed.
type AdmissionSettings struct {
	// mode is PreferPolicy or Webhook. PreferPolicy uses policies that the API server evaluates by itself wherever they can say what
	// is needed; these hold while the operator is down. When omitted, it is PreferPolicy.
	// +optional
	Mode AdmissionMode `json:"mode,omitempty"`

	// clientCA is the authority of the certificate that the API servers show to admission webhooks, in PEM. Configure them to show one first, by a kubeConfigFile
	// for webhooks in the AdmissionConfiguration: all other requests for admission are refused. When omitted, anybody on the network may ask; answers say
	// yes or no, and what the request itself named.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	ClientCA string `json:"clientCA,omitempty"`
}

// ImageSettings say where images come from.
type ImageSettings struct {
	// repository is where the images are that the operator deploys, such as "registry.example/kruise". When omitted, it is where the
	// operator's own release has them.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9._:/]*[a-z0-9])?$`
	Repository string `json:"repository,omitempty"`

	// pullSecrets are Secrets in the namespace of the node daemon, kruise-daemon-config, for pulling these images. At most 16.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	PullSecrets []PullSecret `json:"pullSecrets,omitempty"`
}

// PullSecret names a Secret of type kubernetes.io/dockerconfigjson.
type PullSecret struct {
	// name is the name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// NodeDaemonSettings say how the node daemon runs. It is deployed while something needs it, and removed some minutes after.
type NodeDaemonSettings struct {
	// mode is OnDemand or Disabled. OnDemand runs the daemon while something that is enabled needs it. When omitted, it is OnDemand.
	// +optional
	Mode NodeDaemonMode `json:"mode,omitempty"`

	// image is the daemon's image. When omitted, it is the one that belongs to the operator's version, from images.repository.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`

	// resources are what the daemon's container asks for on each node, and its limits. When omitted, it requests 5m of CPU and 32Mi of memory, and
	// is limited to 128Mi.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// tolerations let the daemon run on nodes with these taints. When omitted, it runs on every node.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// priorityClassName is the priority class of the pods. When omitted, they have the cluster's default.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// criSocketPath is where the container runtime listens on the nodes, such as "/run/containerd/containerd.sock". When omitted, the
	// usual places are tried.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=107
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/')",message="must be an absolute path"
	CRISocketPath string `json:"criSocketPath,omitempty"`

	// namespaceUID is the UID of the namespace kruise-daemon-config, where an administrator made it. The operator uses no namespace of that name that it did not
	// make itself, unless its UID is here: whoever may write in it can run anything on every node. When omitted, the operator makes it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	NamespaceUID string `json:"namespaceUID,omitempty"`

	// port is where the daemon serves its health and metrics over http, on the network of the nodes. 0 serves nothing, and the kubelet then does not check
	// the daemon. When omitted, it is 10221.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Port *int32 `json:"port,omitempty"`

	// seLinuxOptions are those of the daemon's container. Set type to "spc_t" where SELinux keeps containers from the socket of the container
	// runtime. When omitted, the container runtime chooses the context, as for other containers.
	// +optional
	// +kubebuilder:validation:XValidation:rule="has(self.user) || has(self.role) || has(self.type) || has(self.level)",message="must have a user, role, type or level"
	// +kubebuilder:validation:XValidation:rule="(!has(self.user) || (size(self.user) > 0 && size(self.user) <= 256)) && (!has(self.role) || (size(self.role) > 0 && size(self.role) <= 256)) && (!has(self.type) || (size(self.type) > 0 && size(self.type) <= 256)) && (!has(self.level) || (size(self.level) > 0 && size(self.level) <= 256))",message="user, role, type and level must have 1 to 256 characters"
	SELinuxOptions *corev1.SELinuxOptions `json:"seLinuxOptions,omitempty"`

	// privileged gives the daemon's container all rights on the nodes. It is for nodes on which nothing less lets it connect to the socket of the
	// container runtime: with seLinuxOptions it stays without capabilities. When omitted, it is false.
	// +optional
	Privileged bool `json:"privileged,omitempty"`

	// credentialProviders has images of ImagePullJobs pulled with credentials from the kubelet's credential provider plugins, too, beside those of
	// Secrets. When omitted, no plugin is run.
	// +optional
	CredentialProviders *CredentialProviders `json:"credentialProviders,omitempty"`
}

// CredentialProviders are where the nodes have the kubelet's credential provider plugins.
type CredentialProviders struct {
	// configPath is the CredentialProviderConfig on the nodes, the file that the kubelet is started with as --image-credential-provider-config.
	// The daemon reads its whole folder.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^/[^/]+/.*[^/]$')",message="must be the absolute path of a file in a folder"
	ConfigPath string `json:"configPath"`

	// pluginFolder has the plugins on the nodes, the folder that the kubelet is started with as --image-credential-provider-bin-dir.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^/+[^/]')",message="must be the absolute path of a folder"
	PluginFolder string `json:"pluginFolder"`
}

// Condition types of a Kruise.
const (
	// KruiseAvailable is True while every kind that is enabled is reconciled.
	KruiseAvailable = "Available"
	// KruiseProgressing is True while replicas restart to apply a change.
	KruiseProgressing = "Progressing"
	// KruiseDegraded is True while something in the spec cannot be followed; the rest of it is in force.
	KruiseDegraded = "Degraded"
	// KruiseReconciling is True while Progressing is. Tools that wait for an object look at it and at Stalled.
	KruiseReconciling = "Reconciling"
	// KruiseStalled is True when nothing can move until the user changes something.
	KruiseStalled = "Stalled"
	// KruiseUpgradeable is False while the operator should not be replaced by another version.
	KruiseUpgradeable = "Upgradeable"
	// KruiseConfirmationRequired is present and True while kinds wait for spec.confirmedKinds, since they have objects that the version before
	// did not serve.
	KruiseConfirmationRequired = "ConfirmationRequired"
	// KruiseFieldsIgnored is present and True while the spec has fields without effect.
	KruiseFieldsIgnored = "FieldsIgnored"
	// KruiseNodeDaemonConflict is present and True while the node daemon of OpenKruise runs beside that of this operator.
	KruiseNodeDaemonConflict = "NodeDaemonConflict"
)

// Reasons of the conditions of a Kruise.
const (
	// ReasonAsExpected: everything is as the spec says.
	ReasonAsExpected = "AsExpected"
	// ReasonKindsNotReady: a kind that is enabled is not reconciled yet; its entry in status.kinds says why.
	ReasonKindsNotReady = "KindsNotReady"
	// ReasonRestarting: replicas restart to apply a change.
	ReasonRestarting = "Restarting"
	// ReasonInvalidConfiguration: something in the spec is not known or contradicts itself; it is ignored.
	ReasonInvalidConfiguration = "InvalidConfiguration"
	// ReasonOperandsFailed: something that the operator deploys for itself could not be applied.
	ReasonOperandsFailed = "OperandsFailed"
	// ReasonDeprecated: the fields are deprecated and have no effect.
	ReasonDeprecated = "Deprecated"
	// ReasonMigrating: stored objects are being moved to the version that is to be stored.
	ReasonMigrating = "Migrating"
	// ReasonTakingOver: workloads are being taken over from OpenKruise.
	ReasonTakingOver = "TakingOver"
	// ReasonObjectsFromBefore: there are objects of kinds that the earlier version did not serve.
	ReasonObjectsFromBefore = "ObjectsFromBefore"
	// ReasonOpenKruiseDaemon: the DaemonSet of OpenKruise's node daemon is still there. Somebody has to delete it.
	ReasonOpenKruiseDaemon = "OpenKruiseDaemon"
	// ReasonTookTooLong: what delayed an upgrade has not ended, but no longer delays it.
	ReasonTookTooLong = "TookTooLong"
)

// Reasons in status.kinds.
const (
	// KindReady: objects of the kind are reconciled.
	KindReady = "Ready"
	// KindDisabled: spec.kinds leaves the kind out.
	KindDisabled = "Disabled"
	// KindUnconfirmed: the kind has objects that the earlier version did not serve, and spec.confirmedKinds does not list it.
	KindUnconfirmed = "Unconfirmed"
	// KindNotServed: the API server did not serve the kind when the operator started; its CRD is missing.
	KindNotServed = "NotServed"
	// KindStarting: the objects of the kind are being read.
	KindStarting = "Starting"
	// KindRightsMissing: the API server does not let the operator read what it needs for the kind; the message is its answer.
	KindRightsMissing = "RightsMissing"
)

// KruiseStatus is how the operator runs.
type KruiseStatus struct {
	// observedGeneration is the generation of the spec that this status is about.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions say whether the operator runs as the spec says: Available, Progressing, Degraded, Reconciling, Stalled, Upgradeable, and
	// ConfirmationRequired, FieldsIgnored and NodeDaemonConflict when there is something to say.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Conditions",xDescriptors="urn:alm:descriptor:io.kubernetes.conditions"
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// kinds says of every kind whether it is enabled and ready.
	// +optional
	// +listType=map
	// +listMapKey=kind
	// +kubebuilder:validation:MaxItems=32
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Kinds"
	Kinds []KindStatus `json:"kinds,omitempty"`

	// featureGates are the gates that are on in the running operator.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Feature gates that are on"
	FeatureGates []string `json:"featureGates,omitempty"`

	// versions are those of the operator and of what it works with.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Versions"
	Versions []ComponentVersion `json:"versions,omitempty"`

	// replicas are the operator's processes, and which configuration each one runs with.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Replicas"
	Replicas []ReplicaStatus `json:"replicas,omitempty"`
}

// KindStatus says whether a kind is reconciled.
type KindStatus struct {
	// kind is the kind.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`

	// state is Enabled or Disabled.
	// +required
	State State `json:"state"`

	// ready is True while objects of the kind are reconciled.
	// +required
	// +kubebuilder:validation:Enum="True";"False";Unknown
	Ready metav1.ConditionStatus `json:"ready"`

	// reason is Ready, Disabled, Unconfirmed, NotServed, RightsMissing or Starting.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Reason string `json:"reason"`

	// message says more, for people.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// ComponentVersion is the version of something.
type ComponentVersion struct {
	// name is what has the version: operator or kubernetes.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// version is its version.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Version string `json:"version"`
}

// ReplicaRole is what a replica does.
// +kubebuilder:validation:Enum=Leader;Standby
type ReplicaRole string

const (
	// ReplicaLeader reconciles and serves admission.
	ReplicaLeader ReplicaRole = "Leader"
	// ReplicaStandby serves admission and is ready to take over.
	ReplicaStandby ReplicaRole = "Standby"
)

// ReplicaStatus is one process of the operator.
type ReplicaStatus struct {
	// name is the name of its pod; outside of the cluster, that of its machine.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// role is Leader or Standby.
	// +required
	Role ReplicaRole `json:"role"`

	// observedGeneration is the newest generation of the spec that the process runs as.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// configurationHash stands for the configuration that the process runs with, flags included. Replicas with the same hash run alike.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ConfigurationHash string `json:"configurationHash"`
}

// Kruise configures the operator. There is at most one, named cluster. Without it the operator runs as its flags say.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=kruises,singular=kruise
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'cluster'",message="there is one Kruise, and its name is cluster"
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`,description="Whether every kind that is enabled is reconciled"
// +kubebuilder:printcolumn:name="Progressing",type=string,JSONPath=`.status.conditions[?(@.type=="Progressing")].status`,description="Whether replicas restart to apply a change"
// +kubebuilder:printcolumn:name="Degraded",type=string,JSONPath=`.status.conditions[?(@.type=="Degraded")].status`,description="Whether something in the spec cannot be followed"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.versions[?(@.name=="operator")].version`,description="Version of the operator"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +operator-sdk:csv:customresourcedefinitions:displayName="Operator configuration",order=100,resources={{Deployment,v1,kruise-operator-manager},{NetworkPolicy,v1,kruise-operator-metrics},{ServiceMonitor,v1,kruise-operator-metrics},{PrometheusRule,v1,kruise-operator-alerts}}
type Kruise struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the metadata of every object; its name is cluster.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is how the operator should run.
	// +optional
	Spec KruiseSpec `json:"spec,omitempty"`

	// status is how it runs.
	// +optional
	Status KruiseStatus `json:"status,omitempty"`
}

// KruiseList is a list of Kruise.
//
// +kubebuilder:object:root=true
type KruiseList struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the metadata of every list.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the objects.
	Items []Kruise `json:"items"`
}
