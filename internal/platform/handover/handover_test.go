// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package handover

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// child tells the test binary to be the process that begins anew.
const child = "HANDOVER_TEST_ADDRESS"

// TestMain makes the binary, when it is told to, listen, begin anew with a connection waiting, and answer it.
func TestMain(m *testing.M) {
	address := os.Getenv(child)
	if address == "" {
		os.Exit(m.Run())
	}
	sockets := &Sockets{}
	listener, err := sockets.Listen(address)
	if err != nil {
		_, _ = os.Stderr.WriteString(err.Error())
		os.Exit(1)
	}
	if Again() {
		connection, err := listener.Accept()
		if err == nil {
			_, err = io.Copy(connection, connection)
		}
		if err != nil {
			_, _ = os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	if err := listener.Close(); err != nil {
		os.Exit(1)
	}
	_, _ = os.Stdout.WriteString("listening\n")
	_, _ = os.Stdin.Read(make([]byte, 1)) // the test has connected
	_, _ = os.Stderr.WriteString(sockets.Replace().Error())
	os.Exit(1)
}

func freeAddress(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(nil)
	defer server.Close()
	return server.Listener.Addr().String()
}

func TestConnectionsWaitForTheNextProgram(t *testing.T) {
	address := freeAddress(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), child+"="+address)
	stderr := &strings.Builder{}
	cmd.Stderr = stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	if _, err := io.ReadFull(out, make([]byte, len("listening\n"))); err != nil {
		t.Fatal(err)
	}
	connection, err := dial(ctx, address) // nobody accepts now
	if err != nil {
		t.Fatal(err)
	}
	if _, err := connection.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 5)
	if _, err := io.ReadFull(connection, answer); err != nil || string(answer) != "hello" {
		t.Fatalf("answer %q, error %v; the program said %q", answer, err, stderr)
	}
	if err := connection.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || cmd.ProcessState.Pid() != pid {
		t.Errorf("error %v; the program said %q", err, stderr)
	}
}

func TestServerServesAgainAtTheSameSocket(t *testing.T) {
	backend := httptest.NewTLSServer(nil)
	defer backend.Close()
	certificate := backend.TLS.Certificates[0]
	address := freeAddress(t)
	host, port := split(t, address)
	options := webhook.Options{Host: host, Port: port, TLSOpts: []func(*tls.Config){func(c *tls.Config) {
		c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &certificate, nil }
	}}}
	for range 2 {
		sockets := &Sockets{}
		server := NewServer(options, sockets)
		if err := server.StartedChecker()(nil); err == nil {
			t.Error("ready before it serves")
		}
		server.Register("/x", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("yes")) }))
		serving, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- server.Start(serving) }()
		client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		var body []byte
		for deadline := time.Now().Add(10 * time.Second); string(body) != "yes" && time.Now().Before(deadline); {
			response, err := client.Get("https://" + address + "/x")
			if err != nil {
				continue // not listening yet
			}
			body, _ = io.ReadAll(response.Body)
			_ = response.Body.Close()
		}
		if string(body) != "yes" || server.StartedChecker()(nil) != nil {
			t.Errorf("answered %q, ready: %v", body, server.StartedChecker()(nil))
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		t.Setenv(inherited, fmt.Sprintf("%s=%d", address, duplicate(t, sockets.kept[address])))
	}
}

// duplicate returns a descriptor that belongs to nobody yet, as after a replacement of the program: two owners of one would close it twice,
// the second time when it has long been something else.
func duplicate(t *testing.T, file *os.File) int {
	t.Helper()
	descriptor, err := syscall.Dup(int(file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	return descriptor
}

func dial(ctx context.Context, address string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "tcp", address)
}

func split(t *testing.T, address string) (string, int) {
	t.Helper()
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return host, port
}
