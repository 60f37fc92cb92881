// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
	"github.com/kruise-operator/kruise-operator/internal/engine/podentry"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
)

// rig is an Injection on a server that stores what it is given and, unless injects says so, injects nothing.
type rig struct {
	*Injection
	t      *testing.T
	client client.Client
	clock  *clocktesting.FakePassiveClock
	sets   []unstructured.Unstructured
	// writes and reads count requests that write, and that read one object.
	writes, reads int
	// changes counts how often the sets were replaced.
	changes int
	// injects are the ways that work.
	injects map[string]bool
	// without: the server does not serve policies any more.
	without bool
	// older: the server never has served policies; mapped is how often it was asked whether it does.
	older  bool
	mapped int
	// fails is how many bindings the server fails to write.
	fails int
	// enqueued are the sets that watches have enqueued, asked is how many proofs were made.
	enqueued []string
	asked    int
	// unended is called for each page of pods that have not ended that is read, with the namespace, and may say that there is another page.
	unended func(namespace string) (more bool)
	// singly are the pods that were asked for by name.
	singly []string
	// unread is why the server does not say which pods have not ended; nil: it does.
	unread error
	// dryRun is called for each pod that is created by a dry run.
	dryRun func(*corev1.Pod)
	// forbids is asked about each such pod; nil: none is forbidden.
	forbids func(*corev1.Pod) error
	// fieldCheck answers dry runs that ask whether the server knows all fields; nil: it does.
	fieldCheck func() error
	// refuse is asked about each revision that is created; nil: none is refused.
	refuse func(client.Object) error
	// refuseBinding is asked about each binding that is written, by its name; nil: none is refused.
	refuseBinding func(name string) error
	// unlisted is why the server does not say which bindings there are; nil: it does.
	unlisted error
	// keeps is why the server does not delete revisions; nil: it does.
	keeps error
	// keepsBinding is asked about each binding that is deleted, by its name; nil: none is kept.
	keepsBinding func(name string) error
	// mirrored says that a webhook of others has all images pulled from a mirror of the registry.
	mirrored bool
}

// errNotServed is what a server answers about a kind that it does not have.
var errNotServed = apierrors.NewGenericServerResponse(404, "patch", admissionv1.Resource("mutatingadmissionpolicies"), "", "the server could not find the requested resource", 0, true)

func newRig(t *testing.T, preferPolicy bool, objects ...client.Object) *rig {
	t.Helper()
	types, err := scheme.New()
	if err == nil {
		err = apiextensionsv1.AddToScheme(types)
	}
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, clock: clocktesting.NewFakePassiveClock(time.Unix(1e9, 0)), injects: map[string]bool{}}
	url := "https://127.0.0.1:1/convert"
	definition := &apiextensionsv1.CustomResourceDefinition{}
	definition.Name = "sidecarsets.apps.kruise.io"
	definition.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
		Webhook: &apiextensionsv1.WebhookConversion{ClientConfig: &apiextensionsv1.WebhookClientConfig{URL: &url, CABundle: []byte("ca")}},
	}
	shop := &corev1.Namespace{}
	shop.Name, shop.Labels = "shop", map[string]string{corev1.LabelMetadataName: "shop"}
	r.client = fake.NewClientBuilder().WithScheme(types).WithRESTMapper(mapping{mapperOf(types), r}).WithObjects(append(objects, definition, shop)...).WithInterceptorFuncs(r.functions()).Build()
	r.Injection = NewInjection(InjectionOptions{
		Client: r.client, Live: r.client, Pods: r.client, Namespace: "kruise-system", PreferPolicy: preferPolicy, Clock: r.clock,
		Sets: func(context.Context) ([]unstructured.Unstructured, error) { return r.sets, nil },
	})
	r.registry.enqueue = func(concerns func(string) bool) {
		for at := range r.sets {
			if name := r.sets[at].GetName(); concerns(name) {
				r.enqueued = append(r.enqueued, name)
			}
		}
	}
	return r
}

// mapping serves no policies while the server is an older one.
type mapping struct {
	meta.RESTMapper
	of *rig
}

func (m mapping) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if kind == policyKind().GroupKind() && m.of.older {
		m.of.mapped++
		return nil, &meta.NoKindMatchError{GroupKind: kind, SearchedVersions: versions}
	}
	return m.RESTMapper.RESTMapping(kind, versions...)
}

// mapperOf serves every type.
func mapperOf(types *runtime.Scheme) meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(types.PrioritizedVersionsAllGroups())
	for kind := range types.AllKnownTypes() {
		scope := meta.RESTScopeRoot
		if kind.Kind == "Pod" || kind.Kind == "ControllerRevision" {
			scope = meta.RESTScopeNamespace
		}
		mapper.Add(kind, scope)
	}
	return mapper
}

// functions count writes, and answer a dry run as a server does that injects.
func (r *rig) functions() interceptor.Funcs {
	return interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			r.reads++
			return c.Get(ctx, key, object, options...)
		},
		// The names of pods by phase, which the fake server cannot select. One named unread is on a page that comes late.
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, is := list.(*admissionv1.MutatingAdmissionPolicyBindingList); is && r.without {
				return errNotServed
			} else if is && r.unlisted != nil {
				return r.unlisted
			}
			asked := (&client.ListOptions{}).ApplyOptions(options)
			named, is := list.(*metav1.PartialObjectMetadataList)
			if !is || asked.FieldSelector == nil {
				return c.List(ctx, list, options...)
			}
			if r.unread != nil {
				return r.unread
			}
			named.Items, named.Continue = nil, ""
			name, singly := asked.FieldSelector.RequiresExactMatch(metav1.ObjectNameField)
			if singly {
				r.singly = append(r.singly, name)
			} else if r.unended != nil && r.unended(asked.Namespace) {
				named.Continue = "more"
			}
			pods := &corev1.PodList{}
			err := c.List(ctx, pods, &client.ListOptions{Namespace: asked.Namespace, LabelSelector: asked.LabelSelector})
			for _, pod := range pods.Items {
				if (pod.Name != "unread" || singly) && asked.FieldSelector.Matches(fields.Set{"status.phase": string(pod.Status.Phase), metav1.ObjectNameField: pod.Name}) {
					named.Items = append(named.Items, metav1.PartialObjectMetadata{ObjectMeta: pod.ObjectMeta})
				}
			}
			return err
		},
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if pod, is := object.(*corev1.Pod); is {
				if r.dryRun != nil {
					r.dryRun(pod)
				}
				r.asked++
				if r.forbids != nil {
					if err := r.forbids(pod); err != nil {
						return err
					}
				}
				r.answer(ctx, pod)
				for at := range pod.Spec.Containers {
					if r.mirrored {
						pod.Spec.Containers[at].Image = "mirror.example/" + pod.Spec.Containers[at].Image
					}
				}
				return nil
			}
			if object.GetObjectKind().GroupVersionKind().Kind == "Pod" {
				if r.fieldCheck != nil {
					return r.fieldCheck()
				}
				return nil
			}
			if _, is := object.(*appsv1.ControllerRevision); is && r.refuse != nil {
				if err := r.refuse(object); err != nil {
					return err
				}
			}
			r.writes++
			return c.Create(ctx, object, options...)
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			r.writes++
			return c.Update(ctx, object, options...)
		},
		Apply: func(ctx context.Context, c client.WithWatch, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			if kind, is := object.(interface{ GetKind() string }); is && r.without && strings.HasPrefix(kind.GetKind(), "MutatingAdmissionPolicy") {
				return errNotServed
			}
			if kind, is := object.(interface{ GetKind() string }); is && r.fails > 0 && kind.GetKind() == "MutatingAdmissionPolicyBinding" {
				r.fails--
				return errors.New("an internal error")
			}
			if binding, is := object.(interface{ GetName() string }); is && r.refuseBinding != nil {
				if err := r.refuseBinding(binding.GetName()); err != nil {
					return err
				}
			}
			r.writes++
			return c.Apply(ctx, object, options...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			r.writes++
			if _, is := object.(*appsv1.ControllerRevision); is && r.keeps != nil {
				return r.keeps
			}
			if _, is := object.(*admissionv1.MutatingAdmissionPolicyBinding); is && r.keepsBinding != nil {
				if err := r.keepsBinding(object.GetName()); err != nil {
					return err
				}
			}
			if _, is := object.(*admissionv1.MutatingAdmissionPolicyBinding); is && r.without {
				return errNotServed
			}
			return c.Delete(ctx, object, options...)
		},
	}
}

// answer injects what is registered by the way that the pod is to prove, when that works.
func (r *rig) answer(ctx context.Context, pod *corev1.Pod) {
	way := pod.Labels[sidecar.ProofLabel]
	if !r.injects[way] {
		return
	}
	revisions := &appsv1.ControllerRevisionList{}
	if err := r.client.List(ctx, revisions, client.HasLabels{injectionLabel}); err != nil {
		r.t.Error(err)
	}
	for _, revision := range revisions.Items {
		if revision.Name == sidecar.AnchorName || !r.selects(revision.Labels[injectionLabel], pod) {
			continue
		}
		injection, err := sidecar.Decode(revision.Data.Raw)
		if err != nil {
			r.t.Error(err)
		}
		object, err := objectOf(pod)
		if err == nil {
			_, err = injection.Inject(sidecar.Pod{Object: object})
		}
		if err == nil {
			*pod = corev1.Pod{}
			err = fromObject(object, pod)
		}
		if err != nil {
			r.t.Error(err)
		}
	}
}

// selects says whether the labels that a set selects, in matchLabels, are those of a pod.
func (r *rig) selects(set string, pod *corev1.Pod) bool {
	return !slices.ContainsFunc(r.sets, func(object unstructured.Unstructured) bool {
		wanted, _, _ := unstructured.NestedStringMap(object.Object, "spec", "selector", "matchLabels")
		return object.GetName() == set && !labels.SelectorFromSet(wanted).Matches(labels.Set(pod.Labels))
	})
}

func fromObject(object map[string]any, into *corev1.Pod) error {
	data, err := yaml.Marshal(object)
	if err != nil {
		return err
	}
	return yaml.Unmarshal(data, into)
}

// set replaces the SidecarSets of the cluster.
func (r *rig) set(texts ...string) {
	r.sets = nil
	r.changes++
	for _, text := range texts {
		object := unstructured.Unstructured{}
		content := map[string]any{}
		if err := yaml.Unmarshal([]byte(text), &content); err != nil {
			r.t.Fatal(err)
		}
		var err error
		if object.Object, err = objectOf(content); err != nil { // whole numbers, as a server sends them
			r.t.Fatal(err)
		}
		object.SetAPIVersion("apps.kruise.io/v1beta1")
		object.SetKind("SidecarSet")
		object.SetUID(types.UID("uid-of-" + object.GetName()))
		object.SetResourceVersion(strconv.Itoa(r.changes))
		if object.GetGeneration() == 0 {
			object.SetGeneration(int64(r.changes))
		}
		r.sets = append(r.sets, object)
	}
}

// pass reconciles as often as it asks for, for a while.
func (r *rig) pass(name string, during time.Duration) InjectionState {
	r.t.Helper()
	end := r.clock.Now().Add(during)
	for {
		state, err := r.Reconcile(r.t.Context(), name, Latest{})
		if err != nil {
			r.t.Fatal(err)
		}
		if state.RecheckAfter == 0 || !r.clock.Now().Add(state.RecheckAfter).Before(end) {
			return state
		}
		r.clock.SetTime(r.clock.Now().Add(state.RecheckAfter))
	}
}

// registered is what is there, in words.
func (r *rig) registered() string {
	r.t.Helper()
	var all []string
	configuration := &admissionv1.MutatingWebhookConfiguration{}
	if err := r.client.Get(r.t.Context(), client.ObjectKey{Name: sidecar.WebhookConfiguration}, configuration); err == nil {
		for _, entry := range configuration.Webhooks {
			all = append(all, "entry "+strings.TrimSuffix(strings.TrimPrefix(entry.Name, "sidecarset-"), ".operator.kruise.io")+" "+string(*entry.FailurePolicy))
			if last := entry.MatchConditions[len(entry.MatchConditions)-1]; last.Name == sidecar.BeyondPolicy {
				all[len(all)-1] += " beyond"
			}
		}
	} else if !apierrors.IsNotFound(err) {
		r.t.Fatal(err)
	}
	bindings := &admissionv1.MutatingAdmissionPolicyBindingList{}
	if err := r.client.List(r.t.Context(), bindings); err != nil {
		r.t.Fatal(err)
	}
	for _, binding := range bindings.Items {
		all = append(all, "binding "+strings.TrimSuffix(strings.TrimPrefix(binding.Name, "sidecarset-"), ".operator.kruise.io"))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// revision is what a revision injects, which has to be there.
func (r *rig) revision(name string) sidecar.Injection {
	r.t.Helper()
	stored := &appsv1.ControllerRevision{}
	if err := r.client.Get(r.t.Context(), client.ObjectKey{Namespace: r.options.Namespace, Name: name}, stored); err != nil {
		r.t.Fatal(err)
	}
	injection, err := sidecar.Decode(stored.Data.Raw)
	if err != nil {
		r.t.Fatal(err)
	}
	return injection
}

// images are those of the first sidecar in the revisions that are kept of what a set injects.
func (r *rig) images(set string) string {
	r.t.Helper()
	revisions := &appsv1.ControllerRevisionList{}
	if err := r.client.List(r.t.Context(), revisions, client.MatchingLabels{injectionLabel: set}); err != nil {
		r.t.Fatal(err)
	}
	var all []string
	for _, revision := range revisions.Items {
		injection, err := sidecar.Decode(revision.Data.Raw)
		if err != nil {
			r.t.Fatal(err)
		}
		all = append(all, fmt.Sprint(injection.Variants[0].Containers[0].Value["image"]))
	}
	return strings.Join(all, " ")
}

func (r *rig) revisions() int {
	r.t.Helper()
	list := &appsv1.ControllerRevisionList{}
	if err := r.client.List(r.t.Context(), list); err != nil {
		r.t.Fatal(err)
	}
	return len(list.Items)
}

func installation() client.Object {
	binding := &rbacv1.ClusterRoleBinding{}
	binding.Name, binding.UID = "kruise-operator-manager", "uid"
	return binding
}

const plain = `{metadata: {name: log}, spec: {selector: {matchLabels: {app: shop}}, containers: [{name: agent, image: a}]}}`

func TestNothingIsRegisteredWithoutSets(t *testing.T) {
	r := newRig(t, true, installation())
	r.pass("gone", time.Hour)
	if got := r.registered(); got != "" || r.writes > 0 {
		t.Errorf("registered: %s, %d writes", got, r.writes)
	}
}

func TestWaysOfInjection(t *testing.T) {
	twice := strings.Replace(plain, "containers:", "patchPodMetadata: [{annotations: {a: '{}'}, patchPolicy: MergePatchJson}, {annotations: {a: '{}'}, patchPolicy: MergePatchJson}], containers:", 1)
	merging := strings.Replace(plain, "containers:", "patchPodMetadata: [{annotations: {a: '{}'}, patchPolicy: MergePatchJson}], containers:", 1)
	ignoring := strings.Replace(plain, "name: log", "name: log, annotations: {operator.kruise.io/injection-failure-policy: Ignore}", 1)
	cases := map[string]struct {
		set           string
		webhookOnly   bool
		works         string
		noOwner       bool
		mirrored      bool
		path          Path
		reason        string
		message, want string
		// stalled says that nothing will be injected before somebody does something.
		stalled bool
	}{
		"a policy that works": {set: plain, works: "policy", path: PathPolicy, reason: "Policy", message: "verified by a dry run", want: "binding kruise-operator-sidecars-anchor, binding log"},
		"somebody else has images pulled from a mirror": {
			set: plain, works: "policy", mirrored: true, path: PathPolicy, reason: "Policy", message: "something else changed spec.containers[",
			want: "binding kruise-operator-sidecars-anchor, binding log",
		},
		"somebody else has them pulled from a mirror, and only the webhook works": {
			set: plain, webhookOnly: true, works: "webhook", mirrored: true, path: PathWebhook, reason: "Webhook",
			message: "something else changed spec.containers[", want: "entry log Fail",
		},
		"a policy that has no effect gives way to the webhook": {
			set: plain, works: "webhook", path: PathWebhook, reason: "Webhook", message: "the policy has no effect", want: "binding kruise-operator-sidecars-anchor, entry log Fail",
		},
		"nothing works": {
			set: plain, path: PathWebhook, reason: "Webhook", message: "a pod made by a dry run lacked",
			want: "binding kruise-operator-sidecars-anchor, binding log, entry log Fail", stalled: true,
		},
		"admission.mode is Webhook":        {set: plain, webhookOnly: true, works: "webhook", path: PathWebhook, reason: "Webhook", message: "admission.mode", want: "entry log Fail"},
		"a feature that needs the webhook": {set: twice, works: "webhook", path: PathWebhook, reason: "Webhook", message: "MergePatchJson", want: "entry log Fail"},
		"a feature that the policy has for some pods": {
			set: merging, works: "both", path: PathSplit, reason: "Split", message: "a value of their own in annotation a: about these it asks the operator",
			want: "binding kruise-operator-sidecars-anchor, binding log, entry log Fail beyond",
		},
		"a feature that the policy has for some pods, without effect": {
			set: merging, works: "webhook", path: PathWebhook, reason: "Webhook", message: "the policy has no effect", want: "binding kruise-operator-sidecars-anchor, entry log Fail",
		},
		"it fails open":               {set: ignoring, webhookOnly: true, works: "webhook", path: PathWebhook, reason: "Webhook", message: "created without", want: "entry log Ignore"},
		"no installation owner":       {set: plain, noOwner: true, works: "webhook", path: PathNone, reason: "NoInstallationOwner", message: "Ignore", stalled: true},
		"no installation owner, open": {set: ignoring, noOwner: true, works: "webhook", path: PathWebhook, reason: "Webhook", message: "verified by a dry run", want: "entry log Ignore"},
		"paused":                      {set: strings.Replace(plain, "containers:", "injectionStrategy: {paused: true}, containers:", 1), path: PathNone, reason: "Paused", message: "paused is true"},
		"a revision that is not there": {
			set:  strings.Replace(plain, "containers:", "injectionStrategy: {revision: {revisionName: log-1}}, containers:", 1),
			path: PathNone, reason: "RevisionNotFound", message: "log-1", stalled: true,
		},
		"a selector that selects all": {set: `{metadata: {name: log}, spec: {selector: {}, containers: [{name: agent, image: a}]}}`, path: PathNone, reason: "InvalidSpec", message: "spec.selector", stalled: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var objects []client.Object
			if !tc.noOwner {
				objects = append(objects, installation())
			}
			r := newRig(t, !tc.webhookOnly, objects...)
			r.mirrored, r.injects[tc.works] = tc.mirrored, true
			if tc.works == "both" {
				r.injects["policy"], r.injects["webhook"] = true, true
			}
			r.set(tc.set)
			state := r.pass("log", 40*time.Second)
			if state.Path != tc.path || state.Condition.Reason != tc.reason || !strings.Contains(state.Condition.Message, tc.message) {
				t.Errorf("%+v", state)
			}
			if state.Stalled != tc.stalled || (state.Fault != "") != tc.stalled {
				t.Errorf("stalled %v, fault %q", state.Stalled, state.Fault)
			}
			if got := r.registered(); got != tc.want {
				t.Errorf("registered: %s\nwant: %s", got, tc.want)
			}
			before := r.writes
			r.pass("log", 2*time.Minute)
			retries := tc.works == "webhook" && strings.Contains(tc.want, "anchor") // of the policy
			if r.writes != before && tc.works != "" && !retries {
				t.Errorf("%d writes at rest", r.writes-before)
			}
			r.set()
			r.pass("log", time.Minute)
			if got := strings.ReplaceAll(r.registered(), "binding kruise-operator-sidecars-anchor", ""); got != "" {
				t.Errorf("still registered: %s", got)
			}
			anchors := strings.Count(tc.want, "anchor")
			if got := r.revisions(); got != anchors {
				t.Errorf("%d revisions are left, not %d", got, anchors)
			}
		})
	}
}

// compiles says whether all sets are compiled by a pass over one.
func (r *rig) compiles(name string, latest Latest) bool {
	r.t.Helper()
	before := r.compiled.sets[name]
	if _, err := r.Reconcile(r.t.Context(), name, latest); err != nil {
		r.t.Fatal(err)
	}
	return before != r.compiled.sets[name]
}

// Each pass of a rollout writes a status. With a hundred sets compiling all of them takes a tenth of a second.
func TestSetsAreCompiledOnlyWhenWhatTheyInjectMayChange(t *testing.T) {
	const text = `{metadata: {name: %s, generation: %d, annotations: {%s}}, spec: {selector: {matchLabels: {app: shop}}, containers: [{name: %s, image: %s}]}, status: %s}`
	log := func(generation int, annotations, image, status string) string {
		return fmt.Sprintf(text, "log", generation, annotations, "agent", image, status)
	}
	mesh := fmt.Sprintf(text, "mesh", 1, "", "proxy", "p", "{}")
	r := newRig(t, true, installation())
	r.injects["policy"] = true
	first, second := Latest{Generation: 1, Revision: "log-1", Hash: "h1"}, Latest{Generation: 2, Revision: "log-2", Hash: "h2"}
	hashes := sidecar.HashAnnotation + `: h1, ` + sidecar.HashWithoutImageAnnotation + `: w1`
	for _, step := range []struct {
		what     string
		sets     []string
		latest   Latest
		compiles bool
	}{
		{"the first pass", []string{log(1, "", "a", "{}"), mesh}, first, true},
		{"nothing", []string{log(1, "", "a", "{}"), mesh}, first, false},
		{"its hashes are written", []string{log(1, hashes, "a", "{}"), mesh}, first, false},
		{"its first status", []string{log(1, hashes, "a", "{observedGeneration: 1, latestRevision: log-1}"), mesh}, first, false},
		{"the counters of its pods", []string{log(1, hashes, "a", "{observedGeneration: 1, latestRevision: log-1, matchedPods: 9}"), mesh}, first, false},
		{"an annotation that is nobody's", []string{log(1, hashes+", example.com/team: a", "a", "{observedGeneration: 1, latestRevision: log-1}"), mesh}, first, false},
		{"it fails open", []string{log(1, sidecar.FailurePolicyAnnotation+": Ignore", "a", "{}"), mesh}, first, true},
		{"it is a canary", []string{log(1, sidecar.CanaryAnnotation+`: "true", `+sidecar.BaseAnnotation+": mesh", "a", "{}"), mesh}, first, true},
		{"another spec", []string{log(2, "", "b", "{}"), mesh}, second, true},
		{"the status of the other set", []string{log(2, "", "b", "{}"), strings.Replace(mesh, "status: {}", "status: {matchedPods: 1}", 1)}, second, false},
		{"the other set goes", []string{log(2, "", "b", "{}")}, second, true},
	} {
		r.set(step.sets...)
		// What a pass finds out is known from the next one on at the latest.
		if got := r.compiles("log", step.latest); got != step.compiles {
			t.Errorf("%s: compiled %v, want %v", step.what, got, step.compiles)
		}
	}
	deleted := metav1.NewTime(r.clock.Now())
	r.sets[0].SetDeletionTimestamp(&deleted)
	if !r.compiles("log", second) || r.compiled.sets["log"] != nil {
		t.Error("a set that is being deleted is still injected")
	}
}

// A policy takes a moment to act, and is replaced when it does not: that is not a matter for the user.
func TestAWayThatDoesNotActYetIsNotStalled(t *testing.T) {
	for _, preferPolicy := range []bool{true, false} {
		r := newRig(t, preferPolicy, installation())
		r.set(plain)
		state, err := r.Reconcile(t.Context(), "log", Latest{})
		if err != nil || state.Fault == "" || state.Stalled {
			t.Errorf("by policy %v: fault %q, stalled %v, %v", preferPolicy, state.Fault, state.Stalled, err)
		}
	}
}

// A process that finds registered what should be writes nothing, neither at its start nor when it looks again: the policy and its bindings,
// entries and revisions are read.
func TestARestartWritesNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		set          string
		preferPolicy bool
	}{
		"by policy":  {plain, true},
		"by webhook": {plain, false},
		"by both":    {strings.Replace(plain, "containers:", "patchPodMetadata: [{annotations: {a: '{}'}, patchPolicy: MergePatchJson}], containers:", 1), true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, tc.preferPolicy, installation())
			r.injects["policy"], r.injects["webhook"] = true, true
			r.set(tc.set)
			before := r.pass("log", time.Hour)
			if before.Condition.Status != metav1.ConditionTrue || r.writes == 0 {
				t.Fatalf("%+v, %d writes", before, r.writes)
			}
			r.writes = 0
			r.Injection = NewInjection(r.options)
			first, err := r.Reconcile(t.Context(), "log", Latest{})
			if err != nil {
				t.Fatal(err)
			}
			if first.Path != before.Path || first.Condition != before.Condition {
				t.Errorf("the status changes: %+v, it was %+v", first.Condition, before.Condition)
			}
			if r.pass("log", time.Hour); r.writes > 0 {
				t.Errorf("%d writes after a restart", r.writes)
			}
		})
	}
}

// What a set injects depends on those that may meet it on a pod, and names when their revisions were made. The first pass of a new process is over one
// of them, and does not register the others again.
func TestARestartWithSeveralSetsWritesNothing(t *testing.T) {
	var objects []client.Object
	var texts []string
	latest := map[string]Latest{}
	for n, name := range []string{"log", "mesh", "trace"} {
		made := metav1.NewTime(time.Unix(int64(2e8+n), 0))
		revision := &appsv1.ControllerRevision{Revision: 2}
		revision.Namespace, revision.Name, revision.CreationTimestamp = "kruise-system", name+"-2", made
		revision.Labels = map[string]string{nameLabel: name}
		revision.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps.kruise.io/v1beta1", Kind: "SidecarSet", Name: name, UID: types.UID("uid-of-" + name), Controller: ptr.To(true)}}
		objects = append(objects, revision)
		latest[name] = Latest{Generation: 2, Revision: name + "-2", Made: made.Time, Hash: "h-" + name, HashWithoutImage: "w-" + name}
		texts = append(texts, fmt.Sprintf(`{metadata: {name: %s, generation: 2, creationTimestamp: "2000-01-01T00:00:00Z", annotations: {%s: h-%s, %s: w-%s}},
spec: {selector: {matchLabels: {app: shop}}, containers: [{name: %s, image: a}]}, status: {observedGeneration: 2, latestRevision: %s-2}}`,
			name, sidecar.HashAnnotation, name, sidecar.HashWithoutImageAnnotation, name, name, name))
	}
	r := newRig(t, true, append(objects, installation())...)
	r.injects["policy"] = true
	r.set(texts...)
	for range 2 { // the second time each knows the others
		for name, known := range latest {
			if _, err := r.Reconcile(t.Context(), name, known); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := strings.Count(r.registered(), "binding"); got != 4 {
		t.Fatalf("registered: %s", r.registered())
	}
	r.writes = 0
	r.Injection = NewInjection(r.options)
	for name, known := range latest {
		if _, err := r.Reconcile(t.Context(), name, known); err != nil {
			t.Fatal(err)
		}
		if r.writes > 0 {
			t.Fatalf("%d writes by the pass over %s", r.writes, name)
		}
	}
}

// The administrator switches admission.mode to and fro, which restarts the process: at no time is a set injected by neither way, and in the end it is by one.
func TestTheModeIsSwitchedToAndFro(t *testing.T) {
	for name, set := range map[string]string{"whole": plain, "split": split} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, true, installation())
			r.injects["policy"], r.injects["webhook"] = true, true
			r.set(set)
			for n, preferPolicy := range []bool{true, false, true, false} {
				r.options.PreferPolicy = preferPolicy
				r.Injection = NewInjection(r.options)
				want := "binding kruise-operator-sidecars-anchor, entry log Fail"
				if preferPolicy {
					want = "binding kruise-operator-sidecars-anchor, binding log" + map[string]string{"split": ", entry log Fail beyond"}[name]
				}
				var state InjectionState
				for end := r.clock.Now().Add(time.Minute); r.clock.Now().Before(end); r.clock.SetTime(r.clock.Now().Add(state.RecheckAfter)) {
					var err error
					if state, err = r.Reconcile(t.Context(), "log", Latest{}); err != nil {
						t.Fatal(err)
					}
					if got := r.registered(); !strings.Contains(got, "binding log") && !strings.HasSuffix(got, "entry log Fail") {
						t.Errorf("switch %d: registered: %s", n, got)
					}
				}
				if got := r.registered(); got != want || state.Condition.Status != metav1.ConditionTrue {
					t.Errorf("after switch %d: registered: %s, %+v", n, got, state)
				}
			}
		})
	}
}

// A process that was restarted takes back what the one before it had registered.
func TestAnotherProcessCleansUp(t *testing.T) {
	r := newRig(t, true, installation())
	r.injects["policy"], r.injects["webhook"] = true, true
	r.set(plain)
	r.pass("log", time.Minute)
	r.set()
	next := NewInjection(r.options)
	for range 3 {
		if _, err := next.tryCleanUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.clock.SetTime(r.clock.Now().Add(keepUnused))
	}
	if got := r.registered(); got != "binding kruise-operator-sidecars-anchor" || r.revisions() != 1 {
		t.Errorf("registered: %s, %d revisions", got, r.revisions())
	}
}

func TestPodsWithoutSidecarsAreNamed(t *testing.T) {
	pod := func(name string, labels map[string]string, annotations ...string) *corev1.Pod {
		p := &corev1.Pod{}
		p.Namespace, p.Name, p.UID, p.Labels = "shop", name, types.UID("uid-of-"+name), map[string]string{"app": "shop"}
		p.Spec.Containers = []corev1.Container{{Name: "web"}}
		maps.Copy(p.Labels, labels)
		if len(annotations) > 0 {
			p.Annotations = map[string]string{annotations[0]: annotations[1]}
		}
		return p
	}
	with := func(container string, p *corev1.Pod) *corev1.Pod {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: container})
		return p
	}
	earlier := with("agent-of-an-earlier-revision", pod("injected-earlier", nil, sidecar.InjectedListAnnotation, "log"))
	earlier.Annotations[sidecar.HashAnnotation] = `{"log":{"sidecarList":["agent-of-an-earlier-revision"]}}`
	copied := pod("copied", nil, sidecar.InjectedListAnnotation, "log") // by hand, from a pod with sidecars, but without these
	copied.Annotations[sidecar.HashAnnotation] = `{"log":{"sidecarList":["agent"]}}`
	objects := []client.Object{
		installation(), earlier, copied, with("agent", pod("injected", nil, sidecar.InjectedListAnnotation, "a,log")), pod("by-others", nil, sidecar.InjectedListAnnotation, "logs"),
		pod("bypass", map[string]string{podentry.BypassLabel: podentry.BypassValue}), pod("other", map[string]string{"app": "other"}),
	}
	for n := range 6 {
		objects = append(objects, pod(fmt.Sprintf("old-%d", n), nil))
	}
	ended := pod("ended", nil)
	ended.Status.Phase = corev1.PodSucceeded
	objects = append(objects, ended)
	outside := pod("outside", nil)
	outside.Namespace = "kube-system"
	r := newRig(t, true, append(objects, outside)...)
	r.injects["policy"] = true
	r.set(plain)
	state := r.pass("log", time.Minute)
	want := "get them when they are re-created: 8: shop/by-others, shop/copied, shop/old-0, shop/old-1, shop/old-2 and 3 more"
	if state.Without == nil || !strings.HasSuffix(state.Without.Message, want) {
		t.Errorf("%+v", state.Without)
	}
	if state.RecheckAfter > countEvery {
		t.Errorf("they are looked for again in %s", state.RecheckAfter)
	}
}

// unphased reads pods without their phases.
type unphased struct{ client.Reader }

func (u unphased) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := u.Reader.List(ctx, list, options...)
	if pods, is := list.(*corev1.PodList); is {
		for at := range pods.Items {
			pods.Items[at].Status = corev1.PodStatus{}
		}
	}
	return err
}

// Which pods have ended is asked of the API server only where it matters, page by page up to a limit, and without keeping other sets waiting.
func TestLookingForPodsWithoutSidecarsIsBounded(t *testing.T) {
	pod := func(namespace, name string) *corev1.Pod {
		p := &corev1.Pod{}
		p.Namespace, p.Name, p.UID, p.Labels = namespace, name, types.UID(namespace+"/"+name), map[string]string{"app": "shop"}
		return p
	}
	t.Run("nothing is asked about pods of other namespaces", func(t *testing.T) {
		r := newRig(t, true, installation(), pod("kube-system", "old"))
		r.unended = func(string) bool { t.Error("it is asked"); return false }
		r.set(plain)
		if state := r.pass("log", time.Minute); state.Without != nil {
			t.Errorf("%+v", state.Without)
		}
	})
	t.Run("one namespace is asked", func(t *testing.T) {
		r := newRig(t, true, installation(), pod("shop", "old"), pod("kube-system", "old"))
		pages := map[string]int{}
		r.unended = func(namespace string) bool { pages[namespace]++; return false }
		r.set(plain)
		if state := r.pass("log", time.Second); state.Without == nil || len(pages) != 1 || pages["shop"] != 1 {
			t.Errorf("%+v, asked: %v", state.Without, pages)
		}
	})
	t.Run("of more pods than are read those that were read are named", func(t *testing.T) {
		r := newRig(t, true, installation(), pod("shop", "old"), pod("shop", "unread"))
		pages := 0
		r.unended = func(string) bool { pages++; return true }
		r.set(plain)
		if state := r.pass("log", time.Second); state.Without == nil || !strings.HasSuffix(state.Without.Message, "at least 1: shop/old") || pages != maxPages {
			t.Errorf("%+v, %d pages", state.Without, pages)
		}
	})
	t.Run("pods behind more with sidecars than are read are found all the same", func(t *testing.T) {
		r := newRig(t, true, installation(), pod("shop", "unread"))
		r.unended = func(string) bool { return true }
		r.set(plain)
		if state := r.pass("log", time.Second); state.Without == nil || !strings.HasSuffix(state.Without.Message, "at least 1: shop/unread") || len(r.singly) != 1 {
			t.Errorf("%+v, asked for singly: %v", state.Without, r.singly)
		}
	})
	t.Run("few are asked for by name", func(t *testing.T) {
		var ended []client.Object
		for i := range 100 {
			one := pod("shop", fmt.Sprintf("p%d", i))
			one.Status.Phase = corev1.PodFailed
			ended = append(ended, one)
		}
		r := newRig(t, true, append(ended, installation())...)
		// The cache has no status of these pods.
		r.options.Pods = unphased{r.client}
		r.unended = func(string) bool { return true }
		r.set(plain)
		if state := r.pass("log", time.Second); state.Without != nil || len(r.singly) != askedSingly {
			t.Errorf("%+v, asked for singly: %v", state.Without, r.singly)
		}
	})
	t.Run("no page is read once all are known", func(t *testing.T) {
		r := newRig(t, true, installation(), pod("shop", "old"))
		pages := 0
		r.unended = func(string) bool { pages++; return true }
		r.set(plain)
		if state := r.pass("log", time.Second); state.Without == nil || !strings.HasSuffix(state.Without.Message, ": 1: shop/old") || pages != 1 {
			t.Errorf("%+v, %d pages", state.Without, pages)
		}
	})
	t.Run("what was found stays while the server does not answer", func(t *testing.T) {
		r := newRig(t, true, installation(), pod("shop", "old"))
		r.set(plain)
		found := r.pass("log", time.Second).Without
		r.clock.SetTime(r.clock.Now().Add(countEvery))
		r.unread = apierrors.NewTooManyRequests("later", 1)
		if state, err := r.Reconcile(t.Context(), "log", Latest{}); err == nil || found == nil || state.Without != found {
			t.Errorf("%+v, %v", state.Without, err)
		}
	})
	t.Run("another set does not wait for it", func(t *testing.T) {
		r := newRig(t, true, installation(), pod("shop", "old"))
		asked, answer := make(chan struct{}), make(chan struct{})
		r.unended = func(string) bool { close(asked); <-answer; r.unended = nil; return false }
		r.set(plain, strings.Replace(strings.Replace(plain, "name: log", "name: mesh", 1), "app: shop", "app: other", 1))
		done := make(chan error, 1)
		go func() {
			_, err := r.Reconcile(t.Context(), "log", Latest{})
			done <- err
		}()
		<-asked
		if _, err := r.Reconcile(t.Context(), "mesh", Latest{}); err != nil {
			t.Error(err)
		}
		close(answer)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// The webhook of somebody else can hold up the dry run of a proof for seconds.
func TestASetIsInjectedWhileTheProofOfAnotherOneHangs(t *testing.T) {
	r := newRig(t, true, installation())
	r.injects["policy"] = true
	asked, answer := make(chan struct{}), make(chan struct{})
	r.dryRun = func(pod *corev1.Pod) {
		if pod.Labels["app"] == "shop" {
			r.dryRun = nil
			close(asked)
			<-answer
		}
	}
	r.set(plain, strings.Replace(strings.Replace(plain, "name: log", "name: mesh", 1), "app: shop", "app: other", 1))
	done := make(chan error, 1)
	go func() {
		_, err := r.Reconcile(t.Context(), "log", Latest{})
		done <- err
	}()
	<-asked
	state, err := r.Reconcile(t.Context(), "mesh", Latest{})
	if err != nil || state.Path != PathPolicy || state.Condition.Status != metav1.ConditionTrue {
		t.Errorf("%+v, %v", state, err)
	}
	close(answer)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := r.registered(); !strings.Contains(got, "binding log") || !strings.Contains(got, "binding mesh") {
		t.Errorf("registered: %s", got)
	}
}

// What somebody changes by hand is put right without a change of a set: the policy's text, a binding, an entry.
func TestChangesByHandArePutRight(t *testing.T) {
	r := newRig(t, true, installation())
	r.injects["policy"], r.injects["webhook"] = true, true
	r.set(strings.Replace(plain, "containers:", "patchPodMetadata: [{annotations: {a: '{}'}, patchPolicy: MergePatchJson}], containers:", 1))
	r.pass("log", time.Minute)
	policy, configuration := &admissionv1.MutatingAdmissionPolicy{}, &admissionv1.MutatingWebhookConfiguration{}
	binding := &admissionv1.MutatingAdmissionPolicyBinding{}
	read := func() string {
		t.Helper()
		var all []string
		for name, object := range map[string]client.Object{sidecar.PolicyName: policy, sidecar.WebhookConfiguration: configuration, sidecar.EntryName("log"): binding} {
			if err := r.client.Get(t.Context(), client.ObjectKey{Name: name}, object); err != nil {
				t.Fatal(err)
			}
		}
		for _, what := range []any{policy.Spec, configuration.Webhooks, binding.Spec} {
			text, err := yaml.Marshal(what)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, string(text))
		}
		return strings.Join(all, "---\n")
	}
	want := read()
	policy.Spec.Mutations[0].JSONPatch.Expression = "[]"
	binding.Spec.ParamRef.Name = "else"
	configuration.Webhooks[0].FailurePolicy = ptr.To(admissionv1.Ignore)
	for _, object := range []client.Object{policy, binding, configuration} {
		if err := r.client.Update(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	if read() == want {
		t.Fatal("nothing was changed")
	}
	r.clock.SetTime(r.clock.Now().Add(verifyEvery))
	r.pass("log", time.Second)
	if diff := cmp.Diff(want, read()); diff != "" {
		t.Error(diff)
	}
}

// What the server refuses again and again does not pass by itself, whatever it says.
func TestARegistrationThatIsRefusedForLongIsStalled(t *testing.T) {
	r := newRig(t, true, installation())
	r.set(plain)
	refused := errors.New("an internal error")
	for _, step := range []struct {
		after   time.Duration
		err     error
		stalled bool
	}{{0, refused, false}, {29 * time.Second, refused, false}, {time.Second, refused, true}, {time.Second, nil, false}, {time.Hour, refused, false}} {
		r.clock.SetTime(r.clock.Now().Add(step.after))
		failing := r.failing("log", step.err)
		if step.err == nil {
			continue
		}
		state := notRegistered(step.err, failing)
		if state.Stalled != step.stalled || state.Condition.Reason != "NotRegistered" || !strings.Contains(state.Fault, "an internal error") {
			t.Errorf("after %s more: %+v", step.after, state)
		}
	}
	if state := notRegistered(apierrors.NewForbidden(admissionv1.Resource("policies"), "p", nil), 0); !state.Stalled {
		t.Error("what the operator may not do is not stalled")
	}
}

// Somebody else changes the webhook configuration at the same moment, or the server is busy: that is no reason to say of a set that is injected that it is not.
func TestARegistrationThatFailsForAMomentSaysNothing(t *testing.T) {
	r := newRig(t, true, installation())
	conflict := apierrors.NewConflict(admissionv1.Resource("mutatingwebhookconfigurations"), sidecar.WebhookConfiguration, errors.New("changed"))
	proven := InjectionState{Path: PathPolicy, Condition: metav1.Condition{Type: ConditionInjectionPath, Status: metav1.ConditionTrue, Reason: "Policy"}}
	for _, step := range []struct {
		after   time.Duration
		version string
		err     error
		reason  string
	}{
		{0, "1", conflict, "NotRegistered"}, // Nothing has been said before.
		{0, "1", nil, "Policy"}, {time.Second, "1", conflict, "Policy"}, {29 * time.Second, "1", conflict, "Policy"}, {time.Second, "1", conflict, "NotRegistered"},
		{0, "1", nil, "Policy"}, {0, "1", apierrors.NewForbidden(admissionv1.Resource("policies"), "p", nil), "NotRegistered"},
		{0, "1", nil, "Policy"}, {0, "2", conflict, "NotRegistered"},
	} {
		r.clock.SetTime(r.clock.Now().Add(step.after))
		state := InjectionState{}
		if step.err == nil {
			state = proven
		}
		if got := r.says("log", step.version, state, step.err).Condition.Reason; got != step.reason {
			t.Errorf("after %+v it says %s", step, got)
		}
	}
}

// Admission sees no other set that comes at the same moment: afterwards both say that they have containers of the same name. A canary and its base may.
func TestSetsWithTheSameContainerSayIt(t *testing.T) {
	another := strings.Replace(plain, "name: log", "name: another", 1)
	canary := strings.Replace(plain, "name: log", "name: another, annotations: {apps.kruise.io/sidecarset-canary: 'true', apps.kruise.io/sidecarset-base: log}", 1)
	elsewhere := strings.Replace(another, "app: shop", "app: market", 1)
	r := newRig(t, true, installation())
	r.injects["policy"] = true
	for _, step := range []struct {
		other string
		says  bool
	}{{another, true}, {canary, false}, {elsewhere, false}, {another, true}} {
		r.set(plain, step.other)
		for set, other := range map[string]string{"log": "another", "another": "log"} {
			first, err := r.Reconcile(t.Context(), set, Latest{})
			if err != nil {
				t.Fatal(err)
			}
			then, words := r.pass(set, time.Minute), "container agent of SidecarSet "+other
			said := len(first.Events) == 1 && first.Events[0].Reason == "ContainerNameTaken" && strings.HasSuffix(first.Events[0].Message, words)
			if said != step.says || strings.HasSuffix(then.Condition.Message, words) != step.says || len(then.Events) > 0 {
				t.Errorf("%s: events %+v, then %+v", set, first.Events, then)
			}
		}
	}
}

// A proof is about the pods that the set selects: another selector has to be proven before it is said to be in force.
func TestAnotherSelectorIsProvenAgain(t *testing.T) {
	r := newRig(t, true, installation())
	r.injects["policy"] = true
	r.set(plain)
	if state := r.pass("log", time.Minute); state.Condition.Status != metav1.ConditionTrue {
		t.Fatalf("%+v", state)
	}
	r.injects["policy"] = false // Bindings act about a second later.
	r.set(strings.Replace(plain, "app: shop", "app: market", 1))
	state, err := r.Reconcile(t.Context(), "log", Latest{})
	if err != nil || state.Condition.Status == metav1.ConditionTrue {
		t.Errorf("%+v, %v", state, err)
	}
	r.injects["policy"] = true
	if state := r.pass("log", time.Minute); state.Condition.Status != metav1.ConditionTrue || state.Path != PathPolicy {
		t.Errorf("%+v", state)
	}
}

// What cannot be stored keeps no other set from being injected.
func TestASetThatIsTooLargeLeavesTheOthersAlone(t *testing.T) {
	r := newRig(t, true, installation())
	r.injects["policy"] = true
	// Each container of the pair has the variable.
	large := `{metadata: {name: large}, spec: {selector: {matchLabels: {app: shop}}, containers: [{name: big, image: b, env: [{name: A, value: "` + strings.Repeat("x", 800_000) +
		`"}], upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: e}}]}}`
	r.set(large, plain)
	r.onlyPlainIsInjected(t, "large", "at most 1400000 can be stored")
}

// onlyPlainIsInjected checks that the other set is stalled with a fault.
func (r *rig) onlyPlainIsInjected(t *testing.T, other, fault string) {
	t.Helper()
	if state := r.pass("log", time.Minute); state.Condition.Status != metav1.ConditionTrue {
		t.Errorf("the other one: %+v", state)
	}
	state := r.pass(other, time.Minute)
	if state.Condition.Reason != "InvalidSpec" || !state.Stalled || !strings.Contains(state.Fault, fault) {
		t.Errorf("%+v", state)
	}
	if got := r.registered(); got != "binding kruise-operator-sidecars-anchor, binding log" {
		t.Errorf("registered: %s", got)
	}
}

// A revision that cannot be decoded, and that one set asks for, kept all sets from being registered, paused and deleted.
func TestASetWhoseRevisionCannotBeDecodedLeavesTheOthersAlone(t *testing.T) {
	for name, data := range map[string]string{"no object": `[]`, "another type": `{"spec":{"containers":"none"}}`} {
		t.Run(name, func(t *testing.T) {
			revision := &appsv1.ControllerRevision{Revision: 5}
			revision.Namespace, revision.Name = "operators", "pinned-5"
			revision.Labels = map[string]string{nameLabel: "pinned", versionLabel: "1"}
			revision.Data.Raw = []byte(data)
			r := newRig(t, true, installation(), revision)
			r.options.Namespace = "operators"
			r.injects["policy"] = true
			r.set(plain, `{metadata: {name: pinned}, spec: {selector: {matchLabels: {app: shop}}, injectionStrategy: {revision: {customVersion: '1'}}, containers: [{name: b, image: b}]}}`)
			r.onlyPlainIsInjected(t, "pinned", "revision pinned-5")
		})
	}
}

// A quota, or a webhook of others that is broken, refuses what one set injects: it stays injected as it was, and others can be paused and deleted, as where their
// sidecars keep pods from starting.
func TestASetWhoseRevisionIsRefusedLeavesTheOthersAlone(t *testing.T) {
	broken := strings.NewReplacer("name: log", "name: broken", "name: agent", "name: b", "app: shop", "app: market").Replace(plain)
	for _, tc := range []struct {
		preferPolicy bool
		answer       *apierrors.StatusError
		says         string
	}{
		{true, apierrors.NewForbidden(appsv1.Resource("controllerrevisions"), "log", errors.New("exceeded quota")), "exceeded quota"},
		{false, apierrors.NewForbidden(appsv1.Resource("controllerrevisions"), "log", errors.New("exceeded quota")), "exceeded quota"},
		{true, apierrors.NewInternalError(errors.New("failed calling webhook")), "failed calling webhook"},
		{false, apierrors.NewInternalError(errors.New("failed calling webhook")), "failed calling webhook"},
	} {
		preferPolicy := tc.preferPolicy
		r := newRig(t, preferPolicy, installation())
		r.injects["policy"], r.injects["webhook"] = preferPolicy, !preferPolicy
		r.set(plain, broken)
		r.pass("log", time.Minute)
		r.pass("broken", time.Minute)
		tries := 0
		r.refuse = func(object client.Object) error {
			if object.GetLabels()[injectionLabel] == "log" {
				tries++
				return tc.answer
			}
			return nil
		}
		newer := strings.Replace(plain, "image: a", "image: newer", 1)
		r.set(newer, strings.Replace(broken, "spec: {", "spec: {injectionStrategy: {paused: true}, ", 1))
		r.pass("broken", time.Minute)
		before := tries
		if _, err := r.Reconcile(t.Context(), "broken", Latest{}); err != nil || before == 0 || tries > before { // The answer may take seconds.
			t.Errorf("passes over another set have tried it %d times, and then %d times: %v", before, tries-before, err)
		}
		want := map[bool]string{true: "binding kruise-operator-sidecars-anchor, binding log", false: "entry log Fail"}[preferPolicy]
		if got := r.registered(); got != want {
			t.Errorf("registered: %s, want %s", got, want)
		}
		if _, err := r.Reconcile(t.Context(), "log", Latest{}); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("its own pass: %v", err)
		}
		images := func() string { return r.images("log") }
		if got := images(); got != "a" {
			t.Errorf("what it has injected is %s", got)
		}
		r.refuse = nil
		if state := r.pass("log", time.Minute); state.Condition.Status != metav1.ConditionTrue || images() != "newer" || r.registered() != want {
			t.Errorf("then %+v, revisions of %s, registered: %s", state, images(), r.registered())
		}
	}
}

// The server refuses the binding of one set: that one is injected by webhook until it takes it, and all others by the policy as before.
func TestASetWhoseBindingIsRefusedLeavesTheOthersAlone(t *testing.T) {
	mesh := strings.NewReplacer("name: log", "name: mesh", "name: agent", "name: b", "app: shop", "app: market").Replace(plain)
	invalid := apierrors.NewInvalid(policyKind().GroupKind(), "log", nil)
	for name, bound := range map[string]bool{"a new set": false, "a set that has a binding": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, true, installation())
			r.injects["policy"], r.injects["webhook"] = true, true
			if bound {
				r.set(plain, mesh)
				r.pass("log", time.Minute)
				r.pass("mesh", time.Minute)
			}
			tries := 0
			r.refuseBinding = func(name string) error {
				if name != sidecar.EntryName("log") {
					return nil
				}
				tries++
				return invalid
			}
			r.set(strings.Replace(plain, "image: a", "image: newer", 1), mesh)
			if state := r.pass("log", time.Minute); state.Path != PathWebhook || state.Condition.Status != metav1.ConditionTrue ||
				!strings.Contains(state.Condition.Message, "its binding to the policy could not be written") {
				t.Errorf("%+v", state)
			}
			if state := r.pass("mesh", time.Minute); state.Path != PathPolicy || state.Condition.Status != metav1.ConditionTrue {
				t.Errorf("the other one: %+v", state)
			}
			if got := r.registered(); got != "binding kruise-operator-sidecars-anchor, binding mesh, entry log Fail" || r.images("log") != "newer" {
				t.Errorf("registered: %s, with image %s", got, r.images("log"))
			}
			tries = 0
			r.pass("log", time.Hour)
			if tries < 59 || tries > 61 {
				t.Errorf("tried %d times in an hour", tries)
			}
			before := r.reads
			if _, err := r.Reconcile(t.Context(), "mesh", Latest{}); err != nil || r.reads > before {
				t.Errorf("a pass over another set has read %d times: %v", r.reads-before, err)
			}
			r.refuseBinding = nil
			if state := r.pass("log", 3*time.Minute); state.Path != PathPolicy || state.Condition.Status != metav1.ConditionTrue {
				t.Errorf("then %+v", state)
			}
			if got := r.registered(); got != "binding kruise-operator-sidecars-anchor, binding log, binding mesh" {
				t.Errorf("registered then: %s", got)
			}
		})
	}
}

// While nothing is to be done for a set, passes over others leave its injection as it is, and cost no more for it.
func TestPassesOverOthersLeaveAPausedSetAlone(t *testing.T) {
	other := strings.NewReplacer("name: log", "name: mesh", "name: agent", "name: b", "app: shop", "app: market").Replace(plain)
	newer := strings.Replace(plain, "image: a", "image: newer", 1)
	held := func(set string) string {
		return strings.Replace(set, "metadata: {", "metadata: {annotations: {operator.kruise.io/paused: 'true'}, ", 1)
	}
	added := held(strings.NewReplacer("name: log", "name: new", "app: shop", "app: new").Replace(plain))
	for preferPolicy, want := range map[bool]string{true: "binding kruise-operator-sidecars-anchor, binding log, binding mesh", false: "entry log Fail, entry mesh Fail"} {
		r := newRig(t, preferPolicy, installation())
		r.injects["policy"], r.injects["webhook"] = preferPolicy, !preferPolicy
		r.set(plain, other)
		r.pass("log", time.Minute)
		r.pass("mesh", time.Minute)
		for name, paused := range map[string]string{"another image": newer, "paused": strings.Replace(newer, "spec: {", "spec: {injectionStrategy: {paused: true}, ", 1)} {
			checked := 0
			r.fieldCheck = func() error { checked++; return nil }
			r.set(held(paused), added, other)
			r.pass("mesh", time.Hour)
			if got := r.registered(); got != want || r.images("log") != "a" || r.images("new") != "" || checked > 0 {
				t.Errorf("%s: registered: %s, with image %s; fields checked %d times", name, got, r.images("log"), checked)
			}
		}
		before := r.reads
		if _, err := r.Reconcile(t.Context(), "mesh", Latest{}); err != nil || r.reads > before {
			t.Errorf("another pass has read %d times: %v", r.reads-before, err)
		}
		r.fieldCheck = nil
		r.set(newer, other)
		if state := r.pass("log", time.Minute); state.Condition.Status != metav1.ConditionTrue || r.images("log") != "newer" {
			t.Errorf("when it goes on: %+v, with image %s", state, r.images("log"))
		}
	}
}

// The server refuses the next revision, and does not say which bindings there are: that of before was deleted after a while, and pods got no sidecars.
func TestWhatIsInjectedStandsWhileNothingIsKnownOfBindings(t *testing.T) {
	r := newRig(t, true, installation())
	r.injects["policy"] = true
	r.set(plain)
	r.pass("log", time.Minute)
	r.refuse = func(client.Object) error {
		return apierrors.NewForbidden(appsv1.Resource("controllerrevisions"), "log", errors.New("exceeded quota"))
	}
	r.unlisted = apierrors.NewForbidden(admissionv1.Resource("mutatingadmissionpolicybindings"), "", errors.New("not allowed"))
	r.set(strings.Replace(plain, "image: a", "image: newer", 1))
	for range 4 {
		if _, err := r.Reconcile(t.Context(), "log", Latest{}); err == nil {
			t.Error("nothing was refused")
		}
		r.clock.SetTime(r.clock.Now().Add(keepUnused))
	}
	r.unlisted = nil
	if got := r.revisions(); got != 2 || !strings.Contains(r.registered(), "binding log") { // the set's, and that of the anchor
		t.Errorf("%d revisions are left, registered: %s", got, r.registered())
	}
}

// Somebody keeps a revision from being deleted that nothing injects any more: no set was proven after that.
func TestARevisionThatCannotBeDeletedHoldsUpNoSet(t *testing.T) {
	r := newRig(t, true, installation())
	r.injects["policy"] = true
	other := strings.NewReplacer("name: log", "name: mesh", "name: agent", "name: b", "app: shop", "app: market").Replace(plain)
	r.set(plain, other)
	r.pass("log", time.Minute)
	r.pass("mesh", time.Minute)
	r.keeps = apierrors.NewForbidden(appsv1.Resource("controllerrevisions"), "log", errors.New("a policy of others refuses it"))
	r.set(other)
	if _, err := r.Gone(t.Context(), "log"); err != nil {
		t.Fatal(err)
	}
	r.clock.SetTime(r.clock.Now().Add(keepUnused))
	r.set(strings.Replace(other, "image: a", "image: newer", 1))
	if state := r.pass("mesh", time.Minute); state.Condition.Status != metav1.ConditionTrue || state.RecheckAfter == 0 || state.RecheckAfter > keepUnused {
		t.Errorf("%+v", state)
	}
	r.keeps = nil
	r.pass("mesh", time.Minute)
	if got := r.revisions(); got != 2 { // the set's, and that of the anchor
		t.Errorf("%d revisions are left", got)
	}
}

// Somebody keeps the binding of a set from being deleted that is gone, or does not inject any more: the passes over all others failed, so that none was injected
// by webhook any more. What the binding names goes all the same, so that it injects nothing.
func TestABindingThatCannotBeDeletedHoldsUpNoSet(t *testing.T) {
	mesh := strings.NewReplacer("name: log", "name: mesh", "name: agent", "name: b", "app: shop", "app: market").Replace(plain)
	paused := strings.Replace(plain, "spec: {", "spec: {injectionStrategy: {paused: true}, ", 1)
	for name, sets := range map[string][]string{"of a set that is gone": nil, "of a paused set": {paused}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, true, installation())
			r.injects["policy"], r.injects["webhook"] = true, true
			r.set(plain, mesh)
			r.pass("log", time.Minute)
			r.pass("mesh", time.Minute)
			tries := 0
			r.keepsBinding = func(name string) error {
				if name != sidecar.EntryName("log") {
					return nil
				}
				tries++
				return apierrors.NewForbidden(policyKind().GroupVersion().WithResource("mutatingadmissionpolicybindings").GroupResource(), name, errors.New("a policy of others refuses it"))
			}
			r.refuseBinding = func(name string) error {
				if name != sidecar.EntryName("mesh") {
					return nil
				}
				return apierrors.NewInvalid(policyKind().GroupKind(), name, nil)
			}
			r.set(append(sets, strings.Replace(mesh, "image: a", "image: newer", 1))...)
			state, err := r.Reconcile(t.Context(), "log", Latest{})
			if sets == nil {
				state, err = r.Gone(t.Context(), "log")
			}
			if err != nil || state.RecheckAfter == 0 {
				t.Fatalf("%+v, %v", state, err)
			}
			if state := r.pass("mesh", time.Minute); state.Path != PathWebhook || state.Condition.Status != metav1.ConditionTrue {
				t.Errorf("the other one: %+v", state)
			}
			if got := r.registered(); got != "binding kruise-operator-sidecars-anchor, binding log, entry mesh Fail" || r.images("log") != "" {
				t.Errorf("registered: %s, of log with image %q", got, r.images("log"))
			}
			tries = 0
			r.pass("mesh", time.Hour)
			if tries < 59 || tries > 61 {
				t.Errorf("tried %d times in an hour", tries)
			}
			before := r.reads
			if _, err := r.Reconcile(t.Context(), "mesh", Latest{}); err != nil || r.reads > before {
				t.Errorf("another pass has read %d times: %v", r.reads-before, err)
			}
			r.keepsBinding = nil
			r.pass("mesh", 2*time.Minute)
			if got := r.registered(); got != "binding kruise-operator-sidecars-anchor, entry mesh Fail" {
				t.Errorf("registered then: %s", got)
			}
		})
	}
}

// What the entry of a set names says what the others inject that may meet it on a pod, so that one call injects them all. It follows them when they change, and
// that of a set which may meet too many says none.
func TestACallInjectsTheSetsThatItMayMeet(t *testing.T) {
	r := newRig(t, false, installation())
	r.injects["webhook"] = true
	one := func(name, app, image string) string {
		return fmt.Sprintf(`{metadata: {name: %s}, spec: {selector: {matchLabels: {app: %s}}, containers: [{name: %s, image: %s}]}}`, name, app, name, image)
	}
	// images are those of the sidecars that the call of a set injects, by set.
	images := func(set string) map[string]any {
		t.Helper()
		configuration := &admissionv1.MutatingWebhookConfiguration{}
		if err := r.client.Get(t.Context(), client.ObjectKey{Name: sidecar.WebhookConfiguration}, configuration); err != nil {
			t.Fatal(err)
		}
		all := map[string]any{}
		for _, entry := range configuration.Webhooks {
			if entry.Name != sidecar.EntryName(set) {
				continue
			}
			_, revision, _ := strings.Cut(*entry.ClientConfig.URL, sidecar.InjectPath)
			for _, name := range append([]string{revision}, r.revision(revision).Meets...) {
				injection := r.revision(name)
				all[injection.Set] = injection.Variants[0].Containers[0].Value["image"]
			}
		}
		return all
	}
	says := func(set string, want map[string]any) {
		t.Helper()
		if diff := cmp.Diff(want, images(set)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", set, diff)
		}
	}
	r.set(one("log", "shop", "a"), one("trace", "shop", "a"), one("elsewhere", "other", "a"))
	r.pass("log", time.Minute)
	says("log", map[string]any{"log": "a", "trace": "a"})
	says("trace", map[string]any{"log": "a", "trace": "a"})
	says("elsewhere", map[string]any{"elsewhere": "a"})

	r.set(one("log", "shop", "a"), one("trace", "shop", "b"), one("elsewhere", "other", "a"))
	r.pass("trace", time.Minute)
	says("log", map[string]any{"log": "a", "trace": "b"})
	if got := r.revisions(); got != 5 {
		t.Errorf("%d revisions, want those of three sets, and of two calls", got)
	}
	before := r.writes
	r.pass("log", time.Minute)
	if r.writes != before {
		t.Errorf("%d writes at rest", r.writes-before)
	}

	var many []string
	for n := range sidecar.MaxMet + 2 {
		many = append(many, one(fmt.Sprintf("many-%02d", n), "shop", "a"))
	}
	for sets, want := range map[int]int{len(many): 1, len(many) - 1: sidecar.MaxMet + 1} {
		r.set(many[:sets]...)
		r.pass("many-00", time.Minute)
		if got := len(images("many-00")); got != want {
			t.Errorf("with %d that meet, the call of one injects %d, want %d", sets, got, want)
		}
	}
}

// One webhook configuration has the entries of all sets, and the API server stores only so much. The sets for which there is no room say so; all others
// are injected as before.
func TestSetsBeyondTheRoomOfTheWebhookConfiguration(t *testing.T) {
	values := make([]string, 3400)
	for n := range values {
		values[n] = fmt.Sprintf("value-%050d", n)
	}
	large := func(name string) string { // whose selector takes a fifth of what there is room for
		return strings.NewReplacer("NAME", name, "VALUES", strings.Join(values, ", ")).Replace(`
{metadata: {name: NAME}, spec: {selector: {matchExpressions: [{key: NAME, operator: In, values: [VALUES]}]}, containers: [{name: agent-NAME, image: a}],
patchPodMetadata: [{annotations: {NAME: '{}'}, patchPolicy: MergePatchJson}, {annotations: {NAME: '{}'}, patchPolicy: MergePatchJson}]}}`)
	}
	merging := strings.Replace(strings.Replace(plain, "name: log", "name: split", 1), "containers:", "patchPodMetadata: [{annotations: {mine: '{}'}, patchPolicy: MergePatchJson}], containers:", 1)
	r := newRig(t, true, installation())
	r.injects["policy"], r.injects["webhook"] = true, true
	full := func(name string, path Path) {
		t.Helper()
		state := r.pass(name, time.Minute)
		if state.Path != path || state.Condition.Status != metav1.ConditionFalse || state.Condition.Reason != "WebhookFull" || !state.Stalled || !strings.Contains(state.Fault, "no room") {
			t.Errorf("%s: %+v", name, state)
		}
	}
	injected := func(name string, path Path) {
		t.Helper()
		if state := r.pass(name, time.Minute); state.Path != path || state.Condition.Status != metav1.ConditionTrue {
			t.Errorf("%s: %+v", name, state)
		}
	}
	registered := func(want string) {
		t.Helper()
		if got := r.registered(); got != want {
			t.Errorf("registered: %s\nwant: %s", got, want)
		}
	}
	const bindings = "binding kruise-operator-sidecars-anchor, binding log"
	four := []string{large("b"), large("c"), large("d"), large("e")}
	r.set(append(four, plain)...)
	injected("b", PathWebhook)
	injected("log", PathPolicy)
	registered(bindings + ", entry b Fail, entry c Fail, entry d Fail, entry e Fail")

	r.set(append(four, large("a"), plain)...) // The first name has no precedence: the others have their entries already.
	full("a", PathNone)
	injected("e", PathWebhook)
	injected("log", PathPolicy)
	registered(bindings + ", entry b Fail, entry c Fail, entry d Fail, entry e Fail")
	before := r.writes
	full("a", PathNone)
	if r.writes != before {
		t.Errorf("%d writes at rest", r.writes-before)
	}

	r.set(append(four[1:], large("a"), plain)...)
	if _, err := r.Gone(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	injected("a", PathWebhook)
	registered(bindings + ", entry a Fail, entry c Fail, entry d Fail, entry e Fail")

	// Another process keeps the entries that there are. What is small still fits.
	r.Injection = NewInjection(r.options)
	r.set(append(four, large("a"), plain, merging)...)
	injected("split", PathSplit)
	full("b", PathNone)
	registered(bindings + ", binding split, entry a Fail, entry c Fail, entry d Fail, entry e Fail, entry split Fail beyond")

	// Of a set that the policy serves for the most part, the rest has no room.
	r.set(append(four[1:], large("a"), plain, strings.Replace(large("late"), "{annotations: {late: '{}'}, patchPolicy: MergePatchJson}, ", "", 1))...)
	if _, err := r.Gone(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	full("late", PathSplit)
	injected("log", PathPolicy)
}

// Webhooks of others may take seconds to answer a dry run, or never do. Passes over a set come with every change of a pod.
func TestAFieldCheckThatIsNotAnsweredIsNotRepeatedWithEachPass(t *testing.T) {
	r := newRig(t, true, installation())
	r.injects[sidecar.ProofPolicy] = true
	r.set(plain)
	asked, answers := 0, false
	r.fieldCheck = func() error {
		if asked++; answers {
			return nil
		}
		return context.DeadlineExceeded
	}
	passes := func(what string, want int) {
		t.Helper()
		for range 5 {
			if _, err := r.Reconcile(t.Context(), "log", Latest{}); err != nil {
				t.Fatal(err)
			}
		}
		if asked != want {
			t.Errorf("%s: asked %d times, want %d", what, asked, want)
		}
	}
	passes("at first", 1)
	r.registry.losses++
	passes("after a restart of the API server", 2)
	r.clock.SetTime(r.clock.Now().Add(lastTry))
	passes("after a while", 3)
	r.clock.SetTime(r.clock.Now().Add(lastTry))
	answers = true
	passes("after a while, with an answer", 4)
	r.clock.SetTime(r.clock.Now().Add(lastTry))
	passes("once it has answered", 4)
}

// A canary that takes the pods of some namespaces leaves its base unproven there.
func TestABaseIsProvenWhereNoCanaryTakesItsPods(t *testing.T) {
	first := &corev1.Namespace{}
	first.Name, first.Labels = "a-test", map[string]string{corev1.LabelMetadataName: "a-test", "stage": "test"}
	r := newRig(t, true, installation(), first)
	r.injects[sidecar.ProofPolicy] = true
	tried := map[string]bool{}
	r.dryRun = func(pod *corev1.Pod) { tried[pod.Namespace] = true }
	const canary = `{metadata: {name: canary, annotations: {apps.kruise.io/sidecarset-canary: "true", apps.kruise.io/sidecarset-base: log}}, spec: {
		selector: {matchLabels: {app: shop}}, namespaceSelector: {matchLabels: {stage: test}}, containers: [{name: agent, image: a}]}}`
	r.set(canary, plain)
	if state := r.pass("log", time.Minute); state.Condition.Status != metav1.ConditionTrue || !maps.Equal(tried, map[string]bool{"shop": true}) {
		t.Errorf("tried in %v: %+v", tried, state.Condition)
	}
	r.set(strings.Replace(canary, "{stage: test}", "null, matchExpressions: [{key: stage, operator: NotIn, values: [prod]}]", 1), plain)
	if state := r.pass("log", time.Minute); state.Condition.Status != metav1.ConditionUnknown || !strings.Contains(state.Condition.Message, "in which no canary takes its pods") {
		t.Errorf("with a canary that takes all: %+v", state.Condition)
	}
	const some = `{metadata: {name: canary, annotations: {apps.kruise.io/sidecarset-canary: "true", apps.kruise.io/sidecarset-base: log}}, spec: {
		selector: {matchLabels: {app: market}}, containers: [{name: agent, image: a}]}}`
	r.set(some, strings.Replace(plain, "matchLabels: {app: shop}", "matchExpressions: [{key: app, operator: In, values: [market, shop]}]", 1))
	if state := r.pass("log", time.Minute); state.Condition.Status != metav1.ConditionTrue {
		t.Errorf("with a canary that takes one of two: %+v", state.Condition)
	}
}

// Namespaces differ: what one of them forbids may be proven in another. The condition names both.
func TestASetIsProvenWhereItsPodsAreAllowed(t *testing.T) {
	var all []client.Object
	for _, name := range []string{"a-strict", "b-full", "c", "d"} {
		namespace := &corev1.Namespace{}
		namespace.Name, namespace.Labels = name, map[string]string{corev1.LabelMetadataName: name}
		all = append(all, namespace)
	}
	r := newRig(t, true, append(all, installation())...)
	r.injects[sidecar.ProofPolicy] = true
	forbidden := map[string]error{
		"a-strict": apierrors.NewForbidden(corev1.Resource("pods"), "proof", errors.New("violates PodSecurity")),
		"b-full":   apierrors.NewForbidden(corev1.Resource("pods"), "proof", errors.New("exceeded quota")),
	}
	var tried []string
	r.forbids = func(pod *corev1.Pod) error {
		tried = append(tried, pod.Namespace)
		return forbidden[pod.Namespace]
	}
	check := func(status metav1.ConditionStatus, where []string, says ...string) {
		t.Helper()
		tried = nil
		r.set(strings.Replace(plain, "image: a", fmt.Sprintf("image: a%d", r.changes), 1))
		state, err := r.Reconcile(t.Context(), "log", Latest{})
		if err != nil || state.Condition.Status != status || !slices.Equal(tried, where) {
			t.Errorf("tried in %v: %+v, %v", tried, state.Condition, err)
		}
		for _, words := range says {
			if !strings.Contains(state.Condition.Message, words) {
				t.Errorf("it says %q, not %q", state.Condition.Message, words)
			}
		}
	}
	check(metav1.ConditionTrue, []string{"a-strict", "b-full", "c"}, "verified by a dry run in namespace c; it could not be verified elsewhere: namespace a-strict: ", "violates PodSecurity")
	forbidden["c"] = forbidden["b-full"]
	check(metav1.ConditionUnknown, []string{"a-strict", "b-full", "c"}, "it could not be verified: namespace a-strict: ", "violates PodSecurity")
	forbidden["a-strict"] = apierrors.NewTooManyRequests("later", 1)
	check(metav1.ConditionUnknown, []string{"a-strict"}, "it could not be verified: namespace a-strict: ")
	delete(forbidden, "a-strict")
	check(metav1.ConditionTrue, []string{"a-strict"}, "verified by a dry run in namespace a-strict")
}

// Namespaces may ask for a minimum: the pod of the dry run requests more then, and no more than that.
func TestASetIsProvenWherePodsHaveToRequestMuch(t *testing.T) {
	r := newRig(t, true, installation())
	r.injects[sidecar.ProofPolicy] = true
	r.set(plain)
	r.forbids = func(pod *corev1.Pod) error {
		requested := pod.Spec.Containers[0].Resources.Requests.Memory()
		if least := resource.MustParse("1Gi"); requested.Cmp(least) < 0 {
			return apierrors.NewForbidden(corev1.Resource("pods"), pod.Name, fmt.Errorf("minimum memory usage per Container is 1Gi, but request is %s", requested))
		}
		return nil
	}
	if state, err := r.Reconcile(t.Context(), "log", Latest{}); err != nil || state.Condition.Status != metav1.ConditionTrue || r.asked != 3 {
		t.Errorf("after %d dry runs: %+v, %v", r.asked, state.Condition, err)
	}
}

// A webhook of others that hangs costs seconds for each set: many are checked at a time, but not all.
func TestFieldsOfTenSetsAreCheckedAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, true, installation())
		r.injects[sidecar.ProofPolicy] = true
		var sets []string
		for n := range 3 * fieldChecksAtOnce {
			name := fmt.Sprintf("s%d", n)
			sets = append(sets, strings.NewReplacer("name: log", "name: "+name, "app: shop", "app: "+name).Replace(plain))
		}
		r.set(sets...)
		var together atomic.Int32
		answer := make(chan struct{})
		r.fieldCheck = func() error {
			together.Add(1)
			defer together.Add(-1)
			<-answer
			return nil
		}
		done := make(chan error, 1)
		go func() {
			_, err := r.Reconcile(t.Context(), "s0", Latest{})
			done <- err
		}()
		synctest.Wait() // All that may begin has begun, and waits for its answer.
		if got := together.Load(); got != fieldChecksAtOnce {
			t.Errorf("%d are checked at a time", got)
		}
		close(answer)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Of what a quota leaves little is taken, but enough for what is computed from it: a server refuses a container that requests more than its limit.
func TestAPodForADryRunHasEnoughForWhatIsComputed(t *testing.T) {
	namespace := &corev1.Namespace{}
	namespace.Name = "shop"
	for policy, want := range map[string]string{
		`{}`: "1m",
		`{resourcesPolicy: {targetContainersMode: sum, resourcesExpr: {limits: {cpu: cpu*50%}, requests: {cpu: cpu*10%}}}}`:        "1m",
		`{resourcesPolicy: {targetContainersMode: sum, resourcesExpr: {limits: {cpu: cpu*50%}, requests: {cpu: 10m}}}}`:            "100m",
		`{resourcesPolicy: {targetContainersMode: sum, resourcesExpr: {limits: {memory: memory*50%}, requests: {memory: 200Mi}}}}`: "1",
		`{resourcesPolicy: {targetContainersMode: sum, resourcesExpr: {limits: {memory: 1Mi}, requests: {memory: 2Mi}}}}`:          "1m",
		`{resources: {limits: {cpu: 1m}, requests: {cpu: 2m}}}`:                                                                    "1m",
	} {
		content, container := map[string]any{}, map[string]any{}
		if err := errors.Join(yaml.Unmarshal([]byte(plain), &content), yaml.Unmarshal([]byte(policy), &container)); err != nil {
			t.Fatal(err)
		}
		containers, _ := content["spec"].(map[string]any)["containers"].([]any)
		maps.Copy(containers[0].(map[string]any), container)
		set, err := sidecar.ParseSet(content)
		if err != nil {
			t.Fatal(err)
		}
		compiled, err := sidecar.Compile(set, nil)
		if err != nil {
			t.Fatal(err)
		}
		examples, err := examplesOf(compiled, namespace, map[string]string{"app": "shop"}, sidecar.ProofPolicy)
		if err != nil {
			t.Fatal(err)
		}
		if got := examples[0].pod.Spec.Containers[0].Resources.Limits.Cpu().String(); got != want {
			t.Errorf("%s: its container has %s, want %s", policy, got, want)
		}
	}
}
