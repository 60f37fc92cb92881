// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"context"
	"errors"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// answering is an API server answering every read with an error.
type answering struct {
	client.Reader
	err error
}

func (a answering) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return a.err
}

// After the CRD's deletion a client goes on asking for objects: nobody may then wait for their cache.
func TestLoadSaysWhetherTheKindIsServed(t *testing.T) {
	kruises := schema.GroupResource{Group: "operator.kruise.io", Resource: "kruises"}
	for name, tc := range map[string]struct {
		answer         error
		served, failed bool
	}{
		"the object is not there":        {answer: apierrors.NewNotFound(kruises, "cluster"), served: true},
		"the CRD was not there":          {answer: &meta.NoKindMatchError{}},
		"the CRD is not there any more":  {answer: apierrors.NewGenericServerResponse(http.StatusNotFound, "get", kruises, "cluster", "404 page not found", 0, true)},
		"the server cannot say":          {answer: errors.New("connection refused"), failed: true},
		"a proxy answers for the server": {answer: apierrors.NewGenericServerResponse(http.StatusBadGateway, "get", kruises, "cluster", "", 0, true), failed: true},
	} {
		t.Run(name, func(t *testing.T) {
			object, served, err := Load(t.Context(), answering{err: tc.answer})
			if object != nil || served != tc.served || (err != nil) != tc.failed {
				t.Errorf("object %v, served %v, error %v", object, served, err)
			}
		})
	}
}
