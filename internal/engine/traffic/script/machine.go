// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package script routes requests by scripts of the administrator, for classes of Ingresses and objects that the operator does not know.
//
// A script is Lua 5.1 with string, table, math and json. It sees obj and returns a table. It has a second and a number of instructions; no
// files, no network, no clock, no randomness.
package script

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	lua "github.com/yuin/gopher-lua"
)

const (
	// longest is how long a script may run.
	longest = time.Second
	// instructions are how many it may do, and so how many values it can make.
	instructions = 500_000
	// source is how long it may be.
	source = 256 << 10
	// sparse is the largest index up to which a table is filled up.
	sparse = 1 << 16
	// registry and calls limit its stack.
	registry, calls = 1 << 16, 128
)

// Run runs one script.
type Run func(input map[string]any) (map[string]any, error)

// Machine runs scripts. All of a process are alike.
type Machine struct{}

// New is a Machine.
func New() Machine {
	lua.MaxArrayIndex = sparse
	return Machine{}
}

// Script is a script that can be run until a context ends.
func (Machine) Script(ctx context.Context, text string) Run {
	return func(input map[string]any) (map[string]any, error) { return run(ctx, text, input) }
}

var errInstructions = errors.New("the script does too much")

// budget is a context that also ends after a number of instructions: the machine asks Done before each one.
type budget struct {
	context.Context
	left int
	end  context.CancelCauseFunc
}

func limited(ctx context.Context) context.Context {
	ctx, end := context.WithCancelCause(ctx)
	return &budget{Context: ctx, left: instructions, end: end}
}

func (b *budget) Done() <-chan struct{} {
	if b.left--; b.left < 0 {
		b.end(errInstructions)
	}
	return b.Context.Done()
}

func (b *budget) Err() error { return context.Cause(b.Context) }

func run(ctx context.Context, text string, input map[string]any) (map[string]any, error) {
	if len(text) > source {
		return nil, fmt.Errorf("the script is longer than %d bytes", source)
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	m := &machine{LState: lua.NewState(lua.Options{CallStackSize: calls, RegistrySize: 1 << 10, RegistryMaxSize: registry, SkipOpenLibs: true})}
	defer m.Close()
	m.open()
	script, err := m.Load(strings.NewReader(text), "script")
	if err != nil {
		return nil, fmt.Errorf("reading the script: %w", err)
	}
	m.SetContext(limited(ctx))
	return m.result(script, input)
}

// machine is one run.
type machine struct {
	*lua.LState
	// lists are tables that came from lists: they stay lists when they are empty.
	lists map[*lua.LTable]bool
}

func (m *machine) result(script *lua.LFunction, input map[string]any) (map[string]any, error) {
	m.lists = map[*lua.LTable]bool{}
	m.SetGlobal("obj", m.toLua(input))
	m.Push(script)
	if err := m.PCall(0, 1, nil); err != nil {
		var fault *lua.ApiError
		if errors.As(err, &fault) && fault.Object != nil && fault.Object != lua.LNil {
			return nil, errors.New(fault.Object.String())
		}
		return nil, fmt.Errorf("running the script: %w", err)
	}
	table, isTable := m.Get(-1).(*lua.LTable)
	if !isTable {
		return nil, fmt.Errorf("the script returned %s, and must return a table", m.Get(-1).Type())
	}
	c := &conversion{machine: m, left: values}
	result, err := c.toGo(table, 0)
	if err != nil {
		return nil, err
	}
	if all, isMap := result.(map[string]any); isMap {
		return all, nil
	}
	return nil, errors.New("the script returned a list, and must return a table with names")
}
