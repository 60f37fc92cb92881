// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package cri is the daemon's client of the node's container runtimes, over the Container
// Runtime Interface v1. With several runtimes, the ID of a container tells its own.
//
// Its promises:
//
//   - It never starts or changes a container. It lists containers, stops them, runs commands in them, and looks up and pulls images.
//   - Every request has a deadline: its context's, or its own.
//   - A runtime that starts late, restarts or moves to another known socket is found again.
//     Meanwhile requests fail with ErrUnavailable; the requested object may or may not
//     exist.
//   - Credentials are passed only to the runtime, and never to logs, errors or metrics.
package cri

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrUnavailable means no runtime answers. The request is neither done nor refused: ask again
// later.
var ErrUnavailable = errors.New("the container runtime does not answer")

// ErrNotFound means the runtime does not have the requested object.
var ErrNotFound = errors.New("the container runtime does not have it")

// ErrOutput means a command wrote more than is read. It may have succeeded or failed.
var ErrOutput = errors.New("the command writes more than the limit")

// Runtime is a container runtime: the one of a name, or the first of the node to answer. It is safe for concurrent use.
type Runtime interface {
	// Of returns the node's runtime of a name, the scheme of its container IDs; without a
	// name the first to answer. Its requests fail with a NoRuntimeError while only other
	// runtimes of the node answer.
	Of(name string) Runtime
	// Status asks whether the runtime answers, and returns its name, for example containerd.
	Status(ctx context.Context) (name string, err error)

	// ListContainers lists a pod's containers, ended ones too.
	ListContainers(ctx context.Context, podUID string) ([]Container, error)
	// ContainerStatus returns the status of one container; ErrNotFound when it does not exist any more.
	ContainerStatus(ctx context.Context, id string) (ContainerStatus, error)
	// StopContainer ends a container: by its own signal, and by force after grace. It
	// returns after the end. An ended one is no error.
	StopContainer(ctx context.Context, id string, grace time.Duration) error
	// Exec runs a command in a container and returns its output. Exit codes above 0 are no
	// error; taking longer than timeout is, and so is output above a MiB: ErrOutput.
	Exec(ctx context.Context, id string, command []string, timeout time.Duration) (ExecResult, error)

	// ImageID looks an image up by any of its references; ErrNotFound when the node does not have it.
	ImageID(ctx context.Context, reference string) (string, error)
	// PullImage pulls an image and returns the runtime's reference to it. Only ctx limits
	// its time.
	PullImage(ctx context.Context, pull Pull) (string, error)
}

// NoRuntimeError means that all existing sockets answer, none under the name. It is an
// ErrUnavailable: the named runtime may be starting.
type NoRuntimeError struct {
	// Name is the wanted runtime's.
	Name string
	// Answering are the names of the answering runtimes.
	Answering []string
}

// Error implements error.
func (e *NoRuntimeError) Error() string {
	return fmt.Sprintf("%s: the node has no %s that listens on a known socket, only %s", ErrUnavailable, e.Name, strings.Join(e.Answering, ", "))
}

// Unwrap returns ErrUnavailable.
func (e *NoRuntimeError) Unwrap() error { return ErrUnavailable }

// Container is a container of a pod.
type Container struct {
	// ID is the runtime's, without a scheme.
	ID string
	// Name is the container's in its pod, Attempt counts its instances from 0.
	Name    string
	Attempt uint32
	// Running and Exited are its state; neither before its start, or when it is not known.
	Running, Exited bool
	// Created is when it was created.
	Created time.Time
	// Annotations come from the kubelet.
	Annotations map[string]string
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
	// Started is when it was started; zero before.
	Started time.Time
	// ExitCode is how it has ended.
	ExitCode int32
	// Environment is the initial environment as NAME=value, in the runtime's order; nil if
	// the runtime does not tell. It may hold secrets.
	Environment []string
}

// ExecResult is a command's output and exit.
type ExecResult struct {
	Stdout, Stderr []byte
	ExitCode       int32
}

// Pull is an image to pull.
type Pull struct {
	// Image is the full reference.
	Image string
	// Credentials are for the registry; nil pulls without.
	Credentials *Credentials
	// Labels and Annotations tell the runtime the kind of pod to pull for.
	Labels, Annotations map[string]string
}

// Credentials are for a registry. Empty fields are not sent, and never a server's address:
// containerd gives credentials with one only to its host, so not to a mirror. The caller
// has checked they are for the image.
type Credentials struct {
	Username, Password           string
	IdentityToken, RegistryToken string
}

// String keeps credentials out of whatever is printed.
func (Credentials) String() string { return "(credentials)" }

// GoString keeps credentials out of whatever is printed.
func (Credentials) GoString() string { return "(credentials)" }
