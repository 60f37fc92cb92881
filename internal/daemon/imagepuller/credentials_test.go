// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package imagepuller

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/internal/daemon/cri"
)

// A Secret good for the kubelet is good for images pulled ahead.
func TestCredentialsAreReadAsTheKubeletReadsThem(t *testing.T) {
	ann := cri.Credentials{Username: "ann", Password: "secret:1"}
	for name, tc := range map[string]struct {
		entry string
		want  cri.Credentials
	}{
		"two fields":             {`{"username":"ann","password":"secret:1"}`, ann},
		"auth":                   {`{"auth":"YW5uOnNlY3JldDox"}`, ann},
		"auth with padding":      {`{"auth":"Ym9iOnB3ZA=="}`, cri.Credentials{Username: "bob", Password: "pwd"}},
		"auth without padding":   {`{"auth":"Ym9iOnB3ZA"}`, cri.Credentials{Username: "bob", Password: "pwd"}},
		"auth beside fields":     {`{"username":"old","password":"old","auth":"YW5uOnNlY3JldDox"}`, ann},
		"auth that is no base64": {`{"username":"ann","password":"secret:1","auth":"?"}`, ann},
		"auth without a colon":   {`{"username":"ann","password":"secret:1","auth":"YW5u"}`, ann},
	} {
		t.Run(name, func(t *testing.T) {
			secret := &corev1.Secret{Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{"registry.example":` + tc.entry + `}}`)}}
			if diff := cmp.Diff([]cri.Credentials{tc.want}, credentialsFor("registry.example/team/web:v1", []*corev1.Secret{secret})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
