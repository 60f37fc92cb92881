// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package operatorconfig

import (
	"strings"
	"time"

	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/brief"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// lookForRights is the wait between checks of the operator's rights.
const lookForRights = 5 * time.Second

// kindsRecheck is the wait for kinds that may soon be ready; zero: none.
func (r *Reconciler) kindsRecheck() time.Duration {
	denied := r.Denied()
	var recheck time.Duration
	for _, kind := range r.Kinds {
		switch ready(kind, denied).Reason {
		case operatorv1alpha1.KindStarting:
			recheck = workload.Earliest(recheck, syncing)
		case operatorv1alpha1.KindRightsMissing:
			recheck = workload.Earliest(recheck, lookForRights)
		}
	}
	return recheck
}

// ready is a kind's state in the status. A forbidden read may matter to any kind, so it concerns every managed one.
func ready(k Kind, denied []string) operatorv1alpha1.KindStatus {
	status := operatorv1alpha1.KindStatus{Kind: k.Name, State: operatorv1alpha1.Enabled, Ready: "False"}
	switch {
	case k.Unconfirmed != "":
		status.State, status.Reason, status.Message = operatorv1alpha1.Disabled, operatorv1alpha1.KindUnconfirmed, k.Unconfirmed
	case !k.Enabled:
		status.State, status.Reason = operatorv1alpha1.Disabled, operatorv1alpha1.KindDisabled
		status.Message = "its objects and their pods stay as they are"
	case !k.Served:
		status.Reason, status.Message = operatorv1alpha1.KindNotServed, "its CRD is missing; it is managed soon after the CRD is there"
	case len(denied) > 0:
		status.Reason, status.Message = operatorv1alpha1.KindRightsMissing, strings.Join(denied, "; ")
	case k.Synced == nil || !k.Synced():
		status.Reason, status.Message = operatorv1alpha1.KindStarting, "its objects are being read"
	default:
		status.Ready, status.Reason = "True", operatorv1alpha1.KindReady
	}
	status.Message = brief.Text(status.Message, longestOfKind)
	return status
}
