// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package planning

import (
	"testing"
	"time"
)

func TestYields(t *testing.T) {
	key := RetryKey{Step: "Create", Name: "n1"}
	cases := map[string]struct {
		retry  *Retry
		room   Place
		yields bool
	}{
		"it did not fail":                 {room: true},
		"it did not fail, without room":   {},
		"it waits":                        {retry: &Retry{Wait: time.Second}, room: true, yields: true},
		"it is due":                       {retry: &Retry{}, room: true},
		"it is due, without room":         {retry: &Retry{}, yields: true},
		"it keeps its place":              {retry: &Retry{Wait: time.Second, Keeps: true}, room: true},
		"it keeps its place without room": {retry: &Retry{Wait: time.Second, Keeps: true}, yields: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var p Plan
			retries := func(asked RetryKey) (Retry, bool) {
				if asked != key || tc.retry == nil {
					return Retry{}, false
				}
				return *tc.retry, true
			}
			if got := p.SetAside(retries, key, tc.room); got != tc.yields || p.Aside[key] != tc.yields {
				t.Errorf("yields: %v, noted %v, want %v", got, p.Aside, tc.yields)
			}
			if p.SetAside(nil, key, true) != tc.yields {
				t.Error("asked once more it says something else")
			}
		})
	}
}
