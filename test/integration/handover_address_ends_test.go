package integration

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
)

// TestHandOverAddressEndsInBetween has the annotation be taken off, the giver be deleted with a finalizer, and the heir be deleted, at once
// after an address was handed over: somebody is listed there for as long as there is an heir, and the giver gets nothing back.
func TestHandOverAddressEndsInBetween(t *testing.T) {
	w := shared(t)
	w.create(namespace("between-a"), namespace("between-b"), addressPool("between", []string{"198.18.78.16/28"}, forAll, onRequest),
		addressPool("between-ports", []string{"198.18.78.32"}, forAll, onRequest, sharesPorts))

	t.Log("the annotation is taken off")
	giver, heir := balancer("between-a/off", inPool("between")), balancer("between-b/off", wants("198.18.78.16"))
	w.admitted(giver)
	w.balances(giver, "198.18.78.16 VIP TCP/80")
	history := listedBy(w, "198.18.78.16", giver, heir)
	w.serviceHandsOverTo(giver, "between-b/off")
	w.create(heir)
	w.serviceHandsOverTo(giver, "")
	w.balances(heir, "198.18.78.16 VIP TCP/80")
	w.balances(giver, "198.18.78.17 VIP TCP/80")
	history.mustHold(w)

	t.Log("the giver is being deleted, and has a finalizer")
	stays, next := balancer("between-a/stays", wants("198.18.78.18")), balancer("between-b/next", wants("198.18.78.18"))
	stays.Finalizers = []string{"example.com/stays"}
	w.admitted(stays)
	w.balances(stays, "198.18.78.18 VIP TCP/80")
	history = listedBy(w, "198.18.78.18", stays, next)
	w.serviceHandsOverTo(stays, "between-b/next")
	w.create(next)
	must(w, w.Client.Delete(t.Context(), stays.DeepCopy()))
	w.balances(next, "198.18.78.18 VIP TCP/80")
	w.balances(stays, "")
	history.mustHold(w)
	edit(w, stays, func(svc *corev1.Service) { svc.Finalizers = nil })

	t.Log("the heir is deleted: what it was given is free, and not the giver's")
	gives, goes := balancer("between-a/gives", wants("198.18.78.19")), balancer("between-b/goes", wants("198.18.78.19"))
	w.admitted(gives)
	w.balances(gives, "198.18.78.19 VIP TCP/80")
	w.serviceHandsOverTo(gives, "between-b/goes")
	w.create(goes)
	w.pointHeldBy("addr.198-18-78-19", "Service between-b/goes")
	w.delete(goes)
	w.pointHeldBy("addr.198-18-78-19", "")
	w.balances(gives, "")
	w.pointHeldBy("addr.198-18-78-19", "")

	t.Log("it is given no other port, neither")
	web := balancer("between-a/web", inPool("between-ports"), ports(port("http", 80)))
	w.admitted(web)
	w.balances(web, "198.18.78.32 VIP TCP/80")
	w.serviceHandsOverTo(web, "between-b/web")
	w.editRefusedSaying(web, ports(port("http", 80), port("https", 443)), "spec.ports[1].port", "is given no other port",
		"remove the annotation "+v1beta1.AnnotationHandOverTo)
	w.pointHeldBy("addr.198-18-78-32.tcp.443", "")

	t.Log("who asks for a port that another has, too, takes nothing")
	other := balancer("between-a/other", wants("198.18.78.32"), ports(port("https", 443)))
	w.admitted(other)
	w.balances(other, "198.18.78.32 VIP TCP/443")
	both := balancer("between-b/web", wants("198.18.78.32"), ports(port("http", 80), port("https", 443)))
	_ = w.refusedSaying(both, `"TCP/443": held by Service between-a/other since`)
	w.balances(web, "198.18.78.32 VIP TCP/80")
	w.pointHeldBy("addr.198-18-78-32.tcp.80", "Service between-a/web")
}
