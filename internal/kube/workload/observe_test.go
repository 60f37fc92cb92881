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
