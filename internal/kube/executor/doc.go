// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package executor carries out plans: it turns actions into requests, many at a time, and reports their outcomes. It knows verbs and objects,
// but no kinds: a pod, a Job and a Secret in another namespace are written in the same way.
//
// What it promises:
//
//   - Actions begin in the order of the plan. As in the controllers of Kubernetes the start is slow: one action runs at first, and their
//     number doubles with every round of successes, up to the size of the pool that all owners of a manager share. It falls back to one when
//     the server refuses something, and when nobody wrote to the namespace for ten seconds.
//   - Actions are independent: one that fails holds back no other, except that the others of a step (all creations, say) in a namespace
//     wait for a while after it was refused three times in a row, or met nothing but ten conflicts.
//   - Every request has a deadline. Actions that have not begun when the time slice is over are left for the next plan,
//     so that a long list of creations does not hold back what became urgent meanwhile.
//   - Namespaces do not wait for each other, neither those of different owners nor those that one owner writes to: what counts is where
//     the object lies. A namespace in which requests hang leaves most of the pool to the others, and an owner that writes to several namespaces
//     gives up requests that hang a few seconds after its time slice.
//   - An action that is refused is tried again after 1 s, doubling to 15 min, or to 8 s when the server failed instead of refusing, had too many
//     requests, or did not recognize the operator. It is identified by its step, its namespace and its object's name, or by the key that the plan
//     gives it where names are new each time. A changed spec and a restart forget this; then the next try comes at once. It counts as a failure
//     until it succeeds, also where there is no time for its next try.
//   - A pod that has failed is replaced at once the first time. If its slot's next ones fail too, each waits twice as long, from 1 s to
//     15 min, until ten minutes go well or the pods are created from something else, such as another revision.
//   - Conflicts, and objects that are gone, are ordinary: no event, no error; the next plan sees the newer state.
//   - It keeps no state but State, which the caller keeps with the owner, and for ten seconds how many actions ran at a time in each namespace.
package executor
