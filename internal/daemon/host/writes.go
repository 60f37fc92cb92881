// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package host

import "time"

const (
	// Settling is for how long changes are gathered before a status is written.
	Settling = 200 * time.Millisecond
	// burst is how many writes of a status may follow each other, spacing how far apart others are.
	burst   = 5
	spacing = 2 * time.Second
)

// Writes are when the status of an object of the node was written last. The zero value: it was not. It is for one goroutine.
type Writes struct{ at []time.Time }

// Wait is how long the next write has to wait.
func (w *Writes) Wait(now time.Time) time.Duration {
	if len(w.at) < burst {
		return 0
	}
	return max(w.at[0].Add(burst*spacing).Sub(now), 0)
}

// Note notes a write.
func (w *Writes) Note(now time.Time) {
	w.at = append(w.at, now)
	w.at = w.at[max(len(w.at)-burst, 0):]
}
