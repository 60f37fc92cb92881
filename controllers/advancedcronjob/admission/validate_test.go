// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"errors"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/kube/templatecheck"
	"github.com/kruise-operator/kruise-operator/internal/testutil/admissiontest"
	"github.com/kruise-operator/kruise-operator/internal/webhook/admit"
)

const job = `{jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: web}]}}}}}`

func cronJob(t *testing.T, name, spec string) *appsv1beta1.AdvancedCronJob {
	t.Helper()
	cron := admissiontest.Parse[appsv1beta1.AdvancedCronJob](t, "{metadata: {name: "+name+"}, spec: {"+spec+"}}")
	return &cron
}

// TestStoredObjectsPass: an update keeping OpenKruise's faults passes.
func TestStoredObjectsPass(t *testing.T) {
	const never = `{broadcastJobTemplate: {spec: {completionPolicy: {type: Never}, template: {spec: {restartPolicy: Never, containers: [{name: main, image: web}]}}}}}`
	for what, spec := range map[string]string{
		"a long name":                         "template: " + job,
		"a BroadcastJob that never completes": "template: " + never,
		"a negative limit":                    "failedJobsHistoryLimit: -1, template: " + job,
	} {
		t.Run(what, func(t *testing.T) {
			name := "web"
			if what == "a long name" {
				name = strings.Repeat("n", 60)
			}
			old := cronJob(t, name, `schedule: "@daily", `+spec)
			is := cronJob(t, name, `schedule: "@hourly", paused: true, `+spec)
			Default(is)
			if errs := Kind().Faults(is, nil); len(errs) == 0 {
				t.Error("a new one is let in")
			}
			if errs := Kind().Faults(is, old); len(errs) > 0 {
				t.Errorf("the update is refused: %v", errs)
			}
		})
	}
}

func TestKindOfTemplateStays(t *testing.T) {
	const images = `{imageListPullJobTemplate: {spec: {images: [web]}}}`
	old, is := cronJob(t, "web", `schedule: "@daily", template: `+images), cronJob(t, "web", `schedule: "@daily", template: `+job)
	Default(is)
	errs := Kind().Faults(is, old)
	if len(errs) != 1 || errs[0].Field != "spec.template" || !strings.Contains(errs[0].Detail, "cannot change from imageListPullJobTemplate to jobTemplate") {
		t.Errorf("errors %v", errs)
	}
}

// TestListsOfImagesThatNoRunCouldHave: admission refuses a template its kind refuses, not each due run.
func TestListsOfImagesThatNoRunCouldHave(t *testing.T) {
	const at = "spec.template.imageListPullJobTemplate."
	for spec, want := range map[string]string{
		"pullPolicy: {timeoutSeconds: 0}":                 "spec.pullPolicy.timeoutSeconds",
		"pullPolicy: {backoffLimit: -1}":                  "spec.pullPolicy.backoffLimit",
		"imagePullPolicy: Sometimes":                      "spec.imagePullPolicy",
		"completionPolicy: {activeDeadlineSeconds: 599}":  "spec.completionPolicy.activeDeadlineSeconds",
		"completionPolicy: {activeDeadlineSeconds: -1}":   "spec.completionPolicy.activeDeadlineSeconds",
		"completionPolicy: {type: Never}":                 "spec.completionPolicy.type",
		"completionPolicy: {type: Sometimes}":             "spec.completionPolicy.type",
		"completionPolicy: {ttlSecondsAfterFinished: -1}": "spec.completionPolicy.ttlSecondsAfterFinished",
		"}, metadata: {labels: {app: a b}":                "metadata.labels",
	} {
		t.Run(spec, func(t *testing.T) {
			cron := cronJob(t, "web", `schedule: "@daily", template: {imageListPullJobTemplate: {spec: {images: [web], `+spec+"}}}")
			Default(cron)
			errs := Kind().Faults(cron, nil)
			if len(errs) != 1 || errs[0].Field != at+want {
				t.Errorf("errors %v, want one of %s", errs, at+want)
			}
		})
	}
}

// A fault of a Job template beside its pods failed every run, unreported at admission.
func TestFaultsOfAJobAreRefused(t *testing.T) {
	limits := func(spec *batchv1.JobSpec) error {
		path := field.NewPath("spec", "backoffLimit")
		if spec.BackoffLimit == nil || *spec.BackoffLimit >= 0 {
			return nil
		}
		return apierrors.NewInvalid(schema.GroupKind{Group: "batch", Kind: "Job"}, "", field.ErrorList{field.Invalid(path, *spec.BackoffLimit, "must be greater than or equal to 0")})
	}
	quota := func(*batchv1.JobSpec) error {
		return apierrors.NewForbidden(schema.GroupResource{Group: "batch", Resource: "jobs"}, "", errors.New("exceeded quota"))
	}
	of := func(limit, image string) string {
		return `{"metadata":{"name":"web"},"spec":{"schedule":"@daily","concurrencyPolicy":"Allow","template":{"jobTemplate":{"spec":{"backoffLimit":` + limit +
			`,"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"main","image":"` + image + `"}]}}}}}}}`
	}
	for name, tc := range map[string]struct {
		answer    func(*batchv1.JobSpec) error
		sent, old string
		refused   bool
	}{
		"a new one":                        {answer: limits, sent: of("-1", "web"), refused: true},
		"one that becomes so":              {answer: limits, sent: of("-1", "web"), old: of("1", "web"), refused: true},
		"one that was so":                  {answer: limits, sent: of("-1", "web:2"), old: of("-1", "web")},
		"a good one":                       {answer: limits, sent: of("1", "web")},
		"a server that does not answer so": {answer: quota, sent: of("-1", "web")},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := admit.Cluster{Checker: templatecheck.Checker{Client: &admissiontest.Templates{AnswerJob: tc.answer}}}
			response := Kind().Validator(cluster).Handle(t.Context(), admissiontest.Request(Kind().GroupVersionKind, "v1beta1", tc.sent, tc.old))
			const fault = "spec.template.jobTemplate.spec.backoffLimit: Invalid value: -1: must be greater than or equal to 0"
			if response.Allowed == tc.refused || tc.refused && !strings.Contains(response.Result.Message, fault) {
				t.Errorf("allowed %v: %v", response.Allowed, response.Result)
			}
		})
	}
}

func TestKeep(t *testing.T) {
	const images = `{imageListPullJobTemplate: {spec: {images: [web]}}}`
	old := cronJob(t, "web", `schedule: "@daily", template: `+images)
	for template, kept := range map[string]bool{"{}": true, job: false} {
		is := cronJob(t, "web", `schedule: "@daily", template: `+template)
		Keep(is, old)
		if got := is.Spec.Template.ImageListPullJobTemplate != nil; got != kept {
			t.Errorf("template %s: kept %v, want %v", template, got, kept)
		}
	}
}

// TestUpdatesThroughV1alpha1 keep imageListPullJobTemplate,
// unknown to the client. It knows timeZone, and can remove it.
func TestUpdatesThroughV1alpha1(t *testing.T) {
	const (
		stored = `{"metadata":{"name":"web"},"spec":{"schedule":"0 3 * * *","timeZone":"Asia/Tokyo","concurrencyPolicy":"Replace","paused":false,
			"successfulJobsHistoryLimit":3,"failedJobsHistoryLimit":1,
			"template":{"imageListPullJobTemplate":{"spec":{"images":["web"],"completionPolicy":{"type":"Always"}}}}}}`
		leftOut = `{"spec":{"schedule":"TZ=Asia/Seoul 0 3 * * *","timeZone":null,"template":{"imageListPullJobTemplate":null}}}`
	)
	sent := admissiontest.Merge(t, stored, leftOut)
	response := Kind().Defaulter().Handle(t.Context(), admissiontest.Request(Kind().GroupVersionKind, "v1alpha1", sent, stored))
	got := admissiontest.Parse[appsv1beta1.AdvancedCronJob](t, admissiontest.Mutated(t, sent, response))
	if got.Spec.Template.ImageListPullJobTemplate == nil {
		t.Error("imageListPullJobTemplate is lost")
	}
	if zone := got.Spec.TimeZone; zone != nil {
		t.Errorf("the time zone %s, which was removed, is back", *zone)
	}
	old := admissiontest.Parse[appsv1beta1.AdvancedCronJob](t, stored)
	if errs := Kind().Faults(&got, &old); len(errs) > 0 {
		t.Errorf("the update is refused: %v", errs)
	}
}

// TestARestartLimitThatNothingReachesIsWarnedOf: pods that are not restarted reach no limit, in a run as in a BroadcastJob of its own.
func TestARestartLimitThatNothingReachesIsWarnedOf(t *testing.T) {
	template := `schedule: "0 0 * * *", template: {broadcastJobTemplate: {spec: {failurePolicy: {restartLimit: 2}, template: {spec: {restartPolicy: Never, containers: [{name: main, image: web}]}}}}}`
	got := Warnings(cronJob(t, "c", template), nil)
	if want := "spec.template.broadcastJobTemplate.spec.failurePolicy.restartLimit: has no effect, because restartPolicy is not OnFailure"; len(got) != 1 || got[0] != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestMarksOfSidecarsWithoutEffect: whoever marks a sidecar learns when the mark does nothing.
func TestMarksOfSidecarsWithoutEffect(t *testing.T) {
	const marked = `template: {spec: {restartPolicy: Never, containers: [{name: main, image: web}, {name: s, image: log, env: [{name: KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT, value: "1"}]}]}}`
	for kind, want := range map[string]string{
		"jobTemplate":          "spec.template.jobTemplate.spec.template.spec.containers[1].env[0].value: ",
		"broadcastJobTemplate": "spec.template.broadcastJobTemplate.spec.template.spec.containers[1].env[0].value: ",
	} {
		t.Run(kind, func(t *testing.T) {
			got := Warnings(cronJob(t, "c", `schedule: "0 0 * * *", template: {`+kind+": {spec: {"+marked+"}}}"), nil)
			if len(got) != 1 || !strings.HasPrefix(got[0], want) {
				t.Errorf("%q, want one that begins with %q", got, want)
			}
		})
	}
	if got := Warnings(cronJob(t, "c", `schedule: "0 0 * * *", template: `+job), nil); len(got) > 0 {
		t.Errorf("%q about a job without marks", got)
	}
}
