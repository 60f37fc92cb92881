// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package faultproxy

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// LaneLabel has a namespace as its value: a proxy confined to it shows such cluster-scoped
// objects.
const LaneLabel = "chaos.kruise.io/lane"

// Interceptor meets each request before any fault of the proxy.
type Interceptor interface {
	// Intercept returns false to leave the request to the proxy. Otherwise it has answered, or broken the connection; next passes a request
	// on to the API server.
	Intercept(w http.ResponseWriter, r *http.Request, next http.Handler) bool
}

// Intercept sends requests to an interceptor first; nil ends it.
func (p *Proxy) Intercept(interceptor Interceptor) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.interceptor = interceptor
}

// Confine answers lists and watches over all namespaces with one namespace's objects: an
// operator behind the proxy sees this one alone. Of SidecarSets, without a namespace, it
// sees the ones with the LaneLabel, and nothing of their registrations. So operators of
// different proxies work side by side on one API server.
func (p *Proxy) Confine(namespace string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.namespace = namespace
}

// ConfineNodes shows only the nodes a label selects, and their NodeImages. Of
// NodePodProbes, without labels, it shows OwnNode's.
func (p *Proxy) ConfineNodes(selector string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.nodes = selector
}

// OwnNode is the one node of a namespace whose NodePodProbe is shown.
func OwnNode(namespace string) string { return namespace + "-a" }

// Lease renames the operator's lease, and gives it the administrator's rights, so operators
// of several lanes lead side by side.
func (p *Proxy) Lease(name string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.lease = name
}

// ownLease is the operator's name of its lease.
const ownLease = "kruise-operator-manager"

// rename makes a request for the operator's lease one for another lease.
func rename(r *http.Request, name string) error {
	t, ok := TargetOf(r)
	if !ok || t.Resource != "leases.coordination.k8s.io" || t.Name != "" && t.Name != ownLease && t.Name != name {
		return nil // or that of OpenKruise, which is looked at, too
	}
	r.Header.Del("Authorization")
	if t.Name != "" {
		r.URL.Path, r.URL.RawPath = strings.TrimSuffix(r.URL.Path, t.Name)+name, ""
	}
	if r.Method != http.MethodPost && r.Method != http.MethodPut {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	lease := &coordinationv1.Lease{}
	if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, lease); err != nil {
		return err
	}
	lease.Name, lease.TypeMeta = name, metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}
	if body, err = json.Marshal(lease); err != nil {
		return err
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return nil
}

// Target is a request's object.
type Target struct {
	// Resource is such as pods or statefulsets.apps.kruise.io.
	Resource string
	// Subresource is such as status; empty for the object itself.
	Subresource string
	// Namespace and Name are empty where the path has none.
	Namespace, Name string
}

// TargetOf reads a request's path. ok is false for paths without a resource, such as
// /version.
func TargetOf(r *http.Request) (t Target, ok bool) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	group := ""
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		group, parts = "."+parts[1], parts[3:]
	default:
		return t, false
	}
	if parts[0] == "namespaces" && len(parts) >= 3 && parts[2] != "status" && parts[2] != "finalize" {
		t.Namespace, parts = parts[1], parts[2:]
	}
	parts = append(parts, "", "")
	t.Resource, t.Name, t.Subresource = parts[0]+group, parts[1], parts[2]
	return t, true
}

// confined are namespaced resources an operator lists over all namespaces.
func confined() []string {
	return []string{
		"pods", "persistentvolumeclaims", "controllerrevisions.apps", "deployments.apps", "statefulsets.apps", "replicasets.apps", "jobs.batch",
		"advancedcronjobs.apps.kruise.io", "broadcastjobs.apps.kruise.io", "clonesets.apps.kruise.io", "containerrecreaterequests.apps.kruise.io",
		"daemonsets.apps.kruise.io", "ephemeraljobs.apps.kruise.io", "imagelistpulljobs.apps.kruise.io", "imagepulljobs.apps.kruise.io", "podprobemarkers.apps.kruise.io",
		"persistentpodstates.apps.kruise.io", "podunavailablebudgets.policy.kruise.io", "statefulsets.apps.kruise.io", "uniteddeployments.apps.kruise.io",
		"workloadspreads.apps.kruise.io", "rollouts.rollouts.kruise.io", "batchreleases.rollouts.kruise.io", "trafficroutings.rollouts.kruise.io", "daemonsets.apps",
	}
}

// registered is true for requests about SidecarSets' cluster-wide registrations. An
// operator without a set would remove them.
func registered(t Target, r *http.Request) bool {
	switch t.Resource {
	case "mutatingadmissionpolicybindings.admissionregistration.k8s.io":
		return true
	case "controllerrevisions.apps":
		return strings.Contains(r.URL.Query().Get("labelSelector"), "operator.kruise.io/injection")
	}
	return false
}

// confine changes a request over all namespaces.
func confine(r *http.Request, namespace, nodes string) {
	t, ok := TargetOf(r)
	if !ok || r.Method != http.MethodGet || t.Name != "" {
		return
	}
	if registered(t, r) {
		query := r.URL.Query()
		query.Set("labelSelector", strings.TrimPrefix(query.Get("labelSelector")+","+LaneLabel+"="+namespace, ","))
		r.URL.RawQuery = query.Encode()
		return
	}
	if t.Namespace != "" {
		return
	}
	if selector := map[string]string{
		"sidecarsets.apps.kruise.io": LaneLabel + "=" + namespace, "resourcedistributions.apps.kruise.io": LaneLabel + "=" + namespace,
		"nodes": nodes, "nodeimages.apps.kruise.io": nodes,
	}[t.Resource]; selector != "" {
		query := r.URL.Query()
		query.Set("labelSelector", selector)
		r.URL.RawQuery = query.Encode()
		return
	}
	if t.Resource == "nodepodprobes.apps.kruise.io" && nodes != "" {
		query := r.URL.Query()
		query.Set("fieldSelector", "metadata.name="+OwnNode(namespace))
		r.URL.RawQuery = query.Encode()
		return
	}
	if !slices.Contains(confined(), t.Resource) {
		return
	}
	at := strings.LastIndex(r.URL.Path, "/")
	r.URL.Path = r.URL.Path[:at] + "/namespaces/" + namespace + r.URL.Path[at:]
	r.URL.RawPath = ""
}
