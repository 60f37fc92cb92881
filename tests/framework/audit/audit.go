// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package audit counts the requests in an API server's audit log, and by whom.
package audit

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// Request is a key for counting requests.
type Request struct {
	// Verb is create, patch, update, delete, get, list, watch ... Behind it stands "(dry run)" where nothing was to be kept.
	Verb string
	// Resource is the resource, with its subresource behind a slash.
	Resource string
	// Code is the status code of the answer.
	Code int32
}

// Counts says how many requests there were of each kind.
type Counts map[Request]int

// Log reads an audit log from where the last read ended.
type Log struct {
	path   string
	offset int64
	rest   []byte
	// inLine: the offset is in the middle of a line that was being written.
	inLine bool
}

// Open returns a log read from its present end on.
func Open(path string) (*Log, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the audit log: %w", err)
	}
	defer func() { _ = file.Close() }()
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil || size == 0 {
		return &Log{path: path}, err
	}
	last := make([]byte, 1)
	if _, err := file.ReadAt(last, size-1); err != nil {
		return nil, fmt.Errorf("opening the audit log: %w", err)
	}
	return &Log{path: path, offset: size, inLine: last[0] != '\n'}, nil
}

// Begin returns a log read from its beginning.
func Begin(path string) *Log { return &Log{path: path} }

// Next returns the events since the last call that pass the filter.
func (l *Log) Next(accept func(*auditv1.Event) bool) ([]auditv1.Event, error) {
	file, err := os.Open(l.path)
	if err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(l.offset, io.SeekStart); err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	var events []auditv1.Event
	reader := bufio.NewReaderSize(file, 1<<20)
	for {
		line, err := reader.ReadBytes('\n')
		l.offset += int64(len(line))
		l.rest = append(l.rest, line...)
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		if err != nil {
			return events, fmt.Errorf("reading the audit log: %w", err)
		}
		if l.inLine {
			l.inLine, l.rest = false, nil
			continue
		}
		var event auditv1.Event
		if err := json.Unmarshal(l.rest, &event); err != nil {
			return events, fmt.Errorf("decoding the audit log: %w", err)
		}
		l.rest = nil
		if accept(&event) {
			events = append(events, event)
		}
	}
}

// ByUser accepts the finished requests of one user.
func ByUser(user string) func(*auditv1.Event) bool {
	return func(e *auditv1.Event) bool {
		return e.User.Username == user && e.Stage == auditv1.StageResponseComplete
	}
}

// Count sums events up.
func Count(events []auditv1.Event) Counts {
	counts := Counts{}
	for i := range events {
		r := Request{Verb: events[i].Verb}
		if strings.Contains(events[i].RequestURI, "dryRun=All") {
			r.Verb += " (dry run)"
		}
		if ref := events[i].ObjectRef; ref != nil {
			r.Resource = ref.Resource
			if ref.Subresource != "" {
				r.Resource += "/" + ref.Subresource
			}
		}
		if status := events[i].ResponseStatus; status != nil {
			r.Code = status.Code
		}
		counts[r]++
	}
	return counts
}

// IsWrite is true for requests for a change.
func (r Request) IsWrite() bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, r.Verb)
}

// Writes counts requests for changes, without Events, leases and reviews of access or
// tokens.
func (c Counts) Writes() int {
	return c.Sum(func(r Request) bool {
		return r.IsWrite() && !slices.Contains([]string{"events", "leases", "subjectaccessreviews", "tokenreviews", "serviceaccounts/token"}, r.Resource)
	})
}

// Conflicts counts writes answered with 409, and patches answered with 422: the answer to a
// JSON patch with a failed test.
func (c Counts) Conflicts() int {
	return c.Sum(func(r Request) bool {
		return r.Resource != "leases" && (r.IsWrite() && r.Code == 409 || r.Verb == "patch" && r.Code == 422)
	})
}

// Sum counts the requests the filter accepts.
func (c Counts) Sum(accept func(Request) bool) int {
	n := 0
	for r, count := range c {
		if accept(r) {
			n += count
		}
	}
	return n
}

// String lists the counts in a stable order.
func (c Counts) String() string {
	var lines []string
	for r, n := range c {
		lines = append(lines, fmt.Sprintf("%s %s (%d): %d", r.Verb, r.Resource, r.Code, n))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
