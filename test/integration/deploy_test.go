package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// system is where Portcullis is deployed.
const system = "portcullis-system"

// undeployed starts a control plane without Portcullis.
func undeployed(t *testing.T) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cp, err := controlplane.Start(ctx, controlplane.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(); err != nil {
			t.Error(err)
		}
	})
	w := inWorld(t, &harness.Harness{ControlPlane: cp})
	w.Client, err = client.New(cp.Config(), client.Options{Scheme: harness.Scheme()})
	must(w, err)
	return w
}

// make runs a target of the Makefile on this control plane.
func (w *world) make(target string) error {
	root, err := controlplane.Root()
	if err != nil {
		return err
	}
	programs, err := assets()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "make", "-C", root, target, "OVERLAY=standalone", "IMG=registry.example.com/portcullis:v1",
		"KUBECTL="+filepath.Join(programs, "kubectl")+" --kubeconfig="+w.Kubeconfig())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // and kubectl with it
	// A make that was started by make would wait for the first one's permission.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "MAKE") })
	cmd.Env = append(cmd.Env, "KUBECACHEDIR="+filepath.Join(w.Dir(), "kubectl-cache"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make %s: %w\n%s", target, err, out)
	}
	return nil
}

// TestDeployment deploys Portcullis with make, as a platform team does, and takes it away again. No pod runs here; what a
// cluster's controllers do is done by the test.
func TestDeployment(t *testing.T) {
	w := undeployed(t)
	must(w, w.make("deploy"))

	done := make(chan error, 1)
	go func() { done <- w.make("undeploy") }()
	w.stopsFirst()
	w.finalizeNamespace()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if left := w.mustKubectl("", "get", "crd,clusterrole,validatingwebhookconfiguration", "-l", "app.kubernetes.io/name=portcullis", "-o", "name"); left != "" {
		t.Errorf("left behind: %s", left)
	}
}

// stopsFirst has the pods of the Deployment end, and looks that nothing is taken from under them before: seeing its kinds
// go, the leader would close ports that are to stay open.
func (w *world) stopsFirst() {
	w.t.Helper()
	deployment := &appsv1.Deployment{}
	deployment.Namespace, deployment.Name = system, "portcullis"
	w.eventually("the Deployment to be deleted", func() error {
		err := w.Client.Get(w.t.Context(), client.ObjectKeyFromObject(deployment), deployment)
		if err == nil && deployment.DeletionTimestamp == nil {
			err = errors.New("it is not")
		}
		return client.IgnoreNotFound(err)
	})
	if deployment.DeletionTimestamp == nil {
		w.t.Error("nobody waits for the pods of the Deployment")
	}
	for _, kind := range []string{"crd", "clusterrole", "clusterrolebinding", "namespace", "validatingwebhookconfiguration"} {
		found := w.mustKubectl("", "get", kind, "-l", "app.kubernetes.io/name=portcullis", "-o", "jsonpath={.items[*].metadata.deletionTimestamp}#{.items[*].metadata.name}")
		if deleted, names, _ := strings.Cut(found, "#"); deleted != "" || names == "" {
			w.t.Errorf("while pods still run, of kind %s there are %q, deleted at %q", kind, names, deleted)
		}
	}
	edit(w, deployment, func(d *appsv1.Deployment) { d.Finalizers = nil }) // the garbage collector, when the pods are gone
}

// finalizeNamespace is what the namespace controller does: what is in the namespace goes before it does.
func (w *world) finalizeNamespace() {
	w.t.Helper()
	w.eventually("the namespace to go", func() error {
		namespace := &corev1.Namespace{}
		err := w.Client.Get(w.t.Context(), client.ObjectKey{Name: system}, namespace)
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		case namespace.DeletionTimestamp == nil:
			return errors.New("it is not deleted")
		}
		if err := w.Client.DeleteAllOf(w.t.Context(), &corev1.Service{}, client.InNamespace(system)); err != nil {
			return err
		}
		namespace.Spec.Finalizers = nil
		return errors.Join(errors.New("it is still there"), w.Client.SubResource("finalize").Update(w.t.Context(), namespace))
	})
}
