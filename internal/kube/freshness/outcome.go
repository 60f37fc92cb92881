// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package freshness

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Outcome is what became of a write, by the error that answered it.
type Outcome string

const (
	// Done means that it happened: there is no error.
	Done Outcome = "Done"
	// Refused means that the server answered that it did not do it.
	Refused Outcome = "Refused"
	// InDoubt means that it may have happened all the same.
	InDoubt Outcome = "InDoubt"
)

// Judge says what became of the write that err answered. Only these answers of the server itself are proof that nothing happened:
// 400, 401, 403, 404, 409, 410, 413, 415, 422 and 429. Everything else, a 500 or a timeout of the server included, may come
// after the write was committed.
func Judge(err error) Outcome {
	if err == nil {
		return Done
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return InDoubt
	}
	switch status.Status().Code {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusConflict,
		http.StatusGone, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity,
		http.StatusTooManyRequests:
		return Refused
	default:
		return InDoubt
	}
}
