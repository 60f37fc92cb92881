// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Code generated from the kinds in controllers by `make generate`. DO NOT EDIT.

package kinds

// The operator tells the API server how to reach the conversion of these kinds.
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=batchreleases.rollouts.kruise.io;clonesets.apps.kruise.io;containerrecreaterequests.apps.kruise.io;daemonsets.apps.kruise.io;persistentpodstates.apps.kruise.io;podunavailablebudgets.policy.kruise.io;resourcedistributions.apps.kruise.io;rollouts.rollouts.kruise.io;sidecarsets.apps.kruise.io;workloadspreads.apps.kruise.io,verbs=get;list;watch;update
//
// It moves objects of these kinds to the version that is to be stored.
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=advancedcronjobs.apps.kruise.io;batchreleases.rollouts.kruise.io;broadcastjobs.apps.kruise.io;clonesets.apps.kruise.io;containerrecreaterequests.apps.kruise.io;daemonsets.apps.kruise.io;ephemeraljobs.apps.kruise.io;imagelistpulljobs.apps.kruise.io;imagepulljobs.apps.kruise.io;nodeimages.apps.kruise.io;persistentpodstates.apps.kruise.io;podunavailablebudgets.policy.kruise.io;resourcedistributions.apps.kruise.io;rollouts.rollouts.kruise.io;sidecarsets.apps.kruise.io;statefulsets.apps.kruise.io;uniteddeployments.apps.kruise.io;workloadspreads.apps.kruise.io,verbs=get
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions/status,resourceNames=advancedcronjobs.apps.kruise.io;batchreleases.rollouts.kruise.io;broadcastjobs.apps.kruise.io;clonesets.apps.kruise.io;containerrecreaterequests.apps.kruise.io;daemonsets.apps.kruise.io;ephemeraljobs.apps.kruise.io;imagelistpulljobs.apps.kruise.io;imagepulljobs.apps.kruise.io;nodeimages.apps.kruise.io;persistentpodstates.apps.kruise.io;podunavailablebudgets.policy.kruise.io;resourcedistributions.apps.kruise.io;rollouts.rollouts.kruise.io;sidecarsets.apps.kruise.io;statefulsets.apps.kruise.io;uniteddeployments.apps.kruise.io;workloadspreads.apps.kruise.io,verbs=update
// +kubebuilder:rbac:groups=apps.kruise.io,resources=advancedcronjobs;broadcastjobs;clonesets;containerrecreaterequests;daemonsets;ephemeraljobs;imagelistpulljobs;imagepulljobs;nodeimages;persistentpodstates;resourcedistributions;sidecarsets;statefulsets;uniteddeployments;workloadspreads,verbs=list;patch
// +kubebuilder:rbac:groups=policy.kruise.io,resources=podunavailablebudgets,verbs=list;patch
// +kubebuilder:rbac:groups=rollouts.kruise.io,resources=batchreleases;rollouts,verbs=list;patch
