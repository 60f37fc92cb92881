// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"reflect"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
)

// concat is the name of the function that joins texts within the budget. No script can write it.
const concat = "\x00concat"

// allowed are the functions of the base library.
func allowed() map[string]bool {
	all := map[string]bool{}
	for _, name := range []string{
		"assert", "error", "getmetatable", "ipairs", "next", "pairs", "pcall", "rawequal", "rawget", "rawset", "select", "setmetatable",
		"tonumber", "tostring", "type", "unpack", "xpcall", "string", "table", "math",
	} {
		all[name] = true
	}
	return all
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
		if !keep[key.String()] {
			drop = append(drop, key)
		}
	})
	for _, key := range drop {
		global.RawSet(key, lua.LNil)
	}
	m.forget("string", "dump")
	m.forget("math", "random", "randomseed")
	m.bound("string", "rep", m.rep)
	m.bound("string", "gsub", m.gsub)
	m.bound("table", "concat", m.join)
	for _, name := range []string{"char", "format", "lower", "reverse", "sub", "upper"} {
		m.bound("string", name, nil)
	}
	global.RawSetString(concat, m.NewFunction(func(l *lua.LState) int {
		a, b := l.Get(1), l.Get(2)
		if lua.LVCanConvToString(a) && lua.LVCanConvToString(b) {
			m.spend(len(a.String()) + len(b.String()))
		}
		l.Push(lua.LString(l.Concat(a, b)))
		return 1
	}))
	json := m.NewTable()
	json.RawSetString("encode", m.NewFunction(m.encode))
	json.RawSetString("decode", m.NewFunction(m.decode))
	global.RawSetString("json", json)
}

func (m *machine) lib(name string) *lua.LTable { return m.GetGlobal(name).(*lua.LTable) }

func (m *machine) forget(lib string, names ...string) {
	for _, name := range names {
		m.lib(lib).RawSetString(name, lua.LNil)
	}
}

// spend takes from the budget of text.
func (m *machine) spend(bytes int) {
	if m.left -= bytes; m.left < 0 {
		m.RaiseError("the script makes more than %d bytes of text", written)
	}
}

// bound lets a function of a library spend what it returns; before checks what it would make.
func (m *machine) bound(lib, name string, before func(l *lua.LState)) {
	f, isFunction := m.lib(lib).RawGetString(name).(*lua.LFunction)
	if !isFunction {
		return
	}
	m.lib(lib).RawSetString(name, m.NewFunction(func(l *lua.LState) int {
		if before != nil {
			before(l)
		}
		n := f.GFunction(l)
		for i := range n {
			if text, isText := l.Get(-1 - i).(lua.LString); isText {
				m.spend(len(text))
			}
		}
		return n
	}))
}

// fits fails when a function would make more text than is left.
func (m *machine) fits(l *lua.LState, bytes int) {
	if bytes > m.left {
		l.RaiseError("the script makes more than %d bytes of text", written)
	}
}

func (m *machine) rep(l *lua.LState) {
	text, n := l.CheckString(1), l.CheckNumber(2)
	if n > written {
		n = written + 1
	}
	m.fits(l, len(text)*int(n))
}

// gsub checks the most that a replacement can make. Replacements by a table or function are limited by the length of the text.
func (m *machine) gsub(l *lua.LState) {
	const short, long = 4 << 10, 64 << 10
	text := l.CheckString(1)
	if len(text) > long {
		l.RaiseError("gsub is for texts up to %d bytes", long)
	}
	if with, isText := l.Get(3).(lua.LString); isText {
		m.fits(l, 2*(len(text)+1)*len(with))
	} else if len(text) > short {
		l.RaiseError("gsub with a table or function is for texts up to %d bytes", short)
	}
}

func (m *machine) join(l *lua.LState) {
	table, separator := l.CheckTable(1), l.OptString(2, "")
	size := 0
	for i := 1; i <= table.Len() && size <= m.left; i++ {
		size += len(separator) + len(table.RawGetInt(i).String())
	}
	m.fits(l, size)
}

// guard lets each joining of texts in a script go through the budget.
func guard(chunk []ast.Stmt) { walk(reflect.ValueOf(chunk)) }

func walk(v reflect.Value) {
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			walk(v.Index(i))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			walk(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				walk(v.Field(i))
			}
		}
	case reflect.Interface:
		if v.IsNil() {
			return
		}
		walk(v.Elem())
		if joined, is := v.Interface().(*ast.StringConcatOpExpr); is && v.CanSet() {
			v.Set(reflect.ValueOf(joining(joined)))
		}
	}
}

// joining is the call of the function that joins.
func joining(joined *ast.StringConcatOpExpr) *ast.FuncCallExpr {
	f := &ast.IdentExpr{Value: concat}
	call := &ast.FuncCallExpr{Func: f, Args: []ast.Expr{joined.Lhs, joined.Rhs}, AdjustRet: true}
	for _, e := range []ast.PositionHolder{f, call} {
		e.SetLine(joined.Line())
		e.SetLastLine(joined.LastLine())
	}
	return call
}
