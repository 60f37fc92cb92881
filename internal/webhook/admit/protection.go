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

// Protection says what the label for protection from deletion does for the objects of a kind.
type Protection struct {
	// Kind says that objects of the kind can be protected, On that the feature gate has them be.
	Kind, On bool
}

// unprotected warns about a label for protection from deletion that has no effect.
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

// protection is the value of the label, and whether there is one. Objects that do not name it, nearly all, are not decoded for it.
func protection(raw []byte) (value string, found bool) {
	object := &metav1.PartialObjectMetadata{}
	if !bytes.Contains(raw, []byte(shared.LabelDeleteProtection)) || json.Unmarshal(raw, object) != nil {
		return "", false // the rules say what is wrong with it
	}
	value, found = object.Labels[shared.LabelDeleteProtection]
	return value, found
}
