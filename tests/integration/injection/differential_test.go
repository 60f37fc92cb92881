// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package injection_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecarspec"
	"github.com/kruise-operator/kruise-operator/internal/engine/podentry"
	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
	"github.com/kruise-operator/kruise-operator/tests/framework/install"
	"github.com/kruise-operator/kruise-operator/tests/framework/sidecars"
)

var (
	rounds = flag.Int("rounds", sample.Number(100, 300), "how many pods are compared on the server")
	seed   = flag.Uint64("seed", uint64(sample.Day()), "where the generated pods and SidecarSets begin")
)

// batch is how many rounds are registered at once.
const batch = 50

// generated is one round.
type generated struct {
	round     string
	sets      []*sidecar.Set
	compiled  map[string]sidecar.Injection
	pod       *corev1.Pod
	namespace *corev1.Namespace
}

// comparison registers generated sets, past the controller, and looks at the pods.
type comparison struct {
	*fixture
	t          *testing.T
	namespaces map[string]*corev1.Namespace
	owner      metav1.OwnerReference
	call       func(path string) admissionv1.WebhookClientConfig
	// policies: the server has them.
	policies bool
	// made are the objects of the present batch.
	made []client.Object
}

// The injector of reference, the policy together with the webhook, and the webhook alone give the same pod on a server, byte for byte. After the first batch
// policies of somebody else act on the pods as well.
func TestServerInjectsAsTheReference(t *testing.T) {
	c := newComparison(t)
	accepted, injected, refused, why := 0, 0, 0, map[string]int{}
	for begin := 0; begin < *rounds; begin += batch {
		if begin == batch && c.policies {
			c.addForeignPolicies()
		}
		var all []generated
		for round := begin; round < min(begin+batch, *rounds); round++ {
			all = append(all, c.generate(round))
		}
		c.writeRevisions(all)
		var byPolicy []outcome
		if c.policies {
			c.register(all, true, fmt.Sprintf("p%d", begin))
			byPolicy = c.create(all)
		}
		c.register(all, false, fmt.Sprintf("w%d", begin))
		byWebhook := c.create(all)
		for i, g := range all {
			want := c.reference(g)
			if byPolicy != nil {
				c.same(g, "policy", want, byPolicy[i])
			}
			c.same(g, "webhook", want, byWebhook[i])
			switch {
			case want.err != nil:
				refused++
				why[firstCause(want.err)]++
			case strings.Contains(want.pod, names.AnnotationSidecarSetHash):
				injected++
				accepted++
			default:
				accepted++
			}
		}
		c.remove()
		if t.Failed() {
			return
		}
	}
	t.Logf("measured: %d pods, of which %d were injected into and %d refused; policies: %v; refused for %v", accepted+refused, injected, refused, c.policies, why)
	if injected < *rounds/4 {
		t.Errorf("only %d of %d pods were injected into", injected, *rounds)
	}
}

func newComparison(t *testing.T) *comparison {
	t.Helper()
	c := &comparison{fixture: shared, t: t, namespaces: map[string]*corev1.Namespace{}, owner: metav1.OwnerReference{
		APIVersion: "v1", Kind: "Namespace", Name: install.Namespace,
	}}
	home := &corev1.Namespace{}
	if err := c.client.Get(t.Context(), client.ObjectKey{Name: install.Namespace}, home); err != nil {
		t.Fatal(err)
	}
	c.owner.UID = home.UID
	for _, team := range []string{"a", "b"} {
		namespace := &corev1.Namespace{}
		if err := c.client.Get(t.Context(), client.ObjectKey{Name: c.namespace(t, map[string]string{"team": team})}, namespace); err != nil {
			t.Fatal(err)
		}
		c.namespaces[team] = namespace
	}
	definition := &unstructured.Unstructured{}
	definition.SetAPIVersion("apiextensions.k8s.io/v1")
	definition.SetKind("CustomResourceDefinition")
	if err := c.client.Get(t.Context(), client.ObjectKey{Name: "sidecarsets.apps.kruise.io"}, definition); err != nil {
		t.Fatal(err)
	}
	conversion := struct {
		Spec struct {
			Conversion struct {
				Webhook struct {
					ClientConfig admissionv1.WebhookClientConfig `json:"clientConfig"`
				} `json:"webhook"`
			} `json:"conversion"`
		} `json:"spec"`
	}{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(definition.Object, &conversion); err != nil {
		t.Fatal(err)
	}
	c.call = func(path string) admissionv1.WebhookClientConfig {
		return admissionv1.WebhookClientConfig{
			URL: ptr.To(fmt.Sprintf("https://127.0.0.1:%d%s", c.port, path)), CABundle: conversion.Spec.Conversion.Webhook.ClientConfig.CABundle,
		}
	}
	c.policies = c.servesPolicies(t)
	if c.policies {
		policy, err := sidecar.Policy(install.Namespace)
		if err != nil {
			t.Fatal(err)
		}
		policy.ResourceVersion = ""
		for _, object := range []client.Object{policy, anchorOf(c.owner), c.revision(sidecar.AnchorName, []byte("{}"))} {
			if err := client.IgnoreAlreadyExists(c.client.Create(t.Context(), object)); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Cleanup(func() { c.remove() })
	return c
}

// addForeignPolicies adds somebody else's policies with conditions, which make the pod
// typed for later ones: the API server evaluates policies in any order. They set a label no
// set asks for.
func (c *comparison) addForeignPolicies() {
	c.t.Helper()
	for _, name := range []string{"foreign-one", "foreign-two"} {
		policy := &admissionv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionv1.MutatingAdmissionPolicySpec{
			FailurePolicy: ptr.To(admissionv1.Fail), ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
			MatchConstraints: &admissionv1.MatchResources{
				ObjectSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "round", Operator: metav1.LabelSelectorOpExists}}},
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create}, Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
				}}},
			},
			MatchConditions: []admissionv1.MatchCondition{{Name: "typed", Expression: "object.spec.containers.all(c, c.name != '')"}},
			Mutations: []admissionv1.Mutation{{PatchType: admissionv1.PatchTypeJSONPatch, JSONPatch: &admissionv1.JSONPatch{
				Expression: `[JSONPatch{op: "add", path: "/metadata/labels/` + name + `", value: "seen"}]`,
			}}},
		}}
		binding := &admissionv1.MutatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name},
		}
		for _, object := range []client.Object{policy, binding} {
			if err := c.client.Create(c.t.Context(), object); err != nil {
				c.t.Fatal(err)
			}
			c.t.Cleanup(func() { c.fixture.remove(c.t, object) })
		}
	}
	c.eventually(c.t, "the policies of somebody else are in force", func(context.Context) error {
		pod, err := c.pod(c.t, c.namespaces["a"].Name, `{metadata: {generateName: s-, labels: {round: none}}, spec: {containers: [{name: web, image: w}]}}`)
		if err == nil && (pod.Labels["foreign-one"] == "" || pod.Labels["foreign-two"] == "") {
			err = fmt.Errorf("labels: %v", pod.Labels)
		}
		return err
	})
}

func (c *comparison) revision(name string, data []byte) *appsv1.ControllerRevision {
	return &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: install.Namespace, Name: name}, Data: runtime.RawExtension{Raw: data}}
}

// generate makes a round; only its sets select its pods.
func (c *comparison) generate(round int) generated {
	c.t.Helper()
	name := fmt.Sprintf("r%d", round)
	g := generated{round: name, compiled: map[string]sidecar.Injection{}}
	random := rand.New(rand.NewPCG(*seed, uint64(round)))
	for selected := false; !selected; {
		var made *corev1.Namespace
		g.sets, g.pod, made = sidecars.World(c.t, random, name+"-")
		g.namespace = c.namespaces[made.Labels["team"]]
		selected = slices.ContainsFunc(g.sets, func(s *sidecar.Set) bool { return !s.Paused && s.Match.Selects(g.pod.Labels, g.namespace.Labels) })
	}
	share := false
	for _, s := range g.sets {
		if s.Partition != nil && s.Partition.Type == intstr.String {
			s.Partition = nil // Which share a pod belongs to is drawn.
		}
		s.Match.Labels = append(s.Match.Labels, podentry.Requirement{Key: "round", Op: "In", Values: []string{name}})
		share = share || s.Revision != nil
	}
	g.sets = slices.DeleteFunc(g.sets, func(s *sidecar.Set) bool { return s.Paused })
	for _, s := range g.sets {
		compiled, err := sidecar.Compile(s, g.sets)
		if err != nil {
			c.t.Fatal(err)
		}
		g.compiled[s.Name] = compiled
	}
	if g.pod.Labels == nil {
		g.pod.Labels = map[string]string{}
	}
	g.pod.Labels["round"] = name
	makeValid(g.pod, share)
	return g
}

// makeValid makes a made-up pod acceptable to a server. With share its token must not be
// left to chance.
func makeValid(pod *corev1.Pod, share bool) {
	volumes := map[string]bool{}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		volumes[v.Name] = true
		share = share && !token.MatchString(v.Name)
		if v.EmptyDir == nil {
			v.EmptyDir = &corev1.EmptyDirVolumeSource{}
		}
	}
	need := []string{"own"}
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			c := &list[i]
			paths := map[string]bool{}
			c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
				defer func() { paths[m.MountPath] = true }()
				return paths[m.MountPath]
			})
			for _, m := range c.VolumeMounts {
				need = append(need, m.Name)
			}
			c.VolumeDevices = slices.DeleteFunc(c.VolumeDevices, func(d corev1.VolumeDevice) bool { return paths[d.DevicePath] })
			for name, limit := range c.Resources.Limits {
				if request, has := c.Resources.Requests[name]; has && request.Cmp(limit) > 0 {
					c.Resources.Requests[name] = limit
				}
			}
		}
	}
	for _, name := range need {
		if !volumes[name] {
			volumes[name] = true
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
		}
	}
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "raw", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "raw"},
	}})
	if share {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "kube-api-access-bcdfg", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	}
}

func (c *comparison) make(object client.Object) {
	c.t.Helper()
	if err := c.client.Create(c.t.Context(), object); err != nil {
		c.t.Fatalf("creating %s: %v", object.GetName(), err)
	}
	c.made = append(c.made, object)
}

// remove deletes the registrations.
func (c *comparison) remove() {
	c.t.Helper()
	for _, object := range slices.Backward(c.made) {
		if err := client.IgnoreNotFound(c.client.Delete(context.Background(), object)); err != nil {
			c.t.Error(err)
		}
	}
	c.made = nil
}

func (c *comparison) writeRevisions(all []generated) {
	c.t.Helper()
	for _, g := range all {
		for _, s := range g.sets {
			name, data, err := g.compiled[s.Name].Encode()
			if err != nil {
				c.t.Fatal(err)
			}
			c.make(c.revision(name, data))
		}
	}
}

// register has the server inject all sets, by the policy if possible, and waits for a set
// of its own registered with them.
func (c *comparison) register(all []generated, policies bool, sentinel string) {
	c.t.Helper()
	match := sidecar.Match{Labels: []podentry.Requirement{{Key: "sentinel", Op: "In", Values: []string{sentinel}}}, Namespace: []podentry.Requirement{}}
	payload := sidecar.Payload{Containers: []map[string]any{{"name": "sentinel", "image": "s"}}, Hashes: sidecarspec.Hashes{Hash: "h"}}
	set := &sidecar.Set{Name: "sentinel-" + sentinel, Match: match, Latest: payload}
	compiled, err := sidecar.Compile(set, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	last := generated{sets: []*sidecar.Set{set}, compiled: map[string]sidecar.Injection{set.Name: compiled}}
	c.writeRevisions([]generated{last})
	for _, object := range c.made {
		if _, is := object.(*admissionv1.MutatingAdmissionPolicyBinding); is && !policies {
			if err := c.client.Delete(c.t.Context(), object); client.IgnoreNotFound(err) != nil {
				c.t.Fatal(err)
			}
		}
	}
	configuration := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "compared-" + sentinel}}
	for _, g := range append(slices.Clone(all), last) {
		for _, s := range g.sets {
			injection := g.compiled[s.Name]
			name, _, err := injection.Encode()
			if err != nil {
				c.t.Fatal(err)
			}
			if policies && len(injection.Webhooked()) == 0 {
				c.make(sidecar.Binding(s.Name, s.Match, name, install.Namespace, c.owner))
				continue
			}
			entry := newEntry(sidecar.EntryName(s.Name), admissionv1.Fail, c.call(sidecar.InjectPath+name))
			entry.NamespaceSelector = podentry.Selector(append(slices.Clone(s.Match.Namespace), podentry.NamespaceExclusions(install.Namespace)...))
			entry.ObjectSelector = podentry.Selector(append(slices.Clone(s.Match.Labels), podentry.Bypass()))
			configuration.Webhooks = append(configuration.Webhooks, entry)
		}
	}
	for _, object := range c.made {
		if _, is := object.(*admissionv1.MutatingWebhookConfiguration); is {
			if err := c.client.Delete(c.t.Context(), object); client.IgnoreNotFound(err) != nil {
				c.t.Fatal(err)
			}
		}
	}
	c.make(configuration)
	c.eventually(c.t, "what was registered is in force", func(context.Context) error {
		for _, name := range []string{sentinel, "p" + sentinel[1:]} {
			pod, err := c.pod(c.t, c.namespaces["a"].Name, `{metadata: {generateName: s-, labels: {sentinel: `+name+`}}, spec: {containers: [{name: web, image: w}]}}`)
			if err != nil {
				return err
			}
			if got := len(pod.Spec.Containers) == 2; got != (name == sentinel) {
				return fmt.Errorf("containers of the sentinel %s: %s", name, containers(pod))
			}
		}
		return nil
	})
}

// anchorOf is the anchor of the policy with an owner.
func anchorOf(owner metav1.OwnerReference) *admissionv1.MutatingAdmissionPolicyBinding {
	anchor := sidecar.Anchor(install.Namespace)
	anchor.OwnerReferences = []metav1.OwnerReference{owner}
	return anchor
}

// outcome is a pod, without varying parts, or the reason for none.
type outcome struct {
	pod string
	err error
	// refusals are the words of all refusing sets: any may be asked first.
	refusals []string
}

var token = regexp.MustCompile(`kube-api-access-[a-z0-9]{5}`)

func outcomeOf(t *testing.T, pod *corev1.Pod, err error) outcome {
	t.Helper()
	if err != nil {
		return outcome{err: err}
	}
	pod = pod.DeepCopy()
	pod.ObjectMeta = metav1.ObjectMeta{Labels: pod.Labels, Annotations: pod.Annotations}
	delete(pod.Labels, podentry.BypassLabel)
	data, err := json.MarshalIndent(pod, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return outcome{pod: token.ReplaceAllString(string(data), "kube-api-access-x")}
}

// create asks for the pods of all rounds.
func (c *comparison) create(all []generated) []outcome {
	c.t.Helper()
	var outcomes []outcome
	for _, g := range all {
		pod := g.pod.DeepCopy()
		pod.Namespace = g.namespace.Name
		err := c.client.Create(c.t.Context(), pod, client.DryRunAll)
		outcomes = append(outcomes, outcomeOf(c.t, pod, err))
	}
	return outcomes
}

// reference injects in this process into the server's pod without anything of ours.
func (c *comparison) reference(g generated) outcome {
	c.t.Helper()
	pod := g.pod.DeepCopy()
	pod.Namespace = g.namespace.Name
	pod.Labels[podentry.BypassLabel] = podentry.BypassValue
	if err := c.client.Create(c.t.Context(), pod, client.DryRunAll); err != nil {
		return outcome{err: err}
	}
	delete(pod.Labels, podentry.BypassLabel)
	object := map[string]any{}
	data, err := json.Marshal(pod)
	if err == nil {
		err = kjson.Unmarshal(data, &object)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	var refusals []string
	for _, s := range g.sets {
		if !s.Match.Selects(pod.Labels, g.namespace.Labels) {
			continue
		}
		if _, err := g.compiled[s.Name].Inject(sidecar.Pod{Object: object, Namespace: g.namespace.Labels}); err != nil {
			refusals = append(refusals, err.Error())
		}
	}
	if len(refusals) > 0 {
		return outcome{err: errors.New(strings.Join(refusals, "; ")), refusals: refusals}
	}
	injected := &corev1.Pod{}
	if data, err = json.Marshal(object); err == nil {
		err = json.Unmarshal(data, injected)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	injected.ObjectMeta = metav1.ObjectMeta{Namespace: pod.Namespace, GenerateName: "p-", Labels: injected.Labels, Annotations: injected.Annotations}
	if injected.Labels == nil {
		injected.Labels = map[string]string{}
	}
	injected.Labels[podentry.BypassLabel] = podentry.BypassValue
	// The status is that of the pod without the sidecars. A server of 1.36 would believe
	// its QoS class.
	injected.Status = corev1.PodStatus{}
	err = c.client.Create(c.t.Context(), injected, client.DryRunAll)
	return outcomeOf(c.t, injected, err)
}

// digits vary between messages of the same meaning.
var digits = regexp.MustCompile(`\[?[0-9]+\]?`)

// firstCause says why a pod was refused, in short.
func firstCause(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil && len(status.Status().Details.Causes) > 0 {
		cause := status.Status().Details.Causes[0]
		return digits.ReplaceAllString(cause.Field+" "+string(cause.Type), "")
	}
	return "a set, which finds no container"
}

// same compares. An invalid pod is refused with the same causes; one refused by a set, in
// its words.
func (c *comparison) same(g generated, way string, want, got outcome) {
	c.t.Helper()
	if diff := cmp.Diff(want.pod, got.pod); diff != "" {
		c.t.Errorf("seed %d, round %s by %s (-reference +server), %v and %v:\n%s", *seed, g.round, way, want.err, got.err, diff)
		return
	}
	if want.err == nil {
		return
	}
	if !apierrors.IsInvalid(want.err) || !apierrors.IsInvalid(got.err) {
		if got.err == nil || !slices.ContainsFunc(want.refusals, func(words string) bool { return strings.Contains(got.err.Error(), words) }) {
			c.t.Errorf("seed %d, round %s by %s: refused with %v, by the reference with %v", *seed, g.round, way, got.err, want.err)
		}
		return
	}
	causes := func(err error) string {
		var fields []string
		var status apierrors.APIStatus
		if errors.As(err, &status) && status.Status().Details != nil {
			for _, cause := range status.Status().Details.Causes {
				fields = append(fields, cause.Field+" "+string(cause.Type))
			}
		}
		slices.Sort(fields)
		return strings.Join(fields, "\n")
	}
	if diff := cmp.Diff(causes(want.err), causes(got.err)); diff != "" {
		c.t.Errorf("seed %d, round %s by %s: refused (-reference +server):\n%s", *seed, g.round, way, diff)
	}
}
