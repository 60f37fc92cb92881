// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package testutil builds objects for tests and a client whose requests fail as a test says. Only tests import it.
package testutil
