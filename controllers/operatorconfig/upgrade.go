// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package operatorconfig

import (
	"fmt"
	"time"

	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
)

// upgradeTimeout is how long a migration or a takeover may hold an upgrade up. While an upgrade is held up, the Operator Lifecycle
// Manager has already replaced the CRDs, so this must stay short.
const upgradeTimeout = 10 * time.Minute

// Work is something that should not be cut off by an upgrade.
type Work struct {
	// Reason is ReasonMigrating or ReasonTakingOver; empty when nothing is under way.
	Reason string
	// Message is what is under way, for people.
	Message string
	// Since is when it began; when zero, when it was first seen.
	Since time.Time
}

// Upgrade says whether the operator may be replaced by another version.
type Upgrade struct {
	// Allowed: it may.
	Allowed bool
	// Reason and Message say why, or what goes on all the same.
	Reason, Message string
	// Recheck is when time alone changes the answer; zero: never.
	Recheck time.Duration
}

// UpgradeDuring says whether the operator may be replaced while work is under way. Rollouts are no such work: they survive it.
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
