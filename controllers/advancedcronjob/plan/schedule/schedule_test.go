// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	instant, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return instant
}

func parse(t *testing.T, expression, zone string) Schedule {
	t.Helper()
	var location *time.Location
	if zone != "" {
		var err error
		if location, err = Zone(zone); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Parse(expression, location)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestNext(t *testing.T) {
	cases := map[string]struct {
		expression, zone, from string
		want                   []string // in the zone
	}{
		"five fields, UTC":           {"*/5 * * * *", "", "2026-05-01T10:02:00Z", []string{"2026-05-01T10:05:00Z", "2026-05-01T10:10:00Z"}},
		"an instant is not its next": {"*/5 * * * *", "", "2026-05-01T10:05:00Z", []string{"2026-05-01T10:10:00Z"}},
		"a descriptor":               {"@hourly", "", "2026-05-01T10:02:00Z", []string{"2026-05-01T11:00:00Z"}},
		"names of days":              {"0 9 * * MON-FRI", "", "2026-05-01T10:00:00Z", []string{"2026-05-04T09:00:00Z"}},
		"a time zone":                {"0 9 * * *", "Asia/Tokyo", "2026-05-01T10:00:00Z", []string{"2026-05-02T09:00:00+09:00"}},
		"a time zone of its own":     {"CRON_TZ=Asia/Tokyo 0 9 * * *", "", "2026-05-01T10:00:00Z", []string{"2026-05-02T00:00:00Z"}},
		"a half-hour zone":           {"0 9 * * *", "Asia/Kolkata", "2026-05-01T10:00:00Z", []string{"2026-05-02T09:00:00+05:30"}},
		"a skipped hour has no instants": {
			"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", []string{"2026-03-30T02:30:00+02:00", "2026-03-31T02:30:00+02:00"},
		},
		"every hour goes on over a skipped one": {
			"15 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", []string{"2026-03-29T01:15:00+01:00", "2026-03-29T03:15:00+02:00"},
		},
		"an hour that comes twice has its instants twice": {
			"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z",
			[]string{"2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00", "2026-10-26T02:30:00+01:00"},
		},
		"every hour goes on through a doubled one": {
			"15 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z",
			[]string{"2026-10-25T02:15:00+02:00", "2026-10-25T02:15:00+01:00", "2026-10-25T03:15:00+01:00"},
		},
		"a leap day":             {"0 0 29 2 *", "", "2026-05-01T00:00:00Z", []string{"2028-02-29T00:00:00Z"}},
		"a day that never comes": {"0 0 30 2 *", "", "2026-05-01T00:00:00Z", []string{""}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := parse(t, tc.expression, tc.zone)
			location := time.UTC
			if tc.zone != "" {
				location, _ = Zone(tc.zone)
			}
			from := at(t, tc.from)
			var got []string
			for range tc.want {
				if from = s.Next(from, from); from.IsZero() {
					got = append(got, "")
					break
				}
				got = append(got, from.In(location).Format(time.RFC3339))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("instants (-want +got):\n%s", diff)
			}
			if s.NeverDue() != (tc.want[0] == "") {
				t.Errorf("never due: %v", s.NeverDue())
			}
		})
	}
}

func TestEveryCountsFromItsAnchor(t *testing.T) {
	s := parse(t, "@every 5m", "")
	anchor := at(t, "2026-05-01T10:02:10Z")
	for from, want := range map[string]string{
		"2026-05-01T10:02:10Z": "2026-05-01T10:07:10Z",
		"2026-05-01T10:07:09Z": "2026-05-01T10:07:10Z",
		"2026-05-01T10:07:10Z": "2026-05-01T10:12:10Z",
		"2026-05-01T10:02:09Z": "2026-05-01T10:02:10Z",
		"2026-05-01T09:55:00Z": "2026-05-01T09:57:10Z",
		"2026-05-01T09:57:10Z": "2026-05-01T10:02:10Z",
	} {
		if got := s.Next(anchor, at(t, from)).Format(time.RFC3339); got != want {
			t.Errorf("after %s comes %s, want %s", from, got, want)
		}
	}
}

func TestMissed(t *testing.T) {
	cases := map[string]struct {
		expression, since, now string
		newest                 string
		count                  int
	}{
		"none":                          {"*/5 * * * *", "2026-05-01T10:05:00Z", "2026-05-01T10:09:59Z", "", 0},
		"one, to the second":            {"*/5 * * * *", "2026-05-01T10:05:00Z", "2026-05-01T10:10:00Z", "2026-05-01T10:10:00Z", 1},
		"five":                          {"*/5 * * * *", "2026-05-01T10:05:00Z", "2026-05-01T10:31:00Z", "2026-05-01T10:30:00Z", 5},
		"150 of a minute each":          {"* * * * *", "2026-05-01T10:00:00Z", "2026-05-01T12:30:30Z", "2026-05-01T12:30:00Z", 101},
		"twenty years of minutes":       {"* * * * *", "2006-05-01T10:00:00Z", "2026-05-01T12:30:30Z", "2026-05-01T12:30:00Z", 101},
		"a day of minutes in each year": {"* * 1 1 *", "2020-03-01T00:00:00Z", "2026-05-01T00:00:00Z", "2026-01-01T23:59:00Z", 101},
		"every five minutes for years":  {"@every 5m", "2006-05-01T10:00:00Z", "2026-05-01T10:04:00Z", "2026-05-01T10:00:00Z", 101},
		"the clock went back":           {"* * * * *", "2026-05-01T10:00:00Z", "2026-05-01T09:00:00Z", "", 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			since := at(t, tc.since)
			began := time.Now()
			newest, count := parse(t, tc.expression, "").Missed(since, since, at(t, tc.now), 101)
			got := ""
			if !newest.IsZero() {
				got = newest.Format(time.RFC3339)
			}
			if got != tc.newest || count != tc.count {
				t.Errorf("%d missed, the newest %s; want %d, %s", count, got, tc.count, tc.newest)
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

// TestMissedIsTheNewestOfAll compares the short way with counting every instant.
func TestMissedIsTheNewestOfAll(t *testing.T) {
	for _, expression := range []string{"* * * * *", "*/7 2-3 * * *", "0 0 1 * *", "30 2 * * 0", "@every 37s"} {
		for _, since := range []string{"2026-03-28T22:13:07Z", "2026-10-24T22:00:00Z"} {
			s := parse(t, expression, "Europe/Berlin")
			from := at(t, since)
			for _, passed := range []time.Duration{time.Minute, 3 * time.Hour, 27 * time.Hour, 4*24*time.Hour + 17*time.Second} {
				now := from.Add(passed)
				var want time.Time
				for next := s.Next(from, from); !next.IsZero() && !next.After(now); next = s.Next(from, next) {
					want = next
				}
				if got, _ := s.Missed(from, from, now, 2); !got.Equal(want) {
					t.Errorf("%s from %s for %v: the newest is %v, want %v", expression, since, passed, got, want)
				}
			}
		}
	}
}

func TestParseRefuses(t *testing.T) {
	cases := map[string]struct{ expression, zone, want string }{
		"nothing":                     {"", "", "is empty"},
		"six fields":                  {"0 * * * * *", "", "expected exactly 5 fields, found 6"},
		"four fields":                 {"* * * *", "", "expected exactly 5 fields, found 4"},
		"a minute of 61":              {"61 * * * *", "", "above maximum (59)"},
		"an unknown descriptor":       {"@reboot", "", "unrecognized descriptor"},
		"a step of nothing":           {"*/0 * * * *", "", "step of range should be a positive number"},
		"every fraction of a second":  {"@every 10ms", "", "must be at least 1s"},
		"every time before":           {"@every -5m", "", "must be at least 1s"},
		"two time zones":              {"TZ=Asia/Tokyo 0 9 * * *", "Asia/Tokyo", "names a time zone although timeZone is set"},
		"a zone without fields":       {"CRON_TZ=Asia/Tokyo", "", "is empty"},
		"a zone that crashes parsers": {"TZ=0", "", "no time zone"},
		"a zone of the machine":       {"TZ=Local 0 9 * * *", "", "no time zone"},
		"a zone at the end":           {"0 9 * * * TZ=Asia/Tokyo", "", "has to come first"},
		"a very long one":             {strings.Repeat("1,", 600) + "1 * * * *", "", "at most 1024"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var zone *time.Location
			if tc.zone != "" {
				zone, _ = Zone(tc.zone)
			}
			_, err := Parse(tc.expression, zone)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
	for _, name := range []string{"", "Local", "local", "Mars/Olympus", "../../etc/passwd"} {
		if _, err := Zone(name); err == nil {
			t.Errorf("zone %q is taken", name)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"* * * * *", "TZ=0", "CRON_TZ=UTC @daily", "@every 5m", "1-5/2 */3 L * ?"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, expression string) {
		s, err := Parse(expression, nil)
		if err != nil {
			return
		}
		from := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		if next := s.Next(from, from); !next.IsZero() && !next.After(from) {
			t.Errorf("%q: after %v comes %v", expression, from, next)
		}
	})
}
