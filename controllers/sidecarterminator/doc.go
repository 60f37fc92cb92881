// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package sidecarterminator stops the sidecars of pods whose main containers are done, so the pods and their
// jobs can end. Environment variables mark sidecars. It runs while the feature gate SidecarTerminator is on, for
// pods with such sidecars and restartPolicy Never or OnFailure.
//
// On nodes it creates a ContainerRecreateRequest for the node's daemon; on virtual nodes it changes the sidecars' images.
//
// Read controller.go, and then the pure package plan, the decisions.
package sidecarterminator
