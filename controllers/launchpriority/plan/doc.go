// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides the containers of one ordered pod to start now, and the writes for it.
package plan
