// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package critest is a container runtime in memory, for tests of the node daemon.
package critest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kruise-operator/kruise-operator/internal/daemon/cri"
)

// Runtime is a runtime in memory. Its zero value has no pods or images, and answers at
// once. It is safe for concurrent use; set the functions before use, or with Set.
type Runtime struct {
	// Name is the runtime's; containerd when empty.
	Name string
	// OnPull runs before the image is there. It may wait until ctx ends, and refuse.
	OnPull func(ctx context.Context, pull cri.Pull) error
	// OnStop runs when a container is stopped, before it ends.
	OnStop func(ctx context.Context, container cri.Container, grace time.Duration) error
	// OnExec answers for commands.
	OnExec func(ctx context.Context, container cri.Container, command []string) (cri.ExecResult, error)
	// Restart creates a stopped container again under another ID, as the kubelet does.
	Restart bool

	mu         sync.Mutex
	down       bool
	containers []container
	images     map[string]bool
	calls      []Call
	pulling    int
	most       int
}

// container is a container and its pod.
type container struct {
	cri.ContainerStatus
	pod Pod
}

// Several are the runtimes of a node. By itself it is the first of them.
type Several struct {
	*Runtime
	// Others are the further ones.
	Others []*Runtime
}

// Of implements cri.Runtime.
func (s Several) Of(name string) cri.Runtime {
	if name == "" {
		return s
	}
	for _, one := range append([]*Runtime{s.Runtime}, s.Others...) {
		if cmp.Or(one.Name, "containerd") == name {
			return one
		}
	}
	return absent{&Runtime{down: true}, name}
}

// absent is a runtime the node does not have.
type absent struct {
	*Runtime
	name string
}

// Status implements cri.Runtime.
func (a absent) Status(context.Context) (string, error) {
	return "", &cri.NoRuntimeError{Name: a.name, Answering: []string{"containerd"}}
}

// Call is a changing request, as it came.
type Call struct {
	// Verb is Pull, Stop or Exec; On is the image or the ID of the container.
	Verb, On string
	// Pull is the pull, with its credentials.
	Pull cri.Pull
	// Grace is a Stop's, Command an Exec's.
	Grace   time.Duration
	Command []string
}

// SetDown stops or resumes all answers. Pulls under way go on.
func (r *Runtime) SetDown(down bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = down
}

// AddImage puts an image on the node.
func (r *Runtime) AddImage(reference string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(reference)
}

func (r *Runtime) add(reference string) {
	if r.images == nil {
		r.images = map[string]bool{}
	}
	r.images[reference] = true
}

// Pod names a pod.
type Pod struct{ Namespace, Name, UID string }

// AddPod adds a pod and its containers. These get its names and UID.
func (r *Runtime) AddPod(pod Pod, containers ...cri.ContainerStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, status := range containers {
		status.Running = !status.Exited
		r.containers = append(r.containers, container{status, pod})
	}
}

// Calls are the changing requests, in order.
func (r *Runtime) Calls() []Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}

// Pulls counts the pulls of an image.
func (r *Runtime) Pulls(image string) int {
	n := 0
	for _, call := range r.Calls() {
		if call.Verb == "Pull" && call.On == image {
			n++
		}
	}
	return n
}

// MaxPulls is how many pulls were under way at the same time, at most.
func (r *Runtime) MaxPulls() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.most
}

func (r *Runtime) reachable() error {
	if r.down {
		return fmt.Errorf("asking: %w", cri.ErrUnavailable)
	}
	return nil
}

// Of implements cri.Runtime: it is the only one.
func (r *Runtime) Of(string) cri.Runtime { return r }

// Status implements cri.Runtime.
func (r *Runtime) Status(context.Context) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return cmp.Or(r.Name, "containerd"), r.reachable()
}

// ListContainers implements cri.Runtime.
func (r *Runtime) ListContainers(_ context.Context, podUID string) ([]cri.Container, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []cri.Container
	for _, container := range r.containers {
		if container.pod.UID == podUID {
			found = append(found, container.Container)
		}
	}
	return found, r.reachable()
}

// ContainerStatus implements cri.Runtime.
func (r *Runtime) ContainerStatus(_ context.Context, id string) (cri.ContainerStatus, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.reachable(); err != nil {
		return cri.ContainerStatus{}, err
	}
	at, err := r.find(id)
	if err != nil {
		return cri.ContainerStatus{}, err
	}
	return r.containers[at].ContainerStatus, nil
}

func (r *Runtime) find(id string) (int, error) {
	at := slices.IndexFunc(r.containers, func(c container) bool { return c.ID == id })
	if at < 0 {
		return at, fmt.Errorf("container %s: %w", id, cri.ErrNotFound)
	}
	return at, nil
}

// StopContainer implements cri.Runtime.
func (r *Runtime) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	container, err := r.begin(Call{Verb: "Stop", On: id, Grace: grace})
	if err != nil {
		return err
	}
	if r.OnStop != nil {
		if err := r.OnStop(ctx, container.Container, grace); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	at, err := r.find(id)
	if err != nil || r.containers[at].Exited {
		return err
	}
	r.containers[at].Running, r.containers[at].Exited = false, true
	if r.Restart {
		next := r.containers[at]
		next.ID, next.Attempt = fmt.Sprintf("%s-%d", id, next.Attempt+1), next.Attempt+1
		next.Running, next.Exited = true, false
		next.Created, next.Started = time.Now(), time.Now()
		r.containers = append(r.containers, next)
	}
	return nil
}

// begin notes a call about a container.
func (r *Runtime) begin(call Call) (cri.ContainerStatus, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.reachable(); err != nil {
		return cri.ContainerStatus{}, err
	}
	at, err := r.find(call.On)
	if err != nil {
		return cri.ContainerStatus{}, err
	}
	r.calls = append(r.calls, call)
	return r.containers[at].ContainerStatus, nil
}

// Exec implements cri.Runtime.
func (r *Runtime) Exec(ctx context.Context, id string, command []string, timeout time.Duration) (cri.ExecResult, error) {
	container, err := r.begin(Call{Verb: "Exec", On: id, Command: command})
	if err != nil || r.OnExec == nil {
		return cri.ExecResult{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return r.OnExec(ctx, container.Container, command)
}

// ImageID implements cri.Runtime.
func (r *Runtime) ImageID(_ context.Context, reference string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.reachable(); err != nil {
		return "", err
	}
	if !r.images[reference] {
		return "", fmt.Errorf("image %s: %w", reference, cri.ErrNotFound)
	}
	return "sha256:" + reference, nil
}

// PullImage implements cri.Runtime.
func (r *Runtime) PullImage(ctx context.Context, pull cri.Pull) (string, error) {
	r.mu.Lock()
	if err := r.reachable(); err != nil {
		r.mu.Unlock()
		return "", err
	}
	r.calls = append(r.calls, Call{Verb: "Pull", On: pull.Image, Pull: pull})
	r.pulling++
	r.most = max(r.most, r.pulling)
	r.mu.Unlock()
	var err error
	if r.OnPull != nil {
		err = r.OnPull(ctx, pull)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pulling--
	if err != nil {
		return "", err
	}
	r.add(pull.Image)
	return "sha256:" + pull.Image, nil
}
