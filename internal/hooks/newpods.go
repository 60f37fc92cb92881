// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package hooks

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

// NewPods describes a hook on the new pods of one workload.
type NewPods struct {
	// Path answers, followed by the name of the object that wants the hook.
	Path      string
	Namespace string
	Name      string
	UID       types.UID
	// Prefix and Named make the hook's name.
	Prefix string
	// Selector narrows the pods; nil: all of the owner.
	Selector *metav1.LabelSelector
	// Owner controls the pods. A Deployment's have ReplicaSets named after it and their hash.
	Owner     schema.GroupKind
	OwnerName string
	// Between are kinds of owners that may have the workload above them.
	Between []schema.GroupKind
	// FailClosed refuses pods while the operator does not answer.
	FailClosed  bool
	SideEffects admissionv1.SideEffectClass
}

// Hook is the hook, whether the workload exists or not; nil: no workload can have these names.
func (p NewPods) Hook() *Hook {
	if !isName(p.Owner.Group) || !isName(strings.ToLower(p.Owner.Kind)) || !isName(p.OwnerName) {
		return nil
	}
	hook := &Hook{
		Name: NameOf(p.Prefix, p.Namespace, p.Name), UID: p.UID, Order: Arrange, Mutates: true,
		Resource: corev1.SchemeGroupVersion.WithResource("pods"), Verbs: []admissionv1.OperationType{admissionv1.Create},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: p.Namespace}},
		ObjectSelector:    p.Selector,
		Conditions:        []admissionv1.MatchCondition{{Name: "of-the-workload", Expression: p.owned()}},
		Path:              p.Path + p.Name, OnFailure: admissionv1.Ignore, SideEffects: p.SideEffects,
	}
	if p.FailClosed {
		hook.OnFailure = admissionv1.Fail
	}
	return hook
}

func isName(text string) bool { return len(validation.IsDNS1123Subdomain(text)) == 0 }

// NameOf is a domain name for the hook of an object.
func NameOf(prefix, namespace, name string) string {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(namespace + "/" + name)) // writing to a hash never fails
	return prefix + "-" + rand.SafeEncodeString(strconv.FormatUint(sum.Sum64(), 36)) + ".operator.kruise.io"
}

// owned is true for pods with the workload, or an owner of a kind below it, as their controller.
func (p NewPods) owned() string {
	var owners []string
	add := func(group, owner string) {
		owners = append(owners, "o.apiVersion.startsWith('"+group+"/') && "+owner)
	}
	if p.Owner == appsv1.SchemeGroupVersion.WithKind("Deployment").GroupKind() {
		add(p.Owner.Group, fmt.Sprintf("o.kind == 'ReplicaSet' && o.name == '%s-' + object.metadata.?labels[?'%s'].orValue('')", p.OwnerName, shared.LabelPodTemplateHash))
	} else {
		add(p.Owner.Group, fmt.Sprintf("o.kind == '%s' && o.name == '%s'", p.Owner.Kind, p.OwnerName))
		for _, kind := range p.Between {
			if isName(kind.Group) && isName(strings.ToLower(kind.Kind)) {
				add(kind.Group, fmt.Sprintf("o.kind == '%s'", kind.Kind))
			}
		}
	}
	return "object.metadata.?ownerReferences.orValue([]).exists(o, o.?controller.orValue(false) && (" + strings.Join(owners, " || ") + "))"
}
