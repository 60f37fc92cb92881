// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kruise-operator/kruise-operator/internal/platform/operands"
)

// The operator writes the daemon's command line. An unknown argument would stop it on every
// node.
func TestTheDaemonTakesTheArgumentsOfItsDaemonSet(t *testing.T) {
	for name, d := range map[string]operands.Daemon{
		"as it is":                  {Namespace: "op", Image: "x"},
		"with a socket of its own":  {Namespace: "op", Image: "x", Socket: "/run/k3s/containerd/containerd.sock"},
		"with credential providers": {Namespace: "op", Image: "x", CredentialConfig: "/etc/providers/config.yaml", CredentialFolder: "/opt/providers"},
		"without probes":            {Namespace: "op", Image: "x", Socket: "/run/cri.sock", NoProbes: true},
		"without reports":           {Namespace: "op", Image: "x", NoReports: true},
	} {
		t.Run(name, func(t *testing.T) {
			rendered, err := operands.RenderDaemon(d)
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for _, object := range rendered {
				if object.GetKind() != "DaemonSet" {
					continue
				}
				set := &appsv1.DaemonSet{}
				if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, set); err != nil {
					t.Fatal(err)
				}
				found = true
				c := command()
				if err := c.ParseFlags(set.Spec.Template.Spec.Containers[0].Args); err != nil {
					t.Error(err)
				}
				if err := c.ValidateArgs(c.Flags().Args()); err != nil {
					t.Error(err)
				}
			}
			if !found {
				t.Error("no DaemonSet is rendered")
			}
		})
	}
}
