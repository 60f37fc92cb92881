// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhookserving

import (
	"fmt"
	"net/url"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
)

// servicePort is the API server's default.
const servicePort = 443

// Endpoint is where the API server calls the operator.
type Endpoint struct {
	// Namespace holds the operator's Service, ServiceName.
	Namespace string
	// URL is a process outside of the cluster, such as https://192.0.2.7:9443. It replaces the Service. It must be
	// https and have no path.
	URL string
}

// Validate says why the API server cannot be configured to call the URL.
func (e Endpoint) Validate() error {
	_, err := e.hosts()
	return err
}

// hosts are the certificate's names; an error explains an unusable URL.
func (e Endpoint) hosts() ([]string, error) {
	if e.URL == "" {
		name := ServiceName + "." + e.Namespace + ".svc"
		return []string{name, name + ".cluster.local"}, nil
	}
	u, err := url.Parse(e.URL)
	if err != nil {
		return nil, fmt.Errorf("parsing the webhook URL: %w", err)
	}
	if u.Scheme != "https" || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil {
		return nil, fmt.Errorf("webhook URL %q must be https://host:port", e.URL)
	}
	return []string{u.Hostname()}, nil
}

// Call returns how to call a path, without an authority.
func (e Endpoint) Call(path string) apiextensionsv1.WebhookClientConfig {
	if e.URL != "" {
		return apiextensionsv1.WebhookClientConfig{URL: ptr.To(e.base() + path)}
	}
	return apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{
		Namespace: e.Namespace, Name: ServiceName, Path: &path, Port: ptr.To[int32](servicePort),
	}}
}

// pathOf is a call's path. ours is false for another URL than the endpoint's: it is on purpose. A Service of
// another name is a mistake to repair.
func (e Endpoint) pathOf(call apiextensionsv1.WebhookClientConfig) (path string, ours bool) {
	if e.URL == "" {
		return ptr.Deref(ptr.Deref(call.Service, apiextensionsv1.ServiceReference{}).Path, ""), call.Service != nil
	}
	path, ours = strings.CutPrefix(ptr.Deref(call.URL, ""), e.base())
	return path, ours && strings.HasPrefix(path, "/")
}

// base is the URL without a slash at its end.
func (e Endpoint) base() string { return strings.TrimRight(e.URL, "/") }
