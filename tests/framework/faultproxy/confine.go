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

// LaneLabel is what an object without a namespace carries, with the namespace as its value, to be seen through a proxy that is confined
// to that namespace.
const LaneLabel = "chaos.kruise.io/lane"

// Interceptor meets each request before any fault of the proxy.
type Interceptor interface {
	// Intercept returns false to leave the request to the proxy. Otherwise it has answered, or broken the connection; next passes a request
	// on to the API server.
	Intercept(w http.ResponseWriter, r *http.Request, next http.Handler) bool
}

// Intercept lets requests meet an interceptor first; nil ends that.
func (p *Proxy) Intercept(interceptor Interceptor) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.interceptor = interceptor
}

// Confine answers lists and watches over all namespaces with what one namespace has, so that an operator behind the proxy sees that one alone.
// Of SidecarSets, which have no namespace, it sees those that LaneLabel gives to the namespace, and of what sets register nothing. Operators of different proxies then work side
// by side on one API server.
func (p *Proxy) Confine(namespace string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.namespace = namespace
}

// ConfineNodes shows the nodes alone that a label selects, and the NodeImages of them. Of NodePodProbes, which have no labels, it shows that of the
// node which OwnNode names.
func (p *Proxy) ConfineNodes(selector string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.nodes = selector
}

// OwnNode is the one node of a namespace whose NodePodProbe is shown.
func OwnNode(namespace string) string { return namespace + "-a" }

// Lease gives the lease of the operator another name, and lets it be had with the administrator's rights, so that operators of several lanes
// lead side by side.
func (p *Proxy) Lease(name string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.lease = name
}

// ownLease is what the operator calls its lease.
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

// Target is what a request is about.
type Target struct {
	// Resource is such as pods or statefulsets.apps.kruise.io.
	Resource string
	// Subresource is such as status; empty for the object itself.
	Subresource string
	// Namespace and Name are empty where the path has none.
	Namespace, Name string
}

// TargetOf reads the path of a request. ok is false for paths that are about no resource, such as /version.
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

// confined are the resources in namespaces that an operator lists over all of them.
func confined() []string {
	return []string{
		"pods", "persistentvolumeclaims", "controllerrevisions.apps", "deployments.apps", "statefulsets.apps", "replicasets.apps", "jobs.batch",
		"advancedcronjobs.apps.kruise.io", "broadcastjobs.apps.kruise.io", "clonesets.apps.kruise.io", "containerrecreaterequests.apps.kruise.io",
		"daemonsets.apps.kruise.io", "ephemeraljobs.apps.kruise.io", "imagelistpulljobs.apps.kruise.io", "imagepulljobs.apps.kruise.io", "podprobemarkers.apps.kruise.io",
		"statefulsets.apps.kruise.io", "uniteddeployments.apps.kruise.io",
	}
}

// registered says whether a request is about what SidecarSets register for the whole cluster. An operator that sees no set would take it back.
func registered(t Target, r *http.Request) bool {
	switch t.Resource {
	case "mutatingadmissionpolicybindings.admissionregistration.k8s.io":
		return true
	case "controllerrevisions.apps":
		return strings.Contains(r.URL.Query().Get("labelSelector"), "operator.kruise.io/injection")
	}
	return false
}

// confine changes a request that looks at all namespaces.
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
		"sidecarsets.apps.kruise.io": LaneLabel + "=" + namespace, "nodes": nodes, "nodeimages.apps.kruise.io": nodes,
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
