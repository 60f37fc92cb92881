// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cri

import "time"

// SetTimeout changes the deadline of quick requests.
func (c *Client) SetTimeout(timeout time.Duration) { c.timeout = timeout }
