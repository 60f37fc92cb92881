// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package brake holds back a change of a workload that has a Rollout, in the moment of the change. policy.yaml says the same to the API
// server, for the workloads of Kubernetes; there it holds without the operator.
//
// It cannot look at other objects. The operator says by labels and annotations of the workload what it needs to know.
package brake

import (
	_ "embed" // policy.yaml
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/tree"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
)

// Policy is the policy of the API server, with its binding.
//
//go:embed policy.yaml
var Policy string

// everyOrdinal is a partition beyond all ordinals.
const everyOrdinal = int64(32767)

// request is an update of a workload.
type request struct {
	old, object *unstructured.Unstructured
	// was are the annotations before.
	was             map[string]string
	running, brakes bool
	// kept are the numbers of the user.
	kept string
}

// Brake changes the object of an update, as far as its workload has a Rollout.
func Brake(old, object *unstructured.Unstructured) {
	r := request{old: old, object: object, was: old.GetAnnotations()}
	if !r.guarded() || r.ours() {
		return
	}
	_, r.running = r.was[shared.AnnotationInProgressing]
	r.brakes = r.starts()
	r.keepNotes()
	if !r.brakes && !r.running {
		return
	}
	r.hold()
}

// The kinds of workloads with ways of their own.
const (
	deployment  = "Deployment.apps"
	daemonSet   = "DaemonSet.apps"
	statefulSet = "StatefulSet.apps"
	cloneSet    = "CloneSet.apps.kruise.io"
)

func kindOf(object *unstructured.Unstructured) string {
	return object.GroupVersionKind().GroupKind().String()
}

// hold writes what holds a workload, or keeps it.
func (r *request) hold() {
	switch kindOf(r.object) {
	case deployment:
		r.deployment()
	case daemonSet:
		r.daemonSet()
	case statefulSet:
		r.partition(everyOrdinal, true)
	case cloneSet:
		r.partition("100%", false)
	default:
		r.partition(everyOrdinal, false)
	}
}

// Catch holds a workload in the middle of a change that went unseen. Its annotation names the Rollout.
func Catch(object *unstructured.Unstructured) {
	r := request{old: object.DeepCopy(), object: object, was: object.GetAnnotations(), brakes: true}
	r.keepNotes()
	r.hold()
}

// Release lets a held workload go on by itself.
func Release(object *unstructured.Unstructured) {
	unstructured.RemoveNestedField(object.Object, "metadata", "annotations", shared.AnnotationInProgressing)
	switch kindOf(object) {
	case deployment:
		unstructured.RemoveNestedField(object.Object, "spec", "paused")
	case daemonSet:
		_ = unstructured.SetNestedField(object.Object, "RollingUpdate", "spec", "updateStrategy", "type")
	default:
		if _, found, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "updateStrategy", "rollingUpdate", "partition"); found {
			_ = unstructured.SetNestedField(object.Object, int64(0), "spec", "updateStrategy", "rollingUpdate", "partition")
		}
	}
}

// guarded: the workload has a Rollout. Who takes only the label away takes over. A manifest without it lacks the annotation, too.
func (r *request) guarded() bool {
	_, rollout := r.was[shared.AnnotationRollout]
	_, kept := r.object.GetAnnotations()[shared.AnnotationRollout]
	_, before := r.old.GetLabels()[shared.LabelWorkloadType]
	_, label := r.object.GetLabels()[shared.LabelWorkloadType]
	return rollout && r.old.GetDeletionTimestamp() == nil &&
		(label || before && (!kept || !reflect.DeepEqual(r.object.Object["spec"], r.old.Object["spec"])))
}

var number = regexp.MustCompile(`^[0-9]{1,15}$`)

// ours: the operator raises the number with each write. An undo can only bring a lower one back.
func (r *request) ours() bool {
	before, numbered := sequence(r.was)
	after, found := sequence(r.object.GetAnnotations())
	return found && (!numbered || after > before)
}

// sequence is the number in annotations; false: there is none.
func sequence(annotations map[string]string) (n int, found bool) {
	text := annotations[shared.AnnotationSequence]
	if number.MatchString(text) {
		n, _ = strconv.Atoi(text)
		found = true
	}
	return n, found
}

// Next is the number by which the brake knows the next write of the operator.
func Next(o metav1.Object) string {
	n, _ := sequence(o.GetAnnotations())
	return strconv.Itoa(n + 1)
}

// starts: there is something to release. As an annotation, a rollout-id stands for the template.
func (r *request) starts() bool {
	changed := r.changed()
	if r.running { // another rollout-id alone changes its labels, and moves no pod
		return changed
	}
	if replicas, found, _ := unstructured.NestedInt64(r.object.Object, "spec", "replicas"); found && replicas == 0 {
		return false
	}
	if label := r.object.GetLabels()[shared.RolloutID]; label != "" && label != r.old.GetLabels()[shared.RolloutID] {
		return true
	}
	if id := r.object.GetAnnotations()[shared.RolloutID]; id != "" {
		return id != r.was[shared.RolloutID]
	}
	return changed
}

// changed: pods of the two templates differ. Kubernetes stores those of its own kinds in one way. Ours are stored as they were written, and
// clients write the same in many ways: those in Go add empty resources to each container.
func (r *request) changed() bool {
	was, is := template(r.old), template(r.object)
	if equality.Semantic.DeepEqual(was[1:], is[1:]) && r.object.GroupVersionKind().Group != "apps" {
		return !reflect.DeepEqual(was[0], is[0]) && !samePods(was[0], is[0])
	}
	return !equality.Semantic.DeepEqual(was, is)
}

func samePods(specs ...any) bool {
	var pods [2]corev1.PodSpec
	for i := range specs {
		spec, is := specs[i].(map[string]any)
		if !is || quantity.FromUnstructured(spec, &pods[i]) != nil {
			return false
		}
	}
	return equality.Semantic.DeepEqual(pods[0], pods[1])
}

// template is what a release is about.
func template(o *unstructured.Unstructured) []any {
	spec, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "template", "spec")
	annotations, _, _ := unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "annotations")
	labels, _, _ := unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "labels")
	delete(labels, "pod-template-hash")
	return []any{spec, annotations, labels}
}

// keepNotes leaves what is ours as it was. An undo would bring old notes back.
func (r *request) keepNotes() {
	labels, now := r.object.GetLabels(), r.object.GetAnnotations()
	if r.kept = r.was[shared.AnnotationOriginal]; strings.HasSuffix(now[shared.AnnotationOriginal], r.end()) {
		r.kept = now[shared.AnnotationOriginal]
	}
	if _, found := labels[shared.LabelWorkloadType]; !found {
		tree.Set(r.object.Object, r.old.GetLabels()[shared.LabelWorkloadType], "metadata", "labels", shared.LabelWorkloadType)
	}
	for _, key := range []string{
		shared.AnnotationRollout, shared.AnnotationSequence, shared.AnnotationControl, shared.AnnotationOriginal, shared.AnnotationInProgressing,
	} {
		r.annotate(key, nil)
		if value, found := r.was[key]; found {
			r.annotate(key, value)
		}
	}
	if r.brakes {
		r.annotate(shared.AnnotationInProgressing, `{"rolloutName":"`+r.was[shared.AnnotationRollout]+`"}`)
	}
}

// annotate sets an annotation; nil removes it.
func (r *request) annotate(key string, value any) {
	tree.Set(r.object.Object, value, "metadata", "annotations", key)
}

// deployment pauses, and keeps the numbers of a release.
func (r *request) deployment() {
	paused, _, _ := unstructured.NestedBool(r.old.Object, "spec", "paused")
	r.set(r.brakes || paused, "spec", "paused")
	_, ours := r.was[shared.AnnotationOriginal]
	_, was, _ := unstructured.NestedMap(r.old.Object, "spec", "strategy", "rollingUpdate")
	_, is, _ := unstructured.NestedMap(r.object.Object, "spec", "strategy", "rollingUpdate")
	if !r.running || !was || is && !ours {
		return
	}
	r.note()
	for _, path := range [][]string{{"spec", "minReadySeconds"}, {"spec", "progressDeadlineSeconds"}, {"spec", "strategy"}} {
		unstructured.RemoveNestedField(r.object.Object, path...)
		if value, found, _ := unstructured.NestedFieldCopy(r.old.Object, path...); found {
			r.set(value, path...)
		}
	}
}

// setting is a number of a user, kept while that of a release stands there.
type setting struct {
	path []string
	// valid ones can be written back.
	valid *regexp.Regexp
}

func settings() []setting {
	seconds, rolling := regexp.MustCompile(`^[0-9]{1,9}$`), []string{"spec", "strategy", "rollingUpdate"}
	return []setting{
		{append(rolling, "maxSurge"), regexp.MustCompile(`^([0-9]{1,9}|"[0-9]{1,3}%")$`)},
		{append(rolling, "maxUnavailable"), regexp.MustCompile(`^([0-9]{1,9}|"(100|[0-9]{1,2})%")$`)},
		{[]string{"spec", "minReadySeconds"}, seconds},
		{[]string{"spec", "progressDeadlineSeconds"}, seconds},
	}
}

func (n setting) of(o *unstructured.Unstructured) any {
	value, found, _ := unstructured.NestedFieldNoCopy(o.Object, n.path...)
	if !found && len(n.path) == 2 { // seconds
		return int64(0)
	}
	return value
}

// note keeps numbers written by a user in a release. They hold after it.
func (r *request) note() {
	if _, found := r.was[shared.AnnotationOriginal]; !found {
		return
	}
	var parts []string
	writes := false
	for _, n := range settings() {
		was, is := n.of(r.old), n.of(r.object)
		key := `"` + n.path[len(n.path)-1] + `":`
		part := regexp.MustCompile(key + `("[^"]*"|[0-9]+)`).FindString(r.kept)
		if text := literal(is); !reflect.DeepEqual(was, is) && n.valid.MatchString(text) && part != key+text {
			part, writes = key+text, true
		}
		if part != "" {
			parts = append(parts, part)
		}
	}
	if writes {
		r.kept = "{" + strings.Join(parts, ",") + "," + r.end()
	}
	r.annotate(shared.AnnotationOriginal, r.kept)
}

// end marks numbers noted in this request. The API server asks again when somebody changes the object after the brake.
func (r *request) end() string { return `"at":"` + r.old.GetResourceVersion() + `"}` }

// literal is a number or percentage in JSON.
func literal(value any) string {
	if text, is := value.(string); is {
		return `"` + text + `"`
	}
	return fmt.Sprint(value)
}

// daemonSet has no partition: pods are updated when they are deleted.
func (r *request) daemonSet() {
	kind, _, _ := unstructured.NestedString(r.old.Object, "spec", "updateStrategy", "type")
	if r.brakes {
		kind = "OnDelete"
	}
	r.set(kind, "spec", "updateStrategy", "type")
}

// partition keeps all pods, or those that the release keeps.
func (r *request) partition(all any, onlyRolling bool) {
	kind, _, _ := unstructured.NestedString(r.old.Object, "spec", "updateStrategy", "type")
	if onlyRolling && kind != "RollingUpdate" {
		return
	}
	if onlyRolling {
		r.set(kind, "spec", "updateStrategy", "type")
	}
	path := []string{"spec", "updateStrategy", "rollingUpdate", "partition"}
	value, found, _ := unstructured.NestedFieldCopy(r.old.Object, path...)
	if !found {
		value = int64(0)
	}
	if r.brakes {
		value = all
	}
	r.set(value, path...)
}

// set writes a field. It fails where something on the way is no object, which the schema refuses later.
func (r *request) set(value any, path ...string) {
	_ = unstructured.SetNestedField(r.object.Object, runtime.DeepCopyJSONValue(value), path...)
}
