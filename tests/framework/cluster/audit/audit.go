// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package audit reads an API server's audit log, so that a suite can say how many requests something cost.
package audit

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// Log reads the audit log of a running API server piece by piece.
type Log struct {
	path   string
	offset int64
}

// Open returns a log that begins with the requests answered from now on.
func Open(path string) (*Log, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("opening the audit log: %w", err)
	}
	return &Log{path: path, offset: info.Size()}, nil
}

// OpenAtStart returns a log that begins with the first request.
func OpenAtStart(path string) *Log {
	return &Log{path: path}
}

// Next returns the events since the last call. An event that is only partly written is left for the next call. With the
// cluster's blocking log, every request that was answered before the call is included.
func (l *Log) Next() ([]auditv1.Event, error) {
	file, err := os.Open(l.path)
	if err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(l.offset, io.SeekStart); err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	var events []auditv1.Event
	reader := bufio.NewReader(file)
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		var event auditv1.Event
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, fmt.Errorf("decoding an audit event: %w", err)
		}
		events = append(events, event)
		l.offset += int64(len(line))
	}
}

// Request is what requests are counted by.
type Request struct {
	// User is who asked. For an impersonated request it is the impersonated user.
	User string
	// Verb is the API verb, such as list or patch.
	Verb string
	// Resource is the resource with its group and subresource, such as pods/status or clonesets.apps.kruise.io/scale. It is the
	// path of a request for something that is not a resource, such as /healthz.
	Resource string
}

// RequestOf returns what an event is counted under.
func RequestOf(event auditv1.Event) Request {
	request := Request{User: event.User.Username, Verb: event.Verb}
	if event.ImpersonatedUser != nil {
		request.User = event.ImpersonatedUser.Username
	}
	ref := event.ObjectRef
	if ref == nil {
		request.Resource, _, _ = strings.Cut(event.RequestURI, "?")
		return request
	}
	request.Resource = ref.Resource
	if ref.APIGroup != "" {
		request.Resource += "." + ref.APIGroup
	}
	if ref.Subresource != "" {
		request.Resource += "/" + ref.Subresource
	}
	return request
}

// Count returns how many requests there are of each kind. Only finished requests count, so a policy that logs several stages
// changes nothing; a watch counts when it ends.
func Count(events []auditv1.Event) map[Request]int {
	counts := map[Request]int{}
	for _, event := range events {
		if event.Stage == auditv1.StageResponseComplete || event.Stage == auditv1.StagePanic {
			counts[RequestOf(event)]++
		}
	}
	return counts
}
