// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package cri is the node daemon's client of the container runtimes of its node, over the Container Runtime Interface v1. Where a
// node has several, the ID of a container says which of them is asked about it.
//
// What it promises:
//
//   - It never starts or changes a container. It lists containers, stops them, runs commands in them, and lists and pulls images.
//   - Every request has a deadline: that of its context, or one of its own.
//   - A runtime that is not there yet, restarts or moves to another of the known sockets is found again by itself. Requests fail with ErrUnavailable meanwhile, which does not say whether the requested object exists.
//   - Credentials are passed only to the runtime, and never to logs, errors or metrics.
package cri

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrUnavailable says that no runtime answers. What was asked for is neither done nor refused: ask again later.
var ErrUnavailable = errors.New("the container runtime does not answer")

// ErrNotFound says that the runtime does not have what was asked for.
var ErrNotFound = errors.New("the container runtime does not have it")

// ErrOutput says that a command in a container has written more than is read. Whether it has succeeded is not known.
var ErrOutput = errors.New("the command writes more than the limit")

// Runtime is a container runtime. It is safe for concurrent use.
type Runtime interface {
	// Status asks whether the runtime is there, and what it is.
	Status(ctx context.Context) (Status, error)

	// ListPods lists the sandboxes of pods.
	ListPods(ctx context.Context, filter PodFilter) ([]Pod, error)
	// ListContainers lists containers, also those that have ended.
	ListContainers(ctx context.Context, filter ContainerFilter) ([]Container, error)
	// ContainerStatus returns the status of one container; ErrNotFound when it does not exist any more.
	ContainerStatus(ctx context.Context, id string) (ContainerStatus, error)
	// StopContainer ends a container: its own signal first, and the end by force after grace. It returns when the container has ended. One
	// that has ended already is no error.
	StopContainer(ctx context.Context, id string, grace time.Duration) error
	// Exec runs a command in a container and returns what it wrote. A command that ends with another code than 0 is no error; one that
	// takes longer than timeout is, and one that writes more than a MiB: ErrOutput.
	Exec(ctx context.Context, id string, command []string, timeout time.Duration) (ExecResult, error)

	// ListImages lists the images of the node.
	ListImages(ctx context.Context) ([]Image, error)
	// ImageStatus looks an image up by any of its references; ErrNotFound when the node does not have it.
	ImageStatus(ctx context.Context, reference string) (Image, error)
	// PullImage pulls an image and returns the reference by which the runtime knows it. It takes as long as ctx lets it.
	PullImage(ctx context.Context, pull Pull) (string, error)
	// RemoveImage removes an image. One that is gone is no error.
	RemoveImage(ctx context.Context, reference string) error
}

// Several is a Runtime that stands for all runtimes of a node: by itself it is the first of them that answers.
type Several interface {
	Runtime
	// Of returns the runtime of a name, which is the scheme of its container IDs. Its requests fail with a NoRuntimeError while other runtimes of
	// the node answer, but not this one.
	Of(name string) Runtime
}

// Of returns the runtime of a name, where there are several, and runtime otherwise. Without a name it is the first that answers.
func Of(runtime Runtime, name string) Runtime {
	if several, ok := runtime.(Several); ok && name != "" {
		return several.Of(name)
	}
	return runtime
}

// NoRuntimeError says that runtimes answer on all sockets that exist, and that none of them has the name. It is an ErrUnavailable: the one with the name
// may be starting.
type NoRuntimeError struct {
	// Name is the one that is looked for.
	Name string
	// Answering are the names of those that answer.
	Answering []string
}

// Error implements error.
func (e *NoRuntimeError) Error() string {
	return fmt.Sprintf("%s: the node has no %s that listens on a known socket, only %s", ErrUnavailable, e.Name, strings.Join(e.Answering, ", "))
}

// Unwrap says what it is.
func (e *NoRuntimeError) Unwrap() error { return ErrUnavailable }

// Status is the status that a runtime reports.
type Status struct {
	// Name is for example containerd; container IDs in the status of pods have it as their scheme. Version is that of the runtime.
	Name, Version string
	// Ready says that it could start containers. One that is not may still answer, and pull images.
	Ready bool
	// Message says why it is not ready.
	Message string
}

// PodFilter narrows ListPods. Empty fields let everything through.
type PodFilter struct {
	// UID is that of the pod.
	UID string
}

// Pod is the sandbox of a pod.
type Pod struct {
	// ID is the runtime's, without a scheme.
	ID string
	// Namespace, Name and UID are the pod's.
	Namespace, Name, UID string
	// Ready says that it runs.
	Ready bool
	// Created is when it was created.
	Created time.Time
	// Annotations are those that the kubelet gave it.
	Annotations map[string]string
}

// ContainerFilter narrows ListContainers. Empty fields let everything through.
type ContainerFilter struct {
	// ID is that of one container, without a scheme.
	ID string
	// PodUID is that of its pod.
	PodUID string
}

// State is what a container is at.
type State string

// The states of containers.
const (
	Created State = "Created"
	Running State = "Running"
	Exited  State = "Exited"
	Unknown State = "Unknown"
)

// Container is a container of a pod.
type Container struct {
	// ID is the runtime's, without a scheme.
	ID string
	// Name is the container's name in its pod, Attempt counts those of that name from 0.
	Name    string
	Attempt uint32
	// PodNamespace, PodName and PodUID are those of its pod.
	PodNamespace, PodName, PodUID string
	// State is what it is at.
	State State
	// Created is when it was created.
	Created time.Time
	// Image is the image that was asked for, ImageRef the one that it runs, as the runtime names them.
	Image, ImageRef string
	// Labels and Annotations are those that the kubelet gave it.
	Labels, Annotations map[string]string
}

// Newest are the newest of some containers, by name.
func Newest(containers []Container) map[string]Container {
	newest := map[string]Container{}
	for _, container := range containers {
		known, found := newest[container.Name]
		if !found || container.Created.After(known.Created) || container.Created.Equal(known.Created) && container.Attempt > known.Attempt {
			newest[container.Name] = container
		}
	}
	return newest
}

// ContainerStatus is the status of a container.
type ContainerStatus struct {
	Container
	// Started and Finished are when it was started and has ended; zero before.
	Started, Finished time.Time
	// ExitCode and Reason say how it has ended.
	ExitCode int32
	Reason   string
	// Environment is the environment that it was created with, in the order of the runtime, as NAME=value. It is nil where the runtime does
	// not tell. It may hold secrets.
	Environment []string
}

// ExecResult is what a command wrote, and how it ended.
type ExecResult struct {
	Stdout, Stderr []byte
	ExitCode       int32
}

// Image is an image of the node.
type Image struct {
	// ID is the runtime's.
	ID string
	// Tags and Digests are the references that it has.
	Tags, Digests []string
	// Size is in bytes.
	Size uint64
}

// Pull is what is pulled, and how.
type Pull struct {
	// Image is the full reference.
	Image string
	// Credentials are for the registry; nil pulls without.
	Credentials *Credentials
	// Labels and Annotations tell the runtime for what kind of pod the image is pulled.
	Labels, Annotations map[string]string
}

// Credentials are what a registry wants to see. Fields that are empty are not sent. The address of a server never is: containerd gives credentials with
// one to nobody but the host of that URL, so not to a mirror. Whoever gives credentials has found out that they are for the image.
type Credentials struct {
	Username, Password           string
	Auth                         string
	IdentityToken, RegistryToken string
}

// String keeps credentials out of whatever is printed.
func (Credentials) String() string { return "(credentials)" }

// GoString keeps credentials out of whatever is printed.
func (Credentials) GoString() string { return "(credentials)" }
