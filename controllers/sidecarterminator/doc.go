// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package sidecarterminator stops the sidecars of pods whose main containers are done, so that the pods, and their jobs, can end. Sidecars are
// marked by variables in their environment. It runs while the feature gate SidecarTerminator is on, and only handles pods with restartPolicy
// Never or OnFailure that have such sidecars.
//
// On nodes it creates a ContainerRecreateRequest, which the daemon of the node carries out; on virtual nodes it changes the images of the
// sidecars.
//
// Read controller.go, and then the pure package plan, the decisions.
package sidecarterminator
