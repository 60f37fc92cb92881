// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package operatorconfig

import (
	"fmt"
	"time"

	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
)

// upgradeTimeout limits how long a migration or takeover holds an upgrade up. The Operator Lifecycle Manager has
// then already replaced the CRDs, so it must stay short.
const upgradeTimeout = 10 * time.Minute

// Work should not be cut off by an upgrade.
type Work struct {
	// Reason is ReasonMigrating or ReasonTakingOver; empty when nothing is under way.
	Reason string
	// Message describes the work for people.
	Message string
	// Since is when it began; when zero, when it was first seen.
	Since time.Time
}

// Upgrade tells if another version may replace the operator.
type Upgrade struct {
	// Allowed: it may.
	Allowed bool
	// Reason and Message say why, or describe allowed work.
	Reason, Message string
	// Recheck is when time alone changes the answer; zero: never.
	Recheck time.Duration
}

// UpgradeDuring tells if the operator may be replaced during the work. Rollouts do not count: they survive it.
func UpgradeDuring(work Work, now time.Time) Upgrade {
	if work.Reason == "" {
		return Upgrade{Allowed: true, Reason: operatorv1alpha1.ReasonAsExpected}
	}
	if left := upgradeTimeout - now.Sub(work.Since); left > 0 {
		return Upgrade{Reason: work.Reason, Message: work.Message, Recheck: left}
	}
	return Upgrade{
		Allowed: true, Reason: operatorv1alpha1.ReasonTookTooLong,
		Message: fmt.Sprintf("goes on after %s: %s", upgradeTimeout, work.Message),
	}
}
