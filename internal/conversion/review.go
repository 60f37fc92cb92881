// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package conversion

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// Path is where the API server calls Handler.
const Path = "/convert"

// maxReview is the largest request that is read, in bytes. The API server sends the objects of a whole list at once.
const maxReview = 512 << 20

// Handler answers the API server's requests to convert objects.
type Handler struct{}

// ServeHTTP converts all objects of a review, or says why it cannot.
func (Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	review := &apiextensionsv1.ConversionReview{}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxReview)).Decode(review); err != nil || review.Request == nil {
		http.Error(w, "the body must be a ConversionReview with a request", http.StatusBadRequest)
		return
	}
	response := &apiextensionsv1.ConversionResponse{UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	objects, err := convertAll(r.Context(), review.Request)
	if err != nil {
		ctrl.LoggerFrom(r.Context()).Error(err, "Objects cannot be converted")
		response.Result = metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
	}
	response.ConvertedObjects = objects
	review.Request, review.Response = nil, response
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(review); err != nil {
		ctrl.LoggerFrom(r.Context()).V(1).Info("The API server did not wait for converted objects", "reason", err.Error())
	}
}

// convertAll returns the converted objects in their order; all or none.
func convertAll(ctx context.Context, request *apiextensionsv1.ConversionRequest) ([]runtime.RawExtension, error) {
	converted := make([]runtime.RawExtension, 0, len(request.Objects))
	for _, object := range request.Objects {
		var about metav1.PartialObjectMetadata
		if err := json.Unmarshal(object.Raw, &about); err != nil {
			return nil, fmt.Errorf("reading an object to convert: %w", err)
		}
		name := about.Namespace + "/" + about.Name
		if group := about.GroupVersionKind().GroupKind(); group.Group != v1beta1.GroupVersion().Group || group.Kind != "CloneSet" {
			return nil, fmt.Errorf("%s: there is no conversion for %s", name, group)
		}
		raw, err := CloneSet(ctx, object.Raw, request.DesiredAPIVersion)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		converted = append(converted, runtime.RawExtension{Raw: raw})
	}
	return converted, nil
}
