// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"time"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/lifecycle"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
)

// kubelet acts on a pod the way 7.1 of real ones was observed: one pass at a time sees a spec, says so in the status, and only
// then replaces the containers that were created from another image.
type kubelet struct {
	*simulation
	created map[string]string // what each container was created from
	seen    map[string]string // the spec of the pass that is under way; nil between passes
	waited  int
}

func (k *kubelet) see() {
	if k.seen != nil {
		return
	}
	k.observe()
	k.seen = map[string]string{}
	for _, container := range k.pod.Spec.Containers {
		k.seen[container.Name] = container.Image
	}
	k.waited = 0
}

func (k *kubelet) act() {
	for name, image := range k.seen {
		if k.created[name] != image {
			k.created[name] = image
			k.restartAs(name, image)
		}
	}
	k.seen = nil
}

func (k *kubelet) crash(name string) { k.restartAs(name, k.created[name]) }

// Revisions arrive at any moment: before the kubelet sees the last one, in grace periods, between batches, after crashes. The pod
// is never put back in service with a container that has to be replaced, and it always ends as the last revision wants it.
func TestNoChangeIsLostWhateverTheOrder(t *testing.T) {
	const seed = 20260102
	for round := range 150 {
		random := rand.New(rand.NewSource(seed + int64(round)))
		var log []string
		next := 0
		make := func() revision.Revision {
			next++
			changes := []templateChange{
				image(0, fmt.Sprintf("web:%d", random.Intn(3))), image(1, fmt.Sprintf("log:%d", random.Intn(3))),
				label("tier", fmt.Sprint(random.Intn(3))), barrier(0, round%3), barrier(1, 1),
			}
			if random.Intn(2) == 0 {
				changes = append(changes, annotation("sometimes", "x"))
			}
			return rev(fmt.Sprintf("shop-%d", next), changes...)
		}
		current := make()
		k := &kubelet{simulation: start(t, current), created: map[string]string{}}
		k.pod.Spec.TerminationGracePeriodSeconds = new(int64(5)) // from an edit to the restart it takes less
		for _, container := range k.pod.Spec.Containers {
			k.created[container.Name] = container.Image
		}
		fail := func(format string, args ...any) {
			t.Fatalf("seed %d: %s\n%s", seed+int64(round), fmt.Sprintf(format, args...), strings.Join(log, "\n"))
		}
		step := func(event int) {
			switch event {
			case 0:
				to := make()
				grace := time.Duration(random.Intn(2)*random.Intn(4)) * time.Second
				k.begin(current, to, grace)
				current = to
			case 1, 2:
				k.see()
			case 3:
				k.act()
			case 4:
				k.crash("web")
			default:
				// From an edit to the restart this kubelet takes four seconds at most, see settleTime.
				k.pass(time.Second)
				if k.waited++; k.waited > 1 {
					k.act()
					k.see()
				}
			}
			k.advance()
			s := k.check()
			log = append(log, fmt.Sprintf("event %d at %s: %s created %v, %+v", event, k.now.Format(time.TimeOnly), k.images(), k.created, s))
			if s.Progress == Done {
				for _, container := range k.pod.Spec.Containers {
					if k.created[container.Name] != container.Image {
						fail("container %s is taken for updated", container.Name)
					}
				}
				k.finish()
			}
		}
		for range 30 {
			step(random.Intn(8))
		}
		for i := 0; k.check().Progress != None; i++ {
			if i > 60 {
				fail("the update does not end")
			}
			step([]int{1, 3, 7}[i%3])
		}
		want := current.Template
		for i, container := range k.pod.Spec.Containers {
			if container.Image != want.Spec.Containers[i].Image || k.created[container.Name] != container.Image {
				fail("container %s has %s, created from %s, wanted %s", container.Name, container.Image, k.created[container.Name], want.Spec.Containers[i].Image)
			}
		}
		_, has := k.pod.Annotations["sometimes"]
		if k.pod.Labels["tier"] != want.Labels["tier"] || has != (len(want.Annotations) > 0) || k.pod.Labels["mine"] != "stays" {
			fail("metadata is %v %v", k.pod.Labels, k.pod.Annotations)
		}
		if _, waits := k.pod.Annotations[shared.AnnotationInPlaceGrace]; waits || !lifecycle.IsNormal(lifecycle.StateOf(k.pod)) || k.gate().Status != "True" {
			fail("the pod is not back in service")
		}
	}
}
