// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/tree"
)

const stepTraffic planning.Step = "Traffic"

// trafficActions are the writes of an act.
func trafficActions(r *v1beta1.Rollout, q *requests, act traffic.Act) ([]planning.Action, error) {
	w := &writes{rollout: r, reason: string(act)}
	switch act {
	case traffic.PinStable, traffic.OpenStable:
		hash := ""
		if act == traffic.PinStable {
			hash = q.stableHash
		}
		ops, err := traffic.Pin(q.stable, q.label, hash)
		if err != nil {
			return nil, err
		}
		w.patch(q.stable, ops)
	case traffic.MakeCanary:
		w.service(q)
	case traffic.DropCanary:
		w.remove(q.canary)
	default:
		w.routes(q, act)
	}
	return w.all, w.err
}

// writes are actions in the making.
type writes struct {
	rollout *v1beta1.Rollout
	reason  string
	all     []planning.Action
	err     error
}

// service makes that of the new version, or aligns it.
func (w *writes) service(q *requests) {
	if q.canary == nil {
		w.create(q.service)
		return
	}
	w.patch(q.canary, traffic.AlignService(q.canary, q.service))
}

func (w *writes) routes(q *requests, act traffic.Act) {
	if act == traffic.DisownRoutes && traffic.Pinned(q.stable, q.label) == "" {
		w.patch(q.stable, traffic.Disown(q.stable))
	}
	for _, p := range q.places {
		switch act {
		case traffic.SetRoutes:
			w.change(p, p.reading.Set)
		case traffic.EndRoutes:
			w.change(p, p.reading.End)
		case traffic.ClearRoutes:
			w.drop(p, p.reading.Clear)
		case traffic.DisownRoutes:
			w.patch(p.object, p.reading.Disown)
		}
	}
}

func (w *writes) change(p place, change traffic.Change) {
	w.patch(p.object, change.Patch)
	for _, object := range change.Own {
		if i := slices.IndexFunc(p.own, same(traffic.ObjectOf(object))); i < 0 {
			w.create(object)
		} else {
			w.patch(p.own[i], replacing(p.own[i], object))
		}
	}
	w.drop(p, change.Gone)
}

func (w *writes) drop(p place, gone []traffic.Object) {
	for _, name := range gone {
		if i := slices.IndexFunc(p.own, same(name)); i >= 0 {
			w.remove(p.own[i])
		}
	}
}

func same(name traffic.Object) func(map[string]any) bool {
	return func(o map[string]any) bool { return traffic.ObjectOf(o) == name }
}

// replacing makes a stored object of the Rollout what it should be.
func replacing(stored, want map[string]any) []tree.Op {
	after := tree.Clone(stored)
	after["spec"] = want["spec"]
	for _, key := range []string{"labels", "annotations"} {
		tree.Set(after, nil, "metadata", key)
		if all := tree.Map(want, "metadata", key); len(all) > 0 {
			tree.Set(after, all, "metadata", key)
		}
	}
	return tree.Patch(stored, after)
}

func (w *writes) patch(object map[string]any, ops []tree.Op) {
	if object == nil || len(ops) == 0 {
		return
	}
	body, err := json.Marshal(ops)
	if err != nil {
		w.err = fmt.Errorf("encoding a patch: %w", err)
		return
	}
	w.add(planning.VerbPatch, object).Change = planning.RawPatch{Type: types.JSONPatchType, Body: body}
}

func (w *writes) create(object map[string]any) {
	made := &unstructured.Unstructured{Object: tree.Clone(object)}
	made.SetNamespace(w.rollout.Namespace)
	made.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(w.rollout, kind())})
	w.add(planning.VerbCreate, made.Object)
}

func (w *writes) remove(object map[string]any) {
	if object != nil {
		w.add(planning.VerbDelete, object).Propagation = metav1.DeletePropagationBackground
	}
}

func (w *writes) add(verb planning.Verb, content map[string]any) *planning.Action {
	object := &unstructured.Unstructured{Object: content}
	w.all = append(w.all, planning.Action{
		Verb: verb, Step: stepTraffic, Kind: schema.FromAPIVersionAndKind(object.GetAPIVersion(), object.GetKind()), Object: object, Reason: w.reason,
		Key: object.GetKind() + " " + object.GetName(), FieldManager: traffic.FieldManager,
		Failure: planning.Event{Warning: true, Reason: "FailedTraffic", Message: "Routing requests"},
	})
	return &w.all[len(w.all)-1]
}
