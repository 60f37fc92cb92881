// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
)

// WithClaims returns the annotations of a new CloneSet revision: those of RecordClaims, and a hash of its volume
// claim templates.
//
// OpenKruise's annotation is written only without templates: its value is known then without its
// hash. Without the annotation OpenKruise does not compare, so workloads on their way back are not
// replaced for another hash.
func WithClaims(annotations map[string]string, templates []corev1.PersistentVolumeClaim) map[string]string {
	all := RecordClaims(annotations, templates)
	delete(all, shared.AnnotationClaimTemplatesHash)
	hash := claimsHash(templates)
	all[shared.AnnotationClaimTemplates] = hash
	if hash == "" {
		all[shared.AnnotationClaimTemplatesHash] = ""
	}
	return all
}

// longestRecord is how many bytes of claim templates are recorded at most: annotations may have 256 KiB in all.
const longestRecord = 128 << 10

// RecordClaims returns the annotations of a revision with the claim templates of its pods. Too many
// are not recorded.
func RecordClaims(annotations map[string]string, templates []corev1.PersistentVolumeClaim) map[string]string {
	all := maps.Clone(annotations)
	if all == nil {
		all = map[string]string{}
	}
	delete(all, shared.AnnotationRecordedClaims)
	body, _ := json.Marshal(DefaultedClaims(templates)) // null when there are none; they always marshal
	if len(body) <= longestRecord {
		all[shared.AnnotationRecordedClaims] = string(body)
	}
	return all
}

// RecordedClaims are a revision's recorded claim templates; false without a record.
func RecordedClaims(r Revision) (templates []corev1.PersistentVolumeClaim, recorded bool) {
	if r.Object == nil {
		return nil, false
	}
	text, recorded := r.Object.Annotations[shared.AnnotationRecordedClaims]
	if !recorded || quantity.Unmarshal([]byte(text), &templates) != nil {
		return nil, false
	}
	return templates, true
}

// otherClaims says that a stored revision has other claim templates than its owner now. Only new
// revisions record that there are none.
func (o *Owner) otherClaims(stored *appsv1.ControllerRevision) bool {
	const none = "null"
	wanted, record := o.Annotations[shared.AnnotationRecordedClaims]
	is, recorded := stored.Annotations[shared.AnnotationRecordedClaims]
	return record && is != wanted && (recorded || wanted != none)
}

// DefaultedClaims are copies with the server's defaults, and without empty values. Nil when there
// are none.
func DefaultedClaims(templates []corev1.PersistentVolumeClaim) []corev1.PersistentVolumeClaim {
	var claims []corev1.PersistentVolumeClaim
	for i := range templates {
		claim := templates[i].DeepCopy()
		claim.TypeMeta, claim.CreationTimestamp, claim.Status = metav1.TypeMeta{}, metav1.Time{}, corev1.PersistentVolumeClaimStatus{}
		claim.Spec.VolumeMode = cmp.Or(claim.Spec.VolumeMode, ptr.To(corev1.PersistentVolumeFilesystem))
		claims = append(claims, *claim)
	}
	return claims
}

// claimsHash stands for names and specs of the templates, whatever their order; it is empty when there are none.
func claimsHash(templates []corev1.PersistentVolumeClaim) string {
	if len(templates) == 0 {
		return ""
	}
	type claim struct {
		Name string                           `json:"name"`
		Spec corev1.PersistentVolumeClaimSpec `json:"spec"`
	}
	claims := make([]claim, len(templates))
	for i, template := range DefaultedClaims(templates) {
		claims[i] = claim{template.Name, template.Spec}
	}
	slices.SortStableFunc(claims, func(a, b claim) int { return strings.Compare(a.Name, b.Name) })
	data, _ := json.Marshal(claims) // they always marshal
	return Hash(data, nil)
}

// ClaimsDiffer says that two revisions are known to have different volume claim templates. Our
// values are compared with ours, OpenKruise's with OpenKruise's; both say alike that there were
// none. Others do not differ.
func ClaimsDiffer(a, b Revision) bool {
	if a.Object == nil || b.Object == nil {
		return false
	}
	for _, key := range []string{shared.AnnotationClaimTemplates, shared.AnnotationClaimTemplatesHash} {
		left, known := a.Object.Annotations[key]
		right, alsoKnown := b.Object.Annotations[key]
		if known && alsoKnown {
			return left != right
		}
	}
	return noClaims(a) && someClaims(b) || noClaims(b) && someClaims(a)
}

func noClaims(r Revision) bool {
	for _, key := range []string{shared.AnnotationClaimTemplates, shared.AnnotationClaimTemplatesHash} {
		if hash, ok := r.Object.Annotations[key]; ok && hash == "" {
			return true
		}
	}
	return false
}

func someClaims(r Revision) bool {
	return r.Object.Annotations[shared.AnnotationClaimTemplates] != "" || r.Object.Annotations[shared.AnnotationClaimTemplatesHash] != ""
}
