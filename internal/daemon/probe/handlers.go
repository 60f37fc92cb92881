// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kruise-operator/kruise-operator/internal/daemon/host"
	"github.com/kruise-operator/kruise-operator/internal/engine/probing"
)

const (
	// agent is the user agent, the kubelet's without its version.
	agent = "kube-probe"
	// maxRedirects is how many redirects a request follows.
	maxRedirects = 10
)

// carryOut carries out a probe's action.
func (p *probe) carryOut(ctx context.Context, spec *corev1.Probe, ip, id string) probing.Outcome {
	limit := time.Duration(max(spec.TimeoutSeconds, 1)) * time.Second
	switch {
	case spec.Exec != nil:
		if err := p.limit.Wait(ctx); err != nil {
			return probing.Outcome{Error: err.Error()}
		}
		return p.command(ctx, spec.Exec.Command, id, limit)
	case spec.HTTPGet != nil:
		return get(ctx, spec.HTTPGet, ip, limit)
	case spec.TCPSocket != nil:
		return connect(ctx, spec.TCPSocket.Port, ip, limit)
	}
	return probing.Outcome{Error: "the probe asks for nothing that is known"}
}

// command runs a command in the container. A timeout is a failure.
func (p *probe) command(ctx context.Context, command []string, id string, limit time.Duration) probing.Outcome {
	result, err := p.runtime.Exec(ctx, id, command, limit)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return probing.Outcome{Message: fmt.Sprintf("the command has not ended after %s", limit)}
	case err != nil:
		// The container's ID would change the message at each restart.
		return probing.Outcome{Error: strings.ReplaceAll(err.Error(), id, p.container)}
	case result.ExitCode == 0:
		return probing.Outcome{Success: true, Message: string(result.Stdout)}
	}
	return probing.Outcome{Message: string(result.Stderr)}
}

// address is where a request or a connection goes.
func address(port intstr.IntOrString, ip string) (string, error) {
	if net.ParseIP(ip) == nil {
		return "", fmt.Errorf("the pod has no address, but %q", ip)
	}
	if port.Type != intstr.Int || port.IntVal < 1 || port.IntVal > 65535 {
		return "", fmt.Errorf("%s is no number of a port", port.String())
	}
	return net.JoinHostPort(ip, strconv.Itoa(int(port.IntVal))), nil
}

// connect opens a connection and closes it.
func connect(ctx context.Context, port intstr.IntOrString, ip string, limit time.Duration) probing.Outcome {
	to, err := address(port, ip)
	if err != nil {
		return probing.Outcome{Error: err.Error()}
	}
	dialer := net.Dialer{Timeout: limit}
	connection, err := dialer.DialContext(ctx, "tcp", to)
	if err != nil {
		return probing.Outcome{Message: stable(err)}
	}
	_ = connection.Close() // it was there, which is all that was asked
	return probing.Outcome{Success: true}
}

// get sends a request. A redirect to another host is not followed: the pod has answered.
func get(ctx context.Context, action *corev1.HTTPGetAction, ip string, limit time.Duration) probing.Outcome {
	to, err := address(action.Port, ip)
	if err != nil {
		return probing.Outcome{Error: err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	elsewhere := ""
	code, status, err := host.Get(ctx, action, to, agent, func(next *http.Request, via []*http.Request) error {
		if next.URL.Hostname() != via[0].URL.Hostname() {
			elsewhere = next.URL.Hostname()
			return http.ErrUseLastResponse
		}
		if len(via) >= maxRedirects {
			return fmt.Errorf("stopped after %d redirects", maxRedirects)
		}
		return nil
	})
	if err != nil {
		return probing.Outcome{Message: stable(err)}
	}
	switch {
	case code < http.StatusOK || code >= http.StatusBadRequest:
		return probing.Outcome{Message: "HTTP probe failed with status " + status}
	case elsewhere != "":
		return probing.Outcome{Success: true, Message: fmt.Sprintf("%s to host %s, which was not followed", status, elsewhere)}
	}
	return probing.Outcome{Success: true, Message: status}
}

// stable removes the changing part of an error: the connection's source port.
func stable(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		copied := *op
		copied.Source = nil
		return copied.Error()
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err.Error()
	}
	return err.Error()
}
