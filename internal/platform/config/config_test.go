// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/kruise-operator/kruise-operator/internal/platform/features"
)

func parse(t *testing.T, args ...string) (*Config, error) {
	t.Helper()
	c := &Config{Table: known()}
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	c.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	_, err := c.Complete()
	return c, err
}

func TestDefaults(t *testing.T) {
	c, err := parse(t)
	if err != nil {
		t.Fatal(err)
	}
	if !c.Enabled("StatefulSet") || !c.Enabled("CloneSet") || c.WorkersOf("StatefulSet") != 3 || c.WorkersOf("CloneSet") != 3 || c.CloneSetExcludePreparingDelete || c.Namespace != "kruise-system" || c.QPS != 0 || c.LeaderElect {
		t.Errorf("defaults %+v", c)
	}
	if c.LeaseDuration != 15*time.Second || c.RenewDeadline != 10*time.Second || c.RetryPeriod != time.Second {
		t.Errorf("lease defaults %v %v %v", c.LeaseDuration, c.RenewDeadline, c.RetryPeriod)
	}
}

func TestComplete(t *testing.T) {
	c, err := parse(t, "--kinds=", "--workers=5", "--qps=50", "--feature-gates=StatefulSetStartOrdinal=true")
	if err != nil {
		t.Fatal(err)
	}
	if c.Enabled("StatefulSet") || c.WorkersOf("StatefulSet") != 5 || c.Burst != 50 || !c.Features.Enabled(features.StatefulSetStartOrdinal) {
		t.Errorf("config %+v", c)
	}
	if c, err = parse(t, "--statefulset-workers=7", "--cloneset-workers=9"); err != nil || c.WorkersOf("StatefulSet") != 7 || c.WorkersOf("CloneSet") != 9 {
		t.Errorf("%d and %d workers, error %v", c.WorkersOf("StatefulSet"), c.WorkersOf("CloneSet"), err)
	}
}

func TestCompleteRefuses(t *testing.T) {
	for arg, want := range map[string]string{
		"--kinds=Deployment":               "StatefulSet",
		"--feature-gates=Nonsense=true":    "unknown feature gate",
		"--workers=0":                      "--workers",
		"--writes=1":                       "--writes",
		"--resync-period=500ms":            "--resync-period",
		"--reconcile-timeout=1s":           "--reconcile-timeout",
		"--leader-elect-lease-duration=5s": "leader election",
		"--leader-elect-renew-deadline=1s": "leader election",
		"--leader-elect-retry-period=-1s":  "leader election",
	} {
		if _, err := parse(t, arg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", arg, err, want)
		}
	}
}
