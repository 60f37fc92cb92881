// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package simnode

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// AnnotationPrefix begins every annotation this package reads. doc.go lists them all.
const AnnotationPrefix = "sim.kruise.io/"

// Annotations of a pod. They are read from the live pod, so a test changes a running pod by changing them.
const (
	StartDelay     = AnnotationPrefix + "start-delay"
	InitDelay      = AnnotationPrefix + "init-delay"
	ReadyDelay     = AnnotationPrefix + "ready-delay"
	NotReady       = AnnotationPrefix + "not-ready"
	RestartDelay   = AnnotationPrefix + "restart-delay"
	CrashLoop      = AnnotationPrefix + "crash-loop"
	CrashAfter     = AnnotationPrefix + "crash-after"
	CompleteAfter  = AnnotationPrefix + "complete-after"
	EphemeralAfter = AnnotationPrefix + "ephemeral-complete-after"
	EphemeralCode  = AnnotationPrefix + "ephemeral-exit-code"
	FailAfter      = AnnotationPrefix + "fail-after"
	ExitCode       = AnnotationPrefix + "exit-code"
	ImagePullFails = AnnotationPrefix + "image-pull-fails"
	ImageID        = AnnotationPrefix + "image-id"
	StatusImage    = AnnotationPrefix + "status-image"
	Resize         = AnnotationPrefix + "resize"
	ResizeDelay    = AnnotationPrefix + "resize-delay"
	TerminateDelay = AnnotationPrefix + "terminate-delay"
	HangTerminate  = AnnotationPrefix + "hang-terminating"
	ReportGates    = AnnotationPrefix + "report-gates"
)

// Values of the annotation Resize.
const (
	ResizeDeferred   = "deferred"
	ResizeInfeasible = "infeasible"
)

// Never is the duration of an event that does not happen by itself. Annotations spell it
// "never".
const Never = time.Duration(math.MaxInt64)

// Delays say how long simulated work takes for pods without annotations. Zero is at once, Never is not at all.
type Delays struct {
	// Start is from the kubelet seeing the pod until its first container runs.
	Start time.Duration
	// Init is how long each ordinary init container runs.
	Init time.Duration
	// Ready is from a container running until it is ready.
	Ready time.Duration
	// Restart is from the kubelet observing a changed image until the new container runs.
	Restart time.Duration
	// Complete is how long containers run with restart policy Never or OnFailure. Others do
	// not end by themselves.
	Complete time.Duration
	// Resize is from observing changed resources until they are in force.
	Resize time.Duration
	// Terminate is how long a deleted pod keeps running, cut to its grace period.
	Terminate time.Duration
}

// RealisticDelays resemble a node with a container runtime and present images: for demos
// with visible steps.
func RealisticDelays() Delays {
	return Delays{
		Start:     800 * time.Millisecond,
		Init:      300 * time.Millisecond,
		Ready:     200 * time.Millisecond,
		Restart:   time.Second,
		Complete:  2 * time.Second,
		Resize:    500 * time.Millisecond,
		Terminate: 700 * time.Millisecond,
	}
}

// perContainer is a value by container of a pod.
type perContainer[T any] struct {
	byName   map[string]T
	fallback T
}

func (p perContainer[T]) of(container string) T {
	if value, ok := p.byName[container]; ok {
		return value
	}
	return p.fallback
}

// behavior is a pod's, from its annotations and the default delays.
type behavior struct {
	start         time.Duration
	startOf       map[string]time.Duration
	init          perContainer[time.Duration]
	ready         perContainer[time.Duration]
	restart       perContainer[time.Duration]
	complete      perContainer[time.Duration]
	crashAfter    perContainer[time.Duration]
	crash         perContainer[bool]
	notReady      perContainer[bool]
	pullFails     perContainer[bool]
	exitCode      perContainer[*int32]
	imageID       perContainer[string]
	statusImage   perContainer[string]
	ephemeral     time.Duration
	ephemeralCode *int32
	failAfter     time.Duration
	resize        string
	resizeDelay   time.Duration
	terminate     time.Duration
	hangTerminate bool
	reportGates   bool
}

// behaviorOf reads a pod's annotations. The error names every faulty one.
func behaviorOf(pod *corev1.Pod, delays Delays) (behavior, error) {
	complete := Never
	if pod.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		complete = delays.Complete
	}
	p := parser{annotations: pod.Annotations, known: containerNames(pod)}
	start := parse(&p, StartDelay, delays.Start, duration)
	b := behavior{
		start:         start.fallback,
		startOf:       start.byName,
		init:          parse(&p, InitDelay, delays.Init, duration),
		ready:         parse(&p, ReadyDelay, delays.Ready, duration),
		restart:       parse(&p, RestartDelay, delays.Restart, duration),
		complete:      parse(&p, CompleteAfter, complete, duration),
		crashAfter:    parse(&p, CrashAfter, 0, duration),
		crash:         parseNames(&p, CrashLoop),
		notReady:      parseNames(&p, NotReady),
		pullFails:     parseNames(&p, ImagePullFails),
		exitCode:      parse(&p, ExitCode, nil, exitCode),
		imageID:       parse(&p, ImageID, "", text),
		statusImage:   parse(&p, StatusImage, "", text),
		ephemeral:     parse(&p, EphemeralAfter, Never, duration).fallback,
		ephemeralCode: parse(&p, EphemeralCode, nil, exitCode).fallback,
		failAfter:     parse(&p, FailAfter, Never, duration).fallback,
		resize:        parse(&p, Resize, "", resizeOutcome).fallback,
		resizeDelay:   parse(&p, ResizeDelay, delays.Resize, duration).fallback,
		terminate:     parse(&p, TerminateDelay, delays.Terminate, duration).fallback,
		hangTerminate: parse(&p, HangTerminate, false, strconv.ParseBool).fallback,
		reportGates:   parse(&p, ReportGates, false, strconv.ParseBool).fallback,
	}
	return b, errors.Join(p.faults...)
}

func containerNames(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.InitContainers {
		names = append(names, pod.Spec.InitContainers[i].Name)
	}
	for i := range pod.Spec.Containers {
		names = append(names, pod.Spec.Containers[i].Name)
	}
	for i := range pod.Spec.EphemeralContainers {
		names = append(names, pod.Spec.EphemeralContainers[i].Name)
	}
	return names
}

type parser struct {
	annotations map[string]string
	known       []string
	faults      []error
}

func (p *parser) fault(key string, err error) {
	p.faults = append(p.faults, fmt.Errorf("annotation %s: %w", key, err))
}

// parse reads a list such as "5s" or "main=2s,sidecar=never": values by container, and at
// most one for all others.
func parse[T any](p *parser, key string, fallback T, value func(string) (T, error)) perContainer[T] {
	out := perContainer[T]{fallback: fallback}
	raw, ok := p.annotations[key]
	if !ok || raw == "" {
		return out
	}
	for item := range strings.SplitSeq(raw, ",") {
		name, rest, named := strings.Cut(strings.TrimSpace(item), "=")
		if !named {
			rest = name
		}
		parsed, err := value(rest)
		if err != nil {
			p.fault(key, err)
			continue
		}
		switch {
		case !named:
			out.fallback = parsed
		case !slices.Contains(p.known, name):
			p.fault(key, fmt.Errorf("the pod has no container %q", name))
		default:
			if out.byName == nil {
				out.byName = map[string]T{}
			}
			out.byName[name] = parsed
		}
	}
	return out
}

// parseNames reads "true" (all containers), "false" or "" (none), or a list of container names.
func parseNames(p *parser, key string) perContainer[bool] {
	var out perContainer[bool]
	raw := p.annotations[key]
	if raw == "" {
		return out
	}
	if all, err := strconv.ParseBool(raw); err == nil {
		out.fallback = all
		return out
	}
	out.byName = map[string]bool{}
	for name := range strings.SplitSeq(raw, ",") {
		name = strings.TrimSpace(name)
		if !slices.Contains(p.known, name) {
			p.fault(key, fmt.Errorf("the pod has no container %q", name))
			continue
		}
		out.byName[name] = true
	}
	return out
}

func duration(s string) (time.Duration, error) {
	if s == "never" {
		return Never, nil
	}
	d, err := time.ParseDuration(s)
	if err == nil && d < 0 {
		return 0, fmt.Errorf("negative duration %q", s)
	}
	return d, err
}

func exitCode(s string) (*int32, error) {
	code, err := strconv.ParseUint(s, 10, 8)
	if err != nil {
		return nil, fmt.Errorf("exit code %q is not a number from 0 to 255", s)
	}
	out := int32(code)
	return &out, nil
}

func text(s string) (string, error) { return s, nil }

func resizeOutcome(s string) (string, error) {
	if s != ResizeDeferred && s != ResizeInfeasible {
		return "", fmt.Errorf("%q is neither %s nor %s", s, ResizeDeferred, ResizeInfeasible)
	}
	return s, nil
}
