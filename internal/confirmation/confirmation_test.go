// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package confirmation

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
	"github.com/kruise-operator/kruise-operator/internal/takeover"
	"github.com/kruise-operator/kruise-operator/internal/testutil"
)

var lease = client.ObjectKey{Namespace: "kruise-system", Name: LeaseName}

// known are some kinds.
func known() kinds.Table {
	return testutil.Kinds("AdvancedCronJob", "CloneSet", "SidecarSet", "StatefulSet")
}

// cluster is an API server that serves all kinds of the table.
func cluster(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) client.WithWatch {
	t.Helper()
	types, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range known() {
		for _, version := range kind.Versions {
			mapper.Add(kind.GroupKind().WithVersion(version), meta.RESTScopeNamespace)
		}
	}
	return fake.NewClientBuilder().WithScheme(types).WithRESTMapper(mapper).WithObjects(objects...).WithInterceptorFuncs(funcs).Build()
}

// leftBy is the Lease of an operator that recorded these kinds; of one without records when there are none.
func leftBy(served ...string) *coordinationv1.Lease {
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: lease.Namespace, Name: lease.Name}}
	if len(served) > 0 {
		l.Annotations = map[string]string{Annotation: strings.Join(served, ",")}
	}
	return l
}

func stored(kind, name string) client.Object {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("apps.kruise.io/v1beta1")
	object.SetKind(kind)
	object.SetNamespace("default")
	object.SetName(name)
	return object
}

func TestWhatWaits(t *testing.T) {
	openKruise := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: takeover.Lease().Namespace, Name: takeover.Lease().Name}}
	sets := []client.Object{stored("SidecarSet", "a"), stored("CloneSet", "b"), stored("AdvancedCronJob", "c")}
	for name, test := range map[string]struct {
		objects []client.Object
		want    Waiting
	}{
		"a new installation asks nothing":              {objects: sets},
		"of a version without a record":                {objects: append(sets, leftBy()), want: Waiting{"SidecarSet": 1, "AdvancedCronJob": 1}},
		"of a version that served one of them":         {objects: append(sets, leftBy("CloneSet", "SidecarSet")), want: Waiting{"AdvancedCronJob": 1}},
		"nothing is stored":                            {objects: []client.Object{leftBy()}},
		"OpenKruise serves them":                       {objects: append(sets, leftBy(), openKruise)},
		"all were served, whatever is enabled by now":  {objects: append(sets, leftBy(known().Names()...))},
		"a kind of a later version that is not known":  {objects: append(sets, leftBy(append(known().Names(), "Rollout")...))},
		"a workload that all versions have reconciled": {objects: []client.Object{leftBy(), stored("CloneSet", "b")}},
	} {
		t.Run(name, func(t *testing.T) {
			c := cluster(t, interceptor.Funcs{}, test.objects...)
			got, err := Begin(t.Context(), c, c.RESTMapper(), lease, known())
			if err != nil || !maps.Equal(got, test.want) {
				t.Errorf("waiting: %v, %v; want %v", got, err, test.want)
			}
		})
	}
}

// What cannot be counted may be there: it waits. A kind that the server does not have does not.
func TestWhatCannotBeCountedWaits(t *testing.T) {
	refuse := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		if kind := list.GetObjectKind().GroupVersionKind().Kind; strings.HasPrefix(kind, "SidecarSet") {
			return errors.New("nobody converts")
		}
		return c.List(ctx, list, options...)
	}}
	c := cluster(t, refuse, leftBy())
	got, err := FindWaiting(t.Context(), c, c.RESTMapper(), lease, known())
	if err != nil || !maps.Equal(got, Waiting{"SidecarSet": Unknown}) {
		t.Errorf("waiting: %v, %v", got, err)
	}
	none := meta.NewDefaultRESTMapper(nil)
	if got, err := FindWaiting(t.Context(), c, none, lease, known()); err != nil || len(got) > 0 {
		t.Errorf("without definitions: %v, %v", got, err)
	}
}

// An operator that is killed before it is elected does not take itself for an older version at its next start.
func TestTheRecordOfANewInstallationIsThereBeforeTheElection(t *testing.T) {
	c := cluster(t, interceptor.Funcs{})
	if got, err := Begin(t.Context(), c, c.RESTMapper(), lease, known()); err != nil || len(got) > 0 {
		t.Fatalf("waiting at the first start: %v, %v", got, err)
	}
	if err := c.Create(t.Context(), stored("SidecarSet", "a")); err != nil {
		t.Fatal(err)
	}
	if got, err := Begin(t.Context(), c, c.RESTMapper(), lease, known()); err != nil || len(got) > 0 {
		t.Errorf("waiting at the second start: %v, %v", got, err)
	}
}

func TestTheLeaderRecordsWhatItServes(t *testing.T) {
	c := cluster(t, interceptor.Funcs{}, leftBy(), stored("SidecarSet", "a"))
	waiting, err := Begin(t.Context(), c, c.RESTMapper(), lease, known())
	if err != nil {
		t.Fatal(err)
	}
	r := &Recorder{Client: c, Mapper: c.RESTMapper(), Lease: lease, Kinds: known(), Waiting: waiting}
	if err := r.write(t.Context()); err != nil {
		t.Fatal(err)
	}
	if again, err := FindWaiting(t.Context(), c, c.RESTMapper(), lease, known()); err != nil || !maps.Equal(again, Waiting{"SidecarSet": 1}) {
		t.Errorf("after the record of what it serves: %v, %v", again, err)
	}
	r.Waiting = nil // it is confirmed
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if again, err := FindWaiting(t.Context(), c, c.RESTMapper(), lease, known()); err != nil || len(again) > 0 {
		t.Errorf("once it is confirmed: %v, %v", again, err)
	}
}

// Objects of some kinds come and go all the time; a restart for each of them would interrupt every rollout.
func TestOtherNumbersAreNoReasonToRestart(t *testing.T) {
	for name, tc := range map[string]struct {
		before, after Waiting
		same          bool
	}{
		"nothing changes":            {Waiting{"SidecarSet": 2}, Waiting{"SidecarSet": 2}, true},
		"there are more":             {Waiting{"SidecarSet": 2}, Waiting{"SidecarSet": 3}, true},
		"the last one is gone":       {Waiting{"SidecarSet": 1, "DaemonSet": 1}, Waiting{"DaemonSet": 1}, false},
		"they could not be counted":  {Waiting{"SidecarSet": Unknown}, Waiting{"SidecarSet": 2}, false},
		"they cannot be counted now": {Waiting{"SidecarSet": 2}, Waiting{"SidecarSet": Unknown}, true},
		"others wait":                {Waiting{"SidecarSet": 2}, Waiting{"DaemonSet": 2}, false},
	} {
		if got := sameKinds(tc.after, tc.before); got != tc.same {
			t.Errorf("%s: %v", name, got)
		}
	}
}
