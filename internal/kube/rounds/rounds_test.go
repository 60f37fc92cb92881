// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rounds

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func TestQuestionsThatComeMeanwhileAreAnsweredTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Of[string]
		var rounds [][]string
		free := make(chan struct{})
		answer := func(_ context.Context, _ types.NamespacedName, asked []string) error {
			rounds = append(rounds, asked)
			<-free
			return nil
		}
		gone, cancel := context.WithCancel(t.Context())
		about := types.NamespacedName{Name: "x"}
		ask := func(ctx context.Context, text string, want error) {
			go func() {
				if err := r.Ask(ctx, about, text, answer); !errors.Is(err, want) {
					t.Errorf("%s: %v", text, err)
				}
			}()
			synctest.Wait()
		}
		ask(t.Context(), "first", nil)
		ask(t.Context(), "second", nil)
		ask(gone, "left", context.Canceled)
		ask(t.Context(), "third", nil)
		cancel()
		synctest.Wait()
		close(free)
		synctest.Wait()
		if len(rounds) != 2 || len(rounds[0]) != 1 || len(rounds[1]) != 2 || len(r.waiting) > 0 {
			t.Errorf("the rounds are %v, and %v wait", rounds, r.waiting)
		}
	})
}

func TestAConflictIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Of[string]
		tries, conflict := 0, apierrors.NewConflict(schema.GroupResource{}, "x", errors.New("changed"))
		for name, conflicts := range map[string]int{"some": 5, "always": 1000} {
			tries = 0
			err := r.Ask(t.Context(), types.NamespacedName{Name: "x"}, "", func(context.Context, types.NamespacedName, []string) error {
				if tries++; tries > conflicts {
					return nil
				}
				return conflict
			})
			if (err != nil) != (conflicts == 1000) || tries < min(conflicts, 20) {
				t.Errorf("%s: %v after %d tries", name, err, tries)
			}
		}
	})
}
