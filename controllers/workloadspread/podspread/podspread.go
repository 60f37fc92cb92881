// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package podspread gives new pods of others their subset.
//
// The API server calls it only for pods whose workload has a WorkloadSpread. Each pod is counted in the status before it is admitted, tied to
// the version read. So several replicas never overfill a subset. Pods that arrive together share one write.
package podspread

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/engine/spread"
	"github.com/kruise-operator/kruise-operator/internal/webhook/newpods"
)

// Path is where the API server calls, followed by the name of a WorkloadSpread in the pod's namespace.
const Path = "/spread-pods/"

// +kubebuilder:rbac:groups=apps.kruise.io,resources=workloadspreads,verbs=get
// +kubebuilder:rbac:groups=apps.kruise.io,resources=workloadspreads/status,verbs=patch
// +kubebuilder:rbac:groups=apps,resources=deployments;statefulsets;replicasets,verbs=get
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get
// +kubebuilder:rbac:groups="",resources=pods,verbs=list

// Handler answers the API server.
type Handler struct {
	// Client asks the API server directly, not a cache.
	Client client.Client
	// Namespace is the operator's own.
	Namespace string

	mutex  sync.Mutex
	queues map[types.NamespacedName]*queue
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	newpods.Handler{Path: Path, Change: h.change}.ServeHTTP(w, r)
}

// change gives one pod its subset.
func (h *Handler) change(ctx context.Context, about newpods.Asked) (warnings []string, err error) {
	ask := &asked{pod: about.Pod, owner: *about.Owner, dry: about.Dry, at: spread.None, done: make(chan struct{})}
	if err := h.answer(ctx, about.Of, ask); err != nil || ask.at == spread.None {
		return nil, err
	}
	if err := ask.spread.Inject(ask.pod, ask.at, ask.uid, nil); err != nil {
		warnings = append(warnings, err.Error())
	}
	return warnings, nil
}

// ordinalOf is the ordinal of a StatefulSet's pod.
func ordinalOf(name string) (int, error) {
	at := strings.LastIndexByte(name, '-')
	ordinal, err := strconv.Atoi(name[at+1:])
	if at < 0 || err != nil {
		return 0, errors.New("the pod's name has no ordinal")
	}
	return ordinal, nil
}
