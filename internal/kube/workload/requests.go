// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

const (
	// requestAgent is how a ContainerRecreateRequest signs its hold on a pod; the key is its namespace and name.
	requestAgent = "ContainerRecreateRequest"
	// lookAtRequests is how often requests holding pods are looked up: no event reports
	// their end.
	lookAtRequests = 10 * time.Second
	// requestsAtOnce is how many are looked up in one pass. The next pass continues.
	requestsAtOnce = 20
)

// requests are others' requests holding an object's pods.
type requests struct {
	looked time.Time
	// last was looked at last.
	last shared.ReadinessHolder
	over map[shared.ReadinessHolder]bool
}

// OverRequests returns the holders whose ContainerRecreateRequest is over, and when to look
// again. OpenKruise gives up such a hold itself, but one taken while it was being replaced
// would last. The server is asked only if requests hold pods, which is rare.
func (p *Pass) OverRequests(ctx context.Context, pods []podset.Pod) (over map[shared.ReadinessHolder]bool, wait time.Duration) {
	known := &p.Memory.requests
	holders := requestsOn(pods)
	if len(holders) == 0 {
		*known = requests{}
		return nil, 0
	}
	now := p.Clock.Now()
	if wait := known.looked.Add(lookAtRequests).Sub(now); wait > 0 {
		return known.over, wait
	}
	at := slices.Index(holders, known.last) + 1
	asked := slices.Concat(holders[at:], holders[:at])
	asked = asked[:min(len(asked), requestsAtOnce)]
	*known = requests{looked: now, last: asked[len(asked)-1], over: map[shared.ReadinessHolder]bool{}}
	ctx, cancel := context.WithTimeout(ctx, p.WriteTimeout)
	defer cancel()
	found, err := RequestsOver(ctx, p.Live, asked)
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("It is not known whether all requests that hold pods are over", "err", err.Error())
	}
	for _, h := range found {
		known.over[h] = true
	}
	return known.over, lookAtRequests
}

// requestsOn are the requests holding pods, in the pods' order.
func requestsOn(pods []podset.Pod) []shared.ReadinessHolder {
	var holders []shared.ReadinessHolder
	known := map[shared.ReadinessHolder]bool{}
	for i := range pods {
		if pods[i].Terminating {
			continue
		}
		for _, h := range podset.OtherHolders(pods[i].Object) {
			if !known[h] && IsRequest(h, pods[i].Object.Namespace) {
				known[h], holders = true, append(holders, h)
			}
		}
	}
	return holders
}

// RequestsOver returns the holders whose ContainerRecreateRequest is over, looked up on the
// API server. Only the first 20 are looked at: others write the list, and it may be long.
// After an error it returns its results so far.
func RequestsOver(ctx context.Context, live client.Reader, holders []shared.ReadinessHolder) (over []shared.ReadinessHolder, err error) {
	for _, h := range holders[:min(len(holders), requestsAtOnce)] {
		isOver, err := requestOver(ctx, live, h)
		if err != nil {
			return over, fmt.Errorf("request %s: %w", h.Key, err)
		}
		if isOver {
			over = append(over, h)
		}
	}
	return over, nil
}

// IsRequest is true if a pod of the namespace is held by a ContainerRecreateRequest of the
// same namespace.
func IsRequest(h shared.ReadinessHolder, namespace string) bool {
	holderNamespace, _, ok := strings.Cut(h.Key, "/")
	return ok && h.UserAgent == requestAgent && holderNamespace == namespace
}

// requestOver is true if the ContainerRecreateRequest holding a pod is gone, being deleted
// or completed, or the kind does not exist.
func requestOver(ctx context.Context, live client.Reader, h shared.ReadinessHolder) (bool, error) {
	namespace, name, _ := strings.Cut(h.Key, "/")
	list := listOf(appsv1alpha1.GroupVersion().WithKind(requestAgent))
	err := live.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{"metadata.name": name})
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) { // The kind is not served, or not any more, so there is no request.
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking up the request: %w", err)
	}
	for i := range list.Items {
		request := &list.Items[i]
		phase, _, _ := unstructured.NestedString(request.Object, "status", "phase")
		if request.GetDeletionTimestamp() == nil && phase != "Completed" && phase != "Succeeded" && phase != "Failed" {
			return false, nil
		}
	}
	return true, nil
}
