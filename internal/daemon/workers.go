// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/daemon/containermeta"
	"github.com/kruise-operator/kruise-operator/internal/daemon/host"
	"github.com/kruise-operator/kruise-operator/internal/daemon/imagepuller"
	"github.com/kruise-operator/kruise-operator/internal/daemon/probe"
	"github.com/kruise-operator/kruise-operator/internal/daemon/recreate"
	"github.com/kruise-operator/kruise-operator/internal/engine/restart"
)

// workers are the enabled features.
func workers(o Options) []host.Worker {
	all := []host.Worker{imagepuller.Setup}
	if restart.Findable(o.Node) {
		all = append(all, recreate.Add)
	}
	if !o.NoReports {
		all = append(all, containermeta.Add)
	}
	if !o.NoProbes {
		all = append(all, probe.Setup)
	}
	return all
}

// byNode are the kinds that are watched, limited to the node's objects. Others must not be
// read through the cache.
func byNode(node string) map[client.Object]cache.ByObject {
	kinds := map[client.Object]cache.ByObject{
		&corev1.Pod{}:                {Field: fields.OneTermEqualSelector("spec.nodeName", node)},
		&appsv1beta1.NodeImage{}:     {Field: fields.OneTermEqualSelector("metadata.name", node)},
		&appsv1alpha1.NodePodProbe{}: {Field: fields.OneTermEqualSelector("metadata.name", node)},
	}
	if restart.Findable(node) {
		kinds[&appsv1beta1.ContainerRecreateRequest{}] = cache.ByObject{Label: recreate.Selector(node)}
	}
	return kinds
}
