// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package podtemplate compares pod templates that differ only in defaults, and turns a template into a pod.
//
// Templates are stored as their users wrote them, or as another manager filled them in. Two of them mean the same when the
// pods that the server makes of them are the same, so both are filled in before they are compared (Defaulted). This is the
// list of what is filled in:
//
//	pod            dnsPolicy, restartPolicy, terminationGracePeriodSeconds, schedulerName, securityContext, enableServiceLinks,
//	               serviceAccount and serviceAccountName from each other, quantities of resources and overhead rounded up to
//	               milli-units
//	container      terminationMessagePath, terminationMessagePolicy, imagePullPolicy (main containers: Always; init and
//	               ephemeral containers: by tag), port protocol, host port of a hostNetwork pod, API version of a field
//	               reference, optional of a file key reference, quantities rounded up, missing requests from limits
//	probe, hook    timeoutSeconds, periodSeconds, successThreshold, failureThreshold; path and scheme of an HTTP action; service
//	               of a gRPC action
//	volume         emptyDir when nothing is named; modes of secret, configMap, downwardAPI and projected volumes; API version of
//	               field references; expirationSeconds of a token; type of a hostPath; iSCSI interface; caching, kind,
//	               file system and readOnly of an Azure disk; pull policy of an image volume; volume mode and quantities of an
//	               ephemeral claim
//
// Defaults that admission plugins add depend on the cluster and are left out: the service account "default", priorities, the
// default tolerations, limit ranges. The resources of a pod as a whole are left out, too, when only part of them is set, because versions of the
// server derive the rest by different rules. Setting them explicitly is a change.
package podtemplate
