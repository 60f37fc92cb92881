// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package operatorconfig

import (
	"context"
	"fmt"

	apiv2 "github.com/operator-framework/api/pkg/operators/v2"
	"github.com/operator-framework/operator-lib/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Upgradeable returns the condition telling the Operator Lifecycle Manager if the operator may be replaced. Its
// client reads past any cache: the right excludes listing and watching.
func Upgradeable(server *rest.Config) (conditions.Condition, error) {
	types := runtime.NewScheme()
	if err := apiv2.AddToScheme(types); err != nil {
		return nil, fmt.Errorf("registering OperatorCondition: %w", err)
	}
	direct, err := client.New(server, client.Options{Scheme: types})
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	condition, err := conditions.InClusterFactory{Client: direct}.NewCondition(apiv2.ConditionType(apiv2.Upgradeable))
	if err != nil {
		return nil, fmt.Errorf("finding the OperatorCondition: %w", err)
	}
	return condition, nil
}

// reportUpgradeable tells the Operator Lifecycle Manager, on a change, if it may replace the operator.
func (r *Reconciler) reportUpgradeable(ctx context.Context, upgrade Upgrade) error {
	if r.OLM == nil {
		return nil
	}
	status := metav1.ConditionFalse
	if upgrade.Allowed {
		status = metav1.ConditionTrue
	}
	present, err := r.OLM.Get(ctx)
	if err == nil && present.Status == status && present.Reason == upgrade.Reason && present.Message == upgrade.Message {
		return nil
	}
	// A missing condition is an error, too, and set by the same call.
	if err := r.OLM.Set(ctx, status, conditions.WithReason(upgrade.Reason), conditions.WithMessage(upgrade.Message)); err != nil {
		return fmt.Errorf("telling the Operator Lifecycle Manager whether the operator may be upgraded: %w", err)
	}
	return nil
}
