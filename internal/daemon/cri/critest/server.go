// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package critest

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// served is a runtime behind a socket. Other requests are unimplemented.
type served struct {
	runtimev1.UnimplementedRuntimeServiceServer
	runtimev1.UnimplementedImageServiceServer
	runtime *Runtime
}

// Serve answers an idle daemon on a socket: the runtime's name, running containers, images.
// Stop ends it.
func (r *Runtime) Serve(ctx context.Context, socket string) (stop func(), err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("listening as a runtime: %w", err)
	}
	s := &served{runtime: r}
	server := grpc.NewServer()
	runtimev1.RegisterRuntimeServiceServer(server, s)
	runtimev1.RegisterImageServiceServer(server, s)
	go func() { _ = server.Serve(listener) }() // it ends with Stop
	return server.Stop, nil
}

func (*served) Version(context.Context, *runtimev1.VersionRequest) (*runtimev1.VersionResponse, error) {
	return &runtimev1.VersionResponse{RuntimeName: "containerd", RuntimeVersion: "v2", RuntimeApiVersion: "v1"}, nil
}

func (*served) Status(context.Context, *runtimev1.StatusRequest) (*runtimev1.StatusResponse, error) {
	ready := &runtimev1.RuntimeCondition{Type: runtimev1.RuntimeReady, Status: true}
	return &runtimev1.StatusResponse{Status: &runtimev1.RuntimeStatus{Conditions: []*runtimev1.RuntimeCondition{ready}}}, nil
}

func (*served) ImageFsInfo(context.Context, *runtimev1.ImageFsInfoRequest) (*runtimev1.ImageFsInfoResponse, error) {
	return &runtimev1.ImageFsInfoResponse{}, nil
}

func (s *served) ListContainers(ctx context.Context, request *runtimev1.ListContainersRequest) (*runtimev1.ListContainersResponse, error) {
	of := request.GetFilter().GetLabelSelector()["io.kubernetes.pod.uid"]
	containers, err := s.runtime.ListContainers(ctx, of)
	if err != nil {
		return nil, err
	}
	answer := &runtimev1.ListContainersResponse{}
	for _, c := range containers {
		answer.Containers = append(answer.Containers, &runtimev1.Container{
			Id: c.ID, Metadata: &runtimev1.ContainerMetadata{Name: c.Name, Attempt: c.Attempt}, State: runtimev1.ContainerState_CONTAINER_RUNNING,
			Labels: map[string]string{"io.kubernetes.container.name": c.Name, "io.kubernetes.pod.uid": of},
		})
	}
	return answer, nil
}

func (*served) ListPodSandbox(context.Context, *runtimev1.ListPodSandboxRequest) (*runtimev1.ListPodSandboxResponse, error) {
	return &runtimev1.ListPodSandboxResponse{}, nil
}

func (*served) ListImages(context.Context, *runtimev1.ListImagesRequest) (*runtimev1.ListImagesResponse, error) {
	return &runtimev1.ListImagesResponse{}, nil
}
