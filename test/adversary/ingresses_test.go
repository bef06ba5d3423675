package adversary

import (
	"context"
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// ofIngresses are what a tenant does to Services that ask for an Ingress, to those Ingresses, and to some of its own.
var ofIngresses = []kind{
	{"create asking Service", 5, createAsking},
	{"patch asking Service", 4, func(u *user, rng *rand.Rand) act {
		return merges(u, anAsking(u, rng), annotate(v1beta1.AnnotationHTTP, pick(rng, someHost(rng), someHost(rng), "")))
	}},
	{"delete asking Service", 3, func(u *user, rng *rand.Rand) act { return deletes(u, anAsking(u, rng)) }},
	{"finalizers of asking Service", 3, func(u *user, rng *rand.Rand) act { return merges(u, anAsking(u, rng), finalizersText(rng)) }},
	{"managedFields of asking Service", 1, func(u *user, rng *rand.Rand) act { return merges(u, anAsking(u, rng), disownText) }},
	{"create Ingress", 5, createIngress},
	{"patch Ingress", 4, func(u *user, rng *rand.Rand) act { return merges(u, anIngress(u, rng), rulesText(rng)) }},
	{"delete Ingress", 4, func(u *user, rng *rand.Rand) act { return deletes(u, anIngress(u, rng)) }},
	{"finalizers of Ingress", 4, func(u *user, rng *rand.Rand) act { return merges(u, anIngress(u, rng), finalizersText(rng)) }},
	{"managedFields of Ingress", 2, func(u *user, rng *rand.Rand) act { return merges(u, anIngress(u, rng), disownText) }},
	{"marks on Ingress", 3, func(u *user, rng *rand.Rand) act { return merges(u, anIngress(u, rng), marksText(rng)) }},
	{"owner of Ingress", 2, ownIngress},
}

// anAsking is one of a tenant's Services that ask for an Ingress, by its name.
func anAsking(u *user, rng *rand.Rand) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: u.namespace, Name: fmt.Sprintf("web-%d", rng.IntN(2))}}
}

// anIngress is one of a tenant's, by its name: of its own, or of a Service that may ask for one.
func anIngress(u *user, rng *rand.Rand) *networkingv1.Ingress {
	name := pick(rng, "hand-0", "hand-1", "web-0", "web-1")
	return &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: u.namespace, Name: name}}
}

func someHost(rng *rand.Rand) string {
	return fmt.Sprintf("host=%s.example.com,path=%s", pick(rng, "one", "two", "three"), pick(rng, "/", "/api"))
}

func createAsking(u *user, rng *rand.Rand) act {
	svc := anAsking(u, rng)
	svc.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80}}
	svc.Annotations = map[string]string{v1beta1.AnnotationHTTP: someHost(rng)}
	if rng.IntN(3) == 0 {
		svc.Finalizers = []string{mine}
	}
	return creates(u, svc, fmt.Sprintf("%s, finalizers %v", svc.Annotations[v1beta1.AnnotationHTTP], svc.Finalizers))
}

func createIngress(u *user, rng *rand.Rand) act {
	ing := anIngress(u, rng)
	host, path := pick(rng, "one", "two", "three")+".example.com", pick(rng, "/", "/api")
	backend := networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
		Name: "web-0", Port: networkingv1.ServiceBackendPort{Number: 80},
	}}
	ing.Spec.Rules = []networkingv1.IngressRule{{Host: host, IngressRuleValue: networkingv1.IngressRuleValue{
		HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{
			{Path: path, PathType: new(networkingv1.PathTypePrefix), Backend: backend},
		}},
	}}}
	if rng.IntN(3) == 0 {
		ing.Annotations = map[string]string{v1beta1.AnnotationMadeFor: nobodysMark}
	}
	if rng.IntN(2) == 0 {
		ing.Finalizers = []string{mine}
	}
	return creates(u, ing, fmt.Sprintf("%s%s, annotations %v, finalizers %v", host, path, ing.Annotations, ing.Finalizers))
}

// nobodysMark is what Portcullis would write on the Ingress of a Service that does not exist.
const nobodysMark = "0b7a5e0e-0000-4000-8000-000000000000@1"

// rulesText has an Ingress serve something else.
func rulesText(rng *rand.Rand) string {
	return fmt.Sprintf(`{"spec":{"rules":[{"host":"%s.example.com","http":{"paths":[{"path":%q,"pathType":"Prefix",`+
		`"backend":{"service":{"name":"web-0","port":{"number":80}}}}]}}]}}`, pick(rng, "one", "two", "three"), pick(rng, "/", "/api"))
}

// ownIngress says that a Service owns an Ingress, as Portcullis does, or takes that away.
func ownIngress(u *user, rng *rand.Rand) act {
	ing, svc, owned := anIngress(u, rng), anAsking(u, rng), rng.IntN(3) > 0
	return act{
		what: fmt.Sprintf("say of Ingress %s that Service %s owns it, as its controller: %t", keyOf(ing), svc.Name, owned),
		do: func(ctx context.Context) error {
			text := `{"metadata":{"ownerReferences":null}}`
			if owned {
				if err := u.Get(ctx, keyOf(svc), svc); err != nil {
					return err
				}
				text = fmt.Sprintf(`{"metadata":{"annotations":{%q:"%s@1"},"ownerReferences":[{"apiVersion":"v1","kind":"Service","name":%q,"uid":%q,"controller":true}]}}`,
					v1beta1.AnnotationMadeFor, svc.UID, svc.Name, svc.UID)
			}
			return merges(u, ing, text).do(ctx)
		},
	}
}
