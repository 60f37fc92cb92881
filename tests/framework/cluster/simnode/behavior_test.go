// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package simnode

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func podWith(annotations map[string]string, containers ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}}
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	for _, name := range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name})
	}
	return pod
}

func TestBehaviorPerContainer(t *testing.T) {
	cases := map[string]struct {
		value      string
		main, side time.Duration
	}{
		"nothing: the default":           {"", time.Minute, time.Minute},
		"one value for all":              {"2s", 2 * time.Second, 2 * time.Second},
		"a value for one":                {"main=2s", 2 * time.Second, time.Minute},
		"a value for one and the rest":   {"1s, side=never", time.Second, Never},
		"a value for each, in any order": {"side=0s,main=3ms", 3 * time.Millisecond, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b, err := behaviorOf(podWith(map[string]string{ReadyDelay: tc.value}, "main", "side"), Delays{Ready: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			if main, side := b.ready.of("main"), b.ready.of("side"); main != tc.main || side != tc.side {
				t.Errorf("got %s and %s, want %s and %s", main, side, tc.main, tc.side)
			}
		})
	}
}

func TestBehaviorRefuses(t *testing.T) {
	for key, value := range map[string]string{
		ReadyDelay: "-1s", RestartDelay: "soon", CompleteAfter: "nobody=1s", CrashLoop: "main,nobody", ExitCode: "256",
		Resize: "later", HangTerminate: "perhaps",
	} {
		_, err := behaviorOf(podWith(map[string]string{key: value}, "main"), Delays{})
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s=%s: got error %v, want one that names the annotation", key, value, err)
		}
	}
}

func TestAddressesAreUniqueAndUsedAgainLast(t *testing.T) {
	a := newAddresses(netip.MustParsePrefix("10.0.0.0/29"))
	a.claim("10.0.0.2")
	seen := map[string]bool{"10.0.0.0": true, "10.0.0.2": true}
	for range 6 {
		ip, err := a.take()
		if err != nil {
			t.Fatal(err)
		}
		if seen[ip] {
			t.Fatalf("address %s was given out twice", ip)
		}
		seen[ip] = true
	}
	if ip, err := a.take(); err == nil {
		t.Fatalf("got %s from a full prefix", ip)
	}
	for _, released := range []string{"10.0.0.5", "10.0.0.5", "10.0.0.1", "10.0.0.7"} {
		a.release(released)
		if ip, err := a.take(); err != nil || ip != released {
			t.Errorf("got %s, %v, want the released address %s", ip, err, released)
		}
	}
}

func TestImageID(t *testing.T) {
	if imageID("web") != imageID("docker.io/library/web:latest") {
		t.Error("two spellings of one image have different IDs")
	}
	if imageID("web:1") == imageID("web:2") {
		t.Error("two tags have the same ID")
	}
	const pinned = "web@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	if got := imageID(pinned); got != "docker.io/library/"+pinned {
		t.Errorf("got %s for %s", got, pinned)
	}
}
