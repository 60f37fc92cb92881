// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package installowner

import (
	"context"
	"errors"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestFind(t *testing.T) {
	const underOLM, plain = "kruise-operator-manager-service-system:auth-delegator", "kruise-operator-manager"
	binding := func(name string) *rbacv1.ClusterRoleBinding {
		return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name)}}
	}
	leaving := binding(underOLM)
	leaving.DeletionTimestamp, leaving.Finalizers = new(metav1.Now()), []string{"example.com/held"}
	cases := map[string]struct {
		objects []client.Object
		want    string
		wantErr error
	}{
		"under OLM":                   {objects: []client.Object{binding(underOLM), binding("other")}, want: underOLM},
		"without OLM":                 {objects: []client.Object{binding(plain)}, want: plain},
		"neither":                     {objects: []client.Object{binding("other")}, wantErr: ErrNone},
		"while OLM is removing it":    {objects: []client.Object{leaving}, wantErr: ErrNone},
		"OLM's wins, it goes earlier": {objects: []client.Object{binding(plain), binding(underOLM)}, want: underOLM},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			reader := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(tc.objects...).Build()
			owner, err := Find(t.Context(), reader)
			if !errors.Is(err, tc.wantErr) || owner.Name != tc.want {
				t.Fatalf("got %+v, %v", owner, err)
			}
			if tc.want != "" && (owner.UID != types.UID("uid-of-"+tc.want) || owner.Kind != "ClusterRoleBinding" || owner.Controller != nil) {
				t.Errorf("the reference is %+v", owner)
			}
		})
	}
}

func TestFindReportsWhatItCannotRead(t *testing.T) {
	failure := errors.New("no route to host")
	reader := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return failure
		},
	}).Build()
	if _, err := Find(t.Context(), reader); !errors.Is(err, failure) || errors.Is(err, ErrNone) {
		t.Errorf("got %v", err)
	}
}
