// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package conversion_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kruise-operator/kruise-operator/internal/conversion"
)

func TestHandler(t *testing.T) {
	const set = `{"apiVersion":"apps.kruise.io/v1alpha1","kind":"CloneSet","metadata":{"name":"web","namespace":"default"},"spec":{"updateStrategy":{"type":"OnDelete"}}}`
	const other = `{"apiVersion":"apps.kruise.io/v1alpha1","kind":"Other","metadata":{"name":"web","namespace":"default"}}`
	cases := map[string]struct {
		objects     []string
		want        []string
		wantMessage string
	}{
		"two sets in their order": {
			objects: []string{set, strings.ReplaceAll(set, "web", "api")},
			want: []string{
				`{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","metadata":{"name":"web","namespace":"default"},"spec":{"scaleStrategy":{"enablePVCReuse":true},"updateStrategy":{"type":"OnDelete"}}}`,
				`{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","metadata":{"name":"api","namespace":"default"},"spec":{"scaleStrategy":{"enablePVCReuse":true},"updateStrategy":{"type":"OnDelete"}}}`,
			},
		},
		"none":         {},
		"another kind": {objects: []string{set, other}, wantMessage: "default/web: there is no conversion for Other.apps.kruise.io"},
		"an unknown version": {
			objects:     []string{strings.ReplaceAll(set, "v1alpha1", "v7")},
			wantMessage: `default/web: converting a CloneSet: apps.kruise.io/v7 cannot become apps.kruise.io/v1beta1`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			request := &apiextensionsv1.ConversionRequest{UID: "u1", DesiredAPIVersion: "apps.kruise.io/v1beta1"}
			for _, object := range tc.objects {
				request.Objects = append(request.Objects, runtime.RawExtension{Raw: []byte(object)})
			}
			body, err := json.Marshal(&apiextensionsv1.ConversionReview{
				TypeMeta: metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "ConversionReview"}, Request: request,
			})
			if err != nil {
				t.Fatal(err)
			}
			code, text := post(body)
			var review apiextensionsv1.ConversionReview
			if err := json.Unmarshal(text, &review); err != nil || code != http.StatusOK || review.Response == nil {
				t.Fatalf("answer %d %s: %v", code, text, err)
			}
			response := review.Response
			if review.Kind != "ConversionReview" || review.APIVersion != "apiextensions.k8s.io/v1" || response.UID != "u1" || response.Result.Message != tc.wantMessage ||
				(response.Result.Status == metav1.StatusSuccess) != (tc.wantMessage == "") {
				t.Errorf("answer %s", text)
			}
			var got []string
			for _, object := range response.ConvertedObjects {
				got = append(got, string(object.Raw))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
		})
	}
	if code, _ := post([]byte("{}")); code != http.StatusBadRequest {
		t.Errorf("a body without a request: %d", code)
	}
}

func post(body []byte) (int, []byte) {
	recorder := httptest.NewRecorder()
	handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, conversion.Path, bytes.NewReader(body)))
	return recorder.Code, recorder.Body.Bytes()
}
