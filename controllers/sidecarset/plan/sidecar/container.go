// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// compute returns a sidecar with its copies from the pod's own containers.
func (w *work) compute(set string, c Container) (any, error) {
	value := maps.Clone(c.Value)
	env := newEnvironment(listOf(value, "env"))
	for _, t := range c.Transfers {
		w.transfer(env, t)
	}
	taken := ownPaths(c)
	if c.ShareMounts {
		mounts, err := w.sharedMounts(set, taken, env)
		if err != nil {
			return nil, err
		}
		setList(value, "volumeMounts", slices.Concat(listOf(value, "volumeMounts"), mounts))
	}
	if c.ShareDevices {
		setList(value, "volumeDevices", slices.Concat(listOf(value, "volumeDevices"), w.sharedDevices(taken)))
	}
	setList(value, "env", env.variables)
	if c.Resources != nil {
		resources, err := w.resources(set, c)
		if err != nil {
			return nil, err
		}
		value["resources"] = resources
	}
	return value, nil
}

// setList sets a list, unless it is empty and was not there.
func setList(object map[string]any, field string, list []any) {
	if len(list) > 0 {
		object[field] = list
	}
}

// environment are a sidecar's variables. A map finds them: the pod's author decides how many its mounts use.
type environment struct {
	variables []any
	names     map[string]bool
}

func newEnvironment(own []any) *environment {
	e := &environment{variables: slices.Clone(own), names: map[string]bool{}}
	for _, variable := range own {
		e.names[nameOf(variable)] = true
	}
	return e
}

// add copies a variable, if the other container has it. Existing names stay.
func (e *environment) add(theirs map[string]any, name string) {
	if variable, has := theirs[name]; has && !e.names[name] {
		e.variables, e.names[name] = append(e.variables, variable), true
	}
}

// transfer copies the requested variables. It skips missing ones.
func (w *work) transfer(env *environment, t Transfer) {
	from := t.From
	switch {
	case t.Label != "":
		from = w.labels[t.Label]
	case t.Annotation != "":
		from = w.annotations[t.Annotation]
	}
	at := slices.IndexFunc(w.lenders, func(s map[string]any) bool { return nameOf(s) == from })
	if from == "" || at < 0 {
		return
	}
	for _, name := range t.Names {
		env.add(w.variables[at], name)
	}
}

// references returns the distinct variables $(NAME) of a subPathExpr. Repeats
// allocate nothing: half a megabyte of text may repeat one a hundred thousand times.
func references(expression string) []string {
	var found []string
	known := map[string]bool{}
	for {
		_, rest, more := strings.Cut(expression, "$(")
		if !more {
			return found
		}
		end := strings.IndexFunc(rest, func(r rune) bool { return !inName(r) })
		if end > 0 && rest[end] == ')' && !strings.ContainsRune("0123456789.-", rune(rest[0])) && !known[rest[:end]] {
			known[rest[:end]] = true
			found = append(found, rest[:end])
		}
		expression = rest
	}
}

// inName reports whether the character may be part of a variable's name.
func inName(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_.-", r)
}

// maxSharedBytes limits the subPathExpr a set's sidecars copy from the pod, in bytes: etcd's default limit of an object.
const maxSharedBytes = 3 << 19

// sharedMounts returns the pod's own mounts at free paths, and takes these. It adds their variables to env.
func (w *work) sharedMounts(set string, taken map[string]bool, env *environment) ([]any, error) {
	var mounts []any
	for i, source := range w.sources {
		for _, mount := range listOf(source, "volumeMounts") {
			path := textOf(mount, "mountPath")
			if taken[path] {
				continue
			}
			taken[path] = true
			mounts = append(mounts, mount)
			expression := textOf(mount, "subPathExpr")
			if w.shared += len(expression); w.shared > maxSharedBytes {
				return nil, fmt.Errorf("SidecarSet %s: container %s shares volume mounts with more than %d bytes of subPathExpr", set, nameOf(source), maxSharedBytes)
			}
			for _, name := range references(expression) {
				env.add(w.variables[i], name)
			}
		}
	}
	return mounts, nil
}

// sharedDevices returns the pod's own block devices at free paths.
func (w *work) sharedDevices(taken map[string]bool) []any {
	var devices []any
	for _, source := range w.sources {
		for _, device := range listOf(source, "volumeDevices") {
			if path := textOf(device, "devicePath"); !taken[path] {
				taken[path] = true
				devices = append(devices, device)
			}
		}
	}
	return devices
}

// ownPaths are the paths of a sidecar's own mounts and devices.
func ownPaths(c Container) map[string]bool {
	taken := map[string]bool{}
	for _, mount := range listOf(c.Value, "volumeMounts") {
		taken[textOf(mount, "mountPath")] = true
	}
	for _, device := range listOf(c.Value, "volumeDevices") {
		taken[textOf(device, "devicePath")] = true
	}
	return taken
}
