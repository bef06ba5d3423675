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

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// system is where Portcullis is deployed.
const system = "portcullis-system"

// undeployed starts a control plane without Portcullis.
func undeployed(t *testing.T) *fixture {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cp, err := controlplane.Start(ctx, controlplane.Options{Controllers: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(); err != nil {
			t.Error(err)
		}
	})
	w := newFixture(t, &harness.Harness{ControlPlane: cp})
	w.Client, err = client.New(cp.Config(), client.Options{Scheme: harness.Scheme()})
	must(w, err)
	return w
}

// make runs a target of the Makefile on this control plane.
func (w *fixture) make(ctx context.Context, target string) error {
	root, err := controlplane.Root()
	if err != nil {
		return err
	}
	programs, err := assets()
	if err != nil {
		return err
	}
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

// TestDeployment deploys Portcullis with make, as a platform team does, and takes it away again. No pod runs here, but
// they are there, and one is held as one is that takes its time to end.
func TestDeployment(t *testing.T) {
	t.Parallel()
	w := undeployed(t)
	must(w, w.make(t.Context(), "deploy"))
	must(w, w.StartControllers(t.Context()))
	pod := w.heldPod()
	w.deploysAgain()

	done := make(chan error, 1)
	go func() { done <- w.make(t.Context(), "undeploy") }()
	w.stopsFirst()
	edit(w, pod, func(p *corev1.Pod) { p.Finalizers = nil })
	must(w, <-done)
	left := w.mustKubectl("", "get", "-l", "app.kubernetes.io/name=portcullis", "-A", "-o", "name",
		"namespace,crd,deployment,clusterrole,clusterrolebinding,service,poddisruptionbudget,flowschema,validatingwebhookconfiguration")
	if left != "" {
		t.Errorf("make undeploy leaves behind:\n%s", left)
	}
}

// heldPod is a pod of the Deployment that does not go before its finalizer does.
func (w *fixture) heldPod() *corev1.Pod {
	w.t.Helper()
	pods := &corev1.PodList{}
	w.eventually("a pod of the Deployment", func() error {
		return errors.Join(w.Client.List(w.t.Context(), pods, client.InNamespace(system)), is(len(pods.Items) > 0, true))
	})
	pod := &pods.Items[0]
	edit(w, pod, func(p *corev1.Pod) { p.Finalizers = []string{"example.com/hold"} })
	return pod
}

// deploysAgain breaks the glass and turns some screws, as the manual says, and deploys again: all is as the manifests say.
func (w *fixture) deploysAgain() {
	w.t.Helper()
	hooks := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	hooks.Name = "portcullis"
	edit(w, hooks, func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
		for i := range c.Webhooks {
			c.Webhooks[i].ClientConfig.CABundle = w.Config().CAData // by whoever makes certificates
		}
	})
	want := hooks.DeepCopy().Webhooks
	w.runbook("break-glass")
	w.mustKubectl("", "scale", "deployment/portcullis", "-n", system, "--replicas=3")
	w.mustKubectl("", "patch", "deployment/portcullis", "-n", system, "--type=json", "--patch",
		`[{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--zap-log-level=1"}]`)
	must(w, w.make(w.t.Context(), "deploy"))

	deployment := &appsv1.Deployment{}
	deployment.Namespace, deployment.Name = system, "portcullis"
	w.get(hooks, deployment)
	if !equality.Semantic.DeepEqual(hooks.Webhooks, want) {
		w.t.Errorf("the webhooks are %+v, want %+v", hooks.Webhooks, want)
	}
	args := deployment.Spec.Template.Spec.Containers[0].Args
	if *deployment.Spec.Replicas != 2 || slices.Contains(args, "--zap-log-level=1") {
		w.t.Errorf("there are %d replicas with %v", *deployment.Spec.Replicas, args)
	}
}

// stopsFirst has the pods of the Deployment end, and looks that nothing is taken from under them before: seeing its kinds
// go, a leader of an older version would close ports that are to stay open.
func (w *fixture) stopsFirst() {
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
}
