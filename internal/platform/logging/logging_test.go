// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package logging

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
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
	for _, tc := range []struct{ level, format, wrong string }{{"loud", "json", "loud"}, {"-1", "json", "-1"}, {"200", "json", "200"}, {"info", "xml", "xml"}} {
		levels, err := NewLevels(tc.level, nil)
		if err == nil {
			_, err = New(&bytes.Buffer{}, levels, tc.format)
		}
		if err == nil || !strings.Contains(err.Error(), tc.wrong) {
			t.Errorf("level %q and format %q: got the error %v, want one that names %s", tc.level, tc.format, err, tc.wrong)
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

// refusing is a sink with a server refusing every event.
type refusing struct{ with error }

func (r refusing) Create(context.Context, *eventsv1.Event) (*eventsv1.Event, error) {
	return nil, r.with
}
func (r refusing) Update(context.Context, *eventsv1.Event) (*eventsv1.Event, error) {
	return nil, r.with
}
func (r refusing) Patch(context.Context, *eventsv1.Event, []byte) (*eventsv1.Event, error) {
	return nil, r.with
}

// lines takes log lines one by one.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// Each deletion of a namespace with workloads used to leave errors in the log. The line is client-go's: the test
// includes its text.
func TestAnEventInANamespaceThatIsDeletedIsNoError(t *testing.T) {
	namespace := schema.GroupResource{Resource: "namespaces"}
	terminating := apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "web", errors.New("the namespace is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, tc := range map[string]struct {
		refused error
		want    string
	}{
		"a namespace that is being deleted": {terminating, "debug"},
		"a namespace that is gone":          {apierrors.NewNotFound(namespace, "shop"), "debug"},
		"events that are forbidden":         {apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "web", errors.New("no role")), "error"},
		"another object that is gone":       {apierrors.NewNotFound(schema.GroupResource{Resource: "events"}, "web"), "error"},
	} {
		t.Run(name, func(t *testing.T) {
			out := make(lines, 10)
			broadcaster := events.NewBroadcaster(refusing{tc.refused})
			defer broadcaster.Shutdown()
			if err := broadcaster.StartRecordingToSinkWithContext(logr.NewContext(t.Context(), logger(t, out, "debug", nil, "json"))); err != nil {
				t.Fatal(err)
			}
			set := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
			broadcaster.NewRecorder(scheme.Scheme, "test").Eventf(set, nil, corev1.EventTypeNormal, "Happened", "Do", "it did")
			var line struct{ Level, Msg, Err, Error string }
			select {
			case text := <-out:
				if err := json.Unmarshal([]byte(text), &line); err != nil {
					t.Fatalf("%s: %v", text, err)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("no line within 10 seconds")
			}
			if line.Level != tc.want || line.Err+line.Error != tc.refused.Error() {
				t.Errorf("the line is %+v, want it at level %s with the cause", line, tc.want)
			}
		})
	}
}
