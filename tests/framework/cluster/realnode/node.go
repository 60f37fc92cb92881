// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package realnode

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/pki"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/realnode/internal/nodespec"
	"github.com/kruise-operator/kruise-operator/tests/framework/images"
)

// Programs of a node for stopping and starting.
const (
	Kubelet    = "kubelet"
	Containerd = "containerd"
)

// readyTimeout is how long a node may take to become ready in the API.
const readyTimeout = 60 * time.Second

// Node is a running node.
type Node struct {
	name    string
	network *Network
	number  int // of the node in its network
	state   *state
	log     map[string]string // log file by program

	command  *exec.Cmd // nodeinit
	lifeline io.Closer // closing it ends the node
	requests *json.Encoder
	errors   *bytes.Buffer // what nodeinit printed; to be read after exited is closed
	exited   chan struct{}
	exit     error // how nodeinit ended; to be read after exited is closed
	stop     sync.Once
	stopped  error

	mutex   sync.Mutex
	changed chan struct{} // closed and replaced at each event
	running map[string]bool
	failure string   // of the last request
	ended   []string // programs that ended unasked, and how
}

// Start starts a node and returns when it is ready in the API. Stop ends it, and so does
// the end of this process. It first removes dead processes' nodes.
func Start(ctx context.Context, options Options) (_ *Node, err error) {
	if err := options.check(); err != nil {
		return nil, err
	}
	if err := removeLeftovers(); err != nil {
		return nil, fmt.Errorf("removing what earlier nodes left: %w", err)
	}
	program, err := images.Compile(ctx, images.Program{Package: "tests/framework/cluster/realnode/nodeinit"})
	if err != nil {
		return nil, err
	}
	state, err := newState()
	if err != nil {
		return nil, fmt.Errorf("making the folder of node %s: %w", options.Name, err)
	}
	n := &Node{
		name: options.Name, network: options.Network, state: state, log: map[string]string{},
		exited: make(chan struct{}), changed: make(chan struct{}), running: map[string]bool{}, errors: &bytes.Buffer{},
	}
	if err := n.launch(program); err != nil {
		return nil, errors.Join(fmt.Errorf("starting node %s: %w", options.Name, err), state.remove())
	}
	defer func() {
		if err != nil {
			// The logs have to be read before Stop removes them.
			err = errors.Join(fmt.Errorf("starting node %s: %w%s", options.Name, err, n.logTails()), n.Stop())
		}
	}()

	if n.number, err = options.Network.attach(n.command.Process.Pid); err != nil {
		return nil, err
	}
	client, err := options.Authority.Client("system:node:"+n.name, "system:nodes")
	if err != nil {
		return nil, fmt.Errorf("issuing the certificate of the kubelet: %w", err)
	}
	spec, err := n.configure(options, client)
	if err != nil {
		return nil, err
	}
	if err := n.requests.Encode(spec); err != nil {
		return nil, fmt.Errorf("describing the node to its first process: %w", err)
	}
	for _, process := range spec.Processes {
		if err := n.waitFor(ctx, process.Name, true); err != nil {
			return nil, err
		}
	}
	if err := n.waitReady(ctx, options, client); err != nil {
		return nil, err
	}
	return n, nil
}

func (o *Options) check() error {
	if err := Check(); err != nil {
		return err
	}
	if o.Name == "" || o.Network == nil || o.Authority == nil || o.KubeletPath == "" {
		return errors.New("a node needs Name, Network, Authority and KubeletPath")
	}
	for _, hidden := range []string{"/run/", "/var/lib/", "/var/log/", "/var/run/"} {
		if strings.HasPrefix(o.KubeletPath, hidden) {
			return fmt.Errorf("the kubelet %s cannot be seen inside a node, which has its own %s", o.KubeletPath, hidden)
		}
	}
	if o.ServerName == "" {
		o.ServerName = "127.0.0.1"
	}
	return nil
}

// launch starts nodeinit in namespaces of its own. It waits for its description.
func (n *Node) launch(program string) error {
	command := exec.Command(program)
	command.Dir = "/"
	command.Env = environment()
	command.Stderr = n.errors
	// nodeinit shares the lock on the folder, since it outlives this process while it cleans up.
	command.ExtraFiles = []*os.File{n.state.lock.File()}
	command.SysProcAttr = newNamespaces()
	input, err := command.StdinPipe()
	if err != nil {
		return err
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	n.command, n.lifeline, n.requests = command, input, json.NewEncoder(input)
	go n.follow(output)
	return nil
}

// follow records nodeinit's reports until it ends.
func (n *Node) follow(output io.Reader) {
	events := json.NewDecoder(output)
	for {
		var event nodespec.Event
		if err := events.Decode(&event); err != nil {
			break
		}
		n.mutex.Lock()
		if event.Process != "" {
			n.running[event.Process] = event.Running
		}
		if event.Error != "" {
			n.failure = strings.TrimSpace(event.Process + " " + event.Error)
		}
		if event.Error != "" && event.Process != "" {
			n.ended = append(n.ended, n.failure)
		}
		close(n.changed)
		n.changed = make(chan struct{})
		n.mutex.Unlock()
	}
	n.exit = n.command.Wait()
	close(n.exited)
}

// waitFor waits until a process runs, or does not.
func (n *Node) waitFor(ctx context.Context, process string, running bool) error {
	for {
		n.mutex.Lock()
		is, failure, changed := n.running[process], n.failure, n.changed
		n.mutex.Unlock()
		if is == running {
			return nil
		}
		if failure != "" && running {
			return errors.New(failure)
		}
		select {
		case <-changed:
		case <-n.exited:
			return n.gone()
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", process, context.Cause(ctx))
		}
	}
}

// configure writes the files of the node and describes its inside.
func (n *Node) configure(options Options, client pki.Pair) (nodespec.Spec, error) {
	plugins, err := cniFolder()
	if err != nil {
		return nodespec.Spec{}, err
	}
	runtime, err := lookPath("containerd")
	if err != nil {
		return nodespec.Spec{}, err
	}
	serving, err := options.Authority.Server("system:node:"+n.name, n.name, n.Address().String(), "127.0.0.1", "localhost")
	if err != nil {
		return nodespec.Spec{}, fmt.Errorf("issuing the serving certificate of the kubelet: %w", err)
	}
	written := &files{root: n.state.Folder}
	written.containerd(plugins, n.network.registryAddress())
	written.cni(n.PodRange())
	written.kubelet(n.state.cgroup, n.network.plan.router(), options.KubeletConfig)
	written.kubeconfig(n.network.apiServerAddress(), options.ServerName, options.Authority.Cert(), client)
	written.write(clientCAFile, options.Authority.Cert())
	written.write(servingCertFile, serving.Cert)
	written.write(servingKeyFile, serving.Key)
	written.write(resolvConf, fmt.Appendf(nil, "nameserver %s\n", n.network.plan.router()))
	if written.err != nil {
		return nodespec.Spec{}, fmt.Errorf("writing the configuration: %w", written.err)
	}

	logs := options.LogDir
	if logs == "" {
		logs = n.state.Folder
	}
	n.log[Containerd] = filepath.Join(logs, n.name+"-containerd.log")
	n.log[Kubelet] = filepath.Join(logs, n.name+"-kubelet.log")

	kubelet := []string{
		options.KubeletPath,
		"--config=" + kubeletConfig,
		"--kubeconfig=" + kubeconfigFile,
		"--hostname-override=" + n.name,
		"--node-ip=" + n.Address().String(),
		"--root-dir=/var/lib/kubelet",
		"--cert-dir=/var/lib/kubelet/pki",
	}
	if len(options.Labels) > 0 {
		var labels []string
		for key, value := range options.Labels {
			labels = append(labels, key+"="+value)
		}
		slices.Sort(labels)
		kubelet = append(kubelet, "--node-labels="+strings.Join(labels, ","))
	}
	if len(options.Taints) > 0 {
		kubelet = append(kubelet, "--register-with-taints="+strings.Join(options.Taints, ","))
	}
	return nodespec.Spec{
		Hostname: n.name,
		Binds: []nodespec.Bind{
			{Source: n.state.sub("run"), Target: "/run"},
			{Source: n.state.sub("lib"), Target: "/var/lib"},
			{Source: n.state.sub("log"), Target: "/var/log"},
		},
		Processes: []nodespec.Process{
			{Name: Containerd, Args: []string{runtime, "--config=" + containerdConfig}, Env: environment(), Log: n.log[Containerd], CRI: containerdSocket},
			{Name: Kubelet, Args: append(kubelet, options.KubeletArgs...), Env: environment(), Log: n.log[Kubelet], Health: kubeletHealth},
		},
		State: n.state.State,
	}, nil
}

// environment is for programs of the node; nothing of the caller's, such as a proxy,
// reaches them.
func environment() []string {
	return []string{"PATH=" + nodePath, "HOME=/root", "TMPDIR=/var/lib/tmp"}
}

// waitReady waits until the API server knows the node as ready.
func (n *Node) waitReady(ctx context.Context, options Options, client pki.Pair) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("the node was not ready after %s", readyTimeout))
	defer cancel()
	// As the node itself: it may read its own object, so nobody else has to grant anything.
	clientset, err := kubernetes.NewForConfig(&rest.Config{
		Host: "https://" + n.network.apiServer,
		TLSClientConfig: rest.TLSClientConfig{
			ServerName: options.ServerName, CAData: options.Authority.Cert(), CertData: client.Cert, KeyData: client.Key,
		},
	})
	if err != nil {
		return err
	}
	nodes := cache.NewListWatchFromClient(clientset.CoreV1().RESTClient(), "nodes", metav1.NamespaceAll,
		fields.OneTermEqualSelector(metav1.ObjectNameField, n.name))
	ready := make(chan error, 1)
	go func() {
		_, err := watchtools.UntilWithSync(ctx, nodes, &corev1.Node{}, nil, func(event watch.Event) (bool, error) {
			node, is := event.Object.(*corev1.Node)
			return is && isReady(node), nil
		})
		ready <- err
	}()
	for {
		n.mutex.Lock()
		running, failure, changed := n.running[Kubelet], n.failure, n.changed
		n.mutex.Unlock()
		if !running {
			cancel()
			if err := <-ready; err == nil {
				return nil // it was ready before it ended, which Exited reports
			}
			return errors.New(failure)
		}
		select {
		case err := <-ready:
			if err != nil {
				return errors.Join(context.Cause(ctx), err)
			}
			return nil
		case <-changed:
		case <-n.exited:
			return n.gone()
		}
	}
}

// gone says how the first process ended.
func (n *Node) gone() error {
	return fmt.Errorf("the node has ended: %w", errors.Join(n.exit, errors.New(strings.TrimSpace(n.errors.String()))))
}

func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(condition corev1.NodeCondition) bool {
		return condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
	})
}

// Name is the name of the node in the API.
func (n *Node) Name() string { return n.name }

// Address is where the node is reached: the kubelet at port 10250, pods on the host network, host ports.
func (n *Node) Address() netip.Addr { return n.network.plan.node(n.number) }

// PodRange holds the addresses of the pods on the node.
func (n *Node) PodRange() netip.Prefix { return n.network.plan.pods(n.number) }

// Log is the path of the log of [Kubelet] or [Containerd].
func (n *Node) Log(program string) string { return n.log[program] }

// Command prepares a command inside the node, with the kubelet's view.
func (n *Node) Command(ctx context.Context, args ...string) *exec.Cmd {
	enter := []string{"--target", strconv.Itoa(n.command.Process.Pid), "--mount", "--net", "--pid", "--uts", "--ipc", "--"}
	command := exec.CommandContext(ctx, "nsenter", append(enter, args...)...)
	command.Env = environment()
	return command
}

// ImportImage puts an image into the node's store under a name such as
// "openkruise/guestbook:v1", like a pull. Pods with pull policy Always do not look there;
// for them, see [Network.Push].
func (n *Node) ImportImage(ctx context.Context, reference string, image v1.Image) error {
	tag, err := name.NewTag(reference)
	if err != nil {
		return err
	}
	// The runtime's image names begin with docker.io, not index.docker.io.
	host := tag.RegistryStr()
	if host == name.DefaultRegistry {
		host = "docker.io"
	}
	full, err := name.NewTag(host + "/" + tag.RepositoryStr() + ":" + tag.TagStr())
	if err != nil {
		return err
	}

	reader, writer := io.Pipe()
	go func() { writer.CloseWithError(tarball.Write(full, image, writer)) }()
	defer func() { _ = reader.Close() }()
	command := n.Command(ctx, "ctr", "--address", containerdSocket, "--namespace", "k8s.io", "images", "import", "-")
	command.Stdin = reader
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("importing %s into node %s: %w: %s", reference, n.name, err, strings.TrimSpace(string(output)))
	}
	return nil
}

// StopProgram kills [Kubelet] or [Containerd] and returns when it has ended. Containers keep running.
func (n *Node) StopProgram(ctx context.Context, program string) error {
	return n.request(ctx, nodespec.Stop, program)
}

// StartProgram restarts a stopped program, and returns when it is healthy.
func (n *Node) StartProgram(ctx context.Context, program string) error {
	return n.request(ctx, nodespec.Start, program)
}

func (n *Node) request(ctx context.Context, verb nodespec.Verb, program string) error {
	n.mutex.Lock()
	n.failure = ""
	err := n.requests.Encode(nodespec.Command{Verb: verb, Process: program})
	n.mutex.Unlock()
	if err == nil {
		err = n.waitFor(ctx, program, verb == nodespec.Start)
	}
	if err != nil {
		return fmt.Errorf("asking node %s to %s %s: %w", n.name, verb, program, err)
	}
	return nil
}

// Exited reports programs of the node that ended unasked, with the end of their logs. A
// healthy node gives nil.
func (n *Node) Exited() error {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if len(n.ended) == 0 {
		return nil
	}
	return fmt.Errorf("node %s: %s%s", n.name, strings.Join(n.ended, ", "), n.logTails())
}

// Stop ends the node at once with everything on it, and removes all its traces from this
// machine. The objects in the API stay: the node has vanished for the control plane.
// Calling it again returns the same result.
func (n *Node) Stop() error {
	n.stop.Do(func() {
		closed := n.lifeline.Close()
		<-n.exited
		if n.exit != nil {
			// It could not clean up, or was killed; the rest is done here.
			closed = errors.Join(closed, fmt.Errorf("the first process: %w: %s", n.exit, strings.TrimSpace(n.errors.String())))
		}
		if n.number != 0 {
			n.network.release(n.number)
		}
		if err := errors.Join(closed, n.state.remove()); err != nil {
			n.stopped = fmt.Errorf("stopping node %s: %w", n.name, err)
		}
	})
	return n.stopped
}

// logTails is the end of each log, to explain a failed start.
func (n *Node) logTails() string {
	const lines = 10
	var text strings.Builder
	for _, program := range []string{Containerd, Kubelet} {
		content, err := os.ReadFile(n.log[program])
		if err != nil {
			continue // not started yet
		}
		all := strings.Split(strings.TrimSpace(string(content)), "\n")
		fmt.Fprintf(&text, "\n--- end of the log of %s:\n%s", program, strings.Join(all[max(len(all)-lines, 0):], "\n"))
	}
	return text.String()
}
