// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kruise-operator/kruise-operator/controllers"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
)

// withQuantity is an object with a quantity in every container and claim, and their number.
func withQuantity(object any, quantity string) (places int) {
	switch object := object.(type) {
	case map[string]any:
		_, named := object["name"].(string)
		_, image := object["image"].(string)
		_, modes := object["accessModes"]
		if named && image || modes {
			object["resources"] = map[string]any{"requests": map[string]any{"cpu": quantity, "storage": quantity}, "limits": map[string]any{"cpu": "1"}}
			places++
		}
		for _, member := range object {
			places += withQuantity(member, quantity)
		}
	case []any:
		for _, item := range object {
			places += withQuantity(item, quantity)
		}
	}
	return places
}

// TestAQuantityOfAFewLettersDoesNotOccupyTheOperator sends quantities that take minutes to
// parse, compare or write. A thirtieth of the possible number is enough to see it.
func TestAQuantityOfAFewLettersDoesNotOccupyTheOperator(t *testing.T) {
	s, c := serve()
	sent := 0
	for _, kind := range controllers.Table().Where(func(k kinds.Kind) bool { return k.Admission }) {
		for _, version := range kind.Versions {
			for _, quantity := range []string{"1e-30000000", "1e30000000", "1" + strings.Repeat("0", 100_000)} {
				object := runtime.DeepCopyJSON(full(t, kind, version))
				if withQuantity(object, quantity) == 0 {
					continue
				}
				body, err := json.Marshal(object)
				if err != nil {
					t.Fatal(err)
				}
				stored := placed(t, full(t, kind, kind.Storage), []string{"spec", "was"}, "1")
				for at, handler := range s.handlers {
					if !asksAbout(at, kind) {
						continue
					}
					for verb, stored := range map[string]string{"create": "", "update": stored} {
						sent++
						c.asked = 0
						allowed := false
						what := fmt.Sprintf("%s, %s a %s through %s with %.12s", path.Base(at), verb, kind.Name, version, quantity)
						memory, spent := cost(func() { allowed = answer(t, at, what, handler, kind, version, string(body), stored) })
						if memory > maxMemory || spent > maxTime || c.asked > maxQuestions {
							t.Fatalf("%s: %d MiB, %v, %d questions to the API server", what, memory>>20, spent.Round(time.Millisecond), c.asked)
						}
						// The workloads of a UnitedDeployment are judged where they are created.
						if strings.Contains(at, "validate") && allowed && kind.Name != "UnitedDeployment" {
							t.Errorf("%s: allowed", what)
						}
					}
				}
			}
		}
	}
	if sent < 100 {
		t.Errorf("only %d requests were sent", sent)
	}
}

// TestAStoredQuantityOfAFewLettersOccupiesTheOperatorWhenAnotherSidecarSetIsCreated: a set may have been stored while nobody was asked. The others are compared
// all the same.
func TestAStoredQuantityOfAFewLettersOccupiesTheOperatorWhenAnotherSidecarSetIsCreated(t *testing.T) {
	const at = "/validate-apps-kruise-io-v1beta1-sidecarset"
	for name, put := range map[string]map[string]string{
		"of a container":  {"CONTAINER": `,"resources":{"limits":{"cpu":"1e-30000000"}}`},
		"of a volume":     {"SPEC": `,"volumes":[{"name":"v","emptyDir":{"sizeLimit":"1e-30000000"}}]`},
		"of another type": {"CONTAINER": `,"resources":{"limits":{"cpu":[]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			bad := []byte(fillSet("bad", "v1beta1", put))
			good := []byte(fillSet("good", "v1beta1", nil))
			canary := `,"annotations":{"apps.kruise.io/sidecarset-canary":"true","apps.kruise.io/sidecarset-base":"bad"}`
			for what, tc := range map[string]struct {
				stored   [][]byte
				metadata string
				allowed  bool
			}{
				"a set like it, which is not injected": {stored: [][]byte{bad}, allowed: true},
				"a set like another one":               {stored: [][]byte{bad, good}},
				"its canary":                           {stored: [][]byte{bad}, metadata: canary, allowed: true},
			} {
				s, c := servePods(t)
				c.holds(t, map[schema.GroupVersionKind][][]byte{kindNamed("SidecarSet").GroupKind().WithVersion("v1beta1"): tc.stored})
				object := fillSet("logs", "v1beta1", map[string]string{"METADATA": tc.metadata, "SPEC": `,"updateStrategy":{"type":"NotUpdate"},"injectionStrategy":{}`})
				allowed := false
				memory, spent := cost(func() { allowed = answer(t, at, name, s.handlers[at], kindNamed("SidecarSet"), "v1beta1", object, "") })
				if memory > maxMemory || spent > maxTime {
					t.Fatalf("%s: %d MiB, %v", what, memory>>20, spent.Round(time.Millisecond))
				}
				if allowed != tc.allowed {
					t.Errorf("%s is allowed: %v", what, allowed)
				}
			}
		})
	}
}
