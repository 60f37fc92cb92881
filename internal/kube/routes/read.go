// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/routing"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/script"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/tree"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

const (
	// grace is how long a change of a route takes when nobody says.
	grace = 3 * time.Second
	// Overdue is when a gateway that says nothing no longer holds up an end.
	Overdue = 5 * time.Minute
)

// Grace is how long a change of routes takes: the longest of all.
func Grace(all []v1beta1.TrafficRoutingRef) (longest time.Duration) {
	for _, ref := range all {
		period := time.Duration(ref.GracePeriodSeconds) * time.Second
		if period <= 0 {
			period = grace
		}
		longest = max(longest, period)
	}
	return longest
}

// Written is when somebody last wrote routes or further objects, or since when nobody did.
func Written(since, now time.Time, places []Place, further ...map[string]any) time.Time {
	for _, p := range places {
		further = append(further, p.Object, p.Own)
	}
	for _, object := range further {
		if at := traffic.Written(object).Time; at.After(since) && !at.After(now) {
			since = at
		}
	}
	return since
}

// Objects reads objects past the cache.
type Objects interface {
	Read(ctx context.Context, key types.NamespacedName, object client.Object) error
}

// Reader reads routes.
type Reader struct {
	Objects Objects
	// Scripts runs those of the administrator, from a ConfigMap in the Namespace of the operator.
	Scripts   script.Machine
	Namespace string
}

// Asked is what somebody wants to know of routes.
type Asked struct {
	// Owner has the objects beside the routes.
	Owner metav1.Object
	Refs  []v1beta1.TrafficRoutingRef
	Names traffic.Names
	Share traffic.Share
	Goal  traffic.Goal
}

// Place is a route as it was read.
type Place struct {
	routing.Route
	Object  map[string]any
	Own     map[string]any
	Reading traffic.Reading
}

// States are those of routes.
func States(places []Place) (all []traffic.RouteState) {
	for _, p := range places {
		all = append(all, p.Reading.RouteState)
	}
	return all
}

// Corrected is a route that somebody else changed; empty: none.
func Corrected(places []Place) string {
	i := slices.IndexFunc(places, func(p Place) bool { return p.Reading.Set.Corrected })
	if i < 0 {
		return ""
	}
	return places[i].Reading.Name
}

// Read reads all routes, and asks their providers.
func (r *Reader) Read(ctx context.Context, asked Asked) ([]Place, error) {
	all, err := r.routes(ctx, asked.Refs)
	if err != nil {
		return nil, err
	}
	var places []Place
	for _, route := range all {
		p := Place{Route: route}
		if err := r.route(ctx, &asked, &p); err != nil {
			return nil, err
		}
		p.Reading.First = p.First
		places = append(places, p)
	}
	return places, nil
}

// routes are those of references. A script of the administrator wins.
func (r *Reader) routes(ctx context.Context, refs []v1beta1.TrafficRoutingRef) ([]routing.Route, error) {
	var all []routing.Route
	for i, ref := range refs {
		all = append(all, routing.Of(ref, field.NewPath("trafficRoutings").Index(i))...)
	}
	if !slices.ContainsFunc(all, func(route routing.Route) bool { return route.Key != "" }) {
		return all, nil
	}
	stored, err := scripts(ctx, r.Namespace, r.Objects.Read)
	if err != nil {
		return nil, err
	}
	return routing.Scripted(all, stored, func(text string) script.Run { return r.Scripts.Script(ctx, text) }), nil
}

// route reads a route with the objects of its owner beside it.
func (r *Reader) route(ctx context.Context, asked *Asked, p *Place) error {
	name, namespace := p.Kind.Kind+" "+p.Name, asked.Owner.GetNamespace()
	object, fault, err := r.Object(ctx, p.Kind, namespace, p.Name)
	if err != nil {
		return err
	}
	served := !strings.HasPrefix(fault, "the API server")
	_, noted := tree.Texts(object, "metadata", "annotations")[traffic.AnnotationOriginal]
	if p.Scripted && fault == "" && (asked.Goal.Up() || noted && p.Kind.Kind != "Ingress") {
		fault = fmt.Sprintf("the ConfigMap %s has no script %s", script.ConfigMap, p.Key)
	}
	if fault != "" {
		p.Reading = unread(name, fault, served || asked.Goal.Up())
		return nil
	}
	p.Object = object
	if beside := p.Beside(p.Name, asked.Names); beside != "" {
		content, fault, err := r.Object(ctx, p.Kind, namespace, beside)
		if err != nil || fault != "" {
			p.Reading = unread(name, fault, true)
			return err
		}
		if traffic.Owned(content, string(asked.Owner.GetUID())) {
			p.Own = content
		}
	}
	p.Reading, err = traffic.Read(p.Provider, name, object, p.Own, asked.Names, asked.Share, asked.Goal)
	return err
}

// unread is a route that cannot be read. On the way back one that is not served is done.
func unread(name, fault string, holds bool) traffic.Reading {
	state := traffic.RouteState{Name: name, Exists: true, Back: !holds, Sight: traffic.Silent}
	if holds {
		state.Fault = fault
	}
	return traffic.Reading{RouteState: state}
}

// Object reads an object past the cache; nil: it is not there. fault says what an administrator has to change before it can be read.
func (r *Reader) Object(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (content map[string]any, fault string, err error) {
	stored := workload.Object(kind)
	err = r.Objects.Read(ctx, types.NamespacedName{Namespace: namespace, Name: name}, stored)
	switch {
	case err == nil:
		return stored.Object, "", nil
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		return nil, fmt.Sprintf("the API server does not serve %s of %s", kind.Kind, kind.GroupVersion()), nil
	case apierrors.IsNotFound(err):
		return nil, "", nil
	case apierrors.IsForbidden(err):
		return nil, fmt.Sprintf("the operator may not read %s %s: %v", kind.Kind, name, err), nil
	}
	return nil, "", fmt.Errorf("reading %s %s: %w", kind.Kind, name, err)
}
