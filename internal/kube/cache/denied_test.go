// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestWhatTheServerDoesNotLetBeReadIsKeptForAWhile(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	d := NewDenied(clock)
	version := ""
	read := func() string { return version }
	claims, pods := schema.GroupResource{Resource: "persistentvolumeclaims"}, schema.GroupResource{Resource: "pods"}
	forbidden := apierrors.NewForbidden(claims, "", errors.New(`User "kruise" cannot list resource`))
	for _, other := range []error{errors.New("no connection"), apierrors.NewNotFound(pods, ""), apierrors.NewInternalError(errors.New("x"))} {
		if d.note(other, read) || len(d.Messages()) > 0 {
			t.Errorf("%v counts as denied", other)
		}
	}
	if !d.note(fmt.Errorf("failed to list: %w", forbidden), read) || d.note(forbidden, read) {
		t.Error("a denial is news once")
	}
	if got := d.Of(claims); got != forbidden.Error() {
		t.Errorf("of claims: %q", got)
	}
	if got := d.Of(pods); got != "" {
		t.Errorf("of pods: %q", got)
	}
	clock.SetTime(clock.Now().Add(denialLasts))
	if got := d.Messages(); !slices.Equal(got, []string{forbidden.Error()}) {
		t.Errorf("after a minute: %q", got)
	}
	clock.SetTime(clock.Now().Add(time.Second))
	if got := d.Messages(); len(got) > 0 {
		t.Errorf("when nothing has been refused for longer: %q", got)
	}
	if !d.note(forbidden, read) {
		t.Error("after that it is news again")
	}
	version = "7"
	if got := d.Messages(); len(got) > 0 {
		t.Errorf("when it was read since: %q", got)
	}
	if none := (*Denied)(nil); none.Of(pods) != "" || len(none.Messages()) > 0 {
		t.Error("nil denies something")
	}
}
