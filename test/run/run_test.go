package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// childVariable makes this test binary the program that it tests.
const childVariable = "RUN_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// terminal is a run as it is started from a shell: in a process group that gets the Ctrl-C.
type terminal struct {
	cmd *exec.Cmd
	out *os.File
}

// open starts a run of the given Portcullis on the data in dir, with free ports.
func open(t *testing.T, binary, dir string, args ...string) *terminal {
	t.Helper()
	out, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = out.Close() })
	args = append([]string{"--dir=" + dir, "--portcullis=" + binary}, args...)
	for _, p := range ports(&settings{}) {
		args = append(args, "--"+p.flag+"="+strconv.Itoa(freePort(t)))
	}
	term := &terminal{cmd: exec.Command(os.Args[0], args...), out: out}
	term.cmd.Env = append(os.Environ(), childVariable+"=1")
	term.cmd.Stdout, term.cmd.Stderr = out, out
	term.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := term.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = term.cmd.Process.Kill() })
	return term
}

// build returns a fresh Portcullis.
func build(t *testing.T) string {
	t.Helper()
	root, err := controlplane.Root()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "portcullis")
	build := exec.Command("go", "build", "-o", path, "./cmd/portcullis")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return path
}

func freePort(t *testing.T) int {
	t.Helper()
	port, err := controlplane.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// text is what the run has said so far.
func (term *terminal) text(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(term.out.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// await returns what the run says once it is ready.
func (term *terminal) await(t *testing.T) string {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if text := term.text(t); strings.Contains(text, "Portcullis is ready") && strings.Contains(text, "Ctrl-C here ends it") {
			return text
		}
	}
	t.Fatalf("the run is not ready; it said:\n%s", term.text(t))
	return ""
}

// interrupt presses Ctrl-C and waits for the end.
func (term *terminal) interrupt(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(-term.cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := term.cmd.Wait(); err != nil {
		t.Errorf("after Ctrl-C: %v; the run said:\n%s", err, term.text(t))
	}
}

// connect returns a client by the export line that is there to be pasted.
func connect(t *testing.T, text string) client.Client {
	t.Helper()
	_, rest, _ := strings.Cut(text, "\nexport KUBECONFIG=")
	path, _, found := strings.Cut(rest, "\n")
	if !found || !filepath.IsAbs(path) {
		t.Fatalf("no line to paste for KUBECONFIG in:\n%s", text)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: harness.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// manifest returns the n-th object that the text has between two lines "EOF".
func manifest(t *testing.T, text string, n int) *unstructured.Unstructured {
	t.Helper()
	parts := strings.Split(text, "<<EOF\n")
	if len(parts) <= n {
		t.Fatalf("fewer than %d manifests in:\n%s", n, text)
	}
	body, _, _ := strings.Cut(parts[n], "EOF\n")
	objects, err := controlplane.Decode(strings.NewReader(body))
	if err != nil || len(objects) != 1 {
		t.Fatalf("manifest %d: %d objects, %v", n, len(objects), err)
	}
	objects[0].SetNamespace("default")
	return objects[0]
}

func TestARunAndTheNext(t *testing.T) {
	portcullis, dir := build(t), filepath.Join(t.TempDir(), "data")
	first := open(t, portcullis, dir)
	text := first.await(t)
	c := connect(t, text)
	stream := manifest(t, text, 1)
	if err := patiently(func() error { return c.Create(t.Context(), stream) }); err != nil {
		t.Error("the first stream of the guide: ", err)
	}
	rival := manifest(t, text, 2)
	rival.SetName("rival")
	if err := patiently(func() error { return c.Create(t.Context(), rival) }); !apierrors.IsInvalid(err) {
		t.Errorf("the second stream of the guide: %v, want it refused as invalid", err)
	}
	busy := open(t, portcullis, dir)
	if err := busy.cmd.Wait(); err == nil || !strings.Contains(busy.text(t), "another run uses") {
		t.Errorf("a run beside it: %v; it said:\n%s", err, busy.text(t))
	}
	first.interrupt(t)
	wantNoProcess(t, dir)

	second := open(t, portcullis, dir)
	c = connect(t, second.await(t))
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(stream), stream.DeepCopy()); err != nil {
		t.Error("the stream at the next run: ", err)
	}
	for name, see := range map[string]func(controllersTest){
		"a deleted Service takes its Ingress along": controllersTest.service,
		"a deleted stream takes its Service along":  controllersTest.outside,
		"a deleted namespace ends":                  controllersTest.ending,
		"a quota counts streams":                    controllersTest.quota,
	} {
		t.Run(name, func(t *testing.T) { see(controllersTest{c, t}) })
	}
	second.interrupt(t)
	wantNoProcess(t, dir)
	if said := second.text(t); strings.Contains(said, "Server rejected event") {
		t.Errorf("a namespace was deleted, and the log complains of it:\n%s", said)
	}

	third := open(t, portcullis, dir, "--clean=1")
	c = connect(t, third.await(t))
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(stream), stream.DeepCopy()); !apierrors.IsNotFound(err) {
		t.Errorf("the stream at a clean run: %v, want it gone", err)
	}
	third.interrupt(t)
}

// wantNoProcess fails the test when a program still works on dir. It sees them on Linux only.
func wantNoProcess(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if line, err := os.ReadFile(file); err == nil && bytes.Contains(line, []byte(dir)) {
			t.Errorf("still running: %q", line)
		}
	}
}

func TestTakenPort(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	taken := listener.Addr().(*net.TCPAddr).Port
	for i, variable := range []string{"API_PORT", "WEBHOOK_PORT", "HEALTH_PORT", "METRICS_PORT"} {
		s := &settings{dir: t.TempDir()}
		all := ports(s)
		for _, p := range all {
			*p.number = freePort(t)
		}
		*all[i].number = taken
		err := newSession(s, &bytes.Buffer{}).run(t.Context())
		got := explain(err)
		if !strings.Contains(got, strconv.Itoa(taken)) || !strings.Contains(got, variable+"=") {
			t.Errorf("with the port of %s taken: %q", variable, got)
		}
	}
}

func TestAProgramThatFails(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken")
	if err := os.WriteFile(broken, []byte("#!/bin/sh\necho cannot go on\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := &settings{dir: filepath.Join(dir, "data"), binary: broken}
	for _, p := range ports(s) {
		*p.number = freePort(t)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	err := newSession(s, &bytes.Buffer{}).run(ctx)
	if err == nil || !strings.Contains(err.Error(), "cannot go on") {
		t.Errorf("run() = %v, want the last words of the program", err)
	}
	wantNoProcess(t, s.dir)
}
