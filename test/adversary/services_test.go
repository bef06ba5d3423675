package adversary

import (
	"fmt"
	"math/rand/v2"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// ofServices are what a tenant does to load balancers.
var ofServices = []kind{
	{"create Service", 12, createService},
	{"patch Service ports", 8, func(u *user, rng *rand.Rand) act {
		return merges(u, aService(u, rng), fmt.Sprintf(`{"spec":{"ports":%s}}`, portsText(rng)))
	}},
	{"patch Service request", 6, func(u *user, rng *rand.Rand) act { return merges(u, aService(u, rng), requestText(rng)) }},
	{"patch Service type", 2, func(u *user, rng *rand.Rand) act { return merges(u, aService(u, rng), typeText(rng)) }},
	{"delete Service", 4, func(u *user, rng *rand.Rand) act { return deletes(u, aService(u, rng)) }},
	{"finalizers of Service", 6, func(u *user, rng *rand.Rand) act { return merges(u, aService(u, rng), finalizersText(rng)) }},
	{"managedFields of Service", 4, func(u *user, rng *rand.Rand) act { return merges(u, aService(u, rng), disownText) }},
	{"marks on Service", 3, func(u *user, rng *rand.Rand) act { return merges(u, aService(u, rng), marksText(rng)) }},
	{"owner of Service", 1, func(u *user, rng *rand.Rand) act { return merges(u, aService(u, rng), ownerText(rng)) }},
	{"flood of Service", 1, floodService},
}

// services is how many of them each tenant has.
const services = 3

// aService is one of a tenant's, by its name.
func aService(u *user, rng *rand.Rand) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: u.namespace, Name: fmt.Sprintf("lb-%d", rng.IntN(services))}}
}

// somePorts are one or two of those that others want, too: the proxy's, those of streams, one that the nodes reserve.
func somePorts(rng *rand.Rand) (ports []corev1.ServicePort) {
	of := []int32{443, 7002, 7003, 8080, 8081, 8082, 10250}
	rng.Shuffle(len(of), func(i, j int) { of[i], of[j] = of[j], of[i] })
	for i := range 1 + rng.IntN(2) {
		p := corev1.ServicePort{Name: fmt.Sprintf("p%d", i), Protocol: corev1.ProtocolTCP, Port: of[i]}
		if rng.IntN(6) == 0 {
			p.Protocol = corev1.ProtocolUDP
		}
		ports = append(ports, p)
	}
	return ports
}

func portsText(rng *rand.Rand) string {
	var parts []string
	for _, p := range somePorts(rng) {
		parts = append(parts, fmt.Sprintf(`{"name":%q,"protocol":%q,"port":%d}`, p.Name, p.Protocol, p.Port))
	}
	return "[" + strings.Join(parts, ",") + "]"
}

func createService(u *user, rng *rand.Rand) act {
	svc := aService(u, rng)
	svc.Spec.Type, svc.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, new(v1beta1.LoadBalancerClass)
	svc.Spec.AllocateLoadBalancerNodePorts, svc.Spec.Ports = new(false), somePorts(rng)
	svc.Annotations = map[string]string{}
	switch rng.IntN(8) {
	case 0, 1, 2:
		svc.Annotations[v1beta1.AnnotationAddressPool] = "shared"
	case 3, 4, 5:
		svc.Annotations[v1beta1.AnnotationAddressPool] = "nodes"
	case 6:
		svc.Annotations[v1beta1.AnnotationAddresses] = someAddress(rng)
	default:
		svc.Spec.LoadBalancerIP = someAddress(rng)
	}
	if rng.IntN(2) == 0 {
		svc.Finalizers = []string{mine}
	}
	return creates(u, svc, fmt.Sprintf("ports %v, annotations %v, loadBalancerIP %q, finalizers %v",
		portsOf(svc), svc.Annotations, svc.Spec.LoadBalancerIP, svc.Finalizers))
}

func someAddress(rng *rand.Rand) string {
	return pick(rng, sharedAddress, wholeAddresses[0], wholeAddresses[1])
}

// requestText changes what a Service asks for.
func requestText(rng *rand.Rand) string {
	switch rng.IntN(5) {
	case 0:
		return annotate(v1beta1.AnnotationAddressPool, pick(rng, "shared", "nodes", "whole", ""))
	case 1, 2:
		return annotate(v1beta1.AnnotationAddresses, pick(rng, someAddress(rng), someAddress(rng), ""))
	case 3:
		return annotate(v1beta1.AnnotationSharing, pick(rng, "Ports", "None", ""))
	default:
		return fmt.Sprintf(`{"spec":{"loadBalancerIP":%q}}`, pick(rng, someAddress(rng), ""))
	}
}

// typeText has a Service be no load balancer for a while, or somebody else's.
func typeText(rng *rand.Rand) string {
	ours := fmt.Sprintf(`{"spec":{"type":"LoadBalancer","loadBalancerClass":%q,"allocateLoadBalancerNodePorts":false}}`, v1beta1.LoadBalancerClass)
	return pick(rng, ours, ours, `{"spec":{"type":"ClusterIP","loadBalancerClass":null,"allocateLoadBalancerNodePorts":null}}`)
}

// annotate sets an annotation; "" takes it away.
func annotate(name, value string) string {
	if value == "" {
		return fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, name)
	}
	return fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, name, value)
}

// mine is the finalizer of the tenants.
const mine = "tenant.example.com/mine"

// finalizersText puts the finalizer on, or takes it off.
func finalizersText(rng *rand.Rand) string {
	if rng.IntN(2) == 0 {
		return fmt.Sprintf(`{"metadata":{"finalizers":[%q]}}`, mine)
	}
	return `{"metadata":{"finalizers":null}}`
}

// disownText makes the API server forget who has written what.
const disownText = `{"metadata":{"managedFields":[{}]}}`

// marksText copies what Portcullis writes on objects of its own, or says that somebody owns the object.
func marksText(rng *rand.Rand) string {
	switch rng.IntN(4) {
	case 0:
		return fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, v1beta1.LabelClass, className)
	case 1:
		return annotate(v1beta1.AnnotationMadeFor, nobodysMark)
	case 2:
		return `{"metadata":{"labels":null}}`
	default:
		return annotate(v1beta1.AnnotationMadeFor, "")
	}
}

// ownerText says that something owns an object that does not exist, so that the garbage collector deletes it, or nothing.
func ownerText(rng *rand.Rand) string {
	return pick(rng, `{"metadata":{"ownerReferences":null}}`,
		`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"nobody","uid":"0b7a5e0e-0000-4000-8000-000000000000"}]}}`)
}

// floodService changes the same Service many times at once.
func floodService(u *user, rng *rand.Rand) act {
	svc := aService(u, rng)
	var acts []act
	for range 12 {
		text := requestText(rng)
		switch rng.IntN(3) {
		case 0:
			text = fmt.Sprintf(`{"spec":{"ports":%s}}`, portsText(rng))
		case 1:
			text = disownText
		}
		acts = append(acts, merges(u, svc, text))
	}
	return atOnce(acts...)
}

// portsOf are the ports of a Service, short.
func portsOf(svc *corev1.Service) (ports []string) {
	for _, p := range svc.Spec.Ports {
		ports = append(ports, fmt.Sprintf("%s/%d", p.Protocol, p.Port))
	}
	return ports
}

// keyOf is the namespace and name of an object.
func keyOf(obj client.Object) types.NamespacedName { return client.ObjectKeyFromObject(obj) }
