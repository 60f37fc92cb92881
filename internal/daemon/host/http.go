// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// maxRead limits the answer read, in bytes: its content does not matter.
const maxRead = 10 << 10

// Get sends the request of a probe or a hook to an address, and returns the status of the answer, its code and in words. Certificates are not
// verified, as with the kubelet. redirected is asked before a redirect is followed.
func Get(
	ctx context.Context, action *corev1.HTTPGetAction, address, agent string, redirected func(next *http.Request, via []*http.Request) error,
) (code int, status string, err error) {
	request, err := requestOf(ctx, action, address, agent)
	if err != nil {
		return 0, "", err
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true, DisableCompression: true}
	defer transport.CloseIdleConnections()
	asking := &http.Client{Transport: transport, CheckRedirect: redirected}
	response, err := asking.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxRead)) // so that the sender is not cut off
	return response.StatusCode, response.Status, nil
}

func requestOf(ctx context.Context, action *corev1.HTTPGetAction, address, agent string) (*http.Request, error) {
	target, err := url.Parse(action.Path)
	if err != nil {
		target = &url.URL{Path: action.Path}
	}
	target.Scheme, target.Host, target.Opaque, target.User = "http", address, "", nil
	if action.Scheme == corev1.URISchemeHTTPS {
		target.Scheme = "https"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header = http.Header{"User-Agent": {agent}, "Accept": {"*/*"}}
	own := map[string]bool{}
	for _, header := range action.HTTPHeaders {
		name := http.CanonicalHeaderKey(header.Name)
		if strings.EqualFold(name, "Host") {
			request.Host = header.Value
			continue
		}
		if !own[name] {
			own[name] = true
			request.Header.Del(name)
		}
		request.Header.Add(name, header.Value)
	}
	return request, nil
}
