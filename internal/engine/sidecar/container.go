// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// compute is a sidecar with what it takes from the pod's own containers.
func (w *work) compute(set string, c Container) (any, error) {
	value := maps.Clone(c.Value)
	env := slices.Clone(listOf(value, "env"))
	for _, t := range c.Transfers {
		env = w.transferred(env, t)
	}
	if c.ShareMounts {
		var mounts []any
		mounts, env = w.sharedMounts(c, env)
		setList(value, "volumeMounts", slices.Concat(listOf(value, "volumeMounts"), mounts))
	}
	if c.ShareDevices {
		setList(value, "volumeDevices", slices.Concat(listOf(value, "volumeDevices"), w.sharedDevices(c)))
	}
	setList(value, "env", env)
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

// transferred is env with the variables that a transfer asks for. Missing parts are not copied; a name that is in env stays.
func (w *work) transferred(env []any, t Transfer) []any {
	from := t.From
	switch {
	case t.Label != "":
		from = w.labels[t.Label]
	case t.Annotation != "":
		from = w.annotations[t.Annotation]
	}
	at := slices.IndexFunc(w.sources, func(s map[string]any) bool { return nameOf(s) == from })
	if from == "" || at < 0 {
		return env
	}
	for _, name := range t.Names {
		env = withVariable(env, w.sources[at], name)
	}
	return env
}

func withVariable(env []any, source map[string]any, name string) []any {
	named := func(e any) bool { return nameOf(e) == name }
	theirs := listOf(source, "env")
	at := slices.IndexFunc(theirs, named)
	if at < 0 || slices.ContainsFunc(env, named) {
		return env
	}
	return append(env, theirs[at])
}

// references are the variables that a subPathExpr names.
func references(expression string) []string {
	if !strings.Contains(expression, "$(") {
		return nil
	}
	found := regexp.MustCompile(`[$][(][A-Za-z_][A-Za-z0-9_.-]*[)]`).FindAllString(expression, -1)
	for i := range found {
		found[i] = found[i][2 : len(found[i])-1]
	}
	return found
}

// sharedMounts are the mounts of the pod's own containers at paths that the sidecar does not use, and env with the variables that they refer to.
func (w *work) sharedMounts(c Container, env []any) (mounts, with []any) {
	taken := ownPaths(c)
	for _, source := range w.sources {
		for _, mount := range listOf(source, "volumeMounts") {
			path := textOf(mount, "mountPath")
			if taken[path] {
				continue
			}
			taken[path] = true
			mounts = append(mounts, mount)
			for _, name := range references(textOf(mount, "subPathExpr")) {
				env = withVariable(env, source, name)
			}
		}
	}
	return mounts, env
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
