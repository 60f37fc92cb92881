// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package schedule computes due times: cron expressions of five fields and descriptors, in a time zone. It is pure.
//
// Daylight saving: runs in the skipped hour do not occur that day, runs in the repeated hour occur twice.
package schedule

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // the image of the operator has no zones of its own

	"github.com/robfig/cron/v3"
)

// maxExpression limits an expression, in bytes, far above any use.
const maxExpression = 1024

// Schedule says when runs are due.
type Schedule struct {
	instants cron.Schedule
	// every is the interval of "@every"; zero for cron expressions.
	every time.Duration
	zone  *time.Location
}

// Zone is the time zone of an IANA name. It refuses names with a different meaning on each machine.
func Zone(name string) (*time.Location, error) {
	if name == "" || strings.EqualFold(name, "Local") {
		return nil, fmt.Errorf("%q is no time zone: want an IANA name such as Europe/Berlin or Etc/UTC", name)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("%q is no time zone that is known: want an IANA name such as Europe/Berlin or Etc/UTC", name)
	}
	return zone, nil
}

// NamesZone reports whether the expression names its time zone itself.
func NamesZone(expression string) bool { return strings.Contains(expression, "TZ") }

// Parse reads an expression in a zone; nil: UTC. A prefix TZ= or CRON_TZ= wins.
func Parse(expression string, zone *time.Location) (s Schedule, err error) {
	defer func() { // the parser is not meant for strangers' texts
		if fault := recover(); fault != nil {
			s, err = Schedule{}, fmt.Errorf("%q cannot be read: %v", expression, fault)
		}
	}()
	if len(expression) > maxExpression {
		return Schedule{}, fmt.Errorf("has %d bytes; at most %d are allowed", len(expression), maxExpression)
	}
	fields := strings.TrimSpace(expression)
	if NamesZone(fields) {
		if zone != nil {
			return Schedule{}, errors.New("names a time zone although timeZone is set, too: use one of them")
		}
		var name string
		if name, fields, err = cutZone(fields); err != nil {
			return Schedule{}, err
		}
		if zone, err = Zone(name); err != nil {
			return Schedule{}, err
		}
	}
	if zone == nil {
		zone = time.UTC
	}
	if fields == "" {
		return Schedule{}, errors.New(`is empty: want five fields such as "30 2 * * 1-5", or a descriptor such as @hourly`)
	}
	if text, found := strings.CutPrefix(fields, "@every "); found {
		if every, err := time.ParseDuration(text); err == nil && every < time.Second {
			return Schedule{}, fmt.Errorf("%q: must be at least 1s", fields)
		}
	}
	instants, err := cron.ParseStandard(fields)
	if err != nil {
		return Schedule{}, fmt.Errorf(`%w; want five fields such as "30 2 * * 1-5", or a descriptor such as @hourly or "@every 5m"`, err)
	}
	s = Schedule{instants: instants, zone: zone}
	switch kind := instants.(type) {
	case cron.ConstantDelaySchedule:
		s.every = kind.Delay
	case *cron.SpecSchedule:
		kind.Location = zone
	}
	return s, nil
}

// cutZone splits "TZ=Asia/Tokyo 0 9 * * *".
func cutZone(expression string) (name, rest string, err error) {
	first, rest, _ := strings.Cut(expression, " ")
	for _, prefix := range []string{"CRON_TZ=", "TZ="} {
		if name, found := strings.CutPrefix(first, prefix); found {
			return name, strings.TrimSpace(rest), nil
		}
	}
	return "", "", fmt.Errorf("%q: a time zone has to come first, as in %q", expression, "TZ=Asia/Tokyo 0 9 * * *")
}

// Next is the first instant after t; zero: none within the next years. anchor is any instant
// of the schedule, say the newest run or the start of waiting; only "@every" uses it.
func (s Schedule) Next(anchor, t time.Time) time.Time {
	if s.every == 0 {
		next := s.instants.Next(t.In(s.zone))
		if next.IsZero() {
			return time.Time{}
		}
		return next.UTC()
	}
	anchor = anchor.Truncate(time.Second)
	distance := t.Sub(anchor)
	steps := distance / s.every
	if distance < 0 && distance%s.every != 0 {
		steps-- // rounded towards the past
	}
	return anchor.Add((steps + 1) * s.every).UTC()
}

// NeverDue reports whether the day never comes, such as 30 February.
func (s Schedule) NeverDue() bool {
	leapYear := time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC)
	return s.every == 0 && s.instants.Next(leapYear).IsZero()
}

// Missed is the newest instant after since and not after now, with the number of all, up to most. Zero: none.
//
// Beyond the counted ones, it looks at logarithmically many: years cost no more than a day.
func (s Schedule) Missed(anchor, since, now time.Time, most int) (newest time.Time, count int) {
	for at := s.Next(anchor, since); count < most && !at.IsZero() && !at.After(now); at = s.Next(anchor, at) {
		newest = at
		count++
	}
	if count < most {
		return newest, count
	}
	// Next(t) is monotonic in t: bisect for the largest t with an instant not after now.
	low, high := newest.Unix()-1, now.Unix()
	for low < high {
		middle := low + (high-low+1)/2
		if next := s.Next(anchor, time.Unix(middle, 0)); !next.IsZero() && !next.After(now) {
			low = middle
		} else {
			high = middle - 1
		}
	}
	if next := s.Next(anchor, time.Unix(low, 0)); !next.IsZero() && !next.After(now) {
		newest = next
	}
	return newest, count
}
