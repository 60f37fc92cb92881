// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/kube/listed"
	"github.com/kruise-operator/kruise-operator/internal/kube/sticky"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
)

const (
	target   = `"targetRef":{"apiVersion":"apps/v1","kind":"StatefulSet","name":"db"}`
	required = `,"requiredPersistentTopology":{"keys":["topology.kubernetes.io/zone"]}`
)

func decoded(t *testing.T, name, spec string) *appsv1beta1.PersistentPodState {
	t.Helper()
	state := &appsv1beta1.PersistentPodState{}
	if err := json.Unmarshal([]byte(`{"metadata":{"namespace":"shop","name":"`+name+`"},"spec":{`+spec+`}}`), state); err != nil {
		t.Fatal(err)
	}
	return state
}

// texts are errors as "field: kind".
func texts(errs field.ErrorList) string {
	var all []string
	for _, err := range errs {
		all = append(all, strings.TrimPrefix(err.Field, "spec.")+" "+strings.TrimPrefix(string(err.Type), "FieldValue"))
	}
	return strings.Join(all, ", ")
}

func TestValidate(t *testing.T) {
	preferred := func(weight, keys string) string {
		return target + `,"preferredPersistentTopology":[{"weight":` + weight + `,"preference":{"keys":[` + keys + `]}}]`
	}
	for name, tc := range map[string]struct{ spec, want string }{
		"good":                       {spec: target + required},
		"a preference":               {spec: preferred("1", `"kubernetes.io/hostname"`)},
		"no keys":                    {spec: target + `,"requiredPersistentTopology":{"keys":[]}`, want: "requiredPersistentTopology.keys Required"},
		"a key that is none":         {spec: target + `,"requiredPersistentTopology":{"keys":[" zone"]}`, want: "requiredPersistentTopology.keys[0] Invalid"},
		"a key twice":                {spec: preferred("9", `"a","a"`), want: "preferredPersistentTopology[0].preference.keys[1] Duplicate"},
		"an annotation that is none": {spec: target + required + `,"persistentPodAnnotations":[{"key":"a b"}]`, want: "persistentPodAnnotations[0] Invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := texts(Validate(decoded(t, "db", tc.spec))); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestFieldsHaveOtherNamesInTheOlderVersion(t *testing.T) {
	if got := fieldInV1alpha1("spec.preferredPersistentTopology[0].preference.keys[1]"); got != "spec.preferredPersistentTopology[0].preference.nodeTopologyKeys[1]" {
		t.Errorf("in the older version it is %s", got)
	}
}

func TestOthersAndListedKindsAreLookedAt(t *testing.T) {
	types, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	listed := func(text string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kruise-system", Name: listed.ConfigMap}, Data: map[string]string{sticky.Key: text}}
	}
	const games = `{"Workloads":[{"group":"game.example","Version":"v1","KIND":"GameServerSet"}]}`
	game := strings.NewReplacer("apps/v1", "game.example/v2", "StatefulSet", "GameServerSet").Replace(target)
	taken := decoded(t, "other", strings.Replace(target, "db", "taken", 1)+required)
	for name, tc := range map[string]struct{ spec, listed, want string }{
		"a StatefulSet":           {spec: target},
		"one of ours":             {spec: strings.Replace(target, "apps/v1", "apps.kruise.io/v1alpha1", 1)},
		"a listed kind":           {spec: game, listed: games},
		"a kind that is not":      {spec: game, want: "targetRef Invalid"},
		"a list that is none":     {spec: game, listed: "{", want: "targetRef InternalError"},
		"a StatefulSet beside it": {spec: target, listed: "{"},
		"a long list":             {spec: game, listed: `{"workloads":[` + strings.Repeat("{},", 50) + `{}]}`, want: "targetRef InternalError"},
		"a workload with another": {spec: strings.Replace(target, "db", "taken", 1), want: "targetRef Invalid"},
		"of another group":        {spec: strings.NewReplacer("db", "taken", "apps/v1", "apps.kruise.io/v1beta1").Replace(target)},
	} {
		t.Run(name, func(t *testing.T) {
			reader := fake.NewClientBuilder().WithScheme(types).WithObjects(listed(tc.listed), taken).Build()
			errs, _ := Others{Reader: reader, Namespace: "kruise-system"}.check(t.Context(), decoded(t, "db", tc.spec+required), nil)
			if got := texts(errs); got != tc.want {
				t.Errorf("got %q, want %q: %v", got, tc.want, errs)
			}
		})
	}
}
