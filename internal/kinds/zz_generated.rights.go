// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Code generated from the table in internal/kinds by `make generate`. DO NOT EDIT.

package kinds

// The operator tells the API server how to reach the conversion of these kinds.
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=clonesets.apps.kruise.io;containerrecreaterequests.apps.kruise.io;daemonsets.apps.kruise.io;sidecarsets.apps.kruise.io,verbs=get;list;watch;update
