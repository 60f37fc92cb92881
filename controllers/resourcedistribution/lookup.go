// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package resourcedistribution

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/controllers/resourcedistribution/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

const (
	// lookInterval is between looks at one Secret, failedInterval after a failed one. perNamespace stretches both for many namespaces.
	lookInterval   = time.Minute
	failedInterval = 10 * time.Second
	perNamespace   = 50 * time.Millisecond
	// looksAtOnce bounds the requests in flight, looksInPass those of one pass.
	looksAtOnce = 16
	looksInPass = 500
)

// memory is what is known about Secrets with the name of the copies, by namespace. They are not watched.
type memory map[string]look

// look is the last look into a namespace.
type look struct {
	// object is what was there; nil: nothing.
	object *metav1.PartialObjectMetadata
	// failure says why nothing is known, forbidden that a role is missing.
	failure   string
	forbidden bool
	// target: the namespace was one. due is when to look again; zero: never.
	target bool
	due    time.Time
}

func known(pass *workload.Pass) memory {
	return *workload.Own(pass.Memory, func() *memory { return &memory{} })
}

// lookUp looks into the namespaces that are due, and fills the snapshot with what is known.
func (r *Reconciler) lookUp(ctx context.Context, pass *workload.Pass, spec *plan.Spec, s *plan.Snapshot) error {
	m := known(pass)
	maps.DeleteFunc(m, func(namespace string, _ look) bool { _, exists := s.Namespaces[namespace]; return !exists })
	due := m.due(spec, s)
	now := due[:min(len(due), looksInPass)]
	r.lookInto(ctx, spec, s, m, now)
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(now) < len(due) {
		pass.LookAgain(workload.Busy)
	}
	s.Unread, s.Unreadable, s.Forbidden = map[string]bool{}, map[string]string{}, map[string]bool{}
	for namespace := range s.Namespaces {
		last, found := m[namespace]
		switch {
		case !found:
			s.Unread[namespace] = true
		case last.failure != "":
			s.Unreadable[namespace], s.Forbidden[namespace] = last.failure, last.forbidden
		case last.object != nil:
			s.Copies[namespace] = plan.Observe(spec, last.object)
		}
		if !last.due.IsZero() {
			pass.LookAgain(max(last.due.Sub(s.Now), workload.Busy))
		}
	}
	return nil
}

// due are the namespaces to look into now, first those never looked into, then those that wait longest.
func (m memory) due(spec *plan.Spec, s *plan.Snapshot) []string {
	var due []string
	for namespace, is := range s.Namespaces {
		last, found := m[namespace]
		switch {
		case is.Terminating:
		case !found, last.target != spec.Targets.Chooses(namespace, is.Labels), !last.due.IsZero() && !s.Now.Before(last.due):
			due = append(due, namespace)
		}
	}
	slices.SortFunc(due, func(a, b string) int { return cmp.Or(m[a].due.Compare(m[b].due), cmp.Compare(a, b)) })
	return due
}

// lookInto reads the metadata of the Secret in each of the namespaces.
func (r *Reconciler) lookInto(ctx context.Context, spec *plan.Spec, s *plan.Snapshot, m memory, namespaces []string) {
	var mu sync.Mutex
	var all sync.WaitGroup
	room := make(chan struct{}, looksAtOnce)
	for _, namespace := range namespaces {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			object, err := r.Writer.Look(ctx, spec.Kind, types.NamespacedName{Namespace: namespace, Name: spec.Name})
			last := look{target: spec.Targets.Chooses(namespace, s.Namespaces[namespace].Labels)}
			trim(object, spec)
			last.note(object, err, s.Now, time.Duration(len(s.Namespaces))*perNamespace)
			mu.Lock()
			defer mu.Unlock()
			m[namespace] = last
		})
	}
	all.Wait()
}

// trim drops what others can make long.
func trim(object *metav1.PartialObjectMetadata, spec *plan.Spec) {
	switch {
	case object == nil:
	case metav1.IsControlledBy(object, spec.Object):
		object.Annotations = map[string]string{shared.AnnotationDistributedHash: object.Annotations[shared.AnnotationDistributedHash]}
	default:
		object.Labels, object.Annotations, object.ManagedFields = nil, nil, nil
	}
}

// note notes an answer. Nobody looks again into a namespace that is no target, unless a copy is going or nothing is known.
func (l *look) note(object *metav1.PartialObjectMetadata, err error, now time.Time, stretched time.Duration) {
	wait := max(lookInterval, stretched)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		l.failure, l.forbidden, wait = err.Error(), apierrors.IsForbidden(err), max(failedInterval, stretched)
	default:
		l.object = object
	}
	if l.target || l.object != nil && l.object.DeletionTimestamp != nil || l.failure != "" && !l.forbidden {
		l.due = now.Add(wait)
	}
}

// remember has the Secrets looked at again that were just written: their new state came with no event.
func (r *Reconciler) remember(pass *workload.Pass, spec *plan.Spec, todo plan.Decision, outcome planning.Outcome) {
	if spec.Kind != plan.KindSecret() || outcome.Done == 0 {
		return
	}
	m := known(pass)
	left := map[planning.Slot]bool{}
	for _, failure := range outcome.Failures {
		left[failure.Slot] = true
	}
	for _, i := range outcome.Left {
		left[todo.Actions[i].Slot] = true
	}
	for i := range todo.Actions {
		namespace := string(todo.Actions[i].Slot)
		if last := m[namespace]; !left[todo.Actions[i].Slot] {
			last.due = r.Clock.Now()
			m[namespace] = last
		}
	}
	pass.LookAgain(workload.Busy)
}
