// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"strconv"
	"strings"
)

// Op is one operation of a JSON patch.
type Op struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// Patch is the JSON patch from one state of an object to another. It holds for the version that was read, and tests what it replaces.
func Patch(before, after map[string]any) []Op {
	p := &patch{}
	p.maps("", before, after)
	if len(p.ops) == 0 {
		return nil
	}
	if version := Text(before, "metadata", "resourceVersion"); version != "" {
		p.ops = append([]Op{{Op: "test", Path: "/metadata/resourceVersion", Value: version}}, p.ops...)
	}
	return p.ops
}

type patch struct{ ops []Op }

func (p *patch) add(op, path string, value any) {
	p.ops = append(p.ops, Op{Op: op, Path: path, Value: value})
}

func (p *patch) maps(path string, before, after map[string]any) {
	for _, key := range Keys(before) {
		at := path + "/" + escape(key)
		if value, stays := after[key]; stays {
			p.values(at, before[key], value)
		} else {
			p.add("test", at, before[key])
			p.ops = append(p.ops, Op{Op: "remove", Path: at})
		}
	}
	for _, key := range Keys(after) {
		if _, had := before[key]; !had {
			p.add("add", path+"/"+escape(key), after[key])
		}
	}
}

func (p *patch) values(path string, before, after any) {
	if Same(before, after) {
		return
	}
	oldMap, isMap := before.(map[string]any)
	newMap, staysMap := after.(map[string]any)
	oldList, isList := before.([]any)
	newList, staysList := after.([]any)
	switch {
	case isMap && staysMap:
		p.maps(path, oldMap, newMap)
	case isList && staysList && len(oldList) == len(newList):
		for i := range oldList {
			p.item(path+"/"+strconv.Itoa(i), oldList[i], newList[i])
		}
	default:
		p.add("test", path, before)
		p.add("replace", path, after)
	}
}

// item changes an item of a list. The test of its name makes sure that it is the one that was read.
func (p *patch) item(path string, before, after any) {
	was, _ := before.(map[string]any)
	now, _ := after.(map[string]any)
	name := Text(was, "name")
	if Same(before, after) {
		return
	}
	switch {
	case was == nil || now == nil || name != Text(now, "name"):
		p.add("test", path, before)
		p.add("replace", path, after)
		return
	case name != "":
		p.add("test", path+"/name", name)
	}
	p.maps(path, was, now)
}

func escape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}
