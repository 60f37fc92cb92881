// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// compute is a sidecar with what it takes from the pod's own containers.
func (w *work) compute(set string, c Container) (any, error) {
	value := maps.Clone(c.Value)
	env := newEnvironment(listOf(value, "env"))
	for _, t := range c.Transfers {
		w.transfer(env, t)
	}
	if c.ShareMounts {
		mounts, err := w.sharedMounts(set, c, env)
		if err != nil {
			return nil, err
		}
		setList(value, "volumeMounts", slices.Concat(listOf(value, "volumeMounts"), mounts))
	}
	if c.ShareDevices {
		setList(value, "volumeDevices", slices.Concat(listOf(value, "volumeDevices"), w.sharedDevices(c)))
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

// environment are the variables of a sidecar. Names are looked up, since the author of a pod decides how many of them its mounts refer to.
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

// add adds a variable of another container, if that has it. A name that is there stays.
func (e *environment) add(theirs map[string]any, name string) {
	if variable, has := theirs[name]; has && !e.names[name] {
		e.variables, e.names[name] = append(e.variables, variable), true
	}
}

// variablesOf are the variables of a lender by name, the first one of each.
func (w *work) variablesOf(lender int) map[string]any {
	if w.variables == nil {
		w.variables = make([]map[string]any, len(w.lenders))
	}
	if w.variables[lender] == nil {
		byName := map[string]any{}
		for _, variable := range slices.Backward(listOf(w.lenders[lender], "env")) {
			byName[nameOf(variable)] = variable
		}
		w.variables[lender] = byName
	}
	return w.variables[lender]
}

// transfer adds the variables that a transfer asks for. Missing parts are not copied.
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
		env.add(w.variablesOf(at), name)
	}
}

// references are the variables that a subPathExpr names, $(NAME), each once. It allocates nothing for one that is named again: a text of half a megabyte
// may do that a hundred thousand times.
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

// inName says that a character may be in the name of a variable.
func inName(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_.-", r)
}

// maxSharedBytes is how many bytes of subPathExpr the sidecars of a set get from the pod's own containers together: as many as etcd takes for one object,
// unless somebody changed that.
const maxSharedBytes = 3 << 19

// sharedMounts are the mounts of the pod's own containers at paths that the sidecar does not use. The variables that they refer to are added to env.
func (w *work) sharedMounts(set string, c Container, env *environment) ([]any, error) {
	taken := ownPaths(c)
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
				env.add(w.variablesOf(i), name)
			}
		}
	}
	return mounts, nil
}

// sharedDevices are the block devices of the pod's own containers at paths that the sidecar does not use.
func (w *work) sharedDevices(c Container) []any {
	taken := ownPaths(c)
	if c.ShareMounts {
		for _, source := range w.sources {
			for _, mount := range listOf(source, "volumeMounts") {
				taken[textOf(mount, "mountPath")] = true
			}
		}
	}
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

// ownPaths are the paths at which a sidecar has mounts or devices itself.
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
