// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package conversion

import (
	"testing"

	"github.com/kruise-operator/kruise-operator/internal/kinds"
)

func TestEveryConvertedKindOfTheTableIsConverted(t *testing.T) {
	for _, kind := range kinds.All() {
		if _, converted := converters()[kind.GroupKind()]; converted != kind.Converted {
			t.Errorf("%s: converted %v, and the table says %v", kind.Name, converted, kind.Converted)
		}
	}
}
