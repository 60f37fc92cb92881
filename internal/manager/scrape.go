// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// scrapes limits the metrics requests checked at once. Others are turned away, so nobody can flood the API server.
const scrapes = 4

// allowedToScrape serves metrics to users the API server lets get the path. controller-runtime's
// filters.WithAuthenticationAndAuthorization would make the binary 28 MB larger
// (docs/adr/0034-metrics-access.md).
func allowedToScrape(server *rest.Config, connection *http.Client) (metricsserver.Filter, error) {
	api, err := kubernetes.NewForConfigAndClient(server, connection)
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server to check who scrapes: %w", err)
	}
	room := make(chan struct{}, scrapes)
	return func(log logr.Logger, next http.Handler) (http.Handler, error) {
		return checked(api, log, room, next), nil
	}, nil
}

func checked(api kubernetes.Interface, log logr.Logger, room chan struct{}, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case room <- struct{}{}:
			defer func() { <-room }()
		default:
			http.Error(w, "too many requests are being checked", http.StatusTooManyRequests)
			return
		}
		status, err := judge(r.Context(), api, r)
		if err != nil {
			log.Info("A request for metrics could not be checked", "err", err.Error())
		}
		if status != http.StatusOK {
			http.Error(w, http.StatusText(status), status)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// judge asks the API server for a token's user, and if they may get the path.
func judge(ctx context.Context, api kubernetes.Interface, r *http.Request) (status int, err error) {
	token, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !found || token == "" {
		return http.StatusUnauthorized, nil
	}
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	who, err := api.AuthenticationV1().TokenReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return http.StatusInternalServerError, fmt.Errorf("asking whose token it is: %w", err)
	}
	if !who.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	user := who.Status.User
	access := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: map[string]authorizationv1.ExtraValue{},
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: r.URL.Path, Verb: strings.ToLower(r.Method)},
	}}
	for key, value := range user.Extra {
		access.Spec.Extra[key] = authorizationv1.ExtraValue(value)
	}
	may, err := api.AuthorizationV1().SubjectAccessReviews().Create(ctx, access, metav1.CreateOptions{})
	if err != nil {
		return http.StatusInternalServerError, fmt.Errorf("asking whether %s may: %w", user.Username, err)
	}
	if !may.Status.Allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}
