// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
	"github.com/kruise-operator/kruise-operator/internal/engine/podentry"
)

const (
	// firstTry and lastTry bound the time between two tries of a proof: what is registered acts about a second later.
	firstTry = 500 * time.Millisecond
	lastTry  = 30 * time.Second
	// policyTimeout is how long a policy may take to act. After that the webhook injects.
	policyTimeout = 8 * time.Second
	// firstRetry is when a policy that had no effect is tried again; the pause doubles each time, up to lastRetry.
	firstRetry = 15 * time.Second
	lastRetry  = 10 * time.Minute
	// proofTimeout is how long one try may take.
	proofTimeout = 5 * time.Second
	// someNamespaces is how many namespaces are looked at to find some for a proof, and triedNamespaces in how many it is tried: one may have a quota, or rules for
	// pods, that another one does not have.
	someNamespaces, triedNamespaces = 100, 3
)

// proofs are what is known of the two ways of a set.
type proofs struct {
	policy, webhook proof
	fieldCheck      fieldCheck
	// policyBackoff keeps the policy away while it has no effect, binding while the server refuses the binding of the set.
	policyBackoff policyBackoff
	binding       failedWrites
	// failing is since when passes over the set have failed, one after the other, and said what the last one before has said, about which version of the set.
	failing   time.Time
	said      InjectionState
	saidAbout string
	// refusal is the last answer of the server that has refused the revision of the set, callRefusal that of its call.
	refusal, callRefusal refusal
	// restored are messages about what was restored since the last pass over the set, clash is what the last one has said about other sets.
	restored []string
	clash    string
	// counted is when pods without sidecars were looked for, for which shown, and what was found.
	counted    time.Time
	countedFor string
	found      lacking
}

// fieldCheck is whether the API server knows all fields of what a policy would inject, as a dry run says.
type fieldCheck struct {
	revision string
	// asked is when the server was asked last, whether or not it answered, and of which epoch it was.
	asked      time.Time
	askedEpoch int
	// epoch is that of the API server that answered.
	epoch int
	done  bool
	// refused is its answer when it does not know one.
	refused string
}

// due says that the server has to be asked, and was not a short while ago: a webhook of others may take seconds to answer, each time.
func (c *fieldCheck) due(now time.Time, epoch int) bool {
	return (!c.done || c.epoch != epoch) && (c.asked.IsZero() || c.askedEpoch != epoch || now.Sub(c.asked) >= lastTry)
}

// proof is what dry runs showed of one way.
type proof struct {
	// shows is what was looked for, tried how often, first and last when.
	shows       string
	tries       int
	first, last time.Time
	// epoch is that of the API server at the last try: one that was restarted is asked again.
	epoch int
	// notBefore is when the first try makes sense.
	notBefore time.Time
	// injected says that the last try found everything in the pod, held that some earlier one did; refuted that the last one found a pod without.
	injected, held, refuted bool
	message                 string
	// takenOut says that the last try lacked what had been injected, changed which field of what was injected somebody else gave another value.
	takenOut bool
	changed  string
	// where is the namespace of the last try that was answered, elsewhere why another one was of no use before.
	where, elsewhere string
}

// unproven is a proof of a way of which nothing is known.
func unproven() proof { return proof{} }

func (p *proof) holds(shown string) bool { return p.injected && p.shows == shown }

// failed says whether another way is needed: pods have been seen without the sidecars for some time, or after pods that had them.
func (p *proof) failed() bool { return p.refuted && (p.held || p.last.Sub(p.first) >= policyTimeout) }

// policyBackoff says for how long the policy is left alone after it had no effect. A policy that acts only for a moment does not shorten the pauses, so
// that a set does not go to and fro between both ways.
type policyBackoff struct {
	// count is how often it had no effect, until when it is left alone, and why. takenOut says that it had, and something else took it out.
	count    int
	until    time.Time
	why      string
	takenOut bool
	// since is when it was seen to act again.
	since time.Time
}

// begin leaves alone a policy of which the last try failed.
func (b *policyBackoff) begin(try *proof) {
	b.count++
	b.until, b.since = try.last.Add(min(firstRetry<<min(b.count-1, 10), lastRetry)), time.Time{}
	b.why, b.takenOut = try.message, try.takenOut
}

// acts notes that the policy was seen to act.
func (b *policyBackoff) acts(now time.Time) {
	b.until = time.Time{}
	switch {
	case b.count > 0 && b.since.IsZero():
		b.since = now
	case now.Sub(b.since) >= proveEvery:
		*b = policyBackoff{}
	}
}

func (b *policyBackoff) left(now time.Time) time.Duration { return max(0, b.until.Sub(now)) }

// verdict is what a condition says.
func (p *proof) verdict(shown string) (metav1.ConditionStatus, string) {
	switch {
	case p.shows == shown && p.tries == 0 && p.message != "":
		return metav1.ConditionUnknown, p.message + "; not verified since"
	case p.shows != shown || p.tries == 0:
		return metav1.ConditionUnknown, "not verified yet"
	case p.injected:
		message := "verified by a dry run in namespace " + p.where
		if p.changed != "" {
			message += ", in which something else changed " + p.changed
		}
		if p.elsewhere != "" {
			message += "; it could not be verified elsewhere: " + p.elsewhere
		}
		return metav1.ConditionTrue, message
	case p.refuted:
		return metav1.ConditionFalse, "a pod made by a dry run lacked " + p.message
	default:
		return metav1.ConditionUnknown, "it could not be verified: " + p.message
	}
}

// due is when to try next.
func (p *proof) due(shown string, epoch int) time.Time {
	switch {
	case p.shows != shown:
		return time.Time{}
	case p.tries == 0:
		return p.notBefore
	case p.injected && p.epoch != epoch:
		return time.Time{}
	case p.injected:
		return p.last.Add(proveEvery)
	default:
		next, end := p.last.Add(min(firstTry<<min(p.tries, 10), lastTry)), p.first.Add(policyTimeout)
		if p.last.Before(end) && next.After(end) {
			return end // when it is decided whether another way is needed
		}
		return next
	}
}

func (p *proof) recheck(shown string, now time.Time, epoch int) time.Duration {
	return max(p.due(shown, epoch).Sub(now), firstTry)
}

// prove tries the ways of a set that are due, and says whether one was.
func (i *Injection) prove(ctx context.Context, set *injectedSet) bool {
	tried := false
	for _, way := range i.dueWays(set) {
		began, epoch := i.options.Clock.Now(), i.registry.epoch()
		try, err := i.try(ctx, set, way)
		try.first, try.epoch, try.last = began, epoch, i.options.Clock.Now()
		i.tried(set, way, try, err)
		tried = true
	}
	return tried
}

// dueWays are the ways of a set that are to be tried now.
func (i *Injection) dueWays(set *injectedSet) []string {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	known, now, epoch := i.proofsOf(set.name), i.options.Clock.Now(), i.registry.epoch()
	var ways []string
	if set.wantBinding && !now.Before(known.policy.due(set.shown, epoch)) {
		ways = append(ways, sidecar.ProofPolicy)
	}
	if set.wantEntry && !now.Before(known.webhook.due(set.shown, epoch)) {
		ways = append(ways, sidecar.ProofWebhook)
	}
	return ways
}

// tried notes what a try of one way has shown. try has its times, and as its message what the pod lacked.
func (i *Injection) tried(set *injectedSet, name string, try proof, err error) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	known := i.proofsOf(set.name)
	way := &known.policy
	if name == sidecar.ProofWebhook {
		way = &known.webhook
	}
	if way.shows != set.shown || way.tries == 0 {
		*way = proof{shows: set.shown, first: try.first}
	}
	way.tries++
	way.last, way.epoch = try.last, try.epoch
	way.held = way.held || way.injected
	way.injected, way.refuted = err == nil && try.message == "", err == nil && try.message != ""
	way.message, way.takenOut, way.changed, way.where, way.elsewhere = try.message, try.takenOut, try.changed, try.where, try.elsewhere
	if err != nil {
		way.message = strings.TrimSpace(err.Error())
	}
	if way.injected {
		way.tries = 1
	}
	if name != sidecar.ProofPolicy {
		return
	}
	switch {
	case way.injected:
		known.policyBackoff.acts(way.last)
	case way.failed() && known.policyBackoff.left(way.last) == 0:
		known.policyBackoff.begin(way)
		known.policy = unproven() // The next time it has to show itself from the beginning.
	}
}

func (i *Injection) proofsOf(name string) *proofs {
	if i.proofs[name] == nil {
		i.proofs[name] = &proofs{}
	}
	return i.proofs[name]
}

// try has the API server create a pod, without keeping it, in the first of some namespaces that takes it, and returns what that shows: as its message what the
// pod lacks, and what somebody else has changed of it. An error says why nothing is known.
func (i *Injection) try(ctx context.Context, set *injectedSet, way string) (proof, error) {
	ctx, cancel := context.WithTimeout(ctx, proofTimeout)
	defer cancel()
	places, err := i.examplePlaces(ctx, set)
	if err != nil {
		return proof{}, err
	}
	var first error
	for _, there := range places {
		shown, err := i.tryIn(ctx, set, way, there.namespace, there.labels)
		if err == nil {
			shown.where = there.namespace.Name
			if first != nil {
				shown.elsewhere = strings.TrimSpace(first.Error())
			}
			return shown, nil
		}
		if first == nil {
			first = err
		}
		if !answered(err) && !errors.Is(err, errNoToken) {
			break
		}
	}
	return proof{}, first
}

// tryIn is try in one namespace.
func (i *Injection) tryIn(ctx context.Context, set *injectedSet, way string, namespace *corev1.Namespace, labels map[string]string) (proof, error) {
	examples, err := examplesOf(set.compiled, namespace, labels, way)
	if refusal := (refusedError{}); errors.As(err, &refusal) {
		lacks, err := i.tryRefusal(ctx, examples[0].pod, refusal.Error())
		return proof{message: lacks}, err
	}
	if err != nil {
		return proof{}, err
	}
	var tried expected
	for _, tried = range examples {
		if err = i.options.Client.Create(ctx, tried.pod, client.DryRunAll); !tooSmall(err) {
			break
		}
	}
	if err != nil {
		return proof{}, fmt.Errorf("namespace %s: %w", namespace.Name, err)
	}
	pod := tried.pod
	want, err := asKnown(tried.want)
	if err != nil {
		return proof{}, err
	}
	have, err := objectOf(pod)
	if err != nil {
		return proof{}, err
	}
	if guard := set.compiled.Guard; way == sidecar.ProofPolicy && guard != nil && guard.Token && !slices.ContainsFunc(pod.Spec.Volumes, sidecar.IsToken) {
		return proof{}, fmt.Errorf("namespace %s: %w", namespace.Name, errNoToken)
	}
	// When the revision of a pod is drawn at random, it is not known in advance.
	for _, v := range set.compiled.Variants {
		if v.Percent != nil {
			list := pod.Annotations[sidecar.InjectedListAnnotation]
			if slices.Contains(strings.Split(list, ","), set.name) {
				return proof{}, nil
			}
		}
	}
	shown := proof{}
	shown.message, shown.changed = set.compiled.Missing(want, have)
	if strings.HasPrefix(shown.message, "spec") { // The pod has the mark, which comes with all the rest at once.
		shown.takenOut = true
		shown.message += ", which a webhook of somebody else, or the API server, took out after it was injected"
	}
	return shown, nil
}

// tooSmall says that a pod was refused because it requests less than a LimitRange of its namespace asks for.
func tooSmall(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "minimum ")
}

// errNoToken means that the ServiceAccount of a namespace keeps the token from pods.
var errNoToken = errors.New("the pod that was made up has no token")

// ineffective says why the policy is left alone.
func (b *policyBackoff) ineffective() string {
	if b.takenOut {
		return "pods do not keep what the policy injects: they lack " + b.why
	}
	return "the policy has no effect: " + b.why
}

// refusedError is why a set refuses a pod.
type refusedError struct{ error }

// tryRefusal has the API server refuse a pod in the words of the set: that shows as well that it is asked.
func (i *Injection) tryRefusal(ctx context.Context, pod *corev1.Pod, words string) (string, error) {
	err := i.options.Client.Create(ctx, pod, client.DryRunAll)
	switch {
	case err == nil:
		return "the refusal: " + words, nil
	case strings.Contains(err.Error(), words):
		return "", nil
	}
	return "", fmt.Errorf("namespace %s: %w", pod.Namespace, err)
}

// checkFields asks, once for each revision and each API server, whether the server knows all fields of what a set injects. From a webhook it takes
// those that it does not know, and drops them; for a policy that sets one it refuses the pod. While it cannot be asked, nothing is known: what an
// earlier one said about the revision still counts.
func (i *Injection) checkFields(ctx context.Context, set *injectedSet) {
	epoch := i.registry.epoch()
	refused, known := i.dryRun(ctx, set)
	i.mutex.Lock()
	defer i.mutex.Unlock()
	check := &i.proofsOf(set.name).fieldCheck
	if check.revision != set.revision {
		*check = fieldCheck{revision: set.revision}
	}
	check.asked, check.askedEpoch = i.options.Clock.Now(), epoch
	if known {
		check.done, check.epoch, check.refused = true, epoch, refused
	}
}

// dryRun has the API server create a pod as the policy would make it, without keeping it, and returns why it does not take it; known says that it
// could be asked.
func (i *Injection) dryRun(ctx context.Context, set *injectedSet) (refused string, known bool) {
	ctx, cancel := context.WithTimeout(ctx, proofTimeout)
	defer cancel()
	places, err := i.examplePlaces(ctx, set)
	if err != nil {
		return "", false
	}
	namespace, labels := places[0].namespace, places[0].labels
	pod := examplePod(namespace.Name, labels, sidecar.ProofPolicy, amounts()[0])
	// What is computed has no fields that could be unknown, and needs containers that the example may not have.
	want, err := example(set.compiled.WithoutResources(), pod, namespace)
	if err != nil {
		return "", false
	}
	asked := &unstructured.Unstructured{Object: want}
	asked.SetAPIVersion("v1")
	asked.SetKind("Pod")
	bypassing := asked.GetLabels()
	bypassing[podentry.BypassLabel] = podentry.BypassValue
	asked.SetLabels(bypassing)
	err = i.options.Client.Create(ctx, asked, client.DryRunAll, client.FieldValidation("Strict"))
	if apierrors.IsBadRequest(err) {
		refused = strings.TrimSpace(err.Error())
	}
	return refused, !unanswered(err)
}

// unanswered says that the server did not say what it thinks of a request.
func unanswered(err error) bool {
	return err != nil && (apierrors.ReasonForError(err) == metav1.StatusReasonUnknown || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err))
}
