// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"slices"
	"strings"
)

const (
	// tokenPrefix begins the name of the volume with a pod's token, and tokenPath is where it is mounted: the ServiceAccount plugin of the API server knows
	// them by that.
	tokenPrefix = "kube-api-access-"
	tokenPath   = "/var/run/secrets/kubernetes.io/serviceaccount"
)

// MountToken mounts the pod's token into its sidecars, when all containers that it came with have it. The ServiceAccount plugin of the API server does the
// same after the webhooks, and for this change the API server would call them again.
func MountToken(pod map[string]any) {
	spec, _ := pod["spec"].(map[string]any)
	if automount, said := spec["automountServiceAccountToken"].(bool); said && !automount {
		return
	}
	at := slices.IndexFunc(listOf(spec, "volumes"), func(v any) bool { return strings.HasPrefix(nameOf(v), tokenPrefix) })
	if at < 0 {
		return
	}
	token := nameOf(listOf(spec, "volumes")[at])
	var without []map[string]any
	mounted := false
	for _, one := range slices.Concat(listOf(spec, "initContainers"), listOf(spec, "containers")) {
		container, _ := one.(map[string]any)
		mounts := listOf(container, "volumeMounts")
		has := slices.IndexFunc(mounts, func(m any) bool { return textOf(m, "mountPath") == tokenPath })
		switch {
		case has < 0 && !injected(container):
			return // The plugin has not mounted it, so this is none of its volumes.
		case has < 0:
			without = append(without, container)
		default:
			mounted = mounted || !injected(container) && nameOf(mounts[has]) == token
		}
	}
	if !mounted {
		return
	}
	for _, container := range without {
		mount := map[string]any{"name": token, "readOnly": true, "mountPath": tokenPath}
		container["volumeMounts"] = append(slices.Clone(listOf(container, "volumeMounts")), any(mount))
	}
}
