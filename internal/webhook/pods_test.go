// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"bytes"
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/config"
)

// While the operator is down, the API server refuses all our webhooks match. So they match
// only our own kinds.
func TestNoWebhookMatchesPods(t *testing.T) {
	manifests, err := config.Files.ReadFile("webhook/manifests.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rules := 0
	for _, document := range bytes.Split(manifests, []byte("\n---\n")) {
		var configuration admissionv1.ValidatingWebhookConfiguration // A mutating one has its rules at the same place.
		if err := yaml.Unmarshal(document, &configuration); err != nil {
			t.Fatal(err)
		}
		for _, webhook := range configuration.Webhooks {
			for _, rule := range webhook.Rules {
				rules++
				if len(rule.APIGroups) != 1 || !slices.Contains([]string{"apps.kruise.io", "operator.kruise.io", "policy.kruise.io", "rollouts.kruise.io"}, rule.APIGroups[0]) {
					t.Errorf("webhook %s matches the groups %v", webhook.Name, rule.APIGroups)
				}
			}
		}
	}
	if rules == 0 {
		t.Fatal("the manifests have no rules")
	}
}
