// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/kruise-operator/kruise-operator/tests/framework/faultproxy"
)

// lag is by how many writes a stale view is behind the crash.
const lag = 3

// Write is a write of the operator, as the proxy saw it.
type Write struct {
	// N counts from 1. It is 0 for writes outside the scenario, such as events.
	N     int
	After time.Duration
	What  string
	Code  int
	Note  string
}

func (w Write) String() string {
	return fmt.Sprintf("%3d %8s %3d %s %s", w.N, w.After.Round(time.Millisecond), w.Code, w.What, w.Note)
}

// interceptor meets all requests of one operator.
type interceptor struct {
	// version asks the API server for its present resource version.
	version func(context.Context) (string, error)

	mutex     sync.Mutex
	namespace string
	plan      Perturbation
	// everywhere: writes outside of the namespace count, too.
	everywhere bool
	began      time.Time
	writes     int
	created    map[string]int
	seen       map[string]bool
	trace      []Write
	// fired is closed when the perturbation has begun; target is then the created object,
	// for Missed.
	fired  chan struct{}
	target string
	// dead: the operator has been killed, or is about to be.
	dead bool
	// old is the resource version for answers about the planned resource while release is
	// open and the operator lives.
	old string
	// missing: the planned resource is cut off until release is closed.
	missing bool
	release chan struct{}
	// lagging: the standby's watch of the planned resource is held until release is closed.
	lagging bool
	// early: the standby leads too early, since the leader lost its lease on a loaded
	// machine. Then nothing is perturbed.
	early bool
	// held is open while the planned resource is cut off before its compaction; compacted
	// is the oldest version known then.
	held      chan struct{}
	compacted uint64
	// guarded is the path of a pod with another owner. Writes to it are kept in trespasses.
	guarded    string
	trespasses []string
	// watches are the ends of all watches, by resource.
	watches map[string]map[int]context.CancelFunc
	next    int
}

// arm begins a run.
func (i *interceptor) arm(namespace string, plan Perturbation, everywhere bool) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	i.namespace, i.plan, i.everywhere, i.began = namespace, plan, everywhere, time.Now()
	i.writes, i.created, i.seen, i.trace, i.target = 0, map[string]int{}, map[string]bool{}, nil, ""
	i.fired, i.release = make(chan struct{}), make(chan struct{})
	i.early = false
	i.old, i.missing, i.dead, i.lagging, i.held, i.compacted, i.guarded, i.trespasses = "", false, false, false, nil, 0, "", nil
	if i.watches == nil {
		i.watches = map[string]map[int]context.CancelFunc{}
	}
	for resource, open := range i.watches {
		if len(open) > 0 {
			i.seen[resource] = true
		}
	}
}

// hasFired is true once the perturbation has begun.
func (i *interceptor) hasFired() bool {
	select {
	case <-i.fired:
		return true
	default:
		return false
	}
}

// revive lets the next operator through.
func (i *interceptor) revive() {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	i.dead = false
}

// let releases held requests.
func (i *interceptor) let() {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	i.missing, i.old, i.lagging, i.compacted = false, "", false, 0
	close(i.release)
}

// compact lets the planned resource through again, and nothing before the version.
func (i *interceptor) compact(version uint64) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	i.compacted = version
	close(i.held)
	i.held = nil
}

// guard watches a path until the returned function is called, and returns the writes to it.
func (i *interceptor) guard(path string) (end func() []string) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	i.guarded = path
	return func() []string {
		i.mutex.Lock()
		defer i.mutex.Unlock()
		i.guarded = ""
		return i.trespasses
	}
}

// Intercept is called for each request.
func (i *interceptor) Intercept(w http.ResponseWriter, r *http.Request, next http.Handler) bool {
	t, ok := faultproxy.TargetOf(r)
	if !ok {
		return false
	}
	i.mutex.Lock()
	dead := i.dead
	i.mutex.Unlock()
	if dead {
		panic(http.ErrAbortHandler)
	}
	switch {
	case faultproxy.IsWrite(r):
		return i.write(w, r, next, t)
	case r.Method == http.MethodGet && t.Name == "":
		return i.read(w, r, next, t)
	}
	return false
}

// counts is true for writes of the scenario.
func (i *interceptor) counts(t faultproxy.Target) bool {
	if strings.HasPrefix(t.Resource, "events") {
		return false
	}
	return i.everywhere || t.Namespace == i.namespace && i.namespace != "" || slices.Contains(ofNodes(), t.Resource) && i.namespace != ""
}

// write counts a write and lets it meet the perturbation.
func (i *interceptor) write(w http.ResponseWriter, r *http.Request, next http.Handler, t faultproxy.Target) bool {
	i.mutex.Lock()
	entry := Write{After: time.Since(i.began), What: r.Method + " " + r.URL.Path}
	if !i.counts(t) {
		i.trace = append(i.trace, entry)
		i.mutex.Unlock()
		return false
	}
	i.writes++
	entry.N = i.writes
	creates := r.Method == http.MethodPost && t.Name == "" && (t.Namespace == i.namespace || slices.Contains(ofNodes(), t.Resource))
	if creates {
		i.created[t.Resource]++
	}
	plan, fired := i.plan, i.hasFired()
	due := !fired && entry.N == plan.At
	if plan.Kind == Missed || plan.Kind == Stolen {
		due = !fired && creates && t.Resource == plan.Resource && i.created[t.Resource] == plan.At
	}
	due = due && !i.early
	i.lagging = i.lagging || plan.Kind == Failover && !i.early && !fired && entry.N >= plan.At-lag
	remember := plan.Kind == Stale && !fired && i.old == "" && entry.N >= plan.At-lag
	i.mutex.Unlock()

	if remember {
		if version, err := i.version(r.Context()); err == nil {
			i.mutex.Lock()
			i.old = version
			i.mutex.Unlock()
		}
	}
	if due {
		i.perturb(w, r, next, entry)
		return true
	}
	answer := &recorded{ResponseWriter: w}
	defer func() {
		entry.Code = answer.code
		i.record(entry)
		i.trespass(r, answer.code)
	}()
	next.ServeHTTP(answer, r)
	return true
}

// perturb applies the plan to a write.
func (i *interceptor) perturb(w http.ResponseWriter, r *http.Request, next http.Handler, entry Write) {
	commit := func() *httptest.ResponseRecorder {
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r.WithContext(context.WithoutCancel(r.Context())))
		return answer
	}
	switch i.plan.Kind {
	case Crash, Stale, Failover:
		answer := commit()
		entry.Code, entry.Note = answer.Code, "committed, and the operator killed"
		i.record(entry)
		i.mutex.Lock()
		i.dead = true
		i.cut("")
		i.mutex.Unlock()
		close(i.fired)
		panic(http.ErrAbortHandler)
	case Missed, Compacted, Stolen:
		i.mutex.Lock()
		switch i.plan.Kind {
		case Missed:
			i.missing = true
			i.cut(i.plan.Resource)
		case Compacted:
			i.held = make(chan struct{})
			i.cut(i.plan.Resource)
		}
		i.mutex.Unlock()
		answer := commit()
		nothing := i.plan.Kind != Compacted && answer.Code >= http.StatusMultipleChoices // as when two owners create the same object
		entry.Code, entry.Note = answer.Code, "carried out, and "+string(i.plan.Kind)
		if nothing {
			entry.Note = "refused, so that it was not " + string(i.plan.Kind)
		}
		i.record(entry)
		i.mutex.Lock()
		if nothing {
			i.missing = false
			close(i.release) // what was cut off meanwhile
			i.release = make(chan struct{})
			i.created[i.plan.Resource]--
		} else {
			i.target = nameIn(answer.Body.Bytes())
		}
		i.mutex.Unlock()
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
		if !nothing {
			close(i.fired)
		}
	case Fault:
		all := faults()
		f := all[slices.IndexFunc(all, func(f fault) bool { return f.name == i.plan.Fault })]
		entry.Note = "met the fault " + f.name
		if f.committed {
			entry.Code = commit().Code
		} else {
			entry.Code = f.code
		}
		i.record(entry)
		close(i.fired)
		if f.code == 0 {
			panic(http.ErrAbortHandler)
		}
		faultproxy.Refuse(w, f.code, f.message)
	}
}

// trespass notes a successful write to the guarded path.
func (i *interceptor) trespass(r *http.Request, code int) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	if i.guarded != "" && code < 300 && (r.URL.Path == i.guarded || strings.HasPrefix(r.URL.Path, i.guarded+"/")) {
		i.trespasses = append(i.trespasses, r.Method+" "+r.URL.Path)
	}
}

// nameIn finds the created object's name in the answer, an object or metadata alone.
func nameIn(body []byte) string {
	types := runtime.NewScheme()
	utilruntime.Must(scheme.AddToScheme(types))
	utilruntime.Must(metav1.AddMetaToScheme(types))
	object, _, err := serializer.NewCodecFactory(types).UniversalDeserializer().Decode(body, nil, nil)
	if err != nil { // an object of our own kinds, which come in JSON
		object = &unstructured.Unstructured{}
		if err := json.Unmarshal(body, object); err != nil {
			return ""
		}
	}
	named, err := meta.Accessor(object)
	if err != nil {
		return ""
	}
	return named.GetName()
}

// cut ends watches of a resource, or all. The caller holds the mutex.
func (i *interceptor) cut(resource string) {
	for of, ends := range i.watches {
		if resource == "" || resource == of {
			for _, end := range ends {
				end()
			}
		}
	}
}

func (i *interceptor) record(entry Write) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	i.trace = append(i.trace, entry)
}

// note puts something else than a write into the trace.
func (i *interceptor) note(what string) {
	i.mutex.Lock()
	began := i.began
	i.mutex.Unlock()
	i.record(Write{After: time.Since(began), What: "-- " + what})
}

// read passes a list or a watch on, or holds it.
func (i *interceptor) read(w http.ResponseWriter, r *http.Request, next http.Handler, t faultproxy.Target) bool {
	query := r.URL.Query()
	watch := query.Get("watch") != "" && query.Get("watch") != "false"
	initial := query.Get("sendInitialEvents") == "true"
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	i.mutex.Lock()
	planned := t.Resource == i.plan.Resource
	missing, release, old, held := i.missing, i.release, i.old, i.held
	stale := old != "" && i.plan.Kind == Stale && i.hasFired()
	if watch {
		i.seen[t.Resource] = true
		if i.watches[t.Resource] == nil {
			i.watches[t.Resource] = map[int]context.CancelFunc{}
		}
		i.next++
		id := i.next
		i.watches[t.Resource][id] = cancel
		defer func() {
			i.mutex.Lock()
			defer i.mutex.Unlock()
			delete(i.watches[t.Resource], id)
		}()
	}
	i.mutex.Unlock()

	if planned && held != nil {
		select {
		case <-held:
		case <-ctx.Done():
			panic(http.ErrAbortHandler)
		}
	}
	if planned && i.gone(w, r, watch, initial) {
		return true
	}
	switch {
	case planned && missing:
		select {
		case <-release:
		case <-ctx.Done():
			panic(http.ErrAbortHandler)
		}
		if watch && !initial {
			faultproxy.Refuse(w, http.StatusGone, "too old resource version")
			return true
		}
	case planned && stale && watch && initial:
		faultproxy.Refuse(w, http.StatusUnprocessableEntity, "initial events are not sent now")
		return true
	case planned && stale && watch:
		select {
		case <-release:
		case <-ctx.Done():
			panic(http.ErrAbortHandler)
		}
	case planned && stale && query.Get("resourceVersion") != "": // a list that asks for no version is a consistent read
		query.Del("continue")
		query.Del("limit")
		query.Set("resourceVersion", old)
		query.Set("resourceVersionMatch", "Exact")
		r.URL.RawQuery = query.Encode()
	}
	next.ServeHTTP(w, r.WithContext(ctx))
	return true
}

// gone answers as a server with a compacted etcd, and makes lists come in pages.
func (i *interceptor) gone(w http.ResponseWriter, r *http.Request, watch, initial bool) bool {
	i.mutex.Lock()
	compacted := i.compacted
	i.mutex.Unlock()
	query := r.URL.Query()
	switch {
	case compacted == 0:
		return false
	case watch && initial: // lists in pages are for what comes instead
		faultproxy.Refuse(w, http.StatusUnprocessableEntity, "initial events are not sent now")
		return true
	case watch:
		if from, err := strconv.ParseUint(query.Get("resourceVersion"), 10, 64); err != nil || from >= compacted {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		event := map[string]any{"type": "ERROR", "object": metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status:   metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired, Message: "too old resource version",
		}}
		_ = json.NewEncoder(w).Encode(event)
		return true
	case query.Get("continue") != "":
		faultproxy.Refuse(w, http.StatusGone, "The provided continue parameter is too old to display a consistent list result")
		return true
	case query.Get("limit") != "" && query.Get("resourceVersion") != "0":
		query.Set("limit", "1")
		r.URL.RawQuery = query.Encode()
	}
	return false
}

// recorded remembers the code of an answer.
type recorded struct {
	http.ResponseWriter
	code int
}

func (w *recorded) WriteHeader(code int) {
	w.code = code
	w.ResponseWriter.WriteHeader(code)
}

// Flush lets the proxy send at once.
func (w *recorded) Flush() {
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}
