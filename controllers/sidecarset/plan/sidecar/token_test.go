// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
)

// The token gets into sidecars exactly where the ServiceAccount plugin of the API server would mount it next.
func TestTheTokenIsMountedIntoSidecars(t *testing.T) {
	const (
		volume = `{name: kube-api-access-abcde, projected: {sources: []}}`
		mount  = `{name: kube-api-access-abcde, readOnly: true, mountPath: /var/run/secrets/kubernetes.io/serviceaccount}`
		marked = `env: [{name: IS_INJECTED, value: "true"}]`
		bare   = `{name: agent, ` + marked + `, volumeMounts: [{name: spool, mountPath: /spool}]}`
		given  = `{name: agent, ` + marked + `, volumeMounts: [{name: spool, mountPath: /spool}, ` + mount + `]}`
	)
	for name, tc := range map[string]struct{ pod, want string }{
		"into a sidecar, behind its own mounts": {
			`{volumes: [` + volume + `], containers: [{name: web, volumeMounts: [` + mount + `]}, ` + bare + `]}`,
			`{volumes: [` + volume + `], containers: [{name: web, volumeMounts: [` + mount + `]}, ` + given + `]}`,
		},
		"into an init container without mounts": {
			`{volumes: [` + volume + `], initContainers: [{name: init, ` + marked + `}], containers: [{name: web, volumeMounts: [` + mount + `]}]}`,
			`{volumes: [` + volume + `], initContainers: [{name: init, ` + marked + `, volumeMounts: [` + mount + `]}], containers: [{name: web, volumeMounts: [` + mount + `]}]}`,
		},
		"not when the pod has no volume with it": {pod: `{volumes: [], containers: [{name: web}, ` + bare + `]}`},
		"not when a container of the pod is without it": {
			pod: `{volumes: [` + volume + `], containers: [{name: web, volumeMounts: [` + mount + `]}, {name: db}, ` + bare + `]}`,
		},
		"not when the pod mounts another volume there": {
			pod: `{volumes: [` + volume + `], containers: [{name: web, volumeMounts: [{name: own, mountPath: /var/run/secrets/kubernetes.io/serviceaccount}]}, ` + bare + `]}`,
		},
		"not when the pod asks for no token": {
			pod: `{automountServiceAccountToken: false, volumes: [` + volume + `], containers: [{name: web, volumeMounts: [` + mount + `]}, ` + bare + `]}`,
		},
		"not over what the sidecar mounts there": {
			pod: `{volumes: [` + volume + `], containers: [{name: web, volumeMounts: [` + mount + `]}, {name: agent, ` + marked +
				`, volumeMounts: [{name: own, mountPath: /var/run/secrets/kubernetes.io/serviceaccount}]}]}`,
		},
		"not into a pod without a spec": {pod: `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			pod, want := object(t, "spec: "+tc.pod), object(t, "spec: "+tc.pod)
			if tc.want != "" {
				want = object(t, "spec: "+tc.want)
			}
			sidecar.MountToken(pod)
			if diff := cmp.Diff(want, pod); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			sidecar.MountToken(pod)
			if diff := cmp.Diff(want, pod); diff != "" {
				t.Errorf("a second time (-want +got):\n%s", diff)
			}
		})
	}
}
