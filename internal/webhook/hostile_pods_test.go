// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	policyv1beta1 "github.com/kruise-operator/kruise-operator/api/policy/v1beta1"
	rollouts "github.com/kruise-operator/kruise-operator/api/rollouts/shared"
	"github.com/kruise-operator/kruise-operator/controllers"
	"github.com/kruise-operator/kruise-operator/controllers/deletionprotection"
	"github.com/kruise-operator/kruise-operator/controllers/podunavailablebudget/podguard"
	"github.com/kruise-operator/kruise-operator/controllers/rollout/braking"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
	"github.com/kruise-operator/kruise-operator/internal/conversion"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/kube/pages"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
	"github.com/kruise-operator/kruise-operator/internal/testutil/listserver"
	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
	"github.com/kruise-operator/kruise-operator/internal/webhook"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

// others are the handlers beyond our kinds, by path, with their hostile requests: all but
// one get pods.
func others() map[string]func() map[string]*admissionv1.AdmissionRequest {
	all := map[string]func() map[string]*admissionv1.AdmissionRequest{}
	for _, kind := range controllers.All() {
		if kind.Serve != nil {
			for at := range kind.Serve(admit.Deps{}) {
				all[at] = hostilePods
			}
		}
	}
	all[deletionprotection.Path] = hostileDeletions
	all[podguard.FailPath], all[podguard.IgnorePath] = hostileDisruptions, hostileDisruptions
	all[braking.Path] = hostileWorkloads
	return all
}

// asksAbout is true if a kind's tests send hostile objects to the handler at a path.
func asksAbout(at string, kind kinds.Kind) bool {
	return strings.HasSuffix(at, "-"+kind.Lower()) || at == conversion.Path && kind.Converted
}

// TestEveryHandlerIsSentHostileBodies fails for a handler of Register without a table. The
// handler of internal/webhookserving is about our CRDs, written by administrators only.
func TestEveryHandlerIsSentHostileBodies(t *testing.T) {
	s, _ := serve()
	all := controllers.Table().Where(func(k kinds.Kind) bool { return k.Admission })
	for at := range s.handlers {
		if others()[at] == nil && !slices.ContainsFunc(all, func(k kinds.Kind) bool { return asksAbout(at, k) }) {
			t.Errorf("nothing hostile is sent to %s", at)
		}
	}
}

// goodPod has work for every webhook on pods; hostile values go to the markers.
const goodPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"web-","labels":{"logs":"on"LABELS},` +
	`"annotations":{"apps.kruise.io/container-launch-priority":"Ordered"ANNOTATIONS},` +
	`"ownerReferences":[{"apiVersion":"batch/v1","kind":"Job","name":"web","uid":"u","controller":true}]METADATA},` +
	`"spec":{"containers":[{"name":"main","image":"example/web:1"CONTAINER}CONTAINERS]POD}}`

// hostilePods are creations of pods.
func hostilePods() map[string]*admissionv1.AdmissionRequest {
	const size = hostileSize - 1<<10
	requests := map[string]*admissionv1.AdmissionRequest{}
	for name, put := range map[string]map[string]string{
		"nothing":                            {},
		"a quantity of a few letters":        {"CONTAINER": `,"resources":{"limits":{"cpu":"1e-30000000"}}`},
		"containers that are numbers":        {"CONTAINERS": "," + many(`1`, size)},
		"empty containers":                   {"CONTAINERS": "," + many(`{}`, size)},
		"as many empty containers as may be": {"CONTAINERS": "," + times(`{}`, 1_990)},
		"as many containers as may be":       {"CONTAINERS": "," + times(`{"name":"c%d","image":"i"}`, 1_990)},
		"containers with variables":          {"CONTAINERS": "," + times(`{"name":"c%d","image":"i","env":[`+times(`{"name":"APP_NAME","value":"v"}`, 10)+`]}`, 1_100)},
		"containers with mounts":             {"CONTAINERS": "," + times(`{"name":"c%d","image":"i","volumeMounts":[`+times(`{"name":"v%d","mountPath":"/m%d"}`, 10)+`]}`, 1_100)},
		"containers with amounts": {
			"CONTAINERS": "," + times(`{"name":"main","image":"i","resources":{"limits":{"cpu":"999999999999m"},"requests":{"memory":"1e15"}}}`, 1_990),
		},
		"amounts that are none": {"CONTAINERS": "," + times(`{"name":"main","image":"i","resources":{"limits":{"cpu":"lots"},"requests":{"memory":"1e999999999"}}}`, 1_990)},
		"barriers":              {"CONTAINER": `,"env":[` + times(`{"name":"KRUISE_CONTAINER_BARRIER","value":"x"}`, 1_990) + `]`},
		"variables to copy":     {"CONTAINER": `,"env":[` + times(`{"name":"APP_NAME","value":"`+strings.Repeat("v", 700)+`"}`, 1_990) + `]`},
		"as many mounts to share as sidecars get together": {"CONTAINER": `,"volumeMounts":[` + times(`{"name":"v%d","mountPath":"/m%d"}`, 880) + `]`},
		"mounts to share": {"CONTAINER": `,"volumeMounts":[` + times(`{"name":"v%d","mountPath":"/m%d"}`, 1_990) + `]`},
		"mounts that refer to variables": {"CONTAINER": `,"env":[` + times(`{"name":"V%d","value":"v"}`, 1_990) + `],"volumeMounts":[` +
			times(`{"name":"v%d","mountPath":"/m%d","subPathExpr":"`+strings.Repeat("$(A)", 120_000)+`"}`, 5) + `]`},
		"long names below many levels": {
			"POD": "," + strings.Repeat(`"`+strings.Repeat("k", 120)+`":{`, 190) + times(`"`+strings.Repeat("n", 4_100)+`%d":0`, 700) + strings.Repeat("}", 190),
		},
		"priorities": {"CONTAINERS": "," + times(`{"name":"c%d","image":"i","env":[{"name":"KRUISE_CONTAINER_PRIORITY","value":"%d"}]}`, 1_990)},
		"priorities that are none": {
			"CONTAINERS": "," + times(`{"name":"c%d","image":"i","env":[{"name":"KRUISE_CONTAINER_PRIORITY","value":"x%d"}]}`, 1_990),
		},
		"containers of the same name as sidecars": {"CONTAINERS": "," + times(`{"name":"collector-0","image":"i"}`, 1_990)},
		"init containers":                         {"POD": `,"initContainers":[` + times(`{"name":"logs-init-0","image":"i","restartPolicy":"Always"}`, 1_990) + `]`},
		"volumes":                                 {"POD": `,"volumes":[` + times(`{"name":"spool","emptyDir":{}}`, 1_990) + `]`},
		"registries":                              {"POD": `,"imagePullSecrets":[` + times(`{"name":"r%d"}`, 1_990) + `]`},
		"gates":                                   {"POD": `,"readinessGates":[` + many(`{}`, size) + `]`},
		"unknown fields":                          {"POD": "," + many(`"f%d":0`, size)},
		"as many unknown fields as may be":        {"POD": "," + times(`"f%d":{"a":0}`, 9_990)},
		"lists in lists":                          {"POD": `,"x":` + strings.Repeat("[", size)},
		"lists in lists, as deep as may be":       {"POD": `,"x":[` + times(strings.Repeat("[", 150)+strings.Repeat("]", 150), 260) + `]`},
		"labels":                                  {"LABELS": "," + many(`"l%d":"!"`, size)},
		"as many labels as may be":                {"LABELS": "," + times(`"l%d":"v"`, 9_990)},
		"annotations":                             {"ANNOTATIONS": "," + times(`"a%d":"`+strings.Repeat("x", 90)+`"`, 9_990)},
		"a long annotation":                       {"ANNOTATIONS": `,"a":"` + strings.Repeat("x", size) + `"`},
		"annotations of the operator that are no JSON": {
			"ANNOTATIONS": `,"kruise.io/sidecarset-hash":"` + strings.Repeat("{", 200_000) + `","kruise.io/podprobe":"` + strings.Repeat("[", 200_000) + `"`,
		},
		"annotations of the operator that are long": {
			"ANNOTATIONS": `,"kruise.io/sidecarset-hash":"{` + times(`\"s%d\":{}`, 20_000) + `}","kruise.io/podprobe":"[` + times(`{}`, 100_000) + `]"`,
		},
		"a long name":        {"METADATA": `,"name":"` + strings.Repeat("x", 400_000) + `"`},
		"owners":             {"METADATA": `,"ownerReferences":[` + many(`1`, size) + `]`},
		"a pod that is text": {"METADATA": `"`},
	} {
		requests[name] = newPod(fillPod(put))
	}
	return requests
}

func fillPod(at map[string]string) string {
	var pairs []string
	for _, marker := range []string{"METADATA", "LABELS", "ANNOTATIONS", "CONTAINERS", "CONTAINER", "POD"} {
		pairs = append(pairs, marker, at[marker])
	}
	return strings.NewReplacer(pairs...).Replace(goodPod)
}

func newPod(text string) *admissionv1.AdmissionRequest {
	return &admissionv1.AdmissionRequest{
		UID: "u1", Operation: admissionv1.Create, Namespace: "default", Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
		Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"}, Object: kruntime.RawExtension{Raw: []byte(text)},
	}
}

// protected is the text of a pod as it is stored: ready, and with a budget.
func protected(text string) string {
	text = strings.Replace(text, `"annotations":{`, `"annotations":{"pub.kruise.io/related-pub":"web",`, 1)
	return strings.TrimSuffix(text, "}") + `,"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`
}

// disruption is a deletion of a pod, or with another text an update to it.
func disruption(text, to string) *admissionv1.AdmissionRequest {
	request := newPod(to)
	request.Name, request.Operation, request.OldObject.Raw = "web", admissionv1.Update, []byte(text)
	if to == "" {
		request.Operation = admissionv1.Delete
	}
	return request
}

// hostileDisruptions are deletions and updates of pods with a budget.
func hostileDisruptions() map[string]*admissionv1.AdmissionRequest {
	requests := map[string]*admissionv1.AdmissionRequest{}
	good := protected(fillPod(nil))
	for name, request := range hostilePods() {
		text := protected(string(request.Object.Raw))
		requests["an update to "+name] = disruption(good, text)
		if len(text) < maxStored {
			requests["a deletion with "+name] = disruption(text, "")
			requests["an update from "+name] = disruption(text, good)
		}
	}
	for name, member := range map[string]string{"small": `\"s%d\":{}`, "of SidecarSets": `\"s%d\":{\"revision\":\"r\",\"updateImages\":true,\"lastContainerStatuses\":{\"main\":{\"imageID\":\"i\"}}}`} {
		for _, n := range []int{100, 2_000} {
			records := fillPod(map[string]string{"ANNOTATIONS": `,"` + shared.AnnotationSidecarSetInPlaceState + `":"{` + times(member, n) + `}","` +
				shared.AnnotationSidecarSetInPlaceEvidence + `":"{` + times(member, n) + `}"`})
			requests[fmt.Sprint("a deletion with records ", name, " ", n)] = disruption(protected(records), "")
		}
	}
	eviction := disruption("", `{"metadata":{"name":"web"},"x":[`+times(`{"a":{}}`, 9_990)+`]}`)
	eviction.SubResource, eviction.Operation = "eviction", admissionv1.Create
	requests["an eviction"] = eviction
	return requests
}

// release is an update of a Deployment with a Rollout from one template to another.
func release(from, to string) *admissionv1.AdmissionRequest {
	with := func(template string) []byte {
		return []byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","labels":{"` + rollouts.LabelWorkloadType + `":"deployment"},` +
			`"annotations":{"` + rollouts.AnnotationRollout + `":"web"}},"spec":{"replicas":3,"template":` + template + `}}`)
	}
	request := newPod("")
	request.Name, request.Operation = "web", admissionv1.Update
	request.Kind = metav1.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	request.Resource = metav1.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	request.Object.Raw, request.OldObject.Raw = with(to), with(from)
	return request
}

// hostileWorkloads are updates of workloads with a Rollout.
func hostileWorkloads() map[string]*admissionv1.AdmissionRequest {
	requests := map[string]*admissionv1.AdmissionRequest{}
	good := fillPod(nil)
	for name, request := range hostilePods() {
		text := string(request.Object.Raw)
		requests["a release of "+name] = release(good, text)
		if len(text) < maxStored {
			requests["a release after "+name] = release(text, good)
		}
	}
	return requests
}

// goodDefinition is a CustomResourceDefinition in use.
const goodDefinition = `{"metadata":{"name":"things.example.com","labels":{"policy.kruise.io/delete-protection":"Cascading"LABELS}METADATA},` +
	`"spec":{"group":"example.com","names":{"kind":"Thing","plural":"things"NAMES},"versions":[{"name":"v1","served":true,"storage":true}VERSIONS]SPEC}}`

// hostileDeletions are deletions of protected objects.
func hostileDeletions() map[string]*admissionv1.AdmissionRequest {
	const size = maxStored - 1<<10 // what is deleted has been stored, and its versions and owners have been checked
	requests := map[string]*admissionv1.AdmissionRequest{}
	for name, put := range map[string]map[string]string{
		"nothing":             {},
		"versions of a name":  {"VERSIONS": "," + many(`{"name":"v%d","served":true}`, size)},
		"a schema":            {"SPEC": `,"validation":{"openAPIV3Schema":{"properties":{` + many(`"p%d":{}`, size) + `}}}`},
		"a long kind":         {"NAMES": `,"kind":"` + strings.Repeat("x", size) + `"`},
		"labels":              {"LABELS": "," + many(`"l%d":""`, size)},
		"annotations":         {"METADATA": `,"annotations":{` + many(`"a%d":""`, size) + `}`},
		"finalizers":          {"METADATA": `,"finalizers":[` + many(`"f"`, size) + `]`},
		"metadata of another": {"METADATA": `,"ownerReferences":[` + many(`1`, size) + `]`},
		"managed fields":      {"METADATA": `,"managedFields":[` + many(`{}`, size) + `]`},
		"lists in lists":      {"SPEC": `,"x":` + strings.Repeat("[", size/2) + strings.Repeat("]", size/2)},
	} {
		text := fillDefinition(put)
		for _, resource := range []string{"customresourcedefinitions", "namespaces", "clonesets"} {
			requests[name+" of "+resource] = deletion(resource, text)
		}
	}
	return requests
}

func fillDefinition(at map[string]string) string {
	var pairs []string
	for _, marker := range []string{"METADATA", "LABELS", "NAMES", "VERSIONS", "SPEC"} {
		pairs = append(pairs, marker, at[marker])
	}
	return strings.NewReplacer(pairs...).Replace(goodDefinition)
}

func deletion(resource, text string) *admissionv1.AdmissionRequest {
	return &admissionv1.AdmissionRequest{
		UID: "u1", Operation: admissionv1.Delete, Name: "things.example.com",
		Resource: metav1.GroupVersionResource{Resource: resource}, OldObject: kruntime.RawExtension{Raw: []byte(text)},
	}
}

// cluster is an API server for the webhooks on pods: things to inject, and lists as over
// the wire.
type cluster struct {
	*apiServer
	// injections are by the names of revisions.
	injections map[string][]byte
	lists      client.Reader
}

func (c *cluster) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	switch into := object.(type) {
	case *appsv1.ControllerRevision:
		c.asked++
		into.Data.Raw = c.injections[key.Name]
		return nil
	case *corev1.Namespace:
		c.asked++
		return nil
	case *appsv1beta1.PersistentPodState:
		c.asked++
		return json.Unmarshal([]byte(placeJob), into)
	case *policyv1beta1.PodUnavailableBudget: // it covers the pods, and has no room
		c.asked++
		into.Name, into.Namespace, into.Spec.Selector = key.Name, key.Namespace, &metav1.LabelSelector{MatchLabels: map[string]string{"logs": "on"}}
		into.Status.DesiredAvailable = 1
		return nil
	case *unstructured.Unstructured:
		c.asked++
		return json.Unmarshal([]byte(spreadJob), &into.Object)
	case *metav1.PartialObjectMetadata:
		c.asked++
		return c.lists.Get(ctx, key, object, options...)
	}
	return c.apiServer.Get(ctx, key, object, options...)
}

// spreadJob is a Job as well as its WorkloadSpread.
const spreadJob = `{"metadata":{"uid":"u"},"spec":{"targetRef":{"apiVersion":"batch/v1","kind":"Job","name":"web"},
	"subsets":[{"name":"a","tolerations":[{"key":"x","operator":"Exists"}],"patch":{"metadata":{"labels":{"subset":"a"}}}}]}}`

// placeJob remembers the place of a pod without a name.
const placeJob = `{"spec":{"targetRef":{"apiVersion":"batch/v1","kind":"Job","name":"web"},"requiredPersistentTopology":{"keys":["zone"]}},
	"status":{"podStates":{"":{"nodeName":"n1","nodeTopologyLabels":{"zone":"a"}}}}}`

func (c *cluster) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if c.lists == nil {
		return c.apiServer.List(ctx, list, options...)
	}
	c.asked++
	return c.lists.List(ctx, list, options...)
}

// listed are the kinds read by the webhooks on pods and deletions.
func listed() (marker, pod, claim, thing schema.GroupVersionKind) {
	return appsv1alpha1.GroupVersion().WithKind("PodProbeMarker"), corev1.SchemeGroupVersion.WithKind("Pod"),
		corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}
}

// holds gives the cluster objects, encoded, by kind.
func (c *cluster) holds(t testing.TB, lists map[schema.GroupVersionKind][][]byte) *listserver.Server {
	t.Helper()
	types, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	server := &listserver.Server{Lists: lists}
	c.lists = server.Client(t, types, pages.Bound)
	return server
}

// injections are the calls for a set beside many others, each as full as a set can be.
func injections(t testing.TB) map[string][]byte {
	t.Helper()
	var sets []*sidecar.Set
	for n := range 32 {
		object := full(t, kindNamed("SidecarSet"), "v1beta1")
		object["metadata"].(map[string]any)["name"] = fmt.Sprintf("logs-%d", n)
		spec := object["spec"].(map[string]any)
		for _, list := range []string{"containers", "initContainers"} {
			for _, container := range spec[list].([]any) {
				named := container.(map[string]any)
				named["name"] = fmt.Sprintf("%s-%d", named["name"], n)
			}
		}
		set, err := sidecar.ParseSet(object)
		if err != nil {
			t.Fatal(err)
		}
		sets = append(sets, set)
	}
	called, err := sidecar.Compile(sets[0], sets)
	if err != nil {
		t.Fatal(err)
	}
	_, data, err := called.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{"revision": data}
}

// servePods serves as serve does, with sidecars to inject and probes to ask for.
func servePods(t testing.TB) (*served, *cluster) {
	t.Helper()
	s, base := serve()
	c := &cluster{apiServer: base, injections: injections(t)}
	var markers [][]byte
	for i := range 100 {
		probes := make([]appsv1alpha1.PodContainerProbe, 20)
		for j := range probes {
			probes[j] = appsv1alpha1.PodContainerProbe{Name: fmt.Sprintf("p%d", j), ContainerName: fmt.Sprintf("c%d", i*20+j), PodConditionType: fmt.Sprintf("example.com/c-%d-%d", i, j)}
			probes[j].Probe.Exec = &corev1.ExecAction{Command: []string{strings.Repeat("x", 1_000)}}
		}
		text, err := json.Marshal(appsv1alpha1.PodProbeMarker{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m%d", i), Namespace: "default"},
			Spec:       appsv1alpha1.PodProbeMarkerSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"logs": "on"}}, Probes: probes},
		})
		if err != nil {
			t.Fatal(err)
		}
		markers = append(markers, text)
	}
	marker, pod, claim, thing := listed()
	c.holds(t, map[schema.GroupVersionKind][][]byte{marker: markers, pod: nil, claim: nil, thing: nil})
	clear(s.handlers)
	webhook.Register(s, controllers.All(), admit.Deps{Client: c, Gates: allGates()})
	return s, c
}

// send has a handler answer a review as it comes over the wire.
func send(t testing.TB, at string, handler http.Handler, request *admissionv1.AdmissionRequest) (admissionv1.AdmissionReview, int) {
	t.Helper()
	post := httptest.NewRequest(http.MethodPost, at, bytes.NewReader(reviewOf(t, request)))
	post.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, post)
	answer := admissionv1.AdmissionReview{}
	_ = json.Unmarshal(recorder.Body.Bytes(), &answer) // an error of HTTP has no answer
	return answer, recorder.Code
}

// reviewOf is a request as text. An object of invalid JSON spoils the whole, as a client's
// would.
func reviewOf(t testing.TB, request *admissionv1.AdmissionRequest) []byte {
	t.Helper()
	const object, stored = `"@object@"`, `"@stored@"`
	about := *request
	about.Object.Raw, about.OldObject.Raw = []byte(object), []byte(stored)
	body, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: &about})
	if err != nil {
		t.Fatal(err)
	}
	or := func(raw []byte) []byte {
		if len(raw) == 0 {
			return []byte("null")
		}
		return raw
	}
	body = bytes.Replace(body, []byte(object), or(request.Object.Raw), 1)
	return bytes.Replace(body, []byte(stored), or(request.OldObject.Raw), 1)
}

// TestNoPodOccupiesTheOperator sends hostile pods and deletions: each body on one day of twelve.
func TestNoPodOccupiesTheOperator(t *testing.T) {
	s, c := servePods(t)
	handlers := others()
	for i, at := range slices.Sorted(maps.Keys(handlers)) {
		requests := handlers[at]()
		for j, name := range slices.Sorted(maps.Keys(requests)) {
			if !sample.Has(i+j, 12) {
				continue
			}
			request := requests[name]
			body := reviewOf(t, request)
			post := httptest.NewRequest(http.MethodPost, at+"revision", bytes.NewReader(body))
			post.Header.Set("Content-Type", "application/json")
			recorder := &discarded{}
			c.asked = 0
			memory, spent := cost(func() { s.handlers[at].ServeHTTP(recorder, post) })
			if memory > maxMemory || spent > maxTime || c.asked > maxQuestions || recorder.written > maxAnswer {
				t.Errorf("%s with %s (%d bytes): %d MiB, %v, %d questions to the API server, %d bytes of an answer",
					at, name, len(body), memory>>20, spent.Round(time.Millisecond), c.asked, recorder.written)
			}
		}
	}
}

// maxAnswer bounds the answer about a pod, in bytes: no more than the pod.
const maxAnswer = hostileSize

// discarded counts written bytes and keeps none.
type discarded struct {
	header  http.Header
	written int
}

func (d *discarded) Header() http.Header {
	if d.header == nil {
		d.header = http.Header{}
	}
	return d.header
}

func (d *discarded) Write(text []byte) (int, error) {
	d.written += len(text)
	return len(text), nil
}

func (d *discarded) WriteHeader(int) {}

// TestTheWebhooksOnPodsHaveSomethingToDo keeps TestNoPodOccupiesTheOperator from passing because nothing is done.
func TestTheWebhooksOnPodsHaveSomethingToDo(t *testing.T) {
	s, _ := servePods(t)
	for at := range others() {
		requests := []*admissionv1.AdmissionRequest{newPod(fillPod(map[string]string{"CONTAINERS": `,{"name":"c1","image":"i"}`})), deletion("customresourcedefinitions", fillDefinition(nil)), disruption(protected(fillPod(nil)), "")}
		if at == braking.Path {
			requests = []*admissionv1.AdmissionRequest{release(fillPod(nil), fillPod(map[string]string{"CONTAINERS": `,{"name":"c1","image":"i"}`}))}
		}
		worked := false
		for _, request := range requests {
			answer, status := send(t, at+"revision", s.handlers[at], request)
			if status != http.StatusOK || answer.Response == nil {
				t.Errorf("%s: %d %v", at, status, answer)
				continue
			}
			worked = worked || len(answer.Response.Patch) > 0 || !answer.Response.Allowed
		}
		if !worked && at != deletionprotection.Path && !strings.HasPrefix(at, "/validate-operator-") { // a Kruise object is warned about, a pod is not
			t.Errorf("%s does nothing", at)
		}
	}
}
