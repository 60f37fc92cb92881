// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package executor carries out plans: it turns actions into requests, many at a time, and says what became of them.
//
// What it promises:
//
//   - Actions begin in the order of the plan. How many run at once starts at one and doubles with every round of successes, up to
//     the size of the pool that all workloads of a manager share; it falls back to one when the server refuses something, and
//     when the workload had nothing to do for ten seconds.
//   - Actions are independent: one that fails holds back no other, except that a verb is left alone for the rest of the pass after it
//     was refused three times in a row, or met nothing but ten conflicts.
//   - Every request has a deadline. Actions that have not begun when the time slice of the pass is over are left for the next pass,
//     so that a long list of creations does not hold back what became urgent meanwhile.
//   - Namespaces do not wait for each other: one in which requests hang leaves most of the pool to the others.
//   - Every write is reported to the freshness tracker before it can matter: its resourceVersion, that it is in doubt, or, for a
//     deletion, that it is about to happen.
//   - A slot whose action is refused is tried again after 1 s, doubling to 15 min, or to 8 s when the server failed
//     instead of refusing. A changed spec and a restart forget this; then the next try comes at once.
//   - A pod that has failed is deleted at once the first time. If its slot's next ones fail too, each waits twice as long, from 1 s to
//     15 min, until ten minutes go well or the spec changes.
//   - Conflicts, and objects that are gone, are ordinary: no event, no error; the next pass sees the newer state.
package executor
