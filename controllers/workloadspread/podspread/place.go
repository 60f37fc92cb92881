// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podspread

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/lazy"
	"github.com/kruise-operator/kruise-operator/internal/engine/spread"
	"github.com/kruise-operator/kruise-operator/internal/kube/listed"
)

// maxHops is how many owners above a pod are read.
const maxHops = 5

// counting is one try for a batch.
type counting struct {
	client.Client
	spread *spread.Spread
	// versions are the statuses of each.
	versions map[string][]appsv1beta1.WorkloadSpreadSubsetStatus
	shut     []bool
	changed  bool
	// live: the version was counted by the pods that there are.
	live map[string]bool
	// left are how many pods of an owner have no answer yet.
	left map[types.UID]int
	// read are the workloads behind the pods.
	read map[string]*unstructured.Unstructured
}

func newCounting(c client.Client, s *spread.Spread, status appsv1beta1.WorkloadSpreadStatus, batch []*asked) *counting {
	count := &counting{
		Client: c, spread: s, versions: map[string][]appsv1beta1.WorkloadSpreadSubsetStatus{}, shut: s.Shut(status.SubsetStatuses),
		live: map[string]bool{}, left: map[types.UID]int{}, read: map[string]*unstructured.Unstructured{},
	}
	for version, stored := range status.VersionedSubsetStatuses {
		count.versions[version] = s.Statuses(stored)
	}
	for _, a := range batch {
		count.left[count.group(a)]++
	}
	return count
}

// place gives a pod its subset.
func (c *counting) place(ctx context.Context, a *asked) error {
	a.spread, a.at, a.uid = c.spread, spread.None, ""
	defer func() { c.left[c.group(a)]-- }()
	s := c.spread
	if !s.Selector.Matches(labels.Set(a.pod.Labels)) {
		return nil
	}
	owner, target, err := c.chain(ctx, a)
	if err != nil || target == nil {
		return err
	}
	if s.HasOrdinals() {
		if ordinal, err := strconv.Atoi(a.pod.Name[strings.LastIndexByte(a.pod.Name, '-')+1:]); err == nil {
			a.at = s.Ordinal(ordinal, c.shut)
		}
		return nil
	}
	first := slices.Index(c.shut, false)
	if first != spread.None && s.Subsets[first].Max == nil {
		a.at = first
		return nil
	}
	version, replicas := s.Counted(a.pod.Labels), s.Replicas(target.Object)
	subsets := c.spread.Version(c.versions, version)
	if a.at = admitted(subsets, a.pod.Name); a.at != spread.None {
		return nil
	}
	at := s.Place(1, replicas, counts(subsets), c.shut)[0]
	if at != first && !c.live[version] && total(subsets) >= c.wanted(owner) {
		if err := c.recount(ctx, a, owner, version); err != nil {
			return err
		}
		at = s.Place(1, replicas, counts(subsets), c.shut)[0]
	}
	if a.at = at; at == spread.None || a.dry {
		return nil
	}
	key := a.pod.Name
	if key == "" {
		a.uid = string(uuid.NewUUID())
		key = a.uid
	}
	lazy.Put(&subsets[at].CreatingPods, key, metav1.Now())
	subsets[at].MissingReplicas = s.Missing(at, replicas, counts(subsets)[at])
	c.changed = true
	return nil
}

// admitted is the subset that a pod of this name got before, and is counted in.
func admitted(subsets []appsv1beta1.WorkloadSpreadSubsetStatus, name string) int {
	return slices.IndexFunc(subsets, func(subset appsv1beta1.WorkloadSpreadSubsetStatus) bool {
		_, found := subset.CreatingPods[name]
		return found
	})
}

// group are the pods that are counted together: those of an owner, or of a workload of a further kind.
func (c *counting) group(a *asked) types.UID {
	if c.spread.IsCustom() {
		return ""
	}
	return a.owner.UID
}

func counts(subsets []appsv1beta1.WorkloadSpreadSubsetStatus) []int {
	all := make([]int, len(subsets))
	for i := range subsets {
		all[i] = int(subsets[i].Replicas) + len(subsets[i].CreatingPods)
	}
	return all
}

func total(subsets []appsv1beta1.WorkloadSpreadSubsetStatus) int {
	sum := 0
	for _, n := range counts(subsets) {
		sum += n
	}
	return sum
}

// wanted is how many pods an owner wants. More counted ones are gone: the new pod replaces one.
func (c *counting) wanted(owner *unstructured.Unstructured) int {
	if c.spread.IsCustom() {
		return c.spread.Replicas(owner.Object)
	}
	for _, name := range []string{"replicas", "parallelism"} {
		if n, found, err := unstructured.NestedInt64(owner.Object, "spec", name); found && err == nil {
			return int(n)
		}
	}
	return 1
}

// recount counts the pods of a version that there are, since the status is behind deletions.
func (c *counting) recount(ctx context.Context, a *asked, owner *unstructured.Unstructured, version string) error {
	selector, err := spread.SelectorOf(owner)
	if c.spread.IsCustom() {
		selector, err = listed.Selector(ctx, c.Client, owner)
	}
	if err != nil {
		return err
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	err = c.List(ctx, list, client.InNamespace(a.pod.Namespace), client.MatchingLabelsSelector{Selector: selector},
		client.MatchingFieldsSelector{Selector: unfinished()})
	if err != nil {
		return fmt.Errorf("counting the pods of %s: %w", owner.GetName(), err)
	}
	subsets := c.spread.Version(c.versions, version)
	for i := range subsets {
		subsets[i].Replicas = 0
	}
	there, known := 0, map[string]bool{}
	for i := range list.Items {
		found := &list.Items[i]
		if found.DeletionTimestamp == nil {
			there++
		}
		mark, marked := spread.MarkOf(found.Annotations)
		at := c.spread.Index(mark.Subset)
		if !marked || mark.Name != c.spread.Name || at == spread.None || c.spread.Counted(found.Labels) != version {
			continue
		}
		known[found.Name], known[mark.UID] = true, true
		_, byName := subsets[at].CreatingPods[found.Name]
		_, byUID := subsets[at].CreatingPods[mark.UID]
		switch {
		case found.DeletionTimestamp != nil:
			delete(subsets[at].CreatingPods, found.Name)
			delete(subsets[at].CreatingPods, mark.UID)
		case !byName && !byUID: // others are counted until the controller has seen them
			subsets[at].Replicas++
		}
	}
	forget(subsets, known, c.wanted(owner)-there-c.left[c.group(a)])
	c.live[version], c.changed = true, c.changed || !a.dry
	return nil
}

// forget drops admitted pods that were created and deleted before the controller saw them: no owner has more pods to come than it lacks. most are
// the newest ones of those that are not known.
func forget(subsets []appsv1beta1.WorkloadSpreadSubsetStatus, known map[string]bool, most int) {
	type entry struct {
		of  map[string]metav1.Time
		key string
	}
	var unknown []entry
	for i := range subsets {
		for key := range subsets[i].CreatingPods {
			if !known[key] {
				unknown = append(unknown, entry{subsets[i].CreatingPods, key})
			}
		}
	}
	slices.SortFunc(unknown, func(a, b entry) int {
		return cmp.Or(a.of[a.key].Compare(b.of[b.key].Time), strings.Compare(a.key, b.key))
	})
	for _, e := range unknown[:max(len(unknown)-max(most, 0), 0)] {
		delete(e.of, e.key)
	}
}

// unfinished selects pods that are not over.
func unfinished() fields.Selector {
	return fields.AndSelectors(
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)), fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)))
}

// chain is the owner of a pod, and the target of the WorkloadSpread above it; nil without. Of a further kind both are the target.
func (c *counting) chain(ctx context.Context, a *asked) (owner, target *unstructured.Unstructured, err error) {
	custom := c.spread.IsCustom()
	for ref, hops := &a.owner, 0; ref != nil && hops < maxHops; hops++ {
		kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
		top := c.spread.IsFor(kind.GroupKind(), ref.Name)
		switch {
		case top && owner != nil && !custom && !c.spread.HasPercent():
			return owner, owner, nil
		case !top && (owner != nil && !custom || !slices.Contains(c.spread.Between, kind.GroupKind())):
			return nil, nil, nil
		}
		found, err := c.once(ctx, a.pod.Namespace, kind, ref.Name)
		if err != nil || found == nil || found.GetUID() != ref.UID {
			return nil, nil, err
		}
		if owner == nil || custom {
			owner = found
		}
		if top {
			return owner, found, nil
		}
		ref = metav1.GetControllerOfNoCopy(found)
	}
	return nil, nil, nil
}

// once reads an object once for a batch; nil: it is gone.
func (c *counting) once(ctx context.Context, namespace string, kind schema.GroupVersionKind, name string) (*unstructured.Unstructured, error) {
	id := kind.String() + "/" + name
	if known, found := c.read[id]; found {
		return known, nil
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", kind.Kind, name, err)
	}
	c.read[id] = object
	return object, nil
}
