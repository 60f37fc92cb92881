// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package simnode

import "context"

func (n *Nodes) startProvisioner(context.Context) error { return nil }
