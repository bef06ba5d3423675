package controlplane_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/test/controlplane"
)

// patience is how long controllers may take; they look for an API server that was away every 30 s.
const patience = 5 * time.Minute

// controlled is a control plane with controllers, and a client for it.
type controlled struct {
	*controlplane.ControlPlane
	client.Client
	t *testing.T
}

// startControlled starts the controllers when the kind Gate is there.
func startControlled(t *testing.T) *controlled {
	t.Helper()
	cp := start(t, controlplane.Options{Controllers: true})
	if err := controlplane.Apply(t.Context(), cp.Config(), "test", decode(t, gate)...); err != nil {
		t.Fatal(err)
	}
	if err := cp.StartControllers(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(cp.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &controlled{cp, c, t}
}

func (c *controlled) create(object client.Object) {
	c.t.Helper()
	if err := c.Create(c.t.Context(), object); err != nil {
		c.t.Fatal(err)
	}
}

// eventually waits until check returns nil.
func (c *controlled) eventually(what string, check func() error) {
	c.t.Helper()
	c.within(patience, what, check)
}

// within waits no longer than limit until check returns nil.
func (c *controlled) within(limit time.Duration, what string, check func() error) {
	c.t.Helper()
	var err error
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = check(); err == nil {
			return
		}
	}
	c.t.Fatalf("%s: %v", what, err)
}

// ends waits until an object is gone.
func (c *controlled) ends(object client.Object) {
	c.t.Helper()
	c.eventually(fmt.Sprintf("%T %s goes", object, object.GetName()), func() error {
		err := c.Get(c.t.Context(), client.ObjectKeyFromObject(object), object)
		if err == nil {
			return errors.New("it is there")
		}
		return client.IgnoreNotFound(err)
	})
}

// gateNamed returns a Gate.
func gateNamed(namespace, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("example.com/v1")
	object.SetKind("Gate")
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

func TestControllersWork(t *testing.T) {
	t.Parallel()
	c := startControlled(t)
	ctx := t.Context()
	inDefault := metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "web"}

	// A Pod has a ServiceAccount at once, and what it serves is an endpoint.
	pod := &corev1.Pod{ObjectMeta: *inDefault.DeepCopy(), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}}}
	pod.Labels = map[string]string{"app": "web"}
	c.create(pod)
	if pod.Spec.ServiceAccountName != "default" {
		t.Errorf("the Pod has the ServiceAccount %q, want default", pod.Spec.ServiceAccountName)
	}
	svc := &corev1.Service{ObjectMeta: inDefault, Spec: corev1.ServiceSpec{
		Selector: pod.Labels, Ports: []corev1.ServicePort{{Port: 80}},
	}}
	c.create(svc)
	c.eventually("the Service has an EndpointSlice", func() error {
		slices := &discoveryv1.EndpointSliceList{}
		err := c.List(ctx, slices, client.InNamespace(svc.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: svc.Name})
		if err == nil && len(slices.Items) == 0 {
			return errors.New("there is none")
		}
		return err
	})

	// Kinds that were there when the controllers started are collected and counted.
	owned := gateNamed(svc.Namespace, "owned")
	owned.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(svc, corev1.SchemeGroupVersion.WithKind("Service"))})
	c.create(owned)
	if err := c.Delete(ctx, svc); err != nil {
		t.Fatal(err)
	}
	c.ends(owned)
	c.counts(t)

	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ending"}}
	c.create(namespace)
	last := gateNamed(namespace.Name, "last")
	c.create(last)
	if err := c.Delete(ctx, namespace); err != nil {
		t.Fatal(err)
	}
	c.ends(namespace)
	c.ends(last)
}

// counts has a quota of one Gate refuse the second.
func (c *controlled) counts(t *testing.T) {
	t.Helper()
	quota := c.quotaOfOneGate("counted")
	first, second := gateNamed(quota.Namespace, "first"), gateNamed(quota.Namespace, "second")
	c.eventually("admission knows that it is", func() error { return c.Create(c.t.Context(), first) })
	c.eventually("a Gate above the quota is forbidden", func() error {
		err := c.Create(t.Context(), second.DeepCopy())
		if err == nil { // who counts again and again may not have seen the first yet
			return errors.Join(errors.New("it was created"), c.Delete(t.Context(), second.DeepCopy()))
		}
		if !isAboveQuota(err) {
			return err
		}
		return nil
	})
	if err := c.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	c.eventually("there is room again", func() error { return c.Create(t.Context(), second.DeepCopy()) })
}

const gates corev1.ResourceName = "count/gates.example.com"

// quotaOfOneGate makes a namespace with a quota, and returns it when it has been counted.
func (c *controlled) quotaOfOneGate(namespace string) *corev1.ResourceQuota {
	c.t.Helper()
	c.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "one"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{gates: resource.MustParse("1")}},
	}
	c.create(quota)
	c.eventually("the quota is counted", func() error {
		if err := c.Get(c.t.Context(), client.ObjectKeyFromObject(quota), quota); err != nil {
			return err
		}
		if _, ok := quota.Status.Used[gates]; !ok {
			return fmt.Errorf("the status is %v", quota.Status)
		}
		return nil
	})
	return quota
}

// isAboveQuota reports whether a creation was refused for a quota.
func isAboveQuota(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota")
}

// TestQuotaOfWhatIsGone: a quota that counts an object which is gone has room again long before the 5 minutes are over
// after which Kubernetes would count by itself. The status is written by hand here, as a creation and a deletion in the
// same moment leave it in one of some two hundred tries.
func TestQuotaOfWhatIsGone(t *testing.T) {
	t.Parallel()
	c := startControlled(t)
	quota := c.quotaOfOneGate("stale")
	quota.Status.Used[gates] = resource.MustParse("1")
	if err := c.Status().Update(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	gate := gateNamed(quota.Namespace, "gate")
	c.within(patience/2, "there is room", func() error { return c.Create(t.Context(), gate.DeepCopy()) })
}

func TestControllersFindTheAPIServerAgain(t *testing.T) {
	t.Parallel()
	c := startControlled(t)
	for name, restart := range map[string]func(context.Context) error{
		"restarted": c.RestartAPIServer,
		"crashed":   c.CrashAPIServer,
	} {
		if err := restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		c.create(namespace)
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "default"}}
		c.eventually("a default ServiceAccount after the API server has "+name, func() error {
			return c.Get(t.Context(), client.ObjectKeyFromObject(account), account)
		})
		if err := c.Delete(t.Context(), namespace); err != nil {
			t.Fatal(err)
		}
		c.ends(namespace)
	}
	exited := c.Exited()
	select {
	case <-exited:
		t.Error("a program ended")
	default:
	}
	if err := c.Gone(t.Context()); err != nil {
		t.Errorf("Gone() = %v while all run", err)
	}
	if runtime.GOOS != "linux" {
		return // no other system tells which process it is
	}
	pid, runs := programsOf(t, c.Dir())["kube-controller-manager"]
	if !runs {
		t.Fatal("the controller manager does not run")
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-exited:
	case <-time.After(patience):
		t.Error("nobody noticed that the controller manager ended")
	}
	if err := c.Gone(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "kube-controller-manager has ended") {
		t.Errorf("Gone() = %v, want the controller manager and its last words", err)
	}
}

func TestControllersAreAskedFor(t *testing.T) {
	t.Parallel()
	cp := start(t, controlplane.Options{})
	if err := cp.StartControllers(t.Context()); err == nil {
		t.Error("controllers were started for an API server without ServiceAccounts")
	}
}
