// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic"
)

const (
	nginx   = "nginx.ingress.kubernetes.io/"
	alb     = "alb.ingress.kubernetes.io/"
	mse     = "mse.ingress.kubernetes.io/"
	subset  = mse + "service-subset"
	regular = "RegularExpression"
	// Cookie is the name of a header that stands for a cookie: its value is the name of that.
	Cookie = "canary-by-cookie"
)

// class is what a kind of Ingress controller understands.
type class struct {
	name string
	// prefix is that of its annotations about the new version.
	prefix string
	// query are the prefixes of those about parameters.
	query []string
	// always are annotations that the second Ingress needs.
	always map[string]string
	// headers is the prefix of annotations that change headers; empty: it cannot.
	headers string
}

func classes() map[string]class {
	return map[string]class{
		"nginx":      {prefix: nginx},
		"higress":    {prefix: nginx},
		"aliyun-alb": {prefix: alb, always: map[string]string{alb + "order": "1"}},
		"mse":        {prefix: nginx, query: []string{nginx, mse}, headers: mse + "request-header-control-"},
	}
}

// Check implements Annotator. A class knows one header, one cookie and one parameter; any of them suffices.
func (c class) Check(share traffic.Share, names traffic.Names, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	forbid := func(at *field.Path, reason string) {
		errs = append(errs, field.Forbidden(at, fmt.Sprintf("Ingresses of the class %s %s", c.name, reason)))
	}
	if names.Stable == names.Canary && c.headers == "" {
		forbid(path, "route only between two Services")
	}
	if share.Headers != nil && c.headers == "" {
		forbid(path.Child("requestHeaderModifier"), "cannot change headers of requests")
	}
	if share.Headers != nil && lines(share.Headers) {
		errs = append(errs, field.Invalid(path.Child("requestHeaderModifier"), "", "must not have line breaks"))
	}
	known := map[string]bool{}
	once := func(at *field.Path, what string, possible bool) {
		if known[what] || !possible {
			forbid(at, "know one "+what)
		}
		known[what] = true
	}
	for i, match := range share.Matches {
		at := path.Child("matches").Index(i)
		switch n := len(match.Headers) + len(match.QueryParams); {
		case match.Path != nil:
			forbid(at.Child("path"), "cannot choose requests by path")
		case len(match.QueryParams) > 0 && c.query == nil:
			forbid(at.Child("queryParams"), "cannot choose requests by parameters")
		case n != 1:
			forbid(at, fmt.Sprintf("choose by one header or parameter in a match, not by %d", n))
		case len(match.QueryParams) == 1:
			once(at.Child("queryParams"), "parameter in a step", true)
		case match.Headers[0].Name == Cookie:
			once(at.Child("headers"), "cookie in a step, and no expression for it", !expression(match.Headers[0]))
		default:
			once(at.Child("headers"), "header in a step", true)
		}
	}
	return errs
}

func expression(m v1beta1.HTTPNamedMatch) bool { return m.Type != nil && *m.Type == regular }

// lines: a value would be read as several.
func lines(h *v1beta1.HTTPHeaderFilter) bool {
	broken := func(text string) bool { return strings.ContainsAny(text, "\r\n") }
	pair := func(h v1beta1.HTTPHeader) bool { return broken(h.Name + h.Value) }
	return slices.ContainsFunc(h.Set, pair) || slices.ContainsFunc(h.Add, pair) || slices.ContainsFunc(h.Remove, broken)
}

// Annotations implements Annotator.
func (c class) Annotations(user map[string]string, share traffic.Share, names traffic.Names) (map[string]string, error) {
	if errs := c.Check(share, names, nil); len(errs) > 0 {
		return nil, traffic.Refuse("%v", errs.ToAggregate())
	}
	all := map[string]string{}
	for key, value := range user {
		if !slices.ContainsFunc(append([]string{c.prefix}, c.query...), func(prefix string) bool { return strings.HasPrefix(key, prefix+"canary") }) {
			all[key] = value
		}
	}
	maps.Copy(all, c.always)
	all[c.prefix+"canary"] = "true"
	if share.Weight != nil {
		all[c.prefix+"canary-weight"] = fmt.Sprint(*share.Weight)
	}
	for _, match := range share.Matches {
		for _, h := range match.Headers {
			c.named(all, c.prefix+"canary-by-header", h)
		}
		for _, q := range match.QueryParams {
			for _, prefix := range c.query {
				c.named(all, prefix+"canary-by-query", q)
			}
		}
	}
	if _, has := all[subset]; has && c.headers != "" {
		all[subset] = "gray"
	}
	if share.Headers != nil {
		c.change(all, share.Headers)
	}
	return all, nil
}

// named chooses by a header or parameter.
func (c class) named(all map[string]string, key string, m v1beta1.HTTPNamedMatch) {
	if m.Name == Cookie {
		all[c.prefix+Cookie] = m.Value
		return
	}
	all[key] = m.Name
	if expression(m) {
		all[key+"-pattern"] = m.Value
	} else {
		all[key+"-value"] = m.Value
	}
}

// change has a line for each header. Those of the user stay, unless they are about the same header.
func (c class) change(all map[string]string, headers *v1beta1.HTTPHeaderFilter) {
	for key, pairs := range map[string][]v1beta1.HTTPHeader{"update": headers.Set, "add": headers.Add} {
		key = c.headers + key
		for _, h := range pairs {
			lines := slices.DeleteFunc(strings.Split(all[key], "\n"), func(line string) bool {
				name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
				return name == "" || strings.EqualFold(name, h.Name)
			})
			all[key] = strings.Join(append(lines, h.Name+" "+h.Value), "\n")
		}
	}
	if len(headers.Remove) > 0 {
		key := c.headers + "remove"
		names := slices.DeleteFunc(strings.Split(all[key], ","), func(name string) bool { return name == "" })
		all[key] = strings.Join(append(names, headers.Remove...), ",")
	}
}
