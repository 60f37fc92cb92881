// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func script(t *testing.T, text string, input map[string]any) (map[string]any, error) {
	t.Helper()
	return New().Script(t.Context(), text)(input)
}

func TestValues(t *testing.T) {
	input := map[string]any{
		"text": "a", "number": int64(3), "half": 0.5, "yes": true, "list": []any{int64(1), map[string]any{"x": "y"}},
		"none": []any{}, "names": map[string]any{}, "map": map[string]any{"a": []any{[]any{}}},
	}
	got, err := script(t, "return obj", input)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(input, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLanguage(t *testing.T) {
	got, err := script(t, `
local parts = {}
for name, n in pairs({a = 1, b = 2}) do table.insert(parts, name .. "=" .. n) end
table.sort(parts)
local decoded = json.decode('{"list": [1, 2.5, "x"], "none": []}')
return {
	joined = table.concat(parts, ","), up = ("x"):upper():rep(3), round = math.floor(2.7), trimmed = string.gsub("  y ", "^%s*(.-)%s*$", "%1"),
	format = string.format("%05.1f|%s", 2.25, "z"), decoded = decoded, encoded = json.encode({b = {1, 2}, a = "c"}),
	caught = select(2, pcall(error, {code = 7})).code, chain = "a" .. 1 .. "b" .. 2.5, list = {1, 2, 3},
	replaced = string.gsub("k v", "%w", {k = "key"}), through = string.gsub("ab", "%w", function(c) return c .. c end),
}`, nil)
	want := map[string]any{
		"joined": "a=1,b=2", "up": "XXX", "round": int64(2), "trimmed": "y", "format": "002.2|z",
		"decoded": map[string]any{"list": []any{int64(1), 2.5, "x"}, "none": []any{}}, "encoded": `{"a":"c","b":[1,2]}`,
		"caught": int64(7), "chain": "a1b2.5", "list": []any{int64(1), int64(2), int64(3)}, "replaced": "key v", "through": "aabb",
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestNothingOutside(t *testing.T) {
	for _, name := range []string{
		"load", "loadstring", "loadfile", "dofile", "require", "module", "print", "io", "os", "debug", "package", "coroutine", "channel",
		"collectgarbage", "getfenv", "setfenv", "newproxy", "_G", "_printregs", "string.dump", "math.random", "math.randomseed",
	} {
		got, err := script(t, "return {found = "+name+" ~= nil}", nil)
		if err != nil || got["found"] != false {
			t.Errorf("%s: %v %v", name, got, err)
		}
	}
}

func TestLimits(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"an endless loop":       {"while true do end", "the script does too much"},
		"a caught endless loop": {"while true do pcall(function() while true do end end) end", "the script does too much"},
		"a table without end":   {"local t = {} while true do t[#t+1] = 'x' end", "the script does too much"},
		"recursion":             {"local function f() return 1 + f() end f()", "stack overflow"},
		"a table within itself": {"local t = {} t.t = t return t", "holds itself"},
		"too many values":       {"local t = {} for i = 1, 100001 do t[i] = i end return {t = t}", "more than 100000 values"},
		"a function":            {"return {f = function() end}", "a table holds a function"},
		"no number":             {"return {n = 0/0}", "a number without a value"},
		"a list":                {"return {1, 2}", "must return a table with names"},
		"a text":                {"return 'x'", "the script returned string"},
		"nothing":               {"", "the script returned nil"},
		"an error":              {"error('no ' .. obj.what)", "script:1: no header"},
		"a nil field":           {"return {x = obj.a.b}", "attempt to index a non-table object(nil)"},
		"no Lua":                {"if then", "reading the script"},
		"too long":              {strings.Repeat("-", source+1), "longer than"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := script(t, c.text, map[string]any{"what": "header"})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%.100v %v, want %s", got, err, c.want)
			}
		})
	}
	t.Run("a sparse table", func(t *testing.T) {
		if got, err := script(t, "local t = {} t[60000000] = 1 return {n = t[60000000]}", nil); err != nil || got["n"] != int64(1) {
			t.Error(got, err)
		}
	})
	t.Run("a context that ends", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
		defer cancel()
		<-ctx.Done()
		if _, err := New().Script(ctx, "while true do end")(nil); err == nil || !strings.Contains(err.Error(), "deadline") {
			t.Error(err)
		}
	})
}

func TestRunsAreApart(t *testing.T) {
	run := New().Script(t.Context(), "seen = (seen or 0) + 1; string.x = (string.x or 0) + 1; return {n = seen, x = string.x}")
	for range 2 {
		if got, err := run(nil); err != nil || got["n"] != int64(1) || got["x"] != int64(1) {
			t.Error(got, err)
		}
	}
}

func BenchmarkScript(b *testing.B) {
	run := New().Script(b.Context(), nginxScript)
	for b.Loop() {
		if _, err := run(map[string]any{"annotations": map[string]any{"a": "b"}, "weight": "20"}); err != nil {
			b.Fatal(err)
		}
	}
}
