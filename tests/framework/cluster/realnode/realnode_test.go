// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/realnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/images"
)

func TestPodLivesOnNode(t *testing.T) {
	before := hostState(t)
	lap := stopwatch(t)
	c := cluster.StartForTest(t, cluster.Options{RealNodes: 1})
	lap("control plane and one node ready")
	network, node := networkOf(t, c), c.RealNodes()[0]
	pushGuestbooks(t, network)
	lap("two images built and pushed")
	pods := podsOf(t, c)

	pod := guestbookPod("web", node.Name(), "v1")
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
		Name: "sidecar", Image: "openkruise/guestbook:v1", Args: []string{"-listen=:3001"},
	})
	create(t, pods, pod)
	first := waitForPod(t, pods, "web", isReady)
	lap("pod created and ready")
	sandbox := sandboxOf(t, node, first)
	if !node.PodRange().Contains(addressOf(t, first)) {
		t.Errorf("the pod has the address %s, want one of %s", first.Status.PodIP, node.PodRange())
	}
	if got := get(t, "http://"+first.Status.PodIP+":3000/version"); got != "v1\n" {
		t.Errorf("the pod answers %q, want v1", got)
	}

	patch(t, pods, "web", `{"spec":{"containers":[{"name":"web","image":"openkruise/guestbook:v2"}]}}`)
	updated := waitForPod(t, pods, "web", func(pod *corev1.Pod) error {
		if status := containerStatus(pod, "web"); status.RestartCount != 1 || status.ContainerID == containerStatus(first, "web").ContainerID {
			return fmt.Errorf("the container is not replaced: %+v", status)
		}
		return isReady(pod)
	})
	lap("image updated in place, image pulled")
	if got := get(t, "http://"+updated.Status.PodIP+":3000/version"); got != "v2\n" {
		t.Errorf("the updated pod answers %q, want v2", got)
	}
	assertSamePod(t, first, updated)
	if is := sandboxOf(t, node, updated); is != sandbox {
		t.Errorf("the sandbox %s became %s", sandbox, is)
	}
	if was, is := containerStatus(first, "web"), containerStatus(updated, "web"); was.ImageID == is.ImageID {
		t.Errorf("both images have the ID %s", is.ImageID)
	}

	patch(t, pods, "web", `{"spec":{"containers":[{"name":"web","image":"openkruise/guestbook:v1"}]}}`)
	updated = waitForPod(t, pods, "web", func(pod *corev1.Pod) error {
		if status := containerStatus(pod, "web"); status.RestartCount != 2 || status.ImageID != containerStatus(first, "web").ImageID {
			return fmt.Errorf("the container is not back at its first image: %+v", status)
		}
		return isReady(pod)
	})
	lap("image updated in place, image present")
	assertSamePod(t, first, updated)

	patch(t, pods, "web", `{"spec":{"containers":[{"name":"web","resources":{"requests":{"cpu":"150m"},"limits":{"cpu":"200m"}}}]}}`, "resize")
	resized := waitForPod(t, pods, "web", func(pod *corev1.Pod) error {
		if status := containerStatus(pod, "web"); status.Resources == nil || status.Resources.Limits.Cpu().MilliValue() != 200 {
			return fmt.Errorf("the container runs with %+v", status.Resources)
		}
		return nil
	})
	lap("resized in place")
	if was, is := containerStatus(updated, "web"), containerStatus(resized, "web"); was.ContainerID != is.ContainerID || was.RestartCount != is.RestartCount {
		t.Errorf("the resize replaced container %s (%d restarts) by %s (%d restarts)", was.ContainerID, was.RestartCount, is.ContainerID, is.RestartCount)
	}
	assertSamePod(t, first, resized)

	// The kubelet serves logs and exec to the API server.
	logs, err := pods.GetLogs("web", &corev1.PodLogOptions{Container: "web"}).DoRaw(t.Context())
	if err != nil || !strings.Contains(string(logs), "guestbook v1 serves") {
		t.Errorf("the log of the container is %q (%v)", logs, err)
	}
	if output, err := c.Kubectl(t.Context(), "exec", "web", "-c", "web", "--", "/guestbook", "-h").CombinedOutput(); err != nil ||
		!strings.Contains(string(output), "drain-delay") {
		t.Errorf("exec answers %q (%v)", output, err)
	}
	// A client in the pod reaches the API server at the address of its Service.
	api := "https://" + serviceAddress(t, c) + "/version"
	if got := get(t, "http://"+first.Status.PodIP+":3000/fetch?url="+url.QueryEscape(api)); !strings.Contains(got, c.Version()) {
		t.Errorf("the API server answers the pod %q, want its version %s", got, c.Version())
	}
	lap("logs, exec and API access")

	found := tracesOf(t, network, node)
	if err := pods.Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod is gone", func() error { return isGone(t, pods, "web") })
	lap("pod deleted")

	// Another pod keeps the node busy while it is stopped.
	create(t, pods, guestbookPod("busy", node.Name(), "v1"))
	waitForPod(t, pods, "busy", isReady)
	found.Processes = append(found.Processes, tracesOf(t, network, node).Processes...)
	lap("second pod created and ready")
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	lap("cluster with its node stopped")
	if err := found.left(t); err != nil {
		t.Error(err)
	}
	if after := hostState(t); after != before {
		t.Errorf("the machine has changed from\n%s\nto\n%s", before, after)
	}
}

func TestNodesSideBySide(t *testing.T) {
	sample.Long(t, "one node here, and two in node/daemon")
	lap := stopwatch(t)
	c := cluster.StartForTest(t, cluster.Options{RealNodes: 2})
	lap("control plane and two nodes ready")
	network, nodes := networkOf(t, c), c.RealNodes()
	pushGuestbooks(t, network)
	pods := podsOf(t, c)

	for _, node := range nodes {
		pod := guestbookPod("on-"+node.Name(), node.Name(), "v1")
		// The same port on both nodes.
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 3000, HostPort: 8080}}
		create(t, pods, pod)
	}
	first := waitForPod(t, pods, "on-"+nodes[0].Name(), isReady)
	second := waitForPod(t, pods, "on-"+nodes[1].Name(), isReady)
	for _, from := range []*corev1.Pod{first, second} {
		for i, to := range []*corev1.Pod{first, second} {
			for _, target := range []string{to.Status.PodIP + ":3000", nodes[i].Address().String() + ":8080"} {
				got := get(t, "http://"+from.Status.PodIP+":3000/fetch?url="+url.QueryEscape("http://"+target+"/"))
				if !strings.Contains(got, "guestbook v1 on "+to.Name) {
					t.Errorf("from pod %s, %s answers %q, want pod %s", from.Name, target, got, to.Name)
				}
			}
		}
	}

	lap("pods on both nodes ready, each reaching both")

	// One image under two names.
	create(t, pods, guestbookPod("same", nodes[0].Name(), "v1-again"))
	same := waitForPod(t, pods, "same", isReady)
	if was, is := containerStatus(first, "web").ImageID, containerStatus(same, "web").ImageID; imageDigest(was) != imageDigest(is) {
		t.Errorf("one image under two names has the IDs %s and %s", was, is)
	}
	create(t, pods, guestbookPod("missing", nodes[0].Name(), "missing"))
	waitForPod(t, pods, "missing", func(pod *corev1.Pod) error {
		waiting := containerStatus(pod, "web").State.Waiting
		if waiting == nil || waiting.Reason != "ErrImagePull" && waiting.Reason != "ImagePullBackOff" || !strings.Contains(waiting.Message, "not found") {
			return fmt.Errorf("the container waits for %+v", waiting)
		}
		return nil
	})
	image, err := images.Build(t.Context(), images.Guestbook("imported"))
	if err != nil {
		t.Fatal(err)
	}
	if err := nodes[0].ImportImage(t.Context(), "openkruise/guestbook:imported", image); err != nil {
		t.Fatal(err)
	}
	imported := guestbookPod("imported", nodes[0].Name(), "imported")
	imported.Spec.Containers[0].ImagePullPolicy = corev1.PullNever
	create(t, pods, imported)
	waitForPod(t, pods, "imported", isReady)

	lap("three more pods, one image missing, one imported")

	// Containers outlive their supervisors.
	for _, program := range []string{realnode.Kubelet, realnode.Containerd} {
		if err := nodes[0].StopProgram(t.Context(), program); err != nil {
			t.Fatal(err)
		}
	}
	if got := get(t, "http://"+first.Status.PodIP+":3000/version"); got != "v1\n" {
		t.Errorf("without the kubelet and the runtime the pod answers %q", got)
	}
	for _, program := range []string{realnode.Containerd, realnode.Kubelet} {
		if err := nodes[0].StartProgram(t.Context(), program); err != nil {
			t.Fatal(err)
		}
	}
	create(t, pods, guestbookPod("later", nodes[0].Name(), "v2"))
	waitForPod(t, pods, "later", isReady)
	again := waitForPod(t, pods, first.Name, isReady)
	assertSamePod(t, first, again)
	if was, is := containerStatus(first, "web").ContainerID, containerStatus(again, "web").ContainerID; was != is {
		t.Errorf("the restart of the node's programs replaced container %s by %s", was, is)
	}

	lap("kubelet and containerd restarted, another pod ready")

	// One node goes, the other one stays, and the number of the first is free again.
	gone := tracesOf(t, network, nodes[0])
	if err := nodes[0].Stop(); err != nil {
		t.Fatal(err)
	}
	gone.Interface = link{} // belongs to both
	if err := gone.left(t); err != nil {
		t.Error(err)
	}
	if got := get(t, "http://"+second.Status.PodIP+":3000/version"); got != "v1\n" {
		t.Errorf("after the other node ended the pod answers %q", got)
	}
	lap("one node stopped")
	third, err := c.AddRealNode(t.Context(), realnode.Options{
		Name: "third", Labels: map[string]string{"zone": "c"}, Taints: []string{"only=this:NoSchedule"},
		KubeletConfig: map[string]any{"maxPods": 7},
	})
	if err != nil {
		t.Fatal(err)
	}
	if third.Address() != nodes[0].Address() {
		t.Errorf("the third node has the address %s, want the freed %s", third.Address(), nodes[0].Address())
	}
	object, err := clientsetOf(t, c).CoreV1().Nodes().Get(t.Context(), "third", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if object.Labels["zone"] != "c" || object.Status.Capacity.Pods().Value() != 7 || len(object.Spec.Taints) == 0 || object.Spec.Taints[0].Key != "only" {
		t.Errorf("the node has registered with labels %v, %s pods and taints %v", object.Labels, object.Status.Capacity.Pods(), object.Spec.Taints)
	}
	lap("third node ready")
	create(t, pods, guestbookPod("on-third", "third", "v1"))
	waitForPod(t, pods, "on-third", isReady)
}

// ownerVariable makes TestOwner, in a process of its own, start a node and wait.
const ownerVariable = "KRUISE_TEST_NODE_OWNER"

func TestOwner(t *testing.T) {
	if os.Getenv(ownerVariable) == "" {
		t.Skip("skipped: it is the process that TestNothingIsLeftOfDeadOwner kills")
	}
	c := cluster.StartForTest(t, cluster.Options{RealNodes: 1})
	network, node := networkOf(t, c), c.RealNodes()[0]
	pushGuestbooks(t, network)
	create(t, podsOf(t, c), guestbookPod("web", node.Name(), "v1"))
	waitForPod(t, podsOf(t, c), "web", isReady)
	if err := json.NewEncoder(os.Stdout).Encode(tracesOf(t, network, node)); err != nil {
		t.Fatal(err)
	}
	// Until it, or the one to kill it, is gone.
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// TestNothingIsLeftOfDeadOwner ends the owner in one of four ways a day.
func TestNothingIsLeftOfDeadOwner(t *testing.T) {
	if err := realnode.Check(); err != nil {
		skipOrFail(t, err)
	}
	cases := map[string]func(owner *exec.Cmd, node traces) error{
		"the owner is interrupted": func(owner *exec.Cmd, _ traces) error { return owner.Process.Signal(os.Interrupt) },
		"the owner is killed":      func(owner *exec.Cmd, _ traces) error { return owner.Process.Kill() },
		"the owner and the first process of the node are killed": func(owner *exec.Cmd, node traces) error {
			// The owner must not see the node end, nor the node its owner.
			stopped := owner.Process.Signal(syscall.SIGSTOP)
			return errors.Join(stopped, syscall.Kill(node.Processes[0].ID, syscall.SIGKILL), owner.Process.Kill())
		},
		"Ctrl-C reaches the whole process group": func(owner *exec.Cmd, _ traces) error {
			return syscall.Kill(-owner.Process.Pid, syscall.SIGINT)
		},
	}
	for i, name := range slices.Sorted(maps.Keys(cases)) {
		if !sample.Has(i, len(cases)) {
			continue
		}
		kill := cases[name]
		t.Run(name, func(t *testing.T) {
			owner := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOwner$")
			owner.Env = append(os.Environ(), ownerVariable+"=1", cluster.RequireVariable+"=1")
			owner.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			owner.Stderr = os.Stderr
			input, err := owner.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = input.Close() }()
			output, err := owner.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := owner.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = owner.Process.Kill()
				_ = owner.Wait()
			}()
			line, err := bufio.NewReader(output).ReadString('\n')
			if err != nil {
				t.Fatalf("the owner ended before its node ran: %v %s", err, line)
			}
			var node traces
			if err := json.Unmarshal([]byte(line), &node); err != nil {
				t.Fatalf("reading %q: %v", line, err)
			}

			if err := kill(owner, node); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			eventually(t, "nothing is left of the node", func() error {
				// Only needed when the first process of the node could not do it.
				if strings.Contains(name, "first process") {
					if err := realnode.RemoveLeftovers(); err != nil {
						return err
					}
				}
				return node.left(t)
			})
			t.Logf("gone after %s", time.Since(start).Round(time.Millisecond))
		})
	}
}

// stopwatch returns a function to log the time of the last step.
func stopwatch(t *testing.T) func(step string) {
	start := time.Now()
	return func(step string) {
		t.Logf("%6.2f s  %s", time.Since(start).Seconds(), step)
		start = time.Now()
	}
}

func skipOrFail(t *testing.T, reason error) {
	t.Helper()
	if cluster.Required() {
		t.Fatal(reason)
	}
	t.Skipf("skipped, %v", reason)
}

func networkOf(t *testing.T, c *cluster.Cluster) *realnode.Network {
	t.Helper()
	network, err := c.NodeNetwork(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return network
}

// pushGuestbooks pushes v1, v2 and, as the same image as v1, v1-again.
func pushGuestbooks(t *testing.T, network *realnode.Network) {
	t.Helper()
	for tag, version := range map[string]string{"v1": "v1", "v1-again": "v1", "v2": "v2"} {
		image, err := images.Build(t.Context(), images.Guestbook(version))
		if err != nil {
			t.Fatal(err)
		}
		if err := network.Push(t.Context(), "openkruise/guestbook:"+tag, image); err != nil {
			t.Fatal(err)
		}
	}
}

func clientsetOf(t *testing.T, c *cluster.Cluster) *kubernetes.Clientset {
	t.Helper()
	clientset, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	return clientset
}

func podsOf(t *testing.T, c *cluster.Cluster) typedcorev1.PodInterface {
	t.Helper()
	return clientsetOf(t, c).CoreV1().Pods(metav1.NamespaceDefault)
}

// guestbookPod is a pod on the node with a probed container "web" and pull policy Always.
func guestbookPod(name, node, tag string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{corev1.LabelHostname: node},
			Tolerations:  []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: "web", Image: "openkruise/guestbook:" + tag, ImagePullPolicy: corev1.PullAlways,
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m")},
					Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")},
				},
				ReadinessProbe: &corev1.Probe{
					PeriodSeconds: 1,
					ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
						Path: "/healthz", Port: intstr.FromInt32(3000),
					}},
				},
			}},
		},
	}
}

func create(t *testing.T, pods typedcorev1.PodInterface, pod *corev1.Pod) {
	t.Helper()
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func patch(t *testing.T, pods typedcorev1.PodInterface, name, content string, subresources ...string) {
	t.Helper()
	_, err := pods.Patch(t.Context(), name, types.StrategicMergePatchType, []byte(content), metav1.PatchOptions{}, subresources...)
	if err != nil {
		t.Fatal(err)
	}
}

func waitForPod(t *testing.T, pods typedcorev1.PodInterface, name string, check func(*corev1.Pod) error) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	eventually(t, "pod "+name, func() (err error) {
		if pod, err = pods.Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			return err
		}
		return check(pod)
	})
	return pod
}

func isReady(pod *corev1.Pod) error {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("the pod is not ready: %+v", pod.Status)
}

func isGone(t *testing.T, pods typedcorev1.PodInterface, name string) error {
	t.Helper()
	_, err := pods.Get(t.Context(), name, metav1.GetOptions{})
	if err == nil {
		return errors.New("it is still there")
	}
	return client.IgnoreNotFound(err)
}

func containerStatus(pod *corev1.Pod, name string) corev1.ContainerStatus {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == name {
			return status
		}
	}
	return corev1.ContainerStatus{}
}

// assertSamePod checks the fields only a new pod changes, and all other containers.
func assertSamePod(t *testing.T, was, is *corev1.Pod) {
	t.Helper()
	if was.UID != is.UID || was.Status.PodIP != is.Status.PodIP || was.Status.PodIP == "" {
		t.Errorf("pod %s at %s became %s at %s", was.UID, was.Status.PodIP, is.UID, is.Status.PodIP)
	}
	before, after := containerStatus(was, "sidecar"), containerStatus(is, "sidecar")
	if before.ContainerID != after.ContainerID || before.RestartCount != after.RestartCount {
		t.Errorf("the other container %s became %s", before.ContainerID, after.ContainerID)
	}
}

// sandboxOf asks the runtime for the sandbox of a pod.
func sandboxOf(t *testing.T, node *realnode.Node, pod *corev1.Pod) string {
	t.Helper()
	filter := fmt.Sprintf(`labels."io.kubernetes.pod.uid"==%s,labels."io.cri-containerd.kind"==sandbox`, pod.UID)
	output, err := node.Command(t.Context(), "ctr", "--namespace=k8s.io", "containers", "list", "--quiet", filter).Output()
	sandbox := strings.TrimSpace(string(output))
	if err != nil || sandbox == "" || strings.Contains(sandbox, "\n") {
		t.Fatalf("asking for the sandbox of pod %s: %q (%v)", pod.Name, sandbox, err)
	}
	return sandbox
}

// imageDigest is the part of an image ID behind the name.
func imageDigest(id string) string { return id[strings.LastIndex(id, "@")+1:] }

func addressOf(t *testing.T, pod *corev1.Pod) netip.Addr {
	t.Helper()
	address, err := netip.ParseAddr(pod.Status.PodIP)
	if err != nil {
		t.Fatal(err)
	}
	return address
}

func serviceAddress(t *testing.T, c *cluster.Cluster) string {
	t.Helper()
	service, err := clientsetOf(t, c).CoreV1().Services(metav1.NamespaceDefault).Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return service.Spec.ClusterIP
}

func get(t *testing.T, address string) string {
	t.Helper()
	const limit = 10 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	// Not the default client: a proxy does not know the addresses of pods.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
