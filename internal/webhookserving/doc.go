// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package webhookserving keeps the API server able to call the operator, for admission and for conversion.
//
//   - The certificate (certificate.go, secret.go, serving.go) is in a Secret, and served from there. Where the Operator Lifecycle Manager or cert-manager
//     mounts one, it is the Secret behind the files; otherwise the replicas make and renew one of their own.
//   - Publishing (endpoint.go, clientconfig.go, publish.go). One writer keeps the webhook configurations and the conversion of our CRDs pointing to
//     the operator and trusting its certificate. A URL instead of the Service is for a process outside of the cluster.
//   - Repairing (controller.go, definitions.go, secretowner.go): by watching these objects, by admission of the CRDs with conversion, and by
//     adding an owner to the Secret of a mounted certificate so that it survives an upgrade.
//
// Every replica does this, leader or not. A wrong conversion makes objects unreadable, for the leader's own watches, too, and an upgrade under
// the Operator Lifecycle Manager breaks all of them at once, just when the leader changes; waiting for a lease would add its whole duration.
// Replicas agree on what is right and write under optimistic locking, so the second one finds nothing to do.
//
// Three things are left alone: a webhook or a conversion that calls something else than the operator's endpoint; a CRD whose conversion strategy is
// None, which is how an uninstall begins; and what does not exist.
package webhookserving
