// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podtemplate

import (
	"cmp"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/internal/engine/lazy"
)

const (
	defaultFileMode        int32 = 0o644
	defaultTokenExpiration int64 = 60 * 60
)

// Defaulted returns a copy of the template with all defaults of a pod from it, and imagePullPolicy
// Always on main containers without one. It is for comparing only: never create or store it.
func Defaulted(t *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	t = t.DeepCopy()
	alwaysPull(t.Spec.Containers)
	defaultPodSpec(&t.Spec)
	return t
}

// DefaultedAsWritten is Defaulted for workloads with pods from the template as written: an
// unwritten imagePullPolicy follows the tag.
func DefaultedAsWritten(t *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	t = t.DeepCopy()
	defaultPodSpec(&t.Spec)
	return t
}

func defaultPodSpec(spec *corev1.PodSpec) {
	spec.DNSPolicy = cmp.Or(spec.DNSPolicy, corev1.DNSClusterFirst)
	spec.RestartPolicy = cmp.Or(spec.RestartPolicy, corev1.RestartPolicyAlways)
	spec.SchedulerName = cmp.Or(spec.SchedulerName, corev1.DefaultSchedulerName)
	setIfNil(&spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	setIfNil(&spec.SecurityContext, corev1.PodSecurityContext{})
	setIfNil(&spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks)
	spec.ServiceAccountName = cmp.Or(spec.ServiceAccountName, spec.DeprecatedServiceAccount)
	spec.DeprecatedServiceAccount = spec.ServiceAccountName
	roundUp(spec.Overhead)
	if spec.Resources != nil {
		roundUp(spec.Resources.Limits)
		roundUp(spec.Resources.Requests)
	}

	for i := range spec.Volumes {
		DefaultVolume(&spec.Volumes[i])
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			defaultContainer(&containers[i], spec.HostNetwork)
		}
	}
	for i := range spec.EphemeralContainers {
		ephemeral := corev1.Container(spec.EphemeralContainers[i].EphemeralContainerCommon)
		// The server gives ephemeral containers no ports and no requests, so nothing is derived for them.
		DefaultContainer(&ephemeral)
		spec.EphemeralContainers[i].EphemeralContainerCommon = corev1.EphemeralContainerCommon(ephemeral)
	}
}

func defaultContainer(c *corev1.Container, hostNetwork bool) {
	DefaultContainer(c)
	if hostNetwork {
		for i := range c.Ports {
			c.Ports[i].HostPort = cmp.Or(c.Ports[i].HostPort, c.Ports[i].ContainerPort)
		}
	}
	for name, limit := range c.Resources.Limits {
		if _, has := c.Resources.Requests[name]; !has {
			lazy.Put(&c.Resources.Requests, name, limit.DeepCopy())
		}
	}
}

// DefaultContainer fills in the server's defaults of a container of any sort, anywhere: nothing from the rest of
// a pod.
func DefaultContainer(c *corev1.Container) {
	c.TerminationMessagePath = cmp.Or(c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	c.TerminationMessagePolicy = cmp.Or(c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	if c.ImagePullPolicy == "" {
		c.ImagePullPolicy = pullPolicyByTag(c.Image)
	}
	for i := range c.Ports {
		c.Ports[i].Protocol = cmp.Or(c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil {
			defaultFieldRef(from.FieldRef)
			if from.FileKeyRef != nil {
				setIfNil(&from.FileKeyRef.Optional, false)
			}
		}
	}
	roundUp(c.Resources.Limits)
	roundUp(c.Resources.Requests)
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		defaultProbe(probe)
	}
	if c.Lifecycle != nil {
		for _, handler := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if handler != nil {
				defaultHTTPGet(handler.HTTPGet)
			}
		}
	}
}

// pullPolicyByTag is the server's own default: an image with a moving name is pulled every time.
func pullPolicyByTag(image string) corev1.PullPolicy {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return corev1.PullIfNotPresent
	}
	if tagged, ok := reference.TagNameOnly(named).(reference.Tagged); ok && tagged.Tag() == "latest" {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

func defaultProbe(p *corev1.Probe) {
	if p == nil {
		return
	}
	p.TimeoutSeconds = cmp.Or(p.TimeoutSeconds, 1)
	p.PeriodSeconds = cmp.Or(p.PeriodSeconds, 10)
	p.SuccessThreshold = cmp.Or(p.SuccessThreshold, 1)
	p.FailureThreshold = cmp.Or(p.FailureThreshold, 3)
	defaultHTTPGet(p.HTTPGet)
	if p.GRPC != nil {
		setIfNil(&p.GRPC.Service, "")
	}
}

func defaultHTTPGet(a *corev1.HTTPGetAction) {
	if a != nil {
		a.Path = cmp.Or(a.Path, "/")
		a.Scheme = cmp.Or(a.Scheme, corev1.URISchemeHTTP)
	}
}

func defaultFieldRef(ref *corev1.ObjectFieldSelector) {
	if ref != nil {
		ref.APIVersion = cmp.Or(ref.APIVersion, "v1")
	}
}

// DefaultVolume fills in the server's defaults of a volume.
func DefaultVolume(v *corev1.Volume) {
	if v.VolumeSource == (corev1.VolumeSource{}) {
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	if s := v.HostPath; s != nil {
		setIfNil(&s.Type, corev1.HostPathUnset)
	}
	if s := v.Secret; s != nil {
		setIfNil(&s.DefaultMode, defaultFileMode)
	}
	if s := v.ConfigMap; s != nil {
		setIfNil(&s.DefaultMode, defaultFileMode)
	}
	if s := v.DownwardAPI; s != nil {
		setIfNil(&s.DefaultMode, defaultFileMode)
		defaultDownwardItems(s.Items)
	}
	if s := v.Projected; s != nil {
		setIfNil(&s.DefaultMode, defaultFileMode)
		for i := range s.Sources {
			if token := s.Sources[i].ServiceAccountToken; token != nil {
				setIfNil(&token.ExpirationSeconds, defaultTokenExpiration)
			}
			if downward := s.Sources[i].DownwardAPI; downward != nil {
				defaultDownwardItems(downward.Items)
			}
		}
	}
	if s := v.Image; s != nil && s.Reference != "" {
		s.PullPolicy = cmp.Or(s.PullPolicy, pullPolicyByTag(s.Reference))
	}
	if s := v.Ephemeral; s != nil && s.VolumeClaimTemplate != nil {
		setIfNil(&s.VolumeClaimTemplate.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
		roundUp(s.VolumeClaimTemplate.Spec.Resources.Limits)
		roundUp(s.VolumeClaimTemplate.Spec.Resources.Requests)
	}
	defaultNetworkDisk(&v.VolumeSource)
}

// defaultNetworkDisk fills in the in-tree drivers with defaults of their own.
func defaultNetworkDisk(v *corev1.VolumeSource) {
	if s := v.ISCSI; s != nil {
		s.ISCSIInterface = cmp.Or(s.ISCSIInterface, "default")
	}
	if s := v.AzureDisk; s != nil {
		setIfNil(&s.CachingMode, corev1.AzureDataDiskCachingReadWrite)
		setIfNil(&s.Kind, corev1.AzureSharedBlobDisk)
		setIfNil(&s.FSType, "ext4")
		setIfNil(&s.ReadOnly, false)
	}
}

func defaultDownwardItems(items []corev1.DownwardAPIVolumeFile) {
	for i := range items {
		defaultFieldRef(items[i].FieldRef)
	}
}

// roundUp makes every quantity a whole number of milli-units, as the server stores it.
func roundUp(list corev1.ResourceList) {
	for name, quantity := range list {
		quantity.RoundUp(resource.Milli)
		list[name] = quantity
	}
}

func setIfNil[T any](field **T, value T) {
	if *field == nil {
		*field = ptr.To(value)
	}
}
