// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package routes

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/tree"
)

const step planning.Step = "Traffic"

// Writes are actions in the making.
type Writes struct {
	// Owner has what is made, of its Kind.
	Owner metav1.Object
	Kind  schema.GroupVersionKind
	Act   traffic.Act
	all   []planning.Action
}

// All are the actions.
func (w *Writes) All() []planning.Action { return w.all }

// Routes are the writes of the act to routes.
func (w *Writes) Routes(places []Place) {
	for _, i := range traffic.Turn(States(places), w.Act) {
		if p := places[i]; w.Act == traffic.SetRoutes {
			w.change(p, p.Reading.Set)
		} else if w.Act == traffic.EndRoutes {
			w.change(p, p.Reading.End)
		}
	}
	for _, p := range places {
		switch {
		case w.Act == traffic.ClearRoutes && p.Reading.Rest:
			w.Remove(p.Own)
		case w.Act == traffic.DisownRoutes:
			w.Patch(p.Object, p.Reading.Disown)
		}
	}
}

func (w *Writes) change(p Place, change traffic.Change) {
	w.Patch(p.Object, change.Patch)
	switch {
	case change.Gone:
		w.Remove(p.Own)
	case change.Own != nil && p.Own == nil:
		w.Create(change.Own)
	case change.Own != nil:
		w.Patch(p.Own, replacing(p.Own, change.Own))
	}
}

// replacing makes a stored object of the owner what it should be.
func replacing(stored, want map[string]any) map[string]any {
	labels, annotations := tree.Texts(want, "metadata", "labels"), tree.Texts(want, "metadata", "annotations")
	return tree.Patch(stored, traffic.Rewritten(stored, want["spec"], labels, annotations))
}

// Patch changes an object as it was read.
func (w *Writes) Patch(object, changes map[string]any) {
	if object != nil && len(changes) > 0 {
		action := w.add(planning.VerbPatch, object)
		action.Change = planning.MergePatch(action.Object, changes)
	}
}

// Create makes an object of the owner.
func (w *Writes) Create(object map[string]any) {
	made := &unstructured.Unstructured{Object: tree.Clone(object)}
	made.SetNamespace(w.Owner.GetNamespace())
	made.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(w.Owner, w.Kind)})
	w.add(planning.VerbCreate, made.Object)
}

// Remove deletes an object.
func (w *Writes) Remove(object map[string]any) {
	if object != nil {
		w.add(planning.VerbDelete, object).Propagation = metav1.DeletePropagationBackground
	}
}

func (w *Writes) add(verb planning.Verb, content map[string]any) *planning.Action {
	object := &unstructured.Unstructured{Object: content}
	w.all = append(w.all, planning.Action{
		Verb: verb, Step: step, Kind: schema.FromAPIVersionAndKind(object.GetAPIVersion(), object.GetKind()), Object: object, Reason: string(w.Act),
		Key: object.GetKind() + " " + object.GetName(), FieldManager: traffic.FieldManager,
		Failure: planning.Event{Warning: true, Reason: "FailedTraffic", Message: "Routing requests"},
	})
	return &w.all[len(w.all)-1]
}
