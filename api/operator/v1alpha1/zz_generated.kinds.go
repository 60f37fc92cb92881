// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Code generated from the kinds in controllers by `make generate`. DO NOT EDIT.

package v1alpha1

// Kind is a kind of object that the operator manages.
// +kubebuilder:validation:Enum=AdvancedCronJob;BatchRelease;BroadcastJob;CloneSet;ContainerRecreateRequest;DaemonSet;EphemeralJob;ImageListPullJob;ImagePullJob;NodeImage;NodePodProbe;PersistentPodState;PodProbeMarker;PodUnavailableBudget;ResourceDistribution;Rollout;SidecarSet;StatefulSet;TrafficRouting;UnitedDeployment;WorkloadSpread
type Kind string
