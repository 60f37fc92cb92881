// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cri_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kruise-operator/kruise-operator/internal/daemon/cri"
)

// server is a runtime on a socket.
type server struct {
	runtimev1.UnimplementedRuntimeServiceServer
	runtimev1.UnimplementedImageServiceServer

	// name is the runtime's answer.
	name string
	// mute withholds even this.
	mute   atomic.Bool
	pulled chan *runtimev1.PullImageRequest
	// hangs are requests without an answer until it is closed.
	hangs chan struct{}
	// silent withholds the list of images.
	silent atomic.Bool
}

func (s *server) Version(ctx context.Context, _ *runtimev1.VersionRequest) (*runtimev1.VersionResponse, error) {
	if s.mute.Load() {
		<-ctx.Done()
	}
	return &runtimev1.VersionResponse{RuntimeName: s.name, RuntimeVersion: "v2"}, nil
}

func (*server) ImageFsInfo(context.Context, *runtimev1.ImageFsInfoRequest) (*runtimev1.ImageFsInfoResponse, error) {
	return &runtimev1.ImageFsInfoResponse{}, nil
}

func (*server) Status(context.Context, *runtimev1.StatusRequest) (*runtimev1.StatusResponse, error) {
	return &runtimev1.StatusResponse{}, nil
}

func (s *server) ImageStatus(ctx context.Context, r *runtimev1.ImageStatusRequest) (*runtimev1.ImageStatusResponse, error) {
	if s.silent.Load() && r.GetImage().GetImage() == "early:1" {
		return nil, status.Error(codes.DeadlineExceeded, "it has passed")
	}
	if s.silent.Load() {
		<-ctx.Done()
	}
	if r.GetImage().GetImage() != "known:1" {
		return &runtimev1.ImageStatusResponse{}, nil
	}
	return &runtimev1.ImageStatusResponse{Image: &runtimev1.Image{Id: "sha256:1", RepoTags: []string{"known:1"}, Size: 7}}, nil
}

func (s *server) PullImage(_ context.Context, r *runtimev1.PullImageRequest) (*runtimev1.PullImageResponse, error) {
	switch r.GetImage().GetImage() {
	case "refused:1":
		return nil, status.Error(codes.Unknown, "pull access denied")
	case "away:1":
		return nil, status.Error(codes.Unavailable, "the registry answers 503")
	case "early:1":
		return nil, status.Error(codes.Unknown, "server is not initialized yet")
	case "slow:1":
		s.pulled <- r
		<-s.hangs
	}
	s.pulled <- r
	return &runtimev1.PullImageResponse{ImageRef: "sha256:2"}, nil
}

func (*server) ListContainers(_ context.Context, r *runtimev1.ListContainersRequest) (*runtimev1.ListContainersResponse, error) {
	if r.GetFilter().GetLabelSelector()["io.kubernetes.pod.uid"] != "u1" {
		return nil, status.Error(codes.Unknown, "not limited to the pod")
	}
	return &runtimev1.ListContainersResponse{Containers: []*runtimev1.Container{{
		Id: "c1", Metadata: &runtimev1.ContainerMetadata{Name: "main", Attempt: 2}, State: runtimev1.ContainerState_CONTAINER_RUNNING,
		Labels: map[string]string{
			"io.kubernetes.container.name": "main", "io.kubernetes.pod.name": "p", "io.kubernetes.pod.namespace": "ns", "io.kubernetes.pod.uid": "u1",
		},
	}}}, nil
}

func (*server) ContainerStatus(_ context.Context, r *runtimev1.ContainerStatusRequest) (*runtimev1.ContainerStatusResponse, error) {
	if r.GetContainerId() != "c1" {
		return nil, status.Error(codes.NotFound, "no such container")
	}
	return &runtimev1.ContainerStatusResponse{
		Status: &runtimev1.ContainerStatus{Id: "c1", Metadata: &runtimev1.ContainerMetadata{}, State: runtimev1.ContainerState_CONTAINER_EXITED, ExitCode: 3},
		Info:   map[string]string{"info": `{"config":{"envs":[{"key":"A","value":"line 1\nline 2"},{"key":"B"}]}}`},
	}, nil
}

func (*server) ExecSync(_ context.Context, r *runtimev1.ExecSyncRequest) (*runtimev1.ExecSyncResponse, error) {
	n, err := strconv.Atoi(r.GetCmd()[0])
	if err != nil {
		return nil, status.Error(codes.Unknown, "no such command")
	}
	return &runtimev1.ExecSyncResponse{Stdout: make([]byte, n), ExitCode: 1}, nil
}

// listen starts a runtime on a socket.
func listen(t *testing.T, socket string) (*server, *grpc.Server) {
	t.Helper()
	return listenAs(t, "containerd", socket)
}

// listenAs starts a runtime of a name on a socket.
func listenAs(t *testing.T, name, socket string) (*server, *grpc.Server) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{name: name, pulled: make(chan *runtimev1.PullImageRequest, 1), hangs: make(chan struct{})}
	serving := grpc.NewServer()
	runtimev1.RegisterRuntimeServiceServer(serving, s)
	runtimev1.RegisterImageServiceServer(serving, s)
	go func() { _ = serving.Serve(listener) }()
	t.Cleanup(serving.Stop)
	t.Cleanup(func() { close(s.hangs) })
	return s, serving
}

func open(t *testing.T, sockets ...string) *cri.Client {
	t.Helper()
	c := cri.New(sockets, prometheus.NewRegistry())
	t.Cleanup(c.Close)
	return c
}

// folder is for sockets: their paths must be short.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "cri")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// A leftover socket beside a runtime's.
func TestTheFirstSocketThatAnswersIsUsed(t *testing.T) {
	dir := folder(t)
	stale := filepath.Join(dir, "stale.sock")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", stale)
	if err != nil {
		t.Fatal(err)
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	live := filepath.Join(dir, "live.sock")
	listen(t, live)
	got, err := open(t, filepath.Join(dir, "missing.sock"), stale, live).Status(t.Context())
	want := "containerd"
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v, status (-want +got):\n%s", err, diff)
	}
}

// A node with containerd and CRI-O: a container is asked for where its ID comes from, and an image is pulled where pods run.
func TestOfTwoRuntimesTheOneOfTheNameIsAsked(t *testing.T) {
	dir := folder(t)
	sockets := []string{filepath.Join(dir, "missing.sock"), filepath.Join(dir, "containerd.sock"), filepath.Join(dir, "crio.sock")}
	first, containerd := listen(t, sockets[1])
	second, _ := listenAs(t, "cri-o", sockets[2])
	if got, err := open(t, sockets...).Status(t.Context()); err != nil || got != "containerd" {
		t.Errorf("of no name: %q, %v, want the first", got, err)
	}
	c := open(t, sockets...)
	for _, name := range []string{"cri-o", "containerd"} {
		if got, err := c.Of(name).Status(t.Context()); err != nil || got != name {
			t.Errorf("of %q: %q, %v", name, got, err)
		}
	}
	if _, err := c.Of("cri-o").PullImage(t.Context(), cri.Pull{Image: "new:1"}); err != nil {
		t.Fatal(err)
	}
	if len(second.pulled) != 1 || len(first.pulled) != 0 {
		t.Errorf("%d pulls of containerd and %d of CRI-O, want the one of CRI-O", len(first.pulled), len(second.pulled))
	}
	var missing *cri.NoRuntimeError
	_, err := c.Of("docker").Status(t.Context())
	if !errors.As(err, &missing) || !errors.Is(err, cri.ErrUnavailable) || !strings.Contains(err.Error(), "no docker that listens on a known socket, only containerd, cri-o") {
		t.Errorf("one that is not there: %v", err)
	}

	containerd.Stop()
	if _, err := c.Of("containerd").Status(t.Context()); !errors.Is(err, cri.ErrUnavailable) {
		t.Errorf("containerd is down: %v", err)
	}
	if _, err := c.Of("containerd").Status(t.Context()); !errors.Is(err, cri.ErrUnavailable) {
		t.Errorf("containerd is still down, and CRI-O is no substitute: %v", err)
	}
	if got, err := c.Of("cri-o").Status(t.Context()); err != nil || got != "cri-o" {
		t.Errorf("CRI-O, which is not: %q, %v", got, err)
	}
	listen(t, sockets[1])
	deadline := time.Now().Add(time.Minute)
	for {
		got, err := c.Of("containerd").Status(t.Context())
		if err == nil && got == "containerd" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after it is back: %q, %v", got, err)
		}
	}
}

// A silent listener holds up only its own requests.
func TestARuntimeThatHangsHoldsUpNoOther(t *testing.T) {
	dir := folder(t)
	sockets := []string{filepath.Join(dir, "containerd.sock"), filepath.Join(dir, "crio.sock")}
	hanging, _ := listen(t, sockets[0])
	listenAs(t, "cri-o", sockets[1])
	c := open(t, sockets...)
	hanging.mute.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Of("containerd").Status(ctx); !errors.Is(err, cri.ErrUnavailable) {
		t.Errorf("the one that hangs: %v", err)
	}
	if got, err := c.Of("cri-o").Status(t.Context()); err != nil || got != "cri-o" {
		t.Errorf("the other: %q, %v", got, err)
	}
}

func TestWithoutASocketTheRuntimeIsUnavailable(t *testing.T) {
	_, err := open(t, "/nowhere/a.sock", "/nowhere/b.sock").Status(t.Context())
	if !errors.Is(err, cri.ErrUnavailable) || !strings.Contains(err.Error(), "/nowhere/b.sock") {
		t.Errorf("got %v; it should name the sockets that were tried", err)
	}
}

func TestARuntimeThatRestartsIsFoundAgain(t *testing.T) {
	socket := filepath.Join(folder(t), "c.sock")
	_, first := listen(t, socket)
	c := open(t, socket)
	if _, err := c.Status(t.Context()); err != nil {
		t.Fatal(err)
	}
	first.Stop()
	if _, err := c.Status(t.Context()); !errors.Is(err, cri.ErrUnavailable) {
		t.Fatalf("while it is down: %v", err)
	}
	listen(t, socket)
	deadline := time.Now().Add(time.Minute)
	for {
		_, err := c.Status(t.Context())
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after it is back: %v", err)
		}
	}
}

// An absent registry is no absent runtime: the try has failed, other pulls go on.
func TestARegistryThatIsAwayLeavesOtherPullsAlone(t *testing.T) {
	socket := filepath.Join(folder(t), "c.sock")
	s, _ := listen(t, socket)
	c := open(t, socket)
	other := make(chan error, 1)
	go func() {
		_, err := c.PullImage(t.Context(), cri.Pull{Image: "slow:1"})
		other <- err
	}()
	<-s.pulled
	if _, err := c.PullImage(t.Context(), cri.Pull{Image: "away:1"}); err == nil || errors.Is(err, cri.ErrUnavailable) || !strings.Contains(err.Error(), "503") {
		t.Errorf("the registry is away: %v", err)
	}
	s.hangs <- struct{}{}
	<-s.pulled // it hands the request over, as every pull
	if err := <-other; err != nil {
		t.Errorf("the other pull: %v", err)
	}
}

// One request finds nobody and closes the connection. For the others on it this says
// nothing about their images.
func TestAPullThatEndsWithTheConnectionWasNotRefused(t *testing.T) {
	socket := filepath.Join(folder(t), "c.sock")
	s, _ := listen(t, socket)
	c := open(t, socket)
	other := make(chan error, 1)
	go func() {
		_, err := c.PullImage(t.Context(), cri.Pull{Image: "slow:1"})
		other <- err
	}()
	<-s.pulled
	c.Close()
	if err := <-other; !errors.Is(err, cri.ErrUnavailable) {
		t.Errorf("the pull: %v", err)
	}
	if _, err := c.PullImage(t.Context(), cri.Pull{Image: "early:1"}); !errors.Is(err, cri.ErrUnavailable) {
		t.Errorf("a runtime that has just begun to listen: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.PullImage(ctx, cri.Pull{Image: "new:1"}); err == nil {
		t.Error("who has given up gets no image")
	}
}

// silenced connects to a runtime without a list of images.
func silenced(t *testing.T) *cri.Client {
	t.Helper()
	socket := filepath.Join(folder(t), "c.sock")
	s, _ := listen(t, socket)
	c := open(t, socket)
	if _, err := c.Status(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.silent.Store(true)
	return c
}

// A hanging runtime answers neither yes nor no.
func TestARuntimeThatHangsIsUnavailable(t *testing.T) {
	c := silenced(t)
	c.SetTimeout(50 * time.Millisecond)
	if _, err := c.ImageID(t.Context(), "known:1"); !errors.Is(err, cri.ErrUnavailable) {
		t.Errorf("by its own deadline: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := c.ImageID(ctx, "known:1"); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, cri.ErrUnavailable) {
		t.Errorf("by the deadline of who asks: %v", err)
	}
}

// The runtime knows the caller's deadline, and may report it first.
func TestADeadlineThatTheRuntimeSeesFirstIsThatOfWhoAsks(t *testing.T) {
	c := silenced(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.ImageID(ctx, "early:1"); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, cri.ErrUnavailable) {
		t.Errorf("just before the deadline: %v", err)
	}
	if _, err := c.ImageID(t.Context(), "early:1"); !errors.Is(err, cri.ErrUnavailable) {
		t.Errorf("long before one: %v", err)
	}
}

func TestRequests(t *testing.T) {
	socket := filepath.Join(folder(t), "c.sock")
	s, _ := listen(t, socket)
	c := open(t, socket)

	containers, err := c.ListContainers(t.Context(), "u1")
	if err != nil || len(containers) != 1 {
		t.Fatalf("containers %v, %v", containers, err)
	}
	if got := containers[0]; got.Name != "main" || got.Attempt != 2 || !got.Running {
		t.Errorf("container %+v", got)
	}
	container, err := c.ContainerStatus(t.Context(), "c1")
	if err != nil || !container.Exited || container.ExitCode != 3 {
		t.Errorf("status %+v, %v", container, err)
	}
	if diff := cmp.Diff([]string{"A=line 1\nline 2", "B="}, container.Environment); diff != "" {
		t.Errorf("environment:\n%s", diff)
	}
	if _, err := c.ContainerStatus(t.Context(), "c2"); !errors.Is(err, cri.ErrNotFound) {
		t.Errorf("a container that is gone: %v", err)
	}
	if image, err := c.ImageID(t.Context(), "known:1"); err != nil || image != "sha256:1" {
		t.Errorf("image %+v, %v", image, err)
	}
	if _, err := c.ImageID(t.Context(), "other:1"); !errors.Is(err, cri.ErrNotFound) {
		t.Errorf("an image that is not there: %v", err)
	}
	if _, err := c.PullImage(t.Context(), cri.Pull{Image: "refused:1"}); err == nil || !strings.Contains(err.Error(), "pull access denied") ||
		errors.Is(err, cri.ErrUnavailable) {
		t.Errorf("a pull that is refused: %v", err)
	}
	ref, err := c.PullImage(t.Context(), cri.Pull{
		Image: "new:1", Credentials: &cri.Credentials{Username: "u", Password: "p", IdentityToken: "i", RegistryToken: "r"},
		Annotations: map[string]string{"a": "b"},
	})
	if err != nil || ref != "sha256:2" {
		t.Fatalf("pulled %q, %v", ref, err)
	}
	sent := <-s.pulled
	if a := sent.GetAuth(); a.GetUsername() != "u" || a.GetPassword() != "p" || a.GetIdentityToken() != "i" || a.GetRegistryToken() != "r" ||
		a.GetServerAddress() != "" {
		t.Errorf("credentials %v", a)
	}
	if sent.GetSandboxConfig().GetAnnotations()["a"] != "b" {
		t.Errorf("sandbox %v", sent.GetSandboxConfig())
	}
}

// How long a pull or a command takes says nothing about the runtime.
func TestWhatTheRuntimeAnswersAtOnceIsTimedByMethod(t *testing.T) {
	socket := filepath.Join(folder(t), "c.sock")
	listen(t, socket)
	registry := prometheus.NewRegistry()
	c := cri.New([]string{socket}, registry)
	t.Cleanup(c.Close)
	for range 2 {
		if _, err := c.ListContainers(t.Context(), "u1"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.ContainerStatus(t.Context(), "c2"); !errors.Is(err, cri.ErrNotFound) {
		t.Fatal(err)
	}
	if _, err := c.PullImage(t.Context(), cri.Pull{Image: "new:1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec(t.Context(), "c1", []string{"1"}, time.Second); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]uint64{}
	for _, family := range families {
		if family.GetName() != "kruise_daemon_cri_request_duration_seconds" {
			continue
		}
		for _, metric := range family.GetMetric() {
			got[metric.GetLabel()[0].GetValue()] = metric.GetHistogram().GetSampleCount()
		}
	}
	// The first two are how the runtime is found.
	if diff := cmp.Diff(map[string]uint64{"Version": 1, "ImageFsInfo": 1, "ListContainers": 2, "ContainerStatus": 1}, got); diff != "" {
		t.Errorf("requests by method (-want +got):\n%s", diff)
	}
}

// A user's endless output must not use up the memory of the daemon all pods of the node
// share.
func TestACommandThatWritesTooMuchIsAnErrorOfItsOwn(t *testing.T) {
	socket := filepath.Join(folder(t), "c.sock")
	listen(t, socket)
	c := open(t, socket)
	if result, err := c.Exec(t.Context(), "c1", []string{"1000000"}, time.Second); err != nil || len(result.Stdout) != 1000000 || result.ExitCode != 1 {
		t.Errorf("%d bytes, code %d, %v", len(result.Stdout), result.ExitCode, err)
	}
	_, err := c.Exec(t.Context(), "c1", []string{"1100000"}, time.Second)
	if !errors.Is(err, cri.ErrOutput) || errors.Is(err, cri.ErrUnavailable) || !strings.Contains(err.Error(), "1024 KiB") {
		t.Errorf("%v", err)
	}
	if _, err := c.ContainerStatus(t.Context(), "c1"); err != nil {
		t.Errorf("after that: %v", err)
	}
}

func TestCredentialsAreNotPrinted(t *testing.T) {
	pull := cri.Pull{Image: "a:1", Credentials: &cri.Credentials{Password: "hush"}}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(format, pull.Credentials); strings.Contains(text, "hush") {
			t.Errorf("%s prints %s", format, text)
		}
		if text := fmt.Sprintf(format, *pull.Credentials); strings.Contains(text, "hush") {
			t.Errorf("%s prints %s", format, text)
		}
	}
}
