// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

// TrafficRoutingStrategy is the traffic of a step. Without trafficRoutings it has no effect.
type TrafficRoutingStrategy struct {
	// traffic is the share of requests for the new version, from 1% to 100%. With matches it is about the requests that do not match.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Traffic *string `json:"traffic,omitempty"`
	// requestHeaderModifier changes the headers of requests for the new version. A route of the Gateway API needs matches for it.
	// +optional
	RequestHeaderModifier *HTTPHeaderFilter `json:"requestHeaderModifier,omitempty"`
	// matches choose requests for the new version; one of them has to match.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Matches []HTTPRouteMatch `json:"matches,omitempty"`
}

// HTTPRouteMatch chooses requests by all of its fields.
type HTTPRouteMatch struct {
	// path chooses requests by their path.
	// +optional
	Path *HTTPMatch `json:"path,omitempty"`
	// headers choose requests by headers.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Headers []HTTPNamedMatch `json:"headers,omitempty"`
	// queryParams choose requests by query parameters.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	QueryParams []HTTPNamedMatch `json:"queryParams,omitempty"`
}

// HTTPMatch is a way to compare, and with what.
type HTTPMatch struct {
	// type is Exact, PathPrefix or RegularExpression.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Type *string `json:"type,omitempty"`
	// value is what it is compared with.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Value *string `json:"value,omitempty"`
}

// HTTPNamedMatch compares a header or a query parameter.
type HTTPNamedMatch struct {
	// type is Exact or RegularExpression.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Type *string `json:"type,omitempty"`
	// name is that of the header or parameter.
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name"`
	// value is what it is compared with.
	// +kubebuilder:validation:MaxLength=4096
	Value string `json:"value"`
}

// HTTPHeaderFilter changes headers.
type HTTPHeaderFilter struct {
	// set replaces headers.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Set []HTTPHeader `json:"set,omitempty"`
	// add adds to headers.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Add []HTTPHeader `json:"add,omitempty"`
	// remove removes headers.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=256
	Remove []string `json:"remove,omitempty"`
}

// HTTPHeader is a header.
type HTTPHeader struct {
	// name is that of the header.
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name"`
	// value is that of the header.
	// +kubebuilder:validation:MaxLength=4096
	Value string `json:"value"`
}

// TrafficRoutingRef says how requests get to a workload.
type TrafficRoutingRef struct {
	// service is the Service of the workload. It is the same in all of them.
	// +kubebuilder:validation:MaxLength=253
	Service string `json:"service"`
	// gracePeriodSeconds is how long a change of a route takes; the longest of all counts. 3 when omitted.
	// +optional
	GracePeriodSeconds int32 `json:"gracePeriodSeconds,omitempty"`
	// ingress is an Ingress.
	// +optional
	Ingress *IngressTrafficRouting `json:"ingress,omitempty"`
	// gateway names routes of the Gateway API.
	// +optional
	Gateway *GatewayTrafficRouting `json:"gateway,omitempty"`
	// customNetworkRefs are other objects.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	CustomNetworkRefs []ObjectRef `json:"customNetworkRefs,omitempty"`
}

// IngressTrafficRouting is an Ingress.
type IngressTrafficRouting struct {
	// classType is that of the controller. nginx when omitted.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ClassType string `json:"classType,omitempty"`
	// name is that of the Ingress.
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// GatewayTrafficRouting is one or two routes of the Gateway API.
type GatewayTrafficRouting struct {
	// httpRouteName is that of an HTTPRoute.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	HTTPRouteName *string `json:"httpRouteName,omitempty"`
	// grpcRouteName is that of a GRPCRoute. It may stand beside httpRouteName.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	GRPCRouteName *string `json:"grpcRouteName,omitempty"`
}

// The steps of ending a release that are about requests.
const (
	// FinalisingStepRestoreStableService: the Service of the user has the pods of all versions again.
	FinalisingStepRestoreStableService FinalisingStep = "RestoreStableService"
	// FinalisingStepRouteTrafficToStable: routes are as before the release.
	FinalisingStepRouteTrafficToStable FinalisingStep = "RouteTrafficToStable"
	// FinalisingStepRouteTrafficToNew: the new version gets all requests.
	FinalisingStepRouteTrafficToNew FinalisingStep = "RouteTrafficToNew"
	// FinalisingStepRemoveCanaryService: the Service of the new version is deleted.
	FinalisingStepRemoveCanaryService FinalisingStep = "RemoveCanaryService"
)
