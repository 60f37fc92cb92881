// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides which containers of one ordered pod may start now, and what has to be written for that.
package plan
