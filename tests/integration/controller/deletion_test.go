// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package controller_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// nothingLeft returns an error while the set or something of it exists.
func nothingLeft(t *testing.T, n *environment.Namespace, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		err := n.Client.Get(ctx, client.ObjectKey{Namespace: n.Name, Name: name}, &v1beta1.StatefulSet{})
		if err == nil {
			return errors.New("the set exists")
		}
		if !apierrors.IsNotFound(err) {
			return err
		}
		if pods, history := n.Pods(), revisions(t, n); len(pods)+len(history) > 0 {
			return fmt.Errorf("there are pods %v and %d revisions", environment.Names(pods), len(history))
		}
		return nil
	}
}

func TestBackgroundDeletionTakesEverything(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	n.Apply(environment.StatefulSetManifest("web", 3))
	set := n.Settled("web")
	if err := n.Client.Delete(t.Context(), set, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	n.Eventually("set, pods and revisions are gone", nothingLeft(t, n, "web"))
	n.Consistently(time.Second, "nothing comes back", nothingLeft(t, n, "web"))
}

func TestForegroundDeletionWaitsForThePods(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	n.Apply(environment.StatefulSetManifest("web", 3))
	set := n.Settled("web")
	n.PatchPod("web-1", `{"metadata":{"finalizers":["example.io/hold"]}}`)
	before := uids(n.Pods())
	if err := n.Client.Delete(t.Context(), set, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	n.Eventually("only the held pod is left", func(context.Context) error {
		pods := n.Pods()
		if len(pods) != 1 || pods[0].Name != "web-1" || pods[0].UID != before["web-1"] {
			return fmt.Errorf("the pods are %v", environment.Names(pods))
		}
		return nil
	})
	n.Eventually("the status says that the set is being deleted", func(context.Context) error {
		if c := condition(n.StatefulSet("web"), v1beta1.StatefulSetProgressing); c == nil || c.Reason != v1beta1.ReasonDeleting {
			return fmt.Errorf("Progressing is %+v", c)
		}
		return nil
	})
	n.Consistently(time.Second, "the set waits and replaces no pod", func(context.Context) error {
		if pods := n.Pods(); len(pods) != 1 || pods[0].UID != before["web-1"] {
			return fmt.Errorf("the pods are %v", environment.Names(pods))
		}
		if n.StatefulSet("web").DeletionTimestamp == nil {
			return errors.New("the set is not being deleted")
		}
		return nil
	})
	n.PatchPod("web-1", `{"metadata":{"finalizers":null}}`)
	n.Eventually("set, pods and revisions are gone", nothingLeft(t, n, "web"))
}
