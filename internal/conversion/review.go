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
	"k8s.io/apimachinery/pkg/runtime/schema"
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

// converters are the kinds whose versions differ in shape: one line for every kind of the table that is converted.
func converters() map[schema.GroupKind]func(ctx context.Context, object []byte, version string) ([]byte, error) {
	return map[schema.GroupKind]func(context.Context, []byte, string) ([]byte, error){
		{Group: v1beta1.GroupVersion().Group, Kind: "CloneSet"}:                 CloneSet,
		{Group: v1beta1.GroupVersion().Group, Kind: "ContainerRecreateRequest"}: ContainerRecreateRequest,
		{Group: v1beta1.GroupVersion().Group, Kind: "DaemonSet"}:                DaemonSet,
		{Group: v1beta1.GroupVersion().Group, Kind: "SidecarSet"}:               SidecarSet,
	}
}

// convertAll returns the converted objects in their order; all or none.
func convertAll(ctx context.Context, request *apiextensionsv1.ConversionRequest) ([]runtime.RawExtension, error) {
	converted := make([]runtime.RawExtension, 0, len(request.Objects))
	for _, object := range request.Objects {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("nobody waits for the converted objects: %w", err)
		}
		about := struct {
			metav1.TypeMeta `json:",inline"`
			Metadata        struct{ Name, Namespace string } `json:"metadata"`
		}{}
		if err := json.Unmarshal(object.Raw, &about); err != nil {
			return nil, fmt.Errorf("decoding an object to convert: %w", err)
		}
		name := about.Metadata.Namespace + "/" + about.Metadata.Name
		kind := about.GroupVersionKind().GroupKind()
		convert, ok := converters()[kind]
		if !ok {
			return nil, fmt.Errorf("%s: there is no conversion for %s", name, kind)
		}
		raw, err := convert(ctx, object.Raw, request.DesiredAPIVersion)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		converted = append(converted, runtime.RawExtension{Raw: raw})
	}
	return converted, nil
}
