package controlplane_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"jeffthecoder.xyz/portcullis/test/controlplane"
)

// childVariable makes this test binary a process that starts a control plane and waits to be killed.
const childVariable = "CONTROLPLANE_TEST_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childVariable); dir != "" {
		beKilled(dir)
		return
	}
	log.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// start returns a control plane that ends with the test.
func start(t *testing.T, opts controlplane.Options) *controlplane.ControlPlane {
	t.Helper()
	cp, err := controlplane.Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(); err != nil {
			t.Error(err)
		}
	})
	return cp
}

// clientset returns a client with all rights.
func clientset(t *testing.T, cp *controlplane.ControlPlane) *kubernetes.Clientset {
	t.Helper()
	c, err := kubernetes.NewForConfig(cp.Config())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestServiceAccountsHaveTheRightsOfTheirRoles(t *testing.T) {
	cp := start(t, controlplane.Options{})
	admin, ctx := clientset(t, cp), t.Context()
	if _, err := admin.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.RbacV1().Roles("default").Create(ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list"}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.RbacV1().RoleBindings("default").Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "reader"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := admin.CoreV1().ServiceAccounts("default").CreateToken(ctx, "reader",
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal("no token: ", err)
	}
	byToken := cp.Config()
	byToken.CertData, byToken.KeyData, byToken.BearerToken = nil, nil, token.Status.Token
	byCertificate, err := cp.ConfigFor("system:serviceaccount:default:reader")
	if err != nil {
		t.Fatal(err)
	}
	for name, config := range map[string]*kubernetes.Clientset{
		"token":       kubernetes.NewForConfigOrDie(byToken),
		"certificate": kubernetes.NewForConfigOrDie(byCertificate),
	} {
		// Roles reach the authorizer a moment after they are written.
		deadline := time.Now().Add(time.Minute)
		_, err := config.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
		for ; err != nil && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
			_, err = config.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
		}
		if err != nil {
			t.Errorf("by %s, what the role allows: %v", name, err)
		}
		if _, err := config.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("by %s, what no role allows: %v, want forbidden", name, err)
		}
	}
}

func TestRestartKeepsPortAndData(t *testing.T) {
	dir := t.TempDir()
	cp := start(t, controlplane.Options{Dir: dir, Durable: true})
	createNamespace(t, cp, "kept")
	host := cp.Config().Host
	if err := cp.RestartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	if cp.Config().Host != host {
		t.Errorf("the API server moved from %s to %s", host, cp.Config().Host)
	}
	wantNamespace(t, cp, "kept")

	if err := cp.Stop(); err != nil {
		t.Fatal(err)
	}
	again := start(t, controlplane.Options{Dir: dir, Durable: true})
	wantNamespace(t, again, "kept")
	if again.Kubeconfig() != cp.Kubeconfig() || !filepath.IsAbs(again.Kubeconfig()) {
		t.Errorf("kubeconfig is %s after a restart, was %s", again.Kubeconfig(), cp.Kubeconfig())
	}
	config, err := clientcmd.BuildConfigFromFlags("", again.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kubernetes.NewForConfigOrDie(config).CoreV1().Namespaces().Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
		t.Error("by kubeconfig: ", err)
	}
}

func createNamespace(t *testing.T, cp *controlplane.ControlPlane, name string) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := clientset(t, cp).CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func wantNamespace(t *testing.T, cp *controlplane.ControlPlane, name string) {
	t.Helper()
	if _, err := clientset(t, cp).CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func TestStopLeavesNothing(t *testing.T) {
	cp, err := controlplane.Start(t.Context(), controlplane.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := programsOf(t, cp.Dir()); len(got) == 0 && runtime.GOOS == "linux" {
		t.Error("found no program to stop")
	}
	for range 2 {
		if err := cp.Stop(); err != nil {
			t.Error(err)
		}
	}
	if got := programsOf(t, cp.Dir()); len(got) > 0 {
		t.Errorf("still running: %v", got)
	}
	if _, err := os.Stat(cp.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the temporary directory is still there (%v)", err)
	}
}

func TestDirWithALongPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	cp := start(t, controlplane.Options{Dir: dir})
	createNamespace(t, cp, "there")
}

func TestTakenPortIsNamed(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port
	_, err = controlplane.Start(t.Context(), controlplane.Options{APIServerPort: port})
	taken, ok := errors.AsType[*controlplane.PortTakenError](err)
	if !ok || taken.Port != port {
		t.Errorf("Start() = %v, want a *PortTakenError for %d", err, port)
	}
}

func TestLastWordsOfAProgramThatFails(t *testing.T) {
	_, err := controlplane.Start(t.Context(), controlplane.Options{APIServerFlags: []string{"--no-such-flag"}})
	if err == nil || !strings.Contains(err.Error(), "no-such-flag") {
		t.Errorf("Start() = %v, want what the API server said", err)
	}
}

func TestWritesAreCounted(t *testing.T) {
	cp := start(t, controlplane.Options{Audit: true})
	createNamespace(t, cp, "counted")
	c := clientset(t, cp)
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one", Namespace: "counted"}}
	for _, dryRun := range [][]string{{metav1.DryRunAll}, nil, nil} {
		_, err := c.CoreV1().ConfigMaps("counted").Create(t.Context(), config, metav1.CreateOptions{DryRun: dryRun})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	wantNamespace(t, cp, "counted") // a read, which does not count
	writes, err := cp.Writes()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range writes {
		if w.User == "admin" {
			got = append(got, fmt.Sprintln(w.Verb, w.Resource, w.Namespace, w.Code, strings.Contains(w.RequestURI, "dryRun=All")))
		}
	}
	want := []string{
		fmt.Sprintln("create", "namespaces", "", 201, false),
		fmt.Sprintln("create", "configmaps", "counted", 201, true),
		fmt.Sprintln("create", "configmaps", "counted", 201, false),
		fmt.Sprintln("create", "configmaps", "counted", 409, false),
	}
	if !slices.Equal(got, want) {
		t.Errorf("Writes() = %q, want %q", got, want)
	}
}

// TestProgramsDieWithTheirOwner kills a process that owns a control plane in the hardest way.
func TestProgramsDieWithTheirOwner(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Log("only Linux has what this needs")
		return
	}
	dir := t.TempDir()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childVariable+"="+dir)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the child says %q, %v", line, err)
	}
	if got := programsOf(t, dir); len(got) != 3 {
		t.Errorf("running under the child: %v, want etcd, kube-apiserver and kube-controller-manager", got)
	}
	if err := child.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // killed, as it should be
	deadline := time.Now().Add(time.Minute)
	for len(programsOf(t, dir)) > 0 && time.Now().Before(deadline) {
		time.Sleep(50 * time.Millisecond)
	}
	if got := programsOf(t, dir); len(got) > 0 {
		t.Errorf("still running: %v", got)
	}
}

// beKilled starts a control plane in dir, says so, and waits.
func beKilled(dir string) {
	cp, err := controlplane.Start(context.Background(), controlplane.Options{Dir: dir, Controllers: true})
	if err == nil {
		err = cp.StartControllers(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stdout, "started")
	select {}
}

// programsOf returns the running programs that have dir in their arguments, and their process IDs. It needs Linux;
// elsewhere there are none.
func programsOf(t *testing.T, dir string) map[string]int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	programs := map[string]int{}
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil {
			continue // gone by now
		}
		if program, args, _ := strings.Cut(string(line), "\x00"); strings.Contains(args, dir) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if err != nil {
				t.Fatal(err)
			}
			programs[filepath.Base(program)] = pid
		}
	}
	return programs
}

func TestBeginsWithWhatAnotherLeft(t *testing.T) {
	dir := t.TempDir()
	left, err := controlplane.Start(t.Context(), controlplane.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	createNamespace(t, left, "left")
	if err := left.Stop(); err != nil {
		t.Fatal(err)
	}
	one, other := start(t, controlplane.Options{From: dir}), start(t, controlplane.Options{From: dir})
	createNamespace(t, one, "here")
	for _, cp := range []*controlplane.ControlPlane{one, other} {
		wantNamespace(t, cp, "left")
	}
	if _, err := clientset(t, other).CoreV1().Namespaces().Get(t.Context(), "here", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("what was created in another control plane: %v, want not found", err)
	}
}

func TestSnapshotSetsBack(t *testing.T) {
	cp := start(t, controlplane.Options{})
	createNamespace(t, cp, "kept")
	host, file := cp.Config().Host, filepath.Join(t.TempDir(), "snapshot.db")
	if err := cp.SaveSnapshot(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	createNamespace(t, cp, "lost")
	if err := cp.RestoreSnapshot(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	if cp.Config().Host != host {
		t.Errorf("the API server moved from %s to %s", host, cp.Config().Host)
	}
	wantNamespace(t, cp, "kept")
	if _, err := clientset(t, cp).CoreV1().Namespaces().Get(t.Context(), "lost", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("what was created after the snapshot: %v, want not found", err)
	}
	createNamespace(t, cp, "lost")
}
