// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package ext stands for the module that Traefik keeps in its own repository: the additions of its paid edition, of which there are none.
package ext

// HTTP adds nothing to the HTTP configuration.
type HTTP struct{}

// Router adds nothing to a router.
type Router struct{}
