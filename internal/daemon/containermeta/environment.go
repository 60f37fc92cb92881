// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package containermeta

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/internal/daemon/cri"
	"github.com/kruise-operator/kruise-operator/internal/engine/inplace"
)

const (
	// answering is how long the command in a container may take.
	answering = 3 * time.Second
	// failuresUntilEvent tolerates a container still starting.
	failuresUntilEvent = 3
	// maxMessage limits the text of a failure in an event, in bytes.
	maxMessage = 512
)

// command prints the environment of a new process in the container: process 1 may belong to
// another container or the node. Values may have several lines, so each variable ends with
// a zero byte.
func command() []string { return []string{"cat", "/proc/self/environ"} }

var (
	errCommand  = errors.New("the command failed")
	errVariable = errors.New("the command does not print all variables that come from labels and annotations")
)

// environment is what is known of a container's variables: the hash of the current ones, 0 if
// unknown; and, if they are outdated, the wanted one.
type environment struct {
	hash, wanted uint64
	differs      bool
}

// look finds the container's values: from the runtime or, while its pod has to restart,
// from the container itself. Otherwise m is nil: nobody needs them.
func (r *reconciler) look(
	ctx context.Context, from cri.Runtime, pod *corev1.Pod, container *corev1.Container, id string, m *memory,
) (environment, error) {
	wanted, reads := inplace.EnvironmentOf(pod, container)
	if !reads {
		return environment{hash: wanted}, nil // the hash of no variables
	}
	status, err := from.ContainerStatus(ctx, id)
	if errors.Is(err, cri.ErrNotFound) {
		return environment{}, nil
	}
	if err != nil {
		return environment{}, fmt.Errorf("asking for container %s: %w", container.Name, err)
	}
	is, known := inplace.EnvironmentIn(container, status.Environment)
	if status.Environment == nil && m != nil {
		if is, known, err = r.ask(ctx, from, pod, container, &status, m); err != nil {
			return environment{}, err
		}
	}
	if !known {
		return environment{wanted: wanted}, nil
	}
	return environment{hash: is, wanted: wanted, differs: is != wanted && status.Running}, nil
}

// asked is the answer of a container's command. An instance never changes its environment,
// so one answer is enough.
type asked struct {
	instance string
	hash     uint64
	known    bool
	// told is true once an event told of the missing answer.
	told bool
	retry
}

// ask asks a container for the variables read from metadata. It keeps their hash only, and
// never logs values.
func (r *reconciler) ask(
	ctx context.Context, from cri.Runtime, pod *corev1.Pod, container *corev1.Container, status *cri.ContainerStatus, m *memory,
) (hash uint64, known bool, err error) {
	of := m.asked[container.Name]
	if of == nil || of.instance != status.ID {
		of = &asked{instance: status.ID, told: of != nil && of.told}
		m.asked[container.Name] = of
	}
	now := r.Clock.Now()
	if of.known || !status.Running || now.Before(of.next) {
		return of.hash, of.known, nil
	}
	environment, err := environmentIn(ctx, from, status.ID)
	if errors.Is(err, cri.ErrUnavailable) || ctx.Err() != nil {
		return 0, false, fmt.Errorf("asking container %s for its environment: %w", container.Name, err)
	}
	if err == nil {
		if of.hash, of.known = inplace.EnvironmentIn(container, environment); of.known {
			return of.hash, true, nil
		}
		err = errVariable
	}
	of.tried(now)
	if of.tries >= failuresUntilEvent && !of.told {
		of.told = true
		why := strings.ReplaceAll(err.Error(), status.ID, container.Name)
		r.Events.Eventf(pod, nil, corev1.EventTypeWarning, "EnvironmentUnknown", "Restart",
			"Container %s may have to restart for labels or annotations that it reads, but the container runtime does not say what it runs with, and neither does %q in it: %s",
			container.Name, strings.Join(command(), " "), why[:min(len(why), maxMessage)])
	}
	return 0, false, nil
}

// environmentIn has a container print its environment. It is an error when the output is cut off: then a value may be, too.
func environmentIn(ctx context.Context, from cri.Runtime, id string) ([]string, error) {
	result, err := from.Exec(ctx, id, command(), answering)
	switch {
	case err != nil:
		return nil, err
	case result.ExitCode != 0:
		return nil, fmt.Errorf("%w: it ended with code %d", errCommand, result.ExitCode)
	}
	text, whole := strings.CutSuffix(string(result.Stdout), "\x00")
	if !whole {
		return nil, fmt.Errorf("%w: its output is empty or cut off", errCommand)
	}
	return strings.Split(text, "\x00"), nil
}
