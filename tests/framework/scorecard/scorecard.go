// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package scorecard runs a bundle's scorecard as its users do: `operator-sdk scorecard`,
// with a pod for each test, on a cluster with a real node and the operator. The images
// named by the bundle's configuration are built here and served from this machine.
package scorecard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/binaries"
	"github.com/kruise-operator/kruise-operator/tests/framework/deploy"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/images"
	"github.com/kruise-operator/kruise-operator/tests/framework/packaging"
)

const (
	// namespace has the tests' pods, account is theirs.
	namespace = "kruise-scorecard"
	account   = "scorecard"
	// untarImage unpacks the bundle in every pod. The bundle does not name it, the command line does.
	untarImage = "registry.example.com/scorecard-untar:v1"
	// testsTimeout bounds all tests together. operator-sdk's own 30 seconds are for tests
	// of files alone.
	testsTimeout = 4 * time.Minute
	// volumes is how many claims the tests can make: more than the examples of the bundle, twice.
	volumes = 40
)

// Run brings up a cluster with a real node and the operator, runs all tests of the bundle
// in a folder and writes operator-sdk's output. It needs realnode.Check to pass.
func Run(ctx context.Context, bundle string, output, progress io.Writer) error {
	bundle, err := filepath.Abs(bundle)
	if err != nil {
		return err
	}
	tests, err := packaging.ScorecardTests(bundle)
	if err != nil {
		return err
	}
	env, err := environment.Start(ctx, environment.Options{Cluster: cluster.Options{RealNodes: 1, Progress: progress}, NoOperator: true})
	if err != nil {
		return err
	}
	defer env.Stop()
	r := run{Environment: env, bundle: bundle, tests: tests, output: output, progress: progress}
	if err := r.all(ctx); err != nil {
		deploy.Report(env.Cluster, func(format string, args ...any) { fmt.Fprintf(progress, format+"\n", args...) })
		return errors.Join(err, env.Cluster.Exited())
	}
	return env.Cluster.Exited()
}

type run struct {
	*environment.Environment
	bundle           string
	tests            []packaging.ScorecardTest
	output, progress io.Writer
}

func (r run) all(ctx context.Context) error {
	if err := r.pushTests(ctx); err != nil {
		return err
	}
	if err := deploy.PushGuestbook(ctx, r.Cluster, "v1", "v2"); err != nil {
		return err
	}
	image, err := managerImage(r.bundle)
	if err != nil {
		return err
	}
	repository, version, found := strings.Cut(image, ":")
	if !found {
		return fmt.Errorf("the bundle names the manager's image %s, want one with a tag", image)
	}
	if err := deploy.PushManager(ctx, r.Cluster, image, version); err != nil {
		return err
	}
	began := time.Now()
	if _, err := deploy.Make(ctx, r.Cluster, "deploy", "IMAGE_REPO="+repository, "VERSION="+version); err != nil {
		return err
	}
	fmt.Fprintf(r.progress, "the operator is installed: %.1f s\n", time.Since(began).Seconds())
	if err := r.prepare(ctx); err != nil {
		return err
	}
	began = time.Now()
	if err := r.scorecard(ctx); err != nil {
		return err
	}
	fmt.Fprintf(r.progress, "%d tests have run in pods: %.1f s\n", len(r.tests), time.Since(began).Seconds())
	return nil
}

// managerImage is the manager's image as the bundle names it.
func managerImage(bundle string) (string, error) {
	files, err := filepath.Glob(filepath.Join(bundle, "manifests", "*.clusterserviceversion.yaml"))
	if err != nil || len(files) != 1 {
		return "", fmt.Errorf("%d ClusterServiceVersions in the bundle: %w", len(files), err)
	}
	content, err := os.ReadFile(files[0])
	if err != nil {
		return "", err
	}
	csv := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(content, &csv.Object); err != nil {
		return "", fmt.Errorf("reading the ClusterServiceVersion: %w", err)
	}
	return csv.GetAnnotations()["containerImage"], nil
}

// pushTests pushes the tests' images, and the one to unpack the bundle. None of the
// programs but ours is an entrypoint: pods name them as commands.
func (r run) pushTests(ctx context.Context) error {
	programs, err := binaries.Ensure(ctx, binaries.Options{Progress: r.progress}, binaries.ScorecardTest)
	if err != nil {
		return err
	}
	suites, err := os.ReadFile(programs.Path(binaries.ScorecardTest))
	if err != nil {
		return err
	}
	path, err := images.Compile(ctx, images.Program{Package: "tests/images/tar"})
	if err != nil {
		return err
	}
	tar, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	all := map[string]images.Image{untarImage: {User: images.NonRoot, Files: map[string][]byte{"tar": tar}}}
	for _, test := range r.tests {
		switch suite := test.Labels["suite"]; suite {
		case "basic", "olm":
			all[test.Image] = images.Image{User: images.NonRoot, Files: map[string][]byte{"scorecard-test": suites}}
		case "kruise":
			all[test.Image] = images.Image{User: images.NonRoot, Programs: []images.Program{images.Scorecard()}}
		default:
			return fmt.Errorf("nobody knows the image of the suite %q", suite)
		}
	}
	for reference, content := range all {
		if _, err := deploy.Push(ctx, r.Cluster, reference, content); err != nil {
			return err
		}
	}
	return nil
}

// prepare makes the tests' surroundings: a namespace for their pods, an account with their
// rights, and volumes, as in a cluster with a default storage class.
func (r run) prepare(ctx context.Context) error {
	class := "standard"
	objects := []client.Object{
		&corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}},
		},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: namespace},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}},
		},
		&storagev1.StorageClass{
			ObjectMeta:        metav1.ObjectMeta{Name: class, Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
			Provisioner:       "kubernetes.io/no-provisioner",
			VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
		},
	}
	for number := range volumes {
		objects = append(objects, &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("volume-%d", number)},
			Spec: corev1.PersistentVolumeSpec{
				StorageClassName: class,
				Capacity:         corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")},
				AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{
					Path: filepath.Join(r.Cluster.Dir(), "volumes", fmt.Sprint(number)), Type: ptr.To(corev1.HostPathDirectoryOrCreate),
				}},
			},
		})
	}
	for _, object := range objects {
		if err := r.Client.Create(ctx, object); err != nil {
			return fmt.Errorf("creating %T %s: %w", object, object.GetName(), err)
		}
	}
	return nil
}

// scorecard runs operator-sdk and checks that every test of the bundle has passed.
func (r run) scorecard(ctx context.Context) error {
	programs, err := binaries.Ensure(ctx, binaries.Options{Progress: r.progress}, binaries.OperatorSDK)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, programs.Path(binaries.OperatorSDK), "scorecard", r.bundle,
		"--namespace="+namespace, "--service-account="+account, "--pod-security=restricted",
		"--untar-image="+untarImage, "--wait-time="+testsTimeout.String(), "--output=json")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+r.Cluster.AdminKubeconfig())
	cmd.Stderr = r.progress
	text, err := cmd.Output() // an error also when a test has failed, which the results say better
	results := struct {
		Items []struct {
			Spec   packaging.ScorecardTest
			Status status
		}
	}{}
	if unreadable := json.Unmarshal(text, &results); unreadable != nil {
		return fmt.Errorf("running operator-sdk scorecard: %w\n%s", errors.Join(err, unreadable), text)
	}
	passed := 0
	for _, item := range results.Items {
		for _, result := range item.Status.Results {
			fmt.Fprintf(r.output, "%s %s: %s\n", item.Spec.Labels["suite"], item.Spec.Entrypoint[1], result.State)
			// operator-sdk's own tests print whole definitions.
			if ours := item.Spec.Labels["suite"] == "kruise"; ours || !result.passed() {
				fmt.Fprint(r.output, result)
			}
			if result.passed() {
				passed++
			}
		}
	}
	if passed != len(r.tests) {
		return fmt.Errorf("%d of %d tests have passed: %w", passed, len(r.tests), errors.Join(errors.New("see above"), err))
	}
	return err
}
