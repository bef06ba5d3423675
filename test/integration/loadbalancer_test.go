package integration

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// balancing is a Portcullis of two replicas for the tests of load balancers that run one after the other. It serves
// Services without a class, too.
func balancing(t *testing.T) *fixture {
	t.Helper()
	return newFixture(t, start(t, harness.Options{Replicas: 2, Flags: append([]string{"--default-load-balancer", "--claim-grace=" + grace.String()}, shortLease...)}))
}

// unguarded makes pools while no replica runs: without the webhook that would have to allow them.
func (w *fixture) unguarded(pools ...*v1beta1.AddressPool) {
	w.t.Helper()
	configuration := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "portcullis"}}
	w.get(configuration)
	stored := configuration.DeepCopy()
	configuration.Webhooks = nil
	if err := w.Client.Update(w.t.Context(), configuration); err != nil {
		w.t.Fatal(err)
	}
	for _, p := range pools {
		w.eventually("pool "+p.Name+" to be made", func() error { return client.IgnoreAlreadyExists(w.Client.Create(w.t.Context(), p)) })
	}
	stored.ResourceVersion = configuration.ResourceVersion
	if err := w.Client.Update(w.t.Context(), stored); err != nil {
		w.t.Fatal(err)
	}
	w.eventually("the API server to ask Portcullis again", func() error {
		return is(w.Client.Create(w.t.Context(), nobody(), client.DryRunAll) != nil, true)
	})
}

// source is a pool of another source than Addresses, for Services labeled with its name.
func source(name string, source v1beta1.AddressSource, options ...poolOption) *v1beta1.AddressPool {
	p := addressPool(name, nil, options...)
	p.Spec.Source = source
	return p
}

// sharesPorts is a pool whose addresses several Services share.
func sharesPorts(p *v1beta1.AddressPool) { p.Spec.Sharing = v1beta1.SharingPorts }

// onRequest is a pool that serves only those who name it or an address of it.
func onRequest(p *v1beta1.AddressPool) { p.Spec.AutoAssign = new(false) }

// forNamespaces is a pool for the namespaces with a label, "key=value".
func forNamespaces(label string) poolOption {
	key, value, _ := strings.Cut(label, "=")
	return func(p *v1beta1.AddressPool) {
		p.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
	}
}

// forAll is a pool for all Services, and not only for those labeled with its name.
func forAll(p *v1beta1.AddressPool) { p.Spec.ServiceSelector = nil }

// balancerOption changes a Service that is being built.
type balancerOption func(*corev1.Service)

// balancer is a Service of type LoadBalancer of our class; port TCP/80 unless options say otherwise.
func balancer(key string, options ...balancerOption) *corev1.Service {
	svc := service(key, port("", 80))
	svc.Spec.Type = corev1.ServiceTypeLoadBalancer
	svc.Spec.LoadBalancerClass = new(v1beta1.LoadBalancerClass)
	for _, option := range options {
		option(svc)
	}
	return svc
}

// from labels a Service for a pool.
func from(pool string) balancerOption {
	return func(svc *corev1.Service) { metav1.SetMetaDataLabel(&svc.ObjectMeta, "pool", pool) }
}

// classless takes the class away.
func classless(svc *corev1.Service) { svc.Spec.LoadBalancerClass = nil }

// ports are the ports of a Service, instead of TCP/80.
func ports(ports ...corev1.ServicePort) balancerOption {
	return func(svc *corev1.Service) { svc.Spec.Ports = ports }
}

// annotated gives a Service an annotation; "" takes it away.
func annotated(name, value string) balancerOption {
	return func(svc *corev1.Service) {
		metav1.SetMetaDataAnnotation(&svc.ObjectMeta, name, value)
		if value == "" {
			delete(svc.Annotations, name)
		}
	}
}

// wants asks for addresses.
func wants(addresses string) balancerOption { return annotated(v1beta1.AnnotationAddresses, addresses) }

// inPool asks for a pool.
func inPool(name string) balancerOption { return annotated(v1beta1.AnnotationAddressPool, name) }

// dualStack gives a Service both families, or as many as there are.
func dualStack(policy corev1.IPFamilyPolicy, families ...corev1.IPFamily) balancerOption {
	return func(svc *corev1.Service) { svc.Spec.IPFamilyPolicy, svc.Spec.IPFamilies = &policy, families }
}

// statusOf is the status of a Service as a load balancer, one line for each entry, for example "192.0.2.1 VIP TCP/80".
func statusOf(svc *corev1.Service) string {
	var lines []string
	for _, ingress := range svc.Status.LoadBalancer.Ingress {
		parts := []string{ingress.IP + ingress.Hostname}
		if ingress.IPMode != nil {
			parts = append(parts, string(*ingress.IPMode))
		}
		for _, p := range ingress.Ports {
			text := fmt.Sprintf("%s/%d", p.Protocol, p.Port)
			if p.Error != nil {
				text += "!" + strings.TrimPrefix(*p.Error, v1beta1.GroupName+"/")
			}
			parts = append(parts, text)
		}
		lines = append(lines, strings.TrimSpace(strings.Join(parts, " ")))
	}
	return strings.Join(lines, "\n")
}

// admitted creates objects, each as soon as the replica that answers knows what it needs: until then it is refused.
func (w *fixture) admitted(objects ...client.Object) {
	w.t.Helper()
	for _, object := range objects {
		w.eventually(fmt.Sprintf("%T %s to be admitted", object, client.ObjectKeyFromObject(object)), func() error { return w.try(object) })
	}
}

// says is nil for an Invalid refusal that has all the words.
func says(err error, words ...string) error {
	if !apierrors.IsInvalid(err) {
		return fmt.Errorf("want an Invalid refusal, got: %w", err) // or it passes
	}
	return saysAll(err.Error(), words...)
}

// refusedSaying waits until the creation of a Service is refused with all the words, dry and then in truth, and returns the
// refusal. The replica that answers may learn of what stands a moment after the API server has it: a dry run may pass until
// then, and a refusal may lack words. What is held can never be had in truth.
func (w *fixture) refusedSaying(svc *corev1.Service, words ...string) (err error) {
	w.t.Helper()
	for _, options := range [][]client.CreateOption{{client.DryRunAll}, nil} {
		w.eventually(fmt.Sprintf("%s/%s to be refused", svc.Namespace, svc.Name), func() error {
			if err = w.Client.Create(w.t.Context(), svc.DeepCopy(), options...); err == nil && options == nil {
				w.t.Fatalf("%s/%s was created, want a refusal with %q", svc.Namespace, svc.Name, words)
			}
			return says(err, words...)
		})
	}
	return err
}

// editRefusedSaying waits until a change in truth is refused with all the words, as refusedSaying does.
func (w *fixture) editRefusedSaying(svc *corev1.Service, change func(*corev1.Service), words ...string) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("a change of %s/%s to be refused", svc.Namespace, svc.Name), func() error {
		err := tryEdit(w, svc, change)
		if err == nil {
			w.t.Fatalf("%s/%s was changed, want a refusal with %q", svc.Namespace, svc.Name, words)
		}
		return says(err, words...)
	})
}

// balances waits until the status of a Service is as wanted, in the words of statusOf. The Service is read anew.
func (w *fixture) balances(svc *corev1.Service, want string) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("%s/%s to be served at %q", svc.Namespace, svc.Name, want), func() error {
		if err := w.Client.Get(w.t.Context(), client.ObjectKeyFromObject(svc), svc); err != nil {
			return err
		}
		return is(statusOf(svc), want)
	})
}

// TestMyService goes through the life of the example that users start with.
func TestMyService(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 1, Flags: []string{"--default-load-balancer"}}))
	manifest, err := os.ReadFile("testdata/loadbalancer.yaml")
	if err != nil {
		t.Fatal(err)
	}
	svc := service("default/my-service")
	out := w.mustKubectl(string(manifest), "apply", "-n", "default", "-f", "-")
	mustContain(t, out, "Warning: there is no AddressPool", "service/my-service created")
	w.get(svc)
	w.hasEvent(svc, "Warning NoAddressPool there is no AddressPool")

	w.create(addressPool("public", []string{"192.0.2.0/24"}, forAll))
	at := time.Now()
	w.balances(svc, "192.0.2.0 VIP TCP/80")
	logTook(t, "the address after there is a pool", at)
	w.pointHeldBy("addr.192-0-2-0", "Service default/my-service")
	w.hasEvent(svc, "Normal AddressAssigned it is served at 192.0.2.0")
	table := w.mustKubectl("", "get", "-n", "default", "service", "my-service")
	t.Log("\n" + table)
	mustContain(t, table, "192.0.2.0")

	// Erased by hand, it comes back.
	svc.Status.LoadBalancer = corev1.LoadBalancerStatus{}
	if err := w.Client.Status().Update(t.Context(), svc); err != nil {
		t.Fatal(err)
	}
	w.balances(svc, "192.0.2.0 VIP TCP/80")

	// The type changed away: the address is free again.
	edit(w, svc, func(svc *corev1.Service) { svc.Spec.Type = corev1.ServiceTypeClusterIP })
	at = time.Now()
	w.pointHeldBy("addr.192-0-2-0", "")
	logTook(t, "the address is free", at)
	edit(w, svc, func(svc *corev1.Service) { svc.Spec.Type = corev1.ServiceTypeLoadBalancer })
	w.balances(svc, "192.0.2.0 VIP TCP/80")
	w.delete(svc)
	at = time.Now()
	w.pointHeldBy("addr.192-0-2-0", "")
	logTook(t, "the address is free after the Service was deleted", at)
}

// TestManyBalancers creates Services from many clients at once, and counts what that costs.
func TestManyBalancers(t *testing.T) {
	t.Parallel()
	const services, clients = 300, 32
	h := start(t, harness.Options{Replicas: 1})
	w := newFixture(t, h)
	w.create(namespace("many"), addressPool("many", []string{"10.0.0.0/8"}, forAll))
	var wg sync.WaitGroup
	next := make(chan int)
	for range clients {
		wg.Go(func() {
			for i := range next {
				if err := w.Client.Create(context.Background(), balancer(fmt.Sprintf("many/svc-%d", i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	begin := time.Now()
	for i := range services {
		next <- i
	}
	close(next)
	wg.Wait()
	created := time.Now()
	var list corev1.ServiceList
	w.eventually("all to be served", func() error {
		if err := w.Client.List(t.Context(), &list, client.InNamespace("many")); err != nil {
			return err
		}
		served := 0
		for i := range list.Items {
			if len(list.Items[i].Status.LoadBalancer.Ingress) == 1 {
				served++
			}
		}
		return is(served, services)
	})
	t.Logf("%d created in %s, all served %s later", services, created.Sub(begin), time.Since(created))
	seen := map[string]string{}
	for i := range list.Items {
		ip := list.Items[i].Status.LoadBalancer.Ingress[0].IP
		if seen[ip] != "" {
			t.Errorf("%s is given to %s and %s", ip, seen[ip], list.Items[i].Name)
		}
		seen[ip] = list.Items[i].Name
	}
	var claims v1beta1.EdgeClaimList
	if err := w.Client.List(t.Context(), &claims); err != nil {
		t.Fatal(err)
	}
	n := 0
	for i := range claims.Items {
		if at, err := claim.Of(&claims.Items[i]); err == nil && at.IsAddress() {
			n++
		}
	}
	if n != services {
		t.Errorf("%d claims for %d Services", n, services)
	}
}
