// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// Metrics tell how busy a cluster is, and who uses it: not everybody's business.
func TestMetricsAreForThoseWhoMayGetThem(t *testing.T) {
	api := fake.NewClientset()
	api.PrependReactor("create", "tokenreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review, _ := action.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview)
		if review.Spec.Token == "unanswered" {
			return true, nil, errors.New("no answer")
		}
		review.Status.Authenticated = review.Spec.Token != "forged"
		review.Status.User = authenticationv1.UserInfo{Username: review.Spec.Token, Groups: []string{"system:authenticated"}}
		return true, review, nil
	})
	api.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review, _ := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
		asked := review.Spec.NonResourceAttributes
		review.Status.Allowed = review.Spec.User == "prometheus" && len(review.Spec.Groups) == 1 && asked.Path == "/metrics" && asked.Verb == "get"
		return true, review, nil
	})
	room := make(chan struct{}, 1)
	handler := checked(api, logr.Discard(), room, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	ask := func(header string) int {
		request, answer := httptest.NewRequest(http.MethodGet, "/metrics", nil), httptest.NewRecorder()
		request.Header.Set("Authorization", header)
		handler.ServeHTTP(answer, request)
		return answer.Code
	}
	for header, want := range map[string]int{
		"": http.StatusUnauthorized, "Bearer ": http.StatusUnauthorized, "Basic eDp5": http.StatusUnauthorized, "Bearer forged": http.StatusUnauthorized,
		"Bearer somebody": http.StatusForbidden, "Bearer prometheus": http.StatusOK, "Bearer unanswered": http.StatusInternalServerError,
	} {
		if got := ask(header); got != want {
			t.Errorf("%q: %d, want %d", header, got, want)
		}
	}
	room <- struct{}{}
	if got := ask("Bearer prometheus"); got != http.StatusTooManyRequests {
		t.Errorf("without room: %d", got)
	}
}
