// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package recreate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/daemon/cri"
	"github.com/kruise-operator/kruise-operator/internal/daemon/host"
)

// leastGrace is left to a container after a hook that used up its grace period.
const leastGrace = 2 * time.Second

var errHook = errors.New("the hook failed")

// stop runs a container's hook, and stops it in the rest of its grace period. A failing
// hook is reported and stops nothing else.
func (o Order) stop(ctx context.Context, r host.Host) error {
	pod, kill, name := o.Pod, o.Kill, o.Kill.Container.Name
	r.Events.Eventf(pod, o.Related, corev1.EventTypeNormal, "Killing", "Recreate", "Stopping container %s %s", name, o.Why)
	from, id, _ := strings.Cut(kill.ID, "://")
	r.Runtime = r.Runtime.Of(from)
	grace := kill.Grace
	if kill.Container.PreStop != nil && grace > 0 {
		begun := r.Clock.Now()
		if err := hook(ctx, r, pod, &kill.Container, id, grace); err != nil {
			if errors.Is(err, cri.ErrUnavailable) || ctx.Err() != nil {
				return err
			}
			message := strings.ReplaceAll(err.Error(), id, name)
			r.Events.Eventf(pod, o.Related, corev1.EventTypeWarning, "FailedPreStopHook", "Recreate", "Hook of container %s: %s",
				name, message[:min(len(message), maxMessage)])
		}
		grace -= r.Clock.Since(begun)
	}
	grace = max(grace, leastGrace)
	stopping, cancel := context.WithTimeout(ctx, grace+forcing)
	defer cancel()
	return r.Runtime.StopContainer(stopping, id, grace)
}

// agent is the user agent of hooks, the kubelet's without its version.
const agent = "kube-lifecycle"

// maxMessage limits the text of a hook's failure in an event, in bytes.
const maxMessage = 512

// hook runs the hook of a container, for as long as limit lets it.
func hook(
	ctx context.Context, r host.Host, pod *corev1.Pod, c *appsv1beta1.ContainerRecreateRequestContainer, id string, limit time.Duration,
) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	switch {
	case c.PreStop.Exec != nil:
		result, err := r.Runtime.Exec(ctx, id, c.PreStop.Exec.Command, limit)
		if err != nil {
			return err
		}
		if result.ExitCode != 0 {
			return fmt.Errorf("%w: the command ended with code %d", errHook, result.ExitCode)
		}
		return nil
	case c.PreStop.HTTPGet != nil:
		return get(ctx, pod, c)
	case c.PreStop.Sleep != nil:
		seconds := min(c.PreStop.Sleep.Seconds, int64(limit/time.Second)+1) // more would be too long for a duration
		select {
		case <-r.Clock.After(min(time.Duration(seconds)*time.Second, limit)):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	case c.PreStop.TCPSocket != nil:
		return fmt.Errorf("%w: tcpSocket is not supported, and nothing was done", errHook)
	}
	return nil
}

// get sends the request of a hook. Redirects are not followed: a hook is for its pod.
func get(ctx context.Context, pod *corev1.Pod, c *appsv1beta1.ContainerRecreateRequestContainer) error {
	to, err := address(pod, c)
	if err != nil {
		return err
	}
	code, status, err := host.Get(ctx, c.PreStop.HTTPGet, to, agent, func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse })
	if err != nil {
		return fmt.Errorf("%w: %w", errHook, err)
	}
	if code >= http.StatusBadRequest {
		return fmt.Errorf("%w: %s", errHook, status)
	}
	return nil
}

// address is where the request of a hook goes.
func address(pod *corev1.Pod, c *appsv1beta1.ContainerRecreateRequestContainer) (string, error) {
	action := c.PreStop.HTTPGet
	to := cmp.Or(action.Host, pod.Status.PodIP)
	if to == "" {
		return "", fmt.Errorf("%w: the pod has no address", errHook)
	}
	port := action.Port.IntValue()
	if action.Port.Type == intstr.String {
		for _, known := range c.Ports {
			if known.Name == action.Port.StrVal {
				port = int(known.ContainerPort)
			}
		}
	}
	if port < 1 || port > 65535 {
		return "", fmt.Errorf("%w: the container has no port %s", errHook, action.Port.String())
	}
	return net.JoinHostPort(to, strconv.Itoa(port)), nil
}
