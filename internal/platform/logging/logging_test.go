// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package logging

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

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
			log, err := New(&out, tc.level, "json")
			if err != nil {
				t.Fatal(err)
			}
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
		if _, err := New(&bytes.Buffer{}, tc[0], tc[1]); err == nil {
			t.Errorf("accepted level %q and format %q", tc[0], tc[1])
		}
	}
}

func TestConsole(t *testing.T) {
	var out bytes.Buffer
	log, err := New(&out, "info", "console")
	if err != nil {
		t.Fatal(err)
	}
	log.Info("done", "key", "value")
	if !strings.Contains(out.String(), "done") || strings.HasPrefix(out.String(), "{") {
		t.Errorf("wrote %q", out.String())
	}
}
