package integration

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/internal/claim"
)

// kernelClass is a class without a proxy, which has addresses of a pool, and its Services in a namespace of its own name.
func kernelClass(name, pool string, options ...classOption) *v1beta1.StreamIngressClass {
	c := &v1beta1.StreamIngressClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Spec.AddressPool = &v1beta1.ClassAddressPool{Name: pool, Namespace: name}
	for _, option := range options {
		option(c)
	}
	return c
}

// endpoint is an endpoint by its address; with a Pod, it is that of the Pod.
func endpoint(address string, of ...*corev1.Pod) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{
		Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
		Zone: new("zone-a"), NodeName: new("node-a"), Hints: &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "zone-a"}}},
	}
	for _, pod := range of {
		e.TargetRef = &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
	}
	return e
}

// sliceOf is the EndpointSlice of a Service, by namespace/name of the slice, with one port.
func sliceOf(key, service, port string, number int32, all ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, Endpoints: all}
	s.Namespace, s.Name, _ = strings.Cut(key, "/")
	if len(all) > 0 && strings.Contains(all[0].Addresses[0], ":") {
		s.AddressType = discoveryv1.AddressTypeIPv6
	}
	s.Labels = map[string]string{discoveryv1.LabelServiceName: service}
	s.Ports = []discoveryv1.EndpointPort{{Name: &port, Port: &number, Protocol: new(corev1.ProtocolTCP)}}
	return s
}

// forwards waits until the kernel is told to forward a port of a class in one way: the addresses, then the endpoints, ordered, or
// "closed".
func (w *fixture) forwards(class string, protocol v1beta1.Protocol, port int32, want string) {
	w.t.Helper()
	w.eventually(fmt.Sprintf("%s/%d of class %s to be %s", protocol, port, class, want), func() error {
		got, err := w.forwarded(class, protocol, port)
		if err != nil {
			return err
		}
		return is(got, want)
	})
}

func (w *fixture) forwarded(class string, protocol v1beta1.Protocol, port int32) (string, error) {
	key := types.NamespacedName{Namespace: class, Name: v1beta1.StreamServiceName(class, protocol, port)}
	var list discoveryv1.EndpointSliceList
	if err := w.Client.List(w.t.Context(), &list, client.InNamespace(class), client.MatchingLabels{discoveryv1.LabelServiceName: key.Name}); err != nil {
		return "", err
	}
	var svc corev1.Service
	if err := client.IgnoreNotFound(w.Client.Get(w.t.Context(), key, &svc)); err != nil {
		return "", err
	}
	if svc.UID == "" {
		return "closed" + strings.Repeat("?", len(list.Items)), nil
	}
	if p := svc.Spec.Ports[0]; len(svc.Spec.Ports) != 1 || p.NodePort != 0 || p.Port != port || len(svc.Spec.Selector) > 0 || *svc.Spec.AllocateLoadBalancerNodePorts {
		return "", fmt.Errorf("not the Service of a stream: %+v", svc.Spec)
	}
	var addresses, to []string
	for _, ingress := range svc.Status.LoadBalancer.Ingress {
		addresses = append(addresses, ingress.IP)
	}
	for _, slice := range list.Items {
		if *slice.Ports[0].Name != svc.Spec.Ports[0].Name {
			return "", fmt.Errorf("EndpointSlice %s has another port than its Service: %s", slice.Name, *slice.Ports[0].Name)
		}
		for _, e := range slice.Endpoints {
			text := fmt.Sprintf("%s:%d", e.Addresses[0], *slice.Ports[0].Port)
			if e.Conditions.Ready != nil && !*e.Conditions.Ready {
				text += " not ready"
			}
			if e.Zone == nil || e.NodeName == nil || e.Hints == nil || e.TargetRef != nil {
				text += " changed"
			}
			to = append(to, text)
		}
	}
	slices.Sort(to)
	return strings.Join(addresses, ",") + " -> " + strings.Join(to, ","), nil
}

// versions are those of a stream, of its class and of what is in the namespace of the class.
func (w *fixture) versions(namespace string, class *v1beta1.StreamIngressClass, s *v1beta1.StreamIngress) string {
	w.t.Helper()
	var services corev1.ServiceList
	var mirrors discoveryv1.EndpointSliceList
	for _, list := range []client.ObjectList{&services, &mirrors} {
		if err := w.Client.List(w.t.Context(), list, client.InNamespace(namespace)); err != nil {
			w.t.Fatal(err)
		}
	}
	w.get(class, s)
	versions := []string{class.ResourceVersion, s.ResourceVersion}
	for i := range services.Items {
		versions = append(versions, services.Items[i].ResourceVersion)
	}
	for i := range mirrors.Items {
		versions = append(versions, mirrors.Items[i].ResourceVersion)
	}
	return strings.Join(versions, " ")
}

// TestForwardedByTheKernel opens streams of a class without a proxy, and follows their upstream.
func TestForwardedByTheKernel(t *testing.T) {
	w := shared(t)
	pool := addressPool("kernel", []string{"198.18.64.0/30"}, onRequest)
	class := kernelClass("kernel", pool.Name, autoAssign(7000, 7010))
	web := service("kernel-a/web", port("http", 80))
	own, another, elsewhere := pod("kernel-a/web-0"), pod("kernel-a/web-1"), pod("kernel-b/db-0")
	w.create(namespace("kernel"), namespace("kernel-a"), namespace("kernel-b"), pool, class, web, own, another, elsewhere)
	w.runs(own, "10.9.0.1")
	w.runs(another, "10.9.0.2")
	w.runs(elsewhere, "10.9.0.3")
	w.classHas(class, v1beta1.ConditionProgrammed, "True Programmed")

	slice := sliceOf("kernel-a/web-x", "web", "http", 8080, endpoint("10.9.0.1", own))
	s := sti("kernel-a/s", of("kernel"), tcp(5432))
	w.create(slice, s)
	w.forwards("kernel", TCP, 5432, "198.18.64.0 -> 10.9.0.1:8080")
	w.programmed(s)
	w.get(s)
	if err := is(strings.Join(s.Status.Addresses, ","), "198.18.64.0"); err != nil {
		t.Error("the addresses of the stream: ", err)
	}
	w.has(s, v1beta1.ConditionResolvedRefs, "True ResolvedRefs")
	w.pointHeldBy("addr.198-18-64-0", "StreamIngressClass kernel")

	t.Log("nothing is mirrored but Pods of the namespace of the upstream, and the condition says why")
	edit(w, slice, func(s *discoveryv1.EndpointSlice) {
		s.Endpoints = []discoveryv1.Endpoint{
			endpoint("10.9.0.1", own), endpoint("10.96.0.1"), endpoint("10.9.0.3", elsewhere), endpoint("10.9.0.3", own), endpoint("10.77.0.1"),
		}
	})
	w.has(s, v1beta1.ConditionResolvedRefs, "False EndpointsLeftOut")
	w.forwards("kernel", TCP, 5432, "198.18.64.0 -> 10.9.0.1:8080")
	w.get(s)
	for _, c := range s.Status.Conditions {
		if c.Type == v1beta1.ConditionResolvedRefs {
			mustContain(t, c.Message, "4 of 5", "no Pod of namespace kernel-a", "outsideUpstreams: Denied")
		}
	}
	w.programmed(s)

	t.Log("slices split and merge, endpoints come, fail and go")
	edit(w, slice, func(s *discoveryv1.EndpointSlice) { s.Endpoints = []discoveryv1.Endpoint{endpoint("10.9.0.1", own)} })
	second := sliceOf("kernel-a/web-y", "web", "http", 8080, endpoint("10.9.0.2", another))
	w.create(second)
	w.forwards("kernel", TCP, 5432, "198.18.64.0 -> 10.9.0.1:8080,10.9.0.2:8080")
	w.has(s, v1beta1.ConditionResolvedRefs, "True ResolvedRefs")
	edit(w, second, func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Conditions.Ready = new(false) })
	w.forwards("kernel", TCP, 5432, "198.18.64.0 -> 10.9.0.1:8080,10.9.0.2:8080 not ready")
	w.delete(slice)
	w.forwards("kernel", TCP, 5432, "198.18.64.0 -> 10.9.0.2:8080 not ready")
	edit(w, second, func(s *discoveryv1.EndpointSlice) {
		s.Endpoints = []discoveryv1.Endpoint{endpoint("10.9.0.1", own), endpoint("10.9.0.2", another)}
		s.Endpoints[1].TargetRef.Namespace = "" // it is of the slice's own namespace
		*s.Ports[0].Port = 8081
	})
	w.forwards("kernel", TCP, 5432, "198.18.64.0 -> 10.9.0.1:8081,10.9.0.2:8081")

	t.Log("a Pod that is gone is no endpoint, whatever the slice says")
	w.kill(another)
	w.forwards("kernel", TCP, 5432, "198.18.64.0 -> 10.9.0.1:8081")

	t.Log("a named port that changes, an upstream that is replaced, and one that is away")
	edit(w, s, to("web", "http"))
	edit(w, web, func(s *corev1.Service) { s.Spec.Ports[0].Port = 8000 })
	w.forwards("kernel", TCP, 5432, "198.18.64.0 -> 10.9.0.1:8081")
	w.delete(web)
	w.forwards("kernel", TCP, 5432, "198.18.64.0 -> ")
	headless := service("kernel-a/web", port("http", 80))
	headless.Spec.ClusterIP = corev1.ClusterIPNone
	w.create(headless)
	w.forwards("kernel", TCP, 5432, "198.18.64.0 -> 10.9.0.1:8081")

	t.Log("who looks like the Service of a stream keeps nothing, and goes")
	fake := service("kernel-a/kernel-tcp-5432", port("tcp-5432", 5432))
	fake.Labels = map[string]string{v1beta1.LabelClass: "kernel"}
	fake.Spec.Type, fake.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, new(v1beta1.StreamLoadBalancerClass)
	w.create(fake)
	w.forwards("kernel", TCP, 5432, "198.18.64.0 -> 10.9.0.1:8081")

	t.Log("what is changed or deleted by hand is set right")
	door := service("kernel/" + v1beta1.StreamServiceName("kernel", TCP, 5432))
	edit(w, door, func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "evil"} })
	w.forwards("kernel", TCP, 5432, "198.18.64.0 -> 10.9.0.1:8081")
	w.delete(door)
	w.forwards("kernel", TCP, 5432, "198.18.64.0 -> 10.9.0.1:8081")
	var mirrors discoveryv1.EndpointSliceList
	w.eventually("one EndpointSlice, of the Service that there is", func() error { // that of the one that was deleted may be about to go
		w.get(door)
		if err := w.Client.List(t.Context(), &mirrors, client.InNamespace("kernel")); err != nil || len(mirrors.Items) != 1 {
			return fmt.Errorf("there are %d: %w", len(mirrors.Items), err)
		}
		return is(metav1.IsControlledBy(&mirrors.Items[0], door), true)
	})
	w.forwards("kernel", TCP, 5432, "198.18.64.0 -> 10.9.0.1:8081")
	edit(w, &mirrors.Items[0], func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses[0] = "10.96.0.1" })
	w.forwards("kernel", TCP, 5432, "198.18.64.0 -> 10.9.0.1:8081")
	edit(w, &mirrors.Items[0], func(s *discoveryv1.EndpointSlice) {
		delete(s.Labels, discoveryv1.LabelManagedBy)
		s.Endpoints[0].Addresses[0] = "10.96.0.1"
	})
	w.forwards("kernel", TCP, 5432, "198.18.64.0 -> 10.9.0.1:8081")
	edit(w, door, func(s *corev1.Service) {
		delete(s.Labels, v1beta1.LabelClass)
		s.Spec.Ports[0].TargetPort = intstr.FromInt32(1)
	})
	w.eventually("the label of the class to be back", func() error {
		w.get(door)
		return is(door.Labels[v1beta1.LabelClass]+" "+door.Spec.Ports[0].TargetPort.String(), "kernel 5432")
	})
	w.delete(&v1beta1.EdgeClaim{ObjectMeta: metav1.ObjectMeta{Name: "addr.198-18-64-0"}})
	w.pointHeldBy("addr.198-18-64-0", "StreamIngressClass kernel")

	t.Log("when nothing happens, nothing is written")
	w.programmed(s)
	before := w.versions("kernel", class, s)
	fence := sti("kernel-a/fence", of("kernel"), tcp(5999))
	w.create(fence)
	w.programmed(fence)
	w.delete(fence)
	w.forwards("kernel", TCP, 5999, "closed")
	w.eventually("what was there to be as it was", func() error { return is(w.versions("kernel", class, s), before) })

	t.Log("a stream that moves, and one that goes, close their door before anybody else has the port")
	edit(w, s, tcp(5433))
	w.forwards("kernel", TCP, 5433, "198.18.64.0 -> 10.9.0.1:8081")
	w.forwards("kernel", TCP, 5432, "closed")
	w.heldBy("kernel", TCP, 5432, "")
	w.delete(s)
	w.forwards("kernel", TCP, 5433, "closed")
	w.heldBy("kernel", TCP, 5433, "")
}

// TestWhatTheKernelCannotDo asks a class without a proxy for what only a proxy can do.
func TestWhatTheKernelCannotDo(t *testing.T) {
	w := shared(t)
	alias := service("beyond-a/alias", port("http", 80))
	alias.Spec.Type, alias.Spec.ExternalName = corev1.ServiceTypeExternalName, "example.com"
	class := kernelClass("beyond", "beyond", func(c *v1beta1.StreamIngressClass) { c.Spec.OutsideUpstreams = v1beta1.OutsideAllowed })
	w.create(namespace("beyond"), namespace("beyond-a"), service("beyond-a/web", port("http", 80)), alias,
		addressPool("beyond", []string{"198.18.64.8/30"}, onRequest), class)
	w.classHas(class, v1beta1.ConditionProgrammed, "True Programmed")
	for name, tc := range map[string]struct {
		option  streamOption
		field   string
		message string
	}{
		"PROXY protocol":              {proxyProtocol(false, true), "spec.proxyProtocol", "has no proxy that could speak the PROXY protocol"},
		"an upstream outside by name": {outside("example.com", 80), "spec.upstream.host", "the kernel forwards to addresses only"},
		"an alias of a name":          {to("alias", 80), "spec.upstream", "the kernel forwards to addresses only"},
	} {
		err := w.refusal(w.try(sti("beyond-a/refused", of("beyond"), tcp(1000), tc.option)))
		if causes := err.ErrStatus.Details.Causes; len(causes) != 1 || causes[0].Field != tc.field {
			t.Errorf("%s: got the causes %+v, want the field %s", name, causes, tc.field)
		}
		mustContain(t, err.Error(), tc.message)
	}
	s := sti("beyond-a/s", of("beyond"), tcp(1000))
	w.create(s)
	mustContain(t, w.refusal(tryEdit(w, s, proxyProtocol(true, false))).Error(), "has no proxy")

	t.Log("to an address outside it does forward")
	out := sti("beyond-a/out", of("beyond"), tcp(1001), outside("192.0.2.7", 8443))
	w.create(out)
	w.forwards("beyond", TCP, 1001, "198.18.64.8 -> 192.0.2.7:8443 changed") // it is on no node
	w.programmed(out)
	edit(w, class, func(c *v1beta1.StreamIngressClass) { c.Spec.Reserved = []v1beta1.PortRange{{From: 1}} })
	mustContain(t, w.refusal(tryEdit(w, class, insideOnly)).Error(), "lead out of the cluster")
}

// TestClassOnASharedAddress lets a stream and a Service meet on one address: either refuses the other.
func TestClassOnASharedAddress(t *testing.T) {
	w := shared(t)
	pool := addressPool("meet", []string{"198.18.64.16"}, onRequest, sharesPorts, forAll)
	class := kernelClass("meet", "meet", autoAssign(80, 82))
	w.create(namespace("meet"), namespace("meet-a"), service("meet-a/web", port("http", 80)), pool, class)
	w.classHas(class, v1beta1.ConditionProgrammed, "True Programmed")
	first := balancer("meet-a/first", inPool("meet"), ports(port("a", 80)))
	w.create(first)
	w.balances(first, "198.18.64.16 VIP TCP/80")

	err := w.refusal(w.try(sti("meet-a/taken", of("meet"), tcp(80))))
	mustContain(t, err.Error(), "held by Service meet-a/first", "198.18.64.16", `class "meet"`)
	s := sti("meet-a/s", of("meet"), auto(TCP))
	w.create(s)
	w.forwards("meet", TCP, 81, "198.18.64.16 -> ")
	w.pointHeldBy(claim.AddressPort(netip.MustParseAddr("198.18.64.16"), "TCP", 81).Name(), "StreamIngressClass meet")
	_ = w.refusedSaying(balancer("meet-a/second", inPool("meet"), wants("198.18.64.16"), ports(port("a", 81))),
		"held by StreamIngressClass meet")

	t.Log("what the stream had there is free when it is gone")
	w.delete(s)
	w.forwards("meet", TCP, 81, "closed")
	w.pointHeldBy(claim.AddressPort(netip.MustParseAddr("198.18.64.16"), "TCP", 81).Name(), "")
	second := balancer("meet-a/second", inPool("meet"), ports(port("a", 81)))
	w.create(second)
	w.balances(second, "198.18.64.16 VIP TCP/81")
}

// TestPortThatIsHeldOnASecondAddress has a class come to share a second address, at which somebody else has the port of a stream: that
// stays open at the first one.
func TestPortThatIsHeldOnASecondAddress(t *testing.T) {
	w := shared(t)
	pool := addressPool("twofold", []string{"198.18.64.60"}, onRequest, sharesPorts)
	class, s := kernelClass("twofold", pool.Name), sti("twofold-a/s", of("twofold"), tcp(80))
	w.create(namespace("twofold"), namespace("twofold-a"), service("twofold-a/web", port("http", 80)), pool, class)
	w.classHas(class, v1beta1.ConditionProgrammed, "True Programmed")
	w.create(s)
	w.programmed(s)
	door := service("twofold/" + v1beta1.StreamServiceName("twofold", TCP, 80))
	w.get(door)

	at := claim.AddressPort(netip.MustParseAddr("2001:db8:64::60"), "TCP", 80)
	other := claim.New(at, claim.Claimant{Holder: claim.Holder{
		Group: "gateway.networking.k8s.io", Kind: "Gateway", Namespace: "twofold-a", Name: "other",
	}})
	w.create(other)
	edit(w, pool, func(p *v1beta1.AddressPool) { p.Spec.Addresses = append(p.Spec.Addresses, "2001:db8:64::60") })
	w.has(s, v1beta1.ConditionProgrammed, "False PortRefused")
	mustContain(t, messageOf(s.Status.Conditions, v1beta1.ConditionProgrammed), "open at 198.18.64.60 only", "held by Gateway twofold-a/other")
	w.forwards("twofold", TCP, 80, "198.18.64.60 -> ")
	uid := door.UID
	w.get(door)
	if err := firstOf(is(door.UID, uid), is(strings.Join(s.Status.Addresses, ","), "198.18.64.60")); err != nil {
		t.Error("the door was closed, or its address is not told: ", err)
	}
	w.delete(other)
	w.programmed(s)
	w.pointHeldBy(at.Name(), "StreamIngressClass twofold")
}

// TestPortThatIsHeldOnASharedAddress has a stream whose port another has there: it is open when that one goes.
func TestPortThatIsHeldOnASharedAddress(t *testing.T) {
	w := shared(t)
	class := kernelClass("late", "late")
	s := sti("late-a/s", of("late"), tcp(80))
	w.create(namespace("late"), namespace("late-a"), service("late-a/web", port("http", 80)), class)
	w.classHas(class, v1beta1.ConditionProgrammed, "False NoAddress")
	w.create(s)
	w.has(s, v1beta1.ConditionProgrammed, "False NoAddress")
	door := claim.AddressPort(netip.MustParseAddr("198.18.64.20"), "TCP", 80)
	// Somebody has it there who is no Service: of one that is not Portcullis' to serve, claims go as soon as they are seen.
	gateway := claim.Holder{Group: "gateway.networking.k8s.io", Kind: "Gateway", Namespace: "late-a", Name: "other"}
	other := claim.New(door, claim.Claimant{Holder: gateway})
	w.create(other)
	w.create(addressPool("late", []string{"198.18.64.20"}, onRequest, sharesPorts))
	w.has(s, v1beta1.ConditionProgrammed, "False PortRefused")
	mustContain(t, messageOf(s.Status.Conditions, v1beta1.ConditionProgrammed), "held by Gateway late-a/other")
	w.forwards("late", TCP, 80, "closed")
	w.delete(other)
	w.programmed(s)
	w.forwards("late", TCP, 80, "198.18.64.20 -> ")

	t.Log("while the class is away, what its streams have is nobody else's")
	w.delete(class)
	w.forwards("late", TCP, 80, "closed")
	w.pointHeldBy(door.Name(), "StreamIngressClass late")
	w.delete(s)
	w.pointHeldBy(door.Name(), "")
}

// TestPoolOfAClass asks for addresses for classes, and takes them away.
func TestPoolOfAClass(t *testing.T) {
	w := shared(t)
	pool := addressPool("asked", []string{"198.18.64.24/30"}, onRequest, forAll)
	asks := func(addresses ...string) classOption {
		return func(c *v1beta1.StreamIngressClass) { c.Spec.AddressPool.Addresses = addresses }
	}
	w.create(namespace("asked"), namespace("asked-a"), service("asked-a/web", port("http", 80)), pool)
	mustContain(t, w.refusal(w.try(kernelClass("asked", "asked", asks("198.18.65.1")))).Error(), "is not an address of AddressPool asked")
	mustContain(t, w.refusal(w.try(kernelClass("asked", "asked", asks("198.18.64.24", "198.18.64.25")))).Error(), "one of each IP family")
	class := kernelClass("asked", "asked", asks("198.18.64.26"))
	s := sti("asked-a/s", of("asked"), tcp(443))
	w.create(class)
	w.classHas(class, v1beta1.ConditionProgrammed, "True Programmed")
	w.create(s)
	w.forwards("asked", TCP, 443, "198.18.64.26 -> ")
	mustContain(t, w.refusal(w.try(kernelClass("asked-2", "asked", asks("198.18.64.26")))).Error(), "held by StreamIngressClass asked")
	_ = w.refusedSaying(balancer("asked-a/b", wants("198.18.64.26")), "held by StreamIngressClass asked")

	for _, change := range []classOption{
		asks("198.18.64.25"),
		func(c *v1beta1.StreamIngressClass) { c.Spec.AddressPool.Name = "other" },
		func(c *v1beta1.StreamIngressClass) { c.Spec.AddressPool.Namespace = "other" },
	} {
		mustContain(t, w.refusal(tryEdit(w, class, change)).Error(), "while the class serves 1 stream(s)")
	}

	mustContain(t, w.Client.Delete(t.Context(), pool).Error(), "would lose their address", "StreamIngressClass asked (198.18.64.26)")
	mustContain(t, w.refusal(tryEdit(w, pool, func(p *v1beta1.AddressPool) { p.Spec.Addresses = []string{"198.18.64.24"} })).Error(),
		"would lose their address")

	t.Log("with Local, the Service says so")
	edit(w, class, func(c *v1beta1.StreamIngressClass) { c.Spec.ExternalTrafficPolicy = v1beta1.ExternalTrafficLocal })
	door := service("asked/asked-tcp-443")
	w.eventually("Local", func() error {
		w.get(door)
		return is(door.Spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyLocal)
	})
	w.forwards("asked", TCP, 443, "198.18.64.26 -> ")

	t.Log("a class that is gone closes its doors; its address and its ports are its streams', and back with it")
	w.delete(class)
	w.forwards("asked", TCP, 443, "closed")
	w.heldBy("asked", TCP, 443, "StreamIngress asked-a/s")
	w.pointHeldBy("addr.198-18-64-26", "StreamIngressClass asked")
	w.create(kernelClass("asked", "asked"))
	w.forwards("asked", TCP, 443, "198.18.64.26 -> ")
	w.programmed(s)

	t.Log("and when its last stream is gone, too, the address is free")
	w.delete(kernelClass("asked", "asked"))
	w.forwards("asked", TCP, 443, "closed")
	w.delete(s)
	w.pointHeldBy("addr.198-18-64-26", "")
}
