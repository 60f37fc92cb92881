// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package nodedaemon reads the node daemon's state from the API server, for waiting
// reconcilers.
package nodedaemon

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/platform/operands"
)

// State is the state of the node daemon.
type State string

const (
	// Absent means no pod of it is on the node, or it is not deployed.
	Absent State = "Absent"
	// Starting means its pod on the node is not ready.
	Starting State = "Starting"
	// Running means its pod on the node, or its DaemonSet, is there.
	Running State = "Running"
)

// OnNode is the state of the daemon on a node. It asks the API server, for as long as timeout lets it.
func OnNode(ctx context.Context, live client.Reader, node string, timeout time.Duration) (State, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var pods corev1.PodList
	err := live.List(ctx, &pods, client.InNamespace(operands.DaemonNamespace), client.MatchingFields{"spec.nodeName": node})
	if err != nil {
		return "", fmt.Errorf("looking for the daemon of the node: %w", err)
	}
	state := Absent
	for i := range pods.Items {
		owner := metav1.GetControllerOfNoCopy(&pods.Items[i])
		if owner == nil || owner.Kind != "DaemonSet" || owner.Name != operands.DaemonName {
			continue
		}
		if !podstate.Ready(&pods.Items[i]) {
			return Starting, nil
		}
		state = Running
	}
	return state, nil
}

// Deployed is Running if the daemon's DaemonSet exists. It asks the API server, up to
// timeout.
func Deployed(ctx context.Context, live client.Reader, timeout time.Duration) (State, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	set := &metav1.PartialObjectMetadata{}
	set.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("DaemonSet"))
	err := live.Get(ctx, client.ObjectKey{Namespace: operands.DaemonNamespace, Name: operands.DaemonName}, set)
	switch {
	case apierrors.IsNotFound(err):
		return Absent, nil
	case err != nil:
		return "", fmt.Errorf("looking for the node daemon: %w", err)
	}
	return Running, nil
}
