// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package webhookserving keeps the API server able to call the operator, for admission and conversion.
//
//   - The certificate (certificate.go, secret.go, serving.go) is served from a Secret. It is the mounted one of the
//     Operator Lifecycle Manager or cert-manager; otherwise the replicas make and renew their own.
//   - Publishing (endpoint.go, clientconfig.go, publish.go). One writer keeps the webhook configurations and our CRDs'
//     conversion pointing to the operator and trusting its certificate. A URL is for a process outside of the cluster.
//   - Repairing (controller.go, definitions.go, secretowner.go): by watching these objects, by admission of converted CRDs,
//     and by adding an owner to a mounted certificate's Secret, so it survives an upgrade.
//
// Every replica does this, leader or not. A wrong conversion makes objects unreadable, even for the leader's
// watches. An upgrade by the Operator Lifecycle Manager breaks all at once, just when the leader changes;
// waiting for a lease would add its duration. Replicas agree on the right state and write under optimistic
// locking, so the second finds nothing to do.
//
// Three things are left alone: a webhook or conversion calling elsewhere; a CRD with the conversion strategy
// None, the first step of an uninstall; and missing objects.
package webhookserving
