// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package manifests_test checks the manifests in config: installed objects, and rights of
// the operator and users.
package manifests_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/internal/testutil/kustomized"
	"github.com/kruise-operator/kruise-operator/tests/framework/rights"
)

const config = "../../config"

// Nothing of users' may be deleted with the operator, and config/default must lack none of
// its objects.
func TestOperatorIsTheInstallWithoutKindsAndNamespace(t *testing.T) {
	var whole, operator []string
	for _, object := range render(t, filesys.MakeFsOnDisk(), config+"/default") {
		if kind := object.GetKind(); kind != "CustomResourceDefinition" && kind != "Namespace" {
			whole = append(whole, kind+" "+object.GetName())
		}
	}
	for _, object := range render(t, filesys.MakeFsOnDisk(), config+"/operator") {
		operator = append(operator, object.GetKind()+" "+object.GetName())
	}
	slices.Sort(whole)
	slices.Sort(operator)
	if diff := cmp.Diff(whole, operator); diff != "" {
		t.Errorf("config/operator (-config/default +config/operator):\n%s", diff)
	}
}

// The manager has no wildcard (reading the rights refuses one), and touches objects
// important to others by name only.
func TestRightsOfTheManagerAreNarrow(t *testing.T) {
	given, err := rights.Of(config + "/rbac")
	if err != nil {
		t.Fatal(err)
	}
	if len(given) < 20 {
		t.Fatalf("only %d rights were read", len(given))
	}
	for _, right := range given {
		switch right.Resource {
		case "secrets":
			if right.Name == "" || !right.Namespaced {
				t.Errorf("to %s is not for one Secret in the operator's namespace", right)
			}
		case "mutatingadmissionpolicies":
			if !slices.Contains([]string{"kruise-operator-sidecars", "kruise-operator-launch-priority", "kruise-operator-release-brake"}, right.Name) {
				t.Errorf("to %s is not for the operator's own", right)
			}
		case "customresourcedefinitions", "mutatingwebhookconfigurations", "validatingwebhookconfigurations":
			if strings.HasPrefix(right.Name, "kruise-operator-pods") {
				continue // their entries, and whether they are there at all, follow from SidecarSets and feature gates
			}
			if right.Resource == "validatingwebhookconfigurations" && right.Name == "kruise-operator-deletion-protection" {
				continue // whether it is there follows from a feature gate
			}
			if right.Name == "" || right.Verb == "create" || right.Verb == "delete" {
				t.Errorf("to %s is more than keeping one that an installer has made", right)
			}
		case "customresourcedefinitions/status":
			if right.Name == "" || right.Verb != "update" {
				t.Errorf("to %s is more than saying in which versions objects of our kinds are stored", right)
			}
		case "validatingadmissionpolicies", "validatingadmissionpolicybindings":
			if right.Name == "" {
				t.Errorf("to %s is not for the operator's own", right)
			}
		case "mutatingadmissionpolicybindings":
			// Hooks' objects have names derived from the objects. None is replaced as a
			// whole.
			if !slices.Contains([]string{"create", "delete", "get", "list", "patch", "watch"}, right.Verb) {
				t.Errorf("to %s is more than keeping the bindings of hooks", right)
			}
		case "namespaces", "nodes":
			if right.Name == "" && !slices.Contains([]string{"get", "list", "watch"}, right.Verb) {
				t.Errorf("to %s is more than reading", right)
			}
		case "pods", "controllerrevisions":
			if !slices.Contains([]string{"create", "delete", "get", "list", "patch", "watch"}, right.Verb) {
				t.Errorf("to %s is more than one object at a time", right)
			}
		case "clusterrolebindings":
			if right.Name == "" || right.Verb != "get" && right.Name != "kruise-daemon" {
				t.Errorf("to %s is more than seeing that the installation is there", right)
			}
		case "clusterroles":
			if right.Name == "" || !slices.Contains([]string{"bind", "get", "patch"}, right.Verb) {
				t.Errorf("to %s is more than binding one of the roles that are installed", right)
			}
		case "rolebindings":
			if right.Name == "" {
				t.Errorf("to %s is more than binding in the node daemon's namespace", right)
			}
		case "roles", "serviceaccounts/token", "pods/exec", "nodes/proxy":
			t.Errorf("to %s is the way to every other right", right)
		}
	}
}

// Every overlay on the installation page builds, and reaches its objects.
func TestDocumentedOverlays(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations/install.md")
	if err != nil {
		t.Fatal(err)
	}
	var overlays []map[string]any
	for i, block := range strings.Split(string(page), "```yaml\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		overlay := map[string]any{}
		if err := yaml.Unmarshal([]byte(block), &overlay); err != nil {
			t.Fatalf("block %d: %v", i+1, err)
		}
		overlays = append(overlays, overlay)
	}
	if len(overlays) < 3 {
		t.Fatalf("the page has %d overlays", len(overlays))
	}
	overlays = append(overlays, map[string]any{"namespace": "somewhere"})
	for i, overlay := range overlays {
		t.Run(fmt.Sprint(i+1), func(t *testing.T) {
			overlay["resources"] = []string{"../config/default"}
			content, err := yaml.Marshal(overlay)
			if err != nil {
				t.Fatal(err)
			}
			files := filesys.MakeFsInMemory()
			copyConfig(t, files)
			if err := files.WriteFile("/overlay/kustomization.yaml", content); err != nil {
				t.Fatal(err)
			}
			plain, changed := map[string]bool{}, false
			for _, object := range render(t, files, "/config/default") {
				plain[fmt.Sprint(object.Object)] = true
			}
			for _, object := range render(t, files, "/overlay") {
				changed = changed || !plain[fmt.Sprint(object.Object)]
				if overlay["namespace"] != nil && strings.Contains(fmt.Sprint(object.Object), "kruise-system") {
					t.Errorf("%s %s still names the namespace kruise-system", object.GetKind(), object.GetName())
				}
			}
			if !changed {
				t.Errorf("it changes nothing:\n%s", content)
			}
		})
	}
}

// Every kind has users' rights to view and edit it, for every resource they can name.
func TestUsersGetEveryKind(t *testing.T) {
	type level struct{ verbs, resources string }
	have := map[string]level{} // by plural and the cluster's own role
	objects := render(t, filesys.MakeFsOnDisk(), config+"/default")
	for _, object := range objects {
		if object.GetKind() != "ClusterRole" {
			continue
		}
		for _, to := range []string{"view", "edit"} {
			if object.GetLabels()["rbac.authorization.k8s.io/aggregate-to-"+to] != "true" {
				continue
			}
			rule := object.Object["rules"].([]any)[0].(map[string]any)
			resources := strs(rule["resources"])
			have[resources[0]+" "+to] = level{strings.Join(strs(rule["verbs"]), " "), strings.Join(resources, " ")}
		}
	}
	kinds := 0
	for _, object := range objects {
		if object.GetKind() != "CustomResourceDefinition" || text(object, "spec", "scope") != "Namespaced" {
			continue // what configures the operator is not for users
		}
		kinds++
		plural := text(object, "spec", "names", "plural")
		looked, edited := plural, plural
		version := object.Object["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)
		if subresources, is := version["subresources"].(map[string]any); is {
			if subresources["scale"] != nil {
				looked, edited = looked+" "+plural+"/scale", edited+" "+plural+"/scale"
			}
			if subresources["status"] != nil {
				looked += " " + plural + "/status"
			}
		}
		for to, want := range map[string]level{
			"view": {"get list watch", looked}, "edit": {"create delete deletecollection patch update", edited},
		} {
			if have[plural+" "+to] != want {
				t.Errorf("%s of %s: %v, want %v; see config/rbac/users", to, plural, have[plural+" "+to], want)
			}
		}
	}
	if kinds < 2 {
		t.Errorf("there are %d kinds", kinds)
	}
}

// render is a kustomization's output.
func render(t *testing.T, files filesys.FileSystem, folder string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := kustomized.Build(files, folder)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// copyConfig copies the manifests to /config.
func copyConfig(t *testing.T, files filesys.FileSystem) {
	t.Helper()
	if err := filesys.MakeFsOnDisk().Walk(config, func(name string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(config, name)
		if err != nil {
			return err
		}
		return files.WriteFile("/config/"+filepath.ToSlash(relative), content)
	}); err != nil {
		t.Fatal(err)
	}
}

func text(object *unstructured.Unstructured, fields ...string) string {
	text, _, _ := unstructured.NestedString(object.Object, fields...)
	return text
}

func strs(list any) []string {
	var all []string
	for _, item := range list.([]any) {
		all = append(all, item.(string))
	}
	return all
}
