// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

// Protecting says whether the label policy.kruise.io/delete-protection is honored for the kind. Where it is not, who sets it is warned.
func (k Kind) Protecting(yes bool) Kind {
	k.protects = yes
	return k
}

// unprotected warns of a label that asks for protection from deletion, and gets none. It is told once, to whoever sets the label.
func (k Kind) unprotected(req admission.Request) []string {
	value, found := protection(req.Object.Raw)
	if !found {
		return nil
	}
	if before, had := protection(req.OldObject.Raw); had && value == before {
		return nil
	}
	switch known := value == shared.DeleteProtectionAlways || value == shared.DeleteProtectionCascading; {
	case !known:
		return []string{fmt.Sprintf("metadata.labels[%s]: %q protects from nothing; use %s or %s",
			shared.LabelDeleteProtection, value, shared.DeleteProtectionAlways, shared.DeleteProtectionCascading)}
	case !k.protects:
		return []string{fmt.Sprintf("metadata.labels[%s]: ignored, because the feature gate ResourcesDeletionProtection is off", shared.LabelDeleteProtection)}
	}
	return nil
}

// protection is the value of the label, and whether there is one. Objects that do not name it, nearly all, are not decoded for it.
func protection(raw []byte) (value string, found bool) {
	object := &metav1.PartialObjectMetadata{}
	if !bytes.Contains(raw, []byte(shared.LabelDeleteProtection)) || json.Unmarshal(raw, object) != nil {
		return "", false // the rules say what is wrong with it
	}
	value, found = object.Labels[shared.LabelDeleteProtection]
	return value, found
}
