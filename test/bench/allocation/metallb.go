package allocation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/test/controlplane"
)

const (
	// MetalLBClass is the loadBalancerClass of the Services that MetalLB is to serve.
	MetalLBClass = "metallb.io/metallb"
	// MetalLBUser is the name under which MetalLB speaks to the API server.
	MetalLBUser = "system:serviceaccount:metallb-system:controller"

	metallbNamespace = "metallb-system"
	metallbModule    = "go.universe.tf/metallb"
	// metallbPod is what the controller takes for itself; it only wants to know the owner of what it reports.
	metallbPod = "controller"
)

// MetalLB is MetalLB's controller: the part that gives Services their addresses. What announces them is left out, and so
// is its webhook.
type MetalLB struct {
	// Version of the module.
	Version string

	cp      *controlplane.ControlPlane
	binary  string
	program *controlplane.Program
	log     *os.File
}

// BuildMetalLB builds the controller into a directory, and installs what it needs.
func BuildMetalLB(ctx context.Context, cp *controlplane.ControlPlane, dir string) (*MetalLB, error) {
	root, err := controlplane.Root()
	if err != nil {
		return nil, err
	}
	module := filepath.Join(root, "test", "metallb")
	m := &MetalLB{cp: cp, binary: filepath.Join(dir, "metallb-controller")}
	build := exec.CommandContext(ctx, "go", "build", "-o", m.binary, metallbModule+"/controller")
	build.Dir = module
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building MetalLB's controller: %w\n%s", err, out)
	}
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}} {{.Dir}}", metallbModule)
	list.Dir = module
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("finding the module of MetalLB: %w", err)
	}
	version, source, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	m.Version = version
	err = m.install(ctx, source)
	return m, err
}

// install applies MetalLB's CustomResourceDefinitions, and makes its namespace and a Pod for the controller to own things
// with.
func (m *MetalLB) install(ctx context.Context, source string) error {
	files, err := filepath.Glob(filepath.Join(source, "config", "crd", "bases", "*.yaml"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return errors.New("MetalLB's module has no CustomResourceDefinitions")
	}
	for _, file := range files {
		objects, err := controlplane.ReadFile(file)
		if err != nil {
			return err
		}
		if err := controlplane.Apply(ctx, m.cp.Config(), "metallb", objects...); err != nil {
			return err
		}
	}
	c, err := client.New(m.cp.Config(), client.Options{})
	if err != nil {
		return err
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metallbNamespace, Name: metallbPod}}
	pod.Spec.Containers = []corev1.Container{{Name: "controller", Image: "controller"}}
	return errors.Join(
		c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metallbNamespace}}),
		c.Create(ctx, pod),
	)
}

// MetalLBPool is a pool of MetalLB.
func MetalLBPool(name, cidr string) client.Object {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "metallb.io/v1beta1", "kind": "IPAddressPool",
		"metadata": map[string]any{"namespace": metallbNamespace, "name": name},
		"spec":     map[string]any{"addresses": []any{cidr}},
	}}
}

// Start starts the controller, and waits until it is ready.
func (m *MetalLB) Start(ctx context.Context) error {
	port, err := controlplane.FreePort()
	if err != nil {
		return err
	}
	kubeconfig, err := m.cp.KubeconfigFor(m.binary+".kubeconfig", MetalLBUser, "system:masters")
	if err != nil {
		return err
	}
	if m.log, err = os.Create(m.binary + ".log"); err != nil {
		return err
	}
	m.program, err = controlplane.StartProgram(m.binary, []string{
		"--kubeconfig=" + kubeconfig, "--namespace=" + metallbNamespace, "--pod-name=" + metallbPod,
		"--lb-class=" + MetalLBClass, "--webhook-mode=disabled", "--port=0", "--health-probe-port=" + strconv.Itoa(port),
	}, m.log)
	if err != nil {
		return err
	}
	ready := fmt.Sprintf("http://127.0.0.1:%d/readyz", port)
	if err := m.program.Answers(ctx, ready, time.Minute); err != nil {
		log, _ := os.ReadFile(m.log.Name())
		return fmt.Errorf("waiting for MetalLB's controller: %w\n%s", err, log)
	}
	return nil
}

// PID of the controller.
func (m *MetalLB) PID() int { return m.program.PID() }

// Stop ends the controller.
func (m *MetalLB) Stop() error {
	if m.program == nil {
		return nil
	}
	return errors.Join(m.program.Stop(10*time.Second), m.log.Close())
}
