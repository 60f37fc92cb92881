// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/lifecycle"
	"github.com/kruise-operator/kruise-operator/internal/engine/restart"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
)

// kubelet acts on a pod the way 7.1 of real ones was observed: one pass at a time sees a spec, says so in the status, and only
// then replaces the containers that were created from another image.
type kubelet struct {
	*simulation
	created map[string]string           // what each container was created from
	seen    map[string]corev1.Container // the spec of the pass that is under way; nil between passes
	waited  int
}

func (k *kubelet) see() {
	if k.seen != nil {
		return
	}
	k.observe()
	k.seen = map[string]corev1.Container{}
	for _, container := range k.pod.Spec.Containers {
		k.seen[container.Name] = *container.DeepCopy()
	}
	k.waited = 0
}

func (k *kubelet) act() {
	for name, container := range k.seen {
		if k.created[name] != container.Image {
			k.created[name] = container.Image
			k.restartAs(name, container.Image)
		}
		restart.StatusOf(k.pod, name).Resources = &container.Resources
	}
	k.seen = nil
}

func (k *kubelet) crash(name string) { k.restartAs(name, k.created[name]) }

// Revisions arrive at any moment: before the kubelet sees the last one, in grace periods, between batches, after crashes, after requests of which the server
// has taken only the first ones; also those that the pod is at already. The pod is never put back in service with a container that has to be replaced, and it
// always ends as the last revision wants it.
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
			if round%2 == 0 {
				cpu := resource.MustParse(fmt.Sprintf("%d00m", 1+random.Intn(2)))
				changes = append(changes, func(t *corev1.PodTemplateSpec) {
					t.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": cpu}
				})
			}
			return rev(fmt.Sprintf("shop-%d", next), changes...)
		}
		wanted := make()
		revisions := map[string]revision.Revision{wanted.Name: wanted}
		k := &kubelet{simulation: start(t, wanted), created: map[string]string{}}
		k.o.Resources = true
		k.pod.Spec.TerminationGracePeriodSeconds = new(int64(5)) // from an edit to the restart it takes less
		for _, container := range k.pod.Spec.Containers {
			k.created[container.Name] = container.Image
		}
		fail := func(format string, args ...any) {
			t.Fatalf("seed %d: %s\n%s", seed+int64(round), fmt.Sprintf(format, args...), strings.Join(log, "\n"))
		}
		at := func() revision.Revision { return revisions[k.pod.Labels[shared.LabelControllerRevisionHash]] }
		refuses := true
		// send sends an edit; the server may refuse one of its requests.
		send := func(e edit.Edit) {
			if refuses && len(e.Images)+len(e.Resources) > 0 && random.Intn(4) == 0 {
				part := edit.Edit{Conditions: e.Conditions}
				if random.Intn(2) == 0 {
					part.Resources = e.Resources
				}
				e = part
			}
			k.write(e)
		}
		move := func(grace time.Duration) {
			if from := at(); from.Name != wanted.Name {
				e, err := Move{k.pod, from, wanted, Compare(from.Template, wanted.Template, k.o), grace, true, k.o, k.now}.Begin()
				if err != nil {
					fail("%v", err)
				}
				send(e)
			}
		}
		step := func(event int) {
			switch event {
			case 0:
				if wanted = at(); random.Intn(4) > 0 {
					wanted = make()
					revisions[wanted.Name] = wanted
				}
				move(time.Duration(random.Intn(2)*random.Intn(4)) * time.Second)
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
			if !refuses || random.Intn(3) == 0 {
				move(0)
			}
			if e, ok := k.next(); ok {
				send(e)
			}
			s := k.check()
			log = append(log, fmt.Sprintf("event %d at %s: at %s of %s, %s created %v, %+v",
				event, k.now.Format(time.TimeOnly), at().Name, wanted.Name, k.images(), k.created, s))
			if s.Progress == Done && at().Name == wanted.Name {
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
		refuses = false
		for i := 0; at().Name != wanted.Name || k.check().Progress != None; i++ {
			if i > 60 {
				fail("the update does not end")
			}
			step([]int{1, 3, 7}[i%3])
		}
		want := wanted.Template
		for i, container := range k.pod.Spec.Containers {
			if got := container.Resources.Requests.Cpu(); !got.Equal(*want.Spec.Containers[i].Resources.Requests.Cpu()) {
				fail("container %s has %s of cpu, wanted %s", container.Name, got, want.Spec.Containers[i].Resources.Requests.Cpu())
			}
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
