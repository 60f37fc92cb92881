// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admit

import (
	"errors"
	"slices"
	"testing"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// A warning of two joined errors was never shown: the API server drops warnings with line
// breaks.
func TestWarningsAreShownWhateverTheySay(t *testing.T) {
	joined := errors.Join(errors.New("it cannot be registered"), errors.New("no answer")).Error()
	got := firstWarnings([]string{"spec: " + joined, "a\tb\x00c", "\xff"})
	if want := []string{"spec: it cannot be registered no answer", "a b c", "?"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	for _, warning := range got {
		if _, err := utilnet.NewWarningHeader(299, "-", warning); err != nil {
			t.Errorf("%q: %v", warning, err)
		}
	}
}
