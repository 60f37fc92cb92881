// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"bytes"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/webhook/rules"
)

// Protection is the effect of the deletion-protection label on a kind's objects.
type Protection struct {
	// Kind is true if its objects can be protected, On if the feature gate enables it.
	Kind, On bool
}

// unprotected warns of a deletion-protection label without effect.
func unprotected(req ctrladmission.Request, kind string, protects Protection) []string {
	value, found := protection(req.Object.Raw)
	if !found {
		return nil
	}
	if before, had := protection(req.OldObject.Raw); had && value == before {
		return nil
	}
	path := "metadata.labels[" + shared.LabelDeleteProtection + "]"
	switch known := value == shared.DeleteProtectionAlways || value == shared.DeleteProtectionCascading; {
	case !protects.Kind:
		return []string{fmt.Sprintf("%s: has no effect; objects of the kind %s cannot be protected from deletion", path, kind)}
	case !known:
		return []string{fmt.Sprintf("%s: %q protects from nothing; use %s or %s",
			path, value, shared.DeleteProtectionAlways, shared.DeleteProtectionCascading)}
	case !protects.On:
		return []string{rules.Ignored(path, "ResourcesDeletionProtection")}
	}
	return nil
}

// protection is the label's value, if there is one. Objects without it, nearly all, are not
// decoded.
func protection(raw []byte) (value string, found bool) {
	object := &metav1.PartialObjectMetadata{}
	if !bytes.Contains(raw, []byte(shared.LabelDeleteProtection)) || json.Unmarshal(raw, object) != nil {
		return "", false // the rules say what is wrong with it
	}
	value, found = object.Labels[shared.LabelDeleteProtection]
	return value, found
}
