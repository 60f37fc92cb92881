// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package simnode runs simulated nodes: Node objects with heartbeats, and one fake kubelet
// reporting on their pods like a real one, without running anything. It is test
// infrastructure.
//
// It holds:
//
//   - Pods are changed through pods/status alone, and only in a kubelet's fields.
//     Conditions of readiness gates are read and never written.
//   - Nothing is written without a change. A controller's Ready=False with the same meaning
//     stays.
//   - A status has the states observers of a real node may rely on. A changed image is
//     first reported as observed (observedGeneration of status and conditions) with the old
//     container running and ready; the new container comes with the next write. A container
//     that completes has been seen running.
//   - Everything else takes as few writes as possible. Without delays a pod needs one write to start (Running, containers
//     ready), two for a new image, one for new resources, and two to go (its end, its deletion).
//   - The same image name has the same image ID everywhere. Container IDs are unique for each start.
//   - Start on a cluster with simulated nodes from before takes over the nodes and continues their pods.
//
// # ConfigMaps
//
// A container whose environment refers to a key of a ConfigMap waits with the reason
// CreateContainerConfigError for the key; every change of the pod looks again, and so does
// each Options.BackOff. Nothing else about ConfigMaps is simulated.
//
// # Annotations of pods
//
// They are read from the living pod, so changes affect a running pod. A duration is one of
// Go's, such as 300ms, or "never". Values per container may be a list: "2s" is for all
// containers, "main=2s,side=never" for single ones, "1s,side=5s" for side and the rest.
// "Names" is "true" for all containers or a list of names. A faulty annotation is logged; a
// new pod waits with the reason CreateContainerConfigError and the complaint, a running one
// goes on as before.
//
//	sim.kruise.io/start-delay       duration, per container: the pod stays Pending that long; with a name, that container
//	                                begins that much later than it could
//	sim.kruise.io/init-delay        duration, per container: how long ordinary init containers run
//	sim.kruise.io/ready-delay       duration, per container: from running to ready, at every start
//	sim.kruise.io/not-ready         names: running, but not ready
//	sim.kruise.io/restart-delay     duration, per container: from observing a changed image to the new container
//	sim.kruise.io/crash-loop        names: the container ends with exit code 1 and is restarted with back-off by its
//	                                policy; without the annotation it heals at once
//	sim.kruise.io/crash-after       duration, per container: how long each run of a crashing container lasts (0: it is
//	                                never seen running)
//	sim.kruise.io/complete-after    duration, per container: the container ends with exit-code after that time. The
//	                                default is Delays.Complete for the restart policies Never and OnFailure, else never
//	sim.kruise.io/fail-after        duration since the pod's start: the node evicts the pod (phase Failed)
//	sim.kruise.io/exit-code         0 to 255, per container: for ends by complete-after, crash-loop, init containers and,
//	                                without a name, deletion. The default is 0
//	sim.kruise.io/ephemeral-complete-after, ephemeral-exit-code
//	                                the same for all ephemeral containers, whose names are not known beforehand
//	sim.kruise.io/image-pull-fails  names: ErrImagePull, then ImagePullBackOff, until removed. An image whose reference
//	                                contains "unpullable" fails in the same way. A container that ran keeps its ID, image
//	                                and image ID in the status
//	sim.kruise.io/image-id          text, per container: the image ID reported by the next start. Two tags can share one
//	sim.kruise.io/status-image      text, per container: the image name reported by the next start, for runtimes that
//	                                keep the first of several tags
//	sim.kruise.io/resize            deferred or infeasible: changed resources are refused with the condition
//	                                PodResizePending, until removed
//	sim.kruise.io/resize-delay      duration: from observing changed resources to having them, with PodResizeInProgress
//	sim.kruise.io/terminate-delay   duration: how long the pod lives on after its deletion, cut to its grace period
//	sim.kruise.io/hang-terminating  true: the deleted pod never ends, until removed
//	sim.kruise.io/report-gates      true: Ready=False because of a readiness gate is reported in the node's own words, whatever
//	                                message it has, so that the node writes the status each time a gate becomes False
//
// # Claims
//
// With Options.Provisioner, claims of classes with the provisioner sim.kruise.io/provisioner (see CreateStorageClass) get
// volumes, grow and lose them as with a real driver. Annotations of a claim, again read from the living object:
//
//	sim.kruise.io/provision-delay   duration since the claim's creation: no volume before
//	sim.kruise.io/expand-delay      duration: from asking for more to having it, with the condition Resizing
//	sim.kruise.io/expand            infeasible: growing is refused (ControllerResizeError); file-system-pending: the
//	                                volume grows and the claim stays at FileSystemResizePending; until removed
//
// # What else to know
//
// spec.activeDeadlineSeconds and the resizePolicy of containers are honored. Probes are not run; readiness is up to the
// annotations. Resources of whole pods, restart rules of containers, volumes and container lifecycle hooks have no effect.
package simnode
