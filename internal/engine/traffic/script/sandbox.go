// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package script

import (
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/util/sets"
)

// allowed are the functions of the base library.
func allowed() sets.Set[string] {
	return sets.New(
		"assert", "error", "getmetatable", "ipairs", "next", "pairs", "pcall", "rawequal", "rawget", "rawset", "select", "setmetatable",
		"tonumber", "tostring", "type", "unpack", "xpcall", "string", "table", "math",
	)
}

// open gives a script its functions.
func (m *machine) open() {
	for _, lib := range []struct {
		name string
		open lua.LGFunction
	}{{lua.BaseLibName, lua.OpenBase}, {lua.TabLibName, lua.OpenTable}, {lua.StringLibName, lua.OpenString}, {lua.MathLibName, lua.OpenMath}} {
		m.Push(m.NewFunction(lib.open))
		m.Push(lua.LString(lib.name))
		m.Call(1, 0)
	}
	global, keep := m.G.Global, allowed()
	var drop []lua.LValue
	global.ForEach(func(key, _ lua.LValue) {
		if !keep.Has(key.String()) {
			drop = append(drop, key)
		}
	})
	for _, key := range drop {
		global.RawSet(key, lua.LNil)
	}
	m.forget("string", "dump")
	m.forget("math", "random", "randomseed")
	json := m.NewTable()
	json.RawSetString("encode", m.NewFunction(m.encode))
	json.RawSetString("decode", m.NewFunction(m.decode))
	global.RawSetString("json", json)
}

func (m *machine) forget(lib string, names ...string) {
	functions, _ := m.GetGlobal(lib).(*lua.LTable)
	for _, name := range names {
		functions.RawSetString(name, lua.LNil)
	}
}
