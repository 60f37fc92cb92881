// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	lua "github.com/yuin/gopher-lua"
)

// values is how many a result may have, deep how deep it may be.
const values, deep = 100_000, 64

// toLua is a value for a script.
func (m *machine) toLua(value any) lua.LValue {
	switch value := value.(type) {
	case map[string]any:
		table := m.NewTable()
		for _, key := range slices.Sorted(maps.Keys(value)) {
			table.RawSetString(key, m.toLua(value[key]))
		}
		return table
	case []any:
		table := m.NewTable()
		for _, item := range value {
			table.Append(m.toLua(item))
		}
		m.lists[table] = true
		return table
	case string:
		return lua.LString(value)
	case bool:
		return lua.LBool(value)
	case int64:
		return lua.LNumber(value)
	case float64:
		return lua.LNumber(value)
	}
	return lua.LNil
}

// conversion is from Lua to Go.
type conversion struct {
	*machine
	left int
}

func (c *conversion) toGo(value lua.LValue, depth int) (any, error) {
	if c.left--; c.left < 0 || depth > deep {
		return nil, fmt.Errorf("a table has more than %d values, is deeper than %d, or holds itself", values, deep)
	}
	switch value := value.(type) {
	case lua.LString:
		return string(value), nil
	case lua.LBool:
		return bool(value), nil
	case lua.LNumber:
		return number(float64(value))
	case *lua.LTable:
		return c.table(value, depth)
	case *lua.LNilType:
		return nil, nil
	}
	return nil, fmt.Errorf("a table holds a %s", value.Type())
}

func number(n float64) (any, error) {
	switch {
	case math.IsNaN(n) || math.IsInf(n, 0):
		return nil, errors.New("a table holds a number without a value")
	case n == math.Trunc(n) && math.Abs(n) < 1<<53:
		return int64(n), nil
	}
	return n, nil
}

// table is a list when it has numbers from 1 only. An empty one stays what it was, or has names.
func (c *conversion) table(table *lua.LTable, depth int) (any, error) {
	list, names := table.Len() > 0 || c.lists[table], map[string]any{}
	var items []any
	var err error
	table.ForEach(func(key, value lua.LValue) {
		if err != nil {
			return
		}
		var item any
		if item, err = c.toGo(value, depth+1); err != nil {
			return
		}
		if _, isNumber := key.(lua.LNumber); !isNumber {
			list = false
		}
		items = append(items, item)
		names[key.String()] = item
	})
	switch {
	case err != nil:
		return nil, err
	case list && items == nil:
		return []any{}, nil
	case list:
		return items, nil
	}
	return names, nil
}

func (m *machine) encode(l *lua.LState) int {
	value, err := (&conversion{machine: m, left: values}).toGo(l.CheckAny(1), 0)
	if err != nil {
		l.RaiseError("%s", err.Error())
	}
	text, err := json.Marshal(value)
	if err != nil {
		l.RaiseError("%s", err.Error())
	}
	l.Push(lua.LString(text))
	return 1
}

func (m *machine) decode(l *lua.LState) int {
	text := l.CheckString(1)
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		l.RaiseError("%s", err.Error())
	}
	l.Push(m.toLua(value))
	return 1
}
