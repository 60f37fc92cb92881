// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/statefulset/admission"
	"github.com/kruise-operator/kruise-operator/controllers/statefulset/plan"
	"github.com/kruise-operator/kruise-operator/internal/testutil/admissiontest"
)

func TestDefault(t *testing.T) {
	cases := map[string]struct{ options, spec, want string }{
		"everything that is left out, the gates off": {
			options: `{}`,
			spec:    `{}`,
			want: `
replicas: 1
revisionHistoryLimit: 10
podManagementPolicy: OrderedReady
updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 0, maxUnavailable: 1, minReadySeconds: 0, podUpdatePolicy: ReCreate}}`,
		},
		"the gate of claim retention": {
			options: `{AutoDeletePVC: true}`,
			spec:    `{updateStrategy: {type: OnDelete}}`,
			want: `
replicas: 1
revisionHistoryLimit: 10
podManagementPolicy: OrderedReady
updateStrategy: {type: OnDelete}
persistentVolumeClaimRetentionPolicy: {whenDeleted: Retain, whenScaled: Retain}`,
		},
		"the gate of claim resizing": {
			options: `{AutoResizePVC: true}`,
			spec:    `{updateStrategy: {type: OnDelete}}`,
			want: `
replicas: 1
revisionHistoryLimit: 10
podManagementPolicy: OrderedReady
updateStrategy: {type: OnDelete}
volumeClaimUpdateStrategy: {type: OnDelete}`,
		},
		"what is set stays": {
			options: `{AutoDeletePVC: true, AutoResizePVC: true}`,
			spec: `
replicas: 0
revisionHistoryLimit: 0
podManagementPolicy: Parallel
updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 2, maxUnavailable: 40%, minReadySeconds: 5, podUpdatePolicy: InPlaceOnly}}
persistentVolumeClaimRetentionPolicy: {whenScaled: Delete}
volumeClaimUpdateStrategy: {type: OnPodRollingUpdate}
ordinals: {start: 3}`,
			want: `
replicas: 0
revisionHistoryLimit: 0
podManagementPolicy: Parallel
updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 2, maxUnavailable: 40%, minReadySeconds: 5, podUpdatePolicy: InPlaceOnly}}
persistentVolumeClaimRetentionPolicy: {whenDeleted: Retain, whenScaled: Delete}
volumeClaimUpdateStrategy: {type: OnPodRollingUpdate}
ordinals: {start: 3}`,
		},
		"templates stay as written": {
			options: `{}`,
			spec: `
updateStrategy: {type: OnDelete}
template: {spec: {containers: [{name: main, image: example/web, ports: [{containerPort: 80}]}]}}
volumeClaimTemplates: [{metadata: {name: data}}]`,
			want: `
replicas: 1
revisionHistoryLimit: 10
podManagementPolicy: OrderedReady
updateStrategy: {type: OnDelete}
template: {spec: {containers: [{name: main, image: example/web, ports: [{containerPort: 80}]}]}}
volumeClaimTemplates: [{metadata: {name: data}}]`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := &appsv1beta1.StatefulSet{Spec: admissiontest.Parse[appsv1beta1.StatefulSetSpec](t, tc.spec)}
			options := admissiontest.Parse[plan.Options](t, tc.options)
			admission.Default(got, options)
			want := admissiontest.Parse[appsv1beta1.StatefulSetSpec](t, tc.want)
			if diff := cmp.Diff(want, got.Spec); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
			again := got.DeepCopy()
			admission.Default(again, options)
			if diff := cmp.Diff(got.Spec, again.Spec); diff != "" {
				t.Errorf("defaulting twice changes the spec (-once +twice):\n%s", diff)
			}
		})
	}
}

// What OpenKruise 1.9 stored needs no defaults from us, or the first write after a takeover would bring changes nobody made.
func TestDefaultLeavesStoredObjectsAlone(t *testing.T) {
	stored := `
podManagementPolicy: OrderedReady
replicas: 1
revisionHistoryLimit: 10
selector: {matchLabels: {app: log}}
serviceName: log
persistentVolumeClaimRetentionPolicy: {whenDeleted: Retain, whenScaled: Delete}
updateStrategy: {rollingUpdate: {maxUnavailable: 1, minReadySeconds: 0, partition: 0, podUpdatePolicy: ReCreate}, type: RollingUpdate}
volumeClaimTemplates:
- metadata: {creationTimestamp: null, name: data}
  spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}, storageClassName: disk}
  status: {phase: Pending}
volumeClaimUpdateStrategy: {}`
	want := admissiontest.Parse[appsv1beta1.StatefulSetSpec](t, stored)
	got := &appsv1beta1.StatefulSet{Spec: *want.DeepCopy()}
	admission.Default(got, plan.Options{AutoDeletePVC: true})
	if diff := cmp.Diff(want, got.Spec); diff != "" {
		t.Errorf("spec (-stored +defaulted):\n%s", diff)
	}
	if got.Spec.UpdateStrategy.Type != appsv1.RollingUpdateStatefulSetStrategyType {
		t.Errorf("the stored object was not read: type %q", got.Spec.UpdateStrategy.Type)
	}
}
