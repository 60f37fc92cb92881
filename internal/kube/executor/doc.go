// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package executor carries out plans: it turns actions into requests, many at a time, and reports their outcomes. It knows verbs and objects,
// but no kinds: a pod, a Job and a Secret in another namespace are written in the same way.
//
// Its promises:
//
//   - Actions begin in the order of the plan. As in the controllers of Kubernetes the start
//     is slow: one action first, and with every round of successes twice as many, up to the
//     pool all owners of a manager share. A refusal, or ten seconds without writes to the
//     namespace, starts again at one.
//   - A failed action holds back no other. But after three refusals in a row, or ten
//     conflicts and nothing else, the other actions of its step (all creations, say) in the
//     namespace wait for a while.
//   - Every request has a deadline. Actions not begun within the time slice are left to the
//     next plan, so a long list of creations does not hold back urgent ones.
//   - Namespaces of objects do not wait for each other, even those of one owner. A
//     namespace with hanging requests leaves most of the pool to the others, and an owner
//     of objects in several namespaces gives up hanging requests a few seconds after its
//     time slice.
//   - A refused action is retried after 1 s, doubling to 15 min, or to 8 s if the server
//     failed, had too many requests, or did not recognize the operator. Its identity is its
//     step, namespace and object's name, or the plan's key if names are new each time. A
//     changed spec or a restart forgets the refusal and retries at once. It counts as a
//     failure until it succeeds, even without time for its next try.
//   - A failed pod is replaced at once the first time. If the slot's next ones fail too,
//     each waits twice as long, from 1 s to 15 min, until ten minutes go well or the pods'
//     source, such as the revision, changes.
//   - Conflicts and missing objects are ordinary: no event, no error; the next plan sees
//     the newer state.
//   - Its only state is State, kept by the caller with the owner, and for ten seconds the
//     number of parallel actions by namespace.
package executor
