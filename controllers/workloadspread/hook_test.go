// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workloadspread

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kruise-operator/kruise-operator/internal/engine/spread"
	"github.com/kruise-operator/kruise-operator/internal/hooks"
)

func TestHooks(t *testing.T) {
	of := func(version, kind, name string) *spread.Spread {
		return &spread.Spread{Namespace: "shop", Name: "ws", Target: schema.FromAPIVersionAndKind(version, kind), TargetName: name}
	}
	games := of("game.example/v1", "GameServerSet", "web")
	games.Between = []schema.GroupKind{{Group: "game.example", Kind: "GameServer"}, {Group: "x' || '", Kind: "Y"}}
	for name, tc := range map[string]struct {
		spread *spread.Spread
		needs  bool
		owner  string
	}{
		"a Deployment's pods have ReplicaSets":     {spread: of("apps/v1", "Deployment", "web"), needs: true, owner: "o.kind == 'ReplicaSet' && o.name == 'web-' + object.metadata.?labels[?'pod-template-hash'].orValue('')"},
		"a Job's have the Job":                     {spread: of("batch/v1", "Job", "web"), needs: true, owner: "o.apiVersion.startsWith('batch/') && o.kind == 'Job' && o.name == 'web'"},
		"a native StatefulSet's have the set":      {spread: of("apps/v1", "StatefulSet", "web"), needs: true, owner: "o.kind == 'StatefulSet'"},
		"of a listed kind others may be between":   {spread: games, needs: true, owner: "o.name == 'web' || o.apiVersion.startsWith('game.example/') && o.kind == 'GameServer'))"},
		"a CloneSet asks the planner":              {spread: of("apps.kruise.io/v1beta1", "CloneSet", "web")},
		"so does a StatefulSet of ours":            {spread: of("apps.kruise.io/v1beta1", "StatefulSet", "web")},
		"a name that is none gets no registration": {spread: of("apps/v1", "Deployment", "x' || true")},
	} {
		t.Run(name, func(t *testing.T) {
			if got := NeedsHook(tc.spread); got != tc.needs {
				t.Errorf("needs a hook: %v", got)
			}
			hook := HookOf(tc.spread)
			if hook == nil && !tc.needs {
				return
			}
			if !strings.Contains(hook.Conditions[0].Expression, tc.owner) || hook.OnFailure != admissionv1.Ignore {
				t.Errorf("the hook is %+v", hook)
			}
		})
	}
	closed := of("apps/v1", "Deployment", "web")
	closed.FailClosed = true
	if HookOf(closed).OnFailure != admissionv1.Fail {
		t.Error("it does not fail closed")
	}
	if hooks.NameOf(prefix, "a", "b") == hooks.NameOf(prefix, "a", "c") {
		t.Error("two have the same name")
	}
}
