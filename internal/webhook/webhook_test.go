// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"net/http/httptest"
	"strings"
	"testing"

	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/kruise-operator/kruise-operator/controllers"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

func TestEveryKindWithAdmissionIsServed(t *testing.T) {
	server := ctrlwebhook.NewServer(ctrlwebhook.Options{})
	Register(server, controllers.All(), admit.Deps{})
	for _, kind := range controllers.Table().Where(func(k kinds.Kind) bool { return k.Admission }) {
		suffix := "-" + strings.ReplaceAll(kind.Group, ".", "-") + "-" + kind.Storage + "-" + kind.Lower()
		for _, path := range []string{"/mutate" + suffix, "/validate" + suffix} {
			if _, pattern := server.WebhookMux().Handler(httptest.NewRequest("POST", path, nil)); pattern != path {
				t.Errorf("nothing serves %s of %s", path, kind.Name)
			}
		}
	}
}
