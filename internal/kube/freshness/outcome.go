// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package freshness

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Outcome is the result of a write, by its error.
type Outcome string

const (
	// Done means it happened, without an error.
	Done Outcome = "Done"
	// Refused means the server answered that it did not do it.
	Refused Outcome = "Refused"
	// InDoubt means it may have happened all the same.
	InDoubt Outcome = "InDoubt"
)

// Judge interprets a write's error. Only the server's answers 400, 401, 403, 404, 409, 410,
// 413, 415, 422 and 429 prove nothing happened. Anything else, even a 500 or a timeout of
// the server, may follow a committed write.
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
