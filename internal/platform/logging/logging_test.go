// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package logging

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/go-logr/logr"
)

func logger(t *testing.T, out io.Writer, all string, controllers map[string]string, format string) logr.Logger {
	t.Helper()
	levels, err := NewLevels(all, controllers)
	if err != nil {
		t.Fatal(err)
	}
	log, err := New(out, levels, format)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func TestLevelsChangeWhileLoggersLive(t *testing.T) {
	var out bytes.Buffer
	levels, err := NewLevels("info", map[string]string{"one": "Debug"})
	if err != nil {
		t.Fatal(err)
	}
	log, err := New(&out, levels, "json")
	if err != nil {
		t.Fatal(err)
	}
	one := log.WithName("x").WithValues("controller", "one").WithName("y").WithValues("object", "web").WithCallDepth(1)
	two := log.WithValues("controller", "two", "controllerKind", "Two")
	written := func(log logr.Logger) bool {
		out.Reset()
		log.V(1).Info("because")
		return out.Len() > 0
	}
	check := func(when string, wantOne, wantTwo, wantOther bool) {
		t.Helper()
		if written(one) != wantOne || written(two) != wantTwo || written(log) != wantOther {
			t.Errorf("%s: debug lines of one %v, two %v, others %v", when, written(one), written(two), written(log))
		}
	}
	check("at first", true, false, false)
	if err := levels.Set("Trace", map[string]string{"two": "error"}); err != nil {
		t.Fatal(err)
	}
	check("after a change", true, false, true)
	if err := levels.Set("error", map[string]string{"two": "loud"}); err == nil {
		t.Error("a level of no name is taken")
	}
	check("after an error", true, false, true)
}

func TestNew(t *testing.T) {
	cases := map[string]struct {
		level string
		// want are the messages that are written.
		want []string
	}{
		"error": {"error", []string{"failed"}},
		"info":  {"info", []string{"done", "failed"}},
		"debug": {"debug", []string{"done", "because", "failed"}},
		"4":     {"4", []string{"done", "because", "detail", "failed"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			log := logger(t, &out, tc.level, nil, "json")
			log.Info("done")
			log.V(1).Info("because")
			log.V(4).Info("detail")
			log.Error(errors.New("no"), "failed")
			var got []string
			for line := range strings.Lines(out.String()) {
				var entry struct{ Msg string }
				if err := json.Unmarshal([]byte(line), &entry); err != nil {
					t.Fatalf("line %q: %v", line, err)
				}
				got = append(got, entry.Msg)
			}
			if strings.Join(got, " ") != strings.Join(tc.want, " ") {
				t.Errorf("wrote %q, want %q", got, tc.want)
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	for _, tc := range [][2]string{{"loud", "json"}, {"-1", "json"}, {"200", "json"}, {"info", "xml"}} {
		levels, err := NewLevels(tc[0], nil)
		if err == nil {
			_, err = New(&bytes.Buffer{}, levels, tc[1])
		}
		if err == nil {
			t.Errorf("accepted level %q and format %q", tc[0], tc[1])
		}
	}
}

func TestConsole(t *testing.T) {
	var out bytes.Buffer
	log := logger(t, &out, "info", nil, "console")
	log.Info("done", "key", "value")
	if !strings.Contains(out.String(), "done") || strings.HasPrefix(out.String(), "{") {
		t.Errorf("wrote %q", out.String())
	}
}

func TestValuesAreWrittenInTheirOrder(t *testing.T) {
	var out bytes.Buffer
	log := logger(t, &out, "info", nil, "json").WithValues("controller", "one", "name", "web")
	other := log.WithValues("object", "a")
	log.WithValues("object", "b").Info("done", "pods", 3)
	other.Error(errors.New("refused"), "failed", "pods", 4)
	for i, want := range []string{
		`"msg":"done","controller":"one","name":"web","object":"b","pods":3}`,
		`"msg":"failed","controller":"one","name":"web","object":"a","pods":4,"error":"refused"}`,
	} {
		line := strings.Split(out.String(), "\n")[i]
		if !strings.HasSuffix(line, want) {
			t.Errorf("line %d is %s, want it to end with %s", i, line, want)
		}
	}
}
