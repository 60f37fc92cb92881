// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The kubelet's labels for the owner of a container.
const (
	labelPodName       = "io.kubernetes.pod.name"
	labelPodNamespace  = "io.kubernetes.pod.namespace"
	labelPodUID        = "io.kubernetes.pod.uid"
	labelContainerName = "io.kubernetes.container.name"
)

const (
	// timeout is the deadline of quick requests.
	timeout = 10 * time.Second
	// stopMargin is how much longer than its grace the end of a container may take.
	stopMargin = 30 * time.Second
	// shortestGrace is the least grace period: the runtime counts in seconds.
	shortestGrace = time.Second
)

// errSilent: a request ended by its own timeout, not its caller's deadline.
var errSilent = errors.New("the container runtime takes too long to answer")

// Status implements Runtime.
func (c *Client) Status(ctx context.Context) (Status, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, errSilent)
	defer cancel()
	link, err := c.connected(ctx)
	if err != nil {
		return Status{}, err
	}
	answer, err := link.runtime.Status(ctx, &runtimev1.StatusRequest{})
	if err != nil {
		return Status{}, c.unanswered(ctx, link, "asking for its status", err)
	}
	result := Status{Name: link.name, Version: link.version, Ready: true}
	for _, condition := range answer.GetStatus().GetConditions() {
		if condition.GetType() == runtimev1.RuntimeReady && !condition.GetStatus() {
			result.Ready, result.Message = false, condition.GetReason()+": "+condition.GetMessage()
		}
	}
	return result, nil
}

// ListPods implements Runtime.
func (c *Client) ListPods(ctx context.Context, filter PodFilter) ([]Pod, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, errSilent)
	defer cancel()
	link, err := c.connected(ctx)
	if err != nil {
		return nil, err
	}
	answer, err := link.runtime.ListPodSandbox(ctx, &runtimev1.ListPodSandboxRequest{
		Filter: &runtimev1.PodSandboxFilter{LabelSelector: selector(filter.UID)},
	})
	if err != nil {
		return nil, c.unanswered(ctx, link, "listing pods", err)
	}
	pods := make([]Pod, 0, len(answer.GetItems()))
	for _, item := range answer.GetItems() {
		pods = append(pods, Pod{
			ID: item.GetId(), Namespace: item.GetMetadata().GetNamespace(), Name: item.GetMetadata().GetName(), UID: item.GetMetadata().GetUid(),
			Ready: item.GetState() == runtimev1.PodSandboxState_SANDBOX_READY, Created: time.Unix(0, item.GetCreatedAt()),
			Annotations: item.GetAnnotations(),
		})
	}
	return pods, nil
}

// ListContainers implements Runtime.
func (c *Client) ListContainers(ctx context.Context, filter ContainerFilter) ([]Container, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, errSilent)
	defer cancel()
	link, err := c.connected(ctx)
	if err != nil {
		return nil, err
	}
	answer, err := link.runtime.ListContainers(ctx, &runtimev1.ListContainersRequest{
		Filter: &runtimev1.ContainerFilter{Id: filter.ID, LabelSelector: selector(filter.PodUID)},
	})
	if err != nil {
		return nil, c.unanswered(ctx, link, "listing containers", err)
	}
	containers := make([]Container, 0, len(answer.GetContainers()))
	for _, item := range answer.GetContainers() {
		container := containerOf(item.GetMetadata(), item.GetLabels(), item.GetAnnotations())
		container.ID, container.State, container.Created = item.GetId(), stateOf(item.GetState()), time.Unix(0, item.GetCreatedAt())
		container.Image, container.ImageRef = item.GetImage().GetImage(), item.GetImageRef()
		containers = append(containers, container)
	}
	return containers, nil
}

// ContainerStatus implements Runtime.
func (c *Client) ContainerStatus(ctx context.Context, id string) (ContainerStatus, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, errSilent)
	defer cancel()
	link, err := c.connected(ctx)
	if err != nil {
		return ContainerStatus{}, err
	}
	answer, err := link.runtime.ContainerStatus(ctx, &runtimev1.ContainerStatusRequest{ContainerId: id, Verbose: true})
	if err != nil {
		return ContainerStatus{}, c.unanswered(ctx, link, "asking for the status of a container", err)
	}
	item := answer.GetStatus()
	result := ContainerStatus{
		Container: containerOf(item.GetMetadata(), item.GetLabels(), item.GetAnnotations()),
		Started:   moment(item.GetStartedAt()), Finished: moment(item.GetFinishedAt()),
		ExitCode: item.GetExitCode(), Reason: item.GetReason(), Environment: environmentOf(answer.GetInfo()["info"]),
	}
	result.ID, result.State, result.Created = item.GetId(), stateOf(item.GetState()), time.Unix(0, item.GetCreatedAt())
	result.Image, result.ImageRef = item.GetImage().GetImage(), item.GetImageRef()
	return result, nil
}

// environmentOf reads a container's environment from the details beside its status.
// containerd and CRI-O both put its configuration there, in different forms.
func environmentOf(info string) []string {
	if info == "" {
		return nil
	}
	var known struct {
		Config struct {
			Envs []struct {
				Key   string `json:"key"`
				Value string `json:"value"`
			} `json:"envs"`
		} `json:"config"`
		RuntimeSpec struct {
			Process struct {
				Env []string `json:"env"`
			} `json:"process"`
		} `json:"runtimeSpec"`
	}
	if json.Unmarshal([]byte(info), &known) != nil {
		return nil
	}
	if known.RuntimeSpec.Process.Env != nil {
		return known.RuntimeSpec.Process.Env
	}
	var environment []string
	for _, variable := range known.Config.Envs {
		environment = append(environment, variable.Key+"="+variable.Value)
	}
	return environment
}

// StopContainer implements Runtime.
func (c *Client) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	grace = max(grace, shortestGrace)
	ctx, cancel := context.WithTimeout(ctx, grace+stopMargin)
	defer cancel()
	link, err := c.connected(ctx)
	if err != nil {
		return err
	}
	_, err = link.runtime.StopContainer(ctx, &runtimev1.StopContainerRequest{ContainerId: id, Timeout: seconds(grace)})
	return c.failed(ctx, link, "stopping a container", err)
}

// Exec implements Runtime.
func (c *Client) Exec(ctx context.Context, id string, command []string, limit time.Duration) (ExecResult, error) {
	ctx, cancel := context.WithTimeout(ctx, limit+timeout)
	defer cancel()
	link, err := c.connected(ctx)
	if err != nil {
		return ExecResult{}, err
	}
	answer, err := link.runtime.ExecSync(ctx, &runtimev1.ExecSyncRequest{ContainerId: id, Cmd: command, Timeout: seconds(limit)},
		grpc.MaxCallRecvMsgSize(longestOutput))
	if status.Code(err) == codes.ResourceExhausted {
		return ExecResult{}, fmt.Errorf("%w of %d KiB", ErrOutput, longestOutput>>10)
	}
	if err != nil {
		return ExecResult{}, c.failed(ctx, link, "running a command in a container", err)
	}
	return ExecResult{Stdout: answer.GetStdout(), Stderr: answer.GetStderr(), ExitCode: answer.GetExitCode()}, nil
}

// ListImages implements Runtime.
func (c *Client) ListImages(ctx context.Context) ([]Image, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, errSilent)
	defer cancel()
	link, err := c.connected(ctx)
	if err != nil {
		return nil, err
	}
	answer, err := link.images.ListImages(ctx, &runtimev1.ListImagesRequest{})
	if err != nil {
		return nil, c.unanswered(ctx, link, "listing images", err)
	}
	images := make([]Image, 0, len(answer.GetImages()))
	for _, item := range answer.GetImages() {
		images = append(images, imageOf(item))
	}
	return images, nil
}

// ImageStatus implements Runtime.
func (c *Client) ImageStatus(ctx context.Context, reference string) (Image, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, errSilent)
	defer cancel()
	link, err := c.connected(ctx)
	if err != nil {
		return Image{}, err
	}
	answer, err := link.images.ImageStatus(ctx, &runtimev1.ImageStatusRequest{Image: &runtimev1.ImageSpec{Image: reference}})
	switch {
	case err != nil:
		return Image{}, c.unanswered(ctx, link, "looking an image up", err)
	case answer.GetImage() == nil:
		return Image{}, fmt.Errorf("image %s: %w", reference, ErrNotFound)
	}
	return imageOf(answer.GetImage()), nil
}

// PullImage implements Runtime.
func (c *Client) PullImage(ctx context.Context, pull Pull) (string, error) {
	link, err := c.connected(ctx)
	if err != nil {
		return "", err
	}
	request := &runtimev1.PullImageRequest{Image: &runtimev1.ImageSpec{Image: pull.Image}}
	if a := pull.Credentials; a != nil {
		request.Auth = &runtimev1.AuthConfig{
			Username: a.Username, Password: a.Password, Auth: a.Auth,
			IdentityToken: a.IdentityToken, RegistryToken: a.RegistryToken,
		}
	}
	if len(pull.Labels)+len(pull.Annotations) > 0 {
		request.SandboxConfig = &runtimev1.PodSandboxConfig{
			Metadata: &runtimev1.PodSandboxMetadata{}, Labels: pull.Labels, Annotations: pull.Annotations,
		}
	}
	var header, trailer metadata.MD
	answer, err := link.images.PullImage(ctx, request, grpc.Header(&header), grpc.Trailer(&trailer))
	switch {
	case err == nil:
		return answer.GetImageRef(), nil
	case status.Code(err) == codes.Unavailable && len(header)+len(trailer) > 0 && link.answers(ctx):
		// The runtime speaks of a registry: it answers itself, and other requests go on.
		return "", fmt.Errorf("pulling an image: %w", errors.New(status.Convert(err).Message()))
	}
	return "", c.failed(ctx, link, "pulling an image", err)
}

// RemoveImage implements Runtime.
func (c *Client) RemoveImage(ctx context.Context, reference string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, errSilent)
	defer cancel()
	link, err := c.connected(ctx)
	if err != nil {
		return err
	}
	_, err = link.images.RemoveImage(ctx, &runtimev1.RemoveImageRequest{Image: &runtimev1.ImageSpec{Image: reference}})
	return c.unanswered(ctx, link, "removing an image", err)
}

// answers is true if the runtime itself answers on a connection.
func (l *link) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, probing)
	defer cancel()
	_, err := l.runtime.Status(ctx, &runtimev1.StatusRequest{})
	return err == nil
}

// early is how long before a deadline the runtime may report it.
const early = 100 * time.Millisecond

// unanswered is failed for quick requests. One beyond its own deadline hangs, and says
// nothing about the object. The connection stays: slower requests may be waiting on it.
func (c *Client) unanswered(ctx context.Context, link *link, doing string, err error) error {
	err = c.failed(ctx, link, doing, err)
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if deadline, set := ctx.Deadline(); set && time.Until(deadline) < early {
		<-ctx.Done() // its cause says whose deadline it was
	}
	if ctx.Err() == nil || errors.Is(context.Cause(ctx), errSilent) {
		return fmt.Errorf("%s: %w: no answer within %s", doing, ErrUnavailable, c.timeout)
	}
	return err
}

// failed interprets a request's error. If nobody answers, the runtime is looked for again.
func (c *Client) failed(ctx context.Context, link *link, doing string, err error) error {
	if err == nil {
		return nil
	}
	answer, _ := status.FromError(err)
	switch code := answer.Code(); {
	case code == codes.Unavailable:
		c.drop(link)
		return fmt.Errorf("%s: %w: %s", doing, ErrUnavailable, answer.Message())
	case code == codes.Canceled && ctx.Err() == nil, // nobody here has given up waiting: the connection was closed, or the runtime ends
		strings.Contains(answer.Message(), "server is not initialized yet"): // containerd listens before it knows what there is
		return fmt.Errorf("%s: %w: %s", doing, ErrUnavailable, answer.Message())
	case code == codes.NotFound:
		return fmt.Errorf("%s: %w: %s", doing, ErrNotFound, answer.Message())
	case code == codes.DeadlineExceeded:
		return fmt.Errorf("%s: %w", doing, context.DeadlineExceeded)
	case code == codes.Canceled:
		return fmt.Errorf("%s: %w", doing, context.Canceled)
	}
	return fmt.Errorf("%s: %w", doing, errors.New(answer.Message()))
}

func selector(podUID string) map[string]string {
	if podUID == "" {
		return nil
	}
	return map[string]string{labelPodUID: podUID}
}

func containerOf(metadata *runtimev1.ContainerMetadata, labels, annotations map[string]string) Container {
	return Container{
		Name: labels[labelContainerName], Attempt: metadata.GetAttempt(),
		PodNamespace: labels[labelPodNamespace], PodName: labels[labelPodName], PodUID: labels[labelPodUID],
		Labels: labels, Annotations: annotations,
	}
}

func imageOf(item *runtimev1.Image) Image {
	return Image{ID: item.GetId(), Tags: item.GetRepoTags(), Digests: item.GetRepoDigests(), Size: item.GetSize()}
}

func stateOf(state runtimev1.ContainerState) State {
	switch state {
	case runtimev1.ContainerState_CONTAINER_CREATED:
		return Created
	case runtimev1.ContainerState_CONTAINER_RUNNING:
		return Running
	case runtimev1.ContainerState_CONTAINER_EXITED:
		return Exited
	case runtimev1.ContainerState_CONTAINER_UNKNOWN:
	}
	return Unknown
}

// moment is a time in nanoseconds, 0 for none.
func moment(nanoseconds int64) time.Time {
	if nanoseconds == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanoseconds)
}

// seconds rounds up, so nothing gets less time than given.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
