package integration

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"jeffthecoder.xyz/portcullis/api/v1beta1"
	"jeffthecoder.xyz/portcullis/test/controlplane"
	"jeffthecoder.xyz/portcullis/test/harness"
)

// What a tenant can do to its own Services with nothing but edit in its namespace.

// lingering keeps a Service that is deleted, for as long as its owner likes.
func lingering(svc *corev1.Service) { svc.Finalizers = []string{"tenant.example.com/mine"} }

// dropFinalizers takes the finalizer off.
func dropFinalizers(svc *corev1.Service) { svc.Finalizers = nil }

// disown makes the API server forget who has written what of a Service, with what else the patch says.
func (w *fixture) disown(svc *corev1.Service, more string) error {
	patch := fmt.Sprintf(`{"metadata":{"managedFields":[{}]%s}}`, more)
	return w.Client.Patch(w.t.Context(), svc.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))
}

// TestABalancerThatIsBeingDeleted has Services go on living behind a finalizer.
func TestABalancerThatIsBeingDeleted(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 2}))
	w.create(namespace("going-a"), namespace("going-b"))
	w.unguarded(addressPool("going", []string{"198.51.100.1/32"}, sharesPorts, forAll, onRequest), source("going-nodes", v1beta1.SourceNodeIP))
	w.node("going", "10.0.0.1")
	victim := balancer("going-a/web", inPool("going"), ports(port("https", 443)))
	shared := balancer("going-b/shared", inPool("going"), ports(port("http", 8443)), lingering)
	onNodes := balancer("going-b/nodes", from("going-nodes"), ports(port("http", 8080)), lingering)
	w.create(victim, shared, onNodes)
	w.balances(victim, "198.51.100.1 VIP TCP/443")
	w.balances(shared, "198.51.100.1 VIP TCP/8443")
	w.balances(onNodes, "10.0.0.1 VIP TCP/8080")
	w.delete(shared, onNodes)

	t.Log("they are judged as any other, and get nothing new")
	for _, err := range []error{
		tryEdit(w, shared, ports(port("https", 443))),
		tryEdit(w, shared, ports(port("http", 8443), port("nobodys", 8444))),
		tryEdit(w, shared, annotated(v1beta1.AnnotationHTTP, "host=going.example.com")),
		tryEdit(w, onNodes, ports(port("kubelet", 10250))),
	} {
		mustContain(t, w.refusal(err).Error(), "is being deleted")
	}

	t.Log("past admission they lose their address with a port that they don't hold")
	restore := w.withoutWebhooks()
	edit(w, shared, ports(port("https", 443)))
	edit(w, onNodes, ports(port("kubelet", 10250)))
	for _, svc := range []*corev1.Service{shared, onNodes} { // it may say why, until its claim has gone, too
		w.eventually(svc.Name+" to be listed nowhere", func() error {
			w.get(svc)
			return is(slices.ContainsFunc(svc.Status.LoadBalancer.Ingress, func(i corev1.LoadBalancerIngress) bool { return i.IP != "" }), false)
		})
	}
	restore()
	w.balances(victim, "198.51.100.1 VIP TCP/443")

	t.Log("finalizers can be taken off, and what they had is free")
	edit(w, shared, dropFinalizers)
	edit(w, onNodes, dropFinalizers)
	w.pointHeldBy("addr.198-51-100-1.tcp.8443", "")
	w.pointHeldBy("node.tcp.8080", "")
}

// TestForwardedPortsNeedAVerdict changes Services while no replica answers. kube-proxy forwards the ports of those that list an
// address as soon as they are stored.
func TestForwardedPortsNeedAVerdict(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 1, Flags: append([]string{"--default-load-balancer"}, shortLease...)}))
	w.create(namespace("verdict"))
	w.unguarded(source("verdict-nodes", v1beta1.SourceNodeIP))
	w.node("verdict", "10.0.0.1")
	open := balancer("verdict/open", from("verdict-nodes"), ports(port("http", 8080)))
	byDefault := balancer("verdict/by-default", from("verdict-nodes"), ports(port("http", 8081)))
	byDefault.Spec.LoadBalancerClass = nil
	others := balancer("verdict/others", ports(port("http", 8082)))
	others.Spec.LoadBalancerClass = new("example.com/other")
	w.create(open, byDefault, others)
	w.balances(open, "10.0.0.1 VIP TCP/8080")
	w.balances(byDefault, "10.0.0.1 VIP TCP/8081")
	if err := w.Replicas[0].Kill(); err != nil {
		t.Fatal(err)
	}
	kubelet := ports(port("http", 10250))
	for _, svc := range []*corev1.Service{open, byDefault} {
		w.get(svc)
		if err := tryEdit(w, svc, kubelet); err == nil || !strings.Contains(err.Error(), "service-ports.nginx-stream.jeffthecoder.xyz") {
			t.Errorf("ports of %s: %v", svc.Name, err)
		}
		edit(w, svc, annotated("note", "anything else waits for nobody"))
		edit(w, svc, func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = portOf(9090) })
	}
	edit(w, others, kubelet)
	if _, err := w.StartReplica(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, svc := range []*corev1.Service{open, byDefault} {
		w.eventually("a verdict", func() error {
			if err := tryEdit(w, svc, kubelet); !apierrors.IsInvalid(err) {
				return fmt.Errorf("want a refusal, got %w", err)
			}
			return nil
		})
	}
}

// TestABalancerThatIsAboutToMove asks for what it has to wait for, or for another address, and is forwarded where it is until
// it has that: its ports are judged there.
func TestABalancerThatIsAboutToMove(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 2}))
	w.create(namespace("move-a"), namespace("move-b"))
	w.unguarded(addressPool("move", []string{"198.51.100.1/32"}, sharesPorts, forAll, onRequest),
		addressPool("empty", []string{"198.51.100.2/32"}, forAll, onRequest), source("move-nodes", v1beta1.SourceNodeIP))
	w.node("move", "10.0.0.1")
	victim := balancer("move-a/web", inPool("move"), ports(port("https", 443)))
	waits := balancer("move-b/waits", inPool("move"), ports(port("http", 8443)))
	onNodes := balancer("move-b/nodes", from("move-nodes"), ports(port("http", 8080)))
	w.create(balancer("move-a/full", inPool("empty")), victim, waits, onNodes)
	w.balances(victim, "198.51.100.1 VIP TCP/443")
	w.balances(waits, "198.51.100.1 VIP TCP/8443")
	w.balances(onNodes, "10.0.0.1 VIP TCP/8080")
	w.balances(balancer("move-a/full"), "198.51.100.2 VIP TCP/80")
	for _, change := range []struct {
		to *corev1.Service
		by balancerOption
	}{{waits, inPool("empty")}, {onNodes, annotated(v1beta1.AnnotationSharing, "None")}} {
		edit(w, change.to, change.by) // that has to wait, as nothing is free
	}

	t.Log("a port of another's, and one that the nodes need, is refused where it would be forwarded at once")
	w.everyReplica("where they are to be known", func() error {
		return errors.Join(says(dryEdit(w, waits, ports(port("https", 443))), "held by Service move-a/web"),
			says(dryEdit(w, onNodes, ports(port("kubelet", 10250))), "the nodes reserve this port"))
	})
	mustContain(t, w.refusal(tryEdit(w, waits, ports(port("https", 443)))).Error(), "held by Service move-a/web")
	mustContain(t, w.refusal(tryEdit(w, onNodes, ports(port("kubelet", 10250)))).Error(), "the nodes reserve this port")
	mustContain(t, w.refusal(tryEdit(w, waits, func(svc *corev1.Service) { // also together with where it is to go
		ports(port("https", 443))(svc)
		from("move-nodes")(svc)
		inPool("move-nodes")(svc)
	})).Error(), "held by Service move-a/web")
	w.balances(victim, "198.51.100.1 VIP TCP/443")

	t.Log("one that is free is claimed before it is stored")
	edit(w, waits, ports(port("http", 8444)))
	w.pointHeldBy("addr.198-51-100-1.tcp.8444", "Service move-b/waits")
	w.balances(waits, "198.51.100.1 VIP TCP/8444")
	edit(w, onNodes, ports(port("http", 8081)))
	w.balances(onNodes, "10.0.0.1 VIP TCP/8081")
}

// TestNobodyDisownsAStatus has a Service forget that Portcullis has written its status, while somebody else waits for the
// address.
func TestNobodyDisownsAStatus(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 2}))
	w.create(namespace("disown-a"), namespace("disown-b"))
	w.unguarded(addressPool("disown", []string{"198.51.100.2/31"}, forAll, onRequest))
	going := balancer("disown-a/going", wants("198.51.100.2"), lingering)
	living := balancer("disown-a/living", wants("198.51.100.3"))
	w.admitted(going, living)
	w.balances(going, "198.51.100.2 VIP TCP/80")
	w.balances(living, "198.51.100.3 VIP TCP/80")
	w.delete(going)
	next := []*corev1.Service{balancer("disown-b/two", wants("198.51.100.2")), balancer("disown-b/three", wants("198.51.100.3"))}
	for i := range 100 {
		asked := []string{"198.51.100.2", "198.51.100.3"}[i%2] // of which one is its own, and the other is taken
		for _, err := range []error{
			w.disown(going, ""), w.disown(living, fmt.Sprintf(`,"annotations":{%q:%q,"n":"%d"}`, v1beta1.AnnotationAddressPool, "disown", i)),
			w.disown(living, fmt.Sprintf(`,"annotations":{"n":%q}`, asked)),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, svc := range next {
			if err := w.try(svc.DeepCopy()); err == nil {
				t.Fatalf("round %d: %s/%s has got an address that another Service lists", i, svc.Namespace, svc.Name)
			}
		}
	}
	w.balances(going, "198.51.100.2 VIP TCP/80")
	w.balances(living, "198.51.100.3 VIP TCP/80")
	edit(w, going, dropFinalizers)
	w.pointHeldBy("addr.198-51-100-2", "")
	w.admitted(next[0])
	w.balances(next[0], "198.51.100.2 VIP TCP/80")
}

// full fills a Service with what its owner may write, to the last few bytes that etcd takes (--max-request-bytes: 1.5 MiB).
// Most of it are finalizers, of which there may be any number. Managed fields are reset: the API server itself drops them where
// there is no room.
func (w *fixture) full(svc *corev1.Service) {
	w.t.Helper()
	const limit, around = 3 << 19, 250
	prefix := strings.Repeat(strings.Repeat("x", 62)+".", 3) + "example.com/"
	var finalizers []string
	for i := range 7300 {
		finalizers = append(finalizers, fmt.Sprintf("%q", fmt.Sprintf("%sf%04d", prefix, i)))
	}
	patch := func(pad int) {
		must(w, w.Client.Patch(w.t.Context(), svc.DeepCopy(), client.RawPatch(types.MergePatchType, fmt.Appendf(nil,
			`{"metadata":{"managedFields":[{}],"finalizers":[%s],"annotations":{"pad":%q}}}`, strings.Join(finalizers, ","), strings.Repeat("y", pad)))))
		w.get(svc)
	}
	patch(1)
	patch(limit - around - svc.Size())
	w.t.Logf("%s has %d bytes", svc.Name, svc.Size())
}

// TestAStatusWithoutRoom has Services so large that nothing can be added to them, which get another address, or lose theirs.
func TestAStatusWithoutRoom(t *testing.T) {
	t.Parallel()
	w := newFixture(t, start(t, harness.Options{Replicas: 1, ControlPlane: controlplane.Options{Audit: true}}))
	w.create(namespace("room"))
	w.unguarded(addressPool("room", []string{"198.51.100.4/31"}, sharesPorts, forAll, onRequest))
	moves, loses := balancer("room/moves", wants("198.51.100.4")), balancer("room/loses", wants("198.51.100.4"), ports(port("http", 8080)))
	w.admitted(moves, loses)
	w.balances(moves, "198.51.100.4 VIP TCP/80")
	w.balances(loses, "198.51.100.4 VIP TCP/8080")
	w.full(moves)
	w.full(loses)
	change := func(svc *corev1.Service, text string) {
		t.Helper()
		must(w, w.Client.Patch(t.Context(), svc.DeepCopy(), client.RawPatch(types.JSONPatchType, []byte(text))))
	}
	change(moves, `[{"op":"replace","path":"/metadata/annotations/`+strings.ReplaceAll(v1beta1.AnnotationAddresses, "/", "~1")+`","value":"198.51.100.5"}]`)
	w.balances(moves, "198.51.100.5 VIP TCP/80")
	next := balancer("room/next", wants("198.51.100.4"), ports(port("http", 80)))
	w.eventually("the address that was left to be had", func() error { return w.try(next) })
	w.balances(next, "198.51.100.4 VIP TCP/80")

	restore := w.withoutWebhooks()
	defer restore()
	change(loses, `[{"op":"replace","path":"/spec/ports/0/port","value":80}]`)
	w.eventually("the Service to lose an address on a port that is another's", func() error {
		w.get(loses)
		return is(len(loses.Status.LoadBalancer.Ingress) > 0 && loses.Status.LoadBalancer.Ingress[0].IP != "", false)
	})
}
