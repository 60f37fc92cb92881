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

// The kubelet's labels of a container.
const (
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

// ask sends a quick request to the runtime.
func ask[A any](ctx context.Context, c *Client, doing string, request func(context.Context, *link) (A, error)) (answer A, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, errSilent)
	defer cancel()
	link, err := c.connected(ctx)
	if err != nil {
		return answer, err
	}
	answer, err = request(ctx, link)
	return answer, c.unanswered(ctx, link, doing, err)
}

// Status implements Runtime.
func (c *Client) Status(ctx context.Context) (string, error) {
	return ask(ctx, c, "asking for its status", func(ctx context.Context, link *link) (string, error) {
		_, err := link.runtime.Status(ctx, &runtimev1.StatusRequest{})
		return link.name, err
	})
}

// ListContainers implements Runtime.
func (c *Client) ListContainers(ctx context.Context, podUID string) ([]Container, error) {
	answer, err := ask(ctx, c, "listing containers", func(ctx context.Context, link *link) (*runtimev1.ListContainersResponse, error) {
		return link.runtime.ListContainers(ctx, &runtimev1.ListContainersRequest{
			Filter: &runtimev1.ContainerFilter{LabelSelector: map[string]string{labelPodUID: podUID}},
		})
	})
	if err != nil {
		return nil, err
	}
	containers := make([]Container, 0, len(answer.GetContainers()))
	for _, item := range answer.GetContainers() {
		containers = append(containers, containerOf(item))
	}
	return containers, nil
}

// ContainerStatus implements Runtime.
func (c *Client) ContainerStatus(ctx context.Context, id string) (ContainerStatus, error) {
	answer, err := ask(ctx, c, "asking for the status of a container", func(ctx context.Context, link *link) (*runtimev1.ContainerStatusResponse, error) {
		return link.runtime.ContainerStatus(ctx, &runtimev1.ContainerStatusRequest{ContainerId: id, Verbose: true})
	})
	if err != nil {
		return ContainerStatus{}, err
	}
	item := answer.GetStatus()
	return ContainerStatus{
		Container: containerOf(item), Started: moment(item.GetStartedAt()), ExitCode: item.GetExitCode(), Environment: environmentOf(answer.GetInfo()["info"]),
	}, nil
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

// ImageID implements Runtime.
func (c *Client) ImageID(ctx context.Context, reference string) (string, error) {
	answer, err := ask(ctx, c, "looking an image up", func(ctx context.Context, link *link) (*runtimev1.ImageStatusResponse, error) {
		return link.images.ImageStatus(ctx, &runtimev1.ImageStatusRequest{Image: &runtimev1.ImageSpec{Image: reference}})
	})
	switch {
	case err != nil:
		return "", err
	case answer.GetImage() == nil:
		return "", fmt.Errorf("image %s: %w", reference, ErrNotFound)
	}
	return answer.GetImage().GetId(), nil
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
			Username: a.Username, Password: a.Password, IdentityToken: a.IdentityToken, RegistryToken: a.RegistryToken,
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

// item is a container of a list, or of a status.
type item interface {
	GetId() string
	GetMetadata() *runtimev1.ContainerMetadata
	GetState() runtimev1.ContainerState
	GetCreatedAt() int64
	GetLabels() map[string]string
	GetAnnotations() map[string]string
}

func containerOf(is item) Container {
	return Container{
		ID: is.GetId(), Name: is.GetLabels()[labelContainerName], Attempt: is.GetMetadata().GetAttempt(),
		Running: is.GetState() == runtimev1.ContainerState_CONTAINER_RUNNING, Exited: is.GetState() == runtimev1.ContainerState_CONTAINER_EXITED,
		Created: time.Unix(0, is.GetCreatedAt()), Annotations: is.GetAnnotations(),
	}
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
