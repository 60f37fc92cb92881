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
	// failuresUntilEvent is how often the command fails before an event says so: a container that was started just now may not have what it needs.
	failuresUntilEvent = 3
	// maxMessage limits the text of a failure in an event, in bytes.
	maxMessage = 512
)

// command prints the environment that a process gets in the container. A value may have several lines, so what env prints cannot be read; here each variable
// ends with a zero byte. It is the command's own environment: the process 1 may be that of another container, or of the node.
func command() []string { return []string{"cat", "/proc/self/environ"} }

var (
	errCommand  = errors.New("the command failed")
	errVariable = errors.New("the command does not print all variables that come from labels and annotations")
)

// seen is what was found out about the variables of a container: the hash of those that it runs with, 0 where that is not known;
// and that they are others than they should be, which is wanted.
type seen struct {
	hash, wanted uint64
	differs      bool
}

// look finds out what a container runs with: from the runtime, or, while its pod has to be restarted, from the container itself. m is nil otherwise: nobody
// needs the values then.
func (r *reconciler) look(
	ctx context.Context, from cri.Runtime, pod *corev1.Pod, container *corev1.Container, id string, m *memory,
) (seen, error) {
	wanted, reads := inplace.EnvironmentOf(pod, container)
	if !reads {
		return seen{hash: wanted}, nil // the hash of no variables
	}
	status, err := from.ContainerStatus(ctx, id)
	if errors.Is(err, cri.ErrNotFound) {
		return seen{}, nil
	}
	if err != nil {
		return seen{}, fmt.Errorf("asking for container %s: %w", container.Name, err)
	}
	is, known := inplace.EnvironmentIn(container, status.Environment)
	if status.Environment == nil && m != nil {
		if is, known, err = r.ask(ctx, from, pod, container, &status, m); err != nil {
			return seen{}, err
		}
	}
	if !known {
		return seen{wanted: wanted}, nil
	}
	return seen{hash: is, wanted: wanted, differs: is != wanted && status.State == cri.Running}, nil
}

// asked is what came of asking a container by a command. What an instance was created with never changes, so it is asked until it has answered.
type asked struct {
	instance string
	hash     uint64
	known    bool
	// told says that an event said that there is no answer.
	told bool
	retry
}

// ask asks a container for the variables that it reads from metadata. Values are not kept, and never logged: only their hash is.
func (r *reconciler) ask(
	ctx context.Context, from cri.Runtime, pod *corev1.Pod, container *corev1.Container, status *cri.ContainerStatus, m *memory,
) (hash uint64, known bool, err error) {
	of := m.asked[container.Name]
	if of == nil || of.instance != status.ID {
		of = &asked{instance: status.ID, told: of != nil && of.told}
		m.asked[container.Name] = of
	}
	now := r.Clock.Now()
	if of.known || status.State != cri.Running || now.Before(of.next) {
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
