// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

func TestHashOfARevision(t *testing.T) {
	stored := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{shared.LabelRevisionHash: "abc"}}}
	for name, tc := range map[string]struct {
		revision Revision
		want     string
	}{
		"not stored yet: by its name":     {Revision{Name: "my-web-5875b4cdfb"}, "5875b4cdfb"},
		"the hash alone":                  {Revision{Name: "5875b4cdfb"}, "5875b4cdfb"},
		"its label wins over its name":    {Revision{Name: "my-web-5875b4cdfb", Object: stored}, "abc"},
		"stored without a label, by name": {Revision{Name: "my-web-5875b4cdfb", Object: &appsv1.ControllerRevision{}}, "5875b4cdfb"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.revision.Hash(); got != tc.want {
				t.Errorf("the hash is %q, want %q", got, tc.want)
			}
		})
	}
}
