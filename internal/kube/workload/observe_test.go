// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
	"github.com/kruise-operator/kruise-operator/internal/testutil"
)

// A template recorded meanwhile, and refused once more with the same words, was not
// reported.
func TestARefusedRevisionIsToldOfOnceUntilOneIsRecorded(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	recorder := events.NewFakeRecorder(10)
	b := &Base{Dependencies: Dependencies{Clock: clock, Recorder: recorder}}
	set := testutil.StatefulSet("web").UID("set").Obj()
	quota := apierrors.NewForbidden(schema.GroupResource{Resource: "controllerrevisions"}, "web-1", errors.New("exceeded quota"))
	for _, step := range []struct {
		answer error
		told   int
	}{{quota, 1}, {quota, 0}, {nil, 0}, {quota, 1}, {quota, 0}} {
		refused, err := b.Record(set, true, func() error { return step.answer })
		if err != nil || (refused != nil) != (step.answer != nil) {
			t.Fatalf("to %v: refused %v, error %v", step.answer, refused, err)
		}
		if told := len(recorder.Events); told != step.told {
			t.Errorf("to %v there are %d events, want %d", step.answer, told, step.told)
		}
		for len(recorder.Events) > 0 {
			<-recorder.Events
		}
		clock.SetTime(clock.Now().Add(2 * refusedRecheck))
	}
}

// A template changed before the first status was written: the old pods were taken for pods of no version.
func TestTheCurrentRevisionIsThatOfThePodsUntilAStatusNamesIt(t *testing.T) {
	named := func(name string, number int64) revision.Revision {
		return revision.Revision{Name: name, Number: number}
	}
	s := podset.Snapshot{
		Update: named("web-3", 3), Revisions: map[string]revision.Revision{"web-1": named("web-1", 1), "web-2": named("web-2", 2), "web-3": named("web-3", 3)},
	}
	for name, tc := range map[string]struct {
		status string
		pods   []string
		want   string
	}{
		"a status":                    {"web-1", []string{"web-2", "web-3"}, "web-1"},
		"no status, old pods":         {"", []string{"web-3", "web-1", "web-2", "of others"}, "web-2"},
		"a revision that is not kept": {"web-0", []string{"web-1"}, "web-1"},
		"only new pods":               {"", []string{"web-3"}, "web-3"},
		"no pods":                     {"", nil, "web-3"},
	} {
		t.Run(name, func(t *testing.T) {
			s := s
			for _, name := range tc.pods {
				s.Pods = append(s.Pods, podset.Pod{Revision: name})
			}
			if got := currentOf(&s, tc.status).Name; got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}
