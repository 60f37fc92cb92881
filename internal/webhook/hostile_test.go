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
	"path"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kruise-operator/kruise-operator/controllers"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
	"github.com/kruise-operator/kruise-operator/internal/testutil/cputime"
	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
	"github.com/kruise-operator/kruise-operator/internal/webhook"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

const (
	// hostileSize is the largest body the API server takes.
	hostileSize = 3 << 20
	// maxMemory is how many bytes may be allocated to answer one request, given back in between or not.
	maxMemory = 50 << 20
	// maxTime is how much of a processor one answer may take.
	maxTime = time.Second
	// maxQuestions is how often the API server may be asked for one answer.
	maxQuestions = 110
	// maxErrors is how many errors an answer may name, maxWords how many bytes of words it may have.
	maxErrors = 50
	maxWords  = 512 << 10
)

// served is every webhook of Register, by path.
type served struct {
	ctrlwebhook.Server
	handlers map[string]http.Handler
}

func (s *served) Register(path string, handler http.Handler) { s.handlers[path] = handler }

// apiServer has no classes or opinions, and of pods the given one under every name, if any. It counts the questions.
type apiServer struct {
	client.Client
	pod   *corev1.Pod
	asked int
}

func (c *apiServer) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	c.asked++
	switch into := object.(type) {
	case *corev1.Pod:
		if c.pod != nil {
			*into = *c.pod
			return nil
		}
	case *corev1.Node:
		if c.pod != nil {
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

func (c *apiServer) List(context.Context, client.ObjectList, ...client.ListOption) error {
	c.asked++
	return nil
}

func (c *apiServer) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	c.asked++
	_, err := json.Marshal(object)
	return err
}

func serve() (*served, *apiServer) {
	ctrl.SetLogger(logr.Discard())
	s, c := &served{handlers: map[string]http.Handler{}}, &apiServer{}
	webhook.Register(s, controllers.All(), admit.Deps{Client: c, Gates: allGates()})
	return s, c
}

// allGates are the gates with the most work for handlers.
func allGates() features.Set {
	gates := features.Set{}
	for _, gate := range []features.Gate{
		features.StatefulSetStartOrdinal, features.StatefulSetAutoDeletePVC, features.StatefulSetAutoResizePVC,
		features.KruiseDaemon, features.PodProbeMarker, features.WorkloadSpread, features.PodWebhook, features.PodUnavailableBudgetDelete, features.PodUnavailableBudgetUpdate, features.ResourcesDeletionProtection, features.DeletionProtectionForCRDCascading,
	} {
		gates[gate] = true
	}
	return gates
}

// good is a valid object of a kind; hostile values go to the markers.
const good = `{"apiVersion":"apps.kruise.io/VERSION","kind":"KIND","metadata":{"name":"web","namespace":"default"METADATA},"spec":{"selector":{"matchLabels":{"app":"web"}SELECTOR},` +
	`"template":{"metadata":{"labels":{"app":"web"LABELS}},"spec":{"containers":[{"name":"main","image":"example/web:1"CONTAINER}CONTAINERS]POD}}SPEC}}`

// fill puts texts at markers. Markers it does not name become empty.
func fill(kind, version string, at map[string]string) string {
	pairs := []string{"VERSION", version, "KIND", kind}
	for _, marker := range []string{"METADATA", "SELECTOR", "LABELS", "CONTAINERS", "CONTAINER", "POD", "SPEC"} {
		pairs = append(pairs, marker, at[marker])
	}
	return strings.NewReplacer(pairs...).Replace(good)
}

// many repeats an element up to about the given number of bytes; %d in it is a running number.
func many(element string, size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		if strings.Contains(element, "%d") {
			fmt.Fprintf(&b, element, i)
		} else {
			b.WriteString(element)
		}
	}
	return b.String()
}

// times repeats an element n times.
func times(element string, n int) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = strings.ReplaceAll(element, "%d", fmt.Sprint(i))
	}
	return strings.Join(parts, ",")
}

// hostile are the bodies: texts by marker.
func hostile() map[string]map[string]string {
	const size = hostileSize - 1<<10 // what is around it has the rest
	strategy := func(member string) map[string]string {
		return map[string]string{"SPEC": `,"updateStrategy":{"type":"RollingUpdate",` + member + `,"rollingUpdate":{` + member + `,"unorderedUpdate":{` + member + `}}}`}
	}
	return map[string]map[string]string{
		"reserved ordinals that are none":         {"SPEC": `,"reserveOrdinals":[` + many(`"x%d"`, size) + `]`},
		"reserved ordinals of one letter":         {"SPEC": `,"reserveOrdinals":[` + many(`"a"`, size) + `]`},
		"reserved ordinals of another type":       {"SPEC": `,"reserveOrdinals":[` + many(`{}`, size) + `]`},
		"as many bad reserved ordinals as may be": {"SPEC": `,"reserveOrdinals":[` + times(`"x%d"`, 9_999) + `]`},
		"containers that are numbers":             {"CONTAINERS": "," + many(`1`, size)},
		"empty containers":                        {"CONTAINERS": "," + many(`{}`, size)},
		"as many empty containers as may be":      {"CONTAINERS": "," + times(`{}`, 1_990)},
		"as many bad ports as may be": {
			"CONTAINERS": "," + times(`{"name":"c%d","image":" ","ports":[`+times(`{"containerPort":"x"}`, 1_000)+`]}`, 23),
		},
		"probes":             {"CONTAINERS": "," + times(`{"livenessProbe":{},"readinessProbe":{},"startupProbe":{},"lifecycle":{"preStop":{"exec":{}}},"securityContext":{"capabilities":{}}}`, 1_990)},
		"variables":          {"CONTAINER": `,"env":[` + many(`{"name":"A"}`, size) + `]`},
		"volumes and claims": {"POD": `,"volumes":[` + times(`{"name":"v%d"}`, 1_990) + `]`, "SPEC": `,"volumeClaimTemplates":[` + times(`{"metadata":{"name":"c%d"}}`, 200) + `]`},
		"claims":             {"SPEC": `,"volumeClaimTemplates":[` + many(`{}`, size) + `]`},
		"claims that grow":   {"SPEC": `,"volumeClaimUpdateStrategy":{"type":"OnPodRollingUpdate"},"volumeClaimTemplates":[` + times(`{"metadata":{"name":"c%d"},"spec":{"storageClassName":"s%d","resources":{"requests":{"storage":"1Gi"}}}}`, 200) + `]`},
		"long names below many levels": {
			"POD": "," + strings.Repeat(`"`+strings.Repeat("k", 120)+`":{`, 190) + times(`"`+strings.Repeat("n", 4_100)+`%d":0`, 700) + strings.Repeat("}", 190),
		},
		"unknown fields":                      {"POD": "," + many(`"f%d":0`, size)},
		"as many unknown fields as may be":    {"POD": "," + times(`"f%d":{"a":0}`, 9_990)},
		"one field, again and again":          {"POD": "," + many(`"hostNetwork":true`, size)},
		"unknown fields of the spec":          {"SPEC": "," + many(`"f%d":0`, size)},
		"labels":                              {"LABELS": "," + many(`"l%d":"!"`, size)},
		"as many bad labels as may be":        {"LABELS": "," + times(`"!%d":"!"`, 9_990)},
		"a long label":                        {"LABELS": `,"l":"` + strings.Repeat("x", size) + `"`},
		"labels of the object":                {"METADATA": `,"labels":{` + many(`"l%d":"!"`, size) + `}`},
		"as many labels of the object":        {"METADATA": `,"labels":{` + times(`"!%d":"!"`, 9_990) + `}`},
		"annotations":                         {"METADATA": `,"annotations":{` + many(`"a%d":""`, size) + `}`},
		"a long annotation":                   {"METADATA": `,"annotations":{"a":"` + strings.Repeat("x", size) + `"}`},
		"metadata of other types":             {"METADATA": `,"ownerReferences":[` + many(`1`, size) + `]`},
		"fields of metadata":                  {"METADATA": "," + many(`"f%d":0`, size)},
		"kept fields of another version":      {"METADATA": `,"annotations":{"operator.kruise.io/conversion-data":"{\"apiVersion\":\"apps.kruise.io/v1alpha1\",\"fields\":{\"updateStrategy\":{\"scatterStrategy\":[` + many(`{}`, size) + `]}}}"}`},
		"values of a selector":                {"SELECTOR": `,"matchExpressions":[{"key":"app","operator":"In","values":[` + many(`"!"`, size) + `]}]`},
		"as many values of a selector":        {"SELECTOR": `,"matchExpressions":[` + times(`{"key":"app","operator":"In","values":[`+times(`"!%d"`, 9_900)+`]}`, 4) + `]`},
		"expressions of a selector":           {"SELECTOR": `,"matchExpressions":[` + many(`{}`, size) + `]`},
		"as many expressions of a selector":   {"SELECTOR": `,"matchExpressions":[` + times(`{"key":"a%d","operator":"Exists"}`, 1_990) + `]`},
		"pods to delete that are numbers":     {"SPEC": `,"scaleStrategy":{"podsToDelete":[` + many(`1`, size) + `]}`},
		"pods to delete of one letter":        {"SPEC": `,"scaleStrategy":{"podsToDelete":[` + many(`"a"`, size) + `]}`},
		"as many pods to delete as may be":    {"SPEC": `,"scaleStrategy":{"podsToDelete":[` + times(`"p%d"`, 9_990) + `]}`},
		"as many equal pods to delete":        {"SPEC": `,"scaleStrategy":{"podsToDelete":[` + times(`"a"`, 9_990) + `]}`},
		"fields of the scale strategy":        {"SPEC": `,"scaleStrategy":{` + many(`"f%d":0`, size) + `}`},
		"fields of the update strategy":       {"SPEC": `,"updateStrategy":{` + many(`"f%d":0`, size) + `}`},
		"a long type":                         {"SPEC": `,"updateStrategy":{"type":"` + strings.Repeat("x", size) + `"}`},
		"a strategy that is a text":           {"SPEC": `,"updateStrategy":"` + strings.Repeat("x", size) + `"`},
		"a long number":                       {"SPEC": `,"replicas":` + strings.Repeat("9", size)},
		"a text for a number":                 {"SPEC": `,"replicas":"` + strings.Repeat("x", size) + `"`},
		"a list for a number":                 {"SPEC": `,"replicas":[` + many(`1`, size) + `]`},
		"scattering":                          strategy(`"scatterStrategy":[` + many(`{}`, size/3) + `]`),
		"as many terms of scattering":         strategy(`"scatterStrategy":[` + times(`{"key":"k","value":"v%d"}`, 200) + `]`),
		"priorities":                          strategy(`"priorityStrategy":{"weightPriority":[` + many(`{}`, size/3) + `]}`),
		"as many priorities":                  strategy(`"priorityStrategy":{"weightPriority":[` + times(`{"weight":-1,"matchSelector":{"matchLabels":{"!":"!"}}}`, 200) + `]}`),
		"a percentage without end":            strategy(`"maxUnavailable":"` + strings.Repeat("9", size/3) + `%"`),
		"lists in lists":                      {"POD": `,"x":` + strings.Repeat("[", size)},
		"lists in lists that end":             {"POD": `,"x":` + strings.Repeat("[", size/2) + strings.Repeat("]", size/2)},
		"lists in lists, as deep as may be":   {"POD": `,"x":[` + times(strings.Repeat("[", 150)+strings.Repeat("]", 150), 300) + `]`},
		"a template that is a list":           {"POD": `}}` + `,"template":[` + many(`0`, size) + `],"x":{"y":{`},
		"in place only":                       {"SPEC": `,"updateStrategy":{"rollingUpdate":{"podUpdatePolicy":"InPlaceOnly"}}`, "CONTAINERS": "," + times(`{"name":"c%d","image":"i"}`, 1_990)},
		"quotation marks":                     {"METADATA": `,"annotations":{"a":"` + strings.Repeat(`\"`, size/2) + `"}`},
		"a quotation mark that is not closed": {"METADATA": `,"annotations":{"a":"` + strings.Repeat(`x`, size)},
	}
}

func kindNamed(name string) kinds.Kind {
	return controllers.Table().Where(func(k kinds.Kind) bool { return k.Name == name })[0]
}

// cost runs a function and returns its memory and time.
func cost(run func()) (memory uint64, spent time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := cputime.Thread()
	run()
	spent = cputime.Thread() - began
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, spent
}

// answer has one handler answer a request about an object. stored is the object before an update; empty for a creation.
func answer(t testing.TB, at, what string, handler http.Handler, kind kinds.Kind, version, object, stored string) (allowed bool) {
	if admits, ok := handler.(*ctrladmission.Webhook); ok {
		req := ctrladmission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			UID: "u1", Operation: admissionv1.Create, Name: "web", Namespace: "default",
			Kind:        metav1.GroupVersionKind{Group: kind.Group, Version: kind.Storage, Kind: kind.Name},
			RequestKind: &metav1.GroupVersionKind{Group: kind.Group, Version: version, Kind: kind.Name},
			Object:      kruntime.RawExtension{Raw: []byte(object)},
		}}
		if stored != "" {
			req.Operation, req.OldObject.Raw = admissionv1.Update, []byte(stored)
		}
		response := admits.Handle(t.Context(), req)
		causes, length := said(response)
		if causes > maxErrors || length > maxWords {
			t.Errorf("%s answers %s with %d errors and %d bytes", at, what, causes, length)
		}
		return response.Allowed
	}
	target := kind.Storage
	if version == target {
		target = "v1alpha1"
	}
	body := `{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1","request":{"uid":"u1","desiredAPIVersion":"apps.kruise.io/` + target + `","objects":[` + object + `]}}`
	recorder := httptest.NewRecorder()
	recorder.Body = nil // what is written is not ours
	handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, at, bytes.NewReader([]byte(body))))
	return true
}

// said is how many errors an answer names, and how many bytes of words it has.
func said(response ctrladmission.Response) (causes, length int) {
	for _, warning := range response.Warnings {
		length += len(warning)
	}
	if response.Result == nil {
		return 0, length
	}
	length += len(response.Result.Message)
	if response.Result.Details == nil {
		return 0, length
	}
	for _, cause := range response.Result.Details.Causes {
		length += len(cause.Field) + len(cause.Message)
	}
	return len(response.Result.Details.Causes), length
}

// TestASmallRequestDoesNotOccupyTheOperator sends requests of a client with create rights
// in one namespace: half of the bodies in one of four ways a day.
func TestASmallRequestDoesNotOccupyTheOperator(t *testing.T) {
	s, c := serve()
	sent, turn := 0, 0
	bodies := hostile()
	for _, name := range slices.Sorted(maps.Keys(bodies)) {
		put := bodies[name]
		for _, kind := range []string{"CloneSet", "StatefulSet"} {
			stored := fill(kind, "v1beta1", nil)
			for _, request := range []struct{ verb, version, stored string }{{"create", "v1beta1", ""}, {"update", "v1alpha1", stored}} {
				if turn++; !sample.Has(turn, 8) {
					continue
				}
				object := fill(kind, request.version, put)
				for at, handler := range s.handlers {
					if !strings.HasSuffix(at, strings.ToLower(kind)) && (at != "/convert" || kind != "CloneSet") {
						continue
					}
					sent++
					c.asked = 0
					memory, spent := cost(func() { answer(t, at, name, handler, kindNamed(kind), request.version, object, request.stored) })
					if memory > maxMemory || spent > maxTime || c.asked > maxQuestions {
						t.Errorf("%s, %s a %s through %s with %s (%d bytes): %d MiB, %v, %d questions to the API server",
							path.Base(at), request.verb, kind, request.version, name, len(object), memory>>20, spent.Round(time.Millisecond), c.asked)
					}
				}
			}
		}
	}
	if sent == 0 {
		t.Error("no handler was sent anything")
	}
}

// FuzzWorkloads sends workloads changed at several places. None may panic or exceed the
// cost bounds.
func FuzzWorkloads(f *testing.F) {
	s, c := serve()
	for name, put := range hostile() {
		if len(fill("CloneSet", "v1beta1", put)) < 1<<16 {
			f.Add(strings.Contains(name, "many"), put["METADATA"], put["CONTAINERS"]+put["POD"], put["SPEC"])
		}
	}
	f.Add(true, `,"labels":{"a":1}`, `,{"name":7,"resources":{"limits":{"cpu":"lots"}}}`, `,"replicas":"3","updateStrategy":{"type":5,"partition":3.5}`)
	f.Add(false, `,"annotations":{"operator.kruise.io/conversion-data":"{}"}`, `]`, `,"scaleStrategy":[],"updateStrategy":{"rollingUpdate":[]}`)
	f.Add(true, `,"annotations":{"operator.kruise.io/conversion-data":"{\"apiVersion\":\"apps.kruise.io/v1alpha1\",\"fields\":{},\"shown\":{}}"}`, ``,
		`,"scaleStrategy":{"podsToDelete":["a"]},"updateStrategy":{"type":"OnDelete","rollingUpdate":{"partition":"50%"},"inPlaceUpdateStrategy":null}`)
	f.Fuzz(func(t *testing.T, update bool, metadata, containers, spec string) {
		put := map[string]string{"METADATA": metadata, "CONTAINERS": containers, "SPEC": spec}
		for _, kind := range []string{"CloneSet", "StatefulSet"} {
			version, stored := "v1beta1", ""
			if update {
				version, stored = "v1alpha1", fill(kind, "v1beta1", nil)
			}
			object := fill(kind, version, put)
			for at, handler := range s.handlers {
				if !strings.HasSuffix(at, strings.ToLower(kind)) && (at != "/convert" || kind != "CloneSet") {
					continue
				}
				c.asked = 0
				memory, spent := cost(func() { answer(t, at, "what nobody thought of", handler, kindNamed(kind), version, object, stored) })
				if memory > maxMemory || spent > maxTime || c.asked > maxQuestions {
					t.Errorf("%s: %d MiB, %v, %d questions to the API server", path.Base(at), memory>>20, spent, c.asked)
				}
			}
		}
	})
}
